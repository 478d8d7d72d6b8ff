"""
The numbers that stored codes stand for, where they are not the integers themselves.

A codebook lists the values of a float format, or the entries of a table. The bit pattern of a code
is moved as it is; only reading and quantizing look at its number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from threading import local
from typing import Any, Final, NamedTuple, TypeAlias, cast

from qdialect.support.lazy_numpy import NDArray, aligned, np
from qdialect.support.memory import registered_cache


class Candidates(NamedTuple):
    """The codes that numbers are quantized to, in the order of their numbers, which differ."""

    numbers: NDArray[np.float64]

    codes: NDArray[np.int64]

    bounds: NDArray[np.float64]
    """For all but the last, the greatest double that is quantized to it."""


Writer: TypeAlias = Callable[["NDArray[np.float32]", "NDArray[np.uint8]"], None]
"""Writes the codes of up to `PART` numbers."""

PART: Final = 1 << 16
"""The numbers that are rounded at once, in the cache."""


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
    def has_sign(self) -> bool:
        """Whether the highest bit of a code is the sign of its number."""
        half = len(self.numbers) // 2
        lower, upper = self.numbers[:half], self.numbers[half:]
        is_mirrored = np.array_equal(-lower, upper, equal_nan=True)
        return self.first == 0 and is_mirrored and not (lower < 0).any()

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
        has_nan = bool(np.isnan(numbers.max(initial=0)))
        if numbers.dtype.str == "<f4" and not has_nan:
            write = self.writer(minimum, maximum)
            if write is not None:
                flat, codes = numbers.flatten(), np.empty(numbers.shape, np.uint8)
                for start in range(0, flat.size, PART):
                    part = slice(start, start + PART)
                    write(flat[part], codes.reshape(-1)[part])
                return codes
        codes = stored.codes[np.searchsorted(stored.bounds, numbers)]
        if self.is_float and (lowest := stored.numbers[0]) <= 0.0:
            is_negative_zero = (codes == 0) & np.signbit(numbers) & (numbers >= lowest)
            codes = np.where(is_negative_zero, len(self.numbers) // 2, codes)
        if not has_nan:
            return codes
        if self.nan is None:
            raise ValueError(f"{self.name} has no code of NaN")
        return np.asarray(np.where(np.isnan(numbers), self.nan, codes))

    def writer(self, minimum: float, maximum: float) -> Writer | None:
        """
        What writes the codes of `nearest` as uint8, of float32 without NaN, which it overwrites.

        Both are of one dimension. It belongs to this thread. None where no way is faster than a
        search.
        """
        stored = self.candidates(minimum, maximum)
        # In a table, zero has no sign.
        zero = np.searchsorted(stored.numbers, 0.0)
        is_whole = (-stored.numbers[0], stored.numbers[-1]) == (self.largest, self.largest)
        has_sign = is_whole and self.has_sign and not stored.numbers[zero]
        if self.is_float and not has_sign:
            return None
        if has_sign:
            stored = Candidates(stored.numbers[zero:], stored.codes[zero:], stored.bounds[zero:])
        if len(stored.codes) <= _FEW and 0 <= stored.codes.min() <= stored.codes.max() <= 255:
            write = _counting(stored)
        elif self.is_float:
            write = _rounding(self)
        else:
            return None
        if not has_sign:
            return write
        unsigned, sign_bit = np.uint8(stored.codes[0]), np.uint8(len(self.numbers) // 2)
        all_signs, is_other = _workspace()[_FEW:].view(np.bool_)

        def write_signed(number: NDArray[np.float32], code: NDArray[np.uint8]) -> None:
            signs = np.signbit(number, out=all_signs[: number.size])
            write(np.abs(number, out=number), code)
            if not self.is_float:
                signs &= np.not_equal(code, unsigned, out=is_other[: number.size])
            bits = signs.view(np.uint8)
            bits *= sign_bit
            code |= bits

        return write_signed

    def round(self, numbers: NDArray[np.float32]) -> None:
        """Replace up to `PART` positive numbers by the nearest ones of a format of floats."""
        numbers -= _lifting(self)(numbers).view(np.float32)

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

_FEW: Final = 16
"""Up to this number of codes, comparisons with all bounds are faster than a search."""


_threads: Final = local()


def _workspace() -> NDArray[np.uint8]:
    """Memory of this thread: allocated for each call, it would take longer than the arithmetic."""
    if not hasattr(_threads, "memory"):
        _threads.memory = aligned((_FEW + 2) * PART, "u1").reshape(-1, PART)
    return cast("NDArray[np.uint8]", _threads.memory)


def _lifting(book: Codebook) -> Callable[[NDArray[np.float32]], NDArray[np.int32]]:
    """
    What adds to magnitudes, in place, numbers so large that the sums are rounded as in the format.

    It saturates first, and returns the bits of what it added. The last digit of a sum is that of
    the number in the format.
    """
    dropped = _FRACTION - book.digits
    mask, largest = np.int32(0x7F800000), np.float32(book.largest).view(np.int32)
    # The least normal number.
    least = np.float32(book.numbers[1] * (1 << book.digits)).view(np.int32)
    raised = dropped << _FRACTION
    # The lowest byte is such that the codes are sums of bits, modulo 256.
    raised = np.int32(raised | (-((int(least) + raised) >> dropped) & 0xFF))
    memory = _workspace()[:4].view(np.int32).reshape(-1)

    def lift(number: NDArray[np.float32]) -> NDArray[np.int32]:
        bits, magnitude = memory[: number.size], number.view(np.int32)
        # Numbers below the least normal one have its exponent. With scalars, this method takes
        # less time than functions.
        magnitude.clip(least, largest, out=bits)
        np.minimum(magnitude, bits, out=magnitude)
        bits &= mask
        bits += raised
        np.add(number, bits.view(np.float32), out=number)
        return bits

    return lift


def _rounding(book: Codebook) -> Writer:
    """Of magnitudes, by arithmetic on the bits of float32."""
    lift, dropped = _lifting(book), np.int32(_FRACTION - book.digits)

    def write(number: NDArray[np.float32], code: NDArray[np.uint8]) -> None:
        bits = lift(number)
        bits >>= dropped
        bits += number.view(np.int32)
        np.copyto(code, bits, casting="unsafe")

    return write


def _counting(stored: Candidates) -> Writer:
    """Of up to `PART` numbers, by the sum of the steps between codes at the bounds below."""
    with np.errstate(over="ignore"):
        near = stored.bounds.astype(np.float32)
    below = np.nextafter(near, np.float32(-np.inf))
    bounds = np.where(near > stored.bounds, below, near)
    first, steps = (codes.astype(np.uint8) for codes in (stored.codes[0], np.diff(stored.codes)))
    # Steps of 1 come first: they are no factors.
    order = np.argsort(steps != 1, kind="stable")
    units = int(np.count_nonzero(steps == 1))
    bounds, factors = bounds[order, None], steps[order[units:], None]
    memory = _workspace()[: len(bounds)]

    def write(number: NDArray[np.float32], code: NDArray[np.uint8]) -> None:
        terms = memory[:, : number.size]
        np.greater(number, bounds, out=terms.view(np.bool_))
        if factors.size:
            terms[units:] *= factors
        np.add.reduce(terms, axis=0, dtype=np.uint8, out=code, initial=first)

    return write


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
