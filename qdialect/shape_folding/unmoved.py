"""Shape ops of any dialect that move nothing, alone or with the one before."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from qdialect.movement import Movement
from qdialect.resources import ResourceBlobs
from qdialect.shape_folding.constants import ConstantOperands, Constants
from qdialect.shape_op_interface import NotFoldable, model_of, shape_of


def unmoved_operand(op: Operation) -> SSAValue | None:
    """`f(x) = x` and `g(f(x)) = x`, where nothing moves and the type is the same."""
    read = _read(op)
    if read is None or _is_unmoved(*read, op):
        return None if read is None else read[1]
    movement, operand = read
    first = operand.owner
    inner = _read(first) if isinstance(first, Operation) else None
    if movement is None or inner is None or inner[0] is None:
        return None
    composed = movement.after(inner[0])
    return inner[1] if composed is not None and _is_unmoved(composed, inner[1], op) else None


def _read(op: Operation) -> tuple[Movement | None, SSAValue] | None:
    """The only movement of an op, if it does anything, of its only operand."""
    if (model := model_of(op)) is None:
        return None
    try:
        read = ConstantOperands(Constants(ResourceBlobs(None))).read(op, model)
    except NotFoldable:
        return None
    if len(read.operands) != 1 or len(read.movements) > 1:
        return None
    return next(iter(read.movements), None), read.operands[0]


def _is_unmoved(movement: Movement | None, operand: SSAValue, op: Operation) -> bool:
    if operand.type != op.results[0].type or not isinstance(operand.type, TensorType):
        return False
    return movement is None or movement.is_identity(shape_of(operand))
