"""The ops of torch-mlir's TMTensor."""

from __future__ import annotations

from qdialect.ops.model import Bits, OpModel, OpModels

MODELS = OpModels(
    "tm_tensor",
    {
        "sort": OpModel(bits=Bits.EXACT),
        "yield": OpModel(bits=Bits.EXACT, yields=True),
    },
)
