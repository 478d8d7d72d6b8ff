"""Strategies for shapes, quantization parameters and movements, with numpy's results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

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
from qdialect.algebra.parameters import QuantizationParameters, StorageFormat
from qdialect.support.float_format import FLOAT_FORMATS

Draw = st.DrawFn

I8 = StorageFormat(8, signed=True)
F32 = FLOAT_FORMATS["f32"]


def divisors(length: int) -> list[int]:
    """All divisors of a positive length."""
    return [d for d in range(1, length + 1) if length % d == 0]


@st.composite
def shapes(draw: Draw, min_rank: int = 0, max_rank: int = 5) -> Shape:
    """Shapes of up to 256 elements: repeated, unequal and unit lengths."""
    shape: list[int] = []
    for _ in range(draw(st.integers(min_rank, max_rank))):
        room = 256 // math.prod(shape)
        shape.append(draw(st.sampled_from([n for n in (1, 2, 3, 4, 6, 8) if n <= room])))
    return tuple(draw(st.permutations(shape)))


@st.composite
def slot_counts(draw: Draw, shape: Shape) -> tuple[int, ...]:
    """The number of blocks on each axis, with several blocks on no, one, or any axes."""
    granularity = draw(st.sampled_from(["per-tensor", "per-axis", "sub-channel"]))
    counts = [1] * len(shape)
    if granularity == "per-axis" and shape:
        axis = draw(st.integers(0, len(shape) - 1))
        counts[axis] = max(shape[axis], 1)
    elif granularity == "sub-channel":
        counts = [draw(st.sampled_from(divisors(length) or [1])) for length in shape]
    return tuple(counts)


@st.composite
def parameters(
    draw: Draw, shape: Shape, storage: StorageFormat = I8, *, distinct: bool = False
) -> QuantizationParameters:
    """Parameters of a tensor of `shape`, with repeated slots unless `distinct`."""
    counts = draw(slot_counts(shape))
    size = math.prod(counts)
    if distinct:
        ids = np.arange(size)
    else:
        ids = np.array(draw(st.lists(st.integers(0, 3), min_size=size, max_size=size)))
    ids = ids.reshape(counts).astype(np.int64)
    start = draw(st.integers(0, 1000))
    least = -(1 << (storage.width - 1)) if storage.signed else 0
    return QuantizationParameters.from_blocks(
        shape,
        (ids + 1 + start) / 64.0,
        least + (ids + start) % (1 << storage.width),
        F32,
        storage,
    )


@st.composite
def reshaped(draw: Draw, shape: Shape) -> Shape:
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
def slices(draw: Draw, shape: Shape) -> Slice:
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
def broadcasts(draw: Draw, shape: Shape) -> BroadcastInDim:
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


def numpy_moves(movement: Movement, *operands: NDArray[Any]) -> NDArray[Any]:
    """The result of numpy's own functions on `operands`, padded with the nearest edge."""
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
            none = (0,) * operand.ndim
            interior = movement.interior if isinstance(movement, PadWith) else none
            for axis, (low, high) in enumerate(zip(movement.low, movement.high, strict=True)):
                # Between two positions, the one before counts as the nearest.
                step = interior[axis] + 1
                last = (operand.shape[axis] - 1) * step
                positions = [min(max(at, 0), last) // step for at in range(-low, last + 1 + high)]
                operand = operand.take(positions, axis)
            return operand
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
def joins(draw: Draw) -> tuple[Movement, list[Shape]]:
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


def expanded(of: QuantizationParameters) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The scale and zero point of every element, from the slot of every position."""
    positions = np.ix_(
        *(
            np.searchsorted(ends, np.arange(length), side="right")
            for ends, length in zip(of.ends, of.shape, strict=True)
        )
    )
    scales, zero_points = np.asarray(of.scales), np.asarray(of.zero_points)
    if positions:
        scales, zero_points = scales[positions], zero_points[positions]
    return scales.astype(np.float32), cut(zero_points, of.storage)


def cut(values: NDArray[np.int64], storage: StorageFormat) -> NDArray[np.int64]:
    """`values` truncated to the storage width."""
    modulus = 1 << storage.width
    values = values % modulus
    return np.where((values >= modulus // 2) & storage.signed, values - modulus, values)


def first_index(differs: Sequence[bool] | NDArray[np.bool_]) -> tuple[int, ...] | None:
    """The first index, in row-major order, of a true element."""
    indices = np.argwhere(differs)
    return tuple(map(int, indices[0])) if len(indices) else None
