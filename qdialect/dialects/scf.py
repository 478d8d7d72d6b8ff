"""The ops of scf that run regions: https://mlir.llvm.org/docs/Dialects/SCFDialect/."""

from __future__ import annotations

from qdialect.ops.model import OpModel, OpModels

MODELS = OpModels(
    "scf",
    {
        "execute_region for if while": OpModel(
            has_blocks=True, stays_float="it runs regions, in which ops are quantized"
        ),
    },
)
