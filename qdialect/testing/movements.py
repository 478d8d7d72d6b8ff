"""Strategies for movements, with numpy's results."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from qdialect.algebra.joins import Concat, InsertSlice
from qdialect.algebra.movement import (
    BroadcastInDim,
    Movement,
    Reshape,
    Reverse,
    Shape,
    Slice,
    Take,
    Transpose,
)
from qdialect.algebra.padding import Pad, PadWith, ZeroPoint
from qdialect.testing.tensors import divisors, shapes


@st.composite
def reshaped(draw: st.DrawFn, shape: Shape) -> Shape:
    """Another shape with the same number of elements."""
    left, lengths = math.prod(shape), list[int]()
    if left == 0:
        return (*draw(shapes(max_rank=2)), 0)
    while left > 1 and len(lengths) < 5:
        length = draw(st.sampled_from(divisors(left)))
        lengths.append(length)
        left //= length
    return tuple(draw(st.permutations([*lengths, left])))


@st.composite
def slices(draw: st.DrawFn, shape: Shape) -> Slice:
    """Slices that start inside blocks, and stride over them."""
    offsets, sizes, strides = list[int](), list[int](), list[int]()
    for length in shape:
        offset = draw(st.integers(0, max(length - 1, 0)))
        stride = draw(st.sampled_from([1, 1, 2, 3]))
        most = -(-(length - offset) // stride)
        offsets.append(offset)
        sizes.append(draw(st.integers(min(1, most), most)))
        strides.append(stride)
    return Slice(tuple(offsets), tuple(sizes), tuple(strides))


@st.composite
def broadcasts(draw: st.DrawFn, shape: Shape) -> BroadcastInDim:
    """Broadcasts to up to two new axes, in any order."""
    rank = len(shape) + draw(st.integers(0, 2))
    dims = tuple(draw(st.permutations(range(rank)))[: len(shape)])
    result = [draw(st.integers(1, 3)) for _ in range(rank)]
    for length, dim in zip(shape, dims, strict=True):
        if length != 1:
            result[dim] = length
    return BroadcastInDim(dims, tuple(result))


def movements_by_class(shape: Shape) -> dict[type[Movement], st.SearchStrategy[Movement]]:
    """For each class of movements of one operand, those of an operand of `shape`."""
    axes = range(len(shape))
    widths = st.tuples(*(st.integers(0, 2) for _ in axes))
    by_class: dict[type[Movement], st.SearchStrategy[Movement]] = {
        Transpose: st.permutations(axes).map(lambda axes: Transpose(tuple(axes))),
        Reshape: reshaped(shape).map(Reshape),
        Slice: slices(shape),
        BroadcastInDim: broadcasts(shape),
        Reverse: st.permutations(axes).flatmap(
            lambda axes: st.integers(0, len(axes)).map(lambda count: Reverse(tuple(axes[:count])))
        ),
        Pad: st.builds(Pad, widths, widths),
        PadWith: st.builds(PadWith, widths, widths, widths, st.just(ZeroPoint())),
    }
    lengths = [axis for axis in axes if shape[axis]]
    if lengths:
        by_class[Take] = st.sampled_from(lengths).flatmap(
            lambda axis: st.lists(st.integers(0, shape[axis] - 1), min_size=1, max_size=5).map(
                lambda indices: Take(axis, tuple(indices))
            )
        )
    return by_class


def unary_movements(shape: Shape) -> st.SearchStrategy[Movement]:
    """Movements of one operand of `shape`, of every class."""
    return st.one_of(list(movements_by_class(shape).values()))


def numpy_moves(
    movement: Movement, *operands: NDArray[Any], padding: ArrayLike | None = None
) -> NDArray[Any]:
    """
    The result of numpy's own functions on `operands`.

    New positions of a padding are `padding`, an array or a number, or else the nearest element.
    Raises TypeError for a class of movements that is not from qdialect.
    """
    (operand, *_) = operands
    match movement:
        case Transpose():
            return np.transpose(operand, movement.permutation)
        case Reshape():
            return np.reshape(operand, movement.shape)
        case Slice():
            index = np.ix_(
                *(
                    offset + np.arange(size) * stride
                    for offset, size, stride in zip(
                        movement.offsets, movement.sizes, movement.strides, strict=True
                    )
                )
            )
            return operand[index] if index else operand
        case Concat():
            return np.concatenate(operands, axis=movement.dim)
        case BroadcastInDim():
            index = np.indices(movement.shape)
            return operand[
                tuple(
                    index[dim] % length
                    for dim, length in zip(movement.dims, operand.shape, strict=True)
                )
            ] + np.zeros(movement.shape, dtype=operand.dtype)
        case Reverse():
            return np.flip(operand, movement.dims)
        case Pad():
            moved = operand
            for axis, (low, high) in enumerate(zip(movement.low, movement.high, strict=True)):
                # Between two positions, the one before counts as the nearest.
                step = movement.gaps[axis] + 1
                last = (operand.shape[axis] - 1) * step
                positions = [min(max(at, 0), last) // step for at in range(-low, last + 1 + high)]
                moved = moved.take(positions, axis)
            if padding is None:
                return moved
            padded = np.broadcast_to(np.asarray(padding, operand.dtype), moved.shape).copy()
            sides = zip(movement.low, operand.shape, movement.gaps, strict=True)
            padded[
                tuple(
                    slice(low, low + (length - 1) * (gap + 1) + 1, gap + 1)
                    for low, length, gap in sides
                )
            ] = operand
            return padded
        case InsertSlice():
            result = operands[1].copy()
            starts = zip(movement.offsets, movement.sizes, movement.strides, strict=True)
            positions = [offset + np.arange(size) * stride for offset, size, stride in starts]
            result[np.ix_(*positions)] = operands[0].reshape(movement.sizes)
            return result
        case Take():
            return operand[(slice(None),) * movement.dim + (list(movement.indices),)]
        case _:
            raise TypeError(movement)


@st.composite
def joins(draw: st.DrawFn) -> tuple[Movement, list[Shape]]:
    """A movement of several operands, and their shapes."""
    shape = draw(shapes(min_rank=1, max_rank=3))
    axis = draw(st.integers(0, len(shape) - 1))
    other = (*shape[:axis], draw(st.integers(1, 4)), *shape[axis + 1 :])
    part = draw(slices(shape))
    return draw(
        st.sampled_from(
            [
                (Concat(axis), [shape, other]),
                (InsertSlice(part.offsets, part.sizes, part.strides), [part.sizes, shape]),
            ]
        )
    )
