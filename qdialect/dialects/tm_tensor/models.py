"""The ops of torch-mlir's TMTensor."""

from __future__ import annotations

from functools import partial

from qdialect.dialects import run_in
from qdialect.ops.model import Bits, OpModel, OpModels

_run = partial(run_in, "tm_tensor")

MODELS = OpModels(
    "tm_tensor",
    {
        "scan": OpModel(bits=Bits.ROUNDED, run=_run("scan")),
        "scatter": OpModel(bits=Bits.ROUNDED, run=_run("scatter")),
        "sort": OpModel(bits=Bits.EXACT, run=_run("sort")),
        "yield": OpModel(bits=Bits.EXACT, yields=True),
    },
)
