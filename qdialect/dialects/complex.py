"""The forms of complex: https://mlir.llvm.org/docs/Dialects/ComplexOps/."""

from __future__ import annotations

from qdialect.text.syntax import DialectSyntax

SYNTAX = DialectSyntax(
    dialect="complex",
    forms={
        "powi": "$lhs=result , $rhs <? fastmath $fastmath:flags ?> attr-dict : type(result) , "
        "type(rhs)",
    },
)
