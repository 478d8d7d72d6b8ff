"""
The ops of MHLO, StableHLO's predecessor: the same ops with another prefix.

https://github.com/tensorflow/mlir-hlo. The dimension numbers of a gather are an attribute of the
dialect `mhlo`.
"""

from __future__ import annotations

from functools import partial

from xdsl.dialects.builtin import DenseArrayBase, DenseIntOrFPElementsAttr, TensorType, i64
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.granularity import Granularity
from qdialect.shape_ops.elementwise import (
    Operands,
    broadcast_writer,
    converted,
    elementwise_op,
    recreated,
    reshape_writer,
    same_shape,
    write_like,
)
from qdialect.shape_ops.interface import (
    find_attribute,
    register_alias,
    register_cast,
    register_constant,
    register_dialect_traits,
    set_attribute,
)
from qdialect.shape_ops.models import CastReads, DialectTraits
from qdialect.shape_ops.terms import Arithmetic, Elementwise, SmallOperand

register_constant("mhlo.constant", "value")
register_cast("mhlo.uniform_quantize", CastReads.CODES)
register_cast("mhlo.uniform_dequantize", CastReads.NUMBERS)
register_cast("mhlo.convert", CastReads.CONVERTED)
register_dialect_traits("mhlo", DialectTraits(finest=Granularity.PER_AXIS))

for name in (
    "transpose",
    "reshape",
    "slice",
    "concatenate",
    "broadcast_in_dim",
    "reverse",
    "pad",
    "dynamic_reshape",
    "dynamic_broadcast_in_dim",
    "dynamic_slice",
    "dynamic_update_slice",
    "real_dynamic_slice",
    "dynamic_pad",
):
    register_alias(f"mhlo.{name}", f"stablehlo.{name}")


@elementwise_op("mhlo.convert", write=write_like)
def _convert(op: Operation, operands: Operands) -> Elementwise:
    return converted(op)


def _read(arithmetic: Arithmetic, op: Operation, operands: Operands) -> Elementwise:
    return same_shape(op, arithmetic, op.operands)


for name, arithmetic in (
    ("mhlo.add", Arithmetic.ADD),
    ("mhlo.multiply", Arithmetic.MULTIPLY),
    ("mhlo.subtract", Arithmetic.SUBTRACT),
):
    elementwise_op(name, write=write_like)(partial(_read, arithmetic))


@broadcast_writer("mhlo.broadcast_in_dim")
def _broadcast_again(op: Operation, operand: SmallOperand, type: Attribute) -> list[Operation]:
    new = recreated(op, [operand.value], type)
    if isinstance(find_attribute(op, _DIMENSIONS), DenseArrayBase):
        axes = DenseArrayBase.from_list(i64, operand.axes)
    else:
        axes = DenseIntOrFPElementsAttr.from_list(
            TensorType(i64, [len(operand.axes)]), operand.axes
        )
    set_attribute(new, _DIMENSIONS, axes)
    return [new]


_DIMENSIONS = "broadcast_dimensions"


@reshape_writer("mhlo.reshape")
def _reshape_again(op: Operation, operand: SSAValue, type: Attribute) -> list[Operation]:
    return [recreated(op, [operand], type)]
