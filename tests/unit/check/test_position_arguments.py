"""The arguments that are read as positions, and the numbers that are dealt for them."""

from __future__ import annotations

import pytest
from checked_modules import read
from xdsl.dialects.builtin import FunctionType, TensorType, i8, i32
from xdsl.dialects.func import FuncOp

from qdialect.check.interpreters import DealtArguments
from qdialect.check.iree_engine import PositionArguments

SLICES = "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0]"
NUMBERS = f"dimension_numbers = #stablehlo.gather<{SLICES}, index_vector_dim = 1>"


def gather(source: str, positions: str, sizes: str = "1, 4") -> str:
    return (
        f'"stablehlo.gather"({source}, {positions}) <{{{NUMBERS}, '
        f"slice_sizes = array<i64: {sizes}>, indices_are_sorted = false}}> : "
        "(tensor<9x4xf32>, tensor<3x1xi32>) -> tensor<3x4xf32>"
    )


@pytest.mark.parametrize(
    ("arguments", "body", "bounds"),
    [
        (
            "%w: tensor<9x4xf32>, %i: tensor<3x1xi32>",
            f"%0 = {gather('%w', '%i')}",
            {1: 9},
        ),
        # Each start has room for its slice.
        (
            "%w: tensor<9x4xf32>, %i: tensor<3x1xi32>",
            f"%0 = {gather('%w', '%i', '3, 4')}",
            {1: 7},
        ),
        # Through arithmetic, and not to the floats that are gathered.
        (
            "%w: tensor<9x4xf32>, %i: tensor<3xi32>, %j: tensor<3xi32>, %k: tensor<3xi32>",
            "%s = arith.addi %i, %j : tensor<3xi32>\n"
            "%r = tensor.expand_shape %s [[0, 1]] output_shape [3, 1] "
            ": tensor<3xi32> into tensor<3x1xi32>\n"
            f"%0 = {gather('%w', '%r')}\n%u = arith.addi %k, %k : tensor<3xi32>",
            {1: 9, 2: 9},
        ),
        # The lowest bound of several ops.
        (
            "%w: tensor<1x9x4xf32>, %v: tensor<1x5x4xf32>, %i: tensor<1x2xi32>",
            "%0 = tosa.gather %w, %i"
            " : (tensor<1x9x4xf32>, tensor<1x2xi32>) -> tensor<1x2x4xf32>\n"
            "%1 = tosa.gather %v, %i : (tensor<1x5x4xf32>, tensor<1x2xi32>) -> tensor<1x2x4xf32>",
            {2: 5},
        ),
        (
            "%w: tensor<9x?xf32>, %i: index, %j: index",
            "%0 = tensor.extract %w[%i, %j] : tensor<9x?xf32>",
            {1: 9, 2: 1},
        ),
        # In a region, from the operands of the op around it.
        (
            "%w: tensor<9xf32>, %i: tensor<3xi32>, %f: tensor<3xf32>",
            "%0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, "
            'affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} '
            "ins(%i : tensor<3xi32>) outs(%f : tensor<3xf32>) {\n"
            "^bb0(%a: i32, %b: f32):\n  %c = arith.index_cast %a : i32 to index\n"
            "  %v = tensor.extract %w[%c] : tensor<9xf32>\n  linalg.yield %v : f32\n"
            "} -> tensor<3xf32>",
            {1: 9},
        ),
        ("%i: i32, %w: tensor<1x9x4xf32>", "%0 = func.call @g(%w, %i) : (tensor<1x9x4xf32>, i32) "
         "-> tensor<1x1x4xf32>", {0: 9}),
        ("%i: i32", "%0 = arith.addi %i, %i : i32", {}),
    ],
)  # fmt: skip
def test_bounds(arguments: str, body: str, bounds: dict[int, int]) -> None:
    called = """
func.func private @g(%w: tensor<1x9x4xf32>, %i: i32) -> tensor<1x1x4xf32> {
  %p = tensor.splat %i : tensor<1x1xi32>
  %0 = tosa.gather %w, %p : (tensor<1x9x4xf32>, tensor<1x1xi32>) -> tensor<1x1x4xf32>
  return %0 : tensor<1x1x4xf32>
}
"""
    module = read(f"func.func @f({arguments}) {{\n{body}\nreturn\n}}\n{called}").module
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}
    assert PositionArguments(functions).of("f") == bounds


@pytest.mark.parametrize(
    ("bound", "most"), [(1, 0), (3, 2), (9, 8), (50_000, 49_999), (10**12, (1 << 31) - 1)]
)
@pytest.mark.parametrize("is_tame", [False, True])
def test_numbers_within_bounds(bound: int, most: int, is_tame: bool) -> None:
    types = FunctionType.from_lists([TensorType(i32, [3]), TensorType(i32, [3])], [])
    sets = DealtArguments(types, bounds={1: bound}, is_tame=is_tame)
    others, numbers = (
        {number for arguments in sets for number in arguments[at].elements.tolist()}
        for at in (0, 1)
    )
    assert not sets.is_exhaustive
    assert {0, most} <= numbers
    assert (min(numbers), max(numbers)) == (0, most)
    assert bound > 9 or numbers == set(range(bound))
    assert is_tame or min(others) < 0


def test_narrow_numbers_within_bounds() -> None:
    """Without bounds, these would be all combinations."""
    types = FunctionType.from_lists([i8], [])
    assert DealtArguments(types).is_exhaustive
    sets = DealtArguments(types, bounds={0: 5})
    assert not sets.is_exhaustive
    assert {int(arguments[0].elements[()]) for arguments in sets} == {0, 1, 2, 3, 4}
