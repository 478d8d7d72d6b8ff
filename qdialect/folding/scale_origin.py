"""How many scales there are in what the scales of a value come from."""

from __future__ import annotations

from collections.abc import Iterable


class ScaleOrigin:
    """
    What the scales of a value come from: a type or constant of the module, or those of operands.

    Each counts once, however often its value is an operand. The total is computed on
    demand: a chain of n concatenations would otherwise hold sets of 1, 2, ..., n types.
    """

    __slots__ = ("_count", "_parts")

    def __init__(self, count: int = 0, parts: tuple[ScaleOrigin, ...] = ()) -> None:
        self._count = count
        self._parts = parts

    @property
    def total(self) -> int:
        """The number of scales in all of these together."""
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
    """The origin of what is joined from several; None if none has scales."""
    parts = tuple(dict.fromkeys([origin for origin in origins if origin is not None]))
    return ScaleOrigin(parts=parts) if len(parts) > 1 else next(iter(parts), None)
