"""The forms of ml_program: https://mlir.llvm.org/docs/Dialects/MLProgramOps/."""

from __future__ import annotations

from typing import Final

from qdialect.text.syntax import DialectSyntax, Form

_YIELD: Final = ("operands*", "attr-dict <? $operands : type(operands) ?>")

SYNTAX = DialectSyntax(
    dialect="ml_program",
    forms=(
        Form("func subgraph", "{body}", "function", traits="isolated symbol"),
        Form(
            "global_load global_load_const",
            "global:any -> result",
            "$global : type(result) attr-dict",
        ),
        Form(
            "global_load_graph",
            "global:any consumeTokens*=!ml_program.token -> result produceToken=!ml_program.token",
            "$global ordering ( <? ( ) ?> <? $consumeTokens ?> <? -> type(produceToken) ?> ) : "
            "type(result) attr-dict",
        ),
        Form("global_store", "global:any value", "$global = $value : type(value) attr-dict"),
        Form(
            "global_store_graph",
            "global:any value consumeTokens*=!ml_program.token -> produceToken=!ml_program.token",
            "$global = $value ordering ( <? ( ) ?> <? $consumeTokens ?> "
            "<? -> type(produceToken) ?> ) : type(value) attr-dict",
        ),
        Form("output return", *_YIELD, traits="terminator"),
        Form("token", "-> token=!ml_program.token", "attr-dict"),
    ),
    replaced={"global_load_const": ("global_attr", "global")},
    opaque="extern token",
)
