"""
Allocating arrays within the memory budget, and applying functions to large arrays in pieces.

The bytes of an array are reserved in `qdialect.support.memory` before it is allocated,
and released when it is freed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final
from weakref import finalize

import numpy as np
from numpy.typing import NDArray
from xdsl.utils.exceptions import InterpretationError

from qdialect.algebra.movement import Shape
from qdialect.algebra.views import MAX_RANK
from qdialect.check.interpreters.work import spend_elements
from qdialect.support.memory import MemoryBudget, memory_budget

MIN_COUNTED: Final = 1 << 12
"""
The minimum size in bytes of a counted array. The size of the text bounds the number of smaller
ones.
"""

_BYTES_COPIED: Final = 64
"""So many bytes are copied while an element is computed."""

_PIECE: Final = 1 << 17
"""The maximum number of elements that a function is applied to at once."""

Slices = tuple[slice, ...]


_MAX_ELEMENTS: Final = 1 << 58
"""The maximum number of elements of an array or a broadcast view in numpy, for any dtype."""


def require_possible(shape: Shape) -> None:
    """Raise InterpretationError if numpy has no array of that shape."""
    if (
        len(shape) > MAX_RANK
        or any(length < 0 for length in shape)
        or math.prod(filter(None, shape)) > _MAX_ELEMENTS
    ):
        raise InterpretationError(f"a tensor of shape {list(shape)} exceeds the limits of numpy")


def allocated(
    make: Callable[[], NDArray[Any]], nbytes: int, sources: Sequence[NDArray[Any]] = ()
) -> NDArray[Any]:
    """
    The array that `make` returns, of `nbytes` bytes unless it is a view of one of `sources`.

    Raises MemoryLimitError before it calls `make`.
    """
    if nbytes < MIN_COUNTED:
        return make()
    spend_elements(nbytes // _BYTES_COPIED)
    with memory_budget() as budget:
        budget.reserve(nbytes)
        try:
            array = make()
        except BaseException:
            budget.release(nbytes)
            raise
        owner = _owner(array)
        if any(owner is _owner(source) for source in sources):
            budget.release(nbytes)
        else:
            _release_with(owner, budget, nbytes)
    return array


def _release_with(owner: NDArray[Any], budget: MemoryBudget, nbytes: int) -> None:
    """Release bytes when `owner` is freed."""
    finalize(owner, budget.release, nbytes).atexit = False


@contextmanager
def temporary_memory(nbytes: int) -> Generator[None]:
    """Reserve `nbytes` bytes for the duration of the block. Raises MemoryLimitError."""
    with memory_budget() as budget:
        budget.reserve(nbytes)
        try:
            yield
        finally:
            budget.release(nbytes)


def _owner(array: NDArray[Any]) -> NDArray[Any]:
    """The array that owns the memory of `array`."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def repeated_axes(array: NDArray[Any]) -> tuple[bool, ...]:
    """For each axis, whether all positions along it share memory."""
    return tuple(
        not stride or length == 1 for stride, length in zip(array.strides, array.shape, strict=True)
    )


def without_repeats(array: NDArray[Any]) -> NDArray[Any]:
    """`array`, with only the first position of each axis along which positions share memory."""
    return array[tuple(slice(0, 1) if once else slice(None) for once in repeated_axes(array))]


def elementwise(
    function: Callable[..., NDArray[Any]],
    arrays: Sequence[NDArray[Any]],
    dtype: np.dtype[Any],
    *,
    varying: Sequence[bool] | None = None,
) -> NDArray[Any]:
    """
    Apply an elementwise `function` to arrays. The result is an array of `dtype`.

    The function is called with the slices of the result to compute, one per axis, and the
    arrays at these slices. Large arrays are passed in pieces. Along an axis on which no array
    varies, one position is computed and broadcast; `varying` marks axes along which the
    function itself varies. Raises MemoryLimitError.
    """
    shapes = {array.shape for array in arrays}
    # numpy broadcasts up to 32 axes only.
    shape = shapes.pop() if len(shapes) == 1 else np.broadcast_shapes(*shapes)
    if (size := math.prod(shape)) <= _PIECE:
        spend_elements(size)
        return np.asarray(function(tuple(map(slice, shape)), *arrays))
    whole = [np.broadcast_to(array, shape) for array in arrays]
    once = [all(of) for of in zip(*map(repeated_axes, whole), strict=True)]
    if varying is not None:
        once = [is_once and not varies for is_once, varies in zip(once, varying, strict=True)]
    core = tuple(1 if is_once and n else n for is_once, n in zip(once, shape, strict=True))
    spend_elements(math.prod(core))
    computed = _empty(core, dtype)
    for slices in _pieces(core):
        computed[slices] = function(slices, *(array[slices] for array in whole))
    return np.broadcast_to(computed, shape)


def _empty(shape: Shape, dtype: np.dtype[Any]) -> NDArray[Any]:
    nbytes = math.prod(shape) * dtype.itemsize
    return allocated(lambda: np.empty(shape, dtype), nbytes)


def _pieces(shape: Shape) -> Iterator[Slices]:
    """Slices that cover an array of `shape` in parts of at most `_PIECE` elements."""
    sizes = [math.prod(shape[axis:]) for axis in range(len(shape) + 1)]
    cut = next((axis for axis in range(len(shape)) if sizes[axis + 1] <= _PIECE), None)
    if cut is None:
        yield ()
        return
    step = max(_PIECE // max(sizes[cut + 1], 1), 1)
    for outer in np.ndindex(*shape[:cut]):
        for start in range(0, shape[cut], step):
            yield (
                *(slice(at, at + 1) for at in outer),
                slice(start, min(start + step, shape[cut])),
                *map(slice, shape[cut + 1 :]),
            )
