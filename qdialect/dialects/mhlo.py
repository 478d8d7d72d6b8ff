"""
The ops of MHLO, StableHLO's predecessor: the same ops with another prefix.

https://github.com/tensorflow/mlir-hlo. A gather has dimension numbers of another form.
"""

from __future__ import annotations

from qdialect.dialects.stablehlo.models import MODELS as STABLEHLO
from qdialect.ops.model import OpModel, OpModels
from qdialect.text.syntax import DialectSyntax

_SAME = (
    "add broadcast_in_dim concatenate constant convert dynamic_broadcast_in_dim dynamic_pad "
    "dynamic_reshape dynamic_slice dynamic_update_slice multiply pad real_dynamic_slice reshape "
    "reverse slice subtract transpose uniform_dequantize uniform_quantize"
)

# Of the others, only the effects are the same: they may have attributes of another form.
_OTHERS = {
    name.partition(".")[2]: OpModel(effects=model.effects, yields=model.yields)
    for name, model in STABLEHLO.by_name.items()
}

MODELS = OpModels(
    "mhlo",
    _OTHERS | {name: STABLEHLO.by_name[f"stablehlo.{name}"] for name in _SAME.split()},
    STABLEHLO.traits,
)

SYNTAX = DialectSyntax(
    dialect="mhlo",
    forms={
        "abs cbrt ceil cosine erf exponential exponential_minus_one floor log log_plus_one "
        "logistic negate not popcnt round_nearest_afz round_nearest_even rsqrt sign sine sqrt tan "
        "tanh convert": "$operand attr-dict : same-type",
        "add and atan2 divide maximum minimum multiply or power remainder shift_left "
        "shift_right_arithmetic shift_right_logical subtract xor": "$lhs , $rhs attr-dict : "
        "same-type",
        "constant": "attr-dict $value:any ->output=type_of(value)",
        "return": "$results* attr-dict : type(results)",
    },
    is_unregistered=True,
)
