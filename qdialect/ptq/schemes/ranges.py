"""
Statistics of a value, record by record: ranges and histograms that can be merged in any order.

A record is one run of a model, and has an index. Records may be spread over processes and merged in
any order. A moving average depends on the order by definition: it is computed in the order of the
indices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from typing import Any, Final

from qdialect.ptq.schemes.arrays import array_range
from qdialect.ptq.schemes.histogram_ranges import (
    Ends,
    entropy_ends,
    least_error_ends,
    percentile_ends,
    symmetric_entropy_ends,
)
from qdialect.ptq.schemes.schemes import Blocks, Range
from qdialect.support.arguments import integer, integers
from qdialect.support.lazy_numpy import NDArray, np

BATCH: Final = 16
"""The number of records in a batch of a moving average, as in ONE."""

SHARE: Final = 0.1
"""The weight of the next batch in a moving average, as in ONE."""

PERCENTILES: Final = (1.0, 99.0)
"""The percentiles of the minima and of the maxima in ONE."""

ELEMENT_PERCENTILES: Final = (0.0005, 99.9995)
"""The percentiles of the elements in ONNX Runtime."""

TORCH_SHARE: Final = 0.01
"""The weight of the next record in a moving average of torch's MovingAverageMinMaxObserver."""

BINS: Final = 1024
"""The number of bins of equal width in which the least divergence is sought."""

TORCH_BINS: Final = 2048
"""The number of bins of equal width in torch's HistogramObserver."""


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

    def intervals(self, low: float, high: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """
        The counts of adjoining intervals, and their edges, one more, between two ends.

        Infinities are left out.
        """
        near, far = self.edges
        is_finite = np.isfinite(near)
        lows, highs = np.minimum(near, far)[is_finite], np.maximum(near, far)[is_finite]
        edges = np.unique(np.concatenate([lows, highs]))
        counts = np.zeros(max(edges.size - 1, 0), np.int64)
        counts[np.searchsorted(edges, lows)] = self.counts[is_finite]
        return counts, np.clip(edges, low, high)

    def even(self, low: float, high: float, bins: int) -> NDArray[np.int64]:
        """
        The counts of bins of equal width from `low` to `high`, int64.

        Numbers are spread evenly in each bin, and the total is kept.
        """
        counts, edges = self.intervals(low, high)
        sums = np.concatenate([[0], np.cumsum(counts)])
        ends = np.linspace(low, high, bins + 1)
        return np.diff(np.rint(np.interp(ends, edges, sums)).astype(np.int64))


@dataclass(frozen=True, eq=False)
class Statistics:
    """
    The ranges of one value in some records.

    Raises ValueError for arrays that do not match, and for an invalid range.
    """

    axes: tuple[int, ...]
    """The axes along which ranges are recorded per index, ascending; empty for one range."""
    records: NDArray[np.int64]
    """Indices of records, ascending: int64."""
    minima: NDArray[np.float32]
    """For each record, one number for each index of `axes`: float32."""
    maxima: NDArray[np.float32]
    """Of the shape of `minima`."""
    count: int
    """The number of elements that are not NaN."""
    nans: int = 0
    """The number of NaNs, which are skipped."""
    histogram: FloatHistogram | None = None

    def __post_init__(self) -> None:
        if [*self.axes] != sorted({*self.axes}) or any(axis < 0 for axis in self.axes):
            raise ValueError(f"axes must be ascending and not negative, not {[*self.axes]}")
        if self.count < 0 or self.nans < 0:
            raise ValueError("counts of elements cannot be negative")
        shape = self.minima.shape
        if shape != self.maxima.shape or len(shape) != 1 + len(self.axes):
            raise ValueError(
                f"minima of shape {list(shape)} and maxima of {list(self.maxima.shape)} "
                f"do not match each other, or {len(self.axes)} axes"
            )
        if self.records.shape != shape[:1] or not shape[0]:
            raise ValueError(f"{self.records.size} records do not match {shape[0]} ranges")
        if 0 in shape:
            raise ValueError("an axis has length 0, and so no ranges")
        if np.any(self.records < 0) or np.any(np.diff(self.records) <= 0):
            raise ValueError("indices of records must be ascending and not negative")
        if not np.all(self.minima <= self.maxima):
            raise ValueError("a minimum exceeds its maximum, or is NaN")

    @classmethod
    def observe(
        cls,
        index: int,
        array: NDArray[Any],
        axes: Sequence[int] = (),
        *,
        histogram: bool = False,
        threads: int | None = None,
    ) -> Statistics:
        """
        The statistics of one record with the value `array`, as `array_range` computes them.

        Raises as `array_range`, also if all elements of an index are NaN.
        """
        axes = integers("axes", axes)
        ranges = array_range(array, Blocks.of_sizes(dict.fromkeys(axes, 1)), threads=threads)
        shape = (1, *(array.shape[axis] for axis in sorted(axes)))
        return cls(
            tuple(sorted(axes)),
            np.array([integer("index", index)]),
            ranges.minimum.reshape(shape),
            ranges.maximum.reshape(shape),
            array.size - ranges.nans,
            ranges.nans,
            FloatHistogram.of(array) if histogram else None,
        )

    def merge(self, other: Statistics) -> Statistics:
        """
        The statistics of the records of both. The operation is associative and commutative.

        Raises ValueError if both have the same record, and if they differ in axes, lengths of axes,
        or whether they have histograms.
        """
        return merged((self, other))

    def whole(self) -> Range:
        """The range of all records."""
        return Range(self.minima.min(axis=0), self.maxima.max(axis=0))

    def percentile(self, low: float = PERCENTILES[0], high: float = PERCENTILES[1]) -> Range:
        """
        The percentile `low` of the minima of the records, and `high` of their maxima.

        They are interpolated like `numpy.percentile`, in float64, and rounded to float32. If a
        neighbour is infinite, the result is the neighbour that makes the range larger. Raises
        ValueError if one is not from 0 to 100, and if `low` exceeds `high`.
        """
        _check_percentiles(low, high)
        return Range(
            _percentile(self.minima, low, lambda low, high: low),
            _percentile(self.maxima, high, lambda low, high: high),
        )

    def moving_average(self, batch: int = BATCH, share: float = SHARE) -> Range:
        """
        A moving average over batches of records.

        A batch has `batch` records in the order of their indices. The average starts as the range
        of the first batch; each step computes `(1 - share) * average + share * range`, in the
        precision of `getMovingAverage` in ONE's `record-minmax`. Raises ValueError for an empty
        batch, and for a share outside [0, 1].
        """
        if integer("batch", batch) < 1:
            raise ValueError(f"a batch must have at least one record, not {batch}")
        if not 0 <= share <= 1:
            raise ValueError(f"the share must be from 0 to 1, not {share}")
        starts = range(0, len(self.records), batch)
        return Range(
            _moving_average([self.minima[at : at + batch].min(axis=0) for at in starts], share),
            _moving_average([self.maxima[at : at + batch].max(axis=0) for at in starts], share),
        )

    def torch_moving_average(self, share: float = TORCH_SHARE) -> Range:
        """
        A moving average over records, as torch's MovingAverageMinMaxObserver computes it.

        Each step adds `share * (range - average)`, in float32. If a difference of infinities has no
        value, the result is the end that makes the range larger.
        """
        return Range(
            _torch_moving_average(self.minima, share, np.minimum),
            _torch_moving_average(self.maxima, share, np.maximum),
        )


class ReductionKind(StrEnum):
    """The ways to reduce the ranges of several records to one."""

    WHOLE = "whole"
    PERCENTILE = "percentile"
    MOVING_AVERAGE = "moving-average"
    TORCH_MOVING_AVERAGE = "torch-moving-average"
    ELEMENTS = "elements"
    MSE = "mse"
    ENTROPY = "entropy"
    GLOW_ENTROPY = "glow-entropy"


OF_HISTOGRAMS: Final = (
    ReductionKind.ELEMENTS,
    ReductionKind.MSE,
    ReductionKind.ENTROPY,
    ReductionKind.GLOW_ENTROPY,
)
"""The ways that read the histogram of a value."""


def _check_percentiles(low: float, high: float) -> None:
    for name, percentile in (("low", low), ("high", high)):
        if not 0 <= percentile <= 100:
            raise ValueError(f"{name} must be from 0 to 100, not {percentile}")
    if low > high:
        raise ValueError(f"low must not exceed high, as {low} exceeds {high}")


@dataclass(frozen=True)
class Reduction:
    """
    A reduction of the ranges of several records, with its percentiles.

    Raises ValueError for a percentile that is not from 0 to 100, and for a low one above the high.
    """

    kind: ReductionKind = ReductionKind.WHOLE
    low: float = PERCENTILES[0]
    high: float = PERCENTILES[1]

    def __post_init__(self) -> None:
        _check_percentiles(self.low, self.high)

    @classmethod
    def of(
        cls, kind: ReductionKind, low: float | None = None, high: float | None = None
    ) -> Reduction:
        """A reduction with the default percentiles of its kind in place of None."""
        of_kind = ELEMENT_PERCENTILES if kind is ReductionKind.ELEMENTS else PERCENTILES
        ends = zip((low, high), of_kind, strict=True)
        return cls(kind, *(default if own is None else own for own, default in ends))

    def __call__(self, statistics: Statistics) -> Range:
        """The range of all records. Raises ValueError if it needs a histogram that is not there."""
        match self.kind:
            case kind if kind in OF_HISTOGRAMS:
                return self._within(statistics)
            case ReductionKind.TORCH_MOVING_AVERAGE:
                return statistics.torch_moving_average()
            case ReductionKind.PERCENTILE:
                return statistics.percentile(self.low, self.high)
            case ReductionKind.MOVING_AVERAGE:
                return statistics.moving_average()
            case _:
                return statistics.whole()

    def _within(self, statistics: Statistics) -> Range:
        """The range of all records, or of each index, between the ends that a histogram gives."""
        if (histogram := statistics.histogram) is None:
            raise ValueError("there is no histogram")
        whole = statistics.whole()
        known = histogram.intervals(*map(float, (whole.minimum.min(), whole.maximum.max())))[1]
        if not known.size or not known[0] < known[-1]:
            return whole
        with np.errstate(all="ignore"):
            ends = self._ends(histogram, *known[[0, -1]].tolist())
        if not np.isfinite(ends).all():
            # Squares or sums of the numbers overflow.
            return whole
        low, high = np.clip(ends, known[0], known[-1]).astype("f4")
        return Range(*(np.clip(end, low, high) for end in whole))

    def _ends(self, histogram: FloatHistogram, low: float, high: float) -> Ends:
        match self.kind:
            case ReductionKind.ELEMENTS:
                return percentile_ends(*histogram.intervals(low, high), self.low, self.high)
            case ReductionKind.MSE:
                counts = histogram.even(low, high, TORCH_BINS).astype("f4")
                return least_error_ends(counts, low, high)
            case ReductionKind.GLOW_ENTROPY:
                counts = histogram.even(low, high, BINS).astype("f4")
                return entropy_ends(counts, low, high, is_symmetric=False)
            case _:
                most = max(-low, high)
                counts = histogram.even(-most, most, BINS)
                return symmetric_entropy_ends(counts, np.linspace(-most, most, BINS + 1))


WHOLE: Final = Reduction()
"""The least minimum and the greatest maximum."""


def merged(statistics: Sequence[Statistics]) -> Statistics:
    """Merge one or more statistics. Raises as `Statistics.merge`."""
    first, *others = statistics
    for other in others:
        if first.axes != other.axes or first.minima.shape[1:] != other.minima.shape[1:]:
            raise ValueError(f"ranges of {_axes(first)} do not match those of {_axes(other)}")
        if (first.histogram is None) != (other.histogram is None):
            raise ValueError("only one of the two has a histogram")
    records = np.concatenate([part.records for part in statistics])
    order = np.argsort(records)
    records = records[order]
    if (is_again := np.diff(records) == 0).any():
        raise ValueError(f"both have record {records[int(np.argmax(is_again))]}")
    histograms = [part.histogram for part in statistics if part.histogram is not None]
    return Statistics(
        first.axes,
        records,
        np.concatenate([part.minima for part in statistics])[order],
        np.concatenate([part.maxima for part in statistics])[order],
        sum(part.count for part in statistics),
        sum(part.nans for part in statistics),
        reduce(FloatHistogram.merge, histograms) if histograms else None,
    )


def _axes(statistics: Statistics) -> str:
    if not statistics.axes:
        return "the whole tensor"
    return f"axes {list(statistics.axes)} of lengths {list(statistics.minima.shape[1:])}"


def _percentile(
    ends: NDArray[np.float32], percentile: float, infinite: Callable[[Any, Any], Any]
) -> NDArray[np.float32]:
    with np.errstate(all="ignore"):
        ends_at: NDArray[Any] = np.percentile(ends.astype("f8"), percentile, axis=0)
    if not np.isfinite(ends).all():
        around = [
            np.percentile(ends, percentile, axis=0, method=method) for method in ("lower", "higher")
        ]
        is_between = (around[0] < around[1]) & np.isfinite(around[0]) & np.isfinite(around[1])
        ends_at = np.where(is_between, ends_at, infinite(*around))
    return np.asarray(ends_at, "f4")


def _moving_average(batches: Sequence[NDArray[np.float32]], share: float) -> NDArray[np.float32]:
    kept = np.float32(1) - np.float32(share)
    average = batches[0]
    # The average of opposite infinities is NaN, for which no scheme has parameters.
    with np.errstate(all="ignore"):
        for batch in batches[1:]:
            added = batch.astype("f8") * (1 - float(kept))
            average = ((average * kept).astype("f8") + added).astype("f4")
    return np.asarray(average)


def _torch_moving_average(
    ends: NDArray[np.float32], share: float, farther: np.ufunc
) -> NDArray[np.float32]:
    average = ends[0]
    with np.errstate(all="ignore"):
        for end in ends[1:]:
            moved = average + np.float32(share) * (end - average)
            average = np.asarray(np.where(np.isnan(moved), farther(average, end), moved), "f4")
    return np.asarray(average)
