"""The ops of TOSA that compute with floats: https://mlir.llvm.org/docs/Dialects/TOSA/."""

from __future__ import annotations

import math

from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import Operation

from qdialect.relations.interface import (
    OpRelation,
    Relation,
    conversion,
    register_left,
    register_relations,
    relation,
)
from qdialect.shape_ops.attributes import integer_of
from qdialect.shape_ops.interface import find_attribute, name_of

register_relations(
    "tosa",
    "abs cos erf exp log negate=neg reciprocal rsqrt sin reduce_product=reduce argmax argmin",
    Relation.OWN,
    (0,),
)
register_relations("tosa", "fft2d", Relation.OWN, (0, 1))
register_relations("tosa", "rfft2d", Relation.OWN, (0,))
register_relations(
    "tosa",
    "avg_pool2d=reduce avg_pool2d_adaptive=reduce",
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
register_relations("tosa", "gather reshape reverse slice tile transpose", Relation.SHARED, (0,))
register_relations(
    "tosa", "identity", Relation.SHARED, (0,), is_homogeneous=True, keeps_places=True
)
register_relations("tosa", "concat", Relation.SHARED)
register_relations("tosa", "pad", Relation.SHARED, (0, 2))
register_relations("tosa", "select", Relation.SHARED, (1, 2), keeps_places=True)
register_relations("tosa", "scatter", Relation.SHARED, (0, 2))
register_relations("tosa", "sigmoid=logistic", Relation.FIXED, (0,), fixed="logistic")
register_relations("tosa", "tanh", Relation.FIXED, (0,), fixed="tanh")
register_relations("tosa", "floor ceil", Relation.WHOLE_NUMBER, (0,))
register_left(
    "tosa",
    "cast_from_block_scaled cast_to_block_scaled matmul_t_block_scaled",
    "it has scales of its own",
)
register_left("tosa", "cond_if while_loop", "it runs regions, in which ops are quantized")
register_left("tosa", "custom", "the function that it computes is defined by its implementation")
register_left(
    "tosa",
    "variable variable_read variable_write",
    "it reads or writes state that other calls share",
)

relation("tosa.cast")(conversion)


@relation("tosa.clamp")
def _clamp(op: Operation) -> OpRelation:
    """A clamp to zero and above is a relu; any other clamp has two ends."""
    ends = [find_attribute(op, name) for name in ("min_val", "max_val")]
    low, high = map(str, ends)
    is_relu = low.startswith(("0.0", "0x00000000 ")) and high.startswith(_NO_END)
    first, last = (end.value.data if isinstance(end, FloatAttr) else math.nan for end in ends)
    return OpRelation(
        Relation.OWN, (0,), frozenset({"clamp"}), is_homogeneous=is_relu, limits=(first, last)
    )


_NO_END = ("3.40282347e+38", "3.40282346638528", "3.4028234663852886e+38", "0x7F800000", "inf")


_COMBINERS = {"tosa.reduce_max": "max", "tosa.reduce_min": "min", "tosa.reduce_sum": "add"}


@relation(*_COMBINERS)
def _reduce(op: Operation) -> OpRelation:
    return OpRelation(
        Relation.OWN,
        (0,),
        frozenset({"reduce", _COMBINERS[name_of(op)]}),
        is_homogeneous=True,
        mixed_axes=(integer_of(op, "axis"),),
    )


@relation("tosa.resize")
def _resize(op: Operation) -> OpRelation:
    """Nearest-neighbour resizing selects elements of the operand."""
    is_nearest = "NEAREST" in str(find_attribute(op, "mode"))
    return OpRelation(Relation.SHARED if is_nearest else Relation.OWN, (0,))
