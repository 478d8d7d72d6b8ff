"""
Constants on the move, with the casts that they are read through.

A float weight is often `dcast(scast(integers))`. A shape op on it moves the integers, and
the parameters of every quantized type on the way: each cast is then made again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

from qdialect.array_view import MAX_RANK, ArrayView
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.lazy_numpy import np
from qdialect.memo import Memo
from qdialect.movement import (
    Movement,
    MovementError,
    Pad,
    PaddingError,
    PadWith,
    Real,
    Shape,
    Splat,
    Stored,
    Values,
    as_view,
)
from qdialect.parameters import QuantizationParameters
from qdialect.shape_folding.provenance import Provenance
from qdialect.shape_op_interface import Code, NotFoldable, name_of
from qdialect.slot_map import TooManySlotsError

MAX_MOVED_GROWTH: Final = 1 << 30
"""How many bytes elements may take more than before, on the way to what is written: 1 GiB."""

_MAX_ELEMENTS: Final = 1 << 62

_STORAGE_CAST = "quant.scast"
_DEQUANTIZING_CASTS = ("quant.dcast", "stablehlo.uniform_dequantize", "tosa.cast")


@dataclass(frozen=True, eq=False)
class Layer:
    """
    How elements are read at one place between casts.

    Equal ones are mostly the same one, so that what they become can be remembered.
    """

    element_type: Attribute
    """Where `parameters` have moved, only its storage and expressed type count."""

    parameters: QuantizationParameters | None
    """What each element reads, if the type is uniform quantized."""

    slots_before: int = 0
    """How many slots the types had that the parameters came from."""

    is_spelled: bool = True
    """Whether the element type spells the parameters."""

    @classmethod
    def of(cls, element_type: Attribute, shape: Shape) -> Layer:
        """
        What elements of a tensor of static `shape` are read with.

        Raises NotFoldable if no such tensor can have the type.
        """
        if (known := _KNOWN_LAYERS.get((element_type, shape))) is not None:
            return known
        parameters, slots = None, 0
        if isinstance(element_type, UniformQuantizedType):
            slots = element_type.scales.size
            try:
                parameters = element_type.parameters_on(shape)
            except VerifyException as error:
                raise NotFoldable(
                    Code.STALE_TYPE, f"its type does not fit its shape: {error}"
                ) from None
        layer = cls(element_type, parameters, slots)
        return _KNOWN_LAYERS.add((element_type, shape), layer, slots)

    @property
    def size(self) -> int:
        """How many slots it has."""
        return 0 if self.parameters is None else self.parameters.size

    @property
    def quantized(self) -> UniformQuantizedType:
        """The element type of a layer that has parameters."""
        return cast(UniformQuantizedType, self.element_type)

    def can_join(self, other: Layer) -> bool:
        """Whether one tensor can have elements of both."""
        if self.parameters is None or other.parameters is None:
            return self.element_type == other.element_type
        return self.quantized.has_same_values_as(other.quantized)


_KNOWN_LAYERS = Memo[tuple[Attribute, Shape], Layer]()


@dataclass(frozen=True, eq=False)
class MovedConstant:
    """What a value holds: a view of the elements of constants, and how they are read."""

    values: Values
    """As stored: integers, or the bits of what is not an integer."""

    shape: Shape
    """The shape of the value."""

    layers: tuple[Layer, ...]
    """How the constant is read, and then what each cast makes of it."""

    casts: tuple[Operation, ...]
    """One less than layers: what is made again behind the constant."""

    provenance: Provenance

    @property
    def sources(self) -> tuple[Operation, ...]:
        """The constants that elements came from, in the order of their elements."""
        return self.provenance.sources

    @property
    def nbytes(self) -> int:
        """The memory that the elements take once they are written; a splat takes none."""
        return _nbytes(self.values, self.shape)

    def through(self, cast_op: Operation) -> MovedConstant:
        """What a cast makes of this. Raises NotFoldable."""
        type = cast_op.results[0].type
        if not isinstance(type, TensorType):
            raise NotFoldable(Code.UNKNOWN_OP, "it does not cast a ranked tensor")
        tensor = cast("TensorType[Attribute]", type)
        return MovedConstant(
            self.values,
            self.shape,
            (*self.layers, Layer.of(tensor.element_type, self.shape)),
            (*self.casts, cast_op),
            self.provenance,
        )

    def with_last_layer(self, layer: Layer) -> MovedConstant:
        """The same value, which is known to be read so."""
        return replace(self, layers=(*self.layers[:-1], layer))

    @property
    def single_element(self) -> Element:
        """The only element, of a tensor that has one. Raises NotFoldable."""
        if math.prod(self.shape) != 1:
            raise NotFoldable(Code.PADDING, "what is padded with is not one element")
        array = as_view(self.values).array().reshape(-1)
        return Element(array[0], self.layers[-1], tuple(map(name_of, self.casts)))


class Element(NamedTuple):
    """One element, such as what is padded with."""

    stored: np.generic
    layer: Layer
    casts: tuple[str, ...]

    @property
    def is_stored_directly(self) -> bool:
        """Whether what is stored has only been called something else."""
        return all(cast == _STORAGE_CAST for cast in self.casts)

    def real(self) -> float:
        """What it is read as. Raises NotFoldable if that is not known."""
        type, parameters = self.layer.element_type, self.layer.parameters
        if parameters is not None and self.is_stored_directly:
            return parameters.read(cast(Any, np.asarray(self.stored))).item()
        if not self.casts:
            unpacked = cast(Any, type).unpack(self.stored.tobytes(), 1)[0]
            if isinstance(unpacked, int | float):
                return float(unpacked)
        raise NotFoldable(Code.PADDING, "what is padded with is not a known number")


def move(
    movement: Movement,
    operands: Sequence[MovedConstant],
    padding: Element | None = None,
    declared: Layer | None = None,
) -> MovedConstant:
    """
    `C . f`, and `p . f` of every layer. Elements are only viewed where that is possible.

    `padding` is what a `PadWith` pads with. `declared` is what the elements of the only
    layer are known to read afterwards.

    Raises NotFoldable if the operands cannot be joined, there is no such movement, or the
    elements take more than `MAX_MOVED_GROWTH` bytes more than those of the operands.
    """
    first, *others = operands
    for other in others:
        _check_joinable(first, other)
    try:
        shape = movement.result_shape(*[operand.shape for operand in operands])
        if math.prod(shape) > _MAX_ELEMENTS:
            raise MovementError(f"{math.prod(shape)} elements are too many")
        all_layers = zip(*[operand.layers for operand in operands], strict=True)
        layers = tuple([_move_layers(movement, layers, declared) for layers in all_layers])
    except MovementError as error:
        raise NotFoldable(Code.UNKNOWN_OP, str(error)) from None
    except TooManySlotsError as error:
        raise NotFoldable(Code.PARAMETER_GROWTH, str(error)) from None
    if len(shape) > MAX_RANK:
        raise NotFoldable(Code.UNKNOWN_OP, f"rank {len(shape)} is more than {MAX_RANK}")
    read: QuantizationParameters | None = None
    if isinstance(movement, Pad):
        movement, read = _with_padding(movement, first, layers, padding)
    values = _move_values(movement, operands, shape, read)
    return MovedConstant(values, shape, layers, first.casts, first.provenance)


def _check_joinable(first: MovedConstant, other: MovedConstant) -> None:
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


def _move_layers(movement: Movement, layers: Sequence[Layer], declared: Layer | None) -> Layer:
    first, slots_before = layers[0], sum([layer.slots_before for layer in layers])
    if declared is not None:
        if declared.slots_before == slots_before:
            return declared
        return replace(declared, slots_before=slots_before)
    if first.parameters is None:
        return first
    key = movement, tuple(layers)
    if (known := _KNOWN_MOVED_LAYERS.get(key)) is not None:
        return known
    parameters = [cast(QuantizationParameters, layer.parameters) for layer in layers]
    moved = movement(*parameters).simplify()
    layer = Layer(first.element_type, moved, slots_before, is_spelled=False)
    weight = movement.size + sum(1 + each.size for each in (*parameters, moved))
    return _KNOWN_MOVED_LAYERS.add(key, layer, weight)


_KNOWN_MOVED_LAYERS = Memo[tuple[Movement, tuple[Layer, ...]], Layer]()


def _with_padding(
    movement: Pad, operand: MovedConstant, layers: Sequence[Layer], element: Element | None
) -> tuple[Pad, QuantizationParameters | None]:
    """
    The movement with what is stored at new positions, and what these are read with.

    Raises NotFoldable if nothing that can be stored is read as what is padded with.
    """
    casts = [name_of(cast) for cast in operand.casts]
    quantized = [at for at, layer in enumerate(layers) if layer.parameters is not None]
    if not quantized:
        if casts or element is None or element.casts or not element.layer.can_join(layers[-1]):
            raise NotFoldable(Code.PADDING, "what is padded with is not stored as the operand is")
        return replace(cast(PadWith, movement), padded_with=Stored(element.stored)), None
    at = quantized[-1]
    below, above = casts[:at], casts[at:]
    if any(cast != _STORAGE_CAST for cast in below):
        raise NotFoldable(Code.PADDING, "what is padded is quantized at run time")
    layer = layers[at]
    if element is not None:
        if above and above[0] in _DEQUANTIZING_CASTS:
            _check_dequantizes(layer, layers[at + 1], above[0])
        movement = replace(cast(PadWith, movement), padded_with=_padding_for(element, layer, above))
    elif above:
        raise NotFoldable(Code.PADDING, "there is no zero point to pad with")
    parameters = cast(QuantizationParameters, layer.parameters)
    _check_codes(movement, layer.quantized, parameters)
    return movement, parameters


def _check_dequantizes(layer: Layer, read: Layer, cast: str) -> None:
    """Raise NotFoldable if a cast to `read` is not to what `layer` stands for."""
    if read.element_type != layer.quantized.expressed_type:
        raise NotFoldable(Code.PADDING, f"'{cast}' makes '{read.element_type}' of what is padded")


def _padding_for(element: Element, layer: Layer, casts: Sequence[str]) -> Stored | Real:
    """What is stored, below `casts`, for an element that is padded with above them."""
    parameters = cast(QuantizationParameters, layer.parameters)
    if not casts:
        if element.layer.parameters is None or not element.is_stored_directly:
            raise NotFoldable(Code.PADDING, "what is padded with is not quantized")
        origin = (0,) * element.layer.parameters.ndim
        same_slot = parameters.size == 1 and parameters.slot(
            (0,) * parameters.ndim
        ) == element.layer.parameters.slot(origin)
        return Stored(element.stored) if same_slot else Real(element.real())
    if all(cast == _STORAGE_CAST for cast in casts):
        if not element.is_stored_directly:
            raise NotFoldable(Code.PADDING, "what is padded with is not a stored integer")
        return Stored(element.stored)
    if len(casts) > 1 or casts[0] not in _DEQUANTIZING_CASTS:
        raise NotFoldable(Code.PADDING, f"what is padded has been cast by '{casts[-1]}'")
    return Real(element.real())


def _check_codes(
    movement: Pad, type: UniformQuantizedType, parameters: QuantizationParameters
) -> None:
    """Raise NotFoldable if what new positions would hold cannot be stored."""
    low, high = type.storage_type_min, type.storage_type_max
    for _, read in movement.new_positions(parameters):
        try:
            codes = parameters.storage.wrap(movement.padding.codes(read).astype(np.int64))
        except PaddingError as error:
            raise NotFoldable(Code.PADDING, str(error)) from None
        if (codes < low).any() or (codes > high).any():
            raise NotFoldable(
                Code.PADDING, f"it is padded with what is outside the storage range [{low}, {high}]"
            )


def _move_values(
    movement: Movement,
    operands: Sequence[MovedConstant],
    shape: Shape,
    parameters: QuantizationParameters | None,
) -> Values:
    values = [operand.values for operand in operands]
    splats = [splat for splat in values if isinstance(splat, Splat)]
    if len(splats) == len(operands) and movement.keeps_splats(splats, parameters):
        return movement(*splats)
    size = math.prod(shape) * _dtype(values[0]).itemsize
    growth = size - sum([operand.nbytes for operand in operands])
    if growth > MAX_MOVED_GROWTH:
        raise NotFoldable(
            Code.GROWTH, f"it would take {growth} bytes more, and {MAX_MOVED_GROWTH} are allowed"
        )
    return movement.move_values(values, parameters)


def _dtype(values: Values) -> np.dtype[Any]:
    if isinstance(values, Splat):
        return values.value.dtype
    return (values.factors if isinstance(values, ArrayView) else values).dtype


def _nbytes(values: Values, shape: Shape) -> int:
    return 0 if isinstance(values, Splat) else math.prod(shape) * _dtype(values).itemsize
