"""Numbers that JSON has no spelling for."""

from __future__ import annotations

import math


def number_from_json(value: object) -> float | None:
    """A signal to noise ratio as JSON has it. Raises ValueError."""
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if value in ("inf", "-inf"):
        return float(str(value))
    raise ValueError(f"{value!r} is no number, nor 'inf' or '-inf'")


def number_to_json(value: float | None) -> float | str | None:
    """A number as JSON has it: an infinity is a text."""
    return str(value) if value is not None and math.isinf(value) else value
