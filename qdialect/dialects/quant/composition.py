"""Composing two quant shape ops into one, for the canonicalization and the fold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.movement import Movement
from qdialect.dialects.quant.shape_ops import ConcatOp, ShapeOp
from qdialect.dialects.quant.types import uniform_tensor
from qdialect.dialects.quant.verification import verify_movement
from qdialect.ops.interface import keeping_attribute_of


class Composition(NamedTuple):
    """One movement that equals an op after the ops that define its operands."""

    movement: Movement
    operands: Sequence[SSAValue]

    def op_for(self, op: ShapeOp, operands: Sequence[SSAValue]) -> ShapeOp:
        """The op that replaces `op`: this movement, applied to `operands`."""
        new_op = type(op).of_movement(self.movement, operands, op.result.type)
        new_op.attributes |= op.attributes
        new_op.location = op.location
        return new_op


def composed(
    op: ShapeOp,
    operands: Sequence[SSAValue],
    known: Mapping[Operation, Composition],
    may_pass: Callable[[Operation], bool] = lambda op: True,
) -> Composition | None:
    """
    The composition of `op` with the ops that define its operands; None if there is none.

    `g(f(x)) = (g . f)(x)`. A concat without other uses, used by a concat on the same axis, is
    inlined into that one. `known` are the compositions found for earlier ops. An op that
    `may_pass` rejects, or that an attribute keeps, is not composed.
    """
    if keeping_attribute_of(op) is not None:
        return None
    if not isinstance(op, ConcatOp):
        composition = _compose(op, operands, known, may_pass)
    elif _is_inlined(op):
        # The concat that uses it inlines all operands at once; doing so step by step is quadratic.
        return None
    else:
        composition = Composition(op.movement, _inline_concats(op, operands, may_pass))
    if (
        composition is None
        or list(composition.operands) == list(operands)
        or op.result in composition.operands
    ):
        return None
    return composition if _is_valid(op, composition) else None


def simplified(op: ShapeOp, operands: Sequence[SSAValue]) -> ShapeOp | None:
    """The op that replaces `op` by its composition; None if there is none."""
    composition = composed(op, operands, {})
    return None if composition is None else composition.op_for(op, composition.operands)


def _compose(
    op: ShapeOp,
    operands: Sequence[SSAValue],
    known: Mapping[Operation, Composition],
    may_pass: Callable[[Operation], bool],
) -> Composition | None:
    first = operands[0].owner
    if len(operands) != 1 or not isinstance(first, ShapeOp) or not may_pass(first):
        return None
    if keeping_attribute_of(first) is not None:
        return None
    movement, inputs = known.get(first) or (first.movement, first.operands)
    both = op.movement.after(movement)
    return None if both is None else Composition(both, inputs)


def _is_valid(op: ShapeOp, composition: Composition) -> bool:
    """
    Whether the composed op verifies: dynamic lengths between two ops may hide that it does not.
    """
    *types, result = [uniform_tensor(value.type) for value in (*composition.operands, op.result)]
    between = [uniform_tensor(operand.type) for operand in op.operands]
    if all(type.has_static_shape() for type in (*types, *between, result)):
        return True
    try:
        verify_movement(composition.movement, types, result)
    except VerifyException:
        return False
    return True


def _is_inlined(op: ConcatOp) -> bool:
    """Whether the only user is a concat on the same axis, into which this one is inlined."""
    user = op.result.get_user_of_unique_use()
    return isinstance(user, ConcatOp) and user.dim == op.dim and user is not op


def _inline_concats(
    op: ConcatOp, operands: Sequence[SSAValue], may_pass: Callable[[Operation], bool]
) -> Sequence[SSAValue]:
    inputs: list[SSAValue] = []
    pending = list(reversed(operands))
    while pending:
        operand = pending.pop()
        inner = operand.owner
        if (
            isinstance(inner, ConcatOp)
            and inner.dim == op.dim
            and _is_inlined(inner)
            and may_pass(inner)
            and keeping_attribute_of(inner) is None
        ):
            pending += reversed(inner.operands)
        else:
            inputs.append(operand)
    return inputs
