"""Arrays that are joined later, all at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qdialect.array_view import ArrayView
from qdialect.lazy_numpy import np


class Joined:
    """
    Arrays one after another on an axis, which are copied when they are looked at.

    So what is joined step by step, each time to something new, is copied once.
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
        `part` itself, or as an array where it is a part of something else already.

        Were it not for that, what is joined to itself again and again would have no end.
        """
        if isinstance(part, Joined):
            if part._is_part or part.axis != self.axis:
                return part.view()
            part._is_part = True
        return part

    def view(self) -> ArrayView:
        """The elements: joined when they are looked at first."""
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
