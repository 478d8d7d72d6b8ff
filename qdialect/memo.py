"""Remembering what was made of types, shapes and movements, which recur all over a module."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Final, Generic, TypeVar, TypeVarTuple

Ts = TypeVarTuple("Ts")
KeyT = TypeVar("KeyT")
ResultT = TypeVar("ResultT")

_MAX_WEIGHT: Final = 1 << 18


class Memo(Generic[KeyT, ResultT]):
    """
    What is known of keys. All is forgotten when it becomes too much.

    Keys are immutable and hashed quickly. Neither they nor what is known of them may hold
    the elements of a constant, since all lives as long as the process.
    """

    def __init__(self, max_weight: int = _MAX_WEIGHT) -> None:
        self.known: dict[KeyT, ResultT] = {}
        self._max_weight = max_weight
        self._weight = 0

    def add(self, key: KeyT, result: ResultT, weight: int) -> None:
        """Remember `result`, which with its key weighs so much."""
        self._weight += weight
        if self._weight > self._max_weight:
            self.known.clear()
            self._weight = weight
        self.known[key] = result


def remember(
    weigh: Callable[[*Ts], int],
) -> Callable[[Callable[[*Ts], ResultT]], Callable[[*Ts], ResultT]]:
    """
    Have a function remember its results in a `Memo`; what it raises is not remembered.

    `weigh` takes its arguments, and tells how many numbers they and their result hold.
    """

    def decorate(function: Callable[[*Ts], ResultT]) -> Callable[[*Ts], ResultT]:
        memo = Memo[tuple[*Ts], ResultT]()
        known = memo.known

        @wraps(function)
        def remembering(*arguments: *Ts) -> ResultT:
            try:
                return known[arguments]
            except KeyError:
                pass
            result = function(*arguments)
            memo.add(arguments, result, _OVERHEAD + weigh(*arguments))
            return result

        return remembering

    return decorate


_OVERHEAD: Final = 16
"""What an entry weighs beside the numbers that it holds."""
