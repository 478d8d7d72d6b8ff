"""The ops of arith on tensors of floats: https://mlir.llvm.org/docs/Dialects/ArithOps/."""

from __future__ import annotations

from qdialect.relations.interface import Relation, register_relations

register_relations(
    "arith",
    "addf=add cmpf=cmp divf=div fptosi fptoui maximumf=max maxnumf=max minimumf=min minnumf=min "
    "mulf=mul negf=neg remf=rem subf=sub",
    Relation.OWN,
)
register_relations("arith", "select", Relation.SHARED, (1, 2))
