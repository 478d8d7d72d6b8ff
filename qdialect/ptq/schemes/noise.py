"""
The differences between the values of a quantized module and those of the float module.

For values they are signal-to-noise ratios, for results the number of equal top answers. Sums are
computed in float64, and do not depend on the order of records.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from qdialect.support.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
    def between(cls, expected: NDArray[Any], found: NDArray[Any]) -> Noise:
        """Compare two tensors of floats. Raises ValueError if they differ in shape."""
        if expected.shape != found.shape:
            raise ValueError(f"shapes {[*expected.shape]} and {[*found.shape]} differ")
        one, other = expected.astype("f8").reshape(-1), found.astype("f8").reshape(-1)
        is_finite = np.isfinite(one) & np.isfinite(other)
        left_out = int(one.size - np.count_nonzero(is_finite))
        nans_before = nans_after = infinite = differing = 0
        if left_out:
            special, others = one[~is_finite], other[~is_finite]
            is_nan, are_nan = np.isnan(special), np.isnan(others)
            nans_before, nans_after = (int(np.count_nonzero(each)) for each in (is_nan, are_nan))
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
        parts = list(parts)
        return Noise(
            _sum(part.signal for part in parts),
            _sum(part.noise for part in parts),
            sum(part.count for part in parts),
            sum(part.nans_before for part in parts),
            sum(part.nans_after for part in parts),
            sum(part.infinite for part in parts),
            sum(part.differing for part in parts),
        )

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
        cls, expected: NDArray[Any], found: NDArray[Any], labels: NDArray[np.int64] | None = None
    ) -> Answers:
        """
        Compare results, which are floats with at least one axis.

        Raises ValueError if they differ in shape, if the numbers of labels and answers differ, and
        for a label that is not a class.
        """
        if expected.shape != found.shape:
            raise ValueError(f"shapes {[*expected.shape]} and {[*found.shape]} differ")
        old, new = _answers(expected), _answers(found)
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
            right_before, right_after = (int(np.count_nonzero(of == known)) for of in (old, new))
        return cls(
            old.size,
            int(np.count_nonzero((old == new) & (old != _NO_ANSWER))),
            right_before,
            right_after,
            *(int(np.count_nonzero(of == _NO_ANSWER)) for of in (old, new)),
        )

    @staticmethod
    def total(parts: Iterable[Answers]) -> Answers:
        """All parts together, such as records."""
        parts = list(parts)
        return Answers(
            sum(part.count for part in parts),
            sum(part.agreeing for part in parts),
            sum(part.right_before for part in parts),
            sum(part.right_after for part in parts),
            sum(part.nans_before for part in parts),
            sum(part.nans_after for part in parts),
        )


_NO_ANSWER: Final = -1


def _answers(numbers: NDArray[Any]) -> NDArray[np.int64]:
    """The index of the largest number along the last axis, in a row of all answers."""
    if not numbers.size:
        return np.zeros(0, np.int64)
    rows = numbers.reshape(-1, numbers.shape[-1])
    return np.where(np.isnan(rows).any(axis=1), _NO_ANSWER, rows.argmax(axis=1))


def _squares(numbers: NDArray[Any]) -> float:
    """The sum of squares; zero only if all numbers are zero."""
    found = float(np.square(numbers).sum())
    return math.ulp(0.0) if not found and numbers.any() else found


def _sum(numbers: Iterable[float]) -> float:
    """The sum, rounded once."""
    try:
        return math.fsum(numbers)
    except OverflowError:
        return math.inf
