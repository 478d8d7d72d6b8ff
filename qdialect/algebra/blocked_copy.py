"""
Copies of strided arrays to row-major order, without a cache miss for every element.

numpy copies in the order of the result, one element after another. If the source has another
order, as in a transposed matrix, numpy loads a cache line for each element, and the line is
evicted before its next element is read. Here such arrays are copied in boxes that fit in the
cache: lines of the source to a buffer, and columns of the buffer to the result.
"""

from __future__ import annotations

import io
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import product
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from qdialect.support.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

SMALL_SIZE: Final = 1 << 16
"""Up to this number of elements, everything that numpy's own copy reads is in the cache."""

THREADED_BYTES: Final = 1 << 22
"""From this number of bytes on, two threads are faster than one."""

_THREADS = 2
_CHUNKS = 8
"""The number of parts that the threads share; more than threads, as one may be slower."""

_LINE_BYTES = 64
_CACHE_WAY_BYTES = 4096
_CACHE_LINES = 8 * _CACHE_WAY_BYTES // _LINE_BYTES
"""A small cache of the first level, eight ways of 4 KiB. Only speed depends on it."""
_COLUMN_BYTES = 256
"""The minimum length in bytes of a row of a box, if the axis is long enough."""

_BOX_BYTES = 1 << 17
_FEW = 8
_FEW_BYTES = 16
"""Inner axes of at most this many elements and bytes are short: numpy's cost is per row."""

_COSTLY_BYTES = 4
"""Items twice as wide gain half as much from a buffer, which costs twice as much."""

_RUN_BYTES = 64
"""Shorter runs of neighbours are moved as one item."""

_WORDS: dict[int, str] = {
    **{size: f"u{size}" for size in (1, 2, 4, 8)},
    # Copied without arithmetic, so that all bits are preserved.
    16: "c16",
}

_Pair: TypeAlias = "tuple[NDArray[Any], NDArray[Any]]"


def contiguous(array: NDArray[Any]) -> NDArray[Any]:
    """A new array of the elements of `array`, in row-major order. Raises as `write`."""
    result = np.empty(array.shape, dtype=array.dtype)
    write(array, result)
    return result


def contiguous_bytes(array: NDArray[Any], dtype: DTypeLike | None = None) -> bytes:
    """
    The bytes of `array.astype(dtype)`, made in one copy; `dtype` defaults to that of `array`.

    Raises as `write`.
    """
    dtype = array.dtype if dtype is None else np.dtype(dtype)
    is_plain = array.size <= SMALL_SIZE or array.flags.c_contiguous
    if (is_plain and array.dtype == dtype and not dtype.hasobject) or not array.size:
        return array.tobytes()
    # CPython neither clears these new bytes nor copies them for `getvalue`.
    buffer = io.BytesIO(bytes(array.size * dtype.itemsize))
    with buffer.getbuffer() as memory:
        write(array, np.frombuffer(memory, dtype=dtype).reshape(array.shape))
    return buffer.getvalue()


def write(source: NDArray[Any], target: NDArray[Any]) -> None:
    """
    Write `source` to `target`, which has the same shape and shares no memory with it.

    Both may have any strides; no two elements of `target` share memory. Integers may differ in
    dtype, and are converted as by `numpy.ndarray.astype`. Elements of equal dtypes keep their
    bits. Raises ValueError if the shapes differ, and TypeError for Python objects.
    """
    if source.shape != target.shape:
        raise ValueError(f"shapes {source.shape} and {target.shape} differ")
    if source.dtype.hasobject or target.dtype.hasobject:
        raise TypeError("Python objects cannot be copied as bytes")
    if source.dtype == target.dtype:
        item = word_of(source.itemsize)
        source, target = source.view(item), target.view(item)
    is_plain = source.flags.c_contiguous and target.flags.c_contiguous
    if is_plain or target.size <= SMALL_SIZE:
        np.copyto(target, source, casting="unsafe")
        return
    source, target = _with_fewest_axes(source, target)
    threads = min(_THREADS, processors())
    if threads == 1 or target.nbytes < THREADED_BYTES:
        _write_boxes(source, target)
        return
    _write_in_threads(list(_chunks(source, target)), threads)


def _write_in_threads(chunks: list[_Pair], threads: int) -> None:
    """Write chunks from a thread pool, to which the calling thread belongs."""
    errors: list[BaseException] = []

    def write_chunks() -> None:
        # `list.pop` is atomic.
        with suppress(IndexError):
            while not errors:
                source, target = chunks.pop()
                try:
                    _write_boxes(source, target)
                except BaseException as error:
                    errors.append(error)

    helpers = [Thread(target=write_chunks) for _ in range(threads - 1)]
    for helper in helpers:
        helper.start()
    write_chunks()
    for helper in helpers:
        helper.join()
    if errors:
        raise errors[0]


def processors() -> int:
    """The number of processors that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def word_of(size: int) -> np.dtype[Any]:
    """A dtype of `size` bytes that numpy copies without interpreting it."""
    return np.dtype(_WORDS.get(size, f"V{size}"))


def _with_fewest_axes(source: NDArray[Any], target: NDArray[Any]) -> _Pair:
    """An equivalent pair of arrays, neighbouring axes merged where both arrays allow it."""
    if min(target.strides) < 0:
        forwards = tuple(slice(None, None, -1 if stride < 0 else 1) for stride in target.strides)
        source, target = source[forwards], target[forwards]
    steps = list(zip(target.shape, target.strides, source.strides, strict=True))
    order = sorted(range(len(steps)), key=lambda axis: -steps[axis][1])
    shape: list[int] = []
    outer = (0, 0)
    for length, *strides in (steps[axis] for axis in order):
        if length == 1:
            continue
        if shape and outer == (length * strides[0], length * strides[1]):
            shape[-1] *= length
        else:
            shape.append(length)
        outer = (strides[0], strides[1])
    # These reshapes are views: strides can merge the axes.
    source, target = (array.transpose(order).reshape(shape) for array in (source, target))
    return _with_runs_as_items(source, target)


def _with_runs_as_items(source: NDArray[Any], target: NDArray[Any]) -> _Pair:
    """An equivalent pair of wider items, if both arrays have contiguous runs of elements."""
    if source.dtype != target.dtype or not source.ndim:
        return source, target
    size = source.itemsize
    run = source.shape[-1] * size
    if not source.strides[-1] == target.strides[-1] == size or run > _RUN_BYTES:
        return source, target
    item = word_of(run)
    return source.view(item)[..., 0], target.view(item)[..., 0]


def _chunks(source: NDArray[Any], target: NDArray[Any]) -> Iterator[_Pair]:
    """Equivalent pairs that do not split cache lines, contiguous in `target` if possible."""
    lengths = list(source.shape)
    lengths[_nearest_axis(source)] //= max(1, _COLUMN_BYTES // source.itemsize)
    axis = max(range(source.ndim), key=lambda axis: min(lengths[axis], 4 * _CHUNKS))
    for positions in _blocks(source.shape[axis], -(-source.shape[axis] // _CHUNKS)):
        chunk = (slice(None),) * axis + (positions,)
        yield source[chunk], target[chunk]


def _nearest_axis(source: NDArray[Any]) -> int:
    """The axis with the smallest stride."""
    strides = [abs(stride) or sys.maxsize for stride in source.strides]
    return strides.index(min(strides))


def _blocks(length: int, most: int) -> list[slice]:
    """An axis of `length` cut into slices of at most `most` positions, about equally long."""
    count = -(-length // most)
    return [slice(length * i // count, length * (i + 1) // count) for i in range(count)]


def _write_boxes(source: NDArray[Any], target: NDArray[Any]) -> None:
    """Write arrays whose axes are sorted by the strides of `target`, the largest first."""
    axis = _line_axis(source)
    if axis is None:
        np.copyto(target, source, casting="unsafe")
        return
    if source.strides[axis] < 0:
        backwards = (slice(None),) * axis + (slice(None, None, -1),)
        source, target = source[backwards], target[backwards]
    blocks = _box_shape(source.shape, axis, source.itemsize)
    write_box = _box_writer(blocks, axis, source.dtype, target.dtype)
    for box in product(*map(_blocks, source.shape, blocks)):
        write_box(source[box], target[box])


def _line_axis(source: NDArray[Any]) -> int | None:
    """The axis along which elements share a cache line; None if numpy copies along it anyway."""
    last = source.ndim - 1
    if last < 1 or not source.strides[last]:
        return None
    longest = source.shape.index(max(source.shape))
    if _are_few((*source.shape[:longest], *source.shape[longest + 1 :]), source.itemsize):
        return None if longest == last else longest
    nearest = _nearest_axis(source)
    is_short = source.shape[nearest] <= _FEW
    if nearest == last or is_short or abs(source.strides[nearest]) >= _LINE_BYTES:
        return None
    between = source.shape[nearest + 1 :]
    # Lines at power-of-two strides map to few cache sets.
    places = _CACHE_LINES // max(1, math.gcd(source.strides[last], _CACHE_WAY_BYTES) // _LINE_BYTES)
    is_kept = math.prod(between) <= places * max(1, source.itemsize // _COSTLY_BYTES)
    return None if is_kept and not _are_few(between, source.itemsize) else nearest


def _are_few(shape: Sequence[int], itemsize: int) -> bool:
    """
    Whether the inner axes are so short that numpy's cost per row along the last one dominates.
    """
    return shape[-1] <= _FEW and math.prod(shape) * itemsize <= _FEW_BYTES


def _box_shape(shape: Sequence[int], axis: int, itemsize: int) -> list[int]:
    """The shape of a box that fits in the cache."""
    blocks = [1] * len(shape)
    left = _BOX_BYTES // itemsize

    def grow(grown: int, most: int) -> None:
        nonlocal left
        left *= blocks[grown]
        blocks[grown] = max(1, min(shape[grown], most, left))
        left //= blocks[grown]

    grow(axis, _COLUMN_BYTES // itemsize)
    for inner in reversed(range(axis + 1, len(shape))):
        grow(inner, left)
    grow(axis, left * blocks[axis])
    for outer in reversed(range(axis)):
        grow(outer, left)
    return blocks


_BoxWriter: TypeAlias = "Callable[[NDArray[Any], NDArray[Any]], None]"


def _box_writer(
    blocks: Sequence[int], axis: int, source_dtype: np.dtype[Any], dtype: np.dtype[Any]
) -> _BoxWriter:
    """A function that writes boxes of at most the shape `blocks`, whose rows are along `axis`."""
    if _are_few(blocks[axis + 1 :], source_dtype.itemsize):
        return partial(_write_rows, axis)
    if blocks[axis] * source_dtype.itemsize < _LINE_BYTES:
        return _write_directly
    return _Buffer(blocks, axis, dtype).write


def _write_directly(source: NDArray[Any], target: NDArray[Any]) -> None:
    np.copyto(target, source, casting="unsafe")


def _write_rows(axis: int, source: NDArray[Any], target: NDArray[Any]) -> None:
    """Write row by row along `axis`: numpy alone would iterate along the short axes after it."""
    for index in np.ndindex(source.shape[axis + 1 :]):
        np.copyto(target[..., *index], source[..., *index], casting="unsafe")


class _Buffer:
    """A buffer that collects rows of the source, to be read as columns."""

    def __init__(self, blocks: Sequence[int], axis: int, dtype: np.dtype[Any]):
        self._order = (*(i for i in range(len(blocks)) if i != axis), axis)
        self._axis = axis
        rows = [blocks[i] for i in self._order[:-1]]
        # An odd number of lines: rows at a power-of-two stride would evict each other.
        lines = -(-blocks[axis] * dtype.itemsize // _LINE_BYTES) | 1
        self._rows = np.empty((*rows, lines * _LINE_BYTES // dtype.itemsize), dtype)
        self._words = np.empty(math.prod(blocks) // 8 if dtype.itemsize == 1 else 0, np.uint64)

    def write(self, source: NDArray[Any], target: NDArray[Any]) -> None:
        """Write a box."""
        rows = source.transpose(self._order)
        buffer = self._rows[tuple(map(slice, rows.shape))]
        np.copyto(buffer, rows, casting="unsafe")
        columns, result = rows.shape[-1], target.transpose(self._order)
        of_words = columns // 8 * 8 if self._words.size else 0
        if of_words:
            whole = (slice(None),) * self._axis + (slice(of_words),)
            self._write_words(buffer[..., :of_words], target[whole])
        result[..., of_words:] = buffer[..., of_words:]

    def _write_words(self, rows: NDArray[Any], target: NDArray[Any]) -> None:
        """Write single bytes: columns of eight bytes at once, which are then split."""
        axis = self._axis
        before, length, after = target.shape[:axis], target.shape[axis], target.shape[axis + 1 :]
        words = self._words[: target.size // 8].reshape(*before, length // 8, *after)
        words.transpose(self._order)[...] = rows.view(np.uint64)
        columns = words.view(np.uint8).reshape(*words.shape, 8)
        split = target.reshape(*before, length // 8, 8, *after)
        split[...] = np.moveaxis(columns, -1, axis + 1)
