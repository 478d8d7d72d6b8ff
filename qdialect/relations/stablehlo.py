"""The ops of StableHLO that compute with floats: https://openxla.org/stablehlo/spec."""

from __future__ import annotations

from xdsl.ir import Operation

from qdialect.relations.interface import (
    OpRelation,
    Relation,
    register_relations,
    relation,
)
from qdialect.shape_ops.interface import find_attribute, integers_of, name_of

register_relations(
    "stablehlo",
    "abs cbrt convert cosine=cos exponential=exp exponential_minus_one=expm1 log "
    "log_plus_one=log1p negate=neg rsqrt sign sine=sin sqrt tan",
    Relation.OWN,
    (0,),
)
register_relations(
    "stablehlo",
    "add atan2 compare divide=div maximum=max minimum=min multiply=mul power=pow remainder=rem "
    "subtract=sub",
    Relation.OWN,
    (0, 1),
)
register_relations("stablehlo", "clamp", Relation.OWN, (1,))
register_relations("stablehlo", "logistic", Relation.FIXED, (0,), fixed="logistic")
register_relations("stablehlo", "tanh", Relation.FIXED, (0,), fixed="tanh")
register_relations(
    "stablehlo",
    "ceil floor round_nearest_afz=round round_nearest_even=roundeven",
    Relation.WHOLE_NUMBER,
    (0,),
)
register_relations("stablehlo", "select", Relation.SHARED, (1, 2))
register_relations("stablehlo", "dynamic_update_slice", Relation.SHARED, (0, 1))
register_relations(
    "stablehlo",
    "dynamic_slice gather dynamic_gather slice dynamic_broadcast_in_dim dynamic_reshape "
    "optimization_barrier",
    Relation.SHARED,
    (0,),
)

_HOMOGENEOUS = ("stablehlo.add", "stablehlo.maximum", "stablehlo.minimum")
_MAXIMUM = ("stablehlo.maximum", "stablehlo.minimum")


@relation("stablehlo.reduce")
def _reduce(op: Operation) -> OpRelation | None:
    if (combiner := _combiner(op)) is None:
        return None
    return OpRelation(
        Relation.OWN,
        (0,),
        frozenset({"reduce"}),
        is_homogeneous=combiner in _HOMOGENEOUS,
        mixed_axes=integers_of(op, "dimensions"),
    )


@relation("stablehlo.reduce_window")
def _reduce_window(op: Operation) -> OpRelation | None:
    """A maximum is an element, and so is what it starts with, unless that is the lowest number."""
    if (combiner := _combiner(op)) is None:
        return None
    is_maximum = combiner in _MAXIMUM
    return OpRelation(
        Relation.SHARED if is_maximum else Relation.OWN,
        (0,),
        is_homogeneous=combiner in _HOMOGENEOUS,
        mixed_axes=_windowed_axes(op),
    )


def _windowed_axes(op: Operation) -> tuple[int, ...]:
    """The axes on which a window is more than one element, or elements are added or skipped."""
    lists = [
        integers_of(op, name)
        for name in ("window_dimensions", "window_strides", "base_dilations", "window_dilations")
        if find_attribute(op, name) is not None
    ]
    if find_attribute(op, "padding") is not None:
        pads = integers_of(op, "padding")
        lists += [[1 + pad for pad in pads[at::2]] for at in (0, 1)]
    return tuple(axis for axis, numbers in enumerate(zip(*lists, strict=True)) if {*numbers} != {1})


def _combiner(op: Operation) -> str | None:
    """The one op that combines two elements, if one operand is reduced by one op."""
    if len(op.results) != 1 or len(op.operands) != 2:
        return None
    names = [name_of(inner) for inner in op.regions[0].block.ops]
    return names[0] if len(names) == 2 else None
