"""
The numbers that stored codes stand for, where they are not the integers themselves.

A codebook lists the values of a float format, or the entries of a table. The bit pattern of a code
is moved as it is; only reading and quantizing look at its number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple

from qdialect.support.lazy_numpy import NDArray, np
from qdialect.support.memory import registered_cache


class Candidates(NamedTuple):
    """The codes that numbers are quantized to, in the order of their numbers, which differ."""

    numbers: NDArray[np.float64]

    codes: NDArray[np.int64]

    bounds: NDArray[np.float64]
    """For all but the last, the greatest double that is quantized to it."""


@dataclass(frozen=True)
class Codebook:
    """The numbers of the codes `first`, `first + 1`, ... of one storage."""

    name: str
    """The type of the codes in messages; of a table without its entries."""

    first: int

    data: bytes
    """The numbers: float64. A float format may have NaN, infinities and -0."""

    is_float: bool
    """
    Whether the codes are bit patterns of floats: the storage range bounds their numbers, ties go
    to the even pattern, and -0 is stored. In a table, it bounds the codes, and ties go to the lower
    code.
    """

    refusal: str = ""
    """Why no constant and no run has such codes; empty if they may."""

    has_ranges: bool = True
    """Whether a storage range may bound the codes: not the bit patterns that index a table."""

    digits: int = 0
    """The bits of the fraction of a float."""

    @classmethod
    def of_floats(cls, name: str, numbers: NDArray[np.float64], digits: int) -> Codebook:
        """The values of a format of at most eight bits, in the order of their bit patterns."""
        return cls(name, 0, numbers.astype("<f8").tobytes(), is_float=True, digits=digits)

    @cached_property
    def numbers(self) -> NDArray[np.float64]:
        """The number of each code: read-only."""
        return np.frombuffer(self.data, dtype="<f8")

    @cached_property
    def largest(self) -> float:
        """The largest finite magnitude."""
        return float(np.abs(self.numbers[np.isfinite(self.numbers)]).max())

    @cached_property
    def codes(self) -> NDArray[np.int64]:
        """All codes that have a number."""
        return np.arange(self.first, self.first + len(self.numbers), dtype=np.int64)

    def decode(self, codes: NDArray[np.int64]) -> NDArray[np.float64]:
        """The numbers of `codes`, of any shape. Raises ValueError for a code that has none."""
        self.require_readable()
        places = codes - self.first
        outside = (places < 0) | (places >= len(self.numbers))
        if outside.any():
            raise ValueError(f"code {codes[outside].item(0)} is not in {self.name}")
        return self.numbers[places]

    def require_readable(self) -> None:
        """Raise ValueError if no constant and no run has such codes."""
        if self.refusal:
            raise ValueError(self.refusal)

    def are_in_range(
        self, codes: NDArray[np.int64], minimum: float, maximum: float
    ) -> NDArray[np.bool_]:
        """Which codes have a number, and are in a storage range. NaN is in every range."""
        places = codes - self.first
        has_number = (places >= 0) & (places < len(self.numbers))
        if not self.has_ranges:
            return has_number
        bounded = self.numbers[np.where(has_number, places, 0)] if self.is_float else codes
        return has_number & ~((bounded < minimum) | (bounded > maximum))

    def nearest(
        self, numbers: NDArray[np.floating[Any]], minimum: float, maximum: float
    ) -> NDArray[np.integer[Any]]:
        """
        The code in the range whose number is nearest to each of `numbers`.

        Numbers beyond the range become its ends, infinities too. NaN becomes the positive NaN of
        the format. Raises ValueError for NaN where there is none, and for a range without numbers.
        """
        stored = self.candidates(minimum, maximum)
        if numbers.dtype.str == "<f4" and not np.isnan(numbers.max(initial=0)):
            ends = -stored.numbers[0], stored.numbers[-1]
            if self.is_float and ends == (self.largest, self.largest):
                return self._rounded(numbers)
            if len(stored.codes) <= _FEW:
                return self._counted(numbers, stored)
        codes = stored.codes[np.searchsorted(stored.bounds, numbers)]
        if self.is_float and (lowest := stored.numbers[0]) <= 0.0:
            is_negative_zero = (codes == 0) & np.signbit(numbers) & (numbers >= lowest)
            codes = np.where(is_negative_zero, len(self.numbers) // 2, codes)
        is_nan = np.isnan(numbers)
        if not is_nan.any():
            return codes
        if self.nan is None:
            raise ValueError(f"{self.name} has no code of NaN")
        return np.asarray(np.where(is_nan, self.nan, codes))

    def _rounded(self, numbers: NDArray[np.float32]) -> NDArray[np.uint8]:
        """The nearest codes of all numbers of a format, by arithmetic on the bits of float32."""
        digits, sign = self.digits, np.uint8(len(self.numbers) // 2)
        largest, smallest = np.float32(self.largest), np.float32(self.numbers[1])
        exponents = np.int32(0x7F800000)
        least = (smallest * np.float32(1 << digits)).view(np.int32)
        raised = np.int32((_FRACTION - digits) << _FRACTION)
        known = np.uint8(least >> (_FRACTION - digits) & 0xFF)
        whole = np.ascontiguousarray(numbers).reshape(-1)
        codes = np.empty(whole.size, np.uint8)
        parts = np.empty(min(_PART, whole.size), np.uint8)
        buffers = np.empty((3, min(_PART, whole.size)), np.int32)
        for start in range(0, whole.size, _PART):
            bits, code = (array[start : start + _PART] for array in (whole.view(np.int32), codes))
            magnitude, exponent, unit = buffers[:, : bits.size]
            number = magnitude.view(np.float32)
            np.bitwise_and(bits, np.int32(0x7FFFFFFF), out=magnitude)
            # With a scalar, `clip` is several times faster than `minimum`.
            np.clip(number, 0, largest, out=number)
            np.bitwise_and(magnitude, exponents, out=exponent)
            # Numbers below the least normal one have its exponent.
            np.clip(exponent, least, exponents, out=exponent)
            np.add(exponent, raised, out=unit)
            # The last digit of the sum is that of the number in the format.
            np.add(number, unit.view(np.float32), out=number)
            exponent >>= _FRACTION - digits
            np.copyto(code, exponent, casting="unsafe")
            # Modulo 256, which is more than there are codes.
            part = parts[: bits.size]
            np.copyto(part, magnitude, casting="unsafe")
            code += part
            code -= known
            np.less(bits, 0, out=part.view(np.bool_))
            part *= sign
            code |= part
        return codes.reshape(numbers.shape)

    @staticmethod
    def _counted(numbers: NDArray[np.float32], stored: Candidates) -> NDArray[np.integer[Any]]:
        """The nearest codes, by the number of bounds that are below."""
        with np.errstate(over="ignore"):
            near = stored.bounds.astype(np.float32)
        below = np.nextafter(near, np.float32(-np.inf))
        bounds = np.where(near > stored.bounds, below, near)
        whole = np.ascontiguousarray(numbers).reshape(-1)
        ranks = np.zeros(whole.size, np.uint8)
        is_above = np.empty(min(_PART, whole.size), np.bool_)
        for start in range(0, whole.size, _PART):
            part, rank = (array[start : start + _PART] for array in (whole, ranks))
            above = is_above[: part.size]
            for bound in bounds:
                np.greater(part, bound, out=above)
                rank += above.view(np.uint8)
        ranks = ranks.reshape(numbers.shape)
        codes = stored.codes
        if (codes == np.arange(len(codes))).all():
            return ranks
        return codes.astype(np.min_scalar_type(int(codes.max()))).take(ranks)

    def candidates(self, minimum: float, maximum: float) -> Candidates:
        """The codes in a range that numbers are quantized to. Raises ValueError without one."""
        self.require_readable()
        return _candidates(self, minimum, maximum)

    @cached_property
    def nan(self) -> int | None:
        """The code of the positive NaN whose first fraction bit alone is set, or the only one."""
        nans = np.flatnonzero(np.isnan(self.numbers[: len(self.numbers) // 2]))
        return int(nans[len(nans) // 2]) if nans.size else None

    def zeros(self, zero_points: NDArray[np.int64]) -> NDArray[np.int64]:
        """
        The lowest code that is real zero under each zero point: its number is the zero point.

        -0 is no real zero. Raises ValueError if there is none.
        """
        self.require_readable()
        eligible = ~((self.numbers == 0.0) & np.signbit(self.numbers))
        distinct, first = np.unique(self.numbers[eligible], return_index=True)
        wanted = zero_points.astype(np.float64)
        at = np.searchsorted(distinct, wanted)
        missing = np.append(distinct, np.nan)[at] != wanted
        if missing.any():
            raise ValueError(
                f"{self.name} has no code of real zero: none of its numbers is the zero point "
                f"{zero_points[missing].item(0)}"
            )
        return self.codes[eligible][first[at]]


_FRACTION: Final = 23
"""The bits of the fraction of a float32."""

_PART: Final = 1 << 16
"""The numbers that are rounded at once, in the cache."""

_FEW: Final = 16
"""Up to this number of codes, comparisons with all bounds are faster than a search."""


@registered_cache
@lru_cache(maxsize=256)
def _candidates(book: Codebook, minimum: float, maximum: float) -> Candidates:
    codes = book.codes
    usable = codes[book.are_in_range(codes, minimum, maximum) & np.isfinite(book.numbers)]
    numbers, first = np.unique(book.numbers[usable - book.first], return_index=True)
    if not numbers.size:
        raise ValueError(f"{book.name} has no number in the storage range [{minimum}, {maximum}]")
    # The lowest code of each number.
    codes = usable[first]
    # A sum of the largest doubles overflows.
    unit = 0.5 if np.abs(numbers).max() > 2.0**1022 else 1.0
    low, high = numbers[:-1] * unit, numbers[1:] * unit
    sums = low + high
    middles = sums / 2
    # The rounding error of the sum, exactly: https://doi.org/10.1007/BF01397083.
    above = sums - low
    errors = (low - (sums - above)) + (high - above)
    # Halves of subnormal numbers may be rounded too.
    errors = np.where(middles * 2 == sums, errors, sums - middles * 2)
    goes_up = (codes[1:] & 1) == 0 if book.is_float else codes[1:] < codes[:-1]
    is_less = (errors < 0) | ((errors == 0) & goes_up)
    return Candidates(
        numbers, codes, np.where(is_less, np.nextafter(middles, -np.inf), middles) / unit
    )
