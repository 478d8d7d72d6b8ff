"""
Products of constants that other ops compute, read as quantized types by running these ops.

Scales are often computed: f8 scales times a global one, exponents shifted into floats. Stored
codes are, too: nibbles are unpacked, and indices are looked up in a table. Run once, scales are
numbers, and stored numbers are entries of the table, or small integers. The type is exact as every
number is compared with its code, bit for bit; so the form of the ops does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, IntegerType, ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import InterpretationError

from qdialect.algebra.movement import Movement, Shape
from qdialect.algebra.parameters import QuantizationParameters, StorageFormat
from qdialect.algebra.views import ElementSlots, Splat, as_view
from qdialect.folding.arithmetic import (
    ComputedElements,
    SideElements,
    parameters_of,
    stored_numbers,
)
from qdialect.folding.dequantization import Leaf, not_arithmetic, recognize, without_conversions
from qdialect.folding.layers import ScaleOrigin
from qdialect.folding.moved_constant import MovedConstant
from qdialect.ir.elements import element_dtype
from qdialect.ir.rewriting import read_by
from qdialect.ir.value_types import element_type_or_self, tensor_element_type, tensor_parts
from qdialect.ops.elementwise import (
    is_conversion,
    operand_movements,
    read_elementwise,
    substituted,
    values_of,
)
from qdialect.ops.fields import Apply, Arithmetic, Input, Term
from qdialect.ops.interface import (
    Refusal,
    bits_of_op,
    elements_attribute_of,
    held_elements,
    is_arithmetic,
    model_of,
    op_model,
    read_movements,
    static_shape_of,
)
from qdialect.ops.model import Bits, imported
from qdialect.support.float_format import FLOAT_FORMATS
from qdialect.support.lazy_numpy import NDArray, np

if TYPE_CHECKING:
    from qdialect.check.constant_ops import ConstantOps
    from qdialect.dialects.arrays.values import TypedArray
    from qdialect.folding.graph import FoldGraph

_MOST_BITS: Final = 64
"""The most bits of floats that are computed here."""

_WIDTHS: Final = (2, 4, 8)
"""The widths of integers that computed numbers are stored in."""


class ComputedProduct(NamedTuple):
    """A product that is computed from constants, expressed by quantization parameters."""

    source: Operation
    """The constant of the module that the codes are moved or computed from."""

    stored: MovedConstant | NDArray[Any]
    """The codes: movements of `source`; or those that were computed, uint8 or int8."""

    parameters: QuantizationParameters
    expressed: AnyFloat
    conversions: Sequence[Attribute]
    """The float types to which the same op converts the product, last first."""

    origins: int
    """The number of elements that its scales and zero points are computed from."""

    repeated_bytes: int
    """By how much computed codes are larger than the constants that they are computed from."""


class ProductsOfCodes:
    """The products of codes and scales that a module computes from constants alone."""

    def __init__(self, module: ModuleOp, context: Context, graph: FoldGraph) -> None:
        constants = imported("qdialect.check.constant_ops:ConstantOps")(module, context)
        self._graph = graph
        self._constants: ConstantOps = constants
        self._products: dict[Operation, _Binary] = {}
        """In the order of the module."""
        kinds = self._kinds = dict[Operation | Block, _Kind]()
        for op in self._constants:
            operands = [kinds[value.owner] for value in read_by(op)]
            kind = max(operands, default=_Kind.NUMBERS)
            if not operands and self._has_codes(op):
                kind = _Kind.CODES
            if kind in (_Kind.CODES, _Kind.PRODUCTS) and is_arithmetic(op):
                product = self._product(op)
                if product is not None:
                    kind = _Kind.PRODUCTS
                    if _Kind.CODES in [kinds[one.value.owner] for one in product.operands]:
                        self._products[op] = product
            if any(map(_is_rounded, op.walk())):
                kind = _Kind.INEXACT
            kinds[op] = kind

    def __iter__(self) -> Iterator[Operation]:
        """The products, in the order of the module."""
        return iter(self._products)

    def __contains__(self, op: object) -> bool:
        """Whether an op is one of the products."""
        return op in self._products

    def makers(self, op: Operation) -> list[Operation]:
        """The ops that compute a product, and those that make its factors."""
        return self._constants.ops(op.results[0])

    def read(self, op: Operation) -> ComputedProduct | None:
        """
        One of the products, as a quantized type reads it; None if neither factor is codes.

        Raises Refusal if no type has this meaning, and TooManySlotsError.
        """
        if (product := self._products.get(op)) is None:
            return None
        reader = _ProductReader(self._graph, self._constants, self._kinds, product)
        one, other = product.operands
        if 0 in product.shape:
            return None
        orders = [(one, other), (other, one)]
        if reader.bytes_held(one) < reader.bytes_held(other):
            orders.reverse()
        for stored, scales in orders:
            if self._kinds[stored.value.owner] is _Kind.CODES:
                try:
                    codes = reader.moved(stored) or reader.computed(stored)
                    if codes is not None:
                        return reader.scaled(codes, scales)
                except InterpretationError as error:
                    raise not_arithmetic(f"one of its operands is not computed: {error}") from None
        return None

    def _product(self, op: Operation) -> _Binary | None:
        if not isinstance(tensor_element_type(op.results[0].type), AnyFloat):
            return None
        try:
            product = _binary(self._graph, op, Arithmetic.MULTIPLY)
        except Refusal:
            return None
        if product is None or not isinstance(product.type, AnyFloat):
            return None
        return product if product.type.bitwidth <= _MOST_BITS else None

    def _has_codes(self, op: Operation) -> bool:
        """Whether an op is a constant of several integers, or short floats."""
        type, elements = tensor_parts(op.results[0].type), held_elements(op)
        if type is None or elements is None:
            return False
        element = type.element_type
        is_short = isinstance(element, AnyFloat) and element.bitwidth <= _WIDTHS[-1]
        return (is_short or isinstance(element, IntegerType)) and math.prod(type.shape) > 1


def _is_rounded(op: Operation) -> bool:
    """Whether the last digit of a float depends on the compiler."""
    are_floats = [isinstance(element_type_or_self(type), AnyFloat) for type in op.result_types]
    return any(are_floats) and bits_of_op(op) is Bits.ROUNDED


class _Kind(IntEnum):
    """What a value is computed from."""

    NUMBERS = 0
    CODES = 1
    PRODUCTS = 2
    """Of codes and other numbers."""
    INEXACT = 3
    """By functions whose last digit depends on the compiler."""


class _Operand(NamedTuple):
    """An operand of arithmetic on two tensors."""

    value: SSAValue
    term: Term
    """The conversions of an element of `value` that the op does itself."""

    movements: Sequence[Movement]
    """Those to the shape of the result."""


class _Binary(NamedTuple):
    """Arithmetic on two tensors."""

    type: Attribute
    operands: tuple[_Operand, _Operand]
    shape: Shape
    conversions: Sequence[Attribute]
    """The float types to which the result is converted, last first."""


def _binary(graph: FoldGraph, op: Operation, arithmetic: Arithmetic) -> _Binary | None:
    """The operands of arithmetic of one kind; None for other ops. Raises Refusal."""
    read = read_elementwise(op, graph.operands)
    term, conversions = without_conversions(read.term)
    shape = static_shape_of(op.results[0])
    if not isinstance(term, Apply) or term.arithmetic is not arithmetic:
        return None
    if not all(map(is_conversion, term.operands)):
        return None

    def operand(converted: Term) -> _Operand:
        inner = converted
        while isinstance(inner, Apply):
            (inner,) = inner.operands
        number = cast(Input, inner).number
        value = read.operands[number]
        movements = operand_movements(read, number, static_shape_of(value), shape)
        inputs = [Input(0, inner.type)] * (number + 1)
        return _Operand(value, substituted(converted, inputs), movements)

    one, other = map(operand, term.operands)
    return _Binary(term.type, (one, other), shape, conversions)


class _Codes(NamedTuple):
    """A factor of a product: codes, and how they are read."""

    source: Operation
    stored: MovedConstant | NDArray[Any]
    elements: ComputedElements
    repeated_bytes: int = 0


@dataclass
class _ProductReader:
    """Reads the factors of a product."""

    _graph: FoldGraph
    _constants: ConstantOps
    _kinds: Mapping[Operation | Block, _Kind]
    _product: _Binary
    _known: dict[SSAValue, TypedArray] = field(default_factory=dict)
    """The values that have been computed."""

    def scaled(self, codes: _Codes, scales: _Operand) -> ComputedProduct:
        """The product of codes and scales. Raises Refusal, and TooManySlotsError."""
        product = self._product
        whole = self._with(codes.elements, Arithmetic.MULTIPLY, scales)
        return ComputedProduct(
            codes.source,
            codes.stored,
            parameters_of(whole, product.shape),
            cast(AnyFloat, product.type),
            product.conversions,
            sum([side.origin.total for side in whole.sides]),
            codes.repeated_bytes,
        )

    def moved(self, operand: _Operand) -> _Codes | None:
        """A constant of the module, moved and read by arithmetic; None for other factors."""
        graph, owner = self._graph, cast(Operation, operand.value.owner)
        known = graph.moved.get(owner) or graph.sources.get(owner)
        source = None if known is None else known.provenance.first_source
        if known is None or source is None or known.shape != self._product.shape:
            return None
        try:
            read = graph.terms.term_of(known)
            elements = read._replace(term=substituted(operand.term, [read.term]))
            scale = Input(len(read.leaves), self._product.type)
            product = Apply(Arithmetic.MULTIPLY, (elements.term, scale), scale.type)
            if recognize(product, [*read.leaves, Leaf(scale.type, lambda: np.ones(1))]).stored:
                return None
        except Refusal:
            return None
        return _Codes(source, known, elements, known.repeated_bytes)

    def computed(self, operand: _Operand) -> _Codes | None:
        """Numbers that are entries of a table, or small integers; None for others. Refuses."""
        operand, sources = self._unmoved(operand), self._held(operand)
        read = self._in_tables(operand, sources) or self._integers(operand)
        if read is None:
            return None
        storage, codes, elements = read
        codes = _moved(codes, operand.movements)
        if codes.shape != self._product.shape:
            return None
        beyond = storage.width * codes.size // 8 - self.bytes_held(operand)
        stored = [op for op in sources if self._kinds[op] is _Kind.CODES]
        return _Codes(max(stored, key=self._bytes_of), codes, elements, max(beyond, 0))

    def _in_tables(self, operand: _Operand, sources: Sequence[Operation]) -> _Read | None:
        """The codes of numbers in the first table that has them all."""
        type, format = self._product.type, FLOAT_FORMATS[self._product.type.name]
        bits = self._bits(operand)
        for storage in self._tables(sources):
            assert storage.codebook is not None
            numbers = storage.codebook.numbers
            entries = format.encode(format.round(numbers)).astype(bits.dtype)
            # Of equal entries, the least code.
            order = np.argsort(entries, kind="stable").astype(np.uint8)
            places = np.searchsorted(entries, bits, sorter=order)
            codes = order[np.minimum(places, len(order) - 1)]
            if (entries[codes] == bits).all():
                leaf = Leaf(type, lambda numbers=numbers: numbers)
                return storage, codes, ComputedElements(Input(0, type), [leaf], [], storage)
        return None

    def _integers(self, operand: _Operand) -> _Read | None:
        """Small integers, and the zero points subtracted from them. Raises Refusal."""
        type, zero_points = self._product.type, None
        numbers = self._numbers(operand)
        if (difference := self._difference(operand.value)) is not None:
            minuend, subtrahend = map(self._unmoved, difference.operands)
            stored, subtracted = (
                _moved(self._numbers(other), other.movements) for other in (minuend, subtrahend)
            )
            if (stored - subtracted == numbers).all():
                movements = [*subtrahend.movements, *operand.movements]
                numbers, zero_points = stored, subtrahend._replace(movements=movements)
        low, high = float(numbers.min()), float(numbers.max())
        formats = (StorageFormat(width, low < 0) for width in _WIDTHS)
        fitting = (f for f in formats if f.bounds[0] <= low and high <= f.bounds[1])
        storage = next(fitting, None)
        # An integer has no -0.
        is_negative_zero = np.signbit(numbers) & (numbers == 0)
        if storage is None or (np.rint(numbers) != numbers).any() or is_negative_zero.any():
            return None
        stored_type = IntegerType(storage.width)
        reading = Arithmetic.SIGNED_TO_FLOAT if storage.signed else Arithmetic.UNSIGNED_TO_FLOAT
        term = Apply(reading, (Input(0, stored_type),), type)
        ends = np.array([low, high], dtype=np.int64)
        elements = ComputedElements(term, [Leaf(stored_type, lambda: ends)], [])
        if zero_points is not None:
            elements = self._with(elements, Arithmetic.SUBTRACT, zero_points)
        return storage, numbers.astype(np.int8 if storage.signed else np.uint8), elements

    def _difference(self, value: SSAValue) -> _Binary | None:
        """The difference that a value is, perhaps converted. Raises Refusal."""
        while isinstance(op := value.owner, Operation) and is_arithmetic(op):
            read = read_elementwise(op, self._graph.operands)
            if not is_conversion(read.term):
                return _binary(self._graph, op, Arithmetic.SUBTRACT)
            (value,) = read.operands
        return None

    def _with(
        self, elements: ComputedElements, arithmetic: Arithmetic, operand: _Operand
    ) -> ComputedElements:
        """Arithmetic on elements and the numbers of an operand. Raises Refusal."""
        type, operand = self._product.type, self._unmoved(operand)
        slots = ElementSlots.of(self._bits(operand).view(element_dtype(cast(AnyFloat, type))))
        for movement in operand.movements:
            slots = movement(slots).simplify()
        size = sum([math.prod(static_shape_of(op.results[0])) for op in self._held(operand)])
        side = SideElements(slots.simplify(), type, ScaleOrigin(size))
        leaf = Leaf(type, lambda: stored_numbers(side.slots.elements, type))
        term = Apply(arithmetic, (elements.term, Input(len(elements.leaves), type)), type)
        return ComputedElements(
            term, [*elements.leaves, leaf], [*elements.sides, side], elements.table
        )

    def _unmoved(self, operand: _Operand) -> _Operand:
        """An operand before shape ops, which become its movements: they need not be run."""
        value, movements = operand.value, [*operand.movements]
        while isinstance(op := value.owner, Operation) and (model := model_of(op)) is not None:
            if op_model(op).positions is not None:
                # As many positions as codes are faster run.
                break
            try:
                read = read_movements(op, model, self._graph.operands)
            except Refusal:
                # The op may be arithmetic, too.
                break
            if len(read.operands) > 1 or read.padding is not None:
                break
            (value,), movements = read.operands, [*read.movements, *movements]
        return operand._replace(value=value, movements=movements)

    def _bits(self, operand: _Operand) -> NDArray[np.unsignedinteger[Any]]:
        """The numbers of an operand as bits of the type of the product. Raises Refusal."""
        type = cast(AnyFloat, self._product.type)
        format, unsigned = FLOAT_FORMATS[type.name], f"u{element_dtype(type).itemsize}"
        elements = self._elements(operand.value)
        if isinstance(operand.term, Input) and elements.element_type == type:
            return elements.elements.view(unsigned)
        return format.encode(format.round(self._numbers(operand))).astype(unsigned)

    def _numbers(self, operand: _Operand) -> NDArray[np.float64]:
        """The numbers of an operand, of its own shape. Raises Refusal if they are not known."""
        numbers = self._elements(operand.value).numbers
        return values_of(operand.term, [numbers]).astype(np.float64, copy=False)

    def _elements(self, value: SSAValue) -> TypedArray:
        if (known := self._known.get(value)) is None:
            known = self._known[value] = self._constants.computed(value)
        return known

    def _held(self, operand: _Operand) -> list[Operation]:
        """The constant tensors that an operand is computed from."""
        makers = self._constants.ops(operand.value)
        return [
            op
            for op in makers
            if elements_attribute_of(op) is not None and tensor_parts(op.results[0].type)
        ]

    def bytes_held(self, operand: _Operand) -> int:
        """The bytes of the constants that an operand is computed from."""
        return sum(map(self._bytes_of, self._held(operand)))

    def _bytes_of(self, op: Operation) -> int:
        """The bytes that the elements of a constant take; 0 for a splat."""
        elements = self._graph.constants.read(op)
        return 0 if elements is None or isinstance(elements, Splat) else elements.nbytes

    def _tables(self, sources: Sequence[Operation]) -> Iterator[StorageFormat]:
        """The constants that may be a table."""
        for op in sources:
            type, elements = tensor_element_type(op.results[0].type), self._graph.constants.read(op)
            if not isinstance(type, AnyFloat) or elements is None:
                continue
            size = math.prod(elements.shape)
            width = (size - 1).bit_length()
            if isinstance(elements, Splat) or width not in range(1, 9) or size != 1 << width:
                continue
            entries = stored_numbers(elements, cast(Attribute, type)).reshape(-1)
            if np.isfinite(entries).all():
                yield StorageFormat.of_table(width, entries)


_Read: TypeAlias = "tuple[StorageFormat, NDArray[Any], ComputedElements]"
"""Codes, the numbers that they stand for, and how these are computed."""


def _moved(array: NDArray[Any], movements: Sequence[Movement]) -> NDArray[Any]:
    for movement in movements:
        # Of a malformed op, it may not fit.
        movement.result_shape(array.shape)
        array = as_view(movement.move_values([array], None)).array()
    return array
