"""The ops of index, which xDSL lacks: https://mlir.llvm.org/docs/Dialects/IndexOps/."""

from __future__ import annotations

from typing import Final

from qdialect.ops.model import Effects, OpModel, OpModels
from qdialect.text.syntax import DialectSyntax, Form

MODELS = OpModels(
    "index",
    {
        "add and bool.constant casts castu cmp constant maxs maxu mins minu mul or shl shrs shru "
        "sizeof sub xor": OpModel(effects=Effects.NONE),
        # Of zero, they are undefined.
        "ceildivs ceildivu divs divu floordivs rems remu": OpModel(effects=Effects.UNDEFINED),
    },
)

_PREDICATE: Final = "keyword(index/cmp_predicate)"

SYNTAX = DialectSyntax(
    dialect="index",
    forms=(
        Form(
            "add and ceildivs ceildivu divs divu floordivs maxs maxu mins minu mul or rems "
            "remu shl shrs shru sub xor",
            "lhs=index rhs=index -> result=index",
            "$lhs , $rhs attr-dict",
        ),
        Form("bool.constant", "value:bool -> result=i1", "attr-dict $value"),
        Form("casts castu", "input -> output", "$input attr-dict : type(input) to type(output)"),
        Form(
            "cmp",
            f"pred:{_PREDICATE} lhs=index rhs=index -> result=i1",
            "$pred ( $lhs , $rhs ) attr-dict",
        ),
        Form("constant", "value:integer(index) -> result=index", "attr-dict $value"),
        Form("sizeof", "-> result=index", "attr-dict"),
    ),
    opaque="cmp_predicate",
)
