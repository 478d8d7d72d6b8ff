"""
Equalization: scales that make the ranges of a layer's input and of its weights equal.

A layer sums products over an index. If its input is multiplied by a scale for each index, and its
weights are divided by it, the sums do not change. With the right scales, both have the range
`sqrt(input * weights)` at each index, so that fewer codes are wasted where one of the two is small.

The arithmetic is that of PyTorch FX, in float32:
https://github.com/pytorch/pytorch, `torch/ao/quantization/fx/_equalize.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from qdialect.ptq.schemes.schemes import Range
from qdialect.support.lazy_numpy import NDArray, np

STRENGTH: Final = 0.5
"""The exponent that makes both ranges equal."""

_IS_EQUAL: Final = 1e-3
"""Scales this close to 1 gain nothing."""


@dataclass(frozen=True)
class ScaleRule:
    """
    The rule that computes scales from ranges.

    Raises ValueError for a strength outside [0, 1].
    """

    strength: float = STRENGTH
    """The exponent: 0 keeps the ranges of the input, 1 gives it those of the weights."""

    power_of_two: bool = False
    """Whether scales are rounded to powers of two, which multiply and divide exactly."""

    def __post_init__(self) -> None:
        if not 0 <= self.strength <= 1:
            raise ValueError(f"strength must be from 0 to 1, not {self.strength}")

    def scales(self, weights: Range, inputs: Range) -> NDArray[np.float32]:
        """
        The scale of each index: `(range of the weights / range of the input) ** strength`.

        It is 1 where the quotient is zero, infinite or NaN, or has no reciprocal in float32.
        """
        with np.errstate(all="ignore"):
            spans = [
                np.asarray(ranges.maximum - ranges.minimum, "f4") for ranges in (weights, inputs)
            ]
            ratios = spans[0] / spans[1]
            if self.strength == STRENGTH:
                scales = np.sqrt(ratios)
            else:
                scales = np.power(ratios.astype("f8"), self.strength).astype("f4")
            if self.power_of_two:
                scales = nearest_powers_of_two(scales)
            is_usable = np.isfinite(scales) & (scales > 0) & np.isfinite(np.float32(1) / scales)
        scales = np.where(is_usable, scales, np.float32(1)).astype("f4")
        if (np.abs(scales - np.float32(1)) <= _IS_EQUAL).all():
            return np.ones_like(scales)
        return scales


def nearest_powers_of_two(numbers: NDArray[np.float32]) -> NDArray[np.float32]:
    """The power of two nearest to each positive number, by its logarithm; others are unchanged."""
    mantissas, exponents = np.frexp(numbers)
    is_above = mantissas > np.float32(math.sqrt(0.5))
    powers = np.ldexp(np.ones_like(numbers), exponents - np.where(is_above, 0, 1))
    return np.where(np.isfinite(numbers) & (numbers > 0), powers, numbers).astype("f4")


def scaled(
    numbers: NDArray[Any], factors: NDArray[np.float32], *, is_divided: bool = False
) -> NDArray[Any]:
    """
    Numbers times factors, in the precision of the numbers, which is at least float32.

    Division multiplies by the reciprocal, as in torch.
    """
    wide = numbers if numbers.dtype == np.float64 else numbers.astype("f4", copy=False)
    with np.errstate(all="ignore"):
        if is_divided:
            return wide * (wide.dtype.type(1) / factors.astype(wide.dtype))
        return wide * factors.astype(wide.dtype)
