"""
MLIR's quant dialect, with shape ops.

Types and casts are upstream's, https://mlir.llvm.org/docs/Dialects/QuantDialect/; the
constant and the shape ops are what it lacks.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qdialect.dialects.quant.casts import (
        CastOp,
        DequantizeCastOp,
        QuantizeCastOp,
        StorageCastOp,
    )
    from qdialect.dialects.quant.constants import ConstantOp
    from qdialect.dialects.quant.dialect import Quant
    from qdialect.dialects.quant.shape_ops import (
        BroadcastInDimOp,
        ConcatOp,
        PadOp,
        ReshapeOp,
        ReverseOp,
        ShapeOp,
        SliceOp,
        TransposeOp,
        UnaryShapeOp,
        infer_result_type,
    )
    from qdialect.dialects.quant.slots import Granularity
    from qdialect.dialects.quant.types import (
        AnyQuantizedType,
        CalibratedQuantizedType,
        QuantizedTensor,
        QuantizedType,
        Storage,
        StoredType,
        UniformQuantizedType,
    )

__all__ = [
    "AnyQuantizedType",
    "BroadcastInDimOp",
    "CalibratedQuantizedType",
    "CastOp",
    "ConcatOp",
    "ConstantOp",
    "DequantizeCastOp",
    "Granularity",
    "PadOp",
    "Quant",
    "QuantizeCastOp",
    "QuantizedTensor",
    "QuantizedType",
    "ReshapeOp",
    "ReverseOp",
    "ShapeOp",
    "SliceOp",
    "Storage",
    "StorageCastOp",
    "StoredType",
    "TransposeOp",
    "UnaryShapeOp",
    "UniformQuantizedType",
    "infer_result_type",
]

_MODULES = {
    "AnyQuantizedType": "types",
    "BroadcastInDimOp": "shape_ops",
    "CalibratedQuantizedType": "types",
    "CastOp": "casts",
    "ConcatOp": "shape_ops",
    "ConstantOp": "constants",
    "DequantizeCastOp": "casts",
    "Granularity": "slots",
    "PadOp": "shape_ops",
    "Quant": "dialect",
    "QuantizeCastOp": "casts",
    "QuantizedTensor": "types",
    "QuantizedType": "types",
    "ReshapeOp": "shape_ops",
    "ReverseOp": "shape_ops",
    "ShapeOp": "shape_ops",
    "SliceOp": "shape_ops",
    "Storage": "types",
    "StorageCastOp": "casts",
    "StoredType": "types",
    "TransposeOp": "shape_ops",
    "UnaryShapeOp": "shape_ops",
    "UniformQuantizedType": "types",
    "infer_result_type": "shape_ops",
}


def __getattr__(name: str) -> object:
    # Who needs the types of the dialect does not import its ops.
    if name in _MODULES:
        return getattr(import_module(f"qdialect.dialects.quant.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
