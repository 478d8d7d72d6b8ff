"""
The constants, the casts and the shape ops of TFLite's dialect.

https://www.tensorflow.org/mlir/tfl_ops. Most ops are parametrized by constant operands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation

from qdialect.algebra.joins import Concat
from qdialect.algebra.lazy_numpy import np
from qdialect.algebra.movement import (
    BroadcastInDim,
    Reshape,
    Reverse,
    Slice,
    Transpose,
)
from qdialect.algebra.padding import Pad
from qdialect.shape_ops.attributes import (
    attribute_of,
    axis_of,
    integer_of,
    shape_of,
    static_shape_of,
    taken,
)
from qdialect.shape_ops.interface import (
    Code,
    NotFoldable,
    find_attribute,
    register_cast,
    register_constant,
    shape_op,
)
from qdialect.shape_ops.models import CastReads, Movements, Operands

if TYPE_CHECKING:
    from numpy.typing import NDArray

register_constant("tfl.pseudo_const", "value")
register_constant("tfl.pseudo_qconst", "value")
register_cast("tfl.dequantize", CastReads.NUMBERS)
register_cast("tfl.quantize", CastReads.CODES)


@shape_op("tfl.transpose")
def _transpose(op: Operation, operands: Operands) -> Movements:
    return Movements(op.operands[:1], [Transpose(_list(operands.integers(op.operands[1])))])


@shape_op("tfl.reshape")
@shape_op("tfl.expand_dims")
@shape_op("tfl.squeeze")
def _reshape(op: Operation, operands: Operands) -> Movements:
    # If the result is static, the operand with its shape is redundant.
    return Movements(op.operands[:1], [Reshape(shape_of(op.results[0]))])


@shape_op("tfl.slice")
def _slice(op: Operation, operands: Operands) -> Movements:
    offsets, sizes = _list(operands.integers(op.operands[1])), static_shape_of(op.results[0])
    return Movements(op.operands[:1], [Slice(offsets, sizes, (1,) * len(sizes))])


@shape_op("tfl.concatenation")
def _concatenation(op: Operation, operands: Operands) -> Movements:
    function = str(attribute_of(op, "fused_activation_function"))
    if function != '"NONE"':
        raise NotFoldable(Code.UNKNOWN_OP, f"it also computes {function}")
    return Movements(op.operands, [Concat(axis_of(op, "axis", len(shape_of(op.results[0]))))])


@shape_op("tfl.reverse_v2")
def _reverse(op: Operation, operands: Operands) -> Movements:
    return Movements(op.operands[:1], [Reverse(_axes(op, operands))])


@shape_op("tfl.broadcast_to")
def _broadcast_to(op: Operation, operands: Operands) -> Movements:
    movement = BroadcastInDim.trailing(shape_of(op.operands[0]), shape_of(op.results[0]))
    return Movements(op.operands[:1], [movement])


@shape_op("tfl.gather")
def _gather(op: Operation, operands: Operands) -> Movements:
    shape = static_shape_of(op.operands[0])
    axis = axis_of(op, "axis", len(shape))
    if find_attribute(op, "batch_dims") is not None and integer_of(op, "batch_dims"):
        raise NotFoldable(Code.UNKNOWN_OP, "it takes different positions of each batch")
    indices = operands.integers(op.operands[1])
    return Movements(op.operands[:1], taken(op, axis, indices, from_end=False))


@shape_op("tfl.pad")
def _pad(op: Operation, operands: Operands) -> Movements:
    """Read a pad with real zero."""
    widths = operands.integers(op.operands[1]).reshape(-1, 2)
    return Movements(op.operands[:1], [Pad(_list(widths[:, 0]), _list(widths[:, 1]))])


def _axes(op: Operation, operands: Operands) -> tuple[int, ...]:
    rank = len(shape_of(op.operands[0]))
    return _list(np.mod(operands.integers(op.operands[1]), max(rank, 1)))


def _list(numbers: NDArray[np.integer[Any]]) -> tuple[int, ...]:
    return tuple(map(int, numbers.reshape(-1).tolist()))
