"""The layers with the most noise, from the file of an evaluation."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, Final, cast

from qdialect.support.files import FileError, read_text

_FORMAT: Final = "qdialect-evaluation"
_REMEDY: Final = "write it with 'qdialect-evaluate --json'"
_WORDS: Final = {"inf": math.inf, "-inf": -math.inf}


def worst_keys(
    path: str, layers: Sequence[Sequence[str]], count: int
) -> tuple[list[str], list[str]]:
    """
    The keys of the `count` layers with the lowest signal-to-noise ratio, the lowest first.

    Each layer has several keys; the first one that the file has is used. Layers without a key in
    the file follow, by their first keys. Raises OSError, and ValueError for another file.
    """
    known = _decibels(path)
    found, missing = list[tuple[float, str]](), list[str]()
    for keys in layers:
        key = next((key for key in keys if key in known), None)
        if key is None:
            missing.append(keys[0])
        else:
            found.append((known[key], key))
    return [key for _, key in sorted(found, key=lambda pair: pair[0])[:count]], missing


def _decibels(path: str) -> dict[str, float]:
    """The least signal-to-noise ratio of each value, in dB."""
    text = read_text(path, _REMEDY)
    try:
        held: Any = json.loads(text)
    except json.JSONDecodeError as error:
        raise FileError(path, text, error.pos, error.msg, _REMEDY) from None
    if not isinstance(held, dict) or cast("dict[str, Any]", held).get("format") != _FORMAT:
        raise ValueError(f"{path}: it is not an evaluation; {_REMEDY}")
    rows = cast("dict[str, Any]", held).get("values")
    found = dict[str, float]()
    for row in cast("list[Any]", rows) if isinstance(rows, list) else []:
        if not isinstance(row, dict) or "key" not in row or "signal_to_noise" not in row:
            raise ValueError(f"{path}: a value has no key or no signal-to-noise ratio; {_REMEDY}")
        number = cast("dict[str, Any]", row)["signal_to_noise"]
        number = _WORDS.get(number, None) if isinstance(number, str) else number
        if isinstance(number, int | float):
            key = str(cast("dict[str, Any]", row)["key"])
            found[key] = min(float(number), found.get(key, math.inf))
    return found
