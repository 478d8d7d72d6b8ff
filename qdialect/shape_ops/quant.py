"""
The constant and the casts of the quant dialect. Its shape ops have movements of their own.

https://mlir.llvm.org/docs/Dialects/QuantDialect/.
"""

from __future__ import annotations

from qdialect.shape_ops.along_axis import register_along_axis
from qdialect.shape_ops.biases import scales_along_axis
from qdialect.shape_ops.interface import register_cast, register_constant
from qdialect.shape_ops.models import CastReads
from qdialect.shape_ops.statistics import register_statistics

register_constant("quant.constant", "value")
register_cast("quant.dcast", CastReads.NUMBERS)
register_cast("quant.qcast", CastReads.CODES)
register_cast("quant.scast", CastReads.BITS)
register_cast("quant.requantize", CastReads.CODES)
register_cast("quant.dequantize_bias", CastReads.CONVERTED)
register_along_axis("quant.dequantize_bias", scales_along_axis)
register_statistics("quant.stats")
