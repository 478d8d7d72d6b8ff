"""Hoisting shape ops above arithmetic on constants preserves values, and lets them be folded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
from example_counts import examples
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp, TensorType, UnknownLoc, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from qdialect.algebra.joins import Concat
from qdialect.algebra.movement import Movement, Reshape, Shape, Slice, Transpose
from qdialect.check.interpreters import run_function
from qdialect.dialects.quant import DequantizeCastOp
from qdialect.folding.report import Outcome, PassReport
from qdialect.lowering.storage_ops import StorageBuilder, move_elements
from qdialect.ops.interface import model_of
from qdialect.opt.registry import ToolContext
from qdialect.passes import FoldQuantShapesPass, HoistQuantShapesPass
from qdialect.testing import STORAGES, constants, numpy_moves, shapes, unary_movements
from qdialect.text import parse_module

Array = NDArray[Any]

ARITHMETIC: Final[dict[str, tuple[type[Operation], Callable[[Array, Array], Array]]]] = {
    "add": (arith.AddfOp, np.add),
    "subtract": (arith.SubfOp, np.subtract),
    "multiply": (arith.MulfOp, np.multiply),
}
NARROW: Final = [storage for storage in STORAGES if storage.format.width <= 16]
"""With more bits, a run rounds once, and the numbers of a constant are rounded twice."""


class Built:
    """A function without arguments, with the numbers that numpy finds for its values."""

    def __init__(self, data: st.DataObject) -> None:
        self._data, self.block = data, Block()
        # Constants of others are not joined.
        self._storage = data.draw(st.sampled_from(NARROW))
        self.builder = StorageBuilder(InsertPoint.at_end(self.block), UnknownLoc())
        self.numbers: dict[SSAValue, Array] = {}

    def dequantized(self, shape: Shape) -> SSAValue:
        constant = self._data.draw(constants(shape, [self._storage]))
        source = self.builder.insert(constant.op())
        cast = self.builder.insert(DequantizeCastOp(source.result, TensorType(f32, shape)))
        self.numbers[cast.result] = constant.numbers
        return cast.result

    def computed(self, names: list[str], shape: Shape) -> SSAValue:
        """Arithmetic on constants, one op after another."""
        value = self.dequantized(shape)
        for name in names:
            kind, function = ARITHMETIC[name]
            other = self.dequantized(shape)
            (result,) = self.builder.insert(
                kind.create(operands=[value, other], result_types=[value.type])
            ).results
            with np.errstate(all="ignore"):
                self.numbers[result] = function(self.numbers[value], self.numbers[other])
            value = result
        return value

    def moved(self, movement: Movement, *values: SSAValue) -> SSAValue:
        arrays = [self.numbers[value] for value in values]
        expected = numpy_moves(movement, *arrays)
        result = move_elements(self.builder, movement, values, TensorType(f32, expected.shape))
        self.numbers[result] = expected
        return result

    def returning(self, value: SSAValue) -> ModuleOp:
        self.builder.insert(ReturnOp(value))
        return ModuleOp([FuncOp("f", ([], [value.type]), Region(self.block))])


def hoist(module: ModuleOp, context: ToolContext) -> PassReport:
    HoistQuantShapesPass().apply(context, module)
    module.verify()
    return context.fold_reports.pop()


def check(module: ModuleOp, expected: Array, context: ToolContext) -> None:
    (result,) = run_function(module, "f", (), context)
    assert np.array_equal(result.numbers, expected, equal_nan=True)


def is_behind_arithmetic(op: Operation) -> bool:
    makers = [operand.owner for operand in op.operands]
    return model_of(op) is not None and any(isinstance(maker, KINDS) for maker in makers)


KINDS = tuple(kind for kind, _ in ARITHMETIC.values())
MOVES = (Transpose, Reshape, Slice)
NAMES = st.lists(st.sampled_from(list(ARITHMETIC)), min_size=1, max_size=3)


@examples(100)
@given(st.data())
def test_moved_arithmetic_is_arithmetic_of_moved_operands(data: st.DataObject) -> None:
    """Bit for bit, of every storage and granularity; then they are folded, or refused."""
    built, names = Built(data), data.draw(NAMES)
    shape = data.draw(shapes(min_rank=1, max_rank=3).filter(lambda shape: 0 not in shape))
    count = data.draw(st.integers(1, 3))
    values = [built.computed(names, shape) for _ in range(count)]
    value = built.moved(Concat(0), *values) if count > 1 else values[0]
    for _ in range(data.draw(st.integers(count == 1, 2))):
        lengths = built.numbers[value].shape
        moves = unary_movements(lengths).filter(lambda move: isinstance(move, MOVES))
        movement = data.draw(moves)
        value = built.moved(movement, value)
    expected, context = built.numbers[value], ToolContext()
    module = built.returning(value)
    module.verify()
    check(module, expected, context)
    arithmetic = sum(isinstance(op, KINDS) for op in module.walk())
    report = hoist(module, context)
    assert all(record.outcome is Outcome.HOISTED for record in report.records)
    left = {op.results[0] for op in module.walk() if op.results}
    assert {record.stands for record in report.records} <= {*left, None}
    assert not any(map(is_behind_arithmetic, module.walk())), str(module)
    # That of joined operands is joined.
    assert sum(isinstance(op, KINDS) for op in module.walk()) == arithmetic // count
    check(module, expected, context)
    text = str(module)
    assert not hoist(module, context).records
    assert str(module) == text
    FoldQuantShapesPass(max_parameter_growth=1 << 20, max_repetition=1 << 20).apply(context, module)
    module.verify()
    check(module, expected, context)
    others = {op.name for op in module.walk() if model_of(op) is not None}
    assert not others, others


SUM = """
!q = !quant.uniform<i8:f32, 0.5>
func.func @f(%x: tensor<2x3xf32>, %n: i1) -> {type} {{
  %c = quant.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3x!q>
  %a = quant.dcast %c : tensor<2x3x!q> to tensor<2x3xf32>
  %b = arith.constant dense<[[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]> : tensor<2x3xf32>
  %s = arith.addf %a, %b : tensor<2x3xf32>
  {body}
  return %r : {type}
}}
"""
TRANSPOSED = "stablehlo.transpose %s, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>"
REFUSED = {
    "padding": (
        "%zero = arith.constant dense<0.0> : tensor<f32>\n"
        "%r = stablehlo.pad %s, %zero, low = [0, 1], high = [0, 0], interior = [0, 0]"
        " : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x4xf32>",
        "tensor<2x4xf32>",
        "its padding would have to be computed",
    ),
    "a cast": (
        "%r = stablehlo.concatenate %s, %a, dim = 0"
        " : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>",
        "tensor<4x3xf32>",
        "no arithmetic stands right before it",
    ),
    "uses": (
        f"%t = {TRANSPOSED}\n%u = {TRANSPOSED}\n%r = arith.addf %t, %u : tensor<3x2xf32>",
        "tensor<3x2xf32>",
        "the arithmetic before it has other uses",
    ),
    "different arithmetic": (
        "%p = arith.mulf %a, %b : tensor<2x3xf32>\n"
        "%r = stablehlo.concatenate %s, %p, dim = 0"
        " : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>",
        "tensor<4x3xf32>",
        "its operands are computed in different ways",
    ),
    "a block": (
        "%r = scf.if %n -> (tensor<3x2xf32>) {\n"
        f"%t = {TRANSPOSED}\nscf.yield %t : tensor<3x2xf32>\n}} else {{\n"
        "%e = tensor.empty() : tensor<3x2xf32>\nscf.yield %e : tensor<3x2xf32>\n}",
        "tensor<3x2xf32>",
        "the arithmetic before it is in another block",
    ),
}


@pytest.mark.parametrize(("body", "type", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_stays(body: str, type: str, reason: str) -> None:
    context = ToolContext()
    module = parse_module(context, SUM.format(body=body, type=type))
    before = str(module)
    report = hoist(module, context)
    assert {record.reason for record in report.records} == {reason}
    assert str(module) == before


def test_arithmetic_with_arguments_and_dequantization_stay() -> None:
    """The fold reads the one, and the other is computed at run time."""
    context = ToolContext()
    body = (
        "%y = arith.addf %x, %a : tensor<2x3xf32>\n"
        "%t = stablehlo.transpose %y, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>\n"
        "%i = arith.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi8>\n"
        "%j = arith.sitofp %i : tensor<2x3xi8> to tensor<2x3xf32>\n"
        "%k = arith.constant dense<0.5> : tensor<2x3xf32>\n"
        "%d = arith.mulf %j, %k : tensor<2x3xf32>\n"
        "%u = stablehlo.transpose %d, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>\n"
        "%r = arith.addf %t, %u : tensor<3x2xf32>"
    )
    module = parse_module(context, SUM.format(body=body, type="tensor<3x2xf32>"))
    before = str(module)
    assert not hoist(module, context).records
    assert str(module) == before
