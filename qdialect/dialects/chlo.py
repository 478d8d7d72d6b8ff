"""The ops of CHLO: https://openxla.org/stablehlo/generated/chlo."""

from __future__ import annotations

from functools import partial

from qdialect.ops.fields import own, shared
from qdialect.ops.model import Bits, OnElements, OpModel, OpModels

_exact = partial(OpModel, bits=Bits.EXACT)
_rounded = partial(OpModel, bits=Bits.ROUNDED)

_RUNS = {
    "acos": "numpy:arccos",
    "acosh": "numpy:arccosh",
    "asin": "numpy:arcsin",
    "asinh": "numpy:arcsinh",
    "atan": "numpy:arctan",
    "atanh": "numpy:arctanh",
    "cosh": "numpy:cosh",
    "erf": "qdialect.check.interpreters.scalar_functions:erf",
    "erfc": "qdialect.check.interpreters.scalar_functions:erfc",
    "sinh": "numpy:sinh",
    "square": "numpy:square",
    "tan": "numpy:tan",
}
"""Functions of floats."""

MODELS = OpModels(
    "chlo",
    {
        **{name: _rounded(rule=own(0), run=OnElements(run)) for name, run in _RUNS.items()},
        "is_inf": _exact(rule=own(0), run=OnElements("numpy:isinf")),
        "is_neg_inf": _exact(rule=own(0), run=OnElements("numpy:isneginf")),
        "is_pos_inf": _exact(rule=own(0), run=OnElements("numpy:isposinf")),
        "top_k": _exact(rule=shared(0), run="qdialect.check.interpreters.places:top_k"),
        "_asin_acos_kernel bessel_i1e digamma erf_inv lgamma": OpModel(rule=own(0)),
        "broadcast_next_after broadcast_polygamma broadcast_zeta": OpModel(rule=own(0, 1)),
        "next_after polygamma zeta": OpModel(rule=own(0, 1)),
        "broadcast_add": OpModel(rule=own(0, 1, function="add")),
        "broadcast_atan2": OpModel(rule=own(0, 1, function="atan2")),
        "broadcast_compare": OpModel(rule=own(0, 1, function="compare")),
        "broadcast_divide": OpModel(rule=own(0, 1, function="div")),
        "broadcast_maximum": OpModel(rule=own(0, 1, function="max")),
        "broadcast_minimum": OpModel(rule=own(0, 1, function="min")),
        "broadcast_multiply": OpModel(rule=own(0, 1, function="mul")),
        "broadcast_power": OpModel(rule=own(0, 1, function="pow")),
        "broadcast_remainder": OpModel(rule=own(0, 1, function="rem")),
        "broadcast_subtract": OpModel(rule=own(0, 1, function="sub")),
        "broadcast_select": OpModel(rule=shared(1, 2, function="select")),
        "constant": _exact(constant="value"),
        "broadcast_complex conj": OpModel(stays_float="it has complex numbers"),
        "constant_like": OpModel(stays_float="it reads no number of its operand"),
        "ragged_dot": OpModel(stays_float="its groups are known at run time only"),
        "scan": OpModel(stays_float="it is a loop"),
    },
)
