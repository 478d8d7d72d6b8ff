"""The quant dialect as a whole."""

from xdsl.ir import Dialect

from qdialect.dialects.quant.casts import (
    DequantizeBiasOp,
    DequantizeCastOp,
    QuantizeCastOp,
    RequantizeOp,
    StatisticsOp,
    StorageCastOp,
)
from qdialect.dialects.quant.constants import (
    ConstantOp,
)
from qdialect.dialects.quant.shape_ops import (
    BroadcastInDimOp,
    ConcatOp,
    GatherOp,
    PadOp,
    ReshapeOp,
    ReverseOp,
    SliceOp,
    TransposeOp,
)
from qdialect.dialects.quant.types import (
    AnyQuantizedType,
    CalibratedQuantizedType,
    UniformQuantizedType,
)

Quant = Dialect(
    "quant",
    [
        QuantizeCastOp,
        DequantizeCastOp,
        StorageCastOp,
        RequantizeOp,
        DequantizeBiasOp,
        ConstantOp,
        TransposeOp,
        ReshapeOp,
        SliceOp,
        ConcatOp,
        BroadcastInDimOp,
        ReverseOp,
        GatherOp,
        PadOp,
        StatisticsOp,
    ],
    [
        AnyQuantizedType,
        UniformQuantizedType,
        CalibratedQuantizedType,
    ],
)
