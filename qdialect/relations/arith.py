"""The ops of arith on tensors of floats: https://mlir.llvm.org/docs/Dialects/ArithOps/."""

from __future__ import annotations

from qdialect.relations.interface import (
    Relation,
    conversion,
    register_left,
    register_relations,
    relation,
)

register_relations(
    "arith",
    "addf=add cmpf=cmp divf=div fptosi fptoui maximumf=max maxnumf=max minimumf=min minnumf=min "
    "mulf=mul negf=neg remf=rem sitofp subf=sub uitofp",
    Relation.OWN,
)
register_relations("arith", "select", Relation.SHARED, (1, 2), keeps_places=True)
register_left("arith", "bitcast", "it reads bits, not numbers")
register_left("arith", "scaling_extf scaling_truncf", "it has scales of its own")

relation("arith.extf", "arith.truncf")(conversion)
