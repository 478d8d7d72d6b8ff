"""Attributes, types and lists of ops as integers and shapes, with which models read ops."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    Float32Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    Signedness,
)
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.movement import (
    DYNAMIC,
    BroadcastInDim,
    Movement,
    Reshape,
    Shape,
    Slice,
    Take,
)
from qdialect.algebra.padding import Pad, PadWith, ZeroPoint
from qdialect.algebra.views import Values, as_view, values_dtype
from qdialect.ir.elements import (
    MAX_REPEATED_ELEMENTS,
    dense_elements,
    element_dtype,
    elements_of,
    has_signedness,
)
from qdialect.ir.value_types import tensor_parts
from qdialect.ops.models import Movements, Operands, RunTimeShape, ShapeOpModel
from qdialect.ops.refusals import Refusal, RefusalCode
from qdialect.support.lazy_numpy import np
from qdialect.support.memory import BoundedCache

if TYPE_CHECKING:
    from numpy.typing import NDArray


from qdialect.ops.interface import elements_attribute_of, find_attribute, is_list


def attribute_of(op: Operation, name: str) -> Attribute:
    """
    A property, or an attribute as generic text may have it.

    Raises Refusal if there is none.
    """
    attribute = find_attribute(op, name)
    if attribute is None:
        raise Refusal(RefusalCode.UNKNOWN_OP, f"there is no attribute '{name}'")
    return attribute


def integer_of(op: Operation, name: str) -> int:
    """The value of an integer attribute. Raises Refusal if it is another attribute."""
    return _integer_in(attribute_of(op, name), name)


def axis_of(op: Operation, name: str, rank: int) -> int:
    """An axis of a tensor of `rank`: a negative one counts from the end. Raises Refusal."""
    axis = integer_of(op, name)
    return axis + rank if axis < 0 else axis


def _integer_in(attribute: Attribute, name: str) -> int:
    integer = cast("IntegerAttr[IntegerType | IndexType]", attribute)
    if not isinstance(attribute, IntegerAttr) or not is_integer(integer.type):
        raise Refusal(RefusalCode.UNKNOWN_OP, f"attribute '{name}' does not hold integers")
    return integer.value.data


def integers_of(op: Operation, name: str) -> tuple[int, ...]:
    """
    The integers of an array attribute of any kind.

    Raises Refusal for other elements, and for DYNAMIC.
    """
    values = _static_list(op, name)
    if DYNAMIC in values:
        raise Refusal(RefusalCode.DYNAMIC_SHAPE, f"'{name}' is only known at run time")
    return values


def lists_of(op: Operation, names: Sequence[str], operands: Operands) -> list[tuple[int, ...]]:
    """
    The integers of array attributes, where each DYNAMIC is one of the last operands, in order.

    Raises Refusal for other elements, and for operands that are not constant.
    """
    lists = [_static_list(op, name) for name in names]
    count = sum(values.count(DYNAMIC) for values in lists)
    if count > len(op.operands):
        raise Refusal(RefusalCode.UNKNOWN_OP, "there are not enough operands for its lists")
    last = iter(op.operands[len(op.operands) - count :])
    return [
        tuple(int(operands.integers(next(last))) if each == DYNAMIC else each for each in values)
        for values in lists
    ]


def _static_list(op: Operation, name: str) -> tuple[int, ...]:
    """The integers of an array attribute of any kind. Raises Refusal for other elements."""
    attribute = attribute_of(op, name)
    match attribute:
        case DenseArrayBase() if is_integer(cast(Attribute, attribute.elt_type)):
            values = integers_of_array(cast("DenseArrayBase[IntegerType]", attribute))
        case DenseIntOrFPElementsAttr():
            elements, type = elements_of(attribute), attribute.type.element_type
            values = tuple(integers_in(elements, type).reshape(-1).tolist())
        case ArrayAttr():
            values = tuple(_integer_in(item, name) for item in cast(Sequence[Attribute], attribute))
        case _:
            raise Refusal(RefusalCode.UNKNOWN_OP, f"attribute '{name}' is not an array of integers")
    return values


_KNOWN_ARRAYS = BoundedCache[DenseArrayBase[IntegerType], tuple[int, ...]]()


def items_of(value: SSAValue) -> Sequence[SSAValue]:
    """The values in a list. Raises Refusal if `value` is none, or made by something else."""
    owner = value.owner
    if not isinstance(owner, Operation) or not is_list(owner):
        raise Refusal(RefusalCode.DYNAMIC_SHAPE, "the elements of a list are not known")
    return owner.operands


def integers_in_list(op: Operation, operands: Operands) -> NDArray[np.int64]:
    """The integers in the list that `op` makes. Raises Refusal."""
    found: list[int] = []
    for item in op.operands:
        if isinstance(item.owner, Operation) and is_list(item.owner):
            raise Refusal(RefusalCode.UNKNOWN_OP, "a list holds lists")
        numbers = operands.integers(item)
        if numbers.shape:
            raise Refusal(RefusalCode.UNKNOWN_OP, "a list does not hold integers")
        found.append(int(numbers))
    return np.array(found, dtype=np.int64)


_LISTED: Final = ("float", "floats", "int", "ints")


def names_of_elements(op: Operation) -> tuple[str, ...]:
    """
    The names of the attributes that may hold the elements of `op`, a constant.

    Ops of ONNX may hold a number or a list: beside `value` they have `value_int`, `value_ints`,
    `value_float` and `value_floats`.
    """
    name = elements_attribute_of(op) or ""
    return name, *(f"{name}_{kind}" for kind in _LISTED)


def held_elements(op: Operation) -> Attribute | None:
    """The attribute with the elements of a constant; for a number or a list, one made of it."""
    name, *listed = names_of_elements(op)
    attribute = find_attribute(op, name)
    parts = tensor_parts(op.results[0].type)
    if attribute is not None or parts is None:
        return attribute
    found = next((held for key in listed if (held := find_attribute(op, key)) is not None), None)
    one_by_one: tuple[Attribute | None, ...] = (found,)
    if isinstance(found, ArrayAttr):
        one_by_one = cast("ArrayAttr[Attribute]", found).data
    type = parts.element_type
    # ONNX has them of these types only.
    if isinstance(type, IntegerType) and type.bitwidth == 64:
        kind, dtype = IntegerAttr, np.int64
    elif isinstance(type, Float32Type):
        kind, dtype = FloatAttr, np.float32
    else:
        return None
    if not all(isinstance(each, kind) for each in one_by_one):
        return None
    numbers = [cast(Any, each).value.data for each in one_by_one]
    values = np.array(numbers if isinstance(found, ArrayAttr) else numbers[0], dtype=dtype)
    known = cast(Any, type)
    return dense_elements(values.view(element_dtype(known)), known)


def integers_of_array(attribute: DenseArrayBase[IntegerType]) -> tuple[int, ...]:
    """The integers of an array attribute."""
    if (known := _KNOWN_ARRAYS.get(attribute)) is not None:
        return known
    values = tuple(attribute.get_values())
    return _KNOWN_ARRAYS.add(attribute, values, len(values))


def is_integer(type: Attribute) -> bool:
    """Whether elements of `type` can be lengths or positions: integers, but no truth values."""
    return isinstance(type, IndexType) or (isinstance(type, IntegerType) and type.bitwidth > 1)


def integers_in(values: Values, type: Attribute) -> NDArray[np.integer[Any]]:
    """
    The elements of a constant of `type` that lists lengths or positions.

    The result is int64, or uint64 if an element is 2**63 or more. Raises Refusal if the
    elements are not integers of `type`, or too many to be expanded.
    """
    if math.prod(values.shape) > MAX_REPEATED_ELEMENTS:
        raise Refusal(RefusalCode.UNKNOWN_OP, "a constant that parametrizes it is too long")
    if is_integer(type) and (values_dtype(values) != element_dtype(type)):
        raise Refusal(RefusalCode.UNKNOWN_OP, f"a constant does not hold elements of type '{type}'")
    return as_integers(as_view(values).array(), type)


def as_integers(numbers: NDArray[Any], type: Attribute) -> NDArray[np.integer[Any]]:
    """
    Integers, given modulo 2**64, as elements of `type`: int64, or uint64 if one is that large.

    Raises Refusal if elements of `type` are not integers, or are truth values.
    """
    if not is_integer(type):
        raise Refusal(RefusalCode.UNKNOWN_OP, f"elements of type '{type}' do not say a position")
    signed = numbers.astype(np.int64)
    is_unsigned = isinstance(type, IntegerType) and has_signedness(
        cast(IntegerType, type), Signedness.UNSIGNED
    )
    return signed.view(np.uint64) if is_unsigned and (signed < 0).any() else signed


def shape_of(value: SSAValue) -> Shape:
    """The shape of a ranked tensor. Raises Refusal if it is something else."""
    if (parts := tensor_parts(value.type)) is None:
        raise Refusal(RefusalCode.UNKNOWN_OP, "it does not move a ranked tensor")
    return parts.shape


def static_shape_of(value: SSAValue) -> Shape:
    """The shape of a tensor. Raises Refusal if a length is only known at run time."""
    shape = shape_of(value)
    if DYNAMIC in shape:
        raise Refusal(RefusalCode.DYNAMIC_SHAPE, "the result has a length only known at run time")
    return shape


def shape_in(number: int) -> RunTimeShape:
    """The shape that an operand contains, for an op that is being run."""
    return lambda operands: [
        DYNAMIC if length < 0 else length
        for length in operands.integers(number).reshape(-1).tolist()
    ]


def moves(read: Callable[[Any], Movement]) -> ShapeOpModel:
    """All operands are moved by one movement, which attributes of the op say."""
    return lambda op, operands: Movements(op.operands, [read(op)])


def reshaped(op: Operation, operands: Operands) -> Movements:
    """The first operand gets the shape of the result; another operand with that is redundant."""
    return Movements(op.operands[:1], [Reshape(shape_of(op.results[0]))])


def broadcast_trailing(op: Operation, operands: Operands) -> Movements:
    """The first operand is broadcast to the shape of the result as in numpy."""
    source, result = shape_of(op.operands[0]), shape_of(op.results[0])
    return Movements(op.operands[:1], [BroadcastInDim.trailing(source, result)])


def padded(
    shape: Shape,
    low: Sequence[int],
    high: Sequence[int],
    interior: Sequence[int] | None = None,
    *,
    with_zero: bool = False,
) -> list[Movement]:
    """
    Padding of a tensor of `shape`; a negative width removes positions at that end.

    The padding value is `Movements.padding`, or real zero without gaps in between (`with_zero`).
    """
    if not len(low) == len(high) == len(shape):
        raise Refusal(RefusalCode.UNKNOWN_OP, "there is not one width for each axis")
    interior = interior or (0,) * len(shape)
    added = tuple(max(width, 0) for width in low), tuple(max(width, 0) for width in high)
    pad = Pad(*added) if with_zero else PadWith(*added, tuple(interior), ZeroPoint())
    if all(width >= 0 for width in (*low, *high)):
        return [pad]
    grown = pad.result_shape(shape)
    if DYNAMIC in grown:
        raise Refusal(RefusalCode.DYNAMIC_SHAPE, "a length is only known at run time")
    offsets = tuple(max(-width, 0) for width in low)
    sizes = tuple(
        length - offset - max(-width, 0)
        for length, offset, width in zip(grown, offsets, high, strict=True)
    )
    return [pad, Slice(offsets, sizes, (1,) * len(shape))]


def taken(
    op: Operation, axis: int, indices: NDArray[np.integer[Any]], *, from_end: bool
) -> list[Movement]:
    """
    The positions `indices` of an axis of the first operand of `op`, in the shape of its result.

    With `from_end`, negative indices count from the end.
    """
    length = static_shape_of(op.operands[0])[axis]
    if ((indices < (-length if from_end else 0)) | (indices >= length)).any():
        raise Refusal(
            RefusalCode.UNKNOWN_OP, f"an index is out of range for an axis of length {length}"
        )
    positions = tuple(int(at) % length for at in indices.reshape(-1).tolist())
    return [Take(axis, positions), Reshape(shape_of(op.results[0]))]


def tiled(shape: Shape, multiples: Sequence[int]) -> list[Movement]:
    """A tensor of static `shape`, repeated along each axis."""
    if len(multiples) != len(shape):
        raise Refusal(RefusalCode.UNKNOWN_OP, "there is not one number for each axis")
    if all(count == 1 for count in multiples):
        return []
    result = tuple(count * length for count, length in zip(multiples, shape, strict=True))
    if all(1 in pair for pair in zip(multiples, shape, strict=True)):
        return [BroadcastInDim(tuple(range(len(shape))), result)]
    # Each axis gets a new axis before it, and the new axis is broadcast.
    pairs = tuple(length for axis in shape for length in (1, axis))
    grown = tuple(length for pair in zip(multiples, shape, strict=True) for length in pair)
    dims = tuple(range(len(pairs)))
    return [Reshape(pairs), BroadcastInDim(dims, grown), Reshape(result)]
