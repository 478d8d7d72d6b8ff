"""Values that others take the place of, all at once."""

from __future__ import annotations

from xdsl.ir import SSAValue


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
