"""Memory: bounded caches, the budget of a run, and pauses of the garbage collector."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import get_ident
from typing import Final, Generic, Protocol, TypeVar
from weakref import WeakSet

KeyT = TypeVar("KeyT")
ResultT = TypeVar("ResultT")

MAX_CACHE_BYTES: Final = 4 << 20
"""The default bound of a cache: roughly the bytes that it keeps."""

_ENTRY_BYTES: Final = 1500
"""
The overhead of an entry in bytes besides its numbers: a type, its attributes and arrays, the key.
"""

_NUMBER_BYTES: Final = 8


class Cache(Protocol):
    """A cache that can be emptied, such as those of `functools`."""

    def cache_clear(self) -> None:
        """Forget all entries."""
        ...


CacheT = TypeVar("CacheT", bound=Cache)

_caches: WeakSet[Cache] = WeakSet()


def registered_cache(cache: CacheT) -> CacheT:
    """Register a function with `functools.lru_cache`, or a similar cache, for `clear_caches`."""
    _caches.add(cache)
    return cache


def registered_caches() -> tuple[Cache, ...]:
    """The caches that `clear_caches` empties."""
    return tuple(_caches)


def clear_caches() -> None:
    """
    Empty all caches of types, parameters and movements.

    Results do not change, only the time to compute them again. Meant for long-lived processes: the
    caches are bounded, but may hold about 10 MiB each. Thread-safe.
    """
    for cache in registered_caches():
        cache.cache_clear()


class BoundedCache(Generic[KeyT, ResultT]):
    """
    A cache for results that may be large. It is emptied when it exceeds `max_bytes`.

    Neither keys nor results may hold the elements of a constant. For results that hold no slots
    either, `lru_cache` is enough.
    """

    max_bytes: int
    """The approximate bound."""

    def __init__(self, max_bytes: int = MAX_CACHE_BYTES) -> None:
        self._known: dict[KeyT, ResultT] = {}
        self.max_bytes = max_bytes
        self._bytes = 0
        registered_cache(self)

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: KeyT) -> ResultT | None:
        """The result for `key`; None on a miss."""
        return self._known.get(key)

    def add(self, key: KeyT, result: ResultT, weight: int) -> ResultT:
        """
        Store `result` and return it; `weight` is about the count of numbers in it and its key.
        """
        size = _ENTRY_BYTES + _NUMBER_BYTES * weight
        self._bytes += size
        if self._bytes > self.max_bytes:
            self._known.clear()
            self._bytes = size
        self._known[key] = result
        return result

    def cache_clear(self) -> None:
        """Forget all entries."""
        self._known.clear()
        self._bytes = 0


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


_pausing: set[int] = set()
"""The threads that have disabled collection, and will enable it again."""


@contextmanager
def paused_collection() -> Generator[None]:
    """
    Disable garbage collection during work on a whole module that makes little garbage.

    Each collection would visit all operations. Reference cycles are collected later.
    """
    thread = get_ident()
    if not gc.isenabled():
        # Disabled by a caller, or by this function in another thread.
        yield
        return
    _pausing.add(thread)
    gc.disable()
    try:
        yield
    finally:
        # Enabled before the pause is unregistered, so that a fork in between ends the pause in the
        # child.
        gc.enable()
        _pausing.discard(thread)


def _resume_in_child() -> None:
    """After a fork, end the pauses of the threads that the child does not have."""
    if _pausing - {get_ident()}:
        _pausing.intersection_update({get_ident()})
        if not _pausing:
            gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_resume_in_child)
