"""
The constant, the casts and the shape ops of one operand of TT-MLIR's ttir dialect.

https://docs.tenstorrent.com/tt-mlir. Ops that write to their last operand are read too.
"""

from __future__ import annotations

from xdsl.ir import Operation

from qdialect.algebra.movement import Reshape, Reverse, Slice, Transpose
from qdialect.shape_ops.attributes import integer_of, integers_of, shape_of
from qdialect.shape_ops.interface import register_cast, register_constant, shape_op
from qdialect.shape_ops.models import CastReads, Movements, Operands

register_constant("ttir.constant", "value")
register_cast("ttir.quantize", CastReads.CODES)
register_cast("ttir.dequantize", CastReads.NUMBERS)


@shape_op("ttir.permute")
def _permute(op: Operation, operands: Operands) -> Movements:
    return Movements(op.operands[:1], [Transpose(integers_of(op, "permutation"))])


@shape_op("ttir.transpose")
def _transpose(op: Operation, operands: Operands) -> Movements:
    order = list(range(len(shape_of(op.operands[0]))))
    one, other = integer_of(op, "dim0"), integer_of(op, "dim1")
    order[one], order[other] = order[other], order[one]
    return Movements(op.operands[:1], [Transpose(tuple(order))])


@shape_op("ttir.reshape")
@shape_op("ttir.squeeze")
@shape_op("ttir.unsqueeze")
def _reshape(op: Operation, operands: Operands) -> Movements:
    return Movements(op.operands[:1], [Reshape(shape_of(op.results[0]))])


@shape_op("ttir.reverse")
def _reverse(op: Operation, operands: Operands) -> Movements:
    return Movements(op.operands[:1], [Reverse(integers_of(op, "dimensions"))])


@shape_op("ttir.slice_static")
def _slice(op: Operation, operands: Operands) -> Movements:
    lists = (integers_of(op, name) for name in ("begins", "ends", "step"))
    return Movements(op.operands[:1], [Slice.between(*lists)])
