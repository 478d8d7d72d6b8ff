"""Calls of functions, and forms: https://mlir.llvm.org/docs/Dialects/Func/."""

from __future__ import annotations

from qdialect.ops.model import Effects, OpModel, OpModels
from qdialect.text.syntax import DialectSyntax

CONSTANT = "func.constant"
"""The name of the op that refers to a function."""

_CALL = "it runs a function, in which ops are quantized"

MODELS = OpModels(
    "func",
    {
        # Its effects are those of the function.
        "call": OpModel(is_control=True, stays_float=_CALL),
        "call_indirect": OpModel(stays_float=_CALL),
        "return": OpModel(is_control=True, effects=Effects.NONE),
    },
)

SYNTAX = DialectSyntax(
    dialect="func",
    forms={
        "constant": "attr-dict $value:any : type(result)",
        "call_indirect": "$callee ( $callee_operands*=inputs(callee) ) attr-dict : type(callee) "
        "->results*=outputs(callee)",
    },
    functions="func",
)
