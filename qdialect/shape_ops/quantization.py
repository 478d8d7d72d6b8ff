"""
The casts of TensorFlow's quantization dialect, which equal those of quant.

https://github.com/tensorflow/tensorflow, `quantization.td`.
"""

from __future__ import annotations

from qdialect.shape_ops.interface import register_cast
from qdialect.shape_ops.models import CastReads
from qdialect.shape_ops.statistics import register_statistics

register_cast("quantization.dcast", CastReads.NUMBERS)
register_cast("quantization.qcast", CastReads.CODES)
register_cast("quantization.scast", CastReads.BITS)
register_statistics("quantization.stats")
