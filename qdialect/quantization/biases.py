"""
Parameters of biases, derived from those of the input and the weight.

An accumulator has the scale `input scale * weight scale`, so a bias that is added to it must have
the same scale.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from qdialect.algebra.arguments import array_of
from qdialect.algebra.lazy_numpy import np
from qdialect.algebra.parameters import StorageFormat
from qdialect.quantization.schemes import (
    MAX_STORAGE_WIDTH,
    Rounding,
    Scheme,
    ValueArithmetic,
    ZeroPointPlace,
    code_range,
)

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


def quantize_bias(
    bias: object,
    input_scale: float,
    weight_scales: object,
    arithmetic: ValueArithmetic,
    storage: StorageFormat,
) -> QuantizedBias:
    """
    Quantize `bias` with the scales `input_scale * weight_scales`, float32 products.

    `bias` is float32, with one element for each of `weight_scales`, or there is one scale for
    all. `storage` is i32, or i64 for inputs of 16 bits, which no type of MLIR's quant dialect
    has. Elements out of range are saturated and counted. A zero element may have a scale of zero:
    it gets code 0 and scale 1. Raises ValueError for any other element without a positive finite
    scale, for NaN, and for shapes that do not match.
    """
    numbers, scales = _bias_and_scales(bias, input_scale, weight_scales)
    is_nothing = (scales == 0) & (numbers == 0)
    scales = np.where(is_nothing, np.ones((), "f4"), scales) if is_nothing.any() else scales
    _check_scales(scales)
    return bias_in_steps(numbers, scales, arithmetic, storage)


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


def _bias_and_scales(
    bias: object, input_scale: float, weight_scales: object
) -> tuple[NDArray[Any], NDArray[Any]]:
    numbers = array_of("bias", bias).astype("f4")
    weights = array_of("weight_scales", weight_scales).astype("f4")
    if weights.size not in (1, numbers.size):
        raise ValueError(f"{weights.size} weight scales do not match {numbers.size} biases")
    weights = weights.reshape(numbers.shape if weights.size == numbers.size else ())
    with np.errstate(all="ignore"):
        return numbers, np.asarray(np.float32(input_scale) * weights)


def _check_scales(scales: NDArray[Any]) -> None:
    is_bad = ~((scales > 0) & np.isfinite(scales))
    if is_bad.any():
        scale = scales[is_bad].flat[0]
        raise ValueError(f"the product of input and weight scale is {scale} in float32")


@dataclass(frozen=True, eq=False)
class GlowBias:
    """A bias as Glow quantizes it, and the scales that its weight must have."""

    bias: QuantizedBias
    weight_scales: NDArray[np.float32]
    """The scales of the weight; some may have been raised."""


def glow_bias(
    bias: object,
    input_scale: float,
    weight_scales: object,
    scheme: Scheme,
    *,
    raises_weights: bool = False,
) -> GlowBias:
    """
    An i32 bias with scales large enough not to saturate: those of the products, or larger.

    `bias` is float32. With several `weight_scales` there is one for each element, whose range is
    the element alone; with one, the range is that of all elements. The scale is the product, or the
    scale that `scheme`, one of Glow's, chooses for that range, whichever is larger. With
    `raises_weights`, the weight's scale is raised instead, so that the product is large enough, as
    in Glow's channel-wise convolutions. Raises as `quantize_bias` does.

    `specializeBiasQuantizationParams` and `specializeBiasWeightsQuantizationParams` in
    `lib/Quantization/Base/Base.cpp` of https://github.com/pytorch/glow.
    """
    numbers, products = _bias_and_scales(bias, input_scale, weight_scales)
    low, high = (numbers, numbers) if products.ndim else (numbers.min(), numbers.max())
    own = bias_range_scheme(scheme).choose(low, high).scales
    is_larger = (own > products) & ~((low == 0) & (high == 0))
    weights = array_of("weight_scales", weight_scales).astype("f4").reshape(products.shape)
    if raises_weights:
        weights = np.where(is_larger, own / np.float32(input_scale), weights)
        scales = np.asarray(np.float32(input_scale) * weights)
    else:
        scales = np.where(is_larger, own, products)
    _check_scales(scales)
    quantized = bias_in_steps(numbers, scales, scheme.values, StorageFormat(32, signed=True))
    return GlowBias(quantized, weights)


def bias_range_scheme(scheme: Scheme) -> Scheme:
    """
    The scheme that chooses the scale of an i32 bias: a quarter of the codes, around zero.

    Glow uses it so that differences of codes fit 32 bits.
    """
    storage = StorageFormat(32, signed=True)
    low, high = code_range(storage)
    return replace(scheme, storage=storage, minimum=low >> 2, maximum=high >> 2)
