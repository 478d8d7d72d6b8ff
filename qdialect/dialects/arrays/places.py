"""Elements at positions that are computed at run time: slices, gathers, scatters and sorts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import TensorType, i1
from xdsl.interpreter import Interpreter
from xdsl.ir import Operation
from xdsl.utils.exceptions import InterpretationError

from qdialect.algebra.movement import Shape
from qdialect.dialects.arrays.elements import all_numbers, is_float, is_integer, rounded
from qdialect.dialects.arrays.reductions import Arrays, Combine
from qdialect.dialects.arrays.scalar_functions import total_order
from qdialect.dialects.arrays.values import (
    TypedArray,
    TypedArrays,
    allocated,
    temporary_memory,
    value_of,
    without_repeats,
)
from qdialect.ops.fields import WindowNumbers
from qdialect.ops.interface import integer_of, name_of

Indices = tuple[NDArray[np.int64], ...]
"""Positions along each axis."""


def within(indices: Indices, shape: Shape) -> Indices:
    """`indices` after a bounds check against `shape`. Raises InterpretationError."""
    for index, length in zip(indices, shape, strict=True):
        if ((index < 0) | (index >= length)).any():
            raise InterpretationError(f"an index is out of range for an axis of length {length}")
    return indices


def elements_at(elements: NDArray[Any], indices: Indices) -> NDArray[Any]:
    """
    The elements at positions along each axis, as numpy indexes. Axes without change are broadcast.

    Raises InterpretationError for positions out of range.
    """
    shape = np.broadcast_shapes(*(index.shape for index in indices))
    at = within(tuple(map(without_repeats, indices)), elements.shape)
    core = np.broadcast_shapes(*(index.shape for index in at))
    # Counted from the end, since shapes may lack leading axes.
    varying = [axis for index in at for axis in range(-index.ndim, 0) if index.shape[axis] != 1]
    is_mesh = varying == sorted({*varying})
    is_mesh = is_mesh and all(index.size == max(index.shape, default=1) for index in at)
    if not (is_mesh and varying and elements.size):
        with temporary_memory(8 * math.prod(core) * len(at)):
            nbytes = math.prod(core) * elements.dtype.itemsize
            taken = allocated(lambda: np.asarray(elements[at]), nbytes)
        return np.broadcast_to(taken, shape)
    # One axis after another takes a tenth of the time; those that become shorter are first.
    for axis in sorted(range(len(at)), key=lambda axis: at[axis].size / elements.shape[axis]):
        nbytes = elements.nbytes // elements.shape[axis] * at[axis].size
        elements = allocated(partial(np.take, elements, at[axis].reshape(-1), axis), nbytes)
    return np.broadcast_to(elements.reshape(core), shape)


Elements = NDArray[Any]
Integers = NDArray[np.int64]


def without_equal(positions: Integers) -> Integers:
    """`positions`, with only the first one along each axis where all are equal."""
    for axis in range(positions.ndim):
        first = positions.take([0], axis)
        positions = first if (positions == first).all() else positions
    return positions


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


def rows_at(_: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    """
    The rows of a tensor at positions along its first axis; -1 is the last row.

    Raises InterpretationError for positions along other axes, too, or out of range.
    """
    tensor, *places = operands
    if len(places) != 1:
        raise InterpretationError("it has positions along several axes")
    rows, positions = tensor.elements, indices_of(places[0])
    positions = np.where(positions < 0, positions + len(rows), positions)
    (positions,) = within((positions,), rows.shape[:1])
    nbytes = positions.size * math.prod(rows.shape[1:]) * rows.dtype.itemsize
    return [TypedArray.of(allocated(lambda: rows[positions], nbytes), op.results[0].type)]


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
            place = place + along(np.arange(int(batch[at])), at, rank)
        if axis in kept:
            place = place + along(np.arange(size), len(batch) + kept.index(axis), rank)
        places.append(place)
    return places, (*batch, *(sizes[axis] for axis in kept))


def along(line: NDArray[Any], axis: int, rank: int) -> NDArray[Any]:
    """A list, as an array that varies along one axis only."""
    return line.reshape([-1 if at == axis else 1 for at in range(rank)])


def gathered(
    elements: Elements, indices: Integers, numbers: WindowNumbers, sizes: Shape
) -> Elements:
    """The windows of `sizes` that start at index vectors, clamped into the operand."""
    with temporary_memory(2 * indices.size * indices.itemsize):
        places, shape = _places(numbers, indices, sizes, elements.shape, is_inside=True)
    nbytes = math.prod(shape) * elements.dtype.itemsize
    with temporary_memory(8 * sum(place.size for place in places)):
        windows = allocated(lambda: np.asarray(elements[tuple(places)]), nbytes)
        windows = np.broadcast_to(windows, shape)
    return windows.transpose(_order(numbers, len(shape)))


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
    moved = [update.transpose([*others, *numbers.windows]) for update in updates]
    if moved[0].shape != spread:
        raise InterpretationError("its updates do not match its indices")
    copies = [allocated(array.copy, array.nbytes) for array in arrays]
    count = math.prod(spread)
    with temporary_memory(count * 8 * (len(shape) + len(arrays) + 4)):
        at = [np.broadcast_to(place, spread).reshape(-1) for place in places]
        inside = np.ones(count, bool)
        for place, length in zip(at, shape, strict=True):
            inside &= (place >= 0) & (place < length)
        flat = np.zeros(count, np.int64)
        for place, length in zip(at, shape, strict=True):
            flat = flat * length + place
        values = [update.reshape(-1)[inside] for update in moved]
        targets = [copy.reshape(-1) for copy in copies]
        for which in _rounds(flat[inside]):
            to = flat[inside][which]
            combined = combine(
                [target[to] for target in targets], [value[which] for value in values]
            )
            for target, elements in zip(targets, combined, strict=True):
                target[to] = elements
    return [target.reshape(shape) for target in targets]


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


Order = NDArray[np.int64]

IsBefore = Callable[[Order, Order], NDArray[np.bool_]]
"""Whether the elements at some positions in rows come before those at others: (rows, count)."""

_ARRAYS = 12
"""The number of temporary arrays of the size of the order."""


def run_sort(
    interpreter: Interpreter,
    op: Operation,
    operands: TypedArrays,
    axis: int,
    *,
    is_strict: bool,
) -> TypedArrays:
    """
    The operands, sorted along `axis` by the region of an op. Equal elements keep their order.

    The region gets two elements of each operand. It returns whether the first ones come before the
    second ones, or, if not `is_strict`, whether they need not be swapped. Raises
    InterpretationError.
    """
    shape = operands[0].shape
    if any(value.shape != shape for value in operands) or not -len(shape) <= axis < len(shape):
        raise InterpretationError("its operands differ in shape, or the axis is out of range")
    (region,) = op.regions
    moved = [np.moveaxis(value.elements, axis, -1) for value in operands]
    count = shape[axis]
    if not operands[0].elements.size:
        return operands
    rows = [elements.reshape(-1, count) for elements in moved]

    def is_before(one: Order, other: Order) -> NDArray[np.bool_]:
        given: list[TypedArray] = []
        for row, value in zip(rows, operands, strict=True):
            for order in (one, other) if is_strict else (other, one):
                elements = np.take_along_axis(row, order, 1)
                given.append(TypedArray(elements, TensorType(value.element_type, order.shape)))
        (truths,) = interpreter.run_ssacfg_region(region, tuple(given), name_of(op))
        return np.broadcast_to((value_of(truths, i1).elements != 0) == is_strict, one.shape)

    order = sorted_order(len(rows[0]), count, is_before)
    return [
        TypedArray.of(
            np.moveaxis(np.take_along_axis(row, order, 1).reshape(elements.shape), -1, axis),
            result.type,
        )
        for row, elements, result in zip(rows, moved, op.results, strict=True)
    ]


def sorted_order(rows: int, count: int, is_before: IsBefore) -> Order:
    """
    The positions of the elements of each row in sorted order: (rows, count).

    The sort is stable. Runs are merged in pairs: the place of each element is found in the other
    run by bisection, for all elements at once.
    """
    with temporary_memory(_ARRAYS * 8 * rows * count):
        order = np.broadcast_to(np.arange(count), (rows, count)).copy()
        width = 1
        while width < count:
            order = _merged(order, width, is_before)
            width *= 2
    return order


def _merged(order: Order, width: int, is_before: IsBefore) -> Order:
    count = order.shape[1]
    own = np.arange(count, dtype=np.int64)
    within = np.remainder(own, 2 * width)
    start, is_left = np.subtract(own, within), np.less(within, width)
    first = np.minimum(np.where(is_left, start + width, start), count)
    last = np.where(is_left, np.minimum(first + width, count), start + width)
    low, high = (np.broadcast_to(ends, order.shape) for ends in (first, last))
    while (is_open := low < high).any():
        middle = (low + high) // 2
        other = np.take_along_axis(order, np.minimum(middle, count - 1), 1)
        # Of equal elements, those of the left run come first.
        goes_on = np.where(is_left, is_before(other, order), ~is_before(order, other))
        low = np.where(is_open & goes_on, middle + 1, low)
        high = np.where(is_open & ~goes_on, middle, high)
    place = own - np.where(is_left, 0, width) + low - first
    # Two elements may get the same place if the comparison is not an order, as with NaN.
    return np.take_along_axis(order, np.argsort(place, axis=1, kind="stable"), 1)


def top_k(_: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    """The greatest elements of each row, and their positions; the first of equal ones."""
    (value,) = operands
    count = integer_of(op, "k")
    if not value.shape or not 0 <= count <= value.shape[-1]:
        raise InterpretationError(f"a row has fewer than {count} elements")
    # Reserve memory for the numbers, the keys and their order.
    with all_numbers(value, value, value) as numbers:
        keys = total_order(numbers[0]) if is_float(value) else numbers[0]
        # Invert the bits to reverse the order, since negation can overflow.
        order = np.argsort(~keys, axis=-1, kind="stable")[..., :count]
        taken = TypedArray.of(np.take_along_axis(value.elements, order, -1), op.results[0].type)
        return [taken, rounded(order, op.results[1].type)]
