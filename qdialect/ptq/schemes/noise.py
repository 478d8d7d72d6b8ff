"""
The noise that quantization adds to values: as measured, as expected, and as in an evaluation.

Measured are the differences between the values of a quantized module and those of the float module.
For values they are signal-to-noise ratios, for results the number of equal top answers. Sums are
computed in float64, and do not depend on the order of records.

For expected noise, numbers are taken to be spread evenly in their range, or in each bin of a
histogram. The squared differences from the numbers that codes stand for are integrated exactly,
also beyond the range of codes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from qdialect.ptq.schemes.ranges import FloatHistogram
from qdialect.support.files import FileError, JsonError, JsonValue, read_text
from qdialect.support.lazy_numpy import NDArray, np

_ELEMENTS_AT_ONCE: Final = 1 << 15
"""The number of elements that are compared in float64 at once, in the cache of a processor."""
_SUMMED_AT_ONCE: Final = 1 << 13


@dataclass(frozen=True)
class Noise:
    """
    The sums over elements that are finite in both tensors, and the number of the others.

    Equal infinities at the same position are omitted without counting as a difference.
    """

    signal: float = 0.0
    """The sum of squares of the elements that are expected."""
    noise: float = 0.0
    """The sum of squares of the differences."""
    count: int = 0
    """The number of elements that are finite in both."""
    nans_before: int = 0
    """The number of NaNs among the expected elements."""
    nans_after: int = 0
    """The number of NaNs among the computed elements."""
    infinite: int = 0
    """The number of elements that are infinite in at least one of the two, and not NaN in the
    other."""
    differing: int = 0
    """The number of omitted elements that differ: NaN or infinite in one, but not in the other."""

    @classmethod
    def between(cls, expected: NDArray[Any], computed: NDArray[Any]) -> Noise:
        """Compare two tensors of floats. Raises ValueError if they differ in shape."""
        _check_shapes(expected, computed)
        rows = expected.reshape(-1), computed.reshape(-1)
        starts = range(0, max(expected.size, 1), _ELEMENTS_AT_ONCE)
        pieces = (slice(start, start + _ELEMENTS_AT_ONCE) for start in starts)
        return cls.total(cls._of_piece(*(row[piece] for row in rows)) for piece in pieces)

    @classmethod
    def _of_piece(cls, expected: NDArray[Any], computed: NDArray[Any]) -> Noise:
        one = expected.astype("f8")
        with np.errstate(all="ignore"):
            signal, noise = _squares(one), _squares(one - computed)
        if math.isfinite(signal) and math.isfinite(noise):
            return cls(signal, noise, one.size)
        other = computed.astype("f8")
        is_finite = np.isfinite(one) & np.isfinite(other)
        left_out = int(one.size - np.count_nonzero(is_finite))
        nans_before = nans_after = infinite = differing = 0
        if left_out:
            special, others = one[~is_finite], other[~is_finite]
            is_nan, are_nan = np.isnan(special), np.isnan(others)
            nans_before, nans_after = (int(np.count_nonzero(kind)) for kind in (is_nan, are_nan))
            infinite = int(np.count_nonzero(~(is_nan | are_nan)))
            alike = (special == others) | (is_nan & are_nan)
            differing = int(np.count_nonzero(~alike))
            one, other = one[is_finite], other[is_finite]
            with np.errstate(over="ignore"):
                signal, noise = _squares(one), _squares(one - other)
        return cls(signal, noise, one.size, nans_before, nans_after, infinite, differing)

    @staticmethod
    def total(parts: Iterable[Noise]) -> Noise:
        """All parts together, such as records."""
        parts = [*parts]
        if len(parts) == 1:
            return parts[0]
        return Noise(*map(_sum, zip(*(vars(part).values() for part in parts), strict=True)))

    @property
    def decibels(self) -> float | None:
        """
        The signal-to-noise ratio of the finite elements; infinite if none differ.

        None if no element is finite although some differ, if there are no elements, or if squares
        overflow.
        """
        if not self.count:
            is_same = not self.differing and (self.nans_before or self.infinite)
            return math.inf if is_same else None
        if math.isinf(self.signal) or math.isinf(self.noise):
            return None
        if not self.noise:
            return math.inf
        if not self.signal:
            return -math.inf
        # A quotient could overflow or underflow, where a difference of logarithms does not.
        return 10 * (math.log10(self.signal) - math.log10(self.noise))


@dataclass(frozen=True)
class Answers:
    """
    The top answers of a result: the positions of the largest numbers along its last axis.

    The first of several equal ones is used. Where a number is NaN there is no answer, which counts
    as different and wrong.
    """

    count: int = 0
    agreeing: int = 0
    """The number of equal answers."""
    right_before: int = 0
    """The number of expected answers that match the labels; 0 without labels."""
    right_after: int = 0
    """The number of computed answers that match the labels."""
    nans_before: int = 0
    """The number of expected results without an answer."""
    nans_after: int = 0

    @classmethod
    def between(
        cls, expected: NDArray[Any], computed: NDArray[Any], labels: NDArray[np.int64] | None = None
    ) -> Answers:
        """
        Compare results, which are floats with at least one axis.

        Raises ValueError if they differ in shape, if the numbers of labels and answers differ, and
        for a label that is not a class.
        """
        _check_shapes(expected, computed)
        old, new = _answers(expected), _answers(computed)
        right_before = right_after = 0
        if labels is not None:
            if labels.size != old.size:
                raise ValueError(f"there are {labels.size} labels, but {old.size} answers")
            classes = expected.shape[-1]
            wrong = labels[(labels < 0) | (labels >= classes)]
            if wrong.size:
                raise ValueError(
                    f"label {wrong[0]} is not the index of one of the {classes} classes"
                )
            known = labels.reshape(-1)
            right_before, right_after = (
                int(np.count_nonzero(answers == known)) for answers in (old, new)
            )
        return cls(
            old.size,
            int(np.count_nonzero((old == new) & (old != _NO_ANSWER))),
            right_before,
            right_after,
            *(int(np.count_nonzero(answers == _NO_ANSWER)) for answers in (old, new)),
        )

    @staticmethod
    def total(parts: Iterable[Answers]) -> Answers:
        """All parts together, such as records."""
        return Answers(*map(_sum, zip(*(vars(part).values() for part in parts), strict=True)))


_NO_ANSWER: Final = -1


def _answers(numbers: NDArray[Any]) -> NDArray[np.int64]:
    """The index of the largest number along the last axis, in a row of all answers."""
    if not numbers.size:
        return np.zeros(0, np.int64)
    rows = numbers.reshape(-1, numbers.shape[-1])
    return np.where(np.isnan(rows).any(axis=1), _NO_ANSWER, rows.argmax(axis=1))


def _check_shapes(expected: NDArray[Any], computed: NDArray[Any]) -> None:
    if expected.shape != computed.shape:
        raise ValueError(f"shapes {[*expected.shape]} and {[*computed.shape]} differ")


def _squares(numbers: NDArray[Any]) -> float:
    """The sum of squares; zero only if all numbers are zero."""
    # BLAS sums few numbers in one thread, so that they always have the same order.
    starts = range(0, numbers.size, _SUMMED_AT_ONCE)
    parts = (numbers[start : start + _SUMMED_AT_ONCE] for start in starts)
    total = float(sum(np.dot(part, part) for part in parts))
    return math.ulp(0.0) if not total and numbers.any() else total


def _sum(numbers: Sequence[Any]) -> Any:
    """The sum; of floats, rounded once."""
    if isinstance(numbers[0], int):
        return sum(numbers)
    try:
        return math.fsum(numbers)
    except OverflowError:
        return math.inf


# Expected noise

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
        return cls(*(np.array([number], "f8") for number in (minimum, maximum, 1)))

    @classmethod
    def of_histogram(cls, histogram: FloatHistogram, minimum: float, maximum: float) -> Spread:
        """
        The distribution of a histogram, except infinities; its outer bins are clipped to the range.
        """
        near, far = histogram.edges
        lows, highs = (np.clip(ends, minimum, maximum) for ends in (near, far))
        is_finite = np.isfinite(near)
        counts = histogram.counts.astype("f8")
        ends = np.minimum(lows, highs), np.maximum(lows, highs)
        return cls(*(array[is_finite] for array in (*ends, counts)))


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
    scale, zero_point = (numbers.astype("f8").reshape(-1, 1) for numbers in (scales, zero_points))
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
    signal = mean_squares(start, end)
    below = np.clip((low - 0.5 - start) / safe, 0, 1)
    above = np.clip((end - high - 0.5) / safe, 0, 1)
    beyond = np.where(is_narrow, (middle < low - 0.5) | (middle > high + 0.5), below + above)
    weights = spread.weights
    signal, noise = (float((powers * scale**2 * weights).sum()) for powers in (signal, noise))
    # The difference of two nearly equal integrals may be negative.
    return Expected(
        Noise(signal, max(noise, 0.0), 1).decibels, float((beyond * weights).sum() / total)
    )


def mean_squares(low: NDArray[Any], high: NDArray[Any]) -> NDArray[np.float64]:
    """The mean squares of numbers that are uniform between two ends."""
    low, high = (np.asarray(end, "f8") for end in (low, high))
    return (low * low + low * high + high * high) / 3


def _code(number: NDArray[Any], low: NDArray[Any], high: NDArray[Any]) -> NDArray[np.float64]:
    return np.clip(np.floor(number + 0.5), low, high)


def _integral(end: NDArray[Any], low: NDArray[Any], high: NDArray[Any]) -> NDArray[np.float64]:
    """The integral, from 0 to `end`, of the squared difference from the code."""
    code = _code(end, low, high)
    # There are 2 * code - 1 half steps, of 1/24 each, up to the last code's lower bound.
    return (2 * code - 1) / 24 + ((end - code) ** 3 + 1 / 8) / 3


def noise_of_products(
    weights: NDArray[Any],
    squares: NDArray[Any],
    input_steps: NDArray[Any],
    weight_steps: NDArray[Any],
) -> Noise:
    """
    The expected noise of a sum of products, if its terms are independent of each other.

    `weights` are multiplied by inputs with the mean `squares`. The error of a code is uniform
    within half a step, so its mean square is a twelfth of the squared step. All arrays broadcast.
    """
    squares_of_weights = weights.astype("f8") ** 2
    noise = squares_of_weights * input_steps**2 + squares * weight_steps**2
    return Noise(float((squares_of_weights * squares).sum()), float(noise.sum()) / 12, 1)


def step_of(low: float, high: float, bits: int) -> float:
    """The step of the codes of a range, extended to include 0."""
    return (max(high, 0.0) - min(low, 0.0)) / (2**bits - 1)


# Evaluations

_FORMAT: Final = "qdialect-evaluation"
_REMEDY: Final = "write it with 'qdialect-evaluate --json'"
_WORDS: Final = {"inf": math.inf, "-inf": -math.inf}


def worst_keys(
    path: str, layers: Sequence[Sequence[str]], count: int
) -> tuple[list[str], list[str]]:
    """
    The keys of the `count` layers with the lowest signal-to-noise ratio, the lowest first.

    Each layer has several keys; the first one that the file has is used. Layers without a key in
    the file follow, by their first keys. Raises OSError, and ValueError for another file.
    """
    known = _decibels(path)
    pairs, missing = list[tuple[float, str]](), list[str]()
    for keys in layers:
        key = next((key for key in keys if key in known), None)
        if key is None:
            missing.append(keys[0])
        else:
            pairs.append((known[key], key))
    return [key for _, key in sorted(pairs, key=lambda pair: pair[0])[:count]], missing


def _decibels(path: str) -> dict[str, float]:
    """The least signal-to-noise ratio of each value, in dB."""
    text = read_text(path, _REMEDY)
    decibels = dict[str, float]()
    try:
        members = JsonValue.parse(text).members()
        if "format" not in members or members["format"].value != _FORMAT:
            raise JsonError("it is not an evaluation")
        for row in members["values"].items() if "values" in members else ():
            written = row.members()
            if not {"key", "signal_to_noise"} <= written.keys():
                raise row.error("a value has no key or no signal-to-noise ratio")
            number: Any = written["signal_to_noise"].value
            number = _WORDS.get(number) if isinstance(number, str) else number
            if isinstance(number, int | float):
                key = str(written["key"].value)
                decibels[key] = min(float(number), decibels.get(key, math.inf))
    except JsonError as error:
        raise FileError(path, text, error.offset_in(text), str(error), _REMEDY) from None
    return decibels
