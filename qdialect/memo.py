"""Remembering what was made of types and movements, which recur all over a module."""

from __future__ import annotations

from typing import Final, Generic, TypeVar

KeyT = TypeVar("KeyT")
ResultT = TypeVar("ResultT")

_MAX_WEIGHT: Final = 1 << 18

_OVERHEAD: Final = 16
"""What an entry weighs beside the numbers that it holds."""


class Memo(Generic[KeyT, ResultT]):
    """
    What was made of keys. All is forgotten when it becomes too much.

    Neither keys nor what was made of them may hold the elements of a constant, since it
    lives as long as the process. What holds no slots either may be left to `lru_cache`.
    """

    def __init__(self, max_weight: int = _MAX_WEIGHT) -> None:
        self._known: dict[KeyT, ResultT] = {}
        self._max_weight = max_weight
        self._weight = 0

    def get(self, key: KeyT) -> ResultT | None:
        """What was made of `key`, if that is known."""
        return self._known.get(key)

    def add(self, key: KeyT, result: ResultT, weight: int) -> ResultT:
        """Remember `result`, which with its key holds `weight` numbers, and return it."""
        self._weight += weight + _OVERHEAD
        if self._weight > self._max_weight:
            self._known.clear()
            self._weight = weight + _OVERHEAD
        self._known[key] = result
        return result
