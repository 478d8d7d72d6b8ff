"""
The texts of many floats at once: those of `FloatFormat.to_text`, by integer arithmetic on arrays.

A number is `m * 2**e`, where `m` has 24 bits, and its digits are those of
`floor(m * 2**e * 10**k)` for some `k`. Up to 27, `5**k` fits 64 bits, so two products of arrays
give all of them exactly. The few numbers for which this is not enough are written one by one.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from qdialect.support.float_format import (
    MAX_PADDING,
    SHORT_DIGITS,
    FloatFormat,
    kept_bits,
    ten_powers_in_bits,
)
from qdialect.support.lazy_numpy import np
from qdialect.support.memory import registered_cache

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Flags = NDArray[np.bool_]

_PRECISION = 24
"""The greatest precision of a format whose numbers are written at once."""

_MAX_EXACT_POWER = 27
"""The greatest exponent of a power of five that fits 64 bits."""

_MAX_POWER = 149
"""The greatest number of binary places of a number of a format of that precision."""

_MAX_EXACT_TEN = 22
"""The greatest exponent of a power of ten that is a double."""

_LIMB = 32
_ZERO, _POINT = ord("0"), ord(".")


class _Digits(NamedTuple):
    """The numbers `digits * 10**last`. The last digit is not zero."""

    digits: Integers

    last: Integers

    length: Integers
    """The number of digits."""

    is_known: Flags
    """Where the other fields hold; elsewhere, this arithmetic does not suffice."""

    @property
    def first(self) -> Integers:
        """The exponent of ten of the first digit."""
        return self.last + self.length - 1

    def characters(self, width: int) -> NDArray[np.uint8]:
        """The digits in ASCII, a row of `width` for each number, with zeros at the end."""
        rest = self.digits * _powers_of_ten()[np.maximum(width - self.length, 0)]
        text = np.empty((len(rest), width), dtype=np.uint8)
        for at in reversed(range(width)):
            upper = rest // 10
            text[:, at] = rest - 10 * upper + _ZERO
            rest = upper
        return text

    def significant(self, width: int, least: int) -> NDArray[np.uint8]:
        """The digits in ASCII, without zeros at the end, but `least` of them or more."""
        text = self.characters(width)
        text[np.arange(width) >= np.maximum(self.length, least)[:, np.newaxis]] = 0
        return text

    def chosen(self, rows: Flags) -> _Digits:
        """The numbers of some rows."""
        return _Digits(self.digits[rows], self.last[rows], self.length[rows], self.is_known[rows])


def decimal_texts(values: NDArray[np.float64], format: FloatFormat) -> NDArray[np.uint8]:
    """
    The text of each number as a row of ASCII characters. A zero byte is no character.

    `values` is one-dimensional, of numbers of the format. The text is that of
    `format.to_text`, and so are the errors.
    """
    if format.precision > _PRECISION:
        return _texts_one_by_one(values, format)
    precision = format.long_digits
    # Digits, a point, and zeros or an exponent.
    text = np.zeros((len(values), max(precision, SHORT_DIGITS) + MAX_PADDING + 4), dtype=np.uint8)
    is_usual = np.isfinite(values) & (values > 0)
    usual = np.where(is_usual, values, 1.0)
    short = _cut(usual, SHORT_DIGITS)
    reads, does_not_read = _reading(short, usual, format)
    long = _cut(usual, precision)
    is_bits = (long.last >= 0) & (long.last <= MAX_PADDING) & (long.first < precision)
    is_short = is_usual & reads & short.is_known
    is_long = is_usual & does_not_read & long.is_known & ~is_bits
    _write(text, is_short, _short_text(short.chosen(is_short)))
    _write_long(text, long, is_long, precision)
    rest = ~(is_short | is_long)
    if rest.any():
        others = _texts_one_by_one(values[rest], format)
        text[rest, : others.shape[1]] = others
    return text


def _texts_one_by_one(values: NDArray[np.float64], format: FloatFormat) -> NDArray[np.uint8]:
    # Compared as integers, since 0.0 and -0.0 differ.
    distinct, places = np.unique(values.view(np.int64), return_inverse=True)
    texts = [format.to_text(number).encode() for number in distinct.view(np.float64).tolist()]
    table = np.array(texts, dtype=np.bytes_)
    return table.view(np.uint8).reshape(len(texts), -1)[places]


def _cut(values: NDArray[np.float64], precision: int) -> _Digits:
    """The positive numbers, to `precision` digits: see `float_format.cut`."""
    powers, tens = _powers_of_five(), _powers_of_ten()
    fraction, exponent = np.frexp(values)
    significand = np.ldexp(fraction, _PRECISION).astype(np.int64)
    exponent = exponent.astype(np.int64) - _PRECISION
    zeros = np.frexp((significand & -significand).astype(np.float64))[1].astype(np.int64) - 1
    places = np.maximum(-(exponent + zeros), 0)

    product = significand * powers.leading[places]
    bound = np.int64(1) << (_PRECISION + _LIMB - 1)
    has_carry = product >= bound
    is_known = has_carry | powers.is_exact[places] | (product + significand <= bound)
    length = powers.length[places] + _PRECISION - 1 + has_carry
    length += np.where(places > 0, -zeros, exponent)
    dropped = np.maximum(ten_powers_in_bits(length - kept_bits(precision)), 0)

    power = places - dropped
    shift = -(exponent + power)
    is_known &= (power >= 0) & (power <= _MAX_EXACT_POWER) & (shift >= 0)
    factor = powers.whole[np.clip(power, 0, _MAX_EXACT_POWER)]
    lower = significand * (factor & ((1 << _LIMB) - 1))
    upper = significand * (factor >> _LIMB) + (lower >> _LIMB)
    lower &= (1 << _LIMB) - 1
    low, high = np.clip(shift, 0, _LIMB), np.clip(shift - _LIMB, 0, 63)
    digits = (upper >> high << (_LIMB - low)) | (lower >> low)
    digits = np.where(is_known, digits, 1)

    excess = np.maximum(_digit_count(digits) - precision, 0)
    unit = tens[excess]
    digits = (digits + unit // 2) // unit
    last = excess - power
    for step in (8, 4, 2, 1):
        ends = digits % 10**step == 0
        digits = np.where(ends, digits // 10**step, digits)
        last = last + step * ends
    return _Digits(digits, last, _digit_count(digits), is_known)


def _digit_count(numbers: Integers) -> Integers:
    return np.searchsorted(_powers_of_ten(), numbers, side="right").astype(np.int64)


def _reading(
    decimals: _Digits, values: NDArray[np.float64], format: FloatFormat
) -> tuple[Flags, Flags]:
    """Which decimals surely read as `values`, and which surely do not."""
    places = np.abs(decimals.last)
    power = np.power(10.0, np.minimum(places, _MAX_EXACT_TEN))
    digits = decimals.digits.astype(np.float64)
    # Both are correctly rounded, so the decimal is between the neighbours.
    read = np.where(decimals.last < 0, digits / power, digits * power)
    least = format.round(np.nextafter(read, 0.0))
    greatest = format.round(np.nextafter(read, np.inf))
    is_known = decimals.is_known & (places <= _MAX_EXACT_TEN)
    reads = is_known & (least == values) & (greatest == values)
    return reads, is_known & ((least > values) | (greatest < values))


def _short_text(decimals: _Digits) -> NDArray[np.uint8]:
    """As `1.250000e-01`."""
    digits = decimals.characters(SHORT_DIGITS + 1)
    return np.hstack([_with_point(digits, 0), _exponents(decimals.first, "e{:+03d}")])


def _write_long(text: NDArray[np.uint8], decimals: _Digits, rows: Flags, width: int) -> None:
    """Write `0.0012345678`, `1.2345678` and `1.2345678E-5`, of up to `width` digits."""
    has_exponent = (decimals.last >= 0) | (decimals.first < -MAX_PADDING)
    for place in np.unique(decimals.first[rows & ~has_exponent]).tolist():
        at = rows & ~has_exponent & (decimals.first == place)
        _write(text, at, _with_point(decimals.chosen(at).significant(width, 1), place))
    if (at := rows & has_exponent).any():
        chosen = decimals.chosen(at)
        digits = _with_point(chosen.significant(width, 2), 0)
        _write(text, at, np.hstack([digits, _exponents(chosen.first, "E{:+d}")]))


def _write(text: NDArray[np.uint8], rows: Flags, written: NDArray[np.uint8]) -> None:
    text[rows, : written.shape[1]] = written


def _with_point(digits: NDArray[np.uint8], place: int) -> NDArray[np.uint8]:
    """The digits, with the point behind the one at `place`, which may be before the first."""
    before = np.full((len(digits), max(-place, 0)), _ZERO, dtype=np.uint8)
    digits = np.hstack([before, digits])
    return np.insert(digits, max(place, 0) + 1, _POINT, axis=1)


def _exponents(exponents: Integers, form: str) -> NDArray[np.uint8]:
    """The text of each exponent in the form."""
    least, greatest = int(exponents.min(initial=0)), int(exponents.max(initial=0))
    texts = [form.format(exponent).encode() for exponent in range(least, greatest + 1)]
    table = np.array(texts, dtype=np.bytes_).view(np.uint8).reshape(len(texts), -1)
    return table[exponents - least]


class _Powers(NamedTuple):
    """Powers of five."""

    leading: Integers
    """The upper bits of each, as many as a limb has."""

    is_exact: Flags
    """Where the others are zeros."""

    length: Integers
    """The number of bits of each."""

    whole: Integers
    """Those that fit 64 bits."""


@registered_cache
@cache
def _powers_of_five() -> _Powers:
    powers = [5**exponent for exponent in range(_MAX_POWER + 1)]
    leading = [(power << _LIMB) >> power.bit_length() for power in powers]
    return _Powers(
        np.array(leading),
        np.array([power.bit_length() <= _LIMB for power in powers]),
        np.array([power.bit_length() for power in powers]),
        np.array(powers[: _MAX_EXACT_POWER + 1]),
    )


@registered_cache
@cache
def _powers_of_ten() -> Integers:
    return 10 ** np.arange(19)
