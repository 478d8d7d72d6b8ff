"""Deferred concatenation, which copies each part once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qdialect.algebra.array_view import ArrayView
from qdialect.support.lazy_numpy import np


class Joined:
    """
    A concatenation of arrays along an axis, copied when its elements are first needed.

    A concatenation built in many steps is copied only once.
    """

    def __init__(self, parts: Sequence[ArrayView | Joined], axis: int) -> None:
        first, length = parts[0], sum(part.shape[axis] for part in parts)
        self.axis = axis
        self.shape: tuple[int, ...] = (*first.shape[:axis], length, *first.shape[axis + 1 :])
        self.dtype: np.dtype[Any] = (first if isinstance(first, Joined) else first.factors).dtype
        self._parts = [self._own(part) for part in parts]
        self._is_part = False
        self._view: ArrayView | None = None

    def _own(self, part: ArrayView | Joined) -> ArrayView | Joined:
        """
        `part` itself, or its array if it already belongs to another concatenation.

        Otherwise `x = concat(x, x)`, n times, would expand to 2**n parts.
        """
        if isinstance(part, Joined):
            if part._is_part or part.axis != self.axis:
                return part.view()
            part._is_part = True
        return part

    def view(self) -> ArrayView:
        """The elements; the first call copies them."""
        if self._view is None:
            arrays = [part.array() for part in self._flat_parts()]
            self._view = ArrayView.of(np.concatenate(arrays, axis=self.axis))
            self._parts.clear()
        return self._view

    def _flat_parts(self) -> list[ArrayView]:
        flat: list[ArrayView] = []
        pending = self._parts[::-1]
        while pending:
            part = pending.pop()
            if isinstance(part, ArrayView):
                flat.append(part)
            elif part._view is not None:
                flat.append(part._view)
            else:
                pending += part._parts[::-1]
        return flat
