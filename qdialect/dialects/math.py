"""The ops of math: https://mlir.llvm.org/docs/Dialects/MathOps/."""

from __future__ import annotations

from functools import partial

from qdialect.ops.model import Bits, OpModel, OpModels
from qdialect.ops.rules import fixed, own, whole_number

_exact = partial(OpModel, bits=Bits.EXACT)
_rounded = partial(OpModel, bits=Bits.ROUNDED)

MODELS = OpModels(
    "math",
    {
        "absi ctlz ctpop cttz": _exact(),
        "absf": _exact(rule=own(function="abs")),
        "copysign sqrt": _exact(rule=own()),
        "ceil floor round roundeven trunc": _exact(rule=whole_number()),
        "acos acosh asin asinh atan atan2 atanh cbrt cos cosh erf exp exp2": _rounded(rule=own()),
        "expm1 log log10 log1p log2 rsqrt sin sinh tan": _rounded(rule=own()),
        # Runs round the product as well.
        "fma": _rounded(rule=own()),
        "powf": _rounded(rule=own(function="pow")),
        "fpowi": _rounded(rule=own(0, function="pow")),
        "tanh": _rounded(rule=fixed("tanh")),
        "erfc sincos": OpModel(rule=own()),
        "clampf": OpModel(rule=own(0, function="clamp")),
        "isfinite isinf isnan isnormal": OpModel(rule=own(0)),
    },
)
