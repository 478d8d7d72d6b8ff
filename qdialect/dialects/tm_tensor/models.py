"""The ops of torch-mlir's TMTensor."""

from __future__ import annotations

from qdialect.ops.model import Bits, OpModel, OpModels


def _run(function: str) -> str:
    return f"qdialect.dialects.tm_tensor.runs:{function}"


MODELS = OpModels(
    "tm_tensor",
    {
        "scan": OpModel(bits=Bits.ROUNDED, run=_run("scan")),
        "scatter": OpModel(bits=Bits.ROUNDED, run=_run("scatter")),
        "sort": OpModel(bits=Bits.EXACT, run=_run("sort")),
        "yield": OpModel(bits=Bits.EXACT, yields=True),
    },
)
