"""Branches: https://mlir.llvm.org/docs/Dialects/ControlFlowDialect/."""

from __future__ import annotations

from qdialect.ops.model import Effects, OpModel, OpModels

MODELS = OpModels("cf", {"br cond_br switch": OpModel(is_control=True, effects=Effects.NONE)})
