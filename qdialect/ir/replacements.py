"""Values that others take the place of, all at once, and ops that are then gone."""

from __future__ import annotations

from collections.abc import Collection

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.transforms.dead_code_elimination import is_trivially_dead

from qdialect.shape_ops.interface import elements_attribute_of


class Replacements:
    """
    Values, and what takes their place where they are used.

    That may be replaced too. One by one, each use of a value by an op of many operands
    would copy all of them.
    """

    def __init__(self) -> None:
        self._by: dict[SSAValue, SSAValue] = {}

    def add(self, value: SSAValue, by: SSAValue) -> None:
        """Replace `value` by another one, which does not lead back to it."""
        self._by[value] = by

    def final(self, value: SSAValue) -> SSAValue:
        """What is in the place of `value` in the end."""
        passed: list[SSAValue] = []
        while (by := self._by.get(value)) is not None:
            passed.append(value)
            value = by
        for other in passed:
            self._by[other] = value
        return value

    def apply(self) -> None:
        """Replace the values where they are used."""
        users = dict.fromkeys(use.operation for value in self._by for use in value.uses)
        for user in users:
            user.operands = [self.final(operand) for operand in user.operands]


def erase_with_unused(gone: Collection[Operation]) -> None:
    """Erase ops, which may use each other, and what then has no users and no effects."""
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
