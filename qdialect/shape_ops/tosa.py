"""
The shape ops, the constant and the cast of the tosa dialect.

https://mlir.llvm.org/docs/Dialects/TOSA/.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IndexType, IntAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.joins import Concat
from qdialect.algebra.lazy_numpy import np
from qdialect.algebra.movement import (
    Movement,
    Reshape,
    Reverse,
    Slice,
    Take,
    Transpose,
)
from qdialect.shape_ops.attributes import (
    integer_of,
    integers_of,
    padded,
    shape_in,
    shape_of,
    static_shape_of,
    tiled,
)
from qdialect.shape_ops.computed_integers import Integers, integer_function, nonzero_as_true
from qdialect.shape_ops.elementwise import (
    converted,
    elementwise_op,
    recreated,
    reshape_writer,
    same_shape,
    shape_of_type,
)
from qdialect.shape_ops.interface import (
    Code,
    NotFoldable,
    name_of,
    reads_unsigned,
    register_cast,
    register_constant,
    register_dialect_traits,
    shape_op,
)
from qdialect.shape_ops.models import CastReads, DialectTraits, Movements, Operands, RunTimeOperands
from qdialect.shape_ops.terms import Arithmetic, Elementwise, SmallOperand

if TYPE_CHECKING:
    from numpy.typing import NDArray

register_constant("tosa.const", "values")
register_constant("tosa.const_shape", "values")
register_cast("tosa.cast", CastReads.NUMBERS | CastReads.CODES | CastReads.CONVERTED)
register_dialect_traits("tosa", DialectTraits(has_empty_tensors=False))


@shape_op("tosa.identity")
def _identity(op: Operation, operands: Operands) -> Movements:
    return Movements(op.operands, [])


@shape_op("tosa.transpose")
def _transpose(op: Operation, operands: Operands) -> Movements:
    return Movements(op.operands, [Transpose(integers_of(op, "perms"))])


@shape_op("tosa.reshape", run_time_shape=shape_in(1))
def _reshape(op: Operation, operands: Operands) -> Movements:
    # If the result is static, the shape operand is redundant.
    return Movements(op.operands[:1], [Reshape(shape_of(op.results[0]))])


@shape_op("tosa.slice", run_time_shape=shape_in(2))
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


def _tiled_shape(operands: RunTimeOperands) -> list[int]:
    multiples = map(int, operands.integers(1))
    return [count * n for count, n in zip(multiples, operands.shape(0), strict=True)]


@shape_op("tosa.tile", run_time_shape=_tiled_shape)
def _tile(op: Operation, operands: Operands) -> Movements:
    multiples = _known(operands.integers(op.operands[1]))
    if all(count == 1 for count in multiples):
        return Movements(op.operands[:1], [])
    return Movements(op.operands[:1], tiled(static_shape_of(op.operands[0]), multiples))


def _known(values: NDArray[np.integer[Any]]) -> tuple[int, ...]:
    """The integers of a shape. Raises NotFoldable if one of them is dynamic."""
    if (values < 0).any():
        raise NotFoldable(Code.DYNAMIC_SHAPE, "-1 is a length that is only known at run time")
    return tuple(map(int, values))


@shape_op("tosa.gather")
def _gather(op: Operation, operands: Operands) -> Movements:
    batches, length, channels = static_shape_of(op.operands[0])
    indices = operands.integers(op.operands[1])
    if indices.ndim != 2 or len(indices) != batches:
        raise NotFoldable(Code.UNKNOWN_OP, "its indices do not have one row for each batch")
    if ((indices < 0) | (indices >= length)).any():
        raise NotFoldable(
            Code.UNKNOWN_OP, f"an index is out of range for an axis of length {length}"
        )
    count = indices.shape[1]
    if not batches:
        return Movements(op.operands[:1], [Reshape((0, count, channels))])
    if (indices == indices[0]).all():
        return Movements(op.operands[:1], [Take(1, tuple(indices[0].tolist()))])
    # Each batch has indices of its own, which count from its first row.
    rows = indices + length * np.arange(batches)[:, np.newaxis]
    movements: list[Movement] = [
        Reshape((batches * length, channels)),
        Take(0, tuple(rows.reshape(-1).tolist())),
        Reshape((batches, count, channels)),
    ]
    return Movements(op.operands[:1], movements)


def _write_again(
    op: Operation, operands: Sequence[SmallOperand], type: Attribute
) -> list[Operation]:
    """Operands of the rank of the result are broadcast by the op; a shift is given again."""
    values = [operand.value for operand in operands]
    return [recreated(op, [*values, *op.operands[len(values) :]], type)]


def _broadcasting(op: Operation, arithmetic: Arithmetic) -> Elementwise:
    shape = shape_of(op.results[0])
    read = same_shape(op, arithmetic, op.operands[:2])
    axes = tuple(
        tuple(
            axis if length == shape[axis] else None
            for axis, length in enumerate(static_shape_of(operand))
        )
        for operand in read.operands
    )
    return read._replace(axes=axes)


@reshape_writer("tosa.reshape")
def _reshape_again(op: Operation, operand: SSAValue, type: Attribute) -> list[Operation]:
    shape, lengths = op.operands[1], shape_of_type(type)
    if not isinstance(shape.owner, Operation) or name_of(shape.owner) != "tosa.const_shape":
        raise NotFoldable(Code.UNKNOWN_OP, "its shape is not a constant")
    shape_type = cast(Any, shape.type).new([IntAttr(len(lengths))])
    constant = recreated(shape.owner, [], shape_type)
    held = constant.properties if "values" in constant.properties else constant.attributes
    index = TensorType(IndexType(), [len(lengths)])
    held["values"] = DenseIntOrFPElementsAttr.from_list(index, list(lengths))
    return [constant, recreated(op, [operand, constant.results[0]], type)]


@elementwise_op("tosa.cast", write=_write_again, keeps_rank=True)
def _cast(op: Operation, operands: Operands) -> Elementwise:
    if reads_unsigned(op):
        raise NotFoldable(Code.ARITHMETIC, "its operand is read as unsigned")
    return converted(op)


@elementwise_op("tosa.sub", write=_write_again, keeps_rank=True)
def _sub(op: Operation, operands: Operands) -> Elementwise:
    return _broadcasting(op, Arithmetic.SUBTRACT)


@elementwise_op("tosa.mul", write=_write_again, keeps_rank=True)
def _mul(op: Operation, operands: Operands) -> Elementwise:
    if len(op.operands) > 2 and operands.integers(op.operands[2]).any():
        raise NotFoldable(Code.ARITHMETIC, "its shift is not 0")
    return _broadcasting(op, Arithmetic.MULTIPLY)


@elementwise_op("tosa.add", write=_write_again, keeps_rank=True)
def _add(op: Operation, operands: Operands) -> Elementwise:
    return _broadcasting(op, Arithmetic.ADD)


integer_function("tosa.add")(lambda op, of: of[0] + of[1])
integer_function("tosa.sub")(lambda op, of: of[0] - of[1])
integer_function("tosa.minimum")(lambda op, of: np.minimum(of[0], of[1]))
integer_function("tosa.maximum")(lambda op, of: np.maximum(of[0], of[1]))
integer_function("tosa.equal")(lambda op, of: of[0] == of[1])
integer_function("tosa.greater")(lambda op, of: of[0] > of[1])
integer_function("tosa.greater_equal")(lambda op, of: of[0] >= of[1])
integer_function("tosa.select")(lambda op, of: np.where(of[0] != 0, of[1], of[2]))

integer_function("tosa.reduce_sum")(
    lambda op, of: of[0].sum(axis=integer_of(op, "axis"), keepdims=True)
)


@integer_function("tosa.cast")
def _cast_integers(op: Operation, of: Sequence[Integers]) -> NDArray[Any]:
    if reads_unsigned(op):
        raise NotFoldable(Code.ARITHMETIC, "its operand is read as unsigned")
    return nonzero_as_true(op, of[0])


@integer_function("tosa.mul")
def _multiply_integers(op: Operation, of: Sequence[Integers]) -> NDArray[Any]:
    if len(of) > 2 and of[2].any():
        raise NotFoldable(Code.ARITHMETIC, "the product is shifted")
    return of[0] * of[1]
