"""Numbers that JSON cannot represent."""

from __future__ import annotations

import math


def number_from_json(value: object) -> float | None:
    """The number of a JSON value; infinities are strings. Raises ValueError."""
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if value in ("inf", "-inf"):
        return float(str(value))
    raise ValueError(f"{value!r} is not a number, 'inf' or '-inf'")


def number_to_json(value: float | None) -> float | str | None:
    """The JSON value of a number; infinities are strings."""
    return str(value) if value is not None and math.isinf(value) else value
