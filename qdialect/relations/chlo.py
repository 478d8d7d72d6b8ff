"""The ops of CHLO: https://openxla.org/stablehlo/generated/chlo."""

from __future__ import annotations

from qdialect.relations.interface import Relation, register_left, register_relations

register_relations(
    "chlo",
    "_asin_acos_kernel acos acosh asin asinh atan atanh bessel_i1e cosh digamma erf erf_inv erfc "
    "is_inf is_neg_inf is_pos_inf lgamma sinh square tan",
    Relation.OWN,
    (0,),
)
register_relations(
    "chlo",
    "broadcast_add=add broadcast_atan2=atan2 broadcast_compare=compare broadcast_divide=div "
    "broadcast_maximum=max broadcast_minimum=min broadcast_multiply=mul broadcast_next_after "
    "broadcast_polygamma broadcast_power=pow broadcast_remainder=rem broadcast_subtract=sub "
    "broadcast_zeta next_after polygamma zeta",
    Relation.OWN,
    (0, 1),
)
register_relations("chlo", "broadcast_select=select", Relation.SHARED, (1, 2))
register_relations("chlo", "top_k", Relation.SHARED, (0,))
register_left("chlo", "broadcast_complex conj", "it has complex numbers")
register_left("chlo", "constant_like", "it reads no number of its operand")
register_left("chlo", "ragged_dot", "its groups are known at run time only")
register_left("chlo", "scan", "it is a loop")
