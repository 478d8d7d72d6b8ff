"""
MLIR's quant dialect, with shape ops.

Types and casts are upstream's, https://mlir.llvm.org/docs/Dialects/QuantDialect/; the
constant and the shape ops are what it lacks.
"""

from xdsl.ir import Dialect

from qdialect.dialects.quant.casts import (
    CastOp,
    DequantizeCastOp,
    QuantizeCastOp,
    StorageCastOp,
)
from qdialect.dialects.quant.constants import ConstantOp
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

Quant = Dialect(
    "quant",
    [
        QuantizeCastOp,
        DequantizeCastOp,
        StorageCastOp,
        ConstantOp,
        TransposeOp,
        ReshapeOp,
        SliceOp,
        ConcatOp,
        BroadcastInDimOp,
        ReverseOp,
        PadOp,
    ],
    [
        AnyQuantizedType,
        UniformQuantizedType,
        CalibratedQuantizedType,
    ],
)
