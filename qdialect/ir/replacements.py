"""Inserting ops after values, and replacing many values at once."""

from __future__ import annotations

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter


def insert_after(op: Operation, value: SSAValue) -> None:
    """Insert an op directly after the definition of a value, with the location of that."""
    owner = value.owner
    if isinstance(owner, Block):
        Rewriter.insert_op(op, InsertPoint.at_start(owner))
    else:
        op.location = owner.location
        Rewriter.insert_op(op, InsertPoint.after(owner))


class Replacements:
    """
    A map from values to the values that replace their uses.

    A replacement may be replaced in turn. Replacing values one by one would copy all operands
    of an op once for each replaced operand.
    """

    def __init__(self) -> None:
        self._by: dict[SSAValue, SSAValue] = {}

    def add(self, value: SSAValue, by: SSAValue) -> None:
        """Replace `value` by `by`, whose own replacements must not lead back to `value`."""
        self._by[value] = by

    def final(self, value: SSAValue) -> SSAValue:
        """The value that replaces `value` after all replacements."""
        passed: list[SSAValue] = []
        while (by := self._by.get(value)) is not None:
            passed.append(value)
            value = by
        for other in passed:
            self._by[other] = value
        return value

    def apply(self) -> None:
        """Replace all uses."""
        users = dict.fromkeys(use.operation for value in self._by for use in value.uses)
        for user in users:
            user.operands = [self.final(operand) for operand in user.operands]
