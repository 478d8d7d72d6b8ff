"""The forms of func: https://mlir.llvm.org/docs/Dialects/Func/."""

from __future__ import annotations

from qdialect.text.syntax import DialectSyntax

SYNTAX = DialectSyntax(
    dialect="func",
    forms={
        "constant": "attr-dict $value:any : type(result)",
        "call_indirect": "$callee ( $callee_operands*=inputs(callee) ) attr-dict : type(callee) "
        "->results*=outputs(callee)",
    },
    functions="func",
)
