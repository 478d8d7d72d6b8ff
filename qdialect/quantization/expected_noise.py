"""
The noise that quantization is expected to add to a value, before any data is run.

Numbers are taken to be spread evenly in their range, or in each bin of a histogram. The squared
differences from the numbers that codes stand for are integrated exactly, also beyond the range of
codes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from qdialect.algebra.lazy_numpy import np
from qdialect.quantization.histograms import FloatHistogram
from qdialect.quantization.noise import Noise

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NARROW: Final = 1e-6
"""Of an interval shorter than this many steps, the middle stands for all."""


class Spread(NamedTuple):
    """How numbers are spread: evenly within intervals, each of some weight."""

    lows: NDArray[np.float64]
    highs: NDArray[np.float64]
    weights: NDArray[np.float64]

    @classmethod
    def even(cls, minimum: float, maximum: float) -> Spread:
        """Numbers that are spread evenly in a range."""
        return cls(*(np.array([each], "f8") for each in (minimum, maximum, 1)))

    @classmethod
    def of_histogram(cls, histogram: FloatHistogram, minimum: float, maximum: float) -> Spread:
        """Numbers that were counted, but for infinite ones; those in the last bins are in range."""
        near, far = histogram.edges
        lows, highs = (np.clip(each, minimum, maximum) for each in (near, far))
        is_finite = np.isfinite(near)
        counts = histogram.counts.astype("f8")
        ends = np.minimum(lows, highs), np.maximum(lows, highs)
        return cls(*(each[is_finite] for each in (*ends, counts)))


class Expected(NamedTuple):
    """The expected noise of a value."""

    decibels: float | None
    """The signal to noise ratio, as `Noise` has it."""

    saturated: float
    """The share of numbers that the lowest or the highest code stands for, and that are beyond."""


def expected_noise(
    spread: Spread,
    scales: NDArray[np.float64],
    zero_points: NDArray[np.int64],
    minimum: int,
    maximum: int,
) -> Expected:
    """
    What rounding to codes from `minimum` to `maximum` does to numbers that are spread so.

    Each slot of `scales` and `zero_points` has as many of the numbers as any other.
    """
    scale, zero_point = (each.astype("f8").reshape(-1, 1) for each in (scales, zero_points))
    low, high = minimum - zero_point, maximum - zero_point
    total = spread.weights.sum() * scale.size
    if not total:
        return Expected(None, 0.0)
    # All is counted in steps from here.
    start, end = spread.lows / scale, spread.highs / scale
    width = end - start
    is_narrow = width <= _NARROW
    safe = np.where(is_narrow, 1, width)
    noise = (_integral(end, low, high) - _integral(start, low, high)) / safe
    middle = (start + end) / 2
    noise = np.where(is_narrow, (middle - _code(middle, low, high)) ** 2, noise)
    signal = (start * start + start * end + end * end) / 3
    below = np.clip((low - 0.5 - start) / safe, 0, 1)
    above = np.clip((end - high - 0.5) / safe, 0, 1)
    beyond = np.where(is_narrow, (middle < low - 0.5) | (middle > high + 0.5), below + above)
    weights = spread.weights
    signal, noise = (float((each * scale**2 * weights).sum()) for each in (signal, noise))
    # A difference of integrals of almost the same size may be below zero.
    return Expected(
        Noise(signal, max(noise, 0.0), 1).decibels, float((beyond * weights).sum() / total)
    )


def _code(number: NDArray[Any], low: NDArray[Any], high: NDArray[Any]) -> NDArray[np.float64]:
    return np.clip(np.floor(number + 0.5), low, high)


def _integral(end: NDArray[Any], low: NDArray[Any], high: NDArray[Any]) -> NDArray[np.float64]:
    """The integral of the square of the difference from the code, from zero on."""
    code = _code(end, low, high)
    # Up to the middle before the last code there are 2 * code - 1 halves, of 1/24 each.
    return (2 * code - 1) / 24 + ((end - code) ** 3 + 1 / 8) / 3
