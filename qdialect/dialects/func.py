"""Calls of functions: https://mlir.llvm.org/docs/Dialects/Func/."""

from __future__ import annotations

from qdialect.ops.model import OpModel, OpModels

MODELS = OpModels(
    "func",
    {
        "call call_indirect": OpModel(stays_float="it runs a function, in which ops are quantized"),
    },
)
