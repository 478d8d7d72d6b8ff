"""
The constant and the casts of the quant dialect. Its shape ops have movements of their own.

https://mlir.llvm.org/docs/Dialects/QuantDialect/.
"""

from __future__ import annotations

from qdialect.ops.along_axis import STATISTICS, scales_along_axis
from qdialect.ops.fields import CastReads
from qdialect.ops.model import OpModel, OpModels

CASTS = {
    "dcast": OpModel(cast=CastReads.NUMBERS),
    "qcast": OpModel(cast=CastReads.CODES),
    "scast": OpModel(cast=CastReads.BITS),
    "stats": STATISTICS,
}
"""The ops that TensorFlow's dialects have as well."""

MODELS = OpModels(
    "quant",
    {
        **CASTS,
        "constant": OpModel(constant="value"),
        "requantize": OpModel(cast=CastReads.CODES),
        "dequantize_bias": OpModel(cast=CastReads.CONVERTED, along_axis=scales_along_axis),
    },
)
