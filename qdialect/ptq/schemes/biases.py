"""
Parameters of biases, derived from those of the input and the weight.

An accumulator has the scale `input scale * weight scale`, so a bias that is added to it must have
the same scale.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from qdialect.algebra.parameters import StorageFormat
from qdialect.ptq.schemes.schemes import (
    MAX_STORAGE_WIDTH,
    Rounding,
    ValueArithmetic,
    ZeroPointPlace,
    code_range,
)
from qdialect.support.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class QuantizedBias:
    """A quantized bias, with zero points of zero."""

    codes: NDArray[Any]
    """int32 or int64, of the shape of the bias."""
    scales: NDArray[np.float32]
    """float32: one per element, or a single one."""
    saturated: int
    """The number of elements that were clamped to the lowest or highest code."""


BIAS_RULES: Mapping[str, ValueArithmetic] = MappingProxyType(
    {
        "one": ValueArithmetic(Rounding.HALF_AWAY, ZeroPointPlace.AFTER_ROUNDING, multiplies=True),
        "tico": ValueArithmetic(
            Rounding.HALF_EVEN, ZeroPointPlace.AFTER_ROUNDING, multiplies=False
        ),
    }
)
"""
By name: the arithmetic of biases whose scale is the product.

luci: `QuantizeBias.cpp` of https://github.com/Samsung/ONE; tico: `quantize_bias.py` of
https://github.com/Samsung/TICO.
"""


def bias_in_steps(
    numbers: NDArray[Any], scales: NDArray[Any], arithmetic: ValueArithmetic, storage: StorageFormat
) -> QuantizedBias:
    """
    Quantize a float32 bias with `scales`, positive float32 that broadcast to its shape.

    Elements out of range of `storage` are saturated and counted. Raises ValueError for NaN.
    """
    with np.errstate(all="ignore"):
        if arithmetic.multiplies:
            quotients = numbers * (1 / scales.astype("f8")).astype("f4")
        else:
            quotients = numbers / scales
        rounded = arithmetic.rounding.round(quotients).astype("f8")
    if np.isnan(rounded).any():
        raise ValueError("an element of the bias is NaN, which has no code")
    low, high = code_range(storage)
    # The highest i64 is not representable as float64, but the next integer is.
    too_high, too_low = rounded >= float(high + 1), rounded < low
    fitting = np.where(too_high | too_low, 0, rounded).astype(np.int64)
    codes = np.where(too_high, high, np.where(too_low, low, fitting))
    dtype = np.int32 if storage.width <= MAX_STORAGE_WIDTH else np.int64
    return QuantizedBias(codes.astype(dtype), scales, int(np.count_nonzero(too_high | too_low)))
