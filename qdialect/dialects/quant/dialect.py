"""The quant dialect as a whole."""

from xdsl.ir import Dialect

from qdialect.dialects.quant import casts, constants, shape_ops, storage, types

Quant = Dialect(
    "quant",
    [
        casts.QuantizeCastOp,
        casts.DequantizeCastOp,
        casts.StorageCastOp,
        casts.RequantizeOp,
        casts.DequantizeBiasOp,
        constants.ConstantOp,
        shape_ops.TransposeOp,
        shape_ops.ReshapeOp,
        shape_ops.SliceOp,
        shape_ops.ConcatOp,
        shape_ops.BroadcastInDimOp,
        shape_ops.ReverseOp,
        shape_ops.GatherOp,
        shape_ops.PadOp,
        casts.StatisticsOp,
    ],
    [
        types.AnyQuantizedType,
        types.UniformQuantizedType,
        types.CalibratedQuantizedType,
        storage.QuantileType,
    ],
)
