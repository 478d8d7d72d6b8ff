"""What the canonicalization and the pass share: how two shape ops become one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.ir import SSAValue

from qdialect.dialects.quant.shape_ops import ConcatOp, ShapeOp, compose


def simplified(op: ShapeOp, operands: Sequence[SSAValue]) -> ShapeOp | None:
    """
    One op that does what `op` and the op that makes its operands do, if there is one.

    `g(f(x)) = (g . f)(x)`, and operands of a concat that are concats on the same axis,
    and used nowhere else, give it their own.
    """
    if not isinstance(op, ConcatOp):
        movement, inputs = compose(op.movement, operands)
    elif _is_inlined(op):
        # Its user takes all operands at once; step by step, they would be copied each time.
        return None
    else:
        movement, inputs = op.movement, _inline_concats(op, operands)
    if list(inputs) == list(operands) or op.result in inputs:
        return None
    new_op = cast("type[ShapeOp]", type(op)).of_movement(movement, inputs, op.result.type)
    new_op.attributes |= op.attributes
    new_op.location = op.location
    return new_op


def _is_inlined(op: ConcatOp) -> bool:
    """Whether the only user is a concat on the same axis, which takes all operands."""
    user = op.result.get_user_of_unique_use()
    return isinstance(user, ConcatOp) and user.dim == op.dim and user is not op


def _inline_concats(op: ConcatOp, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
    inputs: list[SSAValue] = []
    pending = list(reversed(operands))
    while pending:
        operand = pending.pop()
        inner = operand.owner
        if isinstance(inner, ConcatOp) and inner.dim == op.dim and _is_inlined(inner):
            pending += reversed(inner.operands)
        else:
            inputs.append(operand)
    return inputs
