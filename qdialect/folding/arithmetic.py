"""
Reading arithmetic on constants as a cast.

Exporters dequantize by elementwise ops, `(C - z) * s`, and a shape op commutes with each of
them. The stored integers are moved. Zero points and scales are small constant operands of the
elementwise ops: side constants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from xdsl.dialects.builtin import AnyFloat, IntegerType
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.movement import Movement
from qdialect.algebra.padding import Pad
from qdialect.algebra.parameters import MAX_STORAGE_WIDTH, QuantizationParameters, StorageFormat
from qdialect.algebra.views import ElementSlots, as_view
from qdialect.dialects.quant.storage import FLOAT_STORAGE
from qdialect.folding.dequantization import (
    Dequantization,
    Leaf,
    not_arithmetic,
    recognize,
    without_conversions,
)
from qdialect.folding.layers import Element, Layer, ScaleOrigin, SideConstant, Sides, refusing
from qdialect.ir.elements import element_dtype, integer_range
from qdialect.ir.value_types import tensor_element_type
from qdialect.ops.elementwise import (
    is_conversion,
    operand_movements,
    read_elementwise,
    substituted,
    values_of,
)
from qdialect.ops.fields import Apply, Elementwise, Input, Term
from qdialect.ops.interface import (
    Refusal,
    RefusalCode,
    as_integers,
    name_of,
    op_model,
    static_shape_of,
)
from qdialect.ops.reading import ConstantOperands
from qdialect.support.float_format import FLOAT_FORMATS
from qdialect.support.lazy_numpy import NDArray, np

if TYPE_CHECKING:
    from qdialect.folding.moved_constant import ElementStep, MovedConstant


SHORT: Final = 8
"""Up to this width, all integers of the type are checked, not only those in the constant."""


class SideElements(NamedTuple):
    """The elements of a side constant, for each position."""

    slots: ElementSlots
    type: Attribute
    origin: ScaleOrigin


class ComputedElements(NamedTuple):
    """The computation of the elements of a constant, as a term."""

    term: Term
    leaves: Sequence[Leaf]
    """The moved elements, then the side constants."""

    sides: Sequence[SideElements]
    """The side constants of all leaves but the first."""

    table: StorageFormat | None = None
    """The table that the moved elements are entries of, if they are looked up."""


class ArithmeticCast(NamedTuple):
    """Arithmetic on constants, read as a cast of one of them."""

    main: MovedConstant
    """The constant with the stored integers."""

    movements: Sequence[Movement]
    """The broadcast of them that the op implies."""

    layer: Layer


class ArithmeticReader:
    """Reads elementwise ops on constants."""

    def __init__(self, operands: ConstantOperands, steps: Sequence[ElementStep]) -> None:
        self._operands = operands
        self._steps = steps
        self._slots: dict[int, ElementSlots] = {}
        """The slots of small constants, by the number of the step."""
        self._origins: dict[Operation, ScaleOrigin] = {}

    def read(self, op: Operation, known: Callable[[SSAValue], MovedConstant]) -> ArithmeticCast:
        """
        What `op` computes, given the constants that `known` returns for its operands.

        Raises Refusal if it is neither an exact dequantization nor a part of one.
        """
        read = read_elementwise(op, self._operands)
        constants = [known(value) for value in read.operands]
        shape = static_shape_of(op.results[0])
        if 0 in shape:
            raise not_arithmetic("its result has no elements")
        main = 0
        if len(constants) > 1 or not is_conversion(read.term):
            main = self._main(read, constants)
        movements = [
            operand_movements(read, number, constant.shape, shape)
            for number, constant in enumerate(constants)
        ]
        sides = tuple(
            self._side(number, constant, movements[number])
            for number, constant in enumerate(constants)
            if number != main
        )
        type = tensor_element_type(op.results[0].type)
        layer = Layer(type, None, carried=Sides(main, sides, read.in_blocks))
        return ArithmeticCast(constants[main], movements[main], layer)

    def _main(self, read: Elementwise, constants: Sequence[MovedConstant]) -> int:
        """The index of the operand with the stored integers. Raises Refusal."""
        leaves: list[Leaf] = []
        ends: list[int] = []
        terms: list[Term] = []
        for constant in constants:
            terms.append(self._term(constant, leaves))
            ends.append(len(leaves))
        dequantization = recognize(substituted(read.term, terms), leaves)
        return next(number for number, end in enumerate(ends) if dequantization.stored < end)

    def term_of(self, constant: MovedConstant) -> ComputedElements:
        """The computation of the elements of a constant. Raises Refusal."""
        leaves: list[Leaf] = []
        term = self._term(constant, leaves)
        sides = [
            SideElements(side.slots, side.types[0], side.origin)
            for layer in constant.layers
            for side in layer.side_constants
        ]
        return ComputedElements(term, leaves, sides)

    def computed_element(self, element: Element, constant: MovedConstant) -> Element:
        """
        The only element of a constant; arithmetic that results in a float is evaluated.

        Exporters convert the zero that a tensor is padded with. Raises Refusal.
        """
        type = constant.layers[-1].element_type
        computes = [op_model(cast_op).term is not None for cast_op in constant.casts]
        if not computes or not all(computes) or not isinstance(type, AnyFloat):
            return element
        leaves: list[Leaf] = []
        term = self._term(constant, leaves)
        stored = np.asarray(element.stored).reshape(1)
        sides = [leaf.numbers().reshape(-1)[:1] for leaf in leaves[1:]]
        numbers = values_of(term, [stored_numbers(stored, leaves[0].type), *sides])
        if np.isnan(numbers).any():
            # The bits of a computed NaN are unspecified.
            return element
        known = cast(Attribute, type)
        bits = FLOAT_FORMATS[known.name].encode(np.asarray(numbers, dtype=np.float64).reshape(1))
        dtype = element_dtype(cast(Any, known))
        element_bits = bits.astype(f"u{dtype.itemsize}").view(dtype)[0]
        return Element(element_bits, Layer.of(known, ()), ())

    def _term(self, constant: MovedConstant, leaves: list[Leaf]) -> Term:
        """The term of the elements of a constant; appends its leaves to `leaves`."""

        def leaf(type: Attribute, numbers: Callable[[], NDArray[Any]]) -> Term:
            leaves.append(Leaf(type, numbers))
            return Input(len(leaves) - 1, type)

        stored = constant.layers[0].element_type
        term = leaf(stored, lambda: self._extremes(constant, stored))
        for cast_op, layer in zip(constant.casts, constant.layers[1:], strict=True):
            inputs = {0 if layer.sides is None else layer.sides.main: term}
            for side in layer.side_constants:
                type, elements = side.types[0], side.slots.elements
                other = leaf(
                    type, lambda elements=elements, type=type: stored_numbers(elements, type)
                )
                for side_cast in side.casts:
                    other = substituted(self._term_of(side_cast), [other])
                inputs[side.number] = other
            term = substituted(self._term_of(cast_op), [inputs[n] for n in range(len(inputs))])
        return term

    def _term_of(self, op: Operation) -> Term:
        if op_model(op).term is None:
            raise not_arithmetic(f"'{name_of(op)}' is not part of a dequantization")
        return read_elementwise(op, self._operands).term

    def _extremes(self, constant: MovedConstant, type: Attribute) -> NDArray[Any]:
        """The minimum and maximum of the moved integers of each source."""
        extremes: list[NDArray[Any]] = []
        for source in constant.provenance.sources:
            elements = self._operands.constants.read(source)
            assert elements is not None
            numbers = stored_numbers(as_view(elements).array(), type)
            extremes += [numbers.min(), numbers.max()]
        return np.asarray(extremes)

    def _side(
        self, number: int, constant: MovedConstant, movements: Sequence[Movement]
    ) -> SideConstant:
        """The side constant of operand `number`. Raises Refusal."""
        if any(layer.size for layer in constant.layers):
            raise not_arithmetic("one of its operands is quantized, or computed")
        sources = constant.provenance.sources
        if not sources:
            raise not_arithmetic("one of its operands has no elements")
        with refusing:
            slots = self._slots_of(constant.step)
            for movement in movements:
                # Of a malformed op, it may not fit.
                movement.result_shape(slots.shape)
                slots = movement(slots)
        parts = tuple(self._origin(source) for source in sources)
        origin = parts[0] if len(parts) == 1 else ScaleOrigin(parts=parts)
        return SideConstant(
            number,
            slots.simplify(),
            sources[0],
            constant.casts,
            self._broadcast_before(constant.step),
            origin,
        )

    def _origin(self, source: Operation) -> ScaleOrigin:
        if (known := self._origins.get(source)) is None:
            elements = self._operands.constants.read(source)
            assert elements is not None
            known = self._origins[source] = ScaleOrigin(ElementSlots.of(elements).size)
        return known

    def _slots_of(self, number: int) -> ElementSlots:
        """The elements of a side constant after a step. Raises Refusal, and TooManySlotsError."""
        if (known := self._slots.get(number)) is not None:
            return known
        op, operands, moves = self._steps[number]
        if operands:
            operand_slots = [self._slots_of(operand) for operand in operands]
            for movement, _ in moves:
                if isinstance(movement, Pad):
                    raise not_arithmetic("one of its operands is padded")
                operand_slots = [movement(*operand_slots)]
            (slots,) = operand_slots
        else:
            elements = self._operands.constants.read(op)
            assert elements is not None
            if 0 in elements.shape:
                raise not_arithmetic("one of its operands has no elements")
            slots = ElementSlots.of(elements)
        self._slots[number] = slots
        return slots

    def _broadcast_before(self, number: int) -> Operation | None:
        """The last broadcast before a step, if there is one."""
        while operands := self._steps[number].operands:
            if op_model(self._steps[number].op).write_broadcast is not None:
                return self._steps[number].op
            number = operands[0]
        return None


def stored_numbers(elements: NDArray[Any], type: Attribute) -> NDArray[Any]:
    """Stored elements as int64 or float64; one element for a splat. Raises Refusal."""
    once = tuple(slice(None) if stride else slice(1) for stride in elements.strides)
    if isinstance(type, AnyFloat):
        float_format = FLOAT_FORMATS.get(cast(Attribute, type).name)
        if float_format is None:
            raise not_arithmetic(f"elements of type '{type}' are not supported")
        numbers = float_format.decode(elements[once])
    else:
        numbers = as_integers(elements[once], type)
    return np.broadcast_to(numbers, elements.shape)


def parameters_of(computed: ComputedElements, shape: Sequence[int]) -> QuantizationParameters:
    """
    The parameters of the quantized type that equals arithmetic, for a tensor of `shape`.

    Trailing float conversions are ignored. Raises Refusal if no type has the meaning of the
    arithmetic, and TooManySlotsError.
    """
    term, _ = without_conversions(computed.term)
    expressed, storage = FLOAT_FORMATS.get(term.type.name), computed.table
    if storage is not None and isinstance(term, Apply):
        dequantization = Dequantization(0, is_signed=True, scale_term=term.operands[1])
    else:
        dequantization = recognize(term, computed.leaves)
        stored = computed.leaves[0].type
        storage = _storage_of(stored, is_signed=dequantization.is_signed)
    if dequantization.rounded_to is not None:
        raise not_arithmetic("its integers are computed with rounding")
    if dequantization.stored or storage is None or expressed is None:
        raise not_arithmetic("its operand is not a constant of integers")
    width = storage.width
    if not 1 <= width <= MAX_STORAGE_WIDTH:
        raise Refusal(RefusalCode.ILLEGAL_TYPE, f"illegal storage type size: {width}")
    slots = ElementSlots.aligned([side.slots for side in computed.sides])
    runs = [np.zeros((), dtype=np.int64)]
    for aligned, side in zip(slots, computed.sides, strict=True):
        runs.append(stored_numbers(aligned.elements, side.type))
    ends = slots[0].ends if slots else tuple(np.array([n], dtype=np.int64) for n in shape)
    grid = tuple(map(len, ends))

    def numbers(part: Term | None, otherwise: float) -> NDArray[Any]:
        of_part = np.asarray(otherwise) if part is None else values_of(part, runs)
        return np.broadcast_to(of_part, grid)

    scales, reals = (
        numbers(dequantization.scale_term, 1.0),
        numbers(dequantization.zero_point_term, 0.0),
    )
    if not (np.isfinite(scales).all() and (scales > 0).all()):
        raise not_arithmetic("a scale is not positive and finite")
    if not (np.isfinite(reals).all() and (reals == np.rint(reals)).all()):
        raise not_arithmetic("a zero point is not an integer")
    is_float = storage.codebook is not None
    low, high = storage.bounds
    if not is_float and ((reals < low).any() or (reals > high).any()):
        raise not_arithmetic(f"a zero point does not fit '{storage.name}'")
    zero_points = reals.astype(np.int64)
    codes = storage.codes() if is_float else _codes_to_try(computed, width)
    known = storage.numbers(codes).astype(np.float64)
    if is_float:
        is_exact = np.array_equal(expressed.round(known), known, equal_nan=True)
    else:
        most = 1 << expressed.precision
        is_exact = max(abs(zero_points).max(), abs(known).max()) <= most
    if not is_exact:
        kind = "numbers" if is_float else "integers"
        raise not_arithmetic(f"'{term.type}' does not represent all of its {kind} exactly")
    parameters = QuantizationParameters(
        tuple(ends), scales.astype(np.float64), zero_points, expressed, storage
    )
    # The term is monotone between the minimum and the maximum, so reading the wrong sign or
    # wrapping would show at one of the ends.
    difference = expressed.round(zero_points.astype(np.float64))
    for code, number in zip(codes, known, strict=True):
        with np.errstate(all="ignore"):
            read = expressed.round(number - difference)
            means = expressed.round(read * scales)
        runs[0] = np.asarray(number if is_float else code)
        is_computed = np.broadcast_to(values_of(term, runs), grid)
        if not (_bits(is_computed) == _bits(means)).all():
            raise not_arithmetic(
                f"for the {storage.noun} {storage.shown(code)} it differs from 'quant.dcast'"
            )
    return parameters


def _storage_of(type: Attribute, *, is_signed: bool) -> StorageFormat | None:
    """What elements of a constant are as codes; None for types that are no storage."""
    if isinstance(type, IntegerType):
        return StorageFormat(type.bitwidth, is_signed)
    return StorageFormat.of_floats(type.name) if type.name in FLOAT_STORAGE else None


def _codes_to_try(computed: ComputedElements, width: int) -> NDArray[np.int64]:
    """The ends of the stored integers, both signed and unsigned, and integers near 0."""
    least, greatest = integer_range(width, is_signed=True)
    near = np.array([-1, 0, 1], dtype=np.int64)
    if width <= SHORT:
        return StorageFormat(width, signed=True).wrap(np.append(near, [least, greatest]))
    ends = computed.leaves[0].numbers().astype(np.int64)
    return np.unique(StorageFormat(width, signed=True).wrap(ends))


def _bits(numbers: NDArray[Any]) -> NDArray[np.int64]:
    # NaN has one pattern.
    numbers = np.where(np.isnan(numbers), np.nan, numbers)
    return np.ascontiguousarray(numbers, dtype=np.float64).view(np.int64)
