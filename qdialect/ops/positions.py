"""The operands whose elements say where an op reads or writes, and the lengths they are below."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from xdsl.ir import Operation, SSAValue

from qdialect.algebra.movement import DYNAMIC, Shape
from qdialect.ir.value_types import shape_of
from qdialect.ops.attributes import integers_of
from qdialect.ops.refusals import Refusal

Positions: TypeAlias = Iterator[tuple[SSAValue, int]]
"""Values of positions, and the number that each position must be below."""


def _shape(op: Operation) -> Shape:
    """The lengths of the axes in which an op reads; 1 for an unknown one."""
    lengths = shape_of(op.operands[0].type) or ()
    return tuple(1 if length == DYNAMIC else length for length in lengths)


def along(axis: int) -> Callable[[Operation], Positions]:
    """The second operand has positions on an axis of the first one."""

    def read(op: Operation) -> Positions:
        yield op.operands[1], dict(enumerate(_shape(op))).get(axis, 1)

    return read


def on_any_axis(op: Operation) -> Positions:
    """Operands after the first one have positions on an axis of it."""
    yield from ((value, min(_shape(op), default=1)) for value in op.operands[1:])


def slices(op: Operation) -> Positions:
    """The second operand has the starts of slices; a start on an axis that is taken whole is 0."""
    try:
        sizes = integers_of(op, "slice_sizes")
    except Refusal:
        sizes = ()
    shape = _shape(op)
    starts = [
        length - size + 1 for length, size in zip(shape, sizes, strict=False) if size < length
    ]
    yield op.operands[1], min(starts, default=1)


def elements(first: int) -> Callable[[Operation], Positions]:
    """The operands from `first` on are a position on each axis of the one before them."""

    def read(op: Operation) -> Positions:
        lengths = shape_of(op.operands[first - 1].type) or ()
        for value, length in zip(op.operands[first:], lengths, strict=False):
            yield value, 1 if length == DYNAMIC else length

    return read
