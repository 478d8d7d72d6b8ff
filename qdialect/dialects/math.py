"""The ops of math: https://mlir.llvm.org/docs/Dialects/MathOps/."""

from __future__ import annotations

from functools import partial

from qdialect.dialects import FUNCTIONS, scalar
from qdialect.ops.fields import fixed, own, whole_number
from qdialect.ops.model import Bits, OnNumbers, OpModel, OpModels
from qdialect.text.syntax import DialectSyntax

_exact = partial(OpModel, bits=Bits.EXACT)
_rounded = partial(OpModel, bits=Bits.ROUNDED)


_WHOLE = "ceil floor round roundeven trunc"
_FLOATS = (
    "acos acosh asin asinh atan atan2 atanh cbrt cos cosh erf exp exp2 expm1 log log10 log1p log2 "
    "rsqrt sin sinh tan"
)
"""Functions of floats whose results are not defined to the last bit."""

MODELS = OpModels(
    "math",
    {
        "absi": _exact(run=OnNumbers("numpy:abs")),
        "ctlz ctpop cttz": _exact(),
        "absf": _exact(rule=own(function="abs"), run=OnNumbers("numpy:abs")),
        "copysign": _exact(rule=own(), run=OnNumbers("numpy:copysign")),
        "sqrt": _exact(rule=own(), run=OnNumbers("numpy:sqrt")),
        **{
            name: _exact(rule=whole_number(), run=OnNumbers(FUNCTIONS[name]))
            for name in _WHOLE.split()
        },
        **{name: _rounded(rule=own(), run=OnNumbers(FUNCTIONS[name])) for name in _FLOATS.split()},
        # Runs round the product as well.
        "fma": _rounded(rule=own(), run=OnNumbers(scalar("multiply_add"))),
        "powf": _rounded(rule=own(function="pow"), run=OnNumbers(scalar("power"))),
        "fpowi": _rounded(rule=own(0, 1, function="pow"), run=OnNumbers(scalar("power"))),
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
