"""The elements of constants, moved lazily step by step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from xdsl.ir import Operation

from qdialect.algebra.views import Values
from qdialect.folding.moved_constant import ElementMove, move_elements
from qdialect.ops.reading import Constants


class ElementStep(NamedTuple):
    """A step: a constant of the module, or a shape op that moves the elements of other steps."""

    op: Operation

    operands: tuple[int, ...] = ()
    """The numbers of the steps whose elements are moved; empty for a constant."""

    moves: tuple[ElementMove, ...] = ()


class ElementValues:
    """
    The elements after each step, as views where possible.

    They are cached for the lifetime of this object, or until their last use after `keep_for`.
    """

    def __init__(self, steps: Sequence[ElementStep], constants: Constants) -> None:
        self._steps = steps
        self._constants = constants
        self._known: dict[int, Values] = {}
        """The cached elements after shape ops."""
        self._readers: list[int] | None = None
        """For each step, the number of reads of its elements that are still to come."""

    def keep_for(self, roots: Iterable[int]) -> None:
        """
        Free the elements of each step once all steps toward `roots`, and `take`, have read
        them.
        """
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
        """The elements after one of the roots; each root may be taken once."""
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
