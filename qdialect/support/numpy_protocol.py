"""The numpy functions that movements call, implemented for classes that are not arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self, SupportsIndex

from qdialect.support.lazy_numpy import np


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
