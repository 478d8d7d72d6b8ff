"""
The shape ops of the tensor dialect.

https://mlir.llvm.org/docs/Dialects/TensorOps/.
"""

from __future__ import annotations

import math

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, i64
from xdsl.dialects.tensor import CollapseShapeOp
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.joins import Concat, InsertSlice
from qdialect.algebra.lazy_numpy import np
from qdialect.algebra.movement import DYNAMIC, Movement, Reshape, Slice
from qdialect.shape_ops.attributes import (
    integer_of,
    integers_of,
    lists_of,
    padded,
    shape_in,
    shape_of,
    static_shape_of,
)
from qdialect.shape_ops.computed_integers import integer_function
from qdialect.shape_ops.elementwise import reshape_writer, shape_of_type
from qdialect.shape_ops.interface import Code, NotFoldable, find_attribute, shape_op
from qdialect.shape_ops.models import Movements, Operands

_SLICE_LISTS = ("static_offsets", "static_sizes", "static_strides")
_PAD_LISTS = ("static_low", "static_high")


@shape_op("tensor.reshape", run_time_shape=shape_in(1))
@shape_op("tensor.collapse_shape")
def _reshape(op: Operation, operands: Operands) -> Movements:
    # If the result is static, the shape operand is redundant.
    return Movements(op.operands[:1], [Reshape(shape_of(op.results[0]))])


@shape_op(
    "tensor.expand_shape",
    run_time_shape=lambda operands: operands.lists["static_output_shape"],
    static_lists=["static_output_shape"],
)
def _expand_shape(op: Operation, operands: Operands) -> Movements:
    # Older texts do not have it.
    if find_attribute(op, "static_output_shape") is not None:
        stated = integers_of(op, "static_output_shape")
        if any(
            n not in (own, DYNAMIC) for n, own in zip(stated, shape_of(op.results[0]), strict=True)
        ):
            raise NotFoldable(Code.UNKNOWN_OP, "its output_shape is not the shape of its type")
    return _reshape(op, operands)


@reshape_writer("tensor.collapse_shape", "tensor.expand_shape")
def _reshape_again(op: Operation, operand: SSAValue, type: Attribute) -> list[Operation]:
    """Write a reshape that merges neighbouring axes."""
    lengths, groups = list(shape_of(operand)), list[list[int]]()
    for length in shape_of_type(type):
        group = [sum(map(len, groups))]
        while math.prod(lengths[axis] for axis in group) < length:
            group.append(group[-1] + 1)
        groups.append(group)
    reassociation = ArrayAttr(
        [ArrayAttr([IntegerAttr(axis, i64) for axis in group]) for group in groups]
    )
    new = CollapseShapeOp.create(
        operands=[operand],
        result_types=[type],
        properties={"reassociation": reassociation},
        attributes=op.attributes,
        location=op.location,
    )
    return [new]


@shape_op(
    "tensor.extract_slice",
    run_time_shape=lambda operands: operands.lists["static_sizes"],
    static_lists=_SLICE_LISTS,
)
def _extract_slice(op: Operation, operands: Operands) -> Movements:
    movement = Slice(*lists_of(op, _SLICE_LISTS, operands))
    movements: list[Movement] = [movement]
    if (shape := shape_of(op.results[0])) != movement.sizes:
        movements.append(Reshape(shape))
    return Movements(op.operands[:1], movements)


@shape_op("tensor.insert_slice", static_lists=_SLICE_LISTS)
def _insert_slice(op: Operation, operands: Operands) -> Movements:
    return Movements(op.operands[:2], [InsertSlice(*lists_of(op, _SLICE_LISTS, operands))])


@shape_op("tensor.concat")
def _concat(op: Operation, operands: Operands) -> Movements:
    return Movements(op.operands, [Concat(integer_of(op, "dim"))])


@shape_op("tensor.pad", static_lists=_PAD_LISTS)
def _pad(op: Operation, operands: Operands) -> Movements:
    low, high = lists_of(op, _PAD_LISTS, operands)
    movements = padded(shape_of(op.operands[0]), low, high)
    return Movements(op.operands[:1], movements, _padding_of(op))


def _padding_of(op: Operation) -> SSAValue:
    last = op.regions[0].block.last_op if len(op.regions[0].blocks) == 1 else None
    if last is None or len(last.operands) != 1:
        raise NotFoldable(Code.UNKNOWN_OP, "its region does not yield one element")
    return last.operands[0]


# Its elements are not specified; ops only write to it.
integer_function("tensor.empty")(
    lambda op, of: np.zeros(static_shape_of(op.results[0]), dtype=np.int64)
)
