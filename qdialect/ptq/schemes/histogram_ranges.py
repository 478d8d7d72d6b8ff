"""
Ranges chosen from histograms, for codes of 8 bits: a few large numbers may be clamped.

- Percentiles of elements.
- The least Kullback-Leibler divergence of what codes distinguish from what there was, as in
  `get_entropy_threshold` of ONNX Runtime (`quantization/calibrate.py`) and `optimizeKL` of Glow
  (`lib/Quantization/Base/Calibration.cpp`): the same ends for the same histogram. Both come from
  https://on-demand.gputechconf.com/gtc/2017/presentation/s7310-8-bit-inference-with-tensorrt.pdf.
- The least squared error, as in the search of torch's HistogramObserver
  (`torch/ao/quantization/observer.py`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from qdialect.support.lazy_numpy import NDArray, np

_SMALL: Final = 1e-4
"""The count that an empty bin gets, at the cost of the others: of ONNX Runtime, Glow, and MXNet."""

_STEP: Final = 1e-5
"""The share of elements that torch's search drops at once."""


class Ends(NamedTuple):
    """The ends of a range."""

    low: float
    high: float


def percentile_ends(
    counts: NDArray[Any], edges: NDArray[np.float64], low: float, high: float
) -> Ends:
    """
    The percentiles of elements, from 0 to 100, which are spread evenly in each bin.

    There is one edge more than counts, and at least one count that is not 0.
    """
    filled = np.flatnonzero(counts)
    first, last = filled[0], filled[-1] + 1
    shares = np.concatenate([[0.0], np.cumsum(counts[first:last], dtype="f8")])
    total, edges = float(shares[-1]), edges[first : last + 1]
    return Ends(*(float(np.interp(end / 100 * total, shares, edges)) for end in (low, high)))


def symmetric_entropy_ends(
    counts: NDArray[np.int64], edges: NDArray[np.floating[Any]], codes: int = 128
) -> Ends:
    """
    The ends of ONNX Runtime: those of the window around the middle with the least divergence.

    `counts` are whole, and there is one edge more. Elements outside of the window count at its
    ends. What follows the last whole group of bins is as if nothing represented it.
    """
    middle, half = len(counts) // 2, codes // 2
    best, ends = np.inf, Ends(0.0, 0.0)
    for reach in range(half, middle + 1):
        start, stop = middle - reach, min(middle + reach + 1, len(counts))
        window = counts[start:stop]
        saturated = window.copy()
        saturated[0] += counts[:start].sum()
        saturated[-1] += counts[stop:].sum()
        size = len(window) // codes
        groups = window[: codes * size].reshape(codes, size).sum(1)
        groups[-1] += window[codes * size :].sum()
        filled = (saturated != 0)[: codes * size].reshape(codes, size).sum(1)
        spread = np.zeros_like(saturated)
        densities = np.where(filled, groups / np.maximum(filled, 1), 0)
        spread[: codes * size] = np.repeat(densities.astype(np.int64), size)
        if not (saturated.any() and spread.any()):
            divergence = np.float32(np.inf)
        else:
            sides = (side.astype("f4") for side in (saturated, spread))
            one, other = (_without_zeros(side, np.float64) for side in sides)
            divergence = np.sum(_terms(one / np.sum(one), other / np.sum(other)))
        if reach == half or divergence < best:
            best, ends = divergence, Ends(float(edges[start]), float(edges[stop]))
    return ends


def _terms(one: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    """The terms of the divergence: positive shares times the logarithms of their quotients."""
    with np.errstate(all="ignore"):
        return np.where((one > 0) & (other > 0), one * np.log(one / other), np.float32(0))


def _without_zeros(
    counts: NDArray[np.float32], number: type[np.floating[Any]]
) -> NDArray[np.float32]:
    """
    Counts with a small one in place of each zero, which is taken from the others.

    The share of each is a `number`. Counts stay where there is nothing to take from.
    """
    is_zero = counts == 0
    small, zeros, others = number(_SMALL), number(is_zero.sum()), number((~is_zero).sum())
    if not others or (share := small * zeros / others) >= 1:
        return counts
    return counts + np.where(is_zero, np.float32(small), np.float32(-share))


def entropy_ends(
    counts: NDArray[np.float32], low: float, high: float, codes: int = 255, *, is_symmetric: bool
) -> Ends:
    """
    The ends of Glow: those of the window with the least divergence, which shrinks at both sides.

    If it is not symmetric, it shrinks where that drops the fewest elements. A symmetric range keeps
    the ratio of its ends. `counts` and all arithmetic are float32; fewer counts than `codes` give
    the whole range.
    """
    low32, high32 = np.float32(low), np.float32(high)
    if len(counts) < codes or not len(counts):
        return Ends(float(low32), float(high32))
    width = (high32 - low32) / np.float32(len(counts))
    best, ends = np.float32(np.inf), (low32, high32)
    for start, stop in _windows(counts, codes, is_symmetric=is_symmetric):
        divergence = _divergence(counts, start, stop, codes)
        if divergence < best:
            best = divergence
            ends = low32 + np.float32(start) * width, low32 + np.float32(stop) * width
    first, last = (float(end) for end in ends)
    if is_symmetric:
        ratios = first / float(low32), last / float(high32)
        if ratios[0] > ratios[1]:
            last = float(np.float32(ratios[0] * float(high32)))
        else:
            first = float(np.float32(ratios[1] * float(low32)))
    return Ends(first, last)


def _windows(
    counts: NDArray[np.float32], codes: int, *, is_symmetric: bool
) -> Iterator[tuple[int, int]]:
    """The starts of smaller and smaller windows, and what follows their last bins."""
    start, stop = 0, len(counts)
    while stop - start >= codes:
        yield start, stop
        losses = [counts[start] + counts[stop - 1]]
        if not is_symmetric:
            losses += [counts[start] + counts[start + 1], counts[stop - 1] + counts[stop - 2]]
        steps = ((1, 1), (2, 0), (0, 2))[int(np.argmin(losses))]
        start, stop = start + steps[0], stop - steps[1]


def _divergence(counts: NDArray[np.float32], start: int, stop: int, codes: int) -> np.float32:
    """The divergence for a window, in the order in which Glow adds."""
    window = counts[start:stop]
    saturated = window.copy()
    saturated[0], saturated[-1] = _total(counts[: start + 1]), _total(counts[stop - 1 :])
    size = len(window) // codes
    starts = size * np.arange(codes)
    groups = np.add.accumulate(window[: codes * size].reshape(codes, size), axis=1)[:, -1]
    groups[-1] = _total(window[starts[-1] :])
    filled = np.add.reduceat(window != 0, starts, dtype=np.int64)
    lengths = np.diff(np.append(starts, len(window)))
    with np.errstate(all="ignore"):
        densities = np.where(filled, groups / filled.astype("f4"), np.float32(0))
    spread = np.where(saturated != 0, np.repeat(densities, lengths), np.float32(0))
    one, other = (_without_zeros(side, np.float32) for side in (saturated, spread))
    totals = _total(one), _total(other)
    return _total(_terms(one / totals[0], other / totals[1])) if all(totals) else np.float32(0)


def _total(numbers: NDArray[np.float32]) -> np.float32:
    """The sum from the first to the last, rounded at each step."""
    return np.float32(np.add.accumulate(numbers)[-1])


def least_error_ends(
    counts: NDArray[np.float32], low: float, high: float, codes: int = 256
) -> Ends:
    """
    The ends of torch: bins are dropped from either side while the squared error falls.

    `counts` are of bins of equal width, and spread evenly in them; float32.
    """
    bins = len(counts)
    width = (high - low) / bins
    sums = np.cumsum(counts, dtype="f8").astype("f4").tolist()
    total = float(counts.sum())
    dropped_low, kept_high = 0.0, 1.0
    start, last, least = 0, bins - 1, np.inf
    while dropped_low < kept_high:
        next_low, next_high = dropped_low + _STEP, kept_high - _STEP
        left = max(start, min(bisect_left(sums, next_low * total), last))
        right = min(last, max(bisect_right(sums, next_high * total) - 1, start))
        if left - start > last - right:
            dropped_low, chosen = next_low, (left, last)
        else:
            kept_high, chosen = next_high, (start, right)
        if chosen == (start, last):
            continue
        error = _squared_error(counts, width, *chosen, codes)
        if error > least:
            break
        least, (start, last) = error, chosen
    return Ends(low + width * start, low + width * (last + 1))


def _squared_error(
    counts: NDArray[np.float32], width: float, start: int, last: int, codes: int
) -> float:
    """The squared error of codes for the bins from `start` to `last`."""
    step = width * (last - start + 1) / codes
    if not step:
        return 0.0
    begins = ((np.arange(len(counts)) - start) * width).astype("f4")
    ends = begins + np.float32(width)
    densities = counts / np.float32(width)
    half = np.float32(step / 2)
    codes_of = [np.clip(np.floor(side / np.float32(step)), 0, codes - 1) for side in (begins, ends)]
    centers = [(code + np.float32(0.5)) * np.float32(step) for code in codes_of]

    def integral(begin: Any, end: Any) -> NDArray[Any]:
        return densities * ((end * end * end - begin * begin * begin) / 3)

    parts = integral(begins - centers[0], half) + integral(-half, ends - centers[1])
    between = codes_of[1] - codes_of[0] - 1
    return float((parts + between * integral(-half, half)).sum())
