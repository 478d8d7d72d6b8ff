"""
Moved tensors whose elements are in files: where each element is, as offsets and strides.

A view moves as an array does, and reads nothing. What strides cannot express raises
`NeedsCopyError`: the operand is then written to a file, and moved from there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, SupportsIndex, TypeAlias, cast

from typing_extensions import override

from qdialect.algebra.run_map import regroup
from qdialect.support.lazy_numpy import ArrayFunctions, NDArray, np

Dimension: TypeAlias = "tuple[int, int]"
"""A length, and a stride in elements."""

_MAX_RUNS = 1 << 12
"""The most runs of positions that are taken as slices."""


def row_major(lengths: Sequence[int]) -> list[int]:
    """The strides of axes of these lengths, in elements."""
    return [math.prod(lengths[at + 1 :]) for at in range(len(lengths))]


def dot(numbers: Sequence[int], strides: Sequence[int]) -> int:
    """The offset of an index in elements."""
    return sum(number * stride for number, stride in zip(numbers, strides, strict=True))


class NeedsCopyError(Exception):
    """Strides cannot express a movement of a view."""


class FileView(ArrayFunctions):
    """A moved tensor: a strided part of one tensor, or several of them joined."""

    shape: tuple[int, ...]

    def transpose(self, axes: Sequence[int], /) -> FileView:
        """Axis `i` of the result is axis `axes[i]`."""
        raise NotImplementedError

    def reshape(self, shape: Sequence[int], /) -> FileView:
        """The same elements in row-major order."""
        raise NotImplementedError

    def __getitem__(self, slices: tuple[slice, ...], /) -> FileView:
        """The elements in `slices`, one per axis."""
        raise NotImplementedError

    def take(self, indices: NDArray[np.int64], axis: int) -> FileView:
        """The positions `indices` of `axis`: as slices of its runs."""
        ends = np.flatnonzero(np.diff(indices) != 1) + 1
        if not indices.size or len(ends) >= _MAX_RUNS:
            raise NeedsCopyError
        before = (slice(None),) * axis
        bounds = pairwise([0, *ends.tolist(), len(indices)])
        runs = [(int(indices[start]), stop - start) for start, stop in bounds]
        parts = [self[(*before, slice(start, start + n), *self._rest(axis))] for start, n in runs]
        return JoinedView.of(parts, axis)

    def _rest(self, axis: int) -> tuple[slice, ...]:
        return (slice(None),) * (len(self.shape) - axis - 1)

    @classmethod
    @override
    def _concatenate(cls, parts: Sequence[FileView], axis: SupportsIndex = 0) -> FileView:
        return JoinedView.of(parts, int(axis))

    @override
    def _pad(self, pad_width: Sequence[tuple[int, int]], mode: str = "constant") -> FileView:
        raise NeedsCopyError


@dataclass(frozen=True, eq=False)
class StridedView(FileView):
    """Elements of one tensor; an axis may consist of several dimensions, the outermost first."""

    tensor: Any
    """The tensor that the offset and the strides refer to."""

    offset: int
    axes: tuple[tuple[Dimension, ...], ...]

    @classmethod
    def of(cls, tensor: Any, shape: Sequence[int]) -> StridedView:
        """All elements of a tensor of `shape` in row-major order."""
        strides = row_major(shape)
        axes = tuple(((length, stride),) for length, stride in zip(shape, strides, strict=True))
        return cls(tensor, 0, axes)

    @property
    def shape(self) -> tuple[int, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The lengths of the axes."""
        return tuple(math.prod(length for length, _ in axis) for axis in self.axes)

    @property
    def dimensions(self) -> list[Dimension]:
        """All dimensions in row-major order of the view; neighbours that are one are merged."""
        merged: list[Dimension] = []
        for length, stride in (dimension for axis in self.axes for dimension in axis):
            if length == 1:
                continue
            if merged and merged[-1][1] == length * stride:
                merged[-1] = (merged[-1][0] * length, stride)
            else:
                merged.append((length, stride))
        return merged

    @override
    def transpose(self, axes: Sequence[int], /) -> FileView:
        return StridedView(self.tensor, self.offset, tuple(self.axes[axis] for axis in axes))

    @override
    def reshape(self, shape: Sequence[int], /) -> FileView:
        shape = tuple(shape)
        if 0 in shape:
            return StridedView(self.tensor, 0, tuple(((length, 0),) for length in shape))
        dimensions = self.dimensions
        grouping = regroup(tuple(length for length, _ in dimensions), shape)
        if any(before != after for before, after in grouping.groups):
            raise NeedsCopyError
        split = iter(
            [
                (length, stride * step)
                for (_, stride), lengths in zip(dimensions, grouping.operand_factors, strict=True)
                for length, step in zip(lengths, row_major(lengths), strict=True)
            ]
        )
        axes = [tuple(next(split) for _ in factors) for factors in grouping.result_factors]
        return StridedView(self.tensor, self.offset, tuple(axis or ((1, 0),) for axis in axes))

    @override
    def __getitem__(self, slices: tuple[slice, ...], /) -> FileView:
        offset, axes = self.offset, list[tuple[Dimension, ...]]()
        for axis, part in zip(self.axes, slices, strict=True):
            length = math.prod(n for n, _ in axis)
            start, stop, step = part.indices(length)
            count = len(range(start, stop, step))
            if (start, step, count) == (0, 1, length):
                axes.append(axis)
            elif (start, step, count) == (length - 1, -1, length):
                offset += sum((n - 1) * stride for n, stride in axis)
                axes.append(tuple((n, -stride) for n, stride in axis))
            elif len(real := [(n, stride) for n, stride in axis if n > 1]) <= 1:
                stride = real[0][1] if real else 0
                offset += start * stride if count else 0
                axes.append(((count, step * stride),))
            else:
                (_, outer), *rest = real
                inner = math.prod(n for n, _ in rest)
                if step != 1 or start % inner or count % inner:
                    raise NeedsCopyError
                offset += start // inner * outer
                axes.append(((count // inner, outer), *rest))
        return StridedView(self.tensor, offset, tuple(axes))

    @override
    def _broadcast_to(self, shape: Sequence[int]) -> FileView:
        added = len(shape) - len(self.axes)
        axes: list[tuple[Dimension, ...]] = [((length, 0),) for length in shape[:added]]
        for axis, before, length in zip(self.axes, self.shape, shape[added:], strict=True):
            axes.append(axis if before == length else ((length, 0),))
        return StridedView(self.tensor, self.offset, tuple(axes))


def parts_of(view: FileView) -> tuple[tuple[StridedView, ...], int]:
    """The strided views that a view consists of, and the axis that they are joined along."""
    if isinstance(view, JoinedView):
        return view.parts, view.axis
    assert isinstance(view, StridedView)
    return (view,), 0


@dataclass(frozen=True, eq=False)
class JoinedView(FileView):
    """Views that are joined along an axis."""

    parts: tuple[StridedView, ...]
    axis: int

    @classmethod
    def of(cls, parts: Sequence[FileView], axis: int) -> FileView:
        """The parts joined; those that are joined along the same axis are taken apart."""
        flat: list[StridedView] = []
        for part in parts:
            if isinstance(part, StridedView):
                flat.append(part)
            elif isinstance(part, JoinedView) and part.axis == axis:
                flat += part.parts
            else:
                raise NeedsCopyError
        return flat[0] if len(flat) == 1 else cls(tuple(flat), axis)

    @property
    def shape(self) -> tuple[int, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The lengths of the axes."""
        shapes = [part.shape for part in self.parts]
        length = sum(shape[self.axis] for shape in shapes)
        return (*shapes[0][: self.axis], length, *shapes[0][self.axis + 1 :])

    @override
    def transpose(self, axes: Sequence[int], /) -> FileView:
        parts = [part.transpose(axes) for part in self.parts]
        return JoinedView.of(parts, list(axes).index(self.axis))

    @override
    def reshape(self, shape: Sequence[int], /) -> FileView:
        shape = tuple(shape)
        before = self.shape
        if shape == before:
            return self
        # Only axes behind that of the parts may change, or it is the outermost of them.
        head, inner = before[: self.axis], math.prod(before[self.axis + 1 :])
        if shape[: self.axis] != head or len(shape) == len(head) or 0 in shape:
            raise NeedsCopyError
        row = math.prod(shape[self.axis + 1 :])
        lengths = [part.shape[self.axis] * inner for part in self.parts]
        if any(length % row for length in lengths):
            raise NeedsCopyError
        tail = shape[self.axis + 1 :]
        reshaped = [
            part.reshape((*head, length // row, *tail))
            for part, length in zip(self.parts, lengths, strict=True)
        ]
        return JoinedView.of(reshaped, self.axis)

    @override
    def __getitem__(self, slices: tuple[slice, ...], /) -> FileView:
        part = slices[self.axis]
        length = self.shape[self.axis]
        start, stop, step = part.indices(length)
        if abs(step) != 1:
            raise NeedsCopyError
        low, high = (start, stop) if step == 1 else (stop + 1, start + 1)
        order = [slice(None, None, step if at == self.axis else 1) for at in range(len(slices))]
        parts: list[FileView] = []
        ends = accumulate((view.shape[self.axis] for view in self.parts), initial=0)
        for view, (first, last) in zip(self.parts, pairwise(ends), strict=True):
            inside = slice(max(low - first, 0), min(high, last) - first)
            if inside.stop <= inside.start:
                continue
            cut = view[(*slices[: self.axis], inside, *slices[self.axis + 1 :])]
            parts.append(cut[tuple(order)])
        if not parts:
            return self.parts[0][(*slices[: self.axis], slice(0, 0), *slices[self.axis + 1 :])]
        return JoinedView.of(parts[::step], self.axis)

    @override
    def _broadcast_to(self, shape: Sequence[int]) -> FileView:
        added = len(shape) - len(self.shape)
        axis = added + self.axis
        if shape[axis] != self.shape[self.axis]:
            raise NeedsCopyError
        parts = [
            cast(Any, np.broadcast_to)(
                part, (*shape[:axis], part.shape[self.axis], *shape[axis + 1 :])
            )
            for part in self.parts
        ]
        return JoinedView.of(parts, axis)
