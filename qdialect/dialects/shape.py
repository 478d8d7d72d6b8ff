"""The ops of shape: https://mlir.llvm.org/docs/Dialects/ShapeDialect/."""

from __future__ import annotations

from qdialect.ops.model import OpModel, OpModels

MODELS = OpModels(
    "shape",
    {
        "shape_of": OpModel(reads_lengths=True),
    },
)
