"""The ops of math on tensors of floats: https://mlir.llvm.org/docs/Dialects/MathOps/."""

from __future__ import annotations

from qdialect.relations.interface import Relation, register_relations

register_relations(
    "math",
    "absf=abs acos acosh asin asinh atan atan2 atanh cbrt copysign cos cosh erf erfc exp exp2 "
    "expm1 fma log log10 log1p log2 powf=pow rsqrt sin sincos sinh sqrt tan",
    Relation.OWN,
)
register_relations("math", "clampf=clamp fpowi=pow", Relation.OWN, (0,))
register_relations("math", "isfinite isinf isnan isnormal", Relation.OWN, (0,))
register_relations("math", "tanh", Relation.FIXED, fixed="tanh")
register_relations("math", "ceil floor round roundeven trunc", Relation.WHOLE_NUMBER)
