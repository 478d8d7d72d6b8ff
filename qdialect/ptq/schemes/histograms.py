"""Histograms that can be merged in any order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from qdialect.support.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DROPPED: Final = 20
"""The low bits of a float32 that bins ignore; its sign, exponent and three more bits remain."""

_POSITIVE: Final = 1 << (31 - _DROPPED)
"""The number of bins without the sign."""

_NUMBERS: Final = 1 << 20
"""The numbers counted at once, which bounds temporary memory."""


@dataclass(frozen=True, eq=False)
class FloatHistogram:
    """
    Counts of float32 numbers by their leading bits: sign, exponent, and three of the significand.

    The bins are the same for all data: eight from a power of two to the next. So histograms can be
    added exactly, in any order, whatever their ranges.
    """

    bins: NDArray[np.int64]
    """
    The bins that are not empty, from low to high numbers: int64.

    Negative numbers have negative bins; bin -1 has the smallest magnitudes.
    """
    counts: NDArray[np.int64]
    """int64, one for each of `bins`."""

    def __post_init__(self) -> None:
        """
        Raise ValueError for bins that are out of range or not ascending, and for invalid counts.
        """
        if self.bins.shape != self.counts.shape:
            raise ValueError(f"{self.bins.size} bins do not match {self.counts.size} counts")
        if np.any(self.bins[1:] <= self.bins[:-1]):
            raise ValueError("bins must be ascending")
        if self.bins.size and not -_POSITIVE <= self.bins[0] <= self.bins[-1] < _POSITIVE:
            raise ValueError(f"bins are from {-_POSITIVE} to {_POSITIVE - 1}")
        if np.any(self.counts < 0):
            raise ValueError("counts cannot be negative")

    @classmethod
    def of(cls, array: NDArray[Any]) -> FloatHistogram:
        """The histogram of floats of any shape, rounded to float32. NaN is skipped."""
        counts = np.zeros(2 * _POSITIVE, np.int64)
        flat = array.reshape(-1)
        for start in range(0, flat.size, _NUMBERS):
            with np.errstate(over="ignore"):
                numbers = flat[start : start + _NUMBERS].astype("f4")
            # Adding 0 makes a negative zero positive.
            numbers = numbers[~np.isnan(numbers)] + np.float32(0)
            leading = numbers.view(np.uint32) >> _DROPPED
            counts += np.bincount(leading, minlength=len(counts))
        leading = np.flatnonzero(counts)
        bins = np.where(leading < _POSITIVE, leading, ~(leading - _POSITIVE))
        return cls.of_counts(dict(zip(bins.tolist(), counts[leading].tolist(), strict=True)))

    @classmethod
    def of_counts(cls, counts: dict[int, int]) -> FloatHistogram:
        """A histogram from the count of each bin."""
        bins = sorted(counts)
        return cls(np.array(bins, np.int64), np.array([counts[at] for at in bins], np.int64))

    def merge(self, other: FloatHistogram) -> FloatHistogram:
        """The sum of both histograms."""
        counts = dict(zip(self.bins.tolist(), self.counts.tolist(), strict=True))
        for at, count in zip(other.bins.tolist(), other.counts.tolist(), strict=True):
            counts[at] = counts.get(at, 0) + count
        return self.of_counts(counts)

    @property
    def edges(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The signed least and greatest magnitude of each bin: float64."""
        magnitudes = np.where(self.bins < 0, ~self.bins, self.bins)
        near, far = ((magnitudes + step).astype(np.int32) << _DROPPED for step in (0, 1))
        signs = np.where(self.bins < 0, -1.0, 1.0)
        # The bin of infinities ends with NaN.
        with np.errstate(invalid="ignore"):
            ends = [bits.view(np.float32).astype("f8") for bits in (near, far)]
        return signs * ends[0], signs * np.where(np.isnan(ends[1]), np.inf, ends[1])
