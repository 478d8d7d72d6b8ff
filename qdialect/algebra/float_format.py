"""
MLIR's builtin float types: how a double is rounded to each, and how MLIR writes it.

The types are listed in https://mlir.llvm.org/docs/Dialects/Builtin/, and the meaning of
their numbers is that of LLVM's APFloat, https://llvm.org/doxygen/structllvm_1_1APFloatBase.html.
What is rounded and printed this way are the scales of the quantized types,
https://mlir.llvm.org/docs/Dialects/QuantDialect/. The text is byte for byte that of
mlir-opt 22, which is neither the shortest nor the correctly rounded one.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property
from itertools import accumulate, repeat
from operator import mul
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from qdialect.algebra.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray


_DOUBLE_PRECISION = sys.float_info.mant_dig
_DOUBLE_FRACTION = _DOUBLE_PRECISION - 1
_DOUBLE_SIGN = 1 << 63
_QUIET_NAN = 0x7FF8 << 48

_SHORT_DIGITS = 6
_MAX_PADDING = 3
"""The most zeros that the long form writes to fill up a number that has no exponent."""

_CONTAINERS: Final = (
    ("f2", 5, 11),
    ("f4", 8, 24),
    ("f8", 11, 53),
)
"""The formats that numpy has, their bits of exponent and their precision."""

# No double has more binary places than the smallest.
_POWERS_OF_FIVE = tuple(accumulate(repeat(5, 1074), mul, initial=1))


class Specials(Enum):
    """What a format has besides its finite numbers."""

    INFINITIES_AND_NANS = auto()
    """As in IEEE 754: numbers that are too large become infinities."""

    SIGNED_NAN = auto()
    """A NaN of each sign, all ones but for the sign bit, and no infinities."""

    ONE_NAN = auto()
    """One NaN in the place of negative zero, and no infinities."""

    ONE_NAN_NO_ZERO = auto()
    """One NaN, all ones, but neither infinities, nor a zero, nor a sign bit."""

    NONE = auto()
    """Nothing: what is too large becomes the largest number, and NaN becomes zero."""


@dataclass(frozen=True)
class FloatFormat:
    """One of MLIR's builtin float types."""

    name: str
    """As MLIR spells it, such as "f32"."""

    exponent_bits: int

    precision: int
    """The significant binary digits of a normal number, counting the leading one."""

    last_place: int
    """All numbers are multiples of the smallest positive one, `2**last_place`."""

    largest: float
    """The largest finite number, infinity where no double is as large (f80, f128)."""

    specials: Specials = Specials.INFINITIES_AND_NANS

    dtype: str | None = None
    """The type of numpy that is this format, where that is a quicker way to round."""

    @property
    def smallest(self) -> float:
        """The smallest positive number, 0.0 where no double is as small (f80, f128)."""
        return math.ldexp(1.0, self.last_place)

    def round(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """
        The number of the format that is nearest to each of `values`, as a double.

        `values` is float64 of any shape, and so is the result; f64, f80 and f128 hold
        every double, and return `values` itself. Ties go to the even digit, which makes
        them go up in f8E8M0FNU. Nothing is an error: a number that rounds to more than
        `largest` becomes what `specials` has for it, an infinity, NaN or `largest`. NaN
        keeps the sign and the leading bits of the payload that the format can hold, and
        becomes quiet. Zero and what rounds to it is `smallest` in f8E8M0FNU, whatever
        its sign, and never negative in the FNUZ formats.
        """
        if self.precision >= _DOUBLE_PRECISION:
            return values
        with np.errstate(all="ignore"):
            if self.dtype is not None:
                rounded = values.astype(self.dtype).astype(np.float64)
            else:
                _, exponents = np.frexp(values)
                exponents = np.maximum(exponents - self.precision, self.last_place)
                # Exact but for rint: scaling only moves the digits.
                rounded = np.ldexp(np.rint(np.ldexp(values, -exponents)), exponents)
            if self.specials is Specials.ONE_NAN:
                rounded = rounded + 0.0
            elif self.specials is Specials.ONE_NAN_NO_ZERO:
                rounded = np.where(rounded == 0.0, self.smallest, rounded)
            if not np.all(np.abs(rounded) <= self.largest):
                rounded = self._with_specials(values, rounded)
        return np.asarray(rounded)

    def _with_specials(
        self, values: NDArray[np.float64], rounded: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """`rounded`, with what stands for NaN and for numbers beyond `largest`."""
        nan = np.isnan(values)
        beyond = np.abs(rounded) > self.largest
        match self.specials:
            case Specials.NONE:
                rounded = np.where(beyond, np.copysign(self.largest, values), rounded)
                return np.where(nan, np.copysign(0.0, values), rounded)
            case Specials.INFINITIES_AND_NANS:
                rounded = np.where(beyond, np.copysign(np.inf, values), rounded)
                dropped = _DOUBLE_PRECISION - self.precision
                payload = (1 << _DOUBLE_FRACTION) - (1 << dropped)
                kept = np.uint64(_DOUBLE_SIGN | payload)
            case Specials.SIGNED_NAN:
                nan |= beyond
                kept = np.uint64(_DOUBLE_SIGN)
            case Specials.ONE_NAN | Specials.ONE_NAN_NO_ZERO:
                nan |= beyond
                kept = np.uint64(0)
        # Bits, because processors differ in which NaN comes out of arithmetic.
        nans = (values.view(np.uint64) & kept) | np.uint64(_QUIET_NAN)
        return np.where(nan, nans.view(np.float64), rounded)

    def to_bits(self, value: float) -> int:
        """
        The bit pattern of `value`, as an unsigned integer.

        Raises ValueError if the format has no such number: `round` comes first. NaN is
        the one that `round` gives.
        """
        number = self.round(np.array(value)).item()
        has_zero = self.specials is not Specials.ONE_NAN_NO_ZERO
        same = number == value or (math.isnan(number) and math.isnan(value))
        if not same or (number < 0.0 and not has_zero):
            raise ValueError(f"{self.name} does not hold {value!r}")

        fraction_bits = self.precision - 1
        all_exponent = ((1 << self.exponent_bits) - 1) << fraction_bits
        if number == 0.0:
            bits = 0
        elif math.isfinite(number):
            significand, exponent = self._split(abs(number))
            # A leading one is not stored: added, it carries into the exponent, which
            # counts from one for the numbers that have it.
            bits = ((exponent - self.last_place) << fraction_bits) + significand
            if not has_zero:
                bits -= 1
        elif math.isinf(number):
            bits = all_exponent
        elif self.specials is Specials.INFINITIES_AND_NANS:
            bits = all_exponent | self._payload(number)
        elif self.specials is Specials.ONE_NAN:
            bits = all_exponent + (1 << fraction_bits)
        else:
            bits = all_exponent | ((1 << fraction_bits) - 1)

        if math.copysign(1.0, number) < 0.0:
            bits |= 1 << (self.exponent_bits + fraction_bits)
        if self.name == "f80":
            # Alone in storing the leading one, which no double is too small to have.
            leading = 1 if number else 0
            upper, fraction = divmod(bits, 1 << fraction_bits)
            bits = (((upper << 1) | leading) << fraction_bits) | fraction
        return bits

    def round_to_bits(self, values: NDArray[np.float64]) -> NDArray[np.uint64]:
        """
        The bits of the number of the format that is nearest to each of `values`.

        `values` is float64 of any shape, and the result uint64 of that shape; for formats
        of up to 64 bits. See `round`.
        """
        rounded = np.require(self.round(values), requirements="C").reshape(-1)
        if self.dtype is not None:
            narrow = rounded.astype(self.dtype)
            return narrow.view(f"u{narrow.itemsize}").astype(np.uint64).reshape(values.shape)
        # As integers, 0.0 and -0.0 are two.
        distinct, places = np.unique(rounded.view(np.int64), return_inverse=True)
        numbers = distinct.view(np.float64).tolist()
        bits = np.array([self.to_bits(number) for number in numbers], dtype=np.uint64)
        return bits[places].reshape(values.shape)

    def from_bits(self, bits: int) -> float:
        """
        The number whose bit pattern is `bits`; NaN loses its sign and payload.

        Raises ValueError if the format has numbers that no double is (f80, f128), or
        patterns of fewer bits.
        """
        fraction_bits = self.precision - 1
        has_zero = self.specials is not Specials.ONE_NAN_NO_ZERO
        if self.precision > _DOUBLE_PRECISION:
            raise ValueError(f"not every number of {self.name} is a double")
        if bits >> (self.exponent_bits + fraction_bits + has_zero):
            raise ValueError(f"{self.name} has no bit pattern 0x{bits:X}")
        negative, magnitude = divmod(bits, 1 << (self.exponent_bits + fraction_bits))
        exponent, fraction = divmod(magnitude, 1 << fraction_bits)
        is_last_exponent = exponent == (1 << self.exponent_bits) - 1
        match self.specials:
            case Specials.INFINITIES_AND_NANS if is_last_exponent:
                number = math.nan if fraction else math.inf
            case Specials.SIGNED_NAN | Specials.ONE_NAN_NO_ZERO if (
                is_last_exponent and fraction == (1 << fraction_bits) - 1
            ):
                number = math.nan
            case Specials.ONE_NAN if negative and not magnitude:
                number = math.nan
            case Specials.ONE_NAN_NO_ZERO:
                number = math.ldexp(1.0, exponent + self.last_place)
            case _ if exponent:
                significand = fraction + (1 << fraction_bits)
                number = math.ldexp(float(significand), exponent - 1 + self.last_place)
            case _:
                number = math.ldexp(float(fraction), self.last_place)
        return -number if negative else number

    def decode(self, bits: NDArray[np.unsignedinteger[Any]]) -> NDArray[np.float64]:
        """
        The numbers whose bit patterns are `bits`, of any shape and unsigned dtype: float64.

        NaN keeps its sign and payload where the format is a shorter f16, f32 or f64, and is
        without them in the others. Raises ValueError for f80 and f128.
        """
        prefix = self._prefix
        if prefix is None:
            return self._table[bits]
        container, missing = prefix
        whole = bits.astype(f"u{container.itemsize}") << missing
        with np.errstate(invalid="ignore"):
            return whole.view(container).astype(np.float64)

    def encode(self, values: NDArray[np.float64]) -> NDArray[np.uint64]:
        """
        The bit patterns of `values`, of any shape: uint64.

        They must be numbers of the format: `round` comes first. Every NaN becomes the quiet
        one without a sign and a payload. Raises ValueError for f80 and f128.
        """
        prefix = self._prefix
        if prefix is None:
            magnitudes = np.searchsorted(self._magnitudes, np.abs(values)).astype(np.uint64)
            bits = magnitudes + np.signbit(values) * np.uint64(len(self._table) // 2)
        else:
            container, missing = prefix
            with np.errstate(invalid="ignore"):
                whole = values.astype(container)
            bits = (whole.view(f"u{container.itemsize}") >> missing).astype(np.uint64)
        is_nan = np.isnan(values)
        if is_nan.any():
            bits = np.where(is_nan, np.uint64(self.to_bits(math.nan)), bits)
        return np.asarray(bits)

    @cached_property
    def _prefix(self) -> tuple[np.dtype[Any], int] | None:
        """
        The format of numpy that this one is the upper bits of, and how many are missing.

        None for the others, which have at most eight bits. Raises ValueError for f80, f128.
        """
        if self.precision > _DOUBLE_PRECISION:
            raise ValueError(f"not every number of {self.name} is a double")
        if self.specials is Specials.INFINITIES_AND_NANS:
            for container, exponent_bits, precision in _CONTAINERS:
                if self.exponent_bits == exponent_bits:
                    return np.dtype(container), precision - self.precision
        return None

    @cached_property
    def _table(self) -> NDArray[np.float64]:
        """The number of every bit pattern, of a format of few bits."""
        has_sign = self.specials is not Specials.ONE_NAN_NO_ZERO
        count = 1 << (self.exponent_bits + self.precision - 1 + has_sign)
        return np.array([self.from_bits(bits) for bits in range(count)])

    @cached_property
    def _magnitudes(self) -> NDArray[np.float64]:
        """The numbers without a sign, in the order of their bit patterns, which is theirs."""
        has_sign = self.specials is not Specials.ONE_NAN_NO_ZERO
        numbers = self._table[: len(self._table) // 2] if has_sign else self._table
        return numbers[~np.isnan(numbers)]

    def _payload(self, nan: float) -> int:
        """The fraction bits of `nan`. A double is not converted: it stays signaling."""
        (bits,) = struct.unpack("<Q", struct.pack("<d", nan))
        payload = bits & ((1 << _DOUBLE_FRACTION) - 1)
        payload = (payload << (self.precision - 1)) >> _DOUBLE_FRACTION
        if self.precision == _DOUBLE_PRECISION:
            return payload
        return payload | (1 << (self.precision - 2))

    def _split(self, value: float) -> tuple[int, int]:
        """`value`, a positive one, is exactly `significand * 2**exponent`."""
        fraction, exponent = math.frexp(value)
        place = max(exponent - self.precision, self.last_place)
        return int(math.ldexp(fraction, exponent - place)), place

    def to_text(self, value: float) -> str:
        """
        `value` as MLIR writes a number of the format.

        It must be a number of the format: `round` comes first. The text has six digits,
        as in `1.250000e-01`, where they read as the same number; else as many as tell
        numbers of the format apart, as in `0.33333333333333331` and `1.234567E-4`. What
        would then be an integer, or is not finite, becomes the bit pattern, as in
        `0x7FC00000`. Raises ValueError if it is not finite and the format has no such
        number.
        """
        if not math.isfinite(value):
            return f"0x{self.to_bits(value):X}"
        sign = "-" if math.copysign(1.0, value) < 0.0 else ""
        if value == 0.0:
            return f"{sign}0.000000e+00"
        magnitude = abs(value)
        number, exponent = _as_decimal(magnitude)

        digits, last = _cut(number, exponent, _SHORT_DIGITS)
        if self._reads_as(int(digits), last, magnitude):
            first = last + len(digits) - 1
            return f"{sign}{digits[0]}.{digits[1:]:0<6}e{first:+03d}"

        precision = 2 + self.precision * 59 // 196
        digits, last = _cut(number, exponent, precision)
        first = last + len(digits) - 1
        if 0 <= last <= _MAX_PADDING and first < precision:
            return f"0x{self.to_bits(value):X}"
        if last >= 0 or first < -_MAX_PADDING:
            return f"{sign}{digits[0]}.{digits[1:] or '0'}E{first:+d}"
        if first >= 0:
            return f"{sign}{digits[: first + 1]}.{digits[first + 1 :]}"
        return f"{sign}0.{'0' * (-first - 1)}{digits}"

    def text_of_bits(self, bits: int) -> str:
        """A bit pattern as MLIR writes it: a number, or all its bits if it is not finite."""
        number = self.from_bits(bits)
        return self.to_text(number) if math.isfinite(number) else f"0x{bits:X}"

    def _reads_as(self, number: int, exponent: int, value: float) -> bool:
        """Whether `value` is the format's nearest to `number * 10**exponent`."""
        significand, place = self._split(value)
        # In quarters of its last place, both midpoints to the neighbors are integers.
        is_lowest = significand == 1 << (self.precision - 1) and place > self.last_place
        lower = 4 * significand - (1 if is_lowest else 2)
        upper = 4 * significand + 2
        divisor = 1
        if exponent >= 0:
            number *= _POWERS_OF_FIVE[exponent]
        else:
            divisor = _POWERS_OF_FIVE[-exponent]
        shift = exponent + 2 - place
        if shift >= 0:
            number <<= shift
        else:
            divisor <<= -shift
        if significand & 1:
            return lower * divisor < number < upper * divisor
        return lower * divisor <= number <= upper * divisor


def _as_decimal(value: float) -> tuple[int, int]:
    """`value` is exactly `number * 10**exponent`; `exponent` is not positive."""
    number, denominator = value.as_integer_ratio()
    places = denominator.bit_length() - 1
    return number * _POWERS_OF_FIVE[places], -places


def _cut(number: int, exponent: int, precision: int) -> tuple[str, int]:
    """
    `number * 10**exponent` to `precision` digits, without trailing zeros.

    Gives the digits, and the power of ten that the last one counts. As APFloat's
    toString does, digits that are not thought to matter are dropped before the rest is
    rounded, half up, so that the last digit may be one too small.
    """
    kept_bits = (precision * 196 + 58) // 59
    dropped = (number.bit_length() - kept_bits) * 59 // 196
    if dropped > 0:
        number = (number >> dropped) // _POWERS_OF_FIVE[dropped]
        exponent += dropped
    digits = str(number)
    excess = len(digits) - precision
    if excess > 0:
        unit = 10**excess
        digits = str((number + unit // 2) // unit)
        exponent += excess
    stripped = digits.rstrip("0")
    return stripped, exponent + len(digits) - len(stripped)


FLOAT_FORMATS: Mapping[str, FloatFormat] = MappingProxyType(
    {
        float_format.name: float_format
        for float_format in (
            FloatFormat("f16", 5, 11, -24, 65504.0, dtype="float16"),
            FloatFormat("bf16", 8, 8, -133, float.fromhex("0x1.fep127")),
            FloatFormat("f32", 8, 24, -149, float.fromhex("0x1.fffffep127"), dtype="float32"),
            FloatFormat("f64", 11, 53, -1074, sys.float_info.max),
            FloatFormat("f80", 15, 64, -16445, math.inf),
            FloatFormat("f128", 15, 113, -16494, math.inf),
            FloatFormat("tf32", 8, 11, -136, float.fromhex("0x1.ffcp127")),
            FloatFormat("f8E5M2", 5, 3, -16, 57344.0),
            FloatFormat("f8E4M3", 4, 4, -9, 240.0),
            FloatFormat("f8E4M3FN", 4, 4, -9, 448.0, Specials.SIGNED_NAN),
            FloatFormat("f8E3M4", 3, 5, -6, 15.5),
            FloatFormat("f8E5M2FNUZ", 5, 3, -17, 57344.0, Specials.ONE_NAN),
            FloatFormat("f8E4M3FNUZ", 4, 4, -10, 240.0, Specials.ONE_NAN),
            FloatFormat("f8E4M3B11FNUZ", 4, 4, -13, 30.0, Specials.ONE_NAN),
            FloatFormat("f8E8M0FNU", 8, 1, -127, 2.0**127, Specials.ONE_NAN_NO_ZERO),
            FloatFormat("f6E2M3FN", 2, 4, -3, 7.5, Specials.NONE),
            FloatFormat("f6E3M2FN", 3, 3, -4, 28.0, Specials.NONE),
            FloatFormat("f4E2M1FN", 2, 2, -1, 6.0, Specials.NONE),
        )
    }
)
"""Every builtin float type of MLIR 22, by MLIR's spelling."""
