"""Lowering `quant.dequantize_bias` to MLIR's `arith`, and to `linalg` for scales of an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, FloatAttr, TensorType, f64
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint

from qdialect.dialects.arith.syntax import SIToFPOp
from qdialect.dialects.quant.casts import DequantizeBiasOp
from qdialect.ir.elements import dense_elements, element_dtype
from qdialect.ir.value_types import has_encoding, with_element_type
from qdialect.lowering.cast_arithmetic import CastBuilder, SlotConstants, insert_constant
from qdialect.lowering.storage_ops import StorageBuilder
from qdialect.support.float_format import FLOAT_FORMATS


def unknown_bias(op: DequantizeBiasOp) -> str | None:
    """The reason why `op` cannot be lowered; None if it can."""
    for value in (op.input, op.result):
        if has_encoding(value.type):
            return f"the arithmetic would drop the encoding of '{value.type}'"
    return None


def bias_bytes(op: DequantizeBiasOp) -> int:
    """The bytes of the constant of scales that `op` is lowered to."""
    return op.scales_of_elements.scales.size * element_dtype(f64).itemsize


def lower_bias(op: DequantizeBiasOp) -> SSAValue:
    """
    Insert the ops that compute `op` before it, and return their result.

    `unknown_bias` must have returned None.
    """
    builder = CastBuilder(InsertPoint.before(op), op.location, SlotConstants())
    scales, axis = op.scales_of_elements
    type = cast("TensorType[Attribute]", op.result.type)
    made = cast(AnyFloat, type.element_type)
    if axis is None:
        scale = insert_constant(builder, FloatAttr(float(scales[0]), f64))
        spread = builder.spread_to(op.input)
        return _computed(builder, op.input, scale, made, spread)
    bits = FLOAT_FORMATS[f64.name].encode(scales).astype(element_dtype(f64))
    constant = insert_constant(builder, dense_elements(bits, f64))
    rank = type.get_num_dims()

    def element(inner: StorageBuilder, elements: Sequence[SSAValue]) -> SSAValue:
        value, scale, _ = elements
        return _computed(inner, value, scale, made, lambda scalar: scalar)

    return builder.generic(
        builder.empty(builder.lengths(op.input), made),
        [op.input, constant],
        [AffineMap.identity(rank), AffineMap(rank, 0, (AffineExpr.dimension(axis),))],
        element,
    )


def _computed(
    builder: StorageBuilder,
    value: SSAValue,
    scale: SSAValue,
    made: AnyFloat,
    spread: Callable[[SSAValue], SSAValue],
) -> SSAValue:
    """
    One element, or all elements that share a scale: the product in f64, rounded to the type `made`.
    """
    of = cast(AnyFloat, with_element_type(value.type, f64))
    number = builder.insert(SIToFPOp(value, of)).result
    product = builder.insert(arith.MulfOp(number, spread(scale))).result
    if made == f64:
        return product
    return builder.insert(arith.TruncFOp(product, with_element_type(value.type, made))).result
