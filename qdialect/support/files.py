"""Files: the place, reason and remedy of an error, and numbers that JSON cannot represent."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from typing_extensions import override


class FileError(ValueError):
    """A file cannot be read: `file:line:column: reason; remedy`, counted from one."""

    def __init__(self, file: str, text: str, offset: int, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.file = file
        self.line, self.column = line_and_column(text, offset)
        self.reason = reason
        self.remedy = remedy

    @override
    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.reason}; {self.remedy}"


def read_text(path: str | Path, remedy: str) -> str:
    """The text of a file. Raises OSError, and FileError where it is not UTF-8."""
    content = Path(path).read_bytes()
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        before = content[: error.start].decode()
        reason = f"byte 0x{content[error.start]:02X} is not UTF-8"
        raise FileError(str(path), before, len(before), reason, remedy) from None
    return text.replace("\r\n", "\n")


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """The line and the column of a character, counted from one."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def offset_in_json(text: str, path: Sequence[str | int]) -> int:
    """
    The offset of an element of valid JSON, by the names and positions on the way to it.

    It is that of the name of a member of an object, the last one if there are several. Where the
    path ends at something that does not exist, it is that of the last element that does.
    """
    decode = json.JSONDecoder().raw_decode
    offset = inner = _skipped(text, 0)
    for step in path:
        member: tuple[int, int] | None = None
        position, is_object, at = 0, text[inner] == "{", _skipped(text, inner + 1)
        while text[at] not in "]}":
            name: Any = position
            start = at
            if is_object:
                name, at = decode(text, at)
                at = _skipped(text, _skipped(text, at) + len(":"))
            if name == step:
                member = start, at
            at = _skipped(text, decode(text, at)[1])
            position += 1
            if text[at] == ",":
                at = _skipped(text, at + 1)
        if member is None:
            break
        offset, inner = member
        if text[inner] not in "{[":
            break
    return offset


def _skipped(text: str, at: int) -> int:
    """The offset of the next character that is no white space."""
    while at < len(text) and text[at] in " \t\n\r":
        at += 1
    return at


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
