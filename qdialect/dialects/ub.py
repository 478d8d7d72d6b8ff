"""What is known of the ops of undefined behaviour: https://mlir.llvm.org/docs/Dialects/UBOps/."""

from __future__ import annotations

from qdialect.ops.model import OpModel, OpModels

MODELS = OpModels("ub", {"poison": OpModel(is_undefined=True)})
