"""The forms of complex: https://mlir.llvm.org/docs/Dialects/ComplexOps/."""

from __future__ import annotations

from typing import Final

from qdialect.text.syntax import DialectSyntax, Form

_FLAGS: Final = "<? fastmath $fastmath ?>"

SYNTAX = DialectSyntax(
    dialect="complex",
    forms=(
        Form(
            "powi",
            "lhs=result rhs fastmath:flags -> result",
            f"$lhs , $rhs {_FLAGS} attr-dict : type(result) , type(rhs)",
        ),
    ),
)
