"""The casts of TensorFlow's quantfork dialect, a former name of its quantization dialect."""

from __future__ import annotations

from qdialect.shape_ops.interface import register_cast
from qdialect.shape_ops.models import CastReads
from qdialect.shape_ops.statistics import register_statistics

register_cast("quantfork.dcast", CastReads.NUMBERS)
register_cast("quantfork.qcast", CastReads.CODES)
register_cast("quantfork.scast", CastReads.BITS)
register_statistics("quantfork.stats")
