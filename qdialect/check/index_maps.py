"""
The source position of each element of a result: `f` in `C' = C . f`, `p' = p . f`.

A second implementation of each movement, written from its specification, by integer arithmetic
on row-major positions. It calls neither the movements nor the fold, so that an error there is
not repeated here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import singledispatch
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from qdialect.algebra.joins import Concat, InsertSlice
from qdialect.algebra.movement import (
    BroadcastInDim,
    Chain,
    Movement,
    Reshape,
    Reverse,
    Shape,
    Slice,
    Take,
    Transpose,
)
from qdialect.algebra.padding import Pad
from qdialect.support.lazy_numpy import NDArray, np

Positions: TypeAlias = "NDArray[np.int64]"
"""Row-major positions of elements in a tensor: int64, one-dimensional."""


class NotCertifiableError(ValueError):
    """
    An op or a value cannot be checked independently of the fold. The message gives the reason.
    """


class Origins(NamedTuple):
    """The sources of elements of a result; every array has one entry per element."""

    positions: Positions
    """The positions in the operand; for padding, of the nearest element on the edge."""

    operands: NDArray[np.int64] | None = None
    """The index of each element's operand; None if all come from the first operand."""

    is_new: NDArray[np.bool_] | None = None
    """A mask of the elements that are padding; None if there are none."""


@singledispatch
def origins(movement: Movement, operands: Sequence[Shape], positions: Positions) -> Origins:
    """
    The sources of the elements at `positions` of the result.

    `operands` are static shapes. Raises NotCertifiableError for an unknown movement; register
    others with `origins.register`.
    """
    raise NotCertifiableError(
        f"no index map is registered for movement '{type(movement).__name__}'"
    )


@singledispatch
def moved_shape(movement: Movement, operands: Sequence[Shape]) -> Shape:
    """
    The shape of the result of a movement of operands with static shapes.

    Raises NotCertifiableError for an unknown movement.
    """
    raise NotCertifiableError(
        f"no result shape is registered for movement '{type(movement).__name__}'"
    )


def steps_of(movements: Sequence[Movement]) -> Iterator[Movement]:
    """The movements, with chains expanded, in the order in which they are applied."""
    for movement in movements:
        if isinstance(movement, Chain):
            yield from steps_of((movement.first, *movement.others))
        else:
            yield movement


def coordinates(positions: Positions, shape: Shape) -> list[Positions]:
    """For each axis, the indices of the elements at row-major positions."""
    indices: list[Positions] = []
    for length in reversed(shape):
        # Every position is less than the stride above the first axis.
        positions, index = np.divmod(positions, max(length, 1))
        indices.append(index)
    return indices[::-1]


def positions_of(indices: Sequence[Positions], shape: Shape, count: int) -> Positions:
    """The row-major positions of `count` elements, given their indices on each axis."""
    positions = np.zeros(count, dtype=np.int64)
    for index, length in zip(indices, shape, strict=True):
        positions = positions * length + index
    return positions


def index_at(position: int, shape: Shape) -> list[int]:
    """The index of one element, as a list."""
    return [int(index[0]) for index in coordinates(np.array([position], dtype=np.int64), shape)]


@origins.register(Transpose)
def _(movement: Transpose, operands: Sequence[Shape], positions: Positions) -> Origins:
    (shape,) = operands
    of_result = coordinates(positions, moved_shape(movement, operands))
    of_operand = list(of_result)
    for axis, source_axis in enumerate(movement.permutation):
        of_operand[source_axis] = of_result[axis]
    return Origins(positions_of(of_operand, shape, len(positions)))


@moved_shape.register(Transpose)
def _(movement: Transpose, operands: Sequence[Shape]) -> Shape:
    return tuple(operands[0][axis] for axis in movement.permutation)


@origins.register(Reshape)
def _(movement: Reshape, operands: Sequence[Shape], positions: Positions) -> Origins:
    return Origins(positions)


@moved_shape.register(Reshape)
def _(movement: Reshape, operands: Sequence[Shape]) -> Shape:
    if math.prod(movement.shape) != math.prod(operands[0]):
        raise NotCertifiableError(f"{operands[0]} is reshaped to {movement.shape}")
    return movement.shape


@origins.register(Slice)
def _(movement: Slice, operands: Sequence[Shape], positions: Positions) -> Origins:
    indices = coordinates(positions, movement.sizes)
    starts = zip(indices, movement.offsets, movement.strides, strict=True)
    shifted = [offset + index * stride for index, offset, stride in starts]
    return Origins(positions_of(shifted, operands[0], len(positions)))


@moved_shape.register(Slice)
def _(movement: Slice, operands: Sequence[Shape]) -> Shape:
    return movement.sizes


@origins.register(Concat)
def _(movement: Concat, operands: Sequence[Shape], positions: Positions) -> Origins:
    indices = coordinates(positions, moved_shape(movement, operands))
    ends = np.array(list(accumulate(shape[movement.dim] for shape in operands)), dtype=np.int64)
    along = indices[movement.dim]
    numbers = np.searchsorted(ends, along, side="right")
    lengths = np.diff(ends, prepend=0)[numbers]
    sources = np.zeros(len(positions), dtype=np.int64)
    for axis, index in enumerate(indices):
        if axis == movement.dim:
            sources = sources * lengths + along - (ends[numbers] - lengths)
        else:
            sources = sources * operands[0][axis] + index
    return Origins(sources, numbers)


@moved_shape.register(Concat)
def _(movement: Concat, operands: Sequence[Shape]) -> Shape:
    first, dim = operands[0], movement.dim
    return (*first[:dim], sum(shape[dim] for shape in operands), *first[dim + 1 :])


@origins.register(BroadcastInDim)
def _(movement: BroadcastInDim, operands: Sequence[Shape], positions: Positions) -> Origins:
    (shape,) = operands
    indices = coordinates(positions, movement.shape)
    taken = [
        indices[dim] if length != 1 else np.zeros_like(positions)
        for dim, length in zip(movement.dims, shape, strict=True)
    ]
    return Origins(positions_of(taken, shape, len(positions)))


@moved_shape.register(BroadcastInDim)
def _(movement: BroadcastInDim, operands: Sequence[Shape]) -> Shape:
    return movement.shape


@origins.register(Reverse)
def _(movement: Reverse, operands: Sequence[Shape], positions: Positions) -> Origins:
    (shape,) = operands
    indices = [
        length - 1 - index if axis in movement.dims else index
        for axis, (index, length) in enumerate(
            zip(coordinates(positions, shape), shape, strict=True)
        )
    ]
    return Origins(positions_of(indices, shape, len(positions)))


@moved_shape.register(Reverse)
def _(movement: Reverse, operands: Sequence[Shape]) -> Shape:
    return operands[0]


@origins.register(Pad)
def _(movement: Pad, operands: Sequence[Shape], positions: Positions) -> Origins:
    (shape,) = operands
    is_new = np.zeros(len(positions), dtype=np.bool_)
    nearest: list[Positions] = []
    indices = coordinates(positions, moved_shape(movement, operands))
    for axis, (index, length) in enumerate(zip(indices, shape, strict=True)):
        step = movement.gaps[axis] + 1
        shifted = index - movement.low[axis]
        # Between two positions, the lower one counts as the nearest.
        edge = np.clip(shifted // step, 0, max(length - 1, 0))
        is_new |= (shifted != edge * step) | (length == 0)
        nearest.append(edge)
    return Origins(positions_of(nearest, shape, len(positions)), is_new=is_new)


@moved_shape.register(Pad)
def _(movement: Pad, operands: Sequence[Shape]) -> Shape:
    return tuple(
        low + length + max(length - 1, 0) * gap + high
        for low, length, gap, high in zip(
            movement.low, operands[0], movement.gaps, movement.high, strict=True
        )
    )


@origins.register(Take)
def _(movement: Take, operands: Sequence[Shape], positions: Positions) -> Origins:
    (shape,) = operands
    indices = coordinates(positions, moved_shape(movement, operands))
    taken = np.array(movement.indices, dtype=np.int64)
    indices[movement.dim] = taken[indices[movement.dim]]
    return Origins(positions_of(indices, shape, len(positions)))


@moved_shape.register(Take)
def _(movement: Take, operands: Sequence[Shape]) -> Shape:
    (shape,), axis = operands, movement.dim
    return (*shape[:axis], len(movement.indices), *shape[axis + 1 :])


@origins.register(InsertSlice)
def _(movement: InsertSlice, operands: Sequence[Shape], positions: Positions) -> Origins:
    inserted: list[Positions] = []
    is_inside = np.ones(len(positions), dtype=np.bool_)
    for axis, index in enumerate(coordinates(positions, operands[1])):
        place, rest = np.divmod(index - movement.offsets[axis], movement.strides[axis])
        is_inside &= (rest == 0) & (place >= 0) & (place < movement.sizes[axis])
        inserted.append(place)
    in_source = positions_of(inserted, movement.sizes, len(positions))
    numbers = np.where(is_inside, 0, 1)
    return Origins(np.where(is_inside, in_source, positions), numbers)


@moved_shape.register(InsertSlice)
def _(movement: InsertSlice, operands: Sequence[Shape]) -> Shape:
    return operands[1]
