"""A matrix that is repeated for a batch is multiplied once, and the results stay the same."""

from __future__ import annotations

import numpy as np
import pytest
from dequantizing_arithmetic import Module
from xdsl.dialects.func import FuncOp

from qdialect.check.interpreters import run_function
from qdialect.dialects.arrays.values import TypedArray
from qdialect.ir.value_types import shape_of
from qdialect.ops.interface import known_layer
from qdialect.ptq.passes.weights import FoldBatchNormalizationPass

pytestmark = pytest.mark.usefixtures("without_plugins")


def of_linalg(start: str, repeated: str = "linalg.broadcast") -> str:
    """Three products with one matrix; the sums start from zero, or from a constant."""
    broadcast = {
        "linalg.broadcast": """linalg.broadcast ins(%c : tensor<4x5xf32>)
    outs(%e : tensor<3x4x5xf32>) dimensions = [0]""",
        "linalg.generic": """linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d1, d2)>,
    affine_map<(d0, d1, d2) -> (d0, d1, d2)>],
    iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%c : tensor<4x5xf32>) outs(%e : tensor<3x4x5xf32>) {
  ^bb0(%i: f32, %j: f32):
    linalg.yield %i : f32
  } -> tensor<3x4x5xf32>""",
        "of an image": """linalg.broadcast ins(%c : tensor<4x5xf32>)
    outs(%image : tensor<1x3x4x5xf32>) dimensions = [0, 1]
  %w = tensor.collapse_shape %j [[0, 1], [2], [3]] : tensor<1x3x4x5xf32> into tensor<3x4x5xf32>""",
    }[repeated]
    starts = {
        "a fill": """%z = linalg.fill ins(%zero : f32) outs(%s : tensor<3x2x5xf32>)
    -> tensor<3x2x5xf32>""",
        "a constant": "%z = arith.constant dense<0.5> : tensor<3x2x5xf32>",
    }[start]
    return f"""
func.func @f(%x: tensor<3x2x4xf32>) -> tensor<3x2x5xf32> {{
  %c = arith.constant dense<{[[row - 2.0 * column for column in range(5)] for row in range(4)]}>
    : tensor<4x5xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3x4x5xf32>
  %s = tensor.empty() : tensor<3x2x5xf32>
  %image = tensor.empty() : tensor<1x3x4x5xf32>
  %{"j" if repeated == "of an image" else "w"} = {broadcast}
  {starts}
  %y = linalg.batch_matmul ins(%x, %w : tensor<3x2x4xf32>, tensor<3x4x5xf32>)
    outs(%z : tensor<3x2x5xf32>) -> tensor<3x2x5xf32>
  return %y : tensor<3x2x5xf32>
}}
"""


STABLEHLO = """
func.func @f(%x: tensor<2x3x2x4xf32>) -> tensor<2x3x2x5xf32> {
  %c = stablehlo.constant dense<[[[1.0, 2.0, 3.0, 4.0, 5.0]], [[-1.0, 0.0, 1.0, 2.0, 3.0]],
    [[0.5, 0.5, 0.25, 1.0, 1.0]], [[2.0, 2.0, -2.0, 0.0, 4.0]]]> : tensor<4x1x5xf32>
  %r = stablehlo.reshape %c : (tensor<4x1x5xf32>) -> tensor<4x5xf32>
  %w = stablehlo.broadcast_in_dim %r, dims = [2, 3] : (tensor<4x5xf32>) -> tensor<2x3x4x5xf32>
  %y = stablehlo.dot_general %x, %w, batching_dims = [0, 1] x [0, 1],
    contracting_dims = [3] x [2] : (tensor<2x3x2x4xf32>, tensor<2x3x4x5xf32>)
    -> tensor<2x3x2x5xf32>
  return %y : tensor<2x3x2x5xf32>
}
"""

OF_ONES = """
func.func @f(%x: tensor<3x2x4xf32>, %m: tensor<1x4x5xf32>) -> tensor<3x2x5xf32> {
  %w = stablehlo.broadcast_in_dim %m, dims = [0, 1, 2]
    : (tensor<1x4x5xf32>) -> tensor<3x4x5xf32>
  %y = stablehlo.dot_general %x, %w, batching_dims = [0] x [0], contracting_dims = [2] x [1]
    : (tensor<3x2x4xf32>, tensor<3x4x5xf32>) -> tensor<3x2x5xf32>
  return %y : tensor<3x2x5xf32>
}
"""

COLUMNS = """
func.func @f(%x: tensor<3x4x5xf32>) -> tensor<3x2x5xf32> {
  %c = stablehlo.constant dense<[[1.0, 2.0, 3.0, 4.0], [-1.0, 0.0, 1.0, 2.0]]> : tensor<2x4xf32>
  %w = stablehlo.broadcast_in_dim %c, dims = [1, 2] : (tensor<2x4xf32>) -> tensor<3x2x4xf32>
  %y = stablehlo.dot_general %w, %x, batching_dims = [0] x [0], contracting_dims = [2] x [1]
    : (tensor<3x2x4xf32>, tensor<3x4x5xf32>) -> tensor<3x2x5xf32>
  return %y : tensor<3x2x5xf32>
}
"""

VARYING = """
func.func @f(%x: tensor<3x2x4xf32>) -> tensor<3x2x5xf32> {
  %c = stablehlo.constant dense<[[1.0], [2.0], [3.0]]> : tensor<3x1xf32>
  %w = stablehlo.broadcast_in_dim %c, dims = [0, 1] : (tensor<3x1xf32>) -> tensor<3x4x5xf32>
  %y = stablehlo.dot_general %x, %w, batching_dims = [0] x [0], contracting_dims = [2] x [1]
    : (tensor<3x2x4xf32>, tensor<3x4x5xf32>) -> tensor<3x2x5xf32>
  return %y : tensor<3x2x5xf32>
}
"""


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        (of_linalg("a fill"), [(1, 6, 4), (1, 4, 5)]),
        (of_linalg("a fill", "linalg.generic"), [(1, 6, 4), (1, 4, 5)]),
        (of_linalg("a fill", "of an image"), [(1, 6, 4), (1, 4, 5)]),
        (of_linalg("a constant"), [(1, 6, 4), (1, 4, 5)]),
        (STABLEHLO, [(1, 1, 12, 4), (1, 1, 4, 5)]),
        (OF_ONES, [(1, 6, 4), (1, 4, 5)]),
        # The columns of all would not be beside each other.
        (COLUMNS, [(3, 2, 4), (3, 4, 5)]),
        (VARYING, [(3, 2, 4), (3, 4, 5)]),
    ],
)
def test_a_repeated_matrix_is_multiplied_once(text: str, shapes: list[tuple[int, ...]]) -> None:
    module = Module(text)
    function = next(op for op in module.module.ops if isinstance(op, FuncOp))
    # Sums of such numbers are exact.
    random = np.random.default_rng(0)
    values = [
        TypedArray.of_numbers(random.integers(-8, 8, shape_of(type)).astype("f4"), type)
        for type in function.function_type.inputs.data
    ]
    (expected,) = run_function(module.module, "f", values, module.context)
    module.run(FoldBatchNormalizationPass())
    module.module.verify()
    (result,) = run_function(module.module, "f", values, module.context)
    assert np.array_equal(result.numbers, expected.numbers)
    (layer,) = (op for op in module.module.walk() if known_layer(op) is not None)
    assert [shape_of(value.type) for value in layer.operands[:2]] == shapes
