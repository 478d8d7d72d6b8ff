"""
Dequantization by arithmetic, recognised in a term.

`(C - z) * s`, in the forms that exporters write: the subtraction in integers or in floats, zero
points that are integers or floats with integral values, float conversions of the scale or of the
result. So is `C * s` of short floats. A part of it is recognised too, since a shape op may stand
in the middle. Accepted arithmetic on integers means the same as `quant.dcast` of a quantized type
whose scales and zero points are these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from xdsl.dialects.builtin import AnyFloat, Float8E8M0FNUType, IntegerType, Signedness
from xdsl.ir import Attribute

from qdialect.algebra.float_format import FLOAT_FORMATS, FloatFormat
from qdialect.algebra.lazy_numpy import np
from qdialect.ir.elements import has_signedness
from qdialect.shape_ops.elementwise import Apply, Arithmetic, Input, Scalar, Term
from qdialect.shape_ops.interface import Code, NotFoldable

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Leaf(NamedTuple):
    """A constant that the arithmetic reads."""

    type: Attribute
    """The type of its elements."""

    numbers: Callable[[], NDArray[Any]]
    """Its elements, without repetition: int64 or object for integers, float64 for floats."""


class Dequantization(NamedTuple):
    """The computation `(stored - zero_point) * scale`, each by the number of its leaf."""

    stored: int
    """The number of the leaf with the stored integers, or short floats."""

    is_signed: bool
    """Whether the stored integers are read as signed; True for floats."""

    zero_points: int | Scalar | None = None
    scales: int | Scalar | None = None
    """None where nothing is subtracted, or multiplied."""

    zero_point_term: Term | None = None
    scale_term: Term | None = None
    """The terms of the scale and the zero point, in terms of the leaves."""

    rounded_to: IntegerType | None = None
    """The type of the stored integers where they are computed, by rounding the leaf."""


_TO_FLOAT: Final = (Arithmetic.SIGNED_TO_FLOAT, Arithmetic.UNSIGNED_TO_FLOAT)
_EXTENSIONS: Final = (Arithmetic.SIGN_EXTEND, Arithmetic.ZERO_EXTEND)
_OF_FLOATS: Final = (Arithmetic.EXTEND_FLOAT, Arithmetic.TRUNCATE_FLOAT)


def recognize(term: Term, leaves: Sequence[Leaf]) -> Dequantization:
    """
    The dequantization that `term` computes from `leaves`. Raises NotFoldable if it is not exact.
    """
    return _Recognizer(leaves).of(term)


class _Recognizer:
    def __init__(self, leaves: Sequence[Leaf]) -> None:
        self._leaves = leaves

    def of(self, term: Term) -> Dequantization:
        while isinstance(term, Apply) and term.arithmetic in _OF_FLOATS:
            (term,) = term.operands
        if not isinstance(term, Apply) or term.arithmetic is not Arithmetic.MULTIPLY:
            return self._difference(term)
        if isinstance(term.type, IntegerType):
            raise _refusal("it multiplies integers")
        one, other = term.operands
        if self._is_stored(other):
            one, other = other, one
        if self._is_stored(other):
            raise _refusal("both factors are integers, or short floats")
        found = self._difference(one)
        return found._replace(scales=self._parameter(other, "scale"), scale_term=other)

    def _difference(self, term: Term) -> Dequantization:
        """`C - z`, or `C`, read as floats or as integers."""
        if not isinstance(term, Apply):
            return self._stored(term, is_signed=None)
        arithmetic = term.arithmetic
        if arithmetic is Arithmetic.MULTIPLY:
            raise _refusal("it multiplies twice, and so rounds twice")
        if arithmetic is Arithmetic.ADD:
            raise _refusal("it adds, and so rounds once more than a dequantization")
        if arithmetic is Arithmetic.EXTEND_FLOAT and _is_short_float(term.operands[0]):
            return Dequantization(cast(Input, term.operands[0]).number, is_signed=True)
        if arithmetic in _OF_FLOATS:
            raise _refusal("it converts floats before it multiplies")
        if arithmetic in _TO_FLOAT:
            (inner,) = term.operands
            if isinstance(inner, Apply) and inner.arithmetic is Arithmetic.SUBTRACT:
                found = self._integer_difference(inner)
                low, high = self._range_of_difference(found)
            else:
                found = self._stored(inner, arithmetic is Arithmetic.SIGNED_TO_FLOAT)
                low, high = self._range(found)
            self._require_exact(term.type, low, high)
            return found
        if arithmetic is Arithmetic.SUBTRACT:
            if isinstance(term.type, IntegerType):
                return self._integer_difference(term)
            minuend, subtrahend = term.operands
            found = self._difference(minuend)
            if found.zero_points is not None:
                raise _refusal("it subtracts twice")
            if found.rounded_to is None and not self._has_integers(found):
                raise _refusal("it subtracts from floats")
            found = found._replace(
                zero_points=self._parameter(subtrahend, "zero point"), zero_point_term=subtrahend
            )
            self._require_exact(term.type, *self._range(found))
            self._require_exact(term.type, *self._range_of_difference(found))
            return found
        return self._stored(term, is_signed=None)

    def _integer_difference(self, term: Apply) -> Dequantization:
        minuend, subtrahend = term.operands
        found = self._stored(minuend, is_signed=None)
        found = found._replace(
            zero_points=self._parameter(subtrahend, "zero point"), zero_point_term=subtrahend
        )
        low, high = self._range_of_difference(found)
        width = _width(term.type)
        if low < -(1 << (width - 1)) or high >= 1 << (width - 1):
            raise _refusal(f"the subtraction may wrap in {width} bits")
        return found

    def _stored(self, term: Term, is_signed: bool | None) -> Dequantization:
        while isinstance(term, Apply) and term.arithmetic in _EXTENSIONS:
            is_signed = term.arithmetic is Arithmetic.SIGN_EXTEND
            (term,) = term.operands
        if isinstance(term, Apply) and term.arithmetic is Arithmetic.QUANTIZE:
            return self._rounded(term, is_signed)
        if not isinstance(term, Input) or not isinstance(term.type, IntegerType):
            raise _refusal("its operand is no constant of integers")
        return Dequantization(term.number, is_signed is not False)

    def _rounded(self, term: Apply, is_signed: bool | None) -> Dequantization:
        """The quantized operand: floats, or another dequantization."""
        value, *parameters = term.operands
        for parameter in parameters:
            self._parameter(parameter, "scale or zero point")
        while isinstance(value, Apply) and value.arithmetic in _OF_FLOATS:
            (value,) = value.operands
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
            raise _refusal(f"its {what} is computed")
        return inner.number if isinstance(inner, Input) else inner

    def _has_integers(self, found: Dequantization) -> bool:
        return isinstance(self._leaves[found.stored].type, IntegerType)

    def _is_stored(self, term: Term) -> bool:
        """Whether the stored elements are in `term`: those that something is subtracted from."""
        while isinstance(term, Apply):
            if term.arithmetic in (Arithmetic.SUBTRACT, Arithmetic.QUANTIZE, *_TO_FLOAT):
                return True
            term = term.operands[0]
        return isinstance(term.type, IntegerType) or _is_short_float(term)

    # Ranges

    def _range(self, found: Dequantization) -> tuple[int, int]:
        """The least and the greatest stored integer; for narrow types, of all possible ones."""
        width = _width(found.rounded_to or self._leaves[found.stored].type)
        if width <= _SHORT or found.rounded_to is not None:
            half = 1 << (width - 1)
            return (-half, half - 1) if found.is_signed else (0, 2 * half - 1)
        numbers = self._leaves[found.stored].numbers()
        if not found.is_signed:
            numbers = numbers.astype(np.int64).view(np.uint64) & np.uint64((1 << width) - 1)
        return _extremes(numbers)

    def _range_of_difference(self, found: Dequantization) -> tuple[int, int]:
        low, high = self._range(found)
        zero_points = self._integers(found.zero_points)
        return low - zero_points[1], high - zero_points[0]

    def _integers(self, parameter: int | Scalar | None) -> tuple[int, int]:
        """The least and the greatest zero point. Raises NotFoldable if one is not an integer."""
        if parameter is None:
            return 0, 0
        if isinstance(parameter, Scalar):
            numbers = np.asarray([parameter.attribute.value.data])
        else:
            numbers = self._leaves[parameter].numbers()
        if numbers.dtype.kind == "f" and not (numbers == np.rint(numbers)).all():
            raise _refusal("a zero point is no integer")
        return _extremes(numbers)

    def _require_exact(self, type: Attribute, low: int, high: int) -> None:
        """Raise NotFoldable unless integers from `low` to `high` are exact in a float type."""
        if isinstance(type, IntegerType):
            return
        most = 1 << _format(type).precision
        if low < -most or high > most:
            raise _refusal(f"not all integers from {low} to {high} are exact in '{type}'")


_SHORT: Final = 8
"""Numbers of so many bits are exact in every float type that weights are dequantized to."""


def _is_short_float(term: Term) -> bool:
    """Whether a term is an element of a short float type; a mere exponent is a scale."""
    if not isinstance(term, Input) or not isinstance(term.type, AnyFloat):
        return False
    return term.type.bitwidth <= _SHORT and not isinstance(term.type, Float8E8M0FNUType)


def _extremes(numbers: NDArray[Any]) -> tuple[int, int]:
    if not numbers.size:
        return 0, 0
    return int(numbers.min()), int(numbers.max())


def _format(type: Attribute) -> FloatFormat:
    found = FLOAT_FORMATS.get(type.name)
    if found is None:
        raise _refusal(f"'{type}' is no float type")
    return found


def _width(type: Attribute) -> int:
    return type.bitwidth if isinstance(type, IntegerType) else 64


def _refusal(condition: str) -> NotFoldable:
    return NotFoldable(Code.ARITHMETIC, condition)
