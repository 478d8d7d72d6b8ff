"""Elements at positions computed at run time: slices, gathers and scatters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.utils.exceptions import InterpretationError

from qdialect.algebra.movement import Shape
from qdialect.check.interpreters.memory import allocated, temporary_memory
from qdialect.check.interpreters.reference.reductions import Arrays, Combine
from qdialect.check.interpreters.reference.values import is_integer
from qdialect.check.interpreters.values import TypedArray

Elements = NDArray[Any]
Integers = NDArray[np.int64]


def indices_of(value: TypedArray) -> Integers:
    """Positions as int64. Raises InterpretationError for numbers that are not integers."""
    if not is_integer(value.element_type):
        raise InterpretationError("its indices are not integers")
    if value.elements.dtype == np.int64:
        return value.elements

    def numbers() -> Integers:
        if value.elements.dtype != np.uint64:
            return value.numbers
        # Numbers beyond int64 are out of range of any axis.
        return np.minimum(value.elements, np.iinfo(np.int64).max).astype(np.int64)

    return allocated(numbers, 8 * value.elements.size)


def slice_at(starts: Sequence[int], sizes: Shape, shape: Shape) -> tuple[slice, ...]:
    """The window of `sizes` that begins at `starts`, moved inside of `shape`."""
    if not len(starts) == len(sizes) == len(shape) or any(
        size > length for size, length in zip(sizes, shape, strict=True)
    ):
        raise InterpretationError(
            f"a window of shape {list(sizes)} exceeds the operand of shape {list(shape)}"
        )
    first = [
        min(max(start, 0), length - size)
        for start, size, length in zip(starts, sizes, shape, strict=True)
    ]
    return tuple(slice(at, at + size) for at, size in zip(first, sizes, strict=True))


@dataclass(frozen=True)
class WindowNumbers:
    """The correspondence of the axes of an operand, of indices, and of many windows."""

    windows: Sequence[int]
    """The axes of the windows that are axes of the operand; the others are of the indices."""
    dropped: Sequence[int]
    """The axes of the operand that windows lack, since they have one position along them."""
    batching: Sequence[int]
    """
    The batching axes of the operand, which correspond to axes of the indices; windows lack them,
    too.
    """
    indices_batching: Sequence[int]
    starts: Sequence[int]
    """For each element of an index vector, the axis of the operand that it indexes."""
    vector: int
    """The axis of the indices that holds index vectors; None if there is none."""


def _places(
    numbers: WindowNumbers, indices: Integers, sizes: Shape, shape: Shape, *, is_inside: bool
) -> tuple[list[Integers], Shape]:
    """
    For each axis of the operand, the position of each element of the windows, and their shape.

    The axes of the indices come first. `is_inside` says that windows are moved into `shape`.
    """
    vectors = np.expand_dims(indices, -1) if numbers.vector == indices.ndim else indices
    vectors = np.moveaxis(vectors, numbers.vector, -1)
    batch = vectors.shape[:-1]
    gone = {*numbers.dropped, *numbers.batching}
    kept = [axis for axis in range(len(shape)) if axis not in gone]
    rank = len(batch) + len(kept)
    if vectors.shape[-1] != len(numbers.starts) or len(sizes) != len(shape):
        raise InterpretationError("its dimension numbers do not match its operands")
    places: list[Integers] = []
    for axis, (size, length) in enumerate(zip(sizes, shape, strict=True)):
        place: Integers = np.zeros([1] * rank, np.int64)
        if axis in numbers.starts:
            start: Integers = vectors[..., numbers.starts.index(axis)]
            if is_inside:
                start = start.clip(0, length - size)
            place = start.reshape((*batch, *[1] * len(kept)))
        if axis in numbers.batching:
            at = numbers.indices_batching[numbers.batching.index(axis)]
            at -= at > numbers.vector
            place = place + _along(np.arange(int(batch[at])), at, rank)
        if axis in kept:
            place = place + _along(np.arange(size), len(batch) + kept.index(axis), rank)
        places.append(place)
    return places, (*batch, *(sizes[axis] for axis in kept))


def _along(line: Integers, axis: int, rank: int) -> Integers:
    return line.reshape([-1 if at == axis else 1 for at in range(rank)])


def gathered(
    elements: Elements, indices: Integers, numbers: WindowNumbers, sizes: Shape
) -> Elements:
    """The windows of `sizes` that start at index vectors, clamped into the operand."""
    with temporary_memory(2 * indices.size * indices.itemsize):
        places, shape = _places(numbers, indices, sizes, elements.shape, is_inside=True)
    nbytes = math.prod(shape) * elements.dtype.itemsize
    with temporary_memory(8 * sum(place.size for place in places)):
        found = allocated(lambda: np.asarray(elements[tuple(places)]), nbytes)
        found = np.broadcast_to(found, shape)
    return found.transpose(_order(numbers, len(shape)))


def _order(numbers: WindowNumbers, rank: int) -> Sequence[int]:
    """The permutation of the axes of many windows that puts the axes of the indices first."""
    others = [at for at in range(rank) if at not in numbers.windows]
    first = [*others, *numbers.windows]
    return [first.index(at) for at in range(rank)]


def scattered(
    combine: Combine,
    arrays: Arrays,
    indices: Integers,
    updates: Arrays,
    numbers: WindowNumbers,
) -> Arrays:
    """
    `arrays` with the elements of windows combined with those of `updates`, in their order.

    Positions out of range are skipped.
    """
    shape, updated = arrays[0].shape, updates[0].shape
    gone = {*numbers.dropped, *numbers.batching}
    lengths = iter(updated[axis] for axis in numbers.windows)
    sizes = tuple(1 if axis in gone else next(lengths, 1) for axis in range(len(shape)))
    places, spread = _places(numbers, indices, sizes, shape, is_inside=False)
    others = [at for at in range(len(updated)) if at not in numbers.windows]
    moved = [of.transpose([*others, *numbers.windows]) for of in updates]
    if moved[0].shape != spread:
        raise InterpretationError("its updates do not match its indices")
    made = [allocated(of.copy, of.nbytes) for of in arrays]
    count = math.prod(spread)
    with temporary_memory(count * 8 * (len(shape) + len(arrays) + 4)):
        at = [np.broadcast_to(place, spread).reshape(-1) for place in places]
        inside = np.ones(count, bool)
        for place, length in zip(at, shape, strict=True):
            inside &= (place >= 0) & (place < length)
        flat = np.zeros(count, np.int64)
        for place, length in zip(at, shape, strict=True):
            flat = flat * length + place
        values = [of.reshape(-1)[inside] for of in moved]
        targets = [of.reshape(-1) for of in made]
        for which in _rounds(flat[inside]):
            to = flat[inside][which]
            found = combine([of[to] for of in targets], [of[which] for of in values])
            for target, of in zip(targets, found, strict=True):
                target[to] = of
    return [of.reshape(shape) for of in targets]


def _rounds(places: Integers) -> Sequence[Integers]:
    """The indices of `places`, in groups without duplicate places, in order."""
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    is_new = np.diff(ordered, prepend=-1) != 0
    first = np.maximum.accumulate(np.where(is_new, np.arange(len(places)), 0))
    turn = np.arange(len(places)) - first
    by_turn = np.argsort(turn, kind="stable")
    counts = np.bincount(turn, minlength=1)
    return [order[which] for which in np.split(by_turn, np.cumsum(counts)[:-1])]
