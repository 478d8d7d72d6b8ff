"""The forms of func: https://mlir.llvm.org/docs/Dialects/Func/."""

from __future__ import annotations

from qdialect.text.syntax import DialectSyntax, Form

SYNTAX = DialectSyntax(
    dialect="func",
    forms=(
        Form("constant", "value:any -> result", "attr-dict $value : type(result)"),
        Form(
            "call_indirect",
            "callee callee_operands*=inputs(callee) -> results*=outputs(callee)",
            "$callee ( $callee_operands ) attr-dict : type(callee)",
        ),
    ),
    functions="func",
)
