"""Counting the scales in the origins of the scales of a value."""

from __future__ import annotations

from collections.abc import Iterable


class ScaleOrigin:
    """
    The origin of the scales of a value: a type or constant of the module, or several origins.

    Each type or constant counts once, however often its value is used. The total is computed on
    demand: a chain of n concatenations would otherwise hold sets of 1, 2, ..., n types.
    """

    __slots__ = ("_count", "_parts")

    def __init__(self, count: int = 0, parts: tuple[ScaleOrigin, ...] = ()) -> None:
        self._count = count
        self._parts = parts

    @property
    def total(self) -> int:
        """The number of scales in all origins together."""
        if not self._parts:
            return self._count
        seen, pending, total = set[int](), list[ScaleOrigin]([self]), 0
        while pending:
            origin = pending.pop()
            if id(origin) not in seen:
                seen.add(id(origin))
                total += origin._count
                pending += origin._parts
        return total


def joined_origin(origins: Iterable[ScaleOrigin | None]) -> ScaleOrigin | None:
    """The origin of a value joined from several; None if none has scales."""
    parts = tuple(dict.fromkeys([origin for origin in origins if origin is not None]))
    return ScaleOrigin(parts=parts) if len(parts) > 1 else next(iter(parts), None)
