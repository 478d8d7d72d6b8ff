"""The casts of TensorFlow's quantfork dialect, a former name of its quantization dialect."""

from __future__ import annotations

from qdialect.dialects.quant.models import CASTS
from qdialect.ops.model import OpModels

MODELS = OpModels("quantfork", CASTS)
