"""
Dequantization by arithmetic, recognised in a term.

`(C - z) * s`, in the forms that exporters write: the subtraction in integers or in floats, zero
points that are integers or floats with integral values, float conversions of the scale or of the
result. `C * s` of short floats is recognised, too, and so are parts of these forms, since a shape
op may be in the middle. Accepted arithmetic on integers equals `quant.dcast` of a quantized type
with these scales and zero points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple, cast

from xdsl.dialects.builtin import AnyFloat, Float8E8M0FNUType, IntegerType, Signedness
from xdsl.ir import Attribute

from qdialect.ir.elements import has_signedness, integer_range
from qdialect.ops.fields import Apply, Arithmetic, Input, Scalar, Term
from qdialect.ops.interface import Refusal, RefusalCode
from qdialect.support.float_format import FLOAT_FORMATS, FloatFormat
from qdialect.support.lazy_numpy import NDArray, np


class Leaf(NamedTuple):
    """A constant that the arithmetic reads."""

    type: Attribute
    """The type of its elements."""

    numbers: Callable[[], NDArray[Any]]
    """Its elements, without repetition: int64 or object for integers, float64 for floats."""


class Dequantization(NamedTuple):
    """The computation `(stored - zero_point) * scale`, with leaves given by their numbers."""

    stored: int
    """The number of the leaf with the stored integers, or short floats."""

    is_signed: bool
    """Whether the stored integers are read as signed; True for floats."""

    zero_points: int | Scalar | None = None
    scales: int | Scalar | None = None
    """None if nothing is subtracted or multiplied."""

    zero_point_term: Term | None = None
    scale_term: Term | None = None
    """The scale and the zero point as terms of the leaves."""

    rounded_to: IntegerType | None = None
    """The type of the stored integers if they are computed by rounding the leaf."""


_TO_FLOAT: Final = (Arithmetic.SIGNED_TO_FLOAT, Arithmetic.UNSIGNED_TO_FLOAT)
_EXTENSIONS: Final = (Arithmetic.SIGN_EXTEND, Arithmetic.ZERO_EXTEND)
_OF_SIGNED: Final = (Arithmetic.SIGNED_TO_FLOAT, Arithmetic.SIGN_EXTEND)
_OF_FLOATS: Final = (Arithmetic.EXTEND_FLOAT, Arithmetic.TRUNCATE_FLOAT)


def recognize(term: Term, leaves: Sequence[Leaf]) -> Dequantization:
    """The dequantization that `term` computes from `leaves`. Raises Refusal if it is not exact."""
    return _Recognizer(leaves).of(term)


class _Storage(IntEnum):
    """What may be stored in a factor of a product. Beside integers, short floats are scales."""

    NONE = 0
    SHORT_FLOATS = 1
    INTEGERS = 2


class _Recognizer:
    def __init__(self, leaves: Sequence[Leaf]) -> None:
        self._leaves = leaves

    def of(self, term: Term) -> Dequantization:
        term, _ = without_conversions(term)
        if not isinstance(term, Apply) or term.arithmetic is not Arithmetic.MULTIPLY:
            return self._difference(term)
        if isinstance(term.type, IntegerType):
            raise not_arithmetic("it multiplies integers")
        one, other = term.operands
        if self._storage(other) > self._storage(one):
            one, other = other, one
        if self._storage(one) is self._storage(other) is not _Storage.NONE:
            raise not_arithmetic("both factors are integers, or short floats")
        dequantization = self._difference(one)
        return dequantization._replace(scales=self._parameter(other, "scale"), scale_term=other)

    def _difference(self, term: Term) -> Dequantization:
        """`C - z`, or `C`, read as floats or as integers."""
        if not isinstance(term, Apply):
            return self._stored(term, is_signed=None)
        arithmetic = term.arithmetic
        if arithmetic is Arithmetic.MULTIPLY:
            raise not_arithmetic("it multiplies twice, which rounds twice")
        if arithmetic is Arithmetic.ADD:
            raise not_arithmetic("it adds, which rounds once more than a dequantization")
        if arithmetic is Arithmetic.EXTEND_FLOAT and _is_short_float(term.operands[0]):
            return Dequantization(cast(Input, term.operands[0]).number, is_signed=True)
        if arithmetic in _OF_FLOATS:
            raise not_arithmetic("it converts floats before it multiplies")
        if arithmetic in _TO_FLOAT:
            (inner,) = term.operands
            is_signed = arithmetic is Arithmetic.SIGNED_TO_FLOAT
            if isinstance(inner, Apply) and inner.arithmetic is Arithmetic.SUBTRACT:
                difference = self._integer_difference(inner, is_signed)
            else:
                difference = self._stored(inner, is_signed)
            _require_exact(term.type, self._ranges(difference))
            return difference
        if arithmetic is Arithmetic.SUBTRACT:
            if isinstance(term.type, IntegerType):
                # The conversion may follow after a shape op.
                return self._integer_difference(term, is_signed=None)
            minuend, subtrahend = term.operands
            difference = self._difference(minuend)
            if difference.zero_points is not None:
                raise not_arithmetic("it subtracts twice")
            stored = difference.rounded_to or self._leaves[difference.stored].type
            if not isinstance(stored, IntegerType):
                raise not_arithmetic("it subtracts from floats")
            difference = difference._replace(
                zero_points=self._parameter(subtrahend, "zero point"), zero_point_term=subtrahend
            )
            if isinstance(subtrahend, Apply):
                _require_exact(term.type, [self._zero_points(difference)])
            _require_exact(term.type, self._ranges(difference._replace(zero_points=None)))
            _require_exact(term.type, self._ranges(difference))
            return difference
        return self._stored(term, is_signed=None)

    def _integer_difference(self, term: Apply, is_signed: bool | None) -> Dequantization:
        """The difference of integers, which are read as signed, as unsigned, or as either."""
        minuend, subtrahend = term.operands
        difference = self._stored(minuend, is_signed)
        difference = difference._replace(
            zero_points=self._parameter(subtrahend, "zero point"), zero_point_term=subtrahend
        )
        width = _width(term.type)
        allowed = [
            integer_range(width, signed) for signed in (True, False) if is_signed in (None, signed)
        ]
        for low, high in self._ranges(difference):
            if any(least <= low and high <= greatest for least, greatest in allowed):
                return difference
        raise not_arithmetic(f"the subtraction may wrap in {width} bits")

    def _stored(self, term: Term, is_signed: bool | None) -> Dequantization:
        while isinstance(term, Apply) and term.arithmetic in _EXTENSIONS:
            is_signed = term.arithmetic is Arithmetic.SIGN_EXTEND
            (term,) = term.operands
        if isinstance(term, Apply) and term.arithmetic is Arithmetic.QUANTIZE:
            return self._rounded(term, is_signed)
        if not isinstance(term, Input) or not isinstance(term.type, IntegerType):
            raise not_arithmetic("its operand is not a constant of integers")
        if is_signed is None:
            is_signed = not has_signedness(cast(IntegerType, term.type), Signedness.UNSIGNED)
        return Dequantization(term.number, is_signed)

    def _rounded(self, term: Apply, is_signed: bool | None) -> Dequantization:
        """The quantized operand: floats, or another dequantization."""
        value, *parameters = term.operands
        for parameter in parameters:
            self._parameter(parameter, "scale or zero point")
        value, _ = without_conversions(value)
        stored = value.number if isinstance(value, Input) else self.of(value).stored
        type = cast(IntegerType, term.type)
        if is_signed is None:
            is_signed = not has_signedness(type, Signedness.UNSIGNED)
        return Dequantization(stored, is_signed, rounded_to=type)

    def _parameter(self, term: Term, what: str) -> int | Scalar:
        """A leaf or a constant, through conversions that do not change its numbers."""
        inner = term
        while isinstance(inner, Apply) and inner.arithmetic in (
            *_TO_FLOAT,
            *_EXTENSIONS,
            *_OF_FLOATS,
        ):
            (inner,) = inner.operands
        if isinstance(inner, Apply):
            raise not_arithmetic(f"its {what} is computed")
        return inner.number if isinstance(inner, Input) else inner

    def _storage(self, term: Term) -> _Storage:
        """What is stored in a factor. Integers are those that something is subtracted from."""
        while isinstance(term, Apply):
            if term.arithmetic in (Arithmetic.SUBTRACT, Arithmetic.QUANTIZE, *_TO_FLOAT):
                return _Storage.INTEGERS
            term = term.operands[0]
        if isinstance(term.type, IntegerType):
            return _Storage.INTEGERS
        return _Storage.SHORT_FLOATS if _is_short_float(term) else _Storage.NONE

    # Ranges

    def _ranges(self, dequantization: Dequantization) -> Iterator[tuple[int, int]]:
        """
        The least and the greatest difference of a stored integer and a zero point.

        For narrow types, the first one is for all integers of the type, and needs no reading of
        elements. The last one is for the integers in the constant.
        """
        least, greatest = self._zero_points(dequantization)
        type = dequantization.rounded_to or self._leaves[dequantization.stored].type
        if dequantization.rounded_to is not None or _width(type) <= _SHORT:
            low, high = integer_range(_width(type), dequantization.is_signed)
            yield low - greatest, high - least
        if dequantization.rounded_to is None:
            numbers = self._leaves[dequantization.stored].numbers()
            low, high = _extremes(numbers if dequantization.is_signed else _unsigned(numbers, type))
            yield low - greatest, high - least

    def _zero_points(self, dequantization: Dequantization) -> tuple[int, int]:
        """The least and the greatest zero point. Raises Refusal if one is not an integer."""
        parameter, term = dequantization.zero_points, dequantization.zero_point_term
        if parameter is None or term is None:
            return 0, 0
        if isinstance(parameter, Scalar):
            numbers = np.asarray([parameter.attribute.value.data])
        else:
            numbers = self._leaves[parameter].numbers()
        if numbers.dtype.kind == "f":
            if not (numbers == np.rint(numbers)).all():
                raise not_arithmetic("a zero point is not an integer")
            return _extremes(numbers)
        stored = dequantization.rounded_to or self._leaves[dequantization.stored].type
        # At the width to which stored integers are extended, a zero point may be negative.
        is_signed = dequantization.is_signed or _width(term.type) > _width(stored)
        while isinstance(term, Apply):
            is_signed = term.arithmetic in _OF_SIGNED
            (term,) = term.operands
        return _extremes(numbers if is_signed else _unsigned(numbers, term.type))


_SHORT: Final = 8
"""The number of significant bits that are exact in every float type of dequantized weights."""


def _is_short_float(term: Term) -> bool:
    """Whether a term is an element of a short float type; a mere exponent is a scale."""
    if not isinstance(term, Input) or not isinstance(term.type, AnyFloat):
        return False
    return term.type.bitwidth <= _SHORT and not isinstance(term.type, Float8E8M0FNUType)


def _require_exact(type: Attribute, ranges: Iterable[tuple[int, int]]) -> None:
    """Raise Refusal unless all integers of one of `ranges` are exact in a float type."""
    most = 1 << _format(type).precision
    low = high = 0
    for low, high in ranges:
        if -most <= low and high <= most:
            return
    raise not_arithmetic(f"not all integers from {low} to {high} are exact in '{type}'")


def _unsigned(numbers: NDArray[Any], type: Attribute) -> NDArray[Any]:
    """Integers of `type`, read as unsigned."""
    return numbers.astype(np.int64).view(np.uint64) & np.uint64((1 << _width(type)) - 1)


def _extremes(numbers: NDArray[Any]) -> tuple[int, int]:
    if not numbers.size:
        return 0, 0
    return int(numbers.min()), int(numbers.max())


def _format(type: Attribute) -> FloatFormat:
    float_format = FLOAT_FORMATS.get(type.name)
    if float_format is None:
        raise not_arithmetic(f"'{type}' is not a float type")
    return float_format


def _width(type: Attribute) -> int:
    return type.bitwidth if isinstance(type, IntegerType) else 64


def without_conversions(term: Term) -> tuple[Term, list[Attribute]]:
    """The operand of trailing float conversions of a term, and their result types, last first."""
    types: list[Attribute] = []
    while isinstance(term, Apply) and term.arithmetic in _OF_FLOATS:
        types.append(term.type)
        (term,) = term.operands
    return term, types


def not_arithmetic(condition: str) -> Refusal:
    """The refusal of arithmetic that is no exact dequantization."""
    return Refusal(RefusalCode.ARITHMETIC, condition)
