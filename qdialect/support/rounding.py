"""The rounding of numbers to storage integers."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from qdialect.support.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Rounding(Enum):
    """How quantization rounds a quotient to a storage integer."""

    UPSTREAM = "upstream"
    """Truncate toward zero, as MLIR lowers `quant.qcast`."""

    NEAREST_EVEN = "nearest-even"
    """Round to the nearest integer, ties to even: the semantics of `quant.qcast` here."""

    NEAREST_AWAY = "nearest-away"
    """Round to the nearest integer, ties away from zero."""

    def round(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """The whole numbers that `numbers` are rounded to. NaN and infinities stay."""
        match self:
            case Rounding.UPSTREAM:
                return np.trunc(numbers)
            case Rounding.NEAREST_EVEN:
                return np.rint(numbers)
            case Rounding.NEAREST_AWAY:
                return rounded_half_away(numbers)


def rounded_half_away(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """The nearest whole number, halves away from zero."""
    with np.errstate(invalid="ignore"):
        whole = np.trunc(numbers)
        # Exact: the difference of a number and its whole part is one.
        away = np.abs(numbers - whole) >= 0.5
        return np.copysign(np.where(away, whole + np.sign(numbers), whole), numbers)
