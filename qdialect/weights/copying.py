"""
Copies of moved tensors from files to a file, in pieces that a budget of memory allows.

A piece is a box of the moved tensor, cut so that few runs are read and written.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from io import FileIO
from itertools import product
from threading import local
from typing import Any

from qdialect.algebra.blocked_copy import write
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.weights.places import open_place
from qdialect.weights.strided_views import (
    Dimension,
    FileView,
    NeedsCopyError,
    StridedView,
    dot,
    parts_of,
    row_major,
)
from qdialect.weights.tensor_files import DTYPES, FileWriter, TensorInFile

_RUN_BYTES = 1 << 13
"""A read or a write takes as long as so many bytes: smaller holes are read, too."""

_LEAST_BUDGET = 1 << 16
"""Less memory than this is not saved."""


class _Buffers(local):
    """Two buffers of a thread, which are used again: new memory costs more than copying does."""

    def __init__(self) -> None:
        self._kept = [bytearray(), bytearray()]

    def view(self, number: int, nbytes: int) -> memoryview:
        """The start of a buffer, which grows if it must."""
        if len(self._kept[number]) < nbytes:
            # First it is freed, so that there are never both.
            self._kept[number] = bytearray()
            self._kept[number] = bytearray(nbytes)
        return memoryview(self._kept[number])[:nbytes]


BUFFERS = _Buffers()


class Descriptors:
    """The open files of a task: each file is opened once."""

    def __init__(self) -> None:
        self._open: dict[str, FileIO] = {}
        self.bytes_read = 0

    def read(self, tensor: TensorInFile, first: int, view: memoryview) -> None:
        """Fill `view` with elements of a tensor. Raises OSError and WeightsError."""
        file = self._open.get(tensor.path)
        if file is None:
            file = self._open[tensor.path] = open_place(tensor.path)
        self.bytes_read += DTYPES[tensor.entry.dtype].nbytes([len(view) // tensor.entry.itemsize])
        tensor.read(file, first, view)

    def close(self) -> None:
        """Close all files."""
        for file in self._open.values():
            file.close()
        self._open.clear()


def copy_view(
    view: FileView, name: str, writer: FileWriter, files: Descriptors, max_memory: int
) -> None:
    """
    Write a moved tensor as the tensor `name` of a file, with buffers of `max_memory` bytes.

    Raises OSError, and WeightsError where a source has become shorter.
    """
    if 0 in view.shape:
        return
    most = max(max_memory, _LEAST_BUDGET) // 2
    parts, axis = parts_of(view)
    if step := _rows_of_band(view, most):
        for start in range(0, view.shape[0], step):
            data = _joined(_band(view, start, start + step), axis, files)
            writer.write(name, data, start * math.prod(view.shape[1:]))
        return
    whole = math.prod(view.shape[axis:])
    start = 0
    for part in parts:
        row = math.prod(part.shape[axis:])
        for first, data, size in _boxes(part, files, most):
            # Each row of the whole has the rows of all parts, one after another.
            while data:
                line, inside = divmod(first, row)
                count = min(len(data) // size, row - inside)
                writer.write(name, data[: count * size], line * whole + start + inside)
                first, data = first + count, data[count * size :]
        start += row


def _itemsize(view: FileView) -> int:
    return parts_of(view)[0][0].tensor.entry.itemsize


def _band(view: FileView, start: int, stop: int) -> FileView:
    return view[(slice(start, stop), *(slice(None) for _ in view.shape[1:]))]


def _rows_of_band(view: FileView, most: int) -> int:
    """
    The rows of joined parts that buffers of `most` bytes hold, and what is read for them.

    0 if that is none, or if no row has elements of several parts.
    """
    parts, axis = parts_of(view)
    size, step = _itemsize(view), view.shape[0] if len(parts) > 1 and axis else 0
    while step:
        try:
            band = _band(view, 0, step)
        except NeedsCopyError:
            return 0
        read = max(_Reading(part.dimensions, size).nbytes for part in parts_of(band)[0])
        if max(read, math.prod(band.shape) * size) <= most:
            break
        step = (step + 1) // 2 if step > 1 else 0
    return step


def _joined(band: FileView, axis: int, files: Descriptors) -> memoryview:
    """The elements of joined parts, in a buffer."""
    parts, size = parts_of(band)[0], _itemsize(band)
    results = np.frombuffer(BUFFERS.view(1, math.prod(band.shape) * size), f"u{size}")
    whole, start = results.reshape(band.shape), 0
    for part in parts:
        dimensions = [dimension for axis in part.axes for dimension in axis]
        reading = _Reading(dimensions, size)
        elements = reading.elements(
            part.tensor, part.offset, files, BUFFERS.view(0, reading.nbytes)
        )
        end = start + part.shape[axis]
        target = whole[(*(slice(None) for _ in range(axis)), slice(start, end))]
        # Axes are split, which never copies.
        write(elements, target.reshape(elements.shape))
        start = end
    return results.view(np.uint8).data


def _boxes(
    view: StridedView, files: Descriptors, most: int
) -> Iterator[tuple[int, memoryview, int]]:
    """For all runs of a view: the first element, the bytes, and the size of an element."""
    tensor: TensorInFile = view.tensor
    size = tensor.entry.itemsize
    dimensions = view.dimensions or [(1, 1)]
    lengths = [length for length, _ in dimensions]
    strides, steps = row_major(lengths), [stride for _, stride in dimensions]
    box = _box(dimensions, size, most)
    read = BUFFERS.view(0, _Reading(_with_lengths(dimensions, box), size).nbytes)
    results = np.frombuffer(BUFFERS.view(1, math.prod(box) * size), f"u{size}")
    cuts = [range(0, length, step) for length, step in zip(lengths, box, strict=True)]
    for starts in product(*cuts):
        ends = zip(box, lengths, starts, strict=True)
        shape = [min(step, length - start) for step, length, start in ends]
        offset = view.offset + dot(starts, steps)
        reading = _Reading(_with_lengths(dimensions, shape), size)
        result = results[: math.prod(shape)].reshape(shape)
        write(reading.elements(tensor, offset, files, read), result)
        data: memoryview = result.reshape(-1).view(np.uint8).data
        inner = _first_of_run(shape, lengths)
        run, first = math.prod(shape[inner:]), dot(starts, strides)
        for number, index in enumerate(np.ndindex(*shape[:inner])):
            part = data[number * run * size : (number + 1) * run * size]
            yield first + dot(index, strides[:inner]), part, size


def _with_lengths(dimensions: Sequence[Dimension], lengths: Sequence[int]) -> list[Dimension]:
    return [(length, stride) for length, (_, stride) in zip(lengths, dimensions, strict=True)]


def _first_of_run(shape: Sequence[int], lengths: Sequence[int]) -> int:
    """The first axis of a run: those that a box has whole, and one more."""
    inner = len(shape) - 1
    while inner and shape[inner] == lengths[inner]:
        inner -= 1
    return inner


def _box(dimensions: Sequence[Dimension], size: int, most: int) -> list[int]:
    """
    The lengths of boxes whose elements, and what is read for them, take at most `most` bytes.

    Axes are halved, each time the one that leaves the fewest runs to read and write.
    """
    lengths = [length for length, _ in dimensions]
    box = list(lengths)

    def cost(trial: Sequence[int]) -> int:
        boxes = math.prod(-(-whole // n) for whole, n in zip(lengths, trial, strict=True))
        reading = _Reading(_with_lengths(dimensions, trial), size)
        runs = reading.runs + math.prod(trial[: _first_of_run(trial, lengths)])
        return boxes * (runs * _RUN_BYTES + reading.nbytes)

    def is_too_large(trial: Sequence[int]) -> bool:
        read = _Reading(_with_lengths(dimensions, trial), size).nbytes
        return max(math.prod(trial) * size, read) > most

    while is_too_large(box) and max(box) > 1:
        halves = [
            [*box[:axis], -(-box[axis] // 2), *box[axis + 1 :]]
            for axis, length in enumerate(box)
            if length > 1
        ]
        box = min(halves, key=cost)
    return box


class _Reading:
    """How the elements of a box are read: one run for each position along outer axes."""

    def __init__(self, dimensions: Sequence[Dimension], size: int) -> None:
        real = [d for d, (n, stride) in enumerate(dimensions) if n > 1 and stride]
        real.sort(key=lambda d: abs(dimensions[d][1]))
        inner: list[int] = []
        extent = 1
        for d in real:
            length, stride = dimensions[d]
            if inner and (abs(stride) - extent) * size > _RUN_BYTES:
                break
            inner.append(d)
            extent += (length - 1) * abs(stride)
        self._dimensions, self._size = dimensions, size
        self._outer = [d for d in real if d not in inner][::-1]
        """The outermost first."""
        self._before = sum((n - 1) * s for n, s in (dimensions[d] for d in inner) if s < 0)
        self._run = extent * size
        self.runs = math.prod(dimensions[d][0] for d in self._outer)
        self.nbytes = self.runs * self._run

    def elements(
        self, tensor: TensorInFile, offset: int, files: Descriptors, buffer: memoryview
    ) -> NDArray[Any]:
        """
        The elements, as unsigned integers, in a buffer. Raises OSError and WeightsError.

        `offset` is that of the first one, in elements.
        """
        dimensions, size = self._dimensions, self._size
        lengths = [dimensions[d][0] for d in self._outer]
        outer = [dimensions[d][1] for d in self._outer]
        for number, index in enumerate(np.ndindex(*lengths)):
            place = buffer[number * self._run : (number + 1) * self._run]
            files.read(tensor, offset + self._before + dot(index, outer), place)
        strides = [stride * size for _, stride in dimensions]
        step = self._run
        for d in reversed(self._outer):
            strides[d], step = step, step * dimensions[d][0]
        elements = np.frombuffer(buffer, f"u{size}", self.nbytes // size)[-self._before :]
        return np.lib.stride_tricks.as_strided(
            elements, [n for n, _ in dimensions], strides, writeable=False
        )


def array_of(view: StridedView, files: Descriptors) -> NDArray[Any]:
    """All elements of a view, as unsigned integers. Raises OSError and WeightsError."""
    size = _itemsize(view)
    if 0 in view.shape:
        return np.empty(view.shape, f"u{size}")
    reading = _Reading([dimension for axis in view.axes for dimension in axis], size)
    buffer = np.empty(reading.nbytes, np.uint8).data
    elements = reading.elements(view.tensor, view.offset, files, buffer)
    return elements.reshape(view.shape)


def bits_of(tensor: TensorInFile, files: Descriptors) -> NDArray[Any]:
    """All elements of a tensor, as unsigned integers. Raises OSError and WeightsError."""
    return array_of(StridedView.of(tensor, tensor.entry.shape), files)
