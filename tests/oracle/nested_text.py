"""Nested lists in the text of attributes and types."""

from __future__ import annotations

from collections.abc import Sequence


def nested(items: Sequence[str], shape: Sequence[int], brackets: str = "[]") -> str:
    """The text of items in row-major order as nested lists of a shape without zeros."""
    for length in reversed(shape):
        items = [
            f"{brackets[0]}{', '.join(items[at : at + length])}{brackets[1]}"
            for at in range(0, len(items), length)
        ]
    (text,) = items
    return text
