"""
Functions from the elements of a tensor to slots, which move along with the elements.

A shape op is a function `f` from result indices to operand indices. It turns a function `s`
from an index to a slot into `s . f`. `SlotMap` is such an `s`, in separable form: each axis is
divided into runs of positions that have the same slots, and the slots are arrays with one
dimension per axis. Every movement preserves that form, so the result is always exact, and its
cost depends on the number of runs, never on the number of elements.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple, Self, SupportsIndex, TypeAlias

from typing_extensions import override

from qdialect.support.lazy_numpy import ArrayFunctions, NDArray, np
from qdialect.support.memory import current_budget, registered_cache


class Regrouping(NamedTuple):
    """
    A reshape as splits, rearrangements and merges of axes.

    Each operand axis is split into factors; each group of neighbouring factors is either kept,
    or flattened and split differently; then factors are merged into result axes.
    """

    operand_factors: tuple[tuple[int, ...], ...]
    """The factors of each operand axis, the slowest first; none for a length of one."""

    groups: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    """
    Operand factors, and result factors with the same product; the slowest group first. Most
    groups are one factor that both shapes have; the others cannot be divided further.
    """

    result_factors: tuple[tuple[int, ...], ...]
    """The factors of each result axis."""


class _Factors:
    """Divides factors off the fastest axis of a shape, and records the axis of each."""

    def __init__(self, shape: Sequence[int]):
        self.lengths = list(shape)
        self.axis = len(shape) - 1
        self.taken: list[list[int]] = [[] for _ in shape]

    def left(self) -> int:
        """The undivided length of the fastest axis that has factors left, or one."""
        while self.axis > 0 and self.lengths[self.axis] == 1:
            self.axis -= 1
        return self.lengths[self.axis] if self.lengths else 1

    def take(self, factor: int) -> int:
        self.lengths[self.axis] //= factor
        self.taken[self.axis].append(factor)
        return factor

    def by_axis(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(reversed(factors)) for factors in self.taken)


@registered_cache
@lru_cache(maxsize=1024)
def regroup(operand_shape: tuple[int, ...], result_shape: tuple[int, ...]) -> Regrouping:
    """
    The factors that a reshape from `operand_shape` to `result_shape` moves.

    Both shapes have the same product, which is not zero.
    """
    operand, result = _Factors(operand_shape), _Factors(result_shape)
    groups: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    while (length := operand.left()) > 1:
        common = math.gcd(length, result.left())
        if common > 1:
            groups.append(((operand.take(common),), (result.take(common),)))
        else:
            groups.append(_take_knot(operand, result))
    return Regrouping(operand.by_axis(), tuple(reversed(groups)), result.by_axis())


def _take_knot(operand: _Factors, result: _Factors) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shortest run of factors that has the same product on both sides."""
    mine, theirs = [operand.take(operand.left())], [result.take(result.left())]
    while (product := math.prod(mine)) != (other := math.prod(theirs)):
        missing = other // math.gcd(product, other)
        factors, side = (mine, operand) if missing > 1 else (theirs, result)
        if side is result:
            missing = product // math.gcd(product, other)
        left = side.left()
        common = math.gcd(left, missing)
        factors.append(side.take(common if common > 1 else left))
    return tuple(reversed(mine)), tuple(reversed(theirs))


IntArray: TypeAlias = "NDArray[np.int64]"

MAX_SLOTS: Final = 1 << 25
"""The maximum number of slots that a result may have: 512 MiB of scales and zero points."""

_BYTES_AT_WORK: Final = 64
"""Bytes that moving one slot takes: its end, scale, zero point and index, and copies to compare."""

_MAX_ELEMENTS: Final = 1 << 62


class TooManySlotsError(ValueError):
    """An exact result exists, but has more slots than `MAX_SLOTS` or the memory budget allows."""


class SlotMap(ArrayFunctions, ABC):
    """
    A function from the index of an element to a slot.

    It moves as an array does: `transpose`, `reshape`, `take` and slicing are methods with
    numpy's meaning, and `np.concatenate`, `np.broadcast_to` and `np.pad(mode="edge")`
    accept it, so that one program moves both the elements and their slots.
    """

    ends: tuple[IntArray, ...]
    """
    For each axis, the end of each run: int64, increasing; the last end is the length of the
    axis. An axis of length zero has one run.
    """

    @property
    @abstractmethod
    def slot_arrays(self) -> tuple[NDArray[Any], ...]:
        """The arrays of slots: of any dtype, one dimension per axis, one entry per run."""

    @property
    @abstractmethod
    def _meaning(self) -> tuple[NDArray[Any], ...]:
        """The arrays that slots are compared by, shaped as `slot_arrays`."""

    @abstractmethod
    def _with_slots(self, ends: tuple[IntArray, ...], arrays: Sequence[NDArray[Any]]) -> Self:
        """A map of the same class with other runs and slots."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes."""
        return self._shape

    @cached_property
    def _shape(self) -> tuple[int, ...]:
        return tuple(int(ends[-1]) for ends in self.ends)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.ends)

    @property
    def size(self) -> int:
        """The number of slots."""
        return math.prod(map(len, self.ends))

    def axis_slots(self, axis: int) -> IntArray:
        """For each position of `axis`, the index of its run: int64, `(length,)`."""
        ends = self.ends[axis]
        return np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))

    def runs_at(self, index: Sequence[int]) -> tuple[int, ...]:
        """
        For each axis the run that the element at `index` is in.

        Raises IndexError if there is no such element.
        """
        if len(index) != self.ndim or not all(
            0 <= position < length for position, length in zip(index, self.shape, strict=True)
        ):
            raise IndexError(
                f"{list(index)} is not an index of a tensor of shape {list(self.shape)}"
            )
        return tuple(
            int(np.searchsorted(ends, position, side="right"))
            for ends, position in zip(self.ends, index, strict=True)
        )

    # Movements, with numpy's names and semantics

    def transpose(self, axes: Sequence[int]) -> Self:
        """Axis `i` of the result is axis `axes[i]`."""
        return self._with(
            tuple(self.ends[axis] for axis in axes),
            lambda slots: slots.transpose(axes),
        )

    def reshape(self, shape: Sequence[int]) -> Self:
        """
        The same elements in row-major order, as a tensor of `shape`.

        All axes are flattened and split again where that repeats no slot. Otherwise they are
        split into the factors that both shapes share, and merged: only factors that do not
        divide each other are flattened. Raises ValueError if the numbers of elements differ,
        TooManySlotsError if the result has too many slots.
        """
        shape = tuple(shape)
        if shape == self.shape:
            return self
        if math.prod(shape) != math.prod(self.shape):
            raise ValueError(f"cannot reshape {self.shape} to {shape}")
        if 0 in shape or self.size == 1:
            return self._with_one_run(shape)
        if math.prod(shape) > _MAX_ELEMENTS:
            raise TooManySlotsError(f"{math.prod(shape)} elements are too many")
        moved = self.simplify()
        if moved._runs_if_flat() <= moved.size:
            return moved._merge_axes(0, moved.ndim)._split_axis(0, shape)
        regrouping = regroup(self.shape, shape)
        for axis in reversed(range(self.ndim)):
            moved = moved._split_axis(axis, regrouping.operand_factors[axis])
        axis = 0
        for operand_factors, result_factors in regrouping.groups:
            if operand_factors != result_factors:
                moved = moved._merge_axes(axis, len(operand_factors))
                moved = moved._split_axis(axis, result_factors)
            axis += len(result_factors)
        for axis, factors in enumerate(regrouping.result_factors):
            moved = moved._merge_axes(axis, len(factors))
        return moved

    def take(self, indices: IntArray, axis: int) -> Self:
        """
        Position `i` of `axis` of the result is position `indices[i]` (int64, 1-d, from 0) of
        this map.

        Raises IndexError if there is no such position.
        """
        length = self.shape[axis]
        if len(indices) and not 0 <= indices.min() <= indices.max() < length:
            raise IndexError(f"a position is out of range for axis {axis} of length {length}")
        runs = np.searchsorted(self.ends[axis], indices, side="right")
        if not len(runs):
            runs = np.zeros(1, dtype=np.int64)
            return self._with_axis(axis, np.zeros(1, dtype=np.int64), runs)
        is_last = np.append(runs[1:] != runs[:-1], True)
        return self._with_axis(axis, np.flatnonzero(is_last) + 1, runs[is_last])

    def __getitem__(self, slices: tuple[slice, ...]) -> Self:
        """The elements in `slices`, one per axis; strides may be negative."""
        moved = self
        for axis, positions in enumerate(slices):
            if positions != slice(None):
                moved = moved._slice_axis(axis, positions)
        return moved

    # Comparison by meaning

    def simplify(self) -> Self:
        """The same map, with equal neighbouring runs merged."""
        return self._simplified

    def coarsen(self) -> Self:
        """
        The same map in blocks of equal length, the largest that each axis allows.

        Raises TooManySlotsError if there are too many of them.
        """
        coarse = self.simplify()
        counts = [
            length // block if block else 1
            for length, block in zip(coarse.shape, coarse.block_sizes, strict=True)
        ]
        check_slots(math.prod(counts), coarse.size)
        for axis, (block, count) in enumerate(zip(coarse.block_sizes, counts, strict=True)):
            ends = np.arange(1, count + 1, dtype=np.int64) * block
            coarse = coarse._refine(axis, ends)
        return coarse

    def in_single_positions(self, axis: int) -> Self:
        """
        The same map with a run for each position of `axis`.

        Raises TooManySlotsError if there are too many of them.
        """
        return self._with_axis(axis, np.arange(1, self.shape[axis] + 1), self.axis_slots(axis))

    @classmethod
    def aligned(cls, maps: Sequence[Self]) -> list[Self]:
        """
        Maps of tensors of one shape, all with the same runs: the common refinement.

        Raises TooManySlotsError if there are too many of them.
        """
        columns = zip(*(slot_map.ends for slot_map in maps), strict=True)
        ends = [np.unique(np.concatenate(column)) for column in columns]
        check_slots(math.prod(map(len, ends)), sum([slot_map.size for slot_map in maps]))
        refined = list(maps)
        for axis, of_axis in enumerate(ends):
            refined = [slot_map._refine(axis, of_axis) for slot_map in refined]
        return refined

    @property
    def block_sizes(self) -> tuple[int, ...]:
        """For each axis, the largest block length that divides all its runs."""
        return tuple(int(np.gcd.reduce(ends)) for ends in self.ends)

    def slot_index(self, index: Sequence[int]) -> tuple[int, ...]:
        """For each axis, the index of the block that the element at `index` is in."""
        return tuple(
            position // block for position, block in zip(index, self.block_sizes, strict=True)
        )

    def first_difference(self, other: Self) -> tuple[int, ...] | None:
        """
        The first index, in row-major order, whose element has another slot in
        `other`, or None. Raises ValueError if the shapes differ.
        """
        if self.shape != other.shape:
            raise ValueError(f"{self.shape} and {other.shape} are different shapes")
        if self._means_same(other):
            return None
        # Bisect each axis to the shortest prefix that differs, which ends at the first difference.
        mine, theirs = self, other
        index: tuple[int, ...] = ()
        for axis, length in enumerate(self.shape):
            same, differs = 0, length
            while differs - same > 1:
                middle = (same + differs) // 2
                prefix = slice(same, middle)
                if mine._slice_axis(axis, prefix)._means_same(theirs._slice_axis(axis, prefix)):
                    same = middle
                else:
                    differs = middle
            mine = mine._slice_axis(axis, slice(same, differs))
            theirs = theirs._slice_axis(axis, slice(same, differs))
            index = (*index, same)
        return index

    def _means_same(self, other: Self) -> bool:
        if 0 in self.shape or self._is_same(other):
            return True
        mine, theirs = self.simplify(), other.simplify()
        return all(map(np.array_equal, mine.ends, theirs.ends)) and all(
            map(np.array_equal, mine._meaning, theirs._meaning)
        )

    def _is_same(self, other: Self) -> bool:
        """Whether runs and slots have the same bits."""
        return self is other or all(
            mine.shape == theirs.shape and mine.tobytes() == theirs.tobytes()
            for mine, theirs in zip(
                (*self.ends, *self.slot_arrays), (*other.ends, *other.slot_arrays), strict=True
            )
        )

    @cached_property
    def _simplified(self) -> Self:
        if 0 in self.shape:
            # There is no element to read a slot.
            return self._with_one_run(self.shape)
        merged = self
        for axis, ends in enumerate(self.ends):
            if len(ends) == 1:
                continue
            differs = np.zeros(len(ends) - 1, dtype=np.bool_)
            for bits in merged._meaning:
                along = np.moveaxis(bits, axis, 0).reshape(len(ends), -1)
                differs |= (along[1:] != along[:-1]).any(axis=1)
            if not differs.all():
                # Of several spellings of equal slots, keep the first.
                is_first = np.append(True, differs)
                is_last = np.append(differs, True)
                merged = merged._with_axis(axis, ends[is_last], np.flatnonzero(is_first))
        return merged

    # Building blocks

    def _with_one_run(self, shape: Sequence[int]) -> Self:
        """The first slot for all elements of a tensor of `shape`."""
        first, one = (slice(1),) * self.ndim, (1,) * len(shape)
        return self._with(
            tuple(np.array([length], dtype=np.int64) for length in shape),
            lambda slots: slots[first].reshape(one),
        )

    def _with(
        self,
        ends: tuple[IntArray, ...],
        move: Callable[[NDArray[Any]], NDArray[Any]],
    ) -> Self:
        return self._with_slots(ends, [move(slots) for slots in self.slot_arrays])

    def _with_axis(self, axis: int, ends: IntArray, runs: NDArray[np.intp]) -> Self:
        """The map with other runs on `axis`: they end at `ends`, and have the slots of `runs`."""
        check_slots(self.size // len(self.ends[axis]) * len(runs), self.size)
        return self._with(
            (*self.ends[:axis], ends, *self.ends[axis + 1 :]),
            lambda slots: slots.take(runs, axis=axis),
        )

    def _slice_axis(self, axis: int, positions: slice) -> Self:
        ends = self.ends[axis]
        start, stop, step = positions.indices(int(ends[-1]))
        count = len(range(start, stop, step))
        if not count:
            return self.take(np.zeros(0, dtype=np.int64), axis)
        if step < 0:
            start, step = start + (count - 1) * step, -step
        # The positions start + k * step below an end are a prefix.
        new_ends = np.clip(-((start - ends) // step), 0, count)
        kept = np.flatnonzero(np.diff(new_ends, prepend=0))
        new_ends = new_ends[kept]
        if positions.step is not None and positions.step < 0:
            starts = np.concatenate((np.zeros(1, dtype=np.int64), new_ends[:-1]))
            return self._with_axis(axis, (count - starts)[::-1], kept[::-1])
        return self._with_axis(axis, new_ends, kept)

    def _split_axis(self, axis: int, factors: Sequence[int]) -> Self:
        """The map with `axis` split into axes of lengths `factors`, the first varying slowest."""
        if not factors:
            return self._with(
                self.ends[:axis] + self.ends[axis + 1 :],
                lambda slots: slots.squeeze(axis),
            )
        if len(factors) == 1:
            return self
        ends = self.ends[axis]
        outer, inner = factors[0], math.prod(factors[1:])
        rows, columns = np.divmod(ends[:-1], inner)
        inside = columns > 0
        # A run that ends inside a row separates that row from both neighbours.
        row_ends = np.unique(np.concatenate((rows, rows[inside] + 1, np.array([outer]))))
        row_ends = row_ends[row_ends > 0]
        column_ends = np.unique(np.append(columns[inside], inner))
        check_slots(self.size // len(ends) * len(row_ends) * len(column_ends), self.size)
        corners = (row_ends - 1)[:, np.newaxis] * inner + (column_ends - 1)
        runs = np.searchsorted(ends, corners, side="right")
        split = self._with(
            (*self.ends[:axis], row_ends, column_ends, *self.ends[axis + 1 :]),
            lambda slots: slots.take(runs, axis=axis),
        )
        return split._split_axis(axis + 1, factors[1:])

    def _runs_if_flat(self) -> int:
        """The number of runs that the map would have if flattened to one axis."""
        cut_axes = [axis for axis, ends in enumerate(self.ends) if len(ends) > 1]
        # Every position of the outer axes repeats the runs of the innermost axis with several runs.
        innermost = cut_axes[-1] if cut_axes else 0
        return math.prod(self.shape[:innermost]) * len(self.ends[innermost])

    def _merge_axes(self, axis: int, count: int) -> Self:
        """
        The map with the `count` axes from `axis` on merged into one, the first varying slowest.
        """
        if count == 0:
            return self._with(
                (*self.ends[:axis], np.ones(1, dtype=np.int64), *self.ends[axis:]),
                lambda slots: np.expand_dims(slots, axis),
            )
        merged = self
        for _ in range(count - 1):
            merged = merged._merge_with_next(axis)
        return merged

    def _merge_with_next(self, axis: int) -> Self:
        outer, inner = self.ends[axis], self.ends[axis + 1]
        rows, columns = int(outer[-1]), int(inner[-1])
        merged = self
        if len(inner) > 1:
            check_slots(self.size // len(outer) * rows, self.size)
            outer = np.arange(1, rows + 1, dtype=np.int64)
            merged = self._with_axis(axis, outer, self.axis_slots(axis))
        ends = ((outer - 1)[:, np.newaxis] * columns + inner).ravel()
        if len(inner) == 1:
            ends = outer * columns
        shape = tuple(map(len, merged.ends))
        return merged._with(
            (*self.ends[:axis], ends, *self.ends[axis + 2 :]),
            lambda slots: slots.reshape(*shape[:axis], -1, *shape[axis + 2 :]),
        )

    def _refine(self, axis: int, ends: IntArray) -> Self:
        """The same map, with the runs of `axis` split at `ends`, a superset of its own ends."""
        if len(ends) == len(self.ends[axis]):
            return self
        runs = np.searchsorted(self.ends[axis], ends - 1, side="right")
        return self._with_axis(axis, ends, runs)

    @classmethod
    @override
    def _concatenate(cls, parts: Sequence[Self], axis: SupportsIndex = 0) -> Self:
        axis = int(axis)
        first = parts[0]
        # Without elements there are no slots to distinguish.
        parts = [part for part in parts if part.shape[axis]] or [first]
        for other in range(first.ndim):
            if other != axis:
                ends = np.unique(np.concatenate([part.ends[other] for part in parts]))
                parts = [part._refine(other, ends) for part in parts]
        lengths = [part.shape[axis] for part in parts]
        offsets = np.cumsum([0, *lengths[:-1]])
        ends = np.concatenate(
            [part.ends[axis] + offset for part, offset in zip(parts, offsets, strict=True)]
        )
        distinct = {id(part): part.size for part in parts}
        check_slots(sum(part.size for part in parts), sum(distinct.values()))
        return parts[0]._with_slots(
            (*parts[0].ends[:axis], ends, *parts[0].ends[axis + 1 :]),
            [
                np.concatenate(arrays, axis=axis)
                for arrays in zip(*(part.slot_arrays for part in parts), strict=True)
            ],
        )

    @override
    def _broadcast_to(self, shape: Sequence[int]) -> Self:
        new_axes = len(shape) - self.ndim
        ends = [np.ones(1, dtype=np.int64)] * new_axes + list(self.ends)
        for axis, length in enumerate(shape):
            if ends[axis][-1] == 1:
                ends[axis] = np.array([length], dtype=np.int64)
            elif ends[axis][-1] != length:
                raise ValueError(f"cannot broadcast {self.shape} to {tuple(shape)}")
        return self._with(tuple(ends), lambda slots: slots.reshape((1,) * new_axes + slots.shape))

    @override
    def _pad(
        self,
        pad_width: Sequence[tuple[int, int]],
        mode: str = "constant",
    ) -> Self:
        if mode != "edge":
            raise ValueError(
                "np.pad needs mode='edge': new positions read the slot of the nearest edge"
            )
        padded = list[IntArray]()
        for ends, (low, high) in zip(self.ends, pad_width, strict=True):
            ends = ends + low
            ends[-1] += high
            padded.append(ends)
        return self._with_slots(tuple(padded), self.slot_arrays)


def check_slots(count: int, operand: int) -> None:
    """Raise TooManySlotsError if `count` slots, computed from `operand` slots, are too many."""
    if count > MAX_SLOTS:
        raise TooManySlotsError(
            f"the result needs {count} slots, but at most {MAX_SLOTS} are allowed"
        )
    budget, nbytes = current_budget(), (count - operand) * _BYTES_AT_WORK
    if budget is not None and nbytes > budget.left:
        raise TooManySlotsError(
            f"the result needs {count} slots, which take {nbytes} bytes, but only {budget.left} "
            f"of the allowed {budget.limit} are left"
        )
