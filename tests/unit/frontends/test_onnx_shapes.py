"""Models of ONNX with computed shapes and `If`s: what is left runs as in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from installed import needs
from numpy.typing import NDArray
from xdsl.dialects.func import FuncOp

from qdialect.check.interpreters import TypedArray, run_function
from qdialect.frontends import from_onnx
from qdialect.frontends.import_tool import main
from qdialect.opt.registry import ToolContext

needs_tools = needs("onnx", "onnxruntime", "iree.compiler")
pytestmark = [pytest.mark.exporters, needs_tools, pytest.mark.filterwarnings("ignore")]

FLOAT, INT64, BOOL = 1, 7, 9


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return import_module("onnx").helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def graph(nodes: Sequence[Any], inputs: Sequence[Any], outputs: str, **constants: Any) -> Any:
    """A graph whose results have open shapes."""
    onnx: Any = import_module("onnx")
    results = [onnx.helper.make_tensor_value_info(name, FLOAT, None) for name in outputs.split()]
    tensors = [
        onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()
    ]
    return onnx.helper.make_graph(nodes, "main", inputs, results, tensors)


def value(name: str, shape: Sequence[Any], type: int = FLOAT) -> Any:
    return import_module("onnx").helper.make_tensor_value_info(name, type, shape)


def save(path: Path, graph: Any, opset: int = 17) -> str:
    onnx: Any = import_module("onnx")
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    model.ir_version = 8
    onnx.save(model, str(path / "model.onnx"))
    return str(path / "model.onnx")


def check(
    path: str,
    given: Mapping[str, NDArray[Any]],
    shapes: Mapping[str, Sequence[int]],
    values: Mapping[str, float],
) -> set[str]:
    """Compare the results with ONNX Runtime's. Returns the names of the ops."""
    runtime: Any = import_module("onnxruntime")
    inputs = {**given, **{name: np.array(number) for name, number in values.items()}}
    expected = runtime.InferenceSession(path).run(None, inputs)
    module = from_onnx(path, shapes=shapes, values=values)
    (function,) = (op for op in module.walk() if isinstance(op, FuncOp))
    types = function.function_type.inputs.data
    arguments = [
        TypedArray.of(array.view("u4"), type)
        for array, type in zip(given.values(), types, strict=True)
    ]
    results = run_function(module, function.sym_name.data, arguments, context=ToolContext())
    for result, wanted in zip(results, expected, strict=True):
        assert result.shape == wanted.shape
        assert np.allclose(result.elements.view("f4"), wanted, rtol=1e-5, atol=1e-6)
    return {op.name for op in module.walk()}


X: NDArray[Any] = np.random.default_rng(2).normal(size=(2, 1, 3)).astype("f4")


def branch_on_a_length(axis: int) -> Any:
    """A squeeze as torch writes it: only if the axis has length 1."""
    squeeze = graph([node("Squeeze", "x axis", "y")], [], "y", axis=[axis])
    same = graph([node("Identity", "x", "y")], [], "y")
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape axis", "length"),
        node("Equal", "length one", "is_one"),
        node("If", "is_one", "z", then_branch=squeeze, else_branch=same),
        node("Neg", "z", "result"),
    ]
    open_input = value("x", ["a", "b", "c"])
    return graph(nodes, [open_input], "result", axis=np.int64(axis), one=np.int64(1))


@pytest.mark.parametrize("axis", [0, 1])
def test_a_branch_that_a_length_chooses(tmp_path: Path, axis: int) -> None:
    path = save(tmp_path, branch_on_a_length(axis))
    names = check(path, {"x": X}, {"x": X.shape}, {})
    assert "scf.if" not in names


@pytest.mark.parametrize("rate", [8000, 16000])
def test_nested_branches_that_a_value_chooses(tmp_path: Path, rate: int) -> None:
    """The branches of both sides use the same names, one of which is used outside, too."""

    def side(factor: float, inner: str) -> Any:
        deeper = graph([node("Mul", "t c", "u")], [], "u", c=np.float32(factor))
        other = graph([node(inner, "t", "u")], [], "u")
        nodes = [
            node("Add", "x c", "t"),
            node("ReduceMax", "sizes", "m", keepdims=0),
            node("Greater", "m bound", "is_large"),
            node("If", "is_large", "y", then_branch=deeper, else_branch=other),
        ]
        return graph(nodes, [], "y", c=np.float32(1 + factor), bound=np.int64(3 * (factor > 2)))

    nodes = [
        node("Shape", "x", "sizes"),
        node("Mul", "x c", "t_outside"),
        node("Equal", "rate high", "is_high"),
        node("If", "is_high", "z", then_branch=side(2, "Neg"), else_branch=side(3, "Abs")),
        node("Sub", "z t_outside", "result"),
    ]
    inputs = [value("x", [*X.shape]), value("rate", [], INT64)]
    whole = graph(nodes, inputs, "result", c=np.float32(5), high=np.int64(16000))
    names = check(save(tmp_path, whole), {"x": X}, {}, {"rate": rate})
    assert "scf.if" not in names


def test_a_branch_that_the_input_chooses_stays(tmp_path: Path) -> None:
    one, other = (graph([node(op, "x", "y")], [], "y") for op in ("Neg", "Abs"))
    nodes = [
        node("ReduceMax", "x", "most", keepdims=0),
        node("Greater", "most zero", "is_positive"),
        node("If", "is_positive", "result", then_branch=one, else_branch=other),
    ]
    whole = graph(nodes, [value("x", [*X.shape])], "result", zero=np.float32(0))
    for array in (X, -abs(X)):
        assert "scf.if" in check(save(tmp_path, whole), {"x": array}, {}, {})


def test_random_numbers_are_no_constants(tmp_path: Path) -> None:
    """The condition differs between runs, although no input does."""
    onnx: Any = import_module("onnx")
    one, other = (graph([node(op, "x", "y")], [], "y") for op in ("Neg", "Abs"))
    nodes = [
        node("RandomUniform", "", "random", shape=[1]),
        node("Cast", "random", "bit", to=BOOL),
        node("If", "bit", "result", then_branch=one, else_branch=other),
    ]
    shapes: Any = import_module("qdialect.frontends.onnx_shapes")
    path = save(tmp_path, graph(nodes, [value("x", [2])], "result"))
    known = shapes.with_known_shapes(onnx, onnx.load(path), ())
    assert "If" in {inner.op_type for inner in known.graph.node}


def test_a_shape_that_is_computed(tmp_path: Path) -> None:
    """ONNX's own inference of shapes does not see through the arithmetic."""
    nodes = [
        node("Shape", "x", "shape"),
        node("ReduceProd", "shape", "count", keepdims=1),
        node("Div", "count two", "half"),
        node("Concat", "two half", "sizes", axis=0),
        node("Reshape", "x sizes", "result"),
    ]
    whole = graph(nodes, [value("x", ["n", 1, 3])], "result", two=[2])
    check(save(tmp_path, whole), {"x": X}, {"x": X.shape}, {})
    module = from_onnx(tmp_path / "model.onnx", shapes={"x": X.shape})
    (function,) = (op for op in module.walk() if isinstance(op, FuncOp))
    assert str(function.function_type) == "(tensor<2x1x3xf32>) -> tensor<2x3xf32>"


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--value=y=1", "there is no input 'y'; the inputs are 'x', 'rate'"),
        ("--value=x=1", "input 'x' has open lengths: give its shape, too"),
        ("--value=rate=1.5", "input 'rate' has elements of type int64, which 1.5 is not"),
    ],
)
def test_values_that_inputs_cannot_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], argument: str, message: str
) -> None:
    inputs = [value("x", ["n"]), value("rate", [], INT64)]
    path = save(tmp_path, graph([node("Neg", "x", "y")], inputs, "y"))
    assert main([path, argument]) == 1
    assert capsys.readouterr().err == (
        f"qdialect-import: error: cannot import '{path}': {message}\n"
    )


@pytest.mark.parametrize(
    ("arrays", "more", "shapes"),
    [
        ({"x": (5, 2, 7), "y": (5, 2, 7)}, (), ["x=1,2,7", "y=1,2,7"]),
        ({"x": (5, 4, 2, 7), "y": (5, 4, 2, 7)}, (), ["x=4,2,7", "y=4,2,7"]),
        ({"x": (4, 2, 7), "y": (3, 2, 7)}, (), ["x=4,2,7", "y=3,2,7"]),
        ({"x": (4, 2, 7), "y": (3, 2, 7)}, ("--shape=x=4,2,7",), ["y=3,2,7"]),
        ({"x": (5, 2, 7), "y": (5, 2, 7)}, ("--value=y=1", "--shape=y=1,2,7"), ["x=1,2,7"]),
    ],
)
def test_lengths_of_records(
    arrays: Mapping[str, Sequence[int]],
    more: Sequence[str],
    shapes: Sequence[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Arrays that all begin with the same length are several records if the model allows it."""
    inputs = [value(name, ["n", 2, "m"]) for name in "xy"]
    path = save(tmp_path, graph([node("Concat", "x y", "z", axis=0)], inputs, "z"))
    zeros: dict[str, Any] = {name: np.zeros(shape, "f4") for name, shape in arrays.items()}
    np.savez(tmp_path / "data.npz", **zeros)
    assert main([path, "--data", str(tmp_path / "data.npz"), *more]) == 0
    printed = capsys.readouterr()
    told = [line.rpartition("--shape=")[2] for line in printed.err.splitlines()]
    assert told == list(shapes)
    (function,) = (line for line in printed.out.splitlines() if "func.func" in line)
    for shape in shapes:
        name, _, lengths = shape.partition("=")
        assert f"%{name}: tensor<{lengths.replace(',', 'x')}xf32>" in function


def test_lengths_in_which_records_differ_stay_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = save(tmp_path, graph([node("Neg", "x", "y")], [value("x", [2, "n"])], "y"))
    for length in (3, 4):
        np.save(tmp_path / f"{length}.npy", np.zeros((2, length), "f4"))
    assert main([path, "--data", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    assert not printed.err
    assert "%x: tensor<2x?xf32>" in printed.out


def test_values_that_are_no_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model.onnx", "--value=x"]) == 1
    assert "--value must be like rate=16000, but is 'x'" in capsys.readouterr().err


@needs("silero_vad")
@pytest.mark.parametrize("name", ["silero_vad", "silero_vad_half", "silero_vad_openvino_16k"])
def test_models_of_silero(name: str) -> None:
    """Speech detection with branches on the rate and on lengths, and a recurrent layer."""
    path = Path(str(import_module("silero_vad").__file__)).parent / "data" / f"{name}.onnx"
    random = np.random.default_rng(0)
    given = {
        "input": random.normal(size=(1, 576)).astype("f4") / 10,
        "state": random.normal(size=(2, 1, 128)).astype("f4"),
    }
    names = check(
        str(path),
        given,
        {name: array.shape for name, array in given.items()},
        {"sr": 16000} if name == "silero_vad" else {},
    )
    assert "scf.if" not in names


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("direction", ["reverse", "bidirectional"])
@pytest.mark.parametrize("has_state", [False, True])
def test_recurrent_layers_of_any_direction(
    kind: str, direction: str, has_state: bool, tmp_path: Path
) -> None:
    random = np.random.default_rng(7)
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    ways, hidden, inputs = 1 + (direction == "bidirectional"), 4, 3
    shapes = {
        "w": (ways, gates * hidden, inputs),
        "r": (ways, gates * hidden, hidden),
        "b": (ways, 2 * gates * hidden),
    }
    weights = {name: random.normal(size=shape).astype("f4") for name, shape in shapes.items()}
    given = {"x": random.normal(size=(5, 1, inputs)).astype("f4")}
    results = node(kind, "x w r b", "y h", hidden_size=hidden, direction=direction)
    if kind == "GRU":
        results.attribute.append(node("", "", "", linear_before_reset=1).attribute[0])
    if kind == "RNN":
        results.attribute.append(node("", "", "", activations=["Relu", "Tanh"][:ways]).attribute[0])
    if has_state:
        given["state"] = random.normal(size=(ways, 1, hidden)).astype("f4")
        results.input.extend(["", "state"])
        if kind == "LSTM":
            results.input.append("state")
    ends = [value(name, array.shape) for name, array in given.items()]
    check(save(tmp_path, graph([results], ends, "y h", **weights)), given, {}, {})


@pytest.mark.parametrize(
    ("kind", "inputs", "attributes", "what"),
    [
        ("GRU", "x w r b lengths", {}, "lengths of sequences"),
        ("LSTM", "x w r b  s s p", {}, "peepholes"),
        ("RNN", "x w r b", {"clip": 0.5}, "a clip"),
        ("GRU", "x w r b", {"activations": ["HardSigmoid", "Tanh"]}, "its activations"),
    ],
)
def test_what_is_not_read_of_recurrent_layers(
    kind: str,
    inputs: str,
    attributes: Mapping[str, Any],
    what: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The importer ignores it, and computes something else."""
    layer = node(kind, "", "y", hidden_size=1, **attributes)
    layer.input.extend(inputs.split(" "))
    path = save(tmp_path, graph([layer], [value("x", [2, 1, 1])], "y"))
    assert main([path]) == 1
    message = f"'{kind}' at 'y' has no form in other dialects for {what}"
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("storage", ["u1", "i1"])
@pytest.mark.parametrize("name", ["matrix", "matrices", "columns", "convolution"])
def test_layers_of_codes_are_layers_between_casts(name: str, storage: str, tmp_path: Path) -> None:
    """LLVM drops zero points of several matrices, and of codes without a sign."""
    onnx: Any = import_module("onnx")
    random, is_conv = np.random.default_rng(4), name == "convolution"
    x_shape, w_shape = {
        "matrix": ((2, 4), (4, 3)),
        "matrices": ((2, 2, 4), (2, 4, 3)),
        "columns": ((2, 4), (4, 3)),
        "convolution": ((1, 2, 5, 5), (3, 2, 3, 3)),
    }[name]
    count = 3 if is_conv or name == "columns" else 1
    zero = 100 if storage == "u1" else 7
    numbers: dict[str, Any] = {
        "xs": np.float32(0.125),
        "xz": np.array(zero, storage),
        "w": random.integers(0, 100, w_shape).astype(storage),
        "ws": np.float32(0.0625) * np.arange(1, count + 1, dtype="f4"),
        "wz": np.full(count, zero, storage),
        "ys": np.float32(32 if is_conv else 4 if name == "columns" else 1),
        "yz": np.array(zero - 1, storage),
    }
    if is_conv:
        numbers["wz"] = np.zeros(count, storage)
        numbers["b"] = random.integers(-999, 999, 3).astype("i4")
    kind = "QLinearConv" if is_conv else "QLinearMatMul"
    names = "x xs xz w ws wz ys yz" + " b" * is_conv
    type = onnx.TensorProto.UINT8 if storage == "u1" else onnx.TensorProto.INT8
    layer = graph([node(kind, names, "y")], [value("x", x_shape, type)], "y", **numbers)
    layer.output[0].CopyFrom(onnx.helper.make_tensor_value_info("y", type, None))
    path = save(tmp_path, layer)
    x = random.integers(0, 100, x_shape).astype(storage)
    runtime: Any = import_module("onnxruntime")
    (expected,) = runtime.InferenceSession(path).run(None, {"x": x})
    module = from_onnx(path)
    (function,) = (op for op in module.walk() if isinstance(op, FuncOp))
    given = [TypedArray.of(x.view("i1"), function.function_type.inputs.data[0])]
    (result,) = run_function(module, function.sym_name.data, given, context=ToolContext())
    difference = result.elements.view(storage).astype(int) - expected
    assert np.abs(difference).max() <= 1
    assert len(np.unique(expected)) > 3


@pytest.mark.parametrize("x", [[0.5, 2.0, -0.25], [-1.0, -3.0, -2.5], [4.0, -6.0, 1.0]])
def test_bytes_without_a_sign_are_cast(x: Sequence[float], tmp_path: Path) -> None:
    """Also the zero points that are computed, which are up to 255."""
    nodes = [
        node("DynamicQuantizeLinear", "x", "codes scale zero"),
        node("DequantizeLinear", "codes scale zero", "y"),
        node("Cast", "zero", "z", to=FLOAT),
    ]
    path = save(tmp_path, graph(nodes, [value("x", [3])], "y z"))
    check(path, {"x": np.array(x, "f4")}, {}, {})


@pytest.mark.parametrize(
    ("pads", "axes"),
    [([0, 1, 0, 0, -1, 0], None), ([0, -2, 1, 0, 2, -1], None), ([-1, 2, 1, -1], [2, 0])],
)
def test_paddings_that_cut(pads: Sequence[int], axes: Sequence[int] | None, tmp_path: Path) -> None:
    """A shift of a sequence keeps its shape."""
    x = np.random.default_rng(3).normal(size=(3, 5, 4)).astype("f4")
    names, constants = "x pads zero", {"pads": pads, "zero": np.float32(0.5)}
    if axes is not None:
        names, constants = f"{names} axes", {**constants, "axes": axes}
    whole = graph([node("Pad", names, "y")], [value("x", x.shape)], "y", **constants)
    check(save(tmp_path, whole, opset=17 if axes is None else 18), {"x": x}, {}, {})


def test_shapes_of_results_are_those_that_are_computed(tmp_path: Path) -> None:
    whole = graph([node("Transpose", "x", "y", perm=[2, 1, 0])], [value("x", [*X.shape])], "y")
    whole.output[0].CopyFrom(value("y", [*X.shape]))
    check(save(tmp_path, whole), {"x": X}, {}, {})
