"""
Element-wise arithmetic as terms: how an op computes each element of its result.

An op of any dialect is read as a term by its `ElementwiseModel`, which `elementwise` registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from xdsl.dialects.builtin import (
    FloatAttr,
    IntegerAttr,
)
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.movement import BroadcastInDim, Movement, Reshape, Shape, Transpose
from qdialect.ops.models import Operands
from qdialect.ops.refusals import Refusal, RefusalCode


class Arithmetic(StrEnum):
    """
    A scalar op, by the name that it has in the arith dialect, but for the kind of number.

    `QUANTIZE` rounds and clamps a float, given a scale and perhaps a zero point, in whatever way
    the op does: it is only ever written again by the same op.
    """

    SIGNED_TO_FLOAT = "sitofp"
    UNSIGNED_TO_FLOAT = "uitofp"
    SIGN_EXTEND = "extsi"
    ZERO_EXTEND = "extui"
    EXTEND_FLOAT = "extf"
    TRUNCATE_FLOAT = "truncf"
    SUBTRACT = "sub"
    MULTIPLY = "mul"
    ADD = "add"
    QUANTIZE = "quantize"


@dataclass(frozen=True)
class Input:
    """The element of an operand."""

    number: int
    """Which of `Elementwise.operands`."""

    type: Attribute
    """The scalar type."""


@dataclass(frozen=True)
class Scalar:
    """A constant of the body."""

    attribute: IntegerAttr[Any] | FloatAttr[Any]

    @property
    def type(self) -> Attribute:
        """The scalar type."""
        return self.attribute.type


@dataclass(frozen=True)
class Apply:
    """A scalar op of terms."""

    arithmetic: Arithmetic
    operands: tuple[Term, ...]
    type: Attribute
    """The scalar type of the result."""


Term: TypeAlias = Input | Scalar | Apply


class Elementwise(NamedTuple):
    """How an op computes each element of its result."""

    operands: tuple[SSAValue, ...]
    """The tensors that elements are read from."""

    axes: tuple[tuple[int | None, ...], ...]
    """
    For each operand, and each axis of it, the axis of the result that it follows; None for an
    axis of length 1 that is read at position 0.
    """

    term: Term

    in_blocks: bool = False
    """
    Whether an axis that is shorter than the one it follows has an element for each block of that.
    """

    def movements_of(self, number: int, shape: Shape, result_shape: Shape) -> list[Movement]:
        """The movements of an operand of `shape` to that of the result. Raises Refusal."""
        axes = self.axes[number]
        if len(axes) != len(shape):
            reason = f"operand #{number} has rank {len(shape)}, not {len(axes)}"
            raise Refusal(RefusalCode.UNKNOWN_OP, reason)
        for axis in axes:
            if axis is not None and not 0 <= axis < len(result_shape):
                raise Refusal(RefusalCode.UNKNOWN_OP, f"its result has no axis {axis}")
        movements: list[Movement] = []
        if self.in_blocks:
            movements = _repeated_in_blocks(axes, shape, result_shape)
            for movement in movements:
                shape = movement.result_shape(shape)
        return [*movements, *movements_along(axes, shape, result_shape)]


class SmallOperand(NamedTuple):
    """An operand of an op that is written again, before it is broadcast."""

    value: SSAValue

    axes: tuple[int, ...]
    """For each axis of `value` the axis of the result that it follows; increasing."""

    like: Operation | None = None
    """The op that broadcast it before, if there was one: it is broadcast again by one like it."""


ElementwiseReader: TypeAlias = Callable[[Any, Operands], Elementwise]
"""Reads an op of one name. Raises Refusal."""


ElementwiseWriter: TypeAlias = Callable[[Any, Sequence[SmallOperand], Attribute], list[Operation]]
"""
Writes an op like a given one, of other operands and of another result type.

Returns the ops in order; the last one has the result.
"""


class ElementwiseModel(NamedTuple):
    """The model of the element-wise ops of one name."""

    read: ElementwiseReader
    write: ElementwiseWriter

    keeps_rank: bool = False
    """Whether operands have the rank of the result, with axes of length 1 for a broadcast."""

    aligns: bool = False
    """Whether all operands but the one that is dequantized have one shape."""

    has_axis: bool = False
    """Whether these have an axis also where they hold one element for all positions."""

    broadcasts: bool = True
    """Whether an op reads operands along some of its axes only."""


BroadcastWriter: TypeAlias = Callable[[Any, SmallOperand, Attribute], list[Operation]]
"""Writes an op like a given broadcast, of an operand and to a result type; returns the ops."""


ReshapeWriter: TypeAlias = Callable[[Any, SSAValue, Attribute], list[Operation]]
"""Writes an op like a given reshape, of an operand and to a result type; returns the ops."""


def movements_along(
    axes: Sequence[int | None], shape: Shape, result_shape: Shape
) -> list[Movement]:
    """
    The movements of an operand of `shape` whose axes follow those of a result.

    None is an axis that is read at position 0. Raises Refusal if two follow the same axis,
    or one that is longer than 1 is read at 0 alone.
    """
    movements: list[Movement] = []
    kept = [at for at, axis in enumerate(axes) if axis is not None]
    if len(kept) < len(axes):
        if any(length != 1 for at, length in enumerate(shape) if at not in kept):
            raise Refusal(RefusalCode.UNKNOWN_OP, "its indexing maps do more than name axes")
        shape = tuple(shape[at] for at in kept)
        movements.append(Reshape(shape))
    dims = tuple(axis for axis in axes if axis is not None)
    if len(set(dims)) != len(dims):
        raise Refusal(RefusalCode.UNKNOWN_OP, "it reads a diagonal")
    if len(dims) < len(result_shape):
        return [*movements, BroadcastInDim(dims, result_shape)]
    permutation = tuple(sorted(range(len(dims)), key=dims.__getitem__))
    return [*movements, Transpose(permutation)]


def _repeated_in_blocks(
    axes: Sequence[int | None], shape: Shape, result_shape: Shape
) -> list[Movement]:
    """Movements that repeat the positions of axes as often as an axis that each follows is long."""
    lengths = [
        length if axis is None else result_shape[axis]
        for axis, length in zip(axes, shape, strict=True)
    ]
    if any(before < 1 or after % before for before, after in zip(shape, lengths, strict=True)):
        raise Refusal(RefusalCode.ARITHMETIC, "its blocks are not of one length")
    if tuple(lengths) == shape:
        return []
    cut = [
        n for before, after in zip(shape, lengths, strict=True) for n in (before, after // before)
    ]
    dims = tuple(range(0, 2 * len(shape), 2))
    return [BroadcastInDim(dims, tuple(cut)), Reshape(tuple(lengths))]
