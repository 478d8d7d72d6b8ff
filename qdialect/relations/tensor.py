"""
The ops of tensor on floats: https://mlir.llvm.org/docs/Dialects/TensorOps/.

Most are shape ops. These relations apply where offsets or indices are known only at run time.
"""

from __future__ import annotations

from qdialect.relations.interface import Relation, register_left, register_relations

register_relations(
    "tensor",
    "collapse_shape expand_shape extract_slice gather pad reshape",
    Relation.SHARED,
    (0,),
)
register_relations("tensor", "cast", Relation.SHARED, (0,), is_homogeneous=True, keeps_places=True)
register_relations("tensor", "concat", Relation.SHARED)
register_relations("tensor", "insert_slice scatter", Relation.SHARED, (0, 1))
register_left("tensor", "bitcast", "it reads bits, not numbers")
register_left(
    "tensor",
    "extract from_elements generate insert splat",
    "it reads or makes scalars, not only tensors",
)
register_left("tensor", "parallel_insert_slice", "it is part of a parallel loop")
