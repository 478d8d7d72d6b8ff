"""The ops of torch-mlir."""

from __future__ import annotations

from qdialect.ops import positions
from qdialect.ops.model import OpModel, OpModels

MODELS = OpModels(
    "torch",
    {
        "aten.embedding": OpModel(positions=positions.along(0)),
        "aten.gather aten.index.Tensor aten.index_select": OpModel(positions=positions.on_any_axis),
        "aten.size aten.size.int": OpModel(reads_lengths=True),
    },
)
