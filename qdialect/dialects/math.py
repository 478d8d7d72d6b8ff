"""The ops of math: https://mlir.llvm.org/docs/Dialects/MathOps/."""

from __future__ import annotations

from functools import partial

from qdialect.ops.fields import fixed, own, whole_number
from qdialect.ops.model import Bits, OnNumbers, OpModel, OpModels
from qdialect.text.syntax import DialectSyntax

_exact = partial(OpModel, bits=Bits.EXACT)
_rounded = partial(OpModel, bits=Bits.ROUNDED)


def _scalar(function: str) -> OnNumbers:
    return OnNumbers(f"qdialect.dialects.arrays.scalar_functions:{function}")


_WHOLE = {
    "ceil": OnNumbers("numpy:ceil"),
    "floor": OnNumbers("numpy:floor"),
    "round": OnNumbers("qdialect.support.float_format:rounded_half_away"),
    "roundeven": OnNumbers("numpy:rint"),
    "trunc": OnNumbers("numpy:trunc"),
}
_FLOATS = {
    "acos": OnNumbers("numpy:arccos"),
    "acosh": OnNumbers("numpy:arccosh"),
    "asin": OnNumbers("numpy:arcsin"),
    "asinh": OnNumbers("numpy:arcsinh"),
    "atan": OnNumbers("numpy:arctan"),
    "atan2": OnNumbers("numpy:arctan2"),
    "atanh": OnNumbers("numpy:arctanh"),
    "cbrt": OnNumbers("numpy:cbrt"),
    "cos": OnNumbers("numpy:cos"),
    "cosh": OnNumbers("numpy:cosh"),
    "erf": _scalar("erf"),
    "exp": OnNumbers("numpy:exp"),
    "exp2": OnNumbers("numpy:exp2"),
    "expm1": OnNumbers("numpy:expm1"),
    # Runs round the product as well.
    "fma": _scalar("multiply_add"),
    "log": OnNumbers("numpy:log"),
    "log10": OnNumbers("numpy:log10"),
    "log1p": OnNumbers("numpy:log1p"),
    "log2": OnNumbers("numpy:log2"),
    "rsqrt": _scalar("reciprocal_root"),
    "sin": OnNumbers("numpy:sin"),
    "sinh": OnNumbers("numpy:sinh"),
    "tan": OnNumbers("numpy:tan"),
}
"""Functions of floats whose results are not defined to the last bit."""

MODELS = OpModels(
    "math",
    {
        "absi": _exact(run=OnNumbers("numpy:abs")),
        "ctlz ctpop cttz": _exact(),
        "absf": _exact(rule=own(function="abs"), run=OnNumbers("numpy:abs")),
        "copysign": _exact(rule=own(), run=OnNumbers("numpy:copysign")),
        "sqrt": _exact(rule=own(), run=OnNumbers("numpy:sqrt")),
        **{name: _exact(rule=whole_number(), run=run) for name, run in _WHOLE.items()},
        **{name: _rounded(rule=own(), run=run) for name, run in _FLOATS.items()},
        "powf": _rounded(rule=own(function="pow"), run=_scalar("power")),
        "fpowi": _rounded(rule=own(0, 1, function="pow"), run=_scalar("power")),
        "tanh": _rounded(rule=fixed("tanh"), run=OnNumbers("numpy:tanh")),
        "erfc sincos": OpModel(rule=own()),
        "clampf": OpModel(rule=own(0, function="clamp")),
        "isfinite isinf isnan isnormal": OpModel(rule=own(0)),
    },
)

SYNTAX = DialectSyntax(
    dialect="math",
    forms={
        "clampf": "$value=result to [ $min=result , $max=result ] <? fastmath $fastmath:flags ?> "
        "attr-dict : type(result)",
        "erfc": "$operand=result <? fastmath $fastmath:flags ?> attr-dict : type(result)",
        "isfinite isinf isnan isnormal": "$operand attr-dict(fastmath:flags) : type(operand) "
        "->result=booleans(operand)",
        "sincos": "$operand <? fastmath $fastmath:flags ?> attr-dict : type(operand) "
        "->sin=operand ->cos=operand",
    },
)
