"""The ops of affine that run regions: https://mlir.llvm.org/docs/Dialects/Affine/."""

from __future__ import annotations

from qdialect.ops.model import Effects, OpModel, OpModels

MODELS = OpModels("affine", {"for if yield": OpModel(is_control=True, effects=Effects.NONE)})
