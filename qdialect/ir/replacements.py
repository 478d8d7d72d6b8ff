"""Inserting ops after values, replacing many values at once, and erasing unused ops."""

from __future__ import annotations

from collections.abc import Collection

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.transforms.dead_code_elimination import is_trivially_dead

from qdialect.shape_ops.interface import elements_attribute_of


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


def erase_with_unused(gone: Collection[Operation]) -> None:
    """
    Erase ops, which may use each other, and the ops that this leaves unused and that are pure.
    """
    unused: dict[Operation, None] = {}
    for op in gone:
        within = tuple(op.walk())
        for inner in within:
            owners = (operand.owner for operand in inner.operands)
            unused |= {owner: None for owner in owners if isinstance(owner, Operation)}
            inner.operands = ()
    for op in gone:
        Rewriter.erase_op(op)
    pending = list(unused)
    while pending:
        op = pending.pop()
        is_unused = op.parent is not None and all(r.first_use is None for r in op.results)
        if is_unused and (elements_attribute_of(op) is not None or is_trivially_dead(op)):
            pending += [o.owner for o in op.operands if isinstance(o.owner, Operation)]
            Rewriter.erase_op(op)
