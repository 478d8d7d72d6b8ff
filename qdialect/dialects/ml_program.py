"""The forms of ml_program: https://mlir.llvm.org/docs/Dialects/MLProgramOps/."""

from __future__ import annotations

from qdialect.text.syntax import DialectSyntax

SYNTAX = DialectSyntax(
    dialect="ml_program",
    forms={
        "func subgraph": "function",
        "global_load global_load_const": "$global:any : type(result) attr-dict",
        "global_load_graph": "$global:any ordering ( <? ( ) ?> <? "
        "$consumeTokens*=!ml_program.token ?> <? -> type(produceToken=!ml_program.token) ?> ) : "
        "type(result) attr-dict order(result,produceToken)",
        "global_store": "$global:any = $value : type(value) attr-dict",
        "global_store_graph": "$global:any = $value ordering ( <? ( ) ?> <? "
        "$consumeTokens*=!ml_program.token ?> <? -> type(produceToken=!ml_program.token) ?> ) : "
        "type(value) attr-dict",
        "output return": "attr-dict <? $operands* : type(operands) ?>",
        "token": "attr-dict ->token=!ml_program.token",
    },
    terminators="output return",
    replaced={"global_load_const": ("global_attr", "global")},
    opaque="extern token",
)
