"""
The noise that quantization is expected to add to a value, before any data is run.

Numbers are taken to be spread evenly in their range, or in each bin of a histogram. The squared
differences from the numbers that codes stand for are integrated exactly, also beyond the range of
codes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from qdialect.ptq.schemes.histograms import FloatHistogram
from qdialect.ptq.schemes.noise import Noise
from qdialect.support.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NARROW: Final = 1e-6
"""An interval shorter than this many steps counts as its middle."""


class Spread(NamedTuple):
    """A distribution of numbers: uniform within intervals, each with a weight."""

    lows: NDArray[np.float64]
    highs: NDArray[np.float64]
    weights: NDArray[np.float64]

    @classmethod
    def even(cls, minimum: float, maximum: float) -> Spread:
        """The uniform distribution in a range."""
        return cls(*(np.array([each], "f8") for each in (minimum, maximum, 1)))

    @classmethod
    def of_histogram(cls, histogram: FloatHistogram, minimum: float, maximum: float) -> Spread:
        """
        The distribution of a histogram, except infinities; its outer bins are clipped to the range.
        """
        near, far = histogram.edges
        lows, highs = (np.clip(each, minimum, maximum) for each in (near, far))
        is_finite = np.isfinite(near)
        counts = histogram.counts.astype("f8")
        ends = np.minimum(lows, highs), np.maximum(lows, highs)
        return cls(*(each[is_finite] for each in (*ends, counts)))


class Expected(NamedTuple):
    """The expected noise of a value."""

    decibels: float | None
    """The signal-to-noise ratio in dB, as in `Noise`."""

    saturated: float
    """The fraction of numbers beyond the range of codes, which are clamped."""


def expected_noise(
    spread: Spread,
    scales: NDArray[np.float64],
    zero_points: NDArray[np.int64],
    minimum: int,
    maximum: int,
) -> Expected:
    """
    The noise of rounding numbers with distribution `spread` to codes from `minimum` to `maximum`.

    Each slot of `scales` and `zero_points` has an equal share of the numbers.
    """
    scale, zero_point = (each.astype("f8").reshape(-1, 1) for each in (scales, zero_points))
    low, high = minimum - zero_point, maximum - zero_point
    total = spread.weights.sum() * scale.size
    if not total:
        return Expected(None, 0.0)
    # From here on, the unit is one step.
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
    # The difference of two nearly equal integrals may be negative.
    return Expected(
        Noise(signal, max(noise, 0.0), 1).decibels, float((beyond * weights).sum() / total)
    )


def _code(number: NDArray[Any], low: NDArray[Any], high: NDArray[Any]) -> NDArray[np.float64]:
    return np.clip(np.floor(number + 0.5), low, high)


def _integral(end: NDArray[Any], low: NDArray[Any], high: NDArray[Any]) -> NDArray[np.float64]:
    """The integral, from 0 to `end`, of the squared difference from the code."""
    code = _code(end, low, high)
    # There are 2 * code - 1 half steps, of 1/24 each, up to the last code's lower bound.
    return (2 * code - 1) / 24 + ((end - code) ** 3 + 1 / 8) / 3
