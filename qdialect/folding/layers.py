"""
Layers: how the elements of a constant are read, as they are stored and after each cast.

A layer may carry constants of its own, which a shape op moves together with the elements. An
exporter's dequantization is `(C - z) * s`, with `z` and `s` broadcast: the side constants of the
arithmetic, and the map from each element of `C` to theirs, `(z, s) . f`. Ranges along an axis of
a cast are moved in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    FixedBitwidthType,
    IntegerAttr,
    IntegerType,
    Signedness,
    i64,
)
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.movement import Movement, MovementError, Shape
from qdialect.algebra.padding import Pad, PaddingError, StorageRange
from qdialect.algebra.parameters import QuantizationParameters, StorageFormat
from qdialect.algebra.run_map import TooManySlotsError
from qdialect.algebra.views import Elements, ElementSlots, Splat, as_view
from qdialect.dialects.quant.storage import StoredType
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.dialects.quant.verification import verify_same_slots
from qdialect.ir.elements import (
    DenseElementsAttr,
    dense_elements,
    elements_of,
    has_signedness,
    integer_range,
)
from qdialect.ir.rewriting import dependencies_first
from qdialect.ir.value_types import element_type_or_self, tensor_element_type
from qdialect.ops.along_axis import AXIS
from qdialect.ops.elementwise import arithmetic_model_of
from qdialect.ops.fields import AlongAxis, CastReads, ElementwiseModel
from qdialect.ops.interface import (
    Refusal,
    RefusalCode,
    attribute_of,
    cast_reads,
    name_of,
    numbers_along_axis,
)
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.support.memory import BoundedCache, MemoryLimitError

if TYPE_CHECKING:
    from qdialect.folding.policy import FoldPolicy


class _Refusing:
    """A context that raises errors of algebra, verifiers and memory as refusals."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: object, *where: object) -> None:
        for refused, code in _REFUSED.items() if kind is not None else ():
            if isinstance(error, refused):
                raise Refusal(code, str(error)) from None


refusing: Final = _Refusing()

_REFUSED: Final[Mapping[type[Exception], RefusalCode]] = {
    PaddingError: RefusalCode.PADDING,
    MovementError: RefusalCode.UNKNOWN_OP,
    TooManySlotsError: RefusalCode.PARAMETER_GROWTH,
    MemoryLimitError: RefusalCode.MEMORY,
    VerifyException: RefusalCode.ILLEGAL_TYPE,
}


class ScaleOrigin:
    """
    The origin of the scales of a value: a type or constant of the module, or several origins.

    Each type or constant counts once, however often its value is used. The total is computed on
    demand: a chain of n concatenations would otherwise hold sets of 1, 2, ..., n types.
    """

    __slots__ = ("_count", "_parts")

    def __init__(self, count: int = 0, parts: tuple[ScaleOrigin, ...] = ()) -> None:
        self._count = count
        self._parts = parts

    @property
    def total(self) -> int:
        """The number of scales in all origins together."""
        if not self._parts:
            return self._count
        origins = dependencies_first(self._parts, lambda origin: origin._parts)
        return sum([origin._count for origin in origins])


def joined_origin(origins: Iterable[ScaleOrigin | None]) -> ScaleOrigin | None:
    """The origin of a value joined from several; None if none has scales."""
    parts = tuple(dict.fromkeys([origin for origin in origins if origin is not None]))
    return ScaleOrigin(parts=parts) if len(parts) > 1 else next(iter(parts), None)


@dataclass(frozen=True, eq=False)
class SideConstant:
    """A constant operand of an elementwise op, and the map from positions to its elements."""

    number: int
    """The index of the operand."""

    slots: ElementSlots
    """The map from each position of the result to a stored element."""

    source: Operation
    """The constant of the module."""

    casts: tuple[Operation, ...]
    """The unary elementwise ops applied to it."""

    like: Operation | None
    """The op that broadcasts it explicitly, if there is one."""

    origin: ScaleOrigin
    """The origin of its elements, counted as scales."""

    @property
    def types(self) -> tuple[Attribute, ...]:
        """The element types of the constant and after each cast."""
        return tuple(tensor_element_type(op.results[0].type) for op in (self.source, *self.casts))

    @property
    def is_one(self) -> bool:
        """Whether all positions read the same element."""
        return self.slots.size == 1

    def moved(self, movement: Movement, others: Sequence[SideConstant]) -> SideConstant:
        """`slots . f`, for this constant and the corresponding ones of other operands."""
        all_slots = [self.slots, *(other.slots for other in others)]
        origins = [self.origin, *(other.origin for other in others)]
        moved = movement(*all_slots).simplify()
        if isinstance(movement, Pad):
            # New positions along an axis with several elements have elements of their own.
            origins.append(ScaleOrigin(_length(moved) - _length(self.slots)))
        return replace(self, slots=moved, origin=joined_origin(origins) or self.origin)

    def can_join(self, other: SideConstant) -> bool:
        """Whether one constant can hold elements of both."""
        return (
            self.number == other.number
            and self.types == other.types
            and list(map(name_of, self.casts)) == list(map(name_of, other.casts))
        )

    def form(self, model: ElementwiseModel, along: Collection[int] = ()) -> SideForm:
        """
        The form to write it in for an op of `model`, expanded along the axes `along`.

        Raises TooManySlotsError.
        """
        slots = self.slots
        # A full tensor is written for an op that does not broadcast its operands, if there is no
        # explicit broadcast before it, if one would repeat nothing, or for a splat.
        needs_whole = not model.broadcasts and self.like is None
        for axis, ends in enumerate(slots.ends):
            if len(ends) > 1 or axis in along or (needs_whole and slots.size > 1):
                slots = slots.in_single_positions(axis)
        is_whole = not model.broadcasts and slots.size in (1, math.prod(slots.shape))
        axes = [axis for axis, ends in enumerate(slots.ends) if len(ends) > 1 or axis in along]
        if model.keeps_rank or is_whole:
            axes = range(slots.ndim)
        elements = slots.elements.reshape([slots.elements.shape[axis] for axis in axes])
        if elements.size > 1 and not self.is_one:
            return SideForm(tuple(axes), elements)
        shape = slots.shape if is_whole else elements.shape
        return SideForm(tuple(axes), Splat(elements.reshape(-1)[0], shape))


def _length(slots: ElementSlots) -> int:
    """The number of positions along the axes with several elements."""
    runs = zip(slots.shape, slots.ends, strict=True)
    return math.prod([length for length, ends in runs if len(ends) > 1])


class SideForm(NamedTuple):
    """The form in which a side constant is written."""

    axes: tuple[int, ...]
    """For each of its axes, the corresponding axis of the result."""

    elements: Elements

    @property
    def size(self) -> int:
        """The number of elements written; 1 for a splat."""
        return 1 if isinstance(self.elements, Splat) else self.elements.size


class Sides(NamedTuple):
    """The operands of an elementwise op."""

    main: int
    """The index of the operand with the moved elements."""

    constants: tuple[SideConstant, ...]
    """The other operands."""

    in_blocks: bool = False
    """Whether they have one element for each block of an axis, and for each position of others."""

    def check(self, op: Operation, policy: FoldPolicy) -> None:
        """Raise Refusal if the side constants of `op` would be larger than `policy` allows."""
        model = arithmetic_model_of(op)
        for constant in self.constants:
            before = constant.origin.total
            size = self.form_of(constant, model).size
            allowed = before + (policy.max_parameter_growth or 0)
            if size > allowed:
                raise Refusal(
                    RefusalCode.PARAMETER_GROWTH,
                    f"its operands would have {size} elements, its sources have "
                    f"{before}, and {allowed} are allowed; "
                    f"it takes max-parameter-growth={size - before} or more",
                )

    def form_of(self, constant: SideConstant, model: ElementwiseModel) -> SideForm:
        """The form of one of the constants. Raises Refusal if it is too large."""
        with refusing:
            return self._in_blocks(constant) if self.in_blocks else self._with_axes(constant, model)

    def _with_axes(self, constant: SideConstant, model: ElementwiseModel) -> SideForm:
        along = set[int]()
        if model.aligns:
            for side in self.constants:
                along |= {axis for axis, ends in enumerate(side.slots.ends) if len(ends) > 1}
        if model.has_axis and not along:
            along |= {min(range(constant.slots.ndim), key=constant.slots.shape.__getitem__)}
        return constant.form(model, along)

    def _in_blocks(self, constant: SideConstant) -> SideForm:
        """The form with blocks along the axis with the longest ones; the last of several axes."""
        slots = constant.slots
        columns = zip(*(side.slots.block_sizes for side in self.constants), strict=True)
        blocks = [math.gcd(*column) for column in columns]
        longest = max(range(slots.ndim), key=lambda axis: (blocks[axis], axis))
        step = blocks[longest]
        steps = [step if axis == longest else 1 for axis in range(slots.ndim)]
        slots = slots[tuple(slice(None, None, stride) for stride in steps)]
        for axis in range(slots.ndim):
            slots = slots.in_single_positions(axis)
        axes = tuple(range(slots.ndim))
        if constant.is_one:
            return SideForm(axes, Splat(slots.elements.reshape(-1)[0], slots.shape))
        return SideForm(axes, slots.elements)

    def moved(self, movement: Movement, others: Sequence[Sides]) -> Sides:
        """`(z, s) . f`, for these constants and the corresponding ones of other operands."""
        columns = zip(self.constants, *(other.constants for other in others), strict=True)
        moved = tuple(first.moved(movement, rest) for first, *rest in columns)
        return Sides(self.main, moved, self.in_blocks)

    def can_join(self, other: Sides) -> bool:
        """Whether one op can replace both of those with these side constants."""
        return (
            self.main == other.main
            and self.in_blocks == other.in_blocks
            and len(self.constants) == len(other.constants)
            and all(map(SideConstant.can_join, self.constants, other.constants))
        )


@dataclass(frozen=True, eq=False)
class CarriedRanges:
    """The range or scale that each element of a tensor has, of those along an axis of an op."""

    op: Operation
    """The op of the module."""

    along: AlongAxis
    """The rows of values, one for each position of an axis."""

    slots: ElementSlots
    """The row that each position of the tensor reads: int64."""

    @classmethod
    def of(cls, op: Operation, shape: Shape) -> CarriedRanges | None:
        """The rows of an op for a tensor of `shape`; None without an axis. Raises Refusal."""
        along = numbers_along_axis(op, shape)
        if along is None or 0 in shape:
            return None
        axis = along.axis
        ends = [np.asarray([length], np.int64) for length in shape]
        ends[axis] = np.arange(1, shape[axis] + 1, dtype=np.int64)
        rows = np.arange(shape[axis], dtype=np.int64)
        return cls(
            op,
            along,
            ElementSlots(tuple(ends), rows.reshape([len(axis_ends) for axis_ends in ends])),
        )

    def moved(self, movement: Movement, others: Sequence[Sides] = ()) -> CarriedRanges:
        """`ranges . f`. There are no other operands."""
        return replace(self, slots=movement(self.slots).simplify())

    def check(self, op: Operation, policy: FoldPolicy) -> None:
        """Raise Refusal if `op`, the cast, would have more ranges than `policy` allows."""
        before, after = len(self._stored), len(self._rows()[1])
        allowed = before + (policy.max_parameter_growth or 0)
        if after > allowed:
            raise Refusal(
                RefusalCode.PARAMETER_GROWTH,
                f"it would have {after} {self.along.are}, its source has {before}, and {allowed} "
                f"are allowed; it takes max-parameter-growth={after - before} or more",
            )

    def write(self, op: Operation) -> None:
        """Write these ranges to `op`, a copy of the op of the module. Raises Refusal."""
        axis, rows = self._rows()
        type = self._attribute.type.element_type
        new = {
            self.along.attribute: dense_elements(self._stored[rows], type),
            AXIS: IntegerAttr(axis, i64),
        }
        for attributes in (op.properties, op.attributes):
            attributes |= {name: attribute for name, attribute in new.items() if name in attributes}

    @property
    def _attribute(self) -> DenseElementsAttr:
        return cast(DenseElementsAttr, attribute_of(self.op, self.along.attribute))

    @property
    def _stored(self) -> NDArray[Any]:
        return as_view(elements_of(self._attribute)).array()

    def _rows(self) -> tuple[int, NDArray[np.int64]]:
        """The axis of the ranges, and the range of each of its positions. Raises Refusal."""
        slots = self.slots
        axes = [axis for axis, ends in enumerate(slots.ends) if len(ends) > 1]
        if len(axes) > 1:
            reason = (
                f"its {self.along.are} would vary along the axes {axes}, but one axis is supported"
            )
            raise Refusal(RefusalCode.GRANULARITY, reason)
        if not slots.ndim:
            reason = f"its {self.along.are} are along an axis, but the result has no axes"
            raise Refusal(RefusalCode.GRANULARITY, reason)
        # If all positions have the same range, any axis will do.
        axis = axes[0] if axes else min(range(slots.ndim), key=slots.shape.__getitem__)
        with refusing:
            return axis, slots.in_single_positions(axis).elements.reshape(-1)


@dataclass(frozen=True, eq=False)
class Layer:
    """
    How elements are read at one level: as stored, or after a cast.

    Equal layers are mostly one object, which serves as a cache key.
    """

    element_type: Attribute
    """The element type. After movements of `parameters`, its slots are not valid."""

    parameters: QuantizationParameters | None
    """The quantization parameters, if the type is uniform quantized."""

    is_spelled: bool = True
    """Whether the element type spells the parameters."""

    carried: Sides | CarriedRanges | None = None
    """
    What moves together with the elements: side constants of the arithmetic that computes them, or
    the ranges of an axis that were recorded for them.
    """

    @classmethod
    def of(cls, element_type: Attribute, shape: Shape) -> Layer:
        """
        The layer of a tensor of static `shape`.

        Raises Refusal if the type does not fit the shape.
        """
        if (known := _KNOWN_LAYERS.get((element_type, shape))) is not None:
            return known
        parameters = None
        if isinstance(element_type, UniformQuantizedType):
            try:
                parameters = element_type.parameters_on(shape)
            except VerifyException as error:
                raise Refusal(
                    RefusalCode.STALE_TYPE, f"its type does not fit its shape: {error}"
                ) from None
        layer = cls(element_type, parameters)
        return _KNOWN_LAYERS.add((element_type, shape), layer, layer.size)

    @cached_property
    def size(self) -> int:
        """The number of slots."""
        own = 0 if self.parameters is None else self.parameters.size
        return own + sum([side.slots.size for side in self.side_constants])

    @property
    def sides(self) -> Sides | None:
        """The side constants of the arithmetic that computes the elements, if any."""
        return self.carried if isinstance(self.carried, Sides) else None

    @property
    def side_constants(self) -> Sequence[SideConstant]:
        """The side constants of the arithmetic that computes the elements."""
        return self.carried.constants if isinstance(self.carried, Sides) else ()

    @property
    def scale_origin(self) -> ScaleOrigin | None:
        """The origin of the scales of a layer that a type in the module declares."""
        return None if self.parameters is None else ScaleOrigin(self.slots_in_type)

    @cached_property
    def slots_in_type(self) -> int:
        """The number of scales in the element type, which may be more than `size`."""
        type = self.element_type
        return type.scales.size if isinstance(type, UniformQuantizedType) else 0

    @property
    def width(self) -> int:
        """The bits of an element; 0 if its type does not say."""
        type = self.element_type
        number = type.storage_type if isinstance(type, StoredType) else type
        return number.bitwidth if isinstance(number, FixedBitwidthType) else 0

    @property
    def quantized(self) -> UniformQuantizedType:
        """The element type of a layer that has parameters."""
        return cast(UniformQuantizedType, self.element_type)

    @property
    def storage_range(self) -> StorageRange:
        """The range of the stored integers. Raises PaddingError if elements are not integers."""
        type = self.element_type
        if isinstance(type, StoredType):
            return StorageRange(type.storage_format, type.storage_type_min, type.storage_type_max)
        if not isinstance(type, IntegerType):
            raise PaddingError(f"the operand is stored as '{type}'")
        is_signed = not has_signedness(cast(IntegerType, type), Signedness.UNSIGNED)
        storage = StorageFormat(type.bitwidth, is_signed)
        return StorageRange(storage, *integer_range(type.bitwidth, is_signed))

    def can_join(self, other: Layer) -> bool:
        """Whether one tensor can contain elements of both layers."""
        if self.carried is not None or other.carried is not None:
            sides, others = self.sides, other.sides
            if sides is None or others is None or not sides.can_join(others):
                return False
        if self.parameters is None or other.parameters is None:
            return self.element_type == other.element_type
        return self.quantized.has_same_values_as(other.quantized)


_KNOWN_LAYERS = BoundedCache[tuple[Attribute, Shape], Layer]()


class Element(NamedTuple):
    """One element, such as a padding value."""

    stored: np.generic
    layer: Layer
    casts: tuple[Operation, ...]

    @property
    def is_stored_directly(self) -> bool:
        """Whether all its casts preserve the stored bits."""
        return all(map(keeps_bits, self.casts))

    def real(self) -> float:
        """The float or integer that it is stored as. Raises Refusal."""
        type = self.layer.element_type
        if self.casts or not isinstance(type, AnyFloat):
            raise Refusal(RefusalCode.PADDING, "the padding is not a known number")
        return float(type.unpack(self.stored.tobytes(), 1)[0])


def keeps_bits(cast_op: Operation) -> bool:
    """Whether a cast only reinterprets integers as quantized elements, or the reverse."""
    ends = cast_op.operands[0].type, cast_op.results[0].type
    types = [element_type_or_self(end) for end in ends]
    below, above = (isinstance(type, StoredType) for type in types)
    are_integers = all(isinstance(type, StoredType | IntegerType) for type in types)
    return below is not above and are_integers and CastReads.BITS in cast_reads(cast_op)


_KNOWN_DECLARED = BoundedCache[tuple[Layer, Attribute, Shape], Layer]()


def declared_layer(layer: Layer, declared: Attribute, shape: Shape) -> Layer:
    """`layer`, spelled by the type `declared`. Raises Refusal if that type has another meaning."""
    if layer.parameters is None and layer.element_type == declared:
        return layer
    key = layer, declared, shape
    if (known := _KNOWN_DECLARED.get(key)) is not None:
        return known
    read = Layer.of(declared, shape)
    if layer.carried is not None and layer.element_type == declared:
        return layer
    if not layer.can_join(read):
        raise Refusal(
            RefusalCode.STALE_TYPE,
            f"its elements are of type '{layer.element_type}', not '{declared}'",
        )
    if layer.parameters is not None and read.parameters is not None:
        try:
            verify_same_slots(layer.parameters, read.parameters)
        except VerifyException as error:
            raise Refusal(RefusalCode.STALE_TYPE, str(error)) from None
    spelled = Layer(declared, layer.parameters)
    return _KNOWN_DECLARED.add(key, spelled, layer.size + read.size)
