"""The memory budget of a run: bytes beyond its input, shared by all stages."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

DEFAULT_MAX_MEMORY: Final = 1 << 29
"""512 MiB, in bytes."""


class MemoryLimitError(Exception):
    """A result would take more bytes than the budget has left."""


class MemoryBudget:
    """
    The bytes that a run may allocate beyond its input.

    A stage reserves bytes before it allocates them, for results whose size the size of the
    input text does not bound: broadcasts, concatenations, expanded splats, generated arguments.
    Elements that the text spells out are not counted.
    """

    def __init__(self, limit: int = DEFAULT_MAX_MEMORY) -> None:
        self.limit = limit
        self.reserved = 0

    @property
    def left(self) -> int:
        """The number of bytes that can still be reserved."""
        return self.limit - self.reserved

    def reserve(self, nbytes: int) -> None:
        """Reserve `nbytes` bytes. Raises MemoryLimitError if too few are left."""
        if nbytes > self.left:
            raise MemoryLimitError(
                f"it would take {nbytes} more bytes, but only {self.left} of the allowed "
                f"{self.limit} are left (--max-memory)"
            )
        self.reserved += max(nbytes, 0)

    def release(self, nbytes: int) -> None:
        """Return `nbytes` reserved bytes to the budget after their memory has been freed."""
        self.reserved -= max(nbytes, 0)


_CURRENT: Final = ContextVar[MemoryBudget | None]("qdialect_memory_budget", default=None)


def current_budget() -> MemoryBudget | None:
    """The budget of the current run, None outside of a run."""
    return _CURRENT.get()


@contextmanager
def memory_budget(limit: int | None = None) -> Generator[MemoryBudget]:
    """
    The budget of the current run.

    The outermost caller opens a new one of `limit` bytes (default: `DEFAULT_MAX_MEMORY`).
    Stages inside share it, whatever their `limit`.
    """
    budget = _CURRENT.get()
    if budget is not None:
        yield budget
        return
    budget = MemoryBudget(DEFAULT_MAX_MEMORY if limit is None else limit)
    token = _CURRENT.set(budget)
    try:
        yield budget
    finally:
        _CURRENT.reset(token)
