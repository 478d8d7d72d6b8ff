"""
What a value holds that is made of constants: its shape, and how its elements are read.

A float weight is often `dcast(scast(integers))`. A shape op on it moves the integers, and
the parameters of every quantized type on the way: each cast is then made again. Here only
the parameters are moved. The elements are moved when the plan is applied.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple, cast

from xdsl.dialects.builtin import AnyFloat, IntegerType, Signedness
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.array_view import MAX_RANK
from qdialect.algebra.bounded_cache import BoundedCache
from qdialect.algebra.lazy_numpy import np
from qdialect.algebra.movement import (
    Elements,
    Movement,
    MovementError,
    Reshape,
    Shape,
    Splat,
    Values,
    as_view,
)
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
from qdialect.dialects.quant.types import StoredType, UniformQuantizedType
from qdialect.folding.provenance import Provenance
from qdialect.folding.scale_origin import ScaleOrigin, joined_origin
from qdialect.folding.side_constants import Sides, can_join
from qdialect.ir.elements import has_signedness, integer_range
from qdialect.ir.value_types import element_type_or_self, tensor_element_type, tensor_parts
from qdialect.shape_ops.interface import CastReads, Code, NotFoldable, cast_reads, name_of
from qdialect.shape_ops.reading import StoredElement

SLOT_BYTES: Final = 16
"""The bytes of a scale and a zero point in a type."""

_MAX_ELEMENTS: Final = 1 << 62


@dataclass(frozen=True, eq=False)
class Layer:
    """
    How elements are read: as they are stored, or behind a cast.

    Equal layers are mostly one object, which is a cache key.
    """

    element_type: Attribute
    """Where `parameters` have moved, only its storage and expressed type count."""

    parameters: QuantizationParameters | None
    """The scale and zero point of each element, if the type is uniform quantized."""

    is_spelled: bool = True
    """Whether the element type spells the parameters."""

    sides: Sides | None = None
    """What is read beside the elements below, if arithmetic makes the elements."""

    @classmethod
    def of(cls, element_type: Attribute, shape: Shape) -> Layer:
        """
        The layer of a tensor of static `shape`.

        Raises NotFoldable if no such tensor can have the type.
        """
        if (known := _KNOWN_LAYERS.get((element_type, shape))) is not None:
            return known
        parameters = None
        if isinstance(element_type, UniformQuantizedType):
            try:
                parameters = element_type.parameters_on(shape)
            except VerifyException as error:
                raise NotFoldable(
                    Code.STALE_TYPE, f"its type does not fit its shape: {error}"
                ) from None
        layer = cls(element_type, parameters)
        return _KNOWN_LAYERS.add((element_type, shape), layer, layer.size)

    @cached_property
    def size(self) -> int:
        """The number of slots that elements read."""
        sides = () if self.sides is None else self.sides.constants
        own = 0 if self.parameters is None else self.parameters.size
        return own + sum([side.slots.size for side in sides])

    @cached_property
    def slots_in_type(self) -> int:
        """The number of scales in the element type, which may be more than `size`."""
        type = self.element_type
        return type.scales.size if isinstance(type, UniformQuantizedType) else 0

    @property
    def quantized(self) -> UniformQuantizedType:
        """The element type of a layer that has parameters."""
        return cast(UniformQuantizedType, self.element_type)

    @property
    def storage_range(self) -> StorageRange:
        """Which integers an element may be. Raises PaddingError if it is not one."""
        type = self.element_type
        if isinstance(type, StoredType):
            return StorageRange(type.storage_format, type.storage_type_min, type.storage_type_max)
        if not isinstance(type, IntegerType):
            raise PaddingError(f"what is padded is stored as '{type}'")
        is_signed = not has_signedness(cast(IntegerType, type), Signedness.UNSIGNED)
        storage = StorageFormat(type.bitwidth, is_signed)
        return StorageRange(storage, *integer_range(type.bitwidth, is_signed))

    def can_join(self, other: Layer) -> bool:
        """Whether one tensor can have elements of both."""
        if not can_join(self.sides, other.sides):
            return False
        if self.parameters is None or other.parameters is None:
            return self.element_type == other.element_type
        return self.quantized.has_same_values_as(other.quantized)


_KNOWN_LAYERS = BoundedCache[tuple[Attribute, Shape], Layer]()


class MovedConstant(NamedTuple):
    """What a value holds that is made of constants, without the elements."""

    step: int
    """The step of the plan that makes the elements; casts make no new ones."""

    splat: Splat | None
    """The elements, if they are known to be all equal without looking at them."""

    itemsize: int
    """The bytes of an element in memory."""

    nbytes: int
    """The bytes that the elements take once they are written; a splat takes none."""

    shape: Shape

    layers: tuple[Layer, ...]
    """How the elements of the constant are read, and how those of each cast behind it."""

    scale_origins: tuple[ScaleOrigin | None, ...]
    """Where the scales of each layer come from; None for a layer without scales."""

    casts: tuple[Operation, ...]
    """The casts that are made again behind the constant: one less than layers."""

    provenance: Provenance

    input_bytes: int
    """The bytes of the elements and scales in the input that these are made of, at most."""

    distinct: int
    """How many elements there are, those that a movement repeats counted once."""

    behind_sides: int = 0
    """The number of shape ops behind arithmetic that reads something beside the elements."""

    reshape: Operation | None = None
    """The last of these that is a reshape, and can be written again."""

    @property
    def spelled_bytes(self) -> int:
        """The bytes that the elements take, of a splat one."""
        return self.itemsize if self.splat is not None else self.nbytes

    @property
    def repeated_bytes(self) -> int:
        """The bytes that elements take because a movement repeats others."""
        if self.splat is not None:
            return 0
        return max(math.prod(self.shape) - self.distinct, 0) * self.itemsize

    @property
    def is_quantized(self) -> bool:
        """Whether elements are read with scales, of a type or of arithmetic."""
        return any(layer.size for layer in self.layers)

    @classmethod
    def of_source(cls, op: Operation, elements: Elements, step: int) -> MovedConstant:
        """A constant of the module. Raises NotFoldable if its type does not fit its shape."""
        splat = elements if isinstance(elements, Splat) else None
        dtype = elements.value.dtype if isinstance(elements, Splat) else elements.dtype
        layer = Layer.of(tensor_element_type(op.results[0].type), elements.shape)
        nbytes = 0 if splat is not None else math.prod(elements.shape) * dtype.itemsize
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
            math.prod(elements.shape),
        )

    def through(self, cast_op: Operation) -> MovedConstant:
        """What a cast makes of this. Raises NotFoldable."""
        parts = tensor_parts(cast_op.results[0].type)
        if parts is None:
            raise NotFoldable(Code.UNKNOWN_OP, "it does not cast a ranked tensor")
        return self.behind(cast_op, Layer.of(parts.element_type, self.shape))

    def behind(self, cast_op: Operation, layer: Layer) -> MovedConstant:
        """This behind a cast, or behind arithmetic, whose result is read as `layer` says."""
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
    `moved` with an axis for each block of what is read beside the elements, and within it.

    The arithmetic is done so, and one reshape is left behind it, of several shape ops. None if
    there are not several, or no such axes.
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
    """`moved`, or `moved` in blocks: that which is written as ops of these types."""
    if len(types) == len(moved.layers):
        return moved
    return in_blocks(moved) or moved


def scale_origin(layer: Layer) -> ScaleOrigin | None:
    """The origin of the scales of a layer that a type of the module declares."""
    return None if layer.parameters is None else ScaleOrigin(layer.slots_in_type)


class Element(NamedTuple):
    """One element, such as a padding value."""

    stored: np.generic
    layer: Layer
    casts: tuple[Operation, ...]

    @classmethod
    def of_stored(cls, element: StoredElement) -> Element:
        """A scalar constant. Raises NotFoldable if it cannot have its type."""
        return cls(element.stored, Layer.of(element.type, ()), element.casts)

    @property
    def is_stored_directly(self) -> bool:
        """Whether its casts keep the stored bits."""
        return all(map(_keeps_bits, self.casts))

    def real(self) -> float:
        """The number that it is, if it is stored as one. Raises NotFoldable."""
        type = self.layer.element_type
        if self.casts or not isinstance(type, AnyFloat):
            raise NotFoldable(Code.PADDING, "what is padded with is not a known number")
        return float(type.unpack(self.stored.tobytes(), 1)[0])


class ElementMove(NamedTuple):
    """How elements are moved: by `movement`, to a result that has `parameters` if it pads."""

    movement: Movement
    parameters: QuantizationParameters | None


def move(
    movement: Movement,
    operands: Sequence[MovedConstant],
    padding: Element | None = None,
    declared: Layer | None = None,
) -> tuple[ElementMove, MovedConstant]:
    """
    `p . f` of every layer, and how to make `C . f`.

    `padding` is the element that a `PadWith` pads with. `declared` is the only layer of the
    result, where a verifier has checked that its type means `p . f`. The step, the casts,
    and the provenance of what is returned are those of the first operand.

    Raises NotFoldable if the operands cannot be joined, or there is no such movement.
    """
    first, *others = operands
    for other in others:
        check_joinable(first, other)
    try:
        shape = movement.result_shape(*[operand.shape for operand in operands])
        size = math.prod(shape)
        if size > _MAX_ELEMENTS:
            raise MovementError(f"{size} elements are too many")
        if declared is not None:
            layers = (declared,)
        elif others:
            all_layers = zip(*[operand.layers for operand in operands], strict=True)
            layers = tuple([_move_layers(movement, layers) for layers in all_layers])
        else:
            layers = tuple([_move_layers(movement, (layer,)) for layer in first.layers])
    except MovementError as error:
        raise NotFoldable(Code.UNKNOWN_OP, str(error)) from None
    except TooManySlotsError as error:
        raise NotFoldable(Code.PARAMETER_GROWTH, str(error)) from None
    if len(shape) > MAX_RANK:
        raise NotFoldable(Code.UNKNOWN_OP, f"rank {len(shape)} is more than {MAX_RANK}")
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
        movement, read = _with_padding(movement, first, layers, padding)
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


def move_elements(moves: Sequence[ElementMove], operands: Sequence[Values]) -> Values:
    """`C . f`: elements of which only views are made, where that is possible."""
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
    """The only element of a tensor that has one. Raises NotFoldable."""
    if math.prod(moved.shape) != 1:
        raise NotFoldable(Code.PADDING, "what is padded with is not one element")
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
    """Raise NotFoldable if one constant cannot hold the elements of both."""
    same_casts = len(first.casts) == len(other.casts) and all(
        name_of(one) == name_of(another)
        for one, another in zip(first.casts, other.casts, strict=True)
    )
    if not same_casts or not all(map(Layer.can_join, first.layers, other.layers)):
        raise NotFoldable(
            Code.MIXED_CONSTANTS,
            "its operands are constants of different kinds, or behind different casts",
        )


def _move_layers(movement: Movement, layers: tuple[Layer, ...]) -> Layer:
    first = layers[0]
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
    movement: Pad, operand: MovedConstant, layers: Sequence[Layer], element: Element | None
) -> tuple[Pad, QuantizationParameters | None]:
    """
    The movement with its padding value, and the parameters of the result.

    Raises NotFoldable if no integer that can be stored is read as `element`.
    """
    casts = operand.casts
    quantized = [at for at, layer in enumerate(layers) if layer.parameters is not None]
    if not quantized:
        if casts or element is None or element.casts or not element.layer.can_join(layers[-1]):
            raise NotFoldable(Code.PADDING, "what is padded with is not stored as the operand is")
        return replace(cast(PadWith, movement), padded_with=Stored(element.stored)), None
    at = quantized[-1]
    if not all(map(_keeps_bits, casts[:at])):
        raise NotFoldable(Code.PADDING, "what is padded is quantized at run time")
    parameters = cast(QuantizationParameters, layers[at].parameters)
    if element is None and casts[at:]:
        raise NotFoldable(Code.PADDING, "there is no zero point to pad with")
    try:
        if element is not None:
            padding = _padding_for(element, layers[at:], casts[at:])
            movement = replace(cast(PadWith, movement), padded_with=padding)
        check_padding(movement, parameters, [layer.storage_range for layer in layers[: at + 1]])
    except PaddingError as error:
        raise NotFoldable(Code.PADDING, str(error)) from None
    return movement, parameters


def _padding_for(element: Element, layers: Sequence[Layer], casts: Sequence[Operation]) -> Padding:
    """
    The padding value in the first of `layers`, for an element that pads the last of them.

    The first layer is quantized, and `casts` lead from each layer to the next. Raises
    NotFoldable.
    """
    bottom, top = layers[0], layers[-1]
    if not casts:
        if element.layer.parameters is None or not element.is_stored_directly:
            raise NotFoldable(Code.PADDING, "what is padded with is not quantized")
        same = element.layer.can_join(bottom)
        of, wanted = element.layer.parameters, cast(QuantizationParameters, bottom.parameters)
        return padding_of_codes(element.stored, of, wanted, is_same_storage=same)
    if not element.layer.can_join(top):
        raise NotFoldable(
            Code.PADDING,
            f"elements of type '{top.element_type}' are padded with one of type "
            f"'{element.layer.element_type}'",
        )
    if all(map(_keeps_bits, casts)):
        if not element.is_stored_directly:
            raise NotFoldable(Code.PADDING, "what is padded with is not a stored integer")
        return Stored(element.stored)
    name = name_of(casts[-1])
    if len(casts) > 1 or CastReads.NUMBERS not in cast_reads(casts[0]):
        raise NotFoldable(Code.PADDING, f"what is padded has been cast by '{name}'")
    if top.element_type != bottom.quantized.expressed_type:
        raise NotFoldable(Code.PADDING, f"'{name}' makes '{top.element_type}' of what is padded")
    return Real(element.real())


def _keeps_bits(cast_op: Operation) -> bool:
    """Whether a cast only calls integers quantized elements, or the other way round."""
    ends = cast_op.operands[0].type, cast_op.results[0].type
    types = [element_type_or_self(end) for end in ends]
    below, above = (isinstance(type, StoredType) for type in types)
    are_integers = all(isinstance(type, StoredType | IntegerType) for type in types)
    return below is not above and are_integers and CastReads.BITS in cast_reads(cast_op)
