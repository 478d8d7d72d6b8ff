"""
The values computed from constants: their shapes, layers of casts and provenance.

A float weight is often `dcast(scast(integers))`. A shape op on it moves the integers, and the
parameters of every quantized type between the casts, which are then repeated. Only parameters
are moved while a module is read; elements are moved when the plan is applied.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias, cast

from xdsl.dialects.builtin import AnyFloat, IntegerType
from xdsl.ir import Attribute, Operation

from qdialect.algebra.movement import Movement, MovementError, Reshape, Shape
from qdialect.algebra.padding import (
    Pad,
    Padding,
    PadWith,
    Real,
    StorageRange,
    Stored,
    check_padding,
    padding_of_codes,
)
from qdialect.algebra.parameters import QuantizationParameters
from qdialect.algebra.views import MAX_RANK, Elements, Splat, Unread, Values, as_view
from qdialect.folding.layers import (
    CarriedRanges,
    Element,
    Layer,
    ScaleOrigin,
    joined_origin,
    keeps_bits,
    refusing,
)
from qdialect.folding.provenance import Provenance
from qdialect.ir.elements import element_dtype, integer_range
from qdialect.ir.rewriting import dependencies_first
from qdialect.ir.value_types import tensor_element_type, tensor_parts
from qdialect.ops.fields import CastReads
from qdialect.ops.interface import Refusal, RefusalCode, cast_reads, name_of
from qdialect.ops.reading import Constants
from qdialect.support.memory import BoundedCache

SLOT_BYTES: Final = 16
"""The bytes of a scale and a zero point in a type."""

_MAX_ELEMENTS: Final = 1 << 62


class MovedConstant(NamedTuple):
    """A value computed from constants, without its elements."""

    step: int
    """The number of the step that results in the elements; casts do not add steps."""

    splat: Splat | None
    """The elements, if they are known to be a splat without reading them."""

    unread: Unread | None
    """The elements, if they are in a file."""

    itemsize: int
    """The size of an element in bytes."""

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

    reshape: Operation | None = None
    """The last reshape after arithmetic with side constants, which can be repeated."""

    @property
    def nbytes(self) -> int:
        """The size in bytes of the written elements; 0 for a splat."""
        return 0 if self.splat is not None else math.prod(self.shape) * self.itemsize

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
    def carries(self) -> bool:
        """Whether side constants of arithmetic, or ranges, move together with the elements."""
        return any([layer.carried is not None for layer in self.layers])

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
    def of_source(cls, op: Operation, elements: Elements | Unread, step: int) -> MovedConstant:
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
            elements if isinstance(elements, Unread) else None,
            dtype.itemsize,
            elements.shape,
            (layer,),
            (layer.scale_origin,),
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
            layer = replace(layer, carried=ranges)
        return self.behind(cast_op, layer)

    def behind(self, cast_op: Operation, layer: Layer) -> MovedConstant:
        """This value after a cast or arithmetic with the result `layer`."""
        return self._replace(
            layers=(*self.layers, layer),
            scale_origins=(*self.scale_origins, layer.scale_origin),
            casts=(*self.casts, cast_op),
            input_bytes=self.input_bytes + SLOT_BYTES * layer.slots_in_type,
        )


def in_blocks(moved: MovedConstant) -> MovedConstant | None:
    """
    `moved` with each blocked axis of its side constants split into blocks and positions.

    The arithmetic is done in that shape, and one reshape after it replaces all shape ops. None if
    there is no such reshape, or no such axes.
    """
    if moved.reshape is None:
        return None
    slots = [side.slots for layer in moved.layers for side in layer.side_constants]
    shape: list[int] = []
    for axis, length in enumerate(moved.shape):
        blocks = {slot_map.block_sizes[axis] for slot_map in slots} - {1, length}
        if len(blocks) > 1:
            return None
        shape += [length // block for block in blocks] + [*(blocks or [length])]
    if len(shape) == len(moved.shape) or len(shape) > MAX_RANK:
        return None
    movement = Reshape(tuple(shape))
    layers = [
        layer if layer.sides is None else replace(layer, carried=layer.sides.moved(movement, ()))
        for layer in moved.layers
    ]
    return moved._replace(shape=tuple(shape), layers=tuple(layers))


def form_for(moved: MovedConstant, types: Sequence[Attribute]) -> MovedConstant:
    """`moved` or `moved` in blocks, depending on the number of `types` to write it with."""
    if len(types) == len(moved.layers):
        return moved
    return in_blocks(moved) or moved


def unread_for(moved: MovedConstant, types: Sequence[Attribute]) -> Unread | None:
    """The elements that a constant with these types names; None if they are not in a file."""
    form = form_for(moved, types)
    if form is moved or moved.unread is None:
        return moved.unread
    return moved.unread.moved(Reshape(form.shape), form.shape, ())


ParametersFor: TypeAlias = Callable[[MovedConstant, float], QuantizationParameters]
"""Returns the parameters with which arithmetic reads padding of a given number. Raises Refusal."""


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
        input_bytes = sum([operand.input_bytes for operand in each_once])
        distinct = sum([operand.distinct for operand in each_once])
        all_origins = zip(*[operand.scale_origins for operand in operands], strict=True)
        origins = tuple(map(joined_origin, all_origins))
    read: QuantizationParameters | None = None
    if isinstance(movement, Pad):
        distinct += max(size - math.prod(first.shape), 0)
        padded = first._replace(shape=shape, layers=layers)
        movement, read = _with_padding(movement, padded, padding, parameters_for)
    splat = _moved_splat(movement, operands, read)
    unread = first.unread
    if unread is not None:
        names = [operand.unread for operand in others if operand.unread is not None]
        unread = unread.moved(movement, shape, names)
    moved = first._replace(
        splat=splat,
        unread=unread,
        shape=shape,
        layers=layers,
        scale_origins=origins,
        input_bytes=input_bytes,
        # As many as a splat has that a run before has written.
        distinct=size if splat is not None else min(distinct, size),
        reshape=None,
    )
    return ElementMove(movement, read), moved


def _moved_layers(
    movement: Movement, operands: Sequence[MovedConstant], declared: Layer | None
) -> tuple[Shape, tuple[Layer, ...]]:
    """The shape and the layers of the result. Raises Refusal."""
    with refusing:
        shape = movement.result_shape(*[operand.shape for operand in operands])
        size = math.prod(shape)
        if size > _MAX_ELEMENTS:
            raise MovementError(f"{size} elements are too many")
        layers = (declared,)
        if declared is None:
            all_layers = zip(*[operand.layers for operand in operands], strict=True)
            layers = tuple([_move_layers(movement, layers) for layers in all_layers])
        if len(shape) > MAX_RANK:
            raise MovementError(f"rank {len(shape)} is more than {MAX_RANK}")
        return shape, cast("tuple[Layer, ...]", layers)


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
    splats = [operand.splat for operand in operands if operand.splat is not None]
    is_splat = len(splats) == len(operands) and movement.keeps_splats(splats, parameters)
    return movement(*splats) if is_splat else None


def check_joinable(first: MovedConstant, other: MovedConstant) -> None:
    """Raise Refusal if one constant cannot hold elements of both."""
    same_casts = [*map(name_of, first.casts)] == [*map(name_of, other.casts)]
    if (first.unread is None) is not (other.unread is None):
        raise Refusal(RefusalCode.UNREAD, "some of its operands are in files, and some are not")
    if not same_casts or not all(map(Layer.can_join, first.layers, other.layers)):
        raise Refusal(
            RefusalCode.MIXED_CONSTANTS,
            "its operands are constants of different kinds, or behind different casts",
        )


def _move_layers(movement: Movement, layers: tuple[Layer, ...]) -> Layer:
    first, *others = layers
    if first.carried is not None:
        carried = [layer.sides for layer in others if layer.sides is not None]
        return replace(first, carried=first.carried.moved(movement, carried))
    if first.parameters is None:
        return first
    key = movement, layers
    if (known := _KNOWN_MOVED_LAYERS.get(key)) is not None:
        return known
    parameters = [cast(QuantizationParameters, layer.parameters) for layer in layers]
    moved = movement(*parameters).simplify()
    layer = Layer(first.element_type, moved, is_spelled=False)
    weight = movement.size + sum(1 + slots.size for slots in (*parameters, moved))
    return _KNOWN_MOVED_LAYERS.add(key, layer, weight)


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
    if padded.unread is not None:
        raise Refusal(RefusalCode.UNREAD, "it pads elements that are in a file")
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
    if not all(map(keeps_bits, casts[:at])):
        raise Refusal(RefusalCode.PADDING, "the operand is quantized at run time")
    parameters = cast(QuantizationParameters, layers[at].parameters)
    if element is None and casts[at:]:
        raise Refusal(RefusalCode.PADDING, "there is no zero point to pad with")
    with refusing:
        if element is not None:
            padding = _padding_for(element, layers[at:], casts[at:])
            movement = replace(cast(PadWith, movement), padded_with=padding)
        check_padding(movement, parameters, [layer.storage_range for layer in layers[: at + 1]])
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
    with refusing:
        check_padding(padded, parameters, [whole])
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
        given, wanted = element.layer.parameters, cast(QuantizationParameters, bottom.parameters)
        return padding_of_codes(element.stored, given, wanted, is_same_storage=same)
    if not element.layer.can_join(top):
        raise Refusal(
            RefusalCode.PADDING,
            f"elements of type '{top.element_type}' are padded with an element of type "
            f"'{element.layer.element_type}'",
        )
    if all(map(keeps_bits, casts)):
        if not element.is_stored_directly:
            raise Refusal(RefusalCode.PADDING, "the padding is not a stored integer")
        return Stored(element.stored)
    name = name_of(casts[-1])
    if len(casts) > 1 or CastReads.NUMBERS not in cast_reads(casts[0]):
        raise Refusal(RefusalCode.PADDING, f"the operand has been cast by '{name}'")
    if top.element_type != bottom.quantized.expressed_type:
        raise Refusal(RefusalCode.PADDING, f"'{name}' casts the operand to '{top.element_type}'")
    return Real(element.real())


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
        """Free the elements of a step once all steps toward `roots`, and `take`, have read them."""
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
        if (known := self._find(number)) is not None:
            return known
        for at in dependencies_first([number], self._missing):
            _, operands, moves = self._steps[at]
            values = [cast(Values, self._find(operand)) for operand in operands]
            self._known[at] = move_elements(moves, values)
            self._has_been_read(operands)
        return self._known[number]

    def _missing(self, number: int) -> list[int]:
        return [at for at in self._steps[number].operands if self._find(at) is None]

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
