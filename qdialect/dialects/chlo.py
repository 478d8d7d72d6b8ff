"""The ops of CHLO: https://openxla.org/stablehlo/generated/chlo."""

from __future__ import annotations

from functools import partial

from qdialect.dialects import FUNCTIONS
from qdialect.ops.fields import own, shared
from qdialect.ops.model import Bits, Effects, OnElements, OpModel, OpModels
from qdialect.text.syntax import DialectSyntax

_pure = partial(OpModel, effects=Effects.NONE)
_exact = partial(_pure, bits=Bits.EXACT)
_rounded = partial(_pure, bits=Bits.ROUNDED)

_FLOATS = "acos acosh asin asinh atan atanh cosh erf erfc sinh square tan"

MODELS = OpModels(
    "chlo",
    {
        **{
            name: _rounded(rule=own(0), run=OnElements(FUNCTIONS[name])) for name in _FLOATS.split()
        },
        "is_inf": _exact(rule=own(0), run=OnElements("numpy:isinf")),
        "is_neg_inf": _exact(rule=own(0), run=OnElements("numpy:isneginf")),
        "is_pos_inf": _exact(rule=own(0), run=OnElements("numpy:isposinf")),
        "top_k": _exact(rule=shared(0), run="qdialect.dialects.arrays.places:top_k"),
        "_asin_acos_kernel bessel_i1e digamma erf_inv lgamma": _pure(rule=own(0)),
        "broadcast_next_after broadcast_polygamma broadcast_zeta": _pure(rule=own(0, 1)),
        "next_after polygamma zeta": _pure(rule=own(0, 1)),
        "broadcast_add": _pure(rule=own(0, 1, function="add")),
        "broadcast_atan2": _pure(rule=own(0, 1, function="atan2")),
        "broadcast_compare": _pure(rule=own(0, 1, function="compare")),
        "broadcast_divide": _pure(rule=own(0, 1, function="div")),
        "broadcast_maximum": _pure(rule=own(0, 1, function="max")),
        "broadcast_minimum": _pure(rule=own(0, 1, function="min")),
        "broadcast_multiply": _pure(rule=own(0, 1, function="mul")),
        "broadcast_power": _pure(rule=own(0, 1, function="pow")),
        "broadcast_remainder": _pure(rule=own(0, 1, function="rem")),
        "broadcast_subtract": _pure(rule=own(0, 1, function="sub")),
        "broadcast_select": _pure(rule=shared(1, 2, function="select")),
        "constant": _exact(constant="value"),
        "broadcast_complex conj": _pure(stays_float="it has complex numbers"),
        "broadcast_and broadcast_or broadcast_xor broadcast_shift_left": _pure(),
        "broadcast_shift_right_arithmetic broadcast_shift_right_logical": _pure(),
        "constant_like": _pure(stays_float="it reads no number of its operand"),
        "ragged_dot": _pure(stays_float="its groups are known at run time only"),
        "scan": OpModel(stays_float="it is a loop"),
    },
)

SYNTAX = DialectSyntax(
    dialect="chlo",
    forms={
        "constant constant_like dynamic_reshape minimum_broadcast_shapes ragged_dot scan": "",
        "_asin_acos_kernel acos acosh asin asinh atan atanh bessel_i1e conj cosh digamma erf "
        "erf_inv erfc is_inf is_neg_inf is_pos_inf lgamma sinh square tan": "$operand attr-dict : "
        "type(operand) -> type(result)",
        "next_after polygamma zeta": "$lhs , $rhs attr-dict : type(operands) -> type(result)",
        "broadcast_add broadcast_and broadcast_atan2 broadcast_compare broadcast_complex "
        "broadcast_divide broadcast_maximum broadcast_minimum broadcast_multiply "
        "broadcast_next_after broadcast_or broadcast_polygamma broadcast_power "
        "broadcast_remainder broadcast_select broadcast_shift_left "
        "broadcast_shift_right_arithmetic broadcast_shift_right_logical broadcast_subtract "
        "broadcast_xor broadcast_zeta": "$inputs* "
        "attr-dict(broadcast_dimensions,comparison_direction,compare_type) : functional-type",
        "top_k": "( $operand , k = $k:integer(i64) ) attr-dict : type(operand) -> ( type(values) "
        ", type(indices) )",
    },
    opaque="comparison_direction comparison_type precision ragged_dot",
    prints=True,
)
