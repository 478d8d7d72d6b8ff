"""Models as the libraries export them, read, folded, and run."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from in_iree import iree_result
from installed import needs
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import DenseResourceAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

import qdialect.frontends
from qdialect.check.compared_modules import Side
from qdialect.check.comparison import compare_modules
from qdialect.check.interpreters import TypedArray, find_function, run_function
from qdialect.check.iree_engine import IreeEngine
from qdialect.frontends import from_jax, from_onnx, from_tflite, from_torch
from qdialect.ops.interface import name_of
from qdialect.opt.registry import ToolContext
from qdialect.passes import FoldQuantShapesPass
from qdialect.support.extras import MissingLibraryError, library

pytestmark = [
    pytest.mark.exporters,
    # torchao says where it has not been built for this Python.
    pytest.mark.filterwarnings("ignore"),
]

ROOT = Path(__file__).parents[3]
RANDOM = np.random.default_rng(0)
WEIGHT = RANDOM.integers(-127, 128, (4, 6), dtype=np.int8)
SCALES = RANDOM.uniform(0.01, 0.1, (4, 1)).astype(np.float32)
ZEROS = RANDOM.integers(-3, 4, (4, 1), dtype=np.int8)
INPUTS = (np.arange(12, dtype=np.float32).reshape(2, 6) - 5) / 4

MOVING = ("transpose", "permute", "reshape", "view", "collapse_shape", "expand_shape")


needs_jax = needs("jax")
needs_torch = needs("torch", "torch_mlir")
needs_onnx = needs("onnx", "iree.compiler")
needs_tflite = needs("tosa_converter_for_tflite")


def expected() -> NDArray[Any]:
    """The result of a layer with the weight for INPUTS."""
    return INPUTS @ ((WEIGHT.astype(np.float32) - ZEROS.astype(np.float32)) * SCALES).T


def constant_shape_ops(module: ModuleOp) -> list[str]:
    """The ops that move what does not depend on an argument."""
    variable: set[SSAValue] = {
        arg for op in module.walk() for r in op.regions for b in r.blocks for arg in b.args
    }
    found: list[str] = []
    for op in module.walk():
        if isinstance(op, FuncOp | ModuleOp):
            continue
        if variable.intersection(op.operands):
            variable.update(op.results)
        elif name_of(op).rpartition(".")[2].startswith(MOVING) and op.operands:
            found.append(name_of(op))
    return found


def folded(module: ModuleOp) -> ModuleOp:
    after = module.clone()
    FoldQuantShapesPass().apply(Context(allow_unregistered=True), after)
    after.verify()
    return after


def check_fold(module: ModuleOp) -> ModuleOp:
    """Nothing moves a weight behind the fold, and IREE computes the same."""
    module.verify()
    before, after = module, folded(module)
    assert constant_shape_ops(before)
    assert not constant_shape_ops(after)
    assert len(str(after)) <= len(str(before))
    sides = [Side(each, ToolContext(allow_unregistered=True)) for each in (before, after)]
    comparison = compare_modules(sides[0], sides[1], 16, engine=IreeEngine(sides[0], sides[1]))
    assert not comparison.findings
    assert "by IREE" in str(comparison.verdicts[0])
    return after


def results_of(
    module: ModuleOp, x: NDArray[np.float32], context: Context | None = None
) -> Sequence[NDArray[np.float32]]:
    """What `main` computes from the elements of its argument."""
    (type,) = find_function(module, "main").function_type.inputs
    argument = TypedArray.of(np.ascontiguousarray(x).view("u4"), type)
    results = run_function(module, "main", [argument], context=context)
    return [result.elements.view("f4") for result in results]


# JAX


def jax_layer() -> tuple[Callable[[Any], Any], Any]:
    jax: Any = import_module("jax")
    jnp: Any = import_module("jax.numpy")

    def layer(x: Any) -> Any:
        integers = jnp.asarray(WEIGHT).astype(jnp.float32) - jnp.asarray(ZEROS).astype(jnp.float32)
        return x @ (integers * SCALES).T

    return layer, jax.ShapeDtypeStruct((2, 6), jnp.float32)


@needs_jax
@pytest.mark.iree
def test_jax():
    layer, x = jax_layer()
    after = check_fold(from_jax(layer, x))
    assert np.allclose(iree_result(after, INPUTS), expected(), rtol=1e-5)


@needs_jax
def test_jax_arguments_are_those_of_the_function():
    def first(x: Any, unused: Any) -> Any:
        return x["a"] + x["b"]

    arrays = {"a": np.zeros(3, np.float32), "b": np.ones(3, np.float32)}
    module = from_jax(first, arrays, np.zeros((2, 2), np.int8))
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    assert function.sym_name.data == "main"
    types = [str(type) for type in function.function_type.inputs]
    assert types == ["tensor<3xf32>", "tensor<3xf32>", "tensor<2x2xi8>"]
    jax: Any = import_module("jax")
    jitted = from_jax(jax.jit(first, keep_unused=True), arrays, np.zeros((2, 2), np.int8))
    assert str(jitted) == str(module)


@needs_jax
def test_what_jax_cannot_trace_is_its_error():
    def layer(x: Any) -> Any:
        return x + 1 if x > 0 else x

    with pytest.raises(Exception, match="boolean conversion"):
        from_jax(layer, np.zeros((), np.float32))


# torch


def torch_program() -> Any:
    """A layer that torchao has quantized."""
    torch: Any = import_module("torch")
    torchao: Any = import_module("torchao.quantization")
    granularity: Any = import_module("torchao.quantization.granularity")
    layer = torch.nn.Sequential(torch.nn.Linear(6, 4)).eval()
    with torch.no_grad():
        layer[0].weight.copy_(torch.from_numpy(WEIGHT.astype(np.float32) * SCALES))
        layer[0].bias.zero_()
    config = torchao.IntxWeightOnlyConfig(
        weight_dtype=torch.int8, granularity=granularity.PerAxis(0)
    )
    torchao.quantize_(layer, config)
    return layer, torch.export.export(layer, (torch.from_numpy(INPUTS),))


@needs_torch
@needs("torchao")
@pytest.mark.iree
@pytest.mark.parametrize("form", ["linalg-on-tensors", "stablehlo", "tosa"])
def test_torch(form: Any):
    torch: Any = import_module("torch")
    layer, program = torch_program()
    after = check_fold(from_torch(program, form))
    with torch.no_grad():
        returned = layer(torch.from_numpy(INPUTS)).numpy()
    assert np.allclose(iree_result(after, INPUTS), returned, rtol=1e-5, atol=1e-6)


def without_names(module: ModuleOp) -> str:
    """The text of a module whose values have numbers."""
    for op in module.walk():
        for value in (*op.results, *(arg for r in op.regions for b in r.blocks for arg in b.args)):
            value.name_hint = None
    return str(module)


INTEGERS = ("int8", "uint8", "int16", "int32", "int64", "bool")
DTYPES = (*INTEGERS, "float16", "bfloat16", "float32", "float64")


@needs_torch
@pytest.mark.parametrize("form", ["torch", "linalg-on-tensors", "stablehlo"])
def test_torch_tensors_are_as_torch_mlir_reads_them(form: Any, monkeypatch: pytest.MonkeyPatch):
    """The memory of tensors is handed over, and torch-mlir makes numbers of their elements."""
    from qdialect.frontends import read_printed

    torch: Any = import_module("torch")
    fx: Any = import_module("torch_mlir.fx")

    # torch-mlir knows a tensor by its address, and converts booleans for each use. The next one may
    # have the address of one that is freed, for which it is taken then.
    tracker: Any = import_module("torch_mlir.extras.fx_importer").RefTracker
    track, kept = tracker.track, list[Any]()

    def keep_and_track(self: Any, tensor: Any) -> Any:
        kept.append(tensor)
        return track(self, tensor)

    monkeypatch.setattr(tracker, "track", keep_and_track)

    class Sum(torch.nn.Module):
        def __init__(self) -> None:
            torch.nn.Module.__init__(self)
            for dtype in DTYPES:
                of = (torch.randn(3, 5) * 50).to(getattr(torch, dtype))
                self.register_buffer(f"of_{dtype}", of)
            self.register_buffer("transposed", torch.randn(5, 3).t())
            self.register_buffer("view", torch.randn(40)[3:18].reshape(3, 5))
            self.register_buffer("one", torch.randn(1))
            self.register_buffer("none", torch.randn(0, 5))

        def forward(self, x: Any) -> Any:
            for dtype in DTYPES:
                x = x + getattr(self, f"of_{dtype}").to(torch.float32)
            x = x + self.none.sum()
            return x * self.transposed * self.view * self.one * self.of_int8.to(torch.float32)

    program = torch.export.export(Sum(), (torch.randn(3, 5),))
    slow = fx.export_and_import(program, output_type=form)
    text = slow.operation.get_asm(binary=True, print_generic_op_form=True)
    assert without_names(from_torch(program, form)) == without_names(
        read_printed(text, "slow", None)
    )


@needs_torch
def test_ops_that_are_registered_between_imports_are_decomposed():
    torch: Any = import_module("torch")

    def imported() -> ModuleOp:
        program = torch.export.export(Network(), (torch.ones(2),))
        return from_torch(program, "stablehlo")

    class Network(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x + x

    wanted = str(imported())
    ops = torch.library.Library("qdialect_test", "DEF")
    ops.define("twice(Tensor x) -> Tensor")
    ops.impl("twice", Network().forward, "CompositeImplicitAutograd")
    Network.forward = lambda self, x: torch.ops.qdialect_test.twice(x)
    assert str(imported()) == wanted


@needs_torch
@pytest.mark.parametrize("form", ["linalg-on-tensors", "stablehlo", "tosa"])
@pytest.mark.parametrize("lengths", [(0, 0, 1, -1), (-1, 2, -2, 1), (-1, -1)])
def test_paddings_that_cut(form: Any, lengths: Sequence[int]):
    """A shift of a sequence keeps its shape."""
    torch: Any = import_module("torch")

    class Network(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.nn.functional.pad(x, lengths, value=0.5)

    x = np.random.default_rng(3).normal(size=(2, 5, 4)).astype("f4")
    program = torch.export.export(Network(), (torch.from_numpy(x),))
    module, context = from_torch(program, form), ToolContext()
    (result,) = results_of(module, x, context)
    expected = np.full(Network()(torch.from_numpy(x)).shape, 0.5, "f4")
    source = [slice(None)] * 3
    target = [slice(None)] * 3
    for axis, low, high in zip((2, 1), lengths[::2], lengths[1::2], strict=False):
        length = x.shape[axis]
        source[axis] = slice(max(0, -low), length + min(0, high))
        target[axis] = slice(max(0, low), expected.shape[axis] - max(0, high))
    expected[tuple(target)] = x[tuple(source)]
    np.testing.assert_array_equal(result, expected)


@needs_torch
@pytest.mark.parametrize("form", ["linalg-on-tensors", "stablehlo", "tosa"])
@pytest.mark.parametrize(
    ("shifts", "axes"), [((-3,), (1,)), ((2, 7), (0, -1)), ((5,), (-2,)), ((4,), ()), ((0,), (0,))]
)
def test_parts_that_are_rolled_have_known_lengths(
    form: Any, shifts: Sequence[int], axes: Sequence[int]
):
    """As the windows of a Swin transformer are shifted."""
    torch: Any = import_module("torch")

    class Network(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.roll(x, shifts, axes)

    x = np.arange(60, dtype="f4").reshape(3, 5, 4)
    program = torch.export.export(Network(), (torch.from_numpy(x),))
    module, context = from_torch(program, form), ToolContext()
    assert "?" not in str(module)
    (result,) = results_of(module, x, context)
    expected = np.roll(x, shifts, axes) if axes else np.roll(x, shifts)
    np.testing.assert_array_equal(result, expected)


@needs_torch
@pytest.mark.parametrize("form", ["linalg-on-tensors", "stablehlo", "tosa"])
def test_weights_of_torch_in_lists_of_operands(form: Any):
    """A class token in front of a sequence, and a bias for each pair of places."""
    torch: Any = import_module("torch")

    class Network(torch.nn.Module):
        def __init__(self):
            torch.nn.Module.__init__(self)
            self.token = torch.nn.Parameter(torch.tensor([[0.5, -2.0, 3.0]]))
            self.biases = torch.nn.Parameter(torch.tensor([1.0, 2.0, 4.0, 8.0]))
            self.register_buffer("places", torch.tensor([[2, 0, 1], [3, 3, 0], [1, 2, 3]]))
            self.register_buffer("order", torch.tensor([1, 2, 0]), persistent=False)

        def forward(self, x: Any) -> Any:
            return torch.cat([self.token, x])[self.order] + self.biases[self.places]

    x = np.arange(6, dtype="f4").reshape(2, 3)
    program = torch.export.export(Network(), (torch.from_numpy(x),))
    with warnings.catch_warnings(action="error", category=FutureWarning):
        module = from_torch(program, form, context=(context := ToolContext()))
    (result,) = results_of(module, x, context)
    moved = np.array([x[0], x[1], [0.5, -2, 3]], "f4")
    biases = np.array([[4, 1, 2], [8, 8, 1], [2, 4, 8]], "f4")
    np.testing.assert_array_equal(result, moved + biases)


@needs_torch
def test_torch_buffers_that_are_not_saved():
    torch: Any = import_module("torch")

    class Network(torch.nn.Module):
        def __init__(self):
            torch.nn.Module.__init__(self)
            self.register_buffer("places", torch.tensor([1.0, 2.0]), persistent=False)
            self.register_buffer("offsets", torch.tensor([3.0, 4.0]))

        def forward(self, x: Any) -> Any:
            return x * self.places + self.offsets

    program = torch.export.export(Network(), (torch.ones(2),))
    text = str(from_torch(program, "stablehlo"))
    assert re.search(r"%places = .*dense<\[1\.0*(e\+00)?, 2\.0", text)
    assert re.search(r"%offsets = .*dense<\[3\.0*(e\+00)?, 4\.0", text)
    assert list(program.state_dict) == ["offsets"]


@needs_torch
def test_no_torch_program():
    with pytest.raises(TypeError, match="not an object of type 'int'"):
        from_torch(1)
    with pytest.raises(ValueError, match="there is no form 'linalg'"):
        from_torch(1, "linalg")  # pyright: ignore[reportArgumentType]


@needs_torch
@needs("torchao")
def test_resources_are_kept_in_a_context():
    def resources(module: ModuleOp) -> list[DenseResourceAttr]:
        held = [
            of for op in module.walk() for of in (*op.properties.values(), *op.attributes.values())
        ]
        return [attribute for attribute in held if isinstance(attribute, DenseResourceAttr)]

    _, program = torch_program()
    context = ToolContext(allow_unregistered=True)
    kept = from_torch(program, context=context)
    assert resources(kept)
    FoldQuantShapesPass().apply(context, kept)
    assert not constant_shape_ops(kept)
    assert not resources(from_torch(program))


# ONNX


def onnx_layer(path: Path, name: str = "layer") -> Path:
    onnx: Any = import_module("onnx")
    helper: Any = import_module("onnx.helper")
    from_array: Any = import_module("onnx.numpy_helper").from_array
    constants: Mapping[str, Any] = {
        "w": WEIGHT,
        "s": SCALES.reshape(4),
        "z": ZEROS.reshape(4),
        "xs": np.array(0.25, np.float32),
        "xz": np.array(3, np.int8),
    }
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["wf"], axis=0),
        helper.make_node("Transpose", ["wf"], ["wt"], perm=[1, 0]),
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "xs", "xz"], ["xf"]),
        helper.make_node("MatMul", ["xf", "wt"], ["y"]),
    ]
    tensors = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", [2, 6]), ("y", [2, 4]))
    ]
    initializers = [from_array(of, name) for name, of in constants.items()]
    graph = helper.make_graph(nodes, name, tensors[:1], tensors[1:], initializers)
    opset = [helper.make_opsetid("", 21)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=10), str(path))
    return path


@needs_onnx
@pytest.mark.iree
def test_onnx(tmp_path: Path):
    after = check_fold(from_onnx(onnx_layer(tmp_path / "layer.onnx")))
    # The inputs are multiples of their scale.
    assert np.allclose(iree_result(after, INPUTS), expected(), rtol=1e-5)


@needs_onnx
@pytest.mark.parametrize("field", ["offset", "scale"])
def test_the_scaler_of_onnx_is_arithmetic(field: str, tmp_path: Path):
    """Scikit-learn's models begin with it, often of integers."""
    onnx: Any = import_module("onnx")
    helper: Any = import_module("onnx.helper")
    numbers = {"offset": [1.0, 2.0], "scale": [0.5]}
    node = helper.make_node("Scaler", ["x"], ["y"], domain="ai.onnx.ml", **{field: numbers[field]})
    x, y = (
        helper.make_tensor_value_info(name, type, [3, 2])
        for name, type in (("x", onnx.TensorProto.INT64), ("y", onnx.TensorProto.FLOAT))
    )
    graph = helper.make_graph([node], "scaler", [x], [y])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    path = tmp_path / "scaler.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), str(path))
    (function,) = from_onnx(path).body.block.ops
    assert isinstance(function, FuncOp)
    x_values = np.array([[1, 2], [3, 4], [-5, 6]])
    given = TypedArray.of_numbers(x_values, function.function_type.inputs.data[0])
    (result,) = run_function(from_onnx(path), "scaler", [given])
    expected_values = x_values - [1, 2] if field == "offset" else x_values * 0.5
    assert result.numbers.tolist() == expected_values.tolist()


DEFINED: dict[str, tuple[int, list[tuple[int, ...]], dict[str, Any]]] = {
    "Attention": (23, [(1, 2, 5, 8)] * 3, {"is_causal": 1}),
    "Gelu": (20, [(3, 8)], {"approximate": "tanh"}),
    "GroupNormalization": (21, [(2, 4, 3, 3), (4,), (4,)], {"num_groups": 2}),
    "RMSNormalization": (23, [(3, 8), (8,)], {}),
    "RotaryEmbedding": (23, [(1, 2, 5, 8), (1, 5, 4), (1, 5, 4)], {}),
    "Swish": (24, [(3, 8)], {}),
}
"""Functions of ONNX, their opsets, the shapes of inputs, and attributes."""


@needs_onnx
@pytest.mark.parametrize("name", DEFINED)
def test_functions_that_the_importer_lacks_are_what_onnx_defines(name: str, tmp_path: Path):
    """The evaluator of ONNX computes them by code of its own, not by their definitions."""
    onnx: Any = import_module("onnx")
    helper: Any = import_module("onnx.helper")
    evaluator: Any = import_module("onnx.reference").ReferenceEvaluator
    version, shapes, attributes = DEFINED[name]
    x, *weights = (
        np.random.default_rng(at).standard_normal(shape, "f4") for at, shape in enumerate(shapes)
    )
    node = helper.make_node(name, [*"xabc"[: len(shapes)]], ["y"], **attributes)
    ends = [helper.make_tensor_value_info(end, onnx.TensorProto.FLOAT, shapes[0]) for end in "xy"]
    constants = [onnx.numpy_helper.from_array(*pair) for pair in zip(weights, "abc", strict=False)]
    graph = helper.make_graph([node], "main", ends[:1], ends[1:], constants)
    opsets = [helper.make_opsetid("", version)]
    path = tmp_path / "function.onnx"
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    onnx.save(model, str(path))
    module = from_onnx(path)
    (result,) = results_of(module, x)
    (expected_result,) = evaluator(model).run(None, {"x": x})
    np.testing.assert_allclose(result, expected_result, rtol=1e-5, atol=2e-6)
    assert f'"onnx.{name}"' in str(from_onnx(path, "onnx"))


@needs_onnx
def test_onnx_ops(tmp_path: Path):
    module = from_onnx(str(onnx_layer(tmp_path / "layer.onnx")), "onnx")
    assert '"onnx.DequantizeLinear"' in str(module)
    with pytest.raises(ValueError, match="there is no form 'linalg'"):
        from_onnx("none.onnx", "linalg")  # pyright: ignore[reportArgumentType]
    with pytest.raises(FileNotFoundError):
        from_onnx(tmp_path / "none.onnx")


@needs_onnx
def test_the_name_of_a_graph_is_an_identifier(tmp_path: Path):
    path = onnx_layer(tmp_path / "layer.onnx", "Model from PaddlePaddle.")
    assert "func.func @Model_from_PaddlePaddle(" in str(from_onnx(path))


# TFLite

TFLITE = ROOT / "examples" / "linear.tflite"


@needs_tflite
@pytest.mark.iree
def test_tflite():
    after = check_fold(from_tflite(TFLITE))
    assert iree_result(after, np.full((1, 12), 10, np.int8)).tolist() == [[6, -4, 2, -2, 89]]


@needs_tflite
def test_no_tflite_model(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        from_tflite(tmp_path / "none.tflite")
    (tmp_path / "text.tflite").write_text("no model")
    with pytest.raises(ValueError, match="Could not convert the TFLite model"):
        from_tflite(tmp_path / "text.tflite")


@needs("tflite")
def test_the_tflite_example_is_what_its_script_writes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "examples"), *sys.path])
    assert import_module("make_tflite").linear_model() == TFLITE.read_bytes()


@needs_tflite
@needs("tflite")
def test_lengths_that_a_tflite_model_leaves_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "examples"), *sys.path])
    example: Any = import_module("make_tflite")
    table = example.ModelWriter.table

    def table_with_signature(writer: Any, name: str, **fields: Any) -> int:
        # Those of constants are not open.
        if name == "Tensor" and not fields["Buffer"]:
            length = example.OUTPUTS if writer.tensors else example.INPUTS
            fields["ShapeSignature"] = writer.array((-1, length), "<i4")
        return table(writer, name, **fields)

    monkeypatch.setattr(example.ModelWriter, "table", table_with_signature)
    path = tmp_path / "open.tflite"
    path.write_bytes(example.linear_model())
    assert "tensor<?x12xi8>" in str(from_tflite(path))
    assert str(from_tflite(path, shapes={"x": (1, 12)})) == str(from_tflite(TFLITE))
    with pytest.raises(ValueError, match="other shapes in the file are for 'x' of shape 1,12"):
        from_tflite(path, shapes={"x": (2, 12)})
    with pytest.raises(ValueError, match="no input 'y'; the inputs are 'x'"):
        from_tflite(path, shapes={"y": (1, 12)})
    path.write_bytes(b"no model")
    with pytest.raises(ValueError, match="it is no model of TensorFlow Lite"):
        from_tflite(path, shapes={"x": (1, 12)})


# What is not installed

CALLS: Mapping[str, tuple[str, Callable[[], object]]] = {
    "jax": ("jax", lambda: from_jax(abs, np.zeros(2))),
    "torch": ("torch", lambda: from_torch(None)),
    "onnx": ("onnx", lambda: from_onnx("none.onnx")),
    "tflite": ("tosa_converter_for_tflite", lambda: from_tflite("none.tflite")),
}


@pytest.mark.parametrize("extra", CALLS)
def test_an_error_says_which_extra_to_install(extra: str, monkeypatch: pytest.MonkeyPatch):
    package, call = CALLS[extra]
    for name in [*sys.modules, package]:
        if name.partition(".")[0] in (package, "torch_mlir"):
            monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Missing(package), *sys.meta_path])
    with pytest.raises(MissingLibraryError) as raised:
        call()
    advice = f'pip install ".[{extra}]" in a clone of qdialect'
    assert str(raised.value) == f"'{package}' is not installed: {advice}"


class Missing:
    """Hides a package."""

    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] in (self.package, "torch_mlir"):
            raise ModuleNotFoundError(f"No module named '{self.package}'", name=self.package)


def test_what_a_library_raises_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "broken_library.py").write_text("raise RuntimeError('broken')")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(RuntimeError, match="broken"):
        library("broken_library", "jax")


def test_names_are_exported():
    assert {name for name in dir(qdialect.frontends) if name.startswith("from_")} <= {
        *qdialect.frontends.__all__
    }
    for name in qdialect.frontends.__all__:
        assert getattr(qdialect.frontends, name) is not None


def test_a_converter_that_crashes_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tosa_converter_for_tflite.py").write_text(
        "import enum, os, signal\n"
        "TosaConverterOutputFormat = enum.Enum('TosaConverterOutputFormat', 'Text')\n"
        "def tflite_flatbuffer_to_tosa_mlir(*_, **__):\n"
        "    os.kill(os.getpid(), signal.SIGSEGV)\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.delitem(sys.modules, "tosa_converter_for_tflite", raising=False)
    (tmp_path / "model.tflite").touch()
    with pytest.raises(ValueError, match="the converter crashed, with signal 11"):
        from_tflite(tmp_path / "model.tflite")
    monkeypatch.delitem(sys.modules, "tosa_converter_for_tflite")


@pytest.mark.exporters
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_of_torch_are_loops(kind: str) -> None:
    """Of several steps: what they compute is what PyTorch does."""
    torch: Any = pytest.importorskip("torch")
    pytest.importorskip("torch_mlir.fx")
    for is_first, has_bias in ((True, False), (False, True)):
        more = {"bidirectional": has_bias, "batch_first": is_first, "bias": has_bias}
        layer = getattr(torch.nn, kind)(3, 4, 2, **more).eval()
        x = torch.randn(2, 5, 3)
        module = from_torch(torch.export.export(layer, (x,)))
        assert str(module).count("scf.for") == (4 if has_bias else 2)
        # Weights are transposed once, and not in each step.
        loops = [op for op in module.walk() if op.name == "scf.for"]
        assert "linalg.transpose" not in {op.name for loop in loops for op in loop.walk()}
        result, *_ = results_of(module, x.numpy())
        expected = layer(x)[0].detach().numpy()
        np.testing.assert_allclose(result, expected, atol=1e-6)
