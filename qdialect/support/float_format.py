"""
MLIR's builtin float types, rounding to them and to integers, and MLIR's text of a number.

The types are listed in https://mlir.llvm.org/docs/Dialects/Builtin/; their semantics are those
of LLVM's APFloat, https://llvm.org/doxygen/structllvm_1_1APFloatBase.html. The scales of the
quantized types are rounded and printed this way:
https://mlir.llvm.org/docs/Dialects/QuantDialect/. The text equals that of mlir-opt 22 byte for
byte; it is neither the shortest nor the correctly rounded decimal.
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
from typing import Any, Final, TypeVar

from qdialect.support.lazy_numpy import NDArray, np

_Bits = TypeVar("_Bits", int, "NDArray[np.int64]")

_DOUBLE_PRECISION = sys.float_info.mant_dig
_DOUBLE_FRACTION = _DOUBLE_PRECISION - 1
_DOUBLE_SIGN = 1 << 63
_QUIET_NAN = 0x7FF8 << 48

SHORT_DIGITS = 6
"""The number of digits of the short form."""

MAX_PADDING = 3
"""The maximum number of padding zeros in the long form of a number without an exponent."""

_CONTAINERS: Final = (
    ("f2", 5, 11),
    ("f4", 8, 24),
    ("f8", 11, 53),
)
"""The formats that numpy has: dtype, exponent bits and precision."""

# No double has more binary places than the smallest one.
_POWERS_OF_FIVE = tuple(accumulate(repeat(5, 1074), mul, initial=1))


class Specials(Enum):
    """The special values of a format: infinities, NaN, and the lack of a zero."""

    INFINITIES_AND_NANS = auto()
    """As in IEEE 754: numbers that are too large become infinities."""

    SIGNED_NAN = auto()
    """A NaN of each sign, with all other bits set, and no infinities."""

    ONE_NAN = auto()
    """One NaN, at the bit pattern of negative zero, and no infinities."""

    ONE_NAN_NO_ZERO = auto()
    """One NaN, with all bits set; no infinities, no zero and no sign bit."""

    NONE = auto()
    """None: numbers that are too large become the largest one, and NaN becomes zero."""


@dataclass(frozen=True)
class FloatFormat:
    """One of MLIR's builtin float types."""

    name: str
    """MLIR's spelling, such as "f32"."""

    exponent_bits: int

    precision: int
    """The number of significant bits of a normal number, including the leading one."""

    last_place: int
    """
    The exponent of the smallest positive number, `2**last_place`; all numbers are its
    multiples.
    """

    largest: float
    """The largest finite number, infinity where no double is as large (f80, f128)."""

    specials: Specials = Specials.INFINITIES_AND_NANS

    dtype: str | None = None
    """numpy's dtype of this format, if there is one: casting to it is a faster way to round."""

    @property
    def smallest(self) -> float:
        """The smallest positive number, 0.0 where no double is as small (f80, f128)."""
        return math.ldexp(1.0, self.last_place)

    def round(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """
        The number of the format that is nearest to each of `values`, as a double.

        `values` is float64 of any shape, and so is the result; f64, f80 and f128 hold every
        double, so that the result is `values` itself. Ties go to the even digit, and therefore
        up in f8E8M0FNU. No value is an error: a number that rounds to more than `largest`
        becomes an infinity, NaN or `largest`, depending on `specials`. NaN becomes quiet, and
        keeps its sign and the leading bits of its payload as far as the format can hold them.
        Zeros and numbers that round to zero become `smallest` in f8E8M0FNU, whatever their
        sign, and are never negative in the FNUZ formats.
        """
        if self.precision >= _DOUBLE_PRECISION:
            return values
        with np.errstate(all="ignore"):
            if self.dtype is not None:
                rounded = values.astype(self.dtype).astype(np.float64)
            else:
                _, exponents = np.frexp(values)
                exponents = np.maximum(exponents - self.precision, self.last_place)
                # Only rint rounds: scaling by a power of two is exact.
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
        """
        `rounded`, with NaN and numbers beyond `largest` replaced by the format's special
        values.
        """
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
        # On bits, because processors differ in the NaNs that arithmetic returns.
        nans = (values.view(np.uint64) & kept) | np.uint64(_QUIET_NAN)
        return np.where(nan, nans.view(np.float64), rounded)

    def to_bits(self, value: float) -> int:
        """
        The bit pattern of `value`, as an unsigned integer.

        Raises ValueError if the format does not have the number: call `round` first. NaN
        becomes the NaN that `round` results in.
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
            # The leading one of a normal number is not stored: adding it carries into the
            # exponent, which starts at one for normal numbers.
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
            # f80 alone stores the leading one; every double is a normal number there.
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
        # Compared as integers, since 0.0 and -0.0 differ.
        distinct, places = np.unique(rounded.view(np.int64), return_inverse=True)
        numbers = distinct.view(np.float64).tolist()
        bits = np.array([self.to_bits(number) for number in numbers], dtype=np.uint64)
        return bits[places].reshape(values.shape)

    def from_bits(self, bits: int) -> float:
        """
        The number with the bit pattern `bits`; NaN loses its sign and payload.

        Raises ValueError for f80 and f128, whose numbers are not all doubles, and if `bits` has
        more bits than the format.
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
        The numbers with the bit patterns `bits`, of any shape and unsigned dtype: float64.

        NaN keeps its sign and payload where the format is a truncated f16, f32 or f64, and
        loses them in the other formats. Raises ValueError for f80 and f128.
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

        They must be numbers of the format: call `round` first. Every NaN becomes the positive
        quiet NaN without a payload. Raises ValueError for f80 and f128.
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

    def nearest_bits(self, values: NDArray[np.float64]) -> NDArray[np.uint64]:
        """
        The bit patterns of `round(values)`, of any shape: uint64.

        Like `encode`, it makes every NaN positive. Raises ValueError for f80 and f128.
        """
        if self.dtype is None:
            return self.encode(self.round(values))
        # The cast to the dtype rounds.
        with np.errstate(over="ignore", under="ignore"):
            return self.encode(values)

    @cached_property
    def _prefix(self) -> tuple[np.dtype[Any], int] | None:
        """
        The numpy dtype whose upper bits are this format, and the number of lower bits cut off.

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
        """The number of every bit pattern, in order; for formats of at most eight bits."""
        has_sign = self.specials is not Specials.ONE_NAN_NO_ZERO
        count = 1 << (self.exponent_bits + self.precision - 1 + has_sign)
        return np.array([self.from_bits(bits) for bits in range(count)])

    @cached_property
    def _magnitudes(self) -> NDArray[np.float64]:
        """The non-negative numbers in the order of their bit patterns, which is ascending."""
        has_sign = self.specials is not Specials.ONE_NAN_NO_ZERO
        numbers = self._table[: len(self._table) // 2] if has_sign else self._table
        return numbers[~np.isnan(numbers)]

    def _payload(self, nan: float) -> int:
        """The fraction bits of `nan`; in f64 unchanged, so that a signaling NaN stays signaling."""
        (bits,) = struct.unpack("<Q", struct.pack("<d", nan))
        payload = bits & ((1 << _DOUBLE_FRACTION) - 1)
        payload = (payload << (self.precision - 1)) >> _DOUBLE_FRACTION
        if self.precision == _DOUBLE_PRECISION:
            return payload
        return payload | (1 << (self.precision - 2))

    def _split(self, value: float) -> tuple[int, int]:
        """
        The significand and exponent of a positive `value`, which is exactly `significand *
        2**exponent`.
        """
        fraction, exponent = math.frexp(value)
        place = max(exponent - self.precision, self.last_place)
        return int(math.ldexp(fraction, exponent - place)), place

    @property
    def long_digits(self) -> int:
        """The number of decimal digits that distinguish the numbers of the format."""
        return 2 + ten_powers_in_bits(self.precision)

    def to_text(self, value: float) -> str:
        """
        `value` as MLIR writes a number of the format.

        It must be a number of the format: call `round` first. The text has six digits, as in
        `1.250000e-01`, if they read as the same number, and otherwise as many as distinguish
        the numbers of the format, as in `0.33333333333333331` and `1.234567E-4`. A number whose
        text would then look like an integer, or that is not finite, is written as its bit
        pattern, as in `0x7FC00000`. Raises ValueError if it is not finite and the format has no
        such number.
        """
        if not math.isfinite(value):
            return f"0x{self.to_bits(value):X}"
        sign = "-" if math.copysign(1.0, value) < 0.0 else ""
        if value == 0.0:
            return f"{sign}0.000000e+00"
        magnitude = abs(value)
        number, exponent = _as_decimal(magnitude)

        digits, last = _cut(number, exponent, SHORT_DIGITS)
        if self._reads_as(int(digits), last, magnitude):
            first = last + len(digits) - 1
            return f"{sign}{digits[0]}.{digits[1:]:0<6}e{first:+03d}"

        precision = self.long_digits
        digits, last = _cut(number, exponent, precision)
        first = last + len(digits) - 1
        if 0 <= last <= MAX_PADDING and first < precision:
            return f"0x{self.to_bits(value):X}"
        if last >= 0 or first < -MAX_PADDING:
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
        # In quarters of the last place, the midpoints to both neighbours are integers.
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


def kept_bits(digits: int) -> int:
    """The number of bits that APFloat keeps of a number before it is rounded to `digits`."""
    return (digits * 196 + 58) // 59


def ten_powers_in_bits(bits: _Bits) -> _Bits:
    """The number of decimal digits that APFloat counts in `bits` bits."""
    return bits * 59 // 196


def _as_decimal(value: float) -> tuple[int, int]:
    """The integers in `value == number * 10**exponent`, exactly; `exponent` is not positive."""
    number, denominator = value.as_integer_ratio()
    places = denominator.bit_length() - 1
    return number * _POWERS_OF_FIVE[places], -places


def _cut(number: int, exponent: int, precision: int) -> tuple[str, int]:
    """
    `number * 10**exponent` to `precision` digits, without trailing zeros.

    Returns the digits, and the exponent of ten of the last one. Like APFloat's toString, this
    drops digits that it considers insignificant before it rounds the rest, half up, so that the
    last digit may be one too small.
    """
    dropped = ten_powers_in_bits(number.bit_length() - kept_bits(precision))
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


class Rounding(Enum):
    """How quantization rounds a quotient to a storage integer."""

    UPSTREAM = "upstream"
    """Truncate toward zero, as MLIR lowers `quant.qcast`."""

    NEAREST_EVEN = "nearest-even"
    """Round to the nearest integer, ties to even: the semantics of `quant.qcast` here."""

    NEAREST_AWAY = "nearest-away"
    """Round to the nearest integer, ties away from zero."""

    def round(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """The whole numbers that `numbers` are rounded to. NaN and infinities stay."""
        match self:
            case Rounding.UPSTREAM:
                return np.trunc(numbers)
            case Rounding.NEAREST_EVEN:
                return np.rint(numbers)
            case Rounding.NEAREST_AWAY:
                return rounded_half_away(numbers)


def rounded_half_away(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """The nearest whole number, halves away from zero."""
    with np.errstate(invalid="ignore"):
        whole = np.trunc(numbers)
        # Exact: the difference of a number and its whole part is one.
        away = np.abs(numbers - whole) >= 0.5
        return np.copysign(np.where(away, whole + np.sign(numbers), whole), numbers)
