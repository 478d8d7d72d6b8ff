"""The elements of constants, moved step by step when they are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from xdsl.ir import Operation

from qdialect.algebra.movement import Values
from qdialect.folding.moved_constant import ElementMove, move_elements
from qdialect.shape_ops.reading import Constants


class ElementStep(NamedTuple):
    """A constant of the module, or a shape op that moves the elements of other steps."""

    op: Operation

    operands: tuple[int, ...] = ()
    """The numbers of the steps whose elements are moved; none for a constant."""

    moves: tuple[ElementMove, ...] = ()


class ElementValues:
    """
    The elements after each step: views, where views are enough.

    They are kept as long as this object, or as long as `keep_for` says.
    """

    def __init__(self, steps: Sequence[ElementStep], constants: Constants) -> None:
        self._steps = steps
        self._constants = constants
        self._known: dict[int, Values] = {}
        """The elements after shape ops."""
        self._readers: list[int] | None = None
        """How many steps, and callers, will still read the elements after each step."""

    def keep_for(self, roots: Iterable[int]) -> None:
        """Free each value once the steps that lead to `roots`, and `take`, have read it."""
        pending, steps = list(roots), self._steps
        readers = self._readers = [0] * len(steps)
        for number in pending:
            readers[number] += 1
        while pending:
            for operand in steps[pending.pop()].operands:
                if not readers[operand]:
                    pending.append(operand)
                readers[operand] += 1

    def take(self, number: int) -> Values:
        """The elements after one of the roots, for the last time."""
        values = self.of(number)
        self._has_been_read((number,))
        return values

    def of(self, number: int) -> Values:
        """The elements after a step."""
        pending, found = [number], self._find(number)
        while found is None:
            at = pending[-1]
            _, operands, moves = self._steps[at]
            values: list[Values] = []
            missing: list[int] = []
            for operand in operands:
                known = self._find(operand)
                if known is None:
                    missing.append(operand)
                else:
                    values.append(known)
            if missing:
                pending += missing
                continue
            moved = self._known[at] = move_elements(moves, values)
            self._has_been_read(operands)
            if at == number:
                return moved
            while pending and pending[-1] in self._known:
                pending.pop()
        return found

    def _find(self, number: int) -> Values | None:
        if (known := self._known.get(number)) is not None:
            return known
        op, operands, _ = self._steps[number]
        return None if operands else self._constants.read(op)

    def _has_been_read(self, numbers: Iterable[int]) -> None:
        if (readers := self._readers) is None:
            return
        for number in numbers:
            readers[number] -= 1
            if not readers[number]:
                self._known.pop(number, None)
