"""
The ops of tensor: https://mlir.llvm.org/docs/Dialects/TensorOps/.

Most are shape ops. The rules apply where offsets or indices are known only at run time.
"""

from __future__ import annotations

from functools import partial

from qdialect.ops import positions
from qdialect.ops.model import Bits, OpModel, OpModels
from qdialect.relations.interface import OpRelation, Relation, shared

_exact = partial(OpModel, bits=Bits.EXACT)
_undefined = partial(OpModel, bits=Bits.UNDEFINED)
_SCALARS = "it reads or makes scalars, not only tensors"

MODELS = OpModels(
    "tensor",
    {
        "collapse_shape expand_shape extract_slice pad reshape": _exact(rule=shared(0)),
        "gather": OpModel(rule=shared(0)),
        "cast": _exact(
            rule=OpRelation(Relation.SHARED, (0,), is_homogeneous=True, keeps_places=True)
        ),
        "concat": _exact(rule=shared()),
        "insert_slice": _exact(rule=shared(0, 1)),
        "scatter": OpModel(rule=shared(0, 1)),
        "bitcast": _exact(stays_float="it reads bits, not numbers"),
        "extract": _undefined(positions=positions.elements(1), stays_float=_SCALARS),
        "insert": _undefined(positions=positions.elements(2), stays_float=_SCALARS),
        "from_elements": _exact(stays_float=_SCALARS),
        "splat": _exact(repeats=True, stays_float=_SCALARS),
        "generate": OpModel(stays_float=_SCALARS),
        "dim": _exact(reads_lengths=True),
        "empty yield": _exact(),
        "parallel_insert_slice": OpModel(stays_float="it is part of a parallel loop"),
    },
)
