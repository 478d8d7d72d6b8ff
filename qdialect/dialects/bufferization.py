"""The ops of bufferization: https://mlir.llvm.org/docs/Dialects/BufferizationOps/."""

from __future__ import annotations

from qdialect.ops.model import OpModel, OpModels
from qdialect.text.syntax import DialectSyntax

MODELS = OpModels("bufferization", {"alloc_tensor": OpModel(is_undefined=True)})

SYNTAX = DialectSyntax(
    dialect="bufferization",
    forms={
        "dealloc": "<? ( $memrefs* : type(memrefs) ) if ( $conditions*=i1 ) ?> <? retain ( "
        "$retained* : type(retained) ) ?> attr-dict ->updatedConditions*=booleans_for(retained)",
        "dealloc_tensor": "$tensor attr-dict : type(tensor)",
    },
)
