"""The ops of bufferization: https://mlir.llvm.org/docs/Dialects/BufferizationOps/."""

from __future__ import annotations

from qdialect.ops.model import OpModel, OpModels
from qdialect.text.syntax import DialectSyntax, Form

MODELS = OpModels("bufferization", {"alloc_tensor": OpModel(is_undefined=True)})

SYNTAX = DialectSyntax(
    dialect="bufferization",
    forms=(
        Form(
            "dealloc",
            "memrefs* conditions*=i1 retained* -> updatedConditions*=booleans_for(retained)",
            "<? ( $memrefs : type(memrefs) ) if ( $conditions ) ?> "
            "<? retain ( $retained : type(retained) ) ?> attr-dict",
        ),
        Form("dealloc_tensor", "tensor", "$tensor attr-dict : type(tensor)"),
    ),
)
