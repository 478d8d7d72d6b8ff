"""
Products of many matrices with one matrix, as one product.

A linear layer on a batch, `[b, m, k]` by `[k, n]`, is often written as b products with the matrix
repeated b times, which compilers multiply one by one. Here the rows of all are those of one matrix,
`[1, b * m, k]` by `[1, k, n]`. Each sum has the same products.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from math import prod
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint

from qdialect.algebra.movement import Chain, Movement, Shape
from qdialect.ir.resources import ResourceBlobs
from qdialect.ir.value_types import element_type_or_self, is_static, shape_of, tensor_like
from qdialect.lowering.storage_ops import ContextBuilder
from qdialect.ops.elementwise import recreated
from qdialect.ops.fields import Contraction, Operands
from qdialect.ops.interface import (
    Refusal,
    known_layer,
    known_movements,
    model_of,
    name_of,
    op_model,
    windows_of,
)
from qdialect.ops.model import traits_of
from qdialect.ops.reading import ConstantOperands, Constants
from qdialect.ops.unused_ops import erase_unused
from qdialect.support.lazy_numpy import np


def multiply_once(module: ModuleOp, context: Context) -> Sequence[Operation]:
    """Rewrite the products with repeated matrices. Returns these."""
    constants = ConstantOperands(Constants(ResourceBlobs.of(context)))
    products = list[Operation]()
    for op in [*module.walk()]:
        # Some windows are not known.
        with suppress(Refusal):
            if _is_multiplied_once(op, context, constants):
                products.append(op)
    return products


def _is_multiplied_once(op: Operation, context: Context, constants: Operands) -> bool:
    """Whether an op is such a product, which is rewritten then."""
    layer = known_layer(op)
    if not isinstance(layer, Contraction) or len(op.results) != 1 or windows_of(op, layer):
        return False
    result, (left, right) = op.results[0], (op.operands[at] for at in layer.operands)
    rows, matrix = shape_of(left.type), shape_of(right.type)
    batch = tuple(label for label in layer.lhs if label in layer.rhs and label in layer.result)
    count, sums = len(batch), shape_of(result.type)
    if rows is None or matrix is None or sums is None or not isinstance(result.type, TensorType):
        return False
    if not all(map(is_static, (rows, matrix, sums))):
        return False
    is_first = all(labels[:count] == batch for labels in (layer.lhs, layer.rhs, layer.result))
    row = layer.lhs[count : count + 1]
    if not is_first or row != layer.result[count : count + 1] or not {*row} - {*layer.rhs}:
        return False
    number = prod(matrix[:count])
    source = _repeated(right, count, constants)
    if number < 2 or source is None:
        return False

    ones, total = (1,) * count, number * rows[count]
    builder = ContextBuilder(InsertPoint.before(op), op.location, context)
    dialect = name_of(op).partition(".")[0]

    def reshape(value: SSAValue, shape: Shape) -> SSAValue:
        """Split or merge the first axes; the ones after them stay."""
        traits = traits_of(dialect)
        if traits is not None and traits.arithmetic is not None:
            return traits.arithmetic(builder.make).reshape(value, shape)
        rest = len(shape) - count - 1
        merged = builder.collapse(value, _groups(len(shape_of(value.type) or ()) - rest, rest))
        return builder.expand(merged, _groups(count + 1, rest), shape)

    def start(value: SSAValue) -> SSAValue:
        """What sums start from, in the shape of the new ones; a fill stays one."""
        maker, shape = value.owner, (*ones, total, *sums[count + 1 :])
        if isinstance(maker, Operation) and model_of(maker) is None:
            if op_model(maker).is_undefined:
                return _inserted(builder, maker, (), shape)
            if op_model(maker).repeats:
                *numbers, filled = maker.operands
                return _inserted(builder, maker, [*numbers, start(filled)], shape)
        return reshape(value, shape)

    known = {
        layer.operands[0]: reshape(left, (*ones, total, *rows[count + 1 :])),
        layer.operands[1]: reshape(source, (*ones, *matrix[count:])),
    }
    operands = [
        known.get(at) or (start(value) if shape_of(value.type) == sums else value)
        for at, value in enumerate(op.operands)
    ]
    new = _inserted(builder, op, operands, (*ones, total, *sums[count + 1 :]))
    new.name_hint = result.name_hint
    result.replace_all_uses_with(reshape(new, sums))
    erase_unused([op])
    return True


def _repeated(value: SSAValue, count: int, constants: Operands) -> SSAValue | None:
    """What a value repeats along its first axes, which are so many; None for another value."""
    whole, movements = shape_of(value.type) or (), list[Movement]()
    while isinstance(maker := value.owner, Operation):
        read = known_movements(maker, constants)
        if read is None or len(read.operands) != 1 or read.padding is not None:
            break
        (value,), movements = read.operands, [*read.movements, *movements]
        shape = shape_of(value.type)
        if shape is None or not is_static(shape):
            break
        ones = len(shape) - len(whole) + count
        if ones >= 0 and shape == (*(1,) * ones, *whole[count:]):
            # The view of a matrix in which no element has moved, but for steps of 0.
            matrix: Any = np.empty(shape, np.int8)
            moved: Any = Chain.of(movements)(matrix)
            first = moved[(0,) * count]
            steps = zip(moved.strides[:count], whole, strict=False)
            is_once = all(step == 0 or n == 1 for step, n in steps)
            is_at_start = first.ctypes.data == matrix.ctypes.data
            if is_once and is_at_start and first.flags.c_contiguous:
                return value
    return None


def _inserted(
    builder: ContextBuilder, op: Operation, operands: Sequence[SSAValue], shape: Shape
) -> SSAValue:
    """The result of the same op on other operands, of another shape."""
    result = op.results[0]
    type = tensor_like(result.type, shape, element_type_or_self(result.type))
    new = recreated(op, operands, type)
    for region in op.regions:
        new.add_region(region.clone())
    builder.insert(new)
    return new.results[0]


def _groups(first: int, rest: int) -> Sequence[Sequence[int]]:
    """Groups of axes of which only the first one has several."""
    return [[*range(first)], *([axis] for axis in range(first, first + rest))]
