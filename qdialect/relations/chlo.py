"""The ops of CHLO that JAX exports beside those of StableHLO."""

from __future__ import annotations

from qdialect.relations.interface import Relation, register_relations

register_relations("chlo", "erf erf_inv square sinh cosh tan asin acos atan", Relation.OWN, (0,))
