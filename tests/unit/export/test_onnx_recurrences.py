"""Recurrent layers stay one node: ONNX Runtime computes what it does of the imported model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from installed import needs
from numpy.typing import NDArray

from qdialect.export.export_tool import main as export
from qdialect.frontends.import_tool import main as import_model

pytestmark = [
    needs("iree.compiler", "onnx", "onnxruntime"),
    pytest.mark.exporters,
    pytest.mark.without_xdsl,
]

GATES: Final = {"LSTM": 4, "GRU": 3, "RNN": 1}
NODES: Final = {*GATES, "Loop"}


def model_of(
    type: str,
    sizes: Sequence[int],
    directions: int,
    initial: int,
    results: Sequence[int],
    **more: Any,
) -> Any:
    """A model of one recurrent node, of random weights."""
    onnx: Any = pytest.importorskip("onnx")
    make, random = onnx.helper.make_tensor_value_info, np.random.default_rng(7)
    steps, batch, length, size = sizes
    shapes = {
        "w": (directions, GATES[type] * size, length),
        "r": (directions, GATES[type] * size, size),
        "b": (directions, 2 * GATES[type] * size),
    }
    weights = [
        onnx.numpy_helper.from_array(random.standard_normal(shape).astype("f4") / 2, name)
        for name, shape in shapes.items()
    ]
    state, ends = [directions, batch, size], [f"h{at}" for at in range(initial)]
    names = [f"y{at}" if at in results else "" for at in range(max(results) + 1)]
    node = onnx.helper.make_node(
        type, ["x", "w", "r", "b", "", *ends], names, name="layer", hidden_size=size, **more
    )
    inputs = [make("x", onnx.TensorProto.FLOAT, [steps, batch, length])]
    inputs += [make(name, onnx.TensorProto.FLOAT, state) for name in ends]
    outputs = [
        make(f"y{at}", onnx.TensorProto.FLOAT, state if at else [steps, *state]) for at in results
    ]
    graph = onnx.helper.make_graph([node], "main", inputs, outputs, weights)
    opset = onnx.helper.make_opsetid("", 17)
    return onnx.helper.make_model(graph, opset_imports=[opset], ir_version=9)


def written(path: Path) -> Counter[str]:
    onnx: Any = pytest.importorskip("onnx")
    types = (node.op_type for node in onnx.load(str(path)).graph.node)
    return Counter(type for type in types if type in NODES)


def results_of(path: Path, inputs: Sequence[NDArray[Any]]) -> Sequence[NDArray[Any]]:
    onnxruntime: Any = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]
    return session.run(None, dict(zip(names, inputs, strict=True)))


@pytest.mark.parametrize(
    ("type", "sizes", "directions", "initial", "results", "more"),
    [
        ("LSTM", (6, 2, 5, 3), 1, 0, (0,), {}),
        ("LSTM", (3, 1, 1, 4), 1, 2, (0, 1, 2), {}),
        ("LSTM", (4, 4, 4, 4), 2, 2, (0, 2), {"direction": "bidirectional"}),
        ("LSTM", (2, 1, 3, 1), 1, 0, (1,), {}),
        ("LSTM", (60, 1, 64, 48), 1, 0, (1,), {}),
        ("GRU", (5, 1, 4, 6), 1, 0, (0, 1), {}),
        ("GRU", (5, 3, 4, 6), 1, 1, (0, 1), {"linear_before_reset": 1}),
        ("GRU", (4, 3, 4, 2), 1, 1, (0,), {"direction": "reverse"}),
        ("RNN", (6, 2, 3, 5), 1, 0, (0, 1), {}),
        ("RNN", (6, 2, 3, 5), 1, 1, (1,), {"activations": ["Relu"]}),
    ],
)
def test_recurrent_nodes_stay(
    type: str,
    sizes: Sequence[int],
    directions: int,
    initial: int,
    results: Sequence[int],
    more: Mapping[str, Any],
    tmp_path: Path,
) -> None:
    onnx: Any = pytest.importorskip("onnx")
    before, module, after = (tmp_path / name for name in ("a.onnx", "a.mlir", "b.onnx"))
    model = model_of(type, sizes, directions, initial, results, **more)
    onnx.save(model, str(before))
    assert import_model([str(before), "-o", str(module)]) == 0
    assert export([str(module), "-o", str(after)]) == 0
    assert written(after) == {type: directions}
    random = np.random.default_rng(0)
    inputs = [
        random.standard_normal([dim.dim_value for dim in one.type.tensor_type.shape.dim])
        for one in model.graph.input
    ]
    inputs = [one.astype("f4") for one in inputs]
    for one, other in zip(results_of(before, inputs), results_of(after, inputs), strict=True):
        # The weights are those of the model, to the bit, and so is the kernel.
        np.testing.assert_array_equal(other, one)


STEP: Final = """
func.func @main(%x: tensor<4x1x2xf32>) -> tensor<1x2xf32> {{
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %four = arith.constant 4 : index
  %h = arith.constant dense<0.5> : tensor<1x2xf32>
  %w = arith.constant dense<[[0.5, -1.0], [2.0, 0.25]]> : tensor<2x2xf32>
  %r = arith.constant dense<[[-0.75, 1.5], [1.0, 0.5]]> : tensor<2x2xf32>
  %last = scf.for %i = %zero to %four step %one iter_args(%a = %h) -> (tensor<1x2xf32>) {{
    %s = tensor.extract_slice %x[%i, 0, 0] [1, 1, 2] [1, 1, 1]
      : tensor<4x1x2xf32> to tensor<1x2xf32>
    %e = linalg.matmul ins(%s, %w : tensor<1x2xf32>, tensor<2x2xf32>)
      outs(%h : tensor<1x2xf32>) -> tensor<1x2xf32>
    %f = linalg.matmul ins(%a, %r : tensor<1x2xf32>, tensor<2x2xf32>)
      outs(%e : tensor<1x2xf32>) -> tensor<1x2xf32>
    {end}
    scf.yield %y : tensor<1x2xf32>
  }}
  return %last : tensor<1x2xf32>
}}
"""


@pytest.mark.parametrize(
    ("end", "node"),
    [
        ("%y = math.tanh %f : tensor<1x2xf32>", "RNN"),
        # It changes the state after the activation, or before.
        ("%t = math.tanh %f : tensor<1x2xf32>\n%y = arith.addf %t, %a : tensor<1x2xf32>", "Loop"),
        ("%t = arith.mulf %f, %f : tensor<1x2xf32>\n%y = math.tanh %t : tensor<1x2xf32>", "Loop"),
        ("%t = math.tanh %s : tensor<1x2xf32>\n%y = arith.mulf %t, %f : tensor<1x2xf32>", "Loop"),
    ],
)
def test_only_what_computes_the_same_is_a_node(end: str, node: str, tmp_path: Path) -> None:
    (tmp_path / "a.mlir").write_text(STEP.format(end=end))
    assert export([str(tmp_path / "a.mlir"), "-o", str(tmp_path / "a.onnx")]) == 0
    assert written(tmp_path / "a.onnx") == {node: 1}
    x = np.random.default_rng(0).standard_normal((4, 1, 2)).astype("f4")
    state = np.full((1, 2), 0.5)
    for step in x:
        sums = 0.5 + step @ [[0.5, -1.0], [2.0, 0.25]] + state @ [[-0.75, 1.5], [1.0, 0.5]]
        if node == "RNN":
            state = np.tanh(sums)
        elif "addf %t, %a" in end:
            state = np.tanh(sums) + state
        else:
            state = np.tanh(sums**2) if "mulf %f, %f" in end else np.tanh(step) * sums
    (result,) = results_of(tmp_path / "a.onnx", [x])
    np.testing.assert_allclose(result, state, rtol=1e-5)


def test_a_number_that_a_loop_carries_is_no_state(tmp_path: Path) -> None:
    (tmp_path / "a.mlir").write_text("""
func.func @main(%x: tensor<4xf32>) -> f32 {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %four = arith.constant 4 : index
  %h = arith.constant 0.5 : f32
  %last = scf.for %i = %zero to %four step %one iter_args(%a = %h) -> (f32) {
    %e = tensor.extract %x[%i] : tensor<4xf32>
    %s = arith.addf %a, %e : f32
    %y = math.tanh %s : f32
    scf.yield %y : f32
  }
  return %last : f32
}""")
    assert export([str(tmp_path / "a.mlir"), "-o", str(tmp_path / "a.onnx")]) == 0
    assert written(tmp_path / "a.onnx") == {"Loop": 1}
    x = np.array([1.0, -2.0, 0.25, 0.5], "f4")
    state = 0.5
    for number in x:
        state = np.tanh(state + number)
    (result,) = results_of(tmp_path / "a.onnx", [x])
    np.testing.assert_allclose(result, state, rtol=1e-5)


def test_a_loop_is_written_in_the_order_of_its_text(tmp_path: Path) -> None:
    """Whatever the addresses of the values that it captures are: its file has the same bytes."""
    type, count = "tensor<2xf32>", 8
    codes = [f"tensor<2x!quant.uniform<i8:f32, 0.{n + 1}>>" for n in range(count)]
    casts = "".join(
        f"%q{n} = quant.qcast %x : {type} to {code} %d{n} = quant.dcast %q{n} : {code} to {type}\n"
        for n, code in enumerate(codes)
    )
    sums = "".join(f"%s{n + 1} = arith.addf %s{n}, %d{n} : {type}\n" for n in range(count))
    (tmp_path / "a.mlir").write_text(f"""
func.func @main(%x: {type}) -> {type} {{
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %four = arith.constant 4 : index
  {casts}
  %last = scf.for %i = %zero to %four step %one iter_args(%s0 = %x) -> ({type}) {{
    {sums}
    scf.yield %s{count} : {type}
  }}
  return %last : {type}
}}""")
    assert export([str(tmp_path / "a.mlir"), "-o", str(tmp_path / "a.onnx")]) == 0
    onnx: Any = pytest.importorskip("onnx")
    model = onnx.load(tmp_path / "a.onnx")
    numbers = {one.name: onnx.numpy_helper.to_array(one) for one in model.graph.initializer}
    scales = [
        float(numbers[node.input[1]])
        for node in model.graph.node
        if node.op_type == "DequantizeLinear"
    ]
    np.testing.assert_allclose(scales, [(n + 1) / 10 for n in range(count)], rtol=1e-6)
