"""
The values computed from constants: their shapes, layers of casts and provenance.

A float weight is often `dcast(scast(integers))`. A shape op on it moves the integers, and the
parameters of every quantized type between the casts, which are then repeated. Only parameters
are moved while a module is read; elements are moved when the plan is applied.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias, cast

from xdsl.dialects.builtin import AnyFloat, FixedBitwidthType, IntegerType, Signedness
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.movement import Movement, MovementError, Reshape, Shape
from qdialect.algebra.padding import (
    Pad,
    Padding,
    PaddingError,
    PadWith,
    Real,
    StorageRange,
    Stored,
    check_padding,
    padding_of_codes,
)
from qdialect.algebra.parameters import QuantizationParameters, StorageFormat
from qdialect.algebra.run_map import TooManySlotsError
from qdialect.algebra.views import MAX_RANK, Elements, Splat, Values, as_view
from qdialect.dialects.quant.storage import StoredType
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.folding.layers import CarriedRanges, ScaleOrigin, Sides, can_join, joined_origin
from qdialect.folding.provenance import Provenance
from qdialect.ir.elements import element_dtype, has_signedness, integer_range
from qdialect.ir.value_types import element_type_or_self, tensor_element_type, tensor_parts
from qdialect.ops.fields import CastReads
from qdialect.ops.interface import Refusal, RefusalCode, cast_reads, name_of
from qdialect.ops.reading import Constants, StoredElement
from qdialect.support.lazy_numpy import np
from qdialect.support.memory import BoundedCache

SLOT_BYTES: Final = 16
"""The bytes of a scale and a zero point in a type."""

_MAX_ELEMENTS: Final = 1 << 62


@dataclass(frozen=True, eq=False)
class Layer:
    """
    How elements are read at one level: as stored, or after a cast.

    Equal layers are mostly one object, which serves as a cache key.
    """

    element_type: Attribute
    """
    The element type. After movements of `parameters`, only its storage and expressed type are
    valid.
    """

    parameters: QuantizationParameters | None
    """The quantization parameters, if the type is uniform quantized."""

    is_spelled: bool = True
    """Whether the element type spells the parameters."""

    sides: Sides | None = None
    """The side constants of the arithmetic that computes the elements, if any."""

    ranges: CarriedRanges | None = None
    """The ranges of an axis that were recorded for these elements, or their scales."""

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
        sides = () if self.sides is None else self.sides.constants
        own = 0 if self.parameters is None else self.parameters.size
        return own + sum([side.slots.size for side in sides])

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
        if not can_join(self.sides, other.sides) or self.ranges or other.ranges:
            return False
        if self.parameters is None or other.parameters is None:
            return self.element_type == other.element_type
        return self.quantized.has_same_values_as(other.quantized)


_KNOWN_LAYERS = BoundedCache[tuple[Attribute, Shape], Layer]()


class MovedConstant(NamedTuple):
    """A value computed from constants, without its elements."""

    step: int
    """The number of the step that results in the elements; casts do not add steps."""

    splat: Splat | None
    """The elements, if they are known to be a splat without reading them."""

    itemsize: int
    """The size of an element in bytes."""

    nbytes: int
    """The size in bytes of the written elements; 0 for a splat."""

    shape: Shape

    layers: tuple[Layer, ...]
    """The layer of the constant, then one layer for each cast after it."""

    scale_origins: tuple[ScaleOrigin | None, ...]
    """The origin of the scales of each layer; None for a layer without scales."""

    casts: tuple[Operation, ...]
    """The casts that are repeated after the constant: one fewer than layers."""

    provenance: Provenance

    input_bytes: int
    """An upper bound on the bytes of elements and scales in the input that these come from."""

    distinct: int
    """The number of elements, not counting repetitions by movements."""

    behind_sides: int = 0
    """The number of shape ops after arithmetic with side constants."""

    reshape: Operation | None = None
    """The last of these shape ops that is a reshape and can be repeated."""

    @property
    def spelled_bytes(self) -> int:
        """The bytes that the elements take, of a splat one."""
        return self.itemsize if self.splat is not None else self.nbytes

    @property
    def repeated_bytes(self) -> int:
        """The bytes of elements that are repetitions by movements."""
        if self.splat is not None:
            return 0
        return max(math.prod(self.shape) - self.distinct, 0) * self.itemsize

    @property
    def is_quantized(self) -> bool:
        """Whether elements have scales in a type."""
        return any(layer.parameters is not None for layer in self.layers)

    @property
    def is_narrowed(self) -> bool:
        """Whether a cast makes narrower elements, such as integers of stored floats."""
        stored, *others = [layer.width for layer in self.layers]
        return any([0 < width < stored for width in others])

    @classmethod
    def of_source(cls, op: Operation, elements: Elements, step: int) -> MovedConstant:
        """A constant of the module. Raises Refusal if its type does not fit its shape."""
        splat = elements if isinstance(elements, Splat) else None
        dtype = elements.value.dtype if isinstance(elements, Splat) else elements.dtype
        (result,) = op.results
        layer = Layer.of(tensor_element_type(result.type), elements.shape)
        size = math.prod(elements.shape)
        nbytes = 0 if splat is not None else size * dtype.itemsize
        return cls(
            step,
            splat,
            dtype.itemsize,
            nbytes,
            elements.shape,
            (layer,),
            (scale_origin(layer),),
            (),
            Provenance.of(op),
            nbytes + SLOT_BYTES * layer.slots_in_type,
            size,
        )

    def through(self, cast_op: Operation) -> MovedConstant:
        """This value after a cast. Raises Refusal."""
        (result,) = cast_op.results
        parts = tensor_parts(result.type)
        if parts is None:
            raise Refusal(RefusalCode.UNKNOWN_OP, "its operand is not a ranked tensor")
        layer = Layer.of(parts.element_type, self.shape)
        if (ranges := CarriedRanges.of(cast_op, self.shape)) is not None:
            layer = replace(layer, ranges=ranges)
        return self.behind(cast_op, layer)

    def behind(self, cast_op: Operation, layer: Layer) -> MovedConstant:
        """This value after a cast or arithmetic with the result `layer`."""
        return MovedConstant(
            self.step,
            self.splat,
            self.itemsize,
            self.nbytes,
            self.shape,
            (*self.layers, layer),
            (*self.scale_origins, scale_origin(layer)),
            (*self.casts, cast_op),
            self.provenance,
            self.input_bytes + SLOT_BYTES * layer.slots_in_type,
            self.distinct,
            self.behind_sides,
            self.reshape,
        )


def in_blocks(moved: MovedConstant) -> MovedConstant | None:
    """
    `moved` with each blocked axis of its side constants split into blocks and positions.

    The arithmetic is done in that shape, and one reshape after it replaces several shape ops.
    None if there are not several, or no such axes.
    """
    if moved.behind_sides < 2 or moved.reshape is None:
        return None
    sides = [layer.sides for layer in moved.layers if layer.sides is not None]
    slots = [constant.slots for each in sides for constant in each.constants]
    shape: list[int] = []
    for axis, length in enumerate(moved.shape):
        blocks = {each.block_sizes[axis] for each in slots} - {1, length}
        if len(blocks) > 1:
            return None
        shape += [length // block for block in blocks] + [*(blocks or [length])]
    if len(shape) == len(moved.shape) or len(shape) > MAX_RANK:
        return None
    movement = Reshape(tuple(shape))
    layers = [
        layer if layer.sides is None else replace(layer, sides=layer.sides.moved(movement, ()))
        for layer in moved.layers
    ]
    return moved._replace(shape=tuple(shape), layers=tuple(layers), behind_sides=0)


def form_for(moved: MovedConstant, types: Sequence[Attribute]) -> MovedConstant:
    """`moved` or `moved` in blocks, depending on the number of `types` to write it with."""
    if len(types) == len(moved.layers):
        return moved
    return in_blocks(moved) or moved


def scale_origin(layer: Layer) -> ScaleOrigin | None:
    """The origin of the scales of a layer that a type in the module declares."""
    return None if layer.parameters is None else ScaleOrigin(layer.slots_in_type)


class Element(NamedTuple):
    """One element, such as a padding value."""

    stored: np.generic
    layer: Layer
    casts: tuple[Operation, ...]

    @classmethod
    def of_stored(cls, element: StoredElement) -> Element:
        """The element of a scalar constant. Raises Refusal if its type is invalid for it."""
        return cls(element.stored, Layer.of(element.type, ()), element.casts)

    @property
    def is_stored_directly(self) -> bool:
        """Whether all its casts preserve the stored bits."""
        return all(map(_keeps_bits, self.casts))

    def real(self) -> float:
        """The float or integer that it is stored as. Raises Refusal."""
        type = self.layer.element_type
        if self.casts or not isinstance(type, AnyFloat):
            raise Refusal(RefusalCode.PADDING, "the padding is not a known number")
        return float(type.unpack(self.stored.tobytes(), 1)[0])


ParametersFor: TypeAlias = Callable[[MovedConstant, float], QuantizationParameters]
"""
Returns the parameters with which arithmetic reads padding of a given number.

Raises Refusal.
"""


class ElementMove(NamedTuple):
    """A movement of elements; `parameters` are those of the result, if the movement pads."""

    movement: Movement
    parameters: QuantizationParameters | None


def move(
    movement: Movement,
    operands: Sequence[MovedConstant],
    padding: Element | None = None,
    declared: Layer | None = None,
    parameters_for: ParametersFor | None = None,
) -> tuple[ElementMove, MovedConstant]:
    """
    `p . f` of every layer, and the move that results in `C . f`.

    `padding` is the padding element of a `PadWith`. `declared` is the only layer of the result,
    if a verifier has checked that its type means `p . f`. `parameters_for` reads arithmetic as a
    quantized type. The returned value has the step, casts and provenance of the first operand.

    Raises Refusal if the operands cannot be joined, or the movement is invalid for them.
    """
    first, *others = operands
    for other in others:
        check_joinable(first, other)
    shape, layers = _moved_layers(movement, operands, declared)
    size = math.prod(shape)
    input_bytes, distinct, origins = first.input_bytes, first.distinct, first.scale_origins
    if others:
        each_once = {id(operand): operand for operand in operands}.values()
        input_bytes = sum([each.input_bytes for each in each_once])
        distinct = sum([each.distinct for each in each_once])
        all_origins = zip(*[operand.scale_origins for operand in operands], strict=True)
        origins = tuple(map(joined_origin, all_origins))
    read: QuantizationParameters | None = None
    if isinstance(movement, Pad):
        distinct += max(size - math.prod(first.shape), 0)
        padded = first._replace(shape=shape, layers=layers)
        movement, read = _with_padding(movement, padded, padding, parameters_for)
    splat = _moved_splat(movement, operands, read)
    moved = MovedConstant(
        first.step,
        splat,
        first.itemsize,
        0 if splat is not None else size * first.itemsize,
        shape,
        layers,
        origins,
        first.casts,
        first.provenance,
        input_bytes,
        min(distinct, size),
    )
    return ElementMove(movement, read), moved


def _moved_layers(
    movement: Movement, operands: Sequence[MovedConstant], declared: Layer | None
) -> tuple[Shape, tuple[Layer, ...]]:
    """The shape and the layers of the result. Raises Refusal."""
    try:
        shape = movement.result_shape(*[operand.shape for operand in operands])
        size = math.prod(shape)
        if size > _MAX_ELEMENTS:
            raise MovementError(f"{size} elements are too many")
        if declared is not None:
            layers = (declared,)
        else:
            all_layers = zip(*[operand.layers for operand in operands], strict=True)
            layers = tuple([_move_layers(movement, layers) for layers in all_layers])
    except MovementError as error:
        raise Refusal(RefusalCode.UNKNOWN_OP, str(error)) from None
    except TooManySlotsError as error:
        raise Refusal(RefusalCode.PARAMETER_GROWTH, str(error)) from None
    if len(shape) > MAX_RANK:
        raise Refusal(RefusalCode.UNKNOWN_OP, f"rank {len(shape)} is more than {MAX_RANK}")
    return shape, layers


def move_elements(moves: Sequence[ElementMove], operands: Sequence[Values]) -> Values:
    """`C . f`: the moved elements, as views where possible."""
    values = operands
    for movement, parameters in moves:
        splats = [splat for splat in values if isinstance(splat, Splat)]
        if len(splats) == len(values) and movement.keeps_splats(splats, parameters):
            values = [movement(*splats)]
        else:
            values = [movement.move_values(values, parameters)]
    (moved,) = values
    return moved


def single_element(moved: MovedConstant, values: Values) -> Element:
    """The only element of a tensor. Raises Refusal if it has another number of elements."""
    if math.prod(moved.shape) != 1:
        raise Refusal(RefusalCode.PADDING, "the padding is not one element")
    array = as_view(values).array().reshape(-1)
    return Element(array[0], moved.layers[-1], moved.casts)


def _moved_splat(
    movement: Movement, operands: Sequence[MovedConstant], parameters: QuantizationParameters | None
) -> Splat | None:
    splats: list[Splat] = []
    for operand in operands:
        if operand.splat is None:
            return None
        splats.append(operand.splat)
    return movement(*splats) if movement.keeps_splats(splats, parameters) else None


def check_joinable(first: MovedConstant, other: MovedConstant) -> None:
    """Raise Refusal if one constant cannot hold elements of both."""
    same_casts = len(first.casts) == len(other.casts) and all(
        name_of(one) == name_of(another)
        for one, another in zip(first.casts, other.casts, strict=True)
    )
    if not same_casts or not all(map(Layer.can_join, first.layers, other.layers)):
        raise Refusal(
            RefusalCode.MIXED_CONSTANTS,
            "its operands are constants of different kinds, or behind different casts",
        )


def _move_layers(movement: Movement, layers: tuple[Layer, ...]) -> Layer:
    first = layers[0]
    if first.ranges is not None:
        return replace(first, ranges=first.ranges.moved(movement))
    if first.parameters is None:
        return first if first.sides is None else _move_sides(movement, layers)
    key = movement, layers
    if (known := _KNOWN_MOVED_LAYERS.get(key)) is not None:
        return known
    parameters = [cast(QuantizationParameters, layer.parameters) for layer in layers]
    moved = movement(*parameters).simplify()
    layer = Layer(first.element_type, moved, is_spelled=False)
    weight = movement.size + sum(1 + each.size for each in (*parameters, moved))
    return _KNOWN_MOVED_LAYERS.add(key, layer, weight)


def _move_sides(movement: Movement, layers: Sequence[Layer]) -> Layer:
    first, *others = (cast(Sides, layer.sides) for layer in layers)
    return replace(layers[0], sides=first.moved(movement, others))


_KNOWN_MOVED_LAYERS = BoundedCache[tuple[Movement, tuple[Layer, ...]], Layer]()


def _with_padding(
    movement: Pad,
    padded: MovedConstant,
    element: Element | None,
    parameters_for: ParametersFor | None,
) -> tuple[Pad, QuantizationParameters | None]:
    """
    The movement with its padding value, and the parameters of the result.

    `padded` has the shape and the layers of the result. Without an element, it is zero.

    Raises Refusal if no storable integer represents `element`.
    """
    casts, layers = padded.casts, padded.layers
    quantized = [at for at, layer in enumerate(layers) if layer.parameters is not None]
    if not quantized:
        is_alike = element is not None and element.layer.element_type == layers[-1].element_type
        if casts and (element is None or is_alike) and parameters_for is not None:
            real = 0.0 if element is None else element.real()
            return _with_real_padding(movement, real, parameters_for(padded, real))
        type = layers[-1].element_type
        if element is None and not casts and isinstance(type, AnyFloat | IntegerType):
            zero = Stored(element_dtype(cast(AnyFloat, type)).type(0))
            return PadWith(movement.low, movement.high, movement.gaps, zero), None
        if casts or element is None or element.casts or not element.layer.can_join(layers[-1]):
            raise Refusal(RefusalCode.PADDING, "the padding is not stored as the operand is")
        return replace(cast(PadWith, movement), padded_with=Stored(element.stored)), None
    at = quantized[-1]
    if not all(map(_keeps_bits, casts[:at])):
        raise Refusal(RefusalCode.PADDING, "the operand is quantized at run time")
    parameters = cast(QuantizationParameters, layers[at].parameters)
    if element is None and casts[at:]:
        raise Refusal(RefusalCode.PADDING, "there is no zero point to pad with")
    try:
        if element is not None:
            padding = _padding_for(element, layers[at:], casts[at:])
            movement = replace(cast(PadWith, movement), padded_with=padding)
        check_padding(movement, parameters, [layer.storage_range for layer in layers[: at + 1]])
    except PaddingError as error:
        raise Refusal(RefusalCode.PADDING, str(error)) from None
    return movement, parameters


def _with_real_padding(
    movement: Pad, real: float, parameters: QuantizationParameters
) -> tuple[Pad, QuantizationParameters]:
    """
    The movement with a number as its padding, and the parameters with which arithmetic reads it.

    Raises Refusal if no storable integer represents the number.
    """
    storage = parameters.storage
    padded = PadWith(movement.low, movement.high, movement.gaps, Real(real))
    whole = StorageRange(storage, *integer_range(storage.width, storage.signed))
    try:
        check_padding(padded, parameters, [whole])
    except PaddingError as error:
        raise Refusal(RefusalCode.PADDING, str(error)) from None
    return padded, parameters


def _padding_for(element: Element, layers: Sequence[Layer], casts: Sequence[Operation]) -> Padding:
    """
    The padding value in the first of `layers`, for an element given in the last.

    The first layer is quantized, and each of `casts` leads from a layer to the next. Raises
    Refusal.
    """
    bottom, top = layers[0], layers[-1]
    if not casts:
        if element.layer.parameters is None or not element.is_stored_directly:
            raise Refusal(RefusalCode.PADDING, "the padding is not quantized")
        same = element.layer.can_join(bottom)
        of, wanted = element.layer.parameters, cast(QuantizationParameters, bottom.parameters)
        return padding_of_codes(element.stored, of, wanted, is_same_storage=same)
    if not element.layer.can_join(top):
        raise Refusal(
            RefusalCode.PADDING,
            f"elements of type '{top.element_type}' are padded with an element of type "
            f"'{element.layer.element_type}'",
        )
    if all(map(_keeps_bits, casts)):
        if not element.is_stored_directly:
            raise Refusal(RefusalCode.PADDING, "the padding is not a stored integer")
        return Stored(element.stored)
    name = name_of(casts[-1])
    if len(casts) > 1 or CastReads.NUMBERS not in cast_reads(casts[0]):
        raise Refusal(RefusalCode.PADDING, f"the operand has been cast by '{name}'")
    if top.element_type != bottom.quantized.expressed_type:
        raise Refusal(RefusalCode.PADDING, f"'{name}' casts the operand to '{top.element_type}'")
    return Real(element.real())


def _keeps_bits(cast_op: Operation) -> bool:
    """Whether a cast only reinterprets integers as quantized elements, or the reverse."""
    ends = cast_op.operands[0].type, cast_op.results[0].type
    types = [element_type_or_self(end) for end in ends]
    below, above = (isinstance(type, StoredType) for type in types)
    are_integers = all(isinstance(type, StoredType | IntegerType) for type in types)
    return below is not above and are_integers and CastReads.BITS in cast_reads(cast_op)


class ElementStep(NamedTuple):
    """A step: a constant of the module, or a shape op that moves the elements of other steps."""

    op: Operation

    operands: tuple[int, ...] = ()
    """The numbers of the steps whose elements are moved; empty for a constant."""

    moves: tuple[ElementMove, ...] = ()


class ElementValues:
    """
    The elements after each step, as views where possible.

    They are cached for the lifetime of this object, or until their last use after `keep_for`.
    """

    def __init__(self, steps: Sequence[ElementStep], constants: Constants) -> None:
        self._steps = steps
        self._constants = constants
        self._known: dict[int, Values] = {}
        """The cached elements after shape ops."""
        self._readers: list[int] | None = None
        """For each step, the number of reads of its elements that are still to come."""

    def keep_for(self, roots: Iterable[int]) -> None:
        """
        Free the elements of each step once all steps toward `roots`, and `take`, have read
        them.
        """
        pending, steps = list(roots), self._steps
        readers = self._readers = [0] * len(steps)
        for number in pending:
            readers[number] += 1
        while pending:
            for operand in steps[pending.pop()].operands:
                if not readers[operand]:
                    pending.append(operand)
                readers[operand] += 1

    def take(self, number: int) -> Values:
        """The elements after one of the roots; each root may be taken once."""
        values = self.of(number)
        self._has_been_read((number,))
        return values

    def of(self, number: int) -> Values:
        """The elements after a step."""
        pending, found = [number], self._find(number)
        while found is None:
            at = pending[-1]
            _, operands, moves = self._steps[at]
            values: list[Values] = []
            missing: list[int] = []
            for operand in operands:
                known = self._find(operand)
                if known is None:
                    missing.append(operand)
                else:
                    values.append(known)
            if missing:
                pending += missing
                continue
            moved = self._known[at] = move_elements(moves, values)
            self._has_been_read(operands)
            if at == number:
                return moved
            while pending and pending[-1] in self._known:
                pending.pop()
        return found

    def _find(self, number: int) -> Values | None:
        if (known := self._known.get(number)) is not None:
            return known
        op, operands, _ = self._steps[number]
        return None if operands else self._constants.read(op)

    def _has_been_read(self, numbers: Iterable[int]) -> None:
        if (readers := self._readers) is None:
            return
        for number in numbers:
            readers[number] -= 1
            if not readers[number]:
                self._known.pop(number, None)
