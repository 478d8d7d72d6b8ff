"""The pass that replaces constant weights by what their quantization leaves of them."""

from __future__ import annotations

from dataclasses import dataclass

from qdialect.passes.quantize_weights import QuantizeWeightsPass


@dataclass(frozen=True)
class QuantizeDequantizeWeightsPass(QuantizeWeightsPass):
    """
    Replace the constant weights of layers by quantized and dequantized ones, which are floats.

    They are what `quantize-weights` with the same options has behind its casts.
    """

    name = "quantize-dequantize-weights"
    IS_DEQUANTIZED = True
