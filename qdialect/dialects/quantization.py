"""
The casts of TensorFlow's quantization dialect, which equal those of quant.

https://github.com/tensorflow/tensorflow, `quantization.td`.
"""

from __future__ import annotations

from qdialect.dialects.quant.models import CASTS
from qdialect.ops.model import OpModels

MODELS = OpModels("quantization", CASTS)
