"""The pass that replaces constant weights by quantized and dequantized ones."""

from __future__ import annotations

from dataclasses import dataclass

from qdialect.ptq.passes.quantize_weights import QuantizeWeightsPass


@dataclass(frozen=True)
class QuantizeDequantizeWeightsPass(QuantizeWeightsPass):
    """
    Replace the constant weights of layers by quantized and dequantized ones, which are floats.

    They equal the results of the casts that `quantize-weights` inserts with the same options.

    Example: `qdialect-opt --quantize-dequantize-weights=scheme=one-u8 model.mlir`.
    """

    name = "quantize-dequantize-weights"
    IS_DEQUANTIZED = True
