"""
The shape ops, the constant and the cast of the tosa dialect.

https://mlir.llvm.org/docs/Dialects/TOSA/.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import Operation

from qdialect.lazy_numpy import np
from qdialect.movement import (
    BroadcastInDim,
    Concat,
    Movement,
    Reshape,
    Reverse,
    Slice,
    Take,
    Transpose,
)
from qdialect.shape_op_interface import (
    Code,
    Movements,
    NotFoldable,
    Operands,
    integer_of,
    integers_of,
    padded,
    register_cast,
    register_constant,
    shape_of,
    shape_op,
    static_shape_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

register_constant("tosa.const", "values")
register_constant("tosa.const_shape", "values")
register_cast("tosa.cast")


@shape_op("tosa.identity")
def _identity(op: Operation, operands: Operands) -> Movements:
    return Movements(op.operands, [])


@shape_op("tosa.transpose")
def _transpose(op: Operation, operands: Operands) -> Movements:
    return Movements(op.operands, [Transpose(integers_of(op, "perms"))])


@shape_op("tosa.reshape")
def _reshape(op: Operation, operands: Operands) -> Movements:
    # Where the result is static, so is what the second operand says of its shape.
    return Movements(op.operands[:1], [Reshape(shape_of(op.results[0]))])


@shape_op("tosa.slice")
def _slice(op: Operation, operands: Operands) -> Movements:
    offsets = _known(operands.integers(op.operands[1]))
    sizes = static_shape_of(op.results[0])
    return Movements(op.operands[:1], [Slice(offsets, sizes, (1,) * len(sizes))])


@shape_op("tosa.concat")
def _concat(op: Operation, operands: Operands) -> Movements:
    return Movements(op.operands, [Concat(integer_of(op, "axis"))])


@shape_op("tosa.pad")
def _pad(op: Operation, operands: Operands) -> Movements:
    widths = _known(operands.integers(op.operands[1]))
    movements = padded(shape_of(op.operands[0]), widths[::2], widths[1::2])
    return Movements(op.operands[:1], movements, op.operands[2])


@shape_op("tosa.reverse")
def _reverse(op: Operation, operands: Operands) -> Movements:
    return Movements(op.operands, [Reverse((integer_of(op, "axis"),))])


@shape_op("tosa.tile")
def _tile(op: Operation, operands: Operands) -> Movements:
    multiples = _known(operands.integers(op.operands[1]))
    if all(count == 1 for count in multiples):
        return Movements(op.operands[:1], [])
    shape, result = static_shape_of(op.operands[0]), static_shape_of(op.results[0])
    # Every axis gets a new one before it, which is what is repeated.
    pairs = tuple(length for axis in shape for length in (1, axis))
    tiled = tuple(length for pair in zip(multiples, shape, strict=True) for length in pair)
    dims = tuple(range(len(pairs)))
    movements = [Reshape(pairs), BroadcastInDim(dims, tiled), Reshape(result)]
    return Movements(op.operands[:1], movements)


def _known(values: NDArray[np.int64]) -> tuple[int, ...]:
    """The integers of a shape. Raises NotFoldable if one stands for what is not known."""
    if (values < 0).any():
        raise NotFoldable(Code.DYNAMIC_SHAPE, "-1 stands for what is only known at run time")
    return tuple(map(int, values))


@shape_op("tosa.gather")
def _gather(op: Operation, operands: Operands) -> Movements:
    batches, length, channels = static_shape_of(op.operands[0])
    indices = operands.integers(op.operands[1]).reshape(batches, -1)
    movements: list[Movement] = [Take(1, tuple(indices[0].tolist()))] if batches else []
    if (indices != indices[:1]).any():
        # Each batch has its own: it takes of the rows of all.
        rows = indices + length * np.arange(batches)[:, np.newaxis]
        movements = [
            Reshape((batches * length, channels)),
            Take(0, tuple(rows.reshape(-1).tolist())),
            Reshape((batches, indices.shape[1], channels)),
        ]
    return Movements(op.operands[:1], movements)
