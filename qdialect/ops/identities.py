"""Shape ops of any dialect that are identities, alone or with the op before them."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from qdialect.algebra.movement import Movement, MovementError
from qdialect.ir.resources import ResourceBlobs
from qdialect.ir.value_types import tensor_parts
from qdialect.ops.attributes import shape_of
from qdialect.ops.interface import Refusal, model_of
from qdialect.ops.reading import ConstantOperands, Constants


def composition(
    movement: Movement, moves_nothing: bool, first: Movement, first_moves_nothing: bool
) -> Movement | None:
    """The movement that does `first` and then `movement`; None if no single one does."""
    if moves_nothing:
        return first
    return movement if first_moves_nothing else movement.after(first)


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
    moves_nothing = [_moves_nothing(movement, operand), _moves_nothing(*inner)]
    composed = composition(movement, moves_nothing[0], inner[0], moves_nothing[1])
    return inner[1] if composed is not None and _is_unmoved(composed, inner[1], op) else None


def _read(op: Operation) -> tuple[Movement | None, SSAValue] | None:
    """The only movement of an op, or None if it does nothing, and its only operand."""
    if (model := model_of(op)) is None:
        return None
    try:
        read = ConstantOperands(Constants(ResourceBlobs(None))).read(op, model)
    except Refusal:
        return None
    if len(read.operands) != 1 or len(read.movements) > 1:
        return None
    (operand,), movement = read.operands, next(iter(read.movements), None)
    try:
        shape = shape_of(operand)
        if movement is not None:
            movement.result_shape(shape)
    except (MovementError, Refusal):
        return None
    return movement, operand


def _is_unmoved(movement: Movement | None, operand: SSAValue, op: Operation) -> bool:
    return operand.type == op.results[0].type and _moves_nothing(movement, operand)


def _moves_nothing(movement: Movement | None, operand: SSAValue) -> bool:
    if tensor_parts(operand.type) is None:
        return False
    return movement is None or movement.is_identity(shape_of(operand))
