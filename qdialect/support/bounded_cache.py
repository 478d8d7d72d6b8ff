"""
Bounded caches that live as long as the process, and their registry.

`clear_caches` empties all caches. A cache whose entries may be large is a `BoundedCache`; any
other is a function with `functools.lru_cache` under `@registered_cache`.
"""

from __future__ import annotations

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
