"""
numpy as `np`, imported on first use, memory for it, and classes that its functions accept.

Importing numpy takes as long as reading, verifying and printing a small module, and many small
modules need no arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self, SupportsIndex

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


__all__ = ["ArrayFunctions", "NDArray", "aligned", "np"]


class _LazyNumpy:
    def __getattr__(self, name: str) -> Any:
        # The deferred import.
        import numpy

        value = getattr(numpy, name)
        # Later accesses bypass `__getattr__`.
        setattr(self, name, value)
        return value


if not TYPE_CHECKING:
    np = _LazyNumpy()
    # Annotations alone name it.
    NDArray = Any


def aligned(count: int, dtype: str | np.dtype[Any]) -> NDArray[Any]:
    """One dimension of uninitialized memory from the start of a cache line, unlike numpy's own."""
    size = count * np.dtype(dtype).itemsize
    memory = np.empty(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].view(dtype)


class ArrayFunctions:
    """
    Lets `np.concatenate`, `np.broadcast_to` and `np.pad(mode="edge")` accept instances.

    https://numpy.org/neps/nep-0018-array-function-protocol.html.
    """

    def __array_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Call the method that implements `func` for this class."""
        functions: dict[Callable[..., Any], Callable[..., Any]] = {
            np.concatenate: type(self)._concatenate,
            np.broadcast_to: type(self)._broadcast_to,
            np.pad: type(self)._pad,
        }
        function = functions.get(func)
        return function(*args, **kwargs) if function else NotImplemented

    # Not an ABC: isinstance on ABCs is slow.

    @classmethod
    def _concatenate(cls, parts: Sequence[Any], axis: SupportsIndex = 0) -> Self:
        raise NotImplementedError

    def _broadcast_to(self, shape: Sequence[int]) -> Self:
        raise NotImplementedError

    def _pad(self, pad_width: Sequence[tuple[int, int]], mode: str = "constant") -> Self:
        raise NotImplementedError
