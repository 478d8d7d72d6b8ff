"""The ops of index, which xDSL lacks: https://mlir.llvm.org/docs/Dialects/IndexOps/."""

from __future__ import annotations

from qdialect.ops.model import Effects, OpModel, OpModels
from qdialect.text.syntax import DialectSyntax

MODELS = OpModels(
    "index",
    {
        "add and bool.constant casts castu cmp constant maxs maxu mins minu mul or shl shrs shru "
        "sizeof sub xor": OpModel(effects=Effects.NONE),
        # Of zero, they are undefined.
        "ceildivs ceildivu divs divu floordivs rems remu": OpModel(effects=Effects.UNDEFINED),
    },
)

SYNTAX = DialectSyntax(
    dialect="index",
    forms={
        "add and ceildivs ceildivu divs divu floordivs maxs maxu mins minu mul or rems remu shl "
        "shrs shru sub xor": "$lhs=index , $rhs=index attr-dict ->result=index",
        "bool.constant": "attr-dict $value:bool ->result=i1",
        "casts castu": "$input attr-dict : type(input) to type(output)",
        "cmp": "$pred:keyword(index/cmp_predicate) ( $lhs=index , $rhs=index ) attr-dict "
        "->result=i1",
        "constant": "attr-dict $value:integer(index) ->result=index",
        "sizeof": "attr-dict ->result=index",
    },
    opaque="cmp_predicate",
)
