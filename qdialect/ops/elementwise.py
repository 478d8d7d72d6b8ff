"""
Element-wise ops: the operands that each element of the result is computed from.

Exporters dequantize by arithmetic: an integer weight is converted, a zero point subtracted, and a
scale multiplied, each by an op of its own or in the body of one. A movement commutes with every
element-wise op, so the arithmetic is known here as a term, whatever dialect it is written in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from xdsl.dialects.builtin import AffineMapAttr, AnyFloat, ArrayAttr, IntegerType, Signedness
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from qdialect.algebra.movement import BroadcastInDim, Movement, Reshape, Shape, Transpose
from qdialect.algebra.parameters import MAX_WIDTH, StorageFormat
from qdialect.ir.elements import has_signedness
from qdialect.ir.value_types import element_type_or_self, tensor_element_type, tensor_like
from qdialect.ir.value_types import shape_of as tensor_shape
from qdialect.ops.fields import (
    Apply,
    Arithmetic,
    Elementwise,
    ElementwiseModel,
    ElementwiseReader,
    Input,
    Operands,
    Scalar,
    SmallOperand,
    Term,
)
from qdialect.ops.interface import (
    MODEL_ERRORS,
    Refusal,
    RefusalCode,
    check_not_kept,
    name_of,
    op_model,
    refused_by,
    shape_of,
    static_shape_of,
)
from qdialect.support.float_format import FLOAT_FORMATS, FloatFormat
from qdialect.support.lazy_numpy import NDArray, np


def arithmetic_model_of(op: Operation) -> ElementwiseModel:
    """The model of `op`, which is arithmetic."""
    model = op_model(op).term
    assert model is not None
    return model


def read_elementwise(op: Operation, operands: Operands) -> Elementwise:
    """
    The elements of the result of `op`, which is arithmetic, as a term.

    Raises Refusal, also if the op is malformed, since nothing verifies the ops of unregistered
    dialects.
    """
    model = arithmetic_model_of(op)
    check_not_kept(op)
    try:
        read = model.read(op, operands)
    except MODEL_ERRORS as error:
        raise refused_by(op, error) from None
    if not read.operands:
        raise Refusal(RefusalCode.ARITHMETIC, "it reads no tensor")
    return read


def operand_movements(
    elementwise: Elementwise, number: int, shape: Shape, result_shape: Shape
) -> list[Movement]:
    """The movements of an operand of `shape` to that of the result. Raises Refusal."""
    axes = elementwise.axes[number]
    if len(axes) != len(shape):
        reason = f"operand #{number} has rank {len(shape)}, not {len(axes)}"
        raise Refusal(RefusalCode.UNKNOWN_OP, reason)
    for axis in axes:
        if axis is not None and not 0 <= axis < len(result_shape):
            raise Refusal(RefusalCode.UNKNOWN_OP, f"its result has no axis {axis}")
    movements: list[Movement] = []
    if elementwise.in_blocks:
        movements = _repeated_in_blocks(axes, shape, result_shape)
        for movement in movements:
            shape = movement.result_shape(shape)
    return [*movements, *movements_along(axes, shape, result_shape)]


def movements_along(
    axes: Sequence[int | None], shape: Shape, result_shape: Shape
) -> list[Movement]:
    """
    The movements of an operand of `shape` whose axes follow those of a result.

    None is an axis that is read at position 0. Raises Refusal if two follow the same axis,
    or one that is longer than 1 is read at 0 alone.
    """
    movements: list[Movement] = []
    kept = [at for at, axis in enumerate(axes) if axis is not None]
    if len(kept) < len(axes):
        if any(length != 1 for at, length in enumerate(shape) if at not in kept):
            raise Refusal(RefusalCode.UNKNOWN_OP, "its indexing maps do more than name axes")
        shape = tuple(shape[at] for at in kept)
        movements.append(Reshape(shape))
    dims = tuple(axis for axis in axes if axis is not None)
    if len(set(dims)) != len(dims):
        raise Refusal(RefusalCode.UNKNOWN_OP, "it reads a diagonal")
    if len(dims) < len(result_shape):
        return [*movements, BroadcastInDim(dims, result_shape)]
    permutation = tuple(sorted(range(len(dims)), key=dims.__getitem__))
    return [*movements, Transpose(permutation)]


def _repeated_in_blocks(
    axes: Sequence[int | None], shape: Shape, result_shape: Shape
) -> list[Movement]:
    """Movements that repeat the positions of axes as often as an axis that each follows is long."""
    lengths = [
        length if axis is None else result_shape[axis]
        for axis, length in zip(axes, shape, strict=True)
    ]
    if any(before < 1 or after % before for before, after in zip(shape, lengths, strict=True)):
        raise Refusal(RefusalCode.ARITHMETIC, "its blocks are not of one length")
    if tuple(lengths) == shape:
        return []
    cut = [
        n for before, after in zip(shape, lengths, strict=True) for n in (before, after // before)
    ]
    dims = tuple(range(0, 2 * len(shape), 2))
    return [BroadcastInDim(dims, tuple(cut)), Reshape(tuple(lengths))]


# Writing ops again


def unbroadcast(read: ElementwiseReader) -> ElementwiseModel:
    """The model of ops of operands that have the shape of the result."""
    return ElementwiseModel(read, write_like, broadcasts=False)


def write_broadcasting(
    op: Operation, operands: Sequence[SmallOperand], result: Attribute
) -> list[Operation]:
    """Write an op that broadcasts operands of the rank of the result; others stay."""
    values = [operand.value for operand in operands]
    return [recreated(op, [*values, *op.operands[len(values) :]], result)]


def write_like(
    op: Operation, operands: Sequence[SmallOperand], result: Attribute
) -> list[Operation]:
    """
    Write an element-wise op that broadcasts nothing itself: every operand has the result's shape.

    Operands of fewer axes are broadcast before, each by an op like the one that did so before.
    Raises Refusal if there was none.
    """
    shape = shape_of_type(result)
    ops: list[Operation] = []
    values: list[SSAValue] = []
    for operand in operands:
        value = operand.value
        if len(operand.axes) < len(shape):
            if operand.like is None:
                raise Refusal(RefusalCode.ARITHMETIC, f"'{name_of(op)}' does not broadcast")
            type = with_shape(value.type, shape)
            write = op_model(operand.like).write_broadcast
            assert write is not None
            ops += write(operand.like, operand, type)
            value = ops[-1].results[0]
        values.append(value)
    return [*ops, recreated(op, values, result)]


def recreated(op: Operation, operands: Sequence[SSAValue], result: Attribute) -> Operation:
    """
    An op with the name, the attributes and the location of `op`, and other operands.

    An attribute that is the type of the result stays that.
    """
    (old,) = op.results
    return type(op).create(
        operands=operands,
        result_types=[result],
        properties=with_type(op.properties, old.type, result),
        attributes=with_type(op.attributes, old.type, result),
        location=op.location,
    )


def with_type(
    attributes: Mapping[str, Attribute], old: Attribute, new: Attribute
) -> dict[str, Attribute]:
    """Attributes of an op whose result was of type `old`: one that is this type becomes `new`."""
    return {
        name: new if type(attribute) is type(old) and attribute == old else attribute
        for name, attribute in attributes.items()
    }


def indexing_maps(rank: int, axes: Sequence[Sequence[int]]) -> Attribute:
    """The indexing maps of operands, each along some axes of the result, and of the result."""
    loops = [AffineExpr.dimension(axis) for axis in range(rank)]
    maps = [AffineMap(rank, 0, tuple(loops[axis] for axis in along)) for along in axes]
    return ArrayAttr([AffineMapAttr(map) for map in (*maps, AffineMap.identity(rank))])


def shape_of_type(type: Attribute) -> tuple[int, ...]:
    """The shape of a ranked tensor type."""
    shape = tensor_shape(type)
    assert shape is not None
    return shape


def with_shape(type: Attribute, shape: Sequence[int]) -> Attribute:
    """A tensor type of another shape."""
    return tensor_like(type, tuple(shape), tensor_element_type(type))


# Terms


def same_shape(op: Operation, arithmetic: Arithmetic, operands: Sequence[SSAValue]) -> Elementwise:
    """An op of operands that have the shape of its result. Raises Refusal if one is missing."""
    count = 2 if arithmetic in (Arithmetic.ADD, Arithmetic.SUBTRACT, Arithmetic.MULTIPLY) else 1
    if len(operands) != count:
        raise Refusal(RefusalCode.UNKNOWN_OP, f"it has {len(operands)} operands, not {count}")
    axes = tuple(range(len(shape_of(op.results[0]))))
    inputs = tuple(
        Input(number, element_type_or_self(operand.type)) for number, operand in enumerate(operands)
    )
    term = Apply(arithmetic, inputs, element_type_or_self(op.results[0].type))
    return Elementwise(tuple(operands), (axes,) * len(operands), term)


def broadcasting(op: Operation, arithmetic: Arithmetic) -> Elementwise:
    """An op of two operands that are broadcast as in numpy. Raises Refusal."""
    elementwise = same_shape(op, arithmetic, op.operands[:2])
    shape = static_shape_of(op.results[0])
    return elementwise._replace(axes=axes_from_last(elementwise.operands, shape))


def axes_from_last(values: Sequence[SSAValue], shape: Shape) -> tuple[tuple[int | None, ...], ...]:
    """
    The axes of operands that are broadcast to `shape` as in numpy, for `Elementwise.axes`.

    Axes are counted from the last. Raises Refusal if an operand has more than the result.
    """
    axes: list[tuple[int | None, ...]] = []
    for value in values:
        lengths = static_shape_of(value)
        if (rest := len(shape) - len(lengths)) < 0:
            raise Refusal(RefusalCode.UNKNOWN_OP, "its result has fewer axes than an operand")
        follows = enumerate(lengths, rest)
        axes.append(tuple(axis if n == shape[axis] else None for axis, n in follows))
    return tuple(axes)


def converted(op: Operation, operands: Operands) -> Elementwise:
    """An op that converts each element of its operand. Raises Refusal if that is not known."""
    types = [element_type_or_self(value.type) for value in (*op.operands, *op.results)]
    arithmetic = conversion(*types)
    if arithmetic is None:
        raise Refusal(RefusalCode.ARITHMETIC, f"'{types[0]}' is not converted to '{types[1]}'")
    return same_shape(op, arithmetic, op.operands)


def converted_term(term: Term, type: Attribute) -> Term:
    """The numbers of a term in a type. Raises Refusal if the conversion is not known."""
    if (arithmetic := conversion(term.type, type)) is None:
        raise Refusal(RefusalCode.ARITHMETIC, f"'{term.type}' is not converted to '{type}'")
    return Apply(arithmetic, (term,), type)


def conversion(source: Attribute, target: Attribute) -> Arithmetic | None:
    """The scalar op that converts one type to another as `stablehlo.convert` does, if known."""
    if isinstance(source, IntegerType):
        is_unsigned = (
            has_signedness(cast(IntegerType, source), Signedness.UNSIGNED) or source.bitwidth == 1
        )
        if isinstance(target, IntegerType):
            if source.bitwidth >= target.bitwidth:
                return None
            return Arithmetic.ZERO_EXTEND if is_unsigned else Arithmetic.SIGN_EXTEND
        return Arithmetic.UNSIGNED_TO_FLOAT if is_unsigned else Arithmetic.SIGNED_TO_FLOAT
    if not isinstance(target, AnyFloat):
        return None
    if cast(AnyFloat, source).bitwidth < target.bitwidth:
        return Arithmetic.EXTEND_FLOAT
    return Arithmetic.TRUNCATE_FLOAT


def is_conversion(term: Term) -> bool:
    """Whether a term is an element of an operand, converted to other types."""
    while isinstance(term, Apply) and len(term.operands) == 1:
        (term,) = term.operands
    return isinstance(term, Input)


def substituted(term: Term, inputs: Sequence[Term]) -> Term:
    """A term with another term in the place of each input."""
    if isinstance(term, Input):
        return inputs[term.number]
    if isinstance(term, Scalar):
        return term
    operands = tuple(substituted(operand, inputs) for operand in term.operands)
    return Apply(term.arithmetic, operands, term.type)


# Values of terms, with every step rounded or wrapped to its type


_MOST: Final = 1 << 53
"""Larger integers are rounded when they are converted to float64."""

_LOW_BITS: Final = 11
"""The bits of an int64 that a double may not hold."""

_DOUBLE: Final = FLOAT_FORMATS["f64"]


def values_of(term: Term, inputs: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """
    The elements of a term: int64, signed whatever their type, or float64.

    `inputs` are integers, modulo the width of their type, or floats. Raises Refusal if int64 or
    float64 cannot represent them.
    """
    if isinstance(term, Input | Scalar):
        elements = inputs[term.number] if isinstance(term, Input) else _scalar(term)
        return _wrapped(elements, term.type, signed=True) if _is_integer(term.type) else elements
    operands = [values_of(operand, inputs) for operand in term.operands]
    first, type, before = operands[0], term.type, term.operands[0].type
    match term.arithmetic:
        case Arithmetic.SIGNED_TO_FLOAT:
            return _rounded(first, type)
        case Arithmetic.UNSIGNED_TO_FLOAT:
            return _rounded(_wrapped(first, before, signed=False), type)
        case Arithmetic.SIGN_EXTEND:
            return first
        case Arithmetic.ZERO_EXTEND:
            return _wrapped(first, before, signed=False)
        case Arithmetic.EXTEND_FLOAT | Arithmetic.TRUNCATE_FLOAT:
            return _format(type).round(first)
        case Arithmetic.SUBTRACT | Arithmetic.MULTIPLY | Arithmetic.ADD:
            return _computed(term, *operands)
        case Arithmetic.QUANTIZE:
            raise Refusal(
                RefusalCode.ARITHMETIC, "its rounding is not defined for computing it here"
            )


def _computed(term: Apply, one: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    compute = {
        Arithmetic.SUBTRACT: np.subtract,
        Arithmetic.MULTIPLY: np.multiply,
        Arithmetic.ADD: np.add,
    }[term.arithmetic]
    with np.errstate(all="ignore"):
        numbers = np.asarray(compute(one, other))
    if _is_integer(term.type):
        return _wrapped(numbers, term.type, signed=True)
    return _format(term.type).round(numbers)


def _scalar(term: Scalar) -> NDArray[Any]:
    return np.asarray(term.attribute.value.data)


def _is_integer(type: Attribute) -> bool:
    return isinstance(type, IntegerType)


def _wrapped(values: NDArray[Any], type: Attribute, *, signed: bool) -> NDArray[Any]:
    width = cast(IntegerType, type).bitwidth
    if width > MAX_WIDTH and not signed:
        raise Refusal(RefusalCode.ARITHMETIC, f"elements of '{type}' are read as unsigned")
    return np.asarray(StorageFormat(width, signed).wrap(values.astype(np.int64)))


def _rounded(integers: NDArray[Any], type: Attribute) -> NDArray[np.float64]:
    """The nearest numbers of a float type to integers, ties to even, rounded once."""
    to = _format(type)
    if not integers.size or (integers.min() >= -_MOST and integers.max() <= _MOST):
        return to.round(integers.astype(np.float64))
    if to.precision > _DOUBLE.precision:
        raise Refusal(RefusalCode.ARITHMETIC, "it converts integers that are too large")
    if to.precision == _DOUBLE.precision:
        return integers.astype(np.float64)
    # Bits too low to be seen by any narrower type but for a tie, which one of them breaks.
    high = integers >> _LOW_BITS
    low = (integers & ((1 << _LOW_BITS) - 1)) != 0
    sticky = (high | low).astype(np.float64) * (1 << _LOW_BITS)
    return to.round(np.where(abs(high) < 1 << 32, integers.astype(np.float64), sticky))


def _format(type: Attribute) -> FloatFormat:
    format = FLOAT_FORMATS.get(type.name)
    if format is None:
        raise Refusal(RefusalCode.ARITHMETIC, f"elements of type '{type}' are not supported")
    return format
