"""
MLIR's quant dialect, extended by shape ops, a constant, and ops for choosing types.

Types and casts are those of https://mlir.llvm.org/docs/Dialects/QuantDialect/.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdialect.support.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from qdialect.dialects.quant.casts import (
        CastOp,
        DequantizeBiasOp,
        DequantizeCastOp,
        QuantizeCastOp,
        RequantizeOp,
        StatisticsOp,
        StorageCastOp,
    )
    from qdialect.dialects.quant.constants import ConstantOp
    from qdialect.dialects.quant.dialect import Quant
    from qdialect.dialects.quant.shape_ops import (
        BroadcastInDimOp,
        ConcatOp,
        GatherOp,
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
    from qdialect.dialects.quant.storage import QuantileType, QuantizedType, Storage, StoredType
    from qdialect.dialects.quant.types import (
        AnyQuantizedType,
        CalibratedQuantizedType,
        QuantizedTensor,
        UniformQuantizedType,
    )

__all__ = [
    "AnyQuantizedType",
    "BroadcastInDimOp",
    "CalibratedQuantizedType",
    "CastOp",
    "ConcatOp",
    "ConstantOp",
    "DequantizeBiasOp",
    "DequantizeCastOp",
    "GatherOp",
    "Granularity",
    "PadOp",
    "Quant",
    "QuantileType",
    "QuantizeCastOp",
    "QuantizedTensor",
    "QuantizedType",
    "RequantizeOp",
    "ReshapeOp",
    "ReverseOp",
    "ShapeOp",
    "SliceOp",
    "StatisticsOp",
    "Storage",
    "StorageCastOp",
    "StoredType",
    "TransposeOp",
    "UnaryShapeOp",
    "UniformQuantizedType",
    "infer_result_type",
]

_PLACES = {
    "types": "AnyQuantizedType CalibratedQuantizedType QuantizedTensor UniformQuantizedType",
    "shape_ops": (
        "BroadcastInDimOp ConcatOp GatherOp PadOp ReshapeOp ReverseOp ShapeOp SliceOp TransposeOp "
        "UnaryShapeOp infer_result_type"
    ),
    "casts": (
        "CastOp DequantizeBiasOp DequantizeCastOp QuantizeCastOp RequantizeOp StatisticsOp "
        "StorageCastOp"
    ),
    "constants": "ConstantOp",
    "slots": "Granularity",
    "dialect": "Quant",
    "storage": "QuantileType QuantizedType Storage StoredType",
}

__dir__ = __all__.copy
__getattr__ = lazy_exports(
    __name__, {name: place for place, names in _PLACES.items() for name in names.split()}
)
