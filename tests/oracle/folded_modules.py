"""
Reading folded modules: their ops, and the values of their constants.

Elements are read by xDSL, and slots from the lists of the types, without code of the fold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from shape_op_texts import Array, Slots
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.parser import Parser

from qdialect.dialects.quant import UniformQuantizedType
from qdialect.dialects.quant.types import uniform_tensor
from qdialect.folding.report import PassReport
from qdialect.ops.interface import name_of
from qdialect.opt.registry import ToolContext
from qdialect.passes.fold_quant_shapes import FoldQuantShapesPass

CASTS = ("quant.scast", "quant.dcast", "stablehlo.uniform_dequantize")

CONSTANTS = {
    "arith.constant": "value",
    "tosa.const": "values",
    "stablehlo.constant": "value",
    "quant.constant": "value",
}


def parse(text: str) -> tuple[ModuleOp, ToolContext]:
    context = ToolContext(allow_unregistered=True)
    module = Parser(context, text).parse_module()
    module.verify()
    return module, context


def fold(text: str, **options: Any) -> tuple[ModuleOp, PassReport]:
    module, context = parse(text)
    FoldQuantShapesPass(**options).apply(context, module)
    module.verify()
    (report,) = context.fold_reports
    return module, report


def returned(module: ModuleOp) -> Sequence[SSAValue]:
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    last = function.body.block.last_op
    assert isinstance(last, ReturnOp)
    return last.operands


def op_of(module: ModuleOp, name: str) -> Operation:
    """The only op with that name."""
    (op,) = (op for op in module.walk() if name_of(op) == name)
    return op


def stored(op: Operation, shape: tuple[int, ...]) -> Array:
    """The elements of a constant, as xDSL reads them."""
    assert name_of(op) in CONSTANTS, f"'{name_of(op)}' is left"
    attribute = op.get_attr_or_prop(CONSTANTS[name_of(op)])
    assert isinstance(attribute, DenseIntOrFPElementsAttr)
    array = np.array(attribute.get_values(), dtype=np.int64)
    return np.broadcast_to(array[0], shape) if array.size == 1 else array.reshape(shape)


def slots_of(type: UniformQuantizedType, shape: tuple[int, ...]) -> Slots:
    """The scale and zero point of every element, as the type lists them."""
    scales, zero_points = type.scales, type.zero_points
    axes, blocks = type.quantized_dimensions, type.block_sizes
    if scales.ndim != len(shape):
        ones = [1] * len(shape)
        for axis in axes:
            ones[axis] = -1
        scales, zero_points = scales.reshape(ones), zero_points.reshape(ones)
    for axis, block in zip(axes, blocks or [1] * len(axes), strict=True):
        scales, zero_points = scales.repeat(block, axis), zero_points.repeat(block, axis)
    return Slots(np.broadcast_to(scales, shape), np.broadcast_to(zero_points, shape))


def dequantized(value: SSAValue) -> tuple[Array, UniformQuantizedType]:
    """The dequantized elements of casts of a constant, and the quantized type."""
    op = owner(value)
    assert name_of(op) in CASTS, f"'{name_of(op)}' is left"
    tensor = uniform_tensor(op.operands[0].type)
    type, shape = tensor.element_type, tensor.get_shape()
    source = owner(op.operands[0])
    if name_of(source) == "quant.scast":
        source = owner(source.operands[0])
    least, width = type.storage_type_min, 1 << type.storage_type.bitwidth
    codes = (stored(source, shape) - least) % width + least
    return slots_of(type, shape).dequantize(codes), type


def owner(value: SSAValue) -> Operation:
    assert isinstance(value.owner, Operation)
    return value.owner


def bits(floats: Array) -> Array:
    assert floats.dtype == np.float32
    return np.ascontiguousarray(floats).view(np.uint32)
