"""The ops of TOSA that compute with floats: https://mlir.llvm.org/docs/Dialects/TOSA/."""

from __future__ import annotations

from xdsl.ir import Operation

from qdialect.relations.interface import (
    OpRelation,
    Relation,
    register_relations,
    relation,
)
from qdialect.shape_ops.interface import find_attribute, integer_of

register_relations(
    "tosa",
    "abs cos erf exp log negate=neg reciprocal rsqrt sin reduce_product=reduce argmax argmin cast",
    Relation.OWN,
    (0,),
)
register_relations(
    "tosa",
    "avg_pool2d avg_pool2d_adaptive",
    Relation.OWN,
    (0,),
    is_homogeneous=True,
    mixed_axes=(1, 2),
)
register_relations(
    "tosa",
    "add sub mul maximum=max minimum=min pow equal greater greater_equal",
    Relation.OWN,
    (0, 1),
)
register_relations(
    "tosa",
    "max_pool2d max_pool2d_adaptive",
    Relation.SHARED,
    (0,),
    is_homogeneous=True,
    mixed_axes=(1, 2),
)
register_relations("tosa", "identity gather slice tile", Relation.SHARED, (0,))
register_relations("tosa", "select", Relation.SHARED, (1, 2))
register_relations("tosa", "scatter", Relation.SHARED, (0, 2))
register_relations("tosa", "sigmoid=logistic", Relation.FIXED, (0,), fixed="logistic")
register_relations("tosa", "tanh", Relation.FIXED, (0,), fixed="tanh")
register_relations("tosa", "floor ceil", Relation.WHOLE_NUMBER, (0,))


@relation("tosa.clamp")
def _clamp(op: Operation) -> OpRelation:
    """A clamp from zero on is a relu, if it has no other end."""
    low, high = (str(find_attribute(op, name)) for name in ("min_val", "max_val"))
    is_relu = low.startswith(("0.0", "0x00000000 ")) and high.startswith(_NO_END)
    return OpRelation(Relation.OWN, (0,), frozenset({"clamp"}), is_homogeneous=is_relu)


_NO_END = ("3.40282347e+38", "3.40282346638528", "3.4028234663852886e+38", "0x7F800000", "inf")


@relation("tosa.reduce_max", "tosa.reduce_min", "tosa.reduce_sum")
def _reduce(op: Operation) -> OpRelation:
    return OpRelation(
        Relation.OWN,
        (0,),
        frozenset({"reduce"}),
        is_homogeneous=True,
        mixed_axes=(integer_of(op, "axis"),),
    )


@relation("tosa.resize")
def _resize(op: Operation) -> OpRelation:
    """What takes the nearest elements adds no others."""
    is_nearest = "NEAREST" in str(find_attribute(op, "mode"))
    return OpRelation(Relation.SHARED if is_nearest else Relation.OWN, (0,))
