"""
The caches of this package, all of which live as long as the process.

Each has a bound, and `clear_caches` empties all of them. A cache is a `BoundedCache`, where
entries may be large, or a function with `functools.lru_cache` under `@registered_cache`.
"""

from __future__ import annotations

from typing import Final, Generic, Protocol, TypeVar
from weakref import WeakSet

KeyT = TypeVar("KeyT")
ResultT = TypeVar("ResultT")

MAX_CACHE_BYTES: Final = 4 << 20
"""How much a cache keeps, about, unless it says otherwise."""

_ENTRY_BYTES: Final = 1500
"""What an entry takes beside its numbers: a type, its attributes and arrays, and the key."""

_NUMBER_BYTES: Final = 8


class Cache(Protocol):
    """What can be emptied, as by `functools`."""

    def cache_clear(self) -> None:
        """Forget all entries."""
        ...


CacheT = TypeVar("CacheT", bound=Cache)

_caches: WeakSet[Cache] = WeakSet()


def registered_cache(cache: CacheT) -> CacheT:
    """Have `clear_caches` empty `cache`, a function with `functools.lru_cache` or the like."""
    _caches.add(cache)
    return cache


def registered_caches() -> tuple[Cache, ...]:
    """The caches that `clear_caches` empties."""
    return tuple(_caches)


def clear_caches() -> None:
    """
    Forget all that was kept of modules: types, parameters, movements.

    Nothing but time is lost. For long processes: the caches do not grow without bound, but
    may hold some 10 MiB each. Other threads may go on meanwhile.
    """
    for cache in registered_caches():
        cache.cache_clear()


class BoundedCache(Generic[KeyT, ResultT]):
    """
    A cache for results that may be large. It is emptied when they become too much.

    Neither keys nor results may hold the elements of a constant. Results that do not hold
    slots either may be left to `lru_cache`.
    """

    max_bytes: int
    """How much is kept, about."""

    def __init__(self, max_bytes: int = MAX_CACHE_BYTES) -> None:
        self._known: dict[KeyT, ResultT] = {}
        self.max_bytes = max_bytes
        self._bytes = 0
        registered_cache(self)

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: KeyT) -> ResultT | None:
        """The result for `key`, if it is known."""
        return self._known.get(key)

    def add(self, key: KeyT, result: ResultT, weight: int) -> ResultT:
        """Keep `result`, which with its key holds about `weight` numbers, and return it."""
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
