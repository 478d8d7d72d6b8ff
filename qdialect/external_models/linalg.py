"""
The ops of the linalg dialect that only move elements.

https://mlir.llvm.org/docs/Dialects/Linalg/.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr
from xdsl.ir import Attribute, Operation
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr

from qdialect.movement import BroadcastInDim, Movement, Reshape, Transpose
from qdialect.shape_op_interface import (
    Code,
    Movements,
    NotFoldable,
    Operands,
    attribute_of,
    integers_of,
    shape_of,
    shape_op,
)


@shape_op("linalg.transpose")
def _transpose(op: Operation, operands: Operands) -> Movements:
    _require_result(op)
    return Movements(op.operands[:1], [Transpose(integers_of(op, "permutation"))])


@shape_op("linalg.broadcast")
def _broadcast(op: Operation, operands: Operands) -> Movements:
    _require_result(op)
    new, shape = integers_of(op, "dimensions"), shape_of(op.results[0])
    dims = tuple(axis for axis in range(len(shape)) if axis not in new)
    return Movements(op.operands[:1], [BroadcastInDim(dims, shape)])


@shape_op("linalg.generic")
def _generic(op: Operation, operands: Operands) -> Movements:
    """One that yields its input, of axes in another order, or repeated."""
    _require_result(op)
    block = op.regions[0].block
    yielded = list(block.last_op.operands) if block.last_op is not None else []
    if len(op.operands) != 2 or block.first_op is not block.last_op or yielded != [block.args[0]]:
        raise NotFoldable(Code.UNKNOWN_OP, "it does more than to yield its input")
    maps = attribute_of(op, "indexing_maps")
    if not isinstance(maps, ArrayAttr):
        raise NotFoldable(Code.UNKNOWN_OP, "it has no indexing maps")
    inputs, results = map(_axes_of, cast(ArrayAttr[Attribute], maps).data)
    shape = shape_of(op.results[0])
    if None in results or len(set(results)) != len(shape):
        raise NotFoldable(Code.UNKNOWN_OP, "its result is not written in a permutation of axes")
    return Movements(op.operands[:1], _reads(shape_of(op.operands[0]), inputs, results, shape))


def _require_result(op: Operation) -> None:
    if len(op.results) != 1:
        raise NotFoldable(Code.UNKNOWN_OP, "it has no tensor for a result")


def _axes_of(map: Attribute) -> list[int | None]:
    """The loop that each axis is read in; None for one that is read at zero only."""
    axes: list[int | None] = []
    for expression in map.data.results if isinstance(map, AffineMapAttr) else ():
        if isinstance(expression, AffineDimExpr):
            axes.append(expression.position)
        elif isinstance(expression, AffineConstantExpr) and expression.value == 0:
            axes.append(None)
        else:
            raise NotFoldable(Code.UNKNOWN_OP, "its indexing maps do more than to name axes")
    return axes


def _reads(
    shape: tuple[int, ...],
    inputs: list[int | None],
    results: list[int | None],
    result_shape: tuple[int, ...],
) -> list[Movement]:
    movements: list[Movement] = []
    if None in inputs:
        # Only an axis of one position can be read at zero alone.
        kept = [axis for axis, loop in enumerate(inputs) if loop is not None]
        if any(shape[axis] != 1 for axis in range(len(shape)) if axis not in kept):
            raise NotFoldable(Code.UNKNOWN_OP, "its indexing maps do more than to name axes")
        movements.append(Reshape(tuple(shape[axis] for axis in kept)))
        inputs = [inputs[axis] for axis in kept]
    if len(set(inputs)) != len(inputs):
        raise NotFoldable(Code.UNKNOWN_OP, "it reads a diagonal")
    dims = tuple(results.index(loop) for loop in inputs)
    if len(dims) == len(result_shape):
        permutation = tuple(sorted(range(len(dims)), key=dims.__getitem__))
        return [*movements, Transpose(permutation)]
    return [*movements, BroadcastInDim(dims, result_shape)]
