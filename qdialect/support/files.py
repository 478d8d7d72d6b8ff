"""Files: the place, reason and remedy of an error, and values of JSON with the ways to them."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar, cast

from typing_extensions import override

from qdialect.support.arguments import shown

_T = TypeVar("_T")


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


JsonPath: TypeAlias = "tuple[str | int, ...]"
"""The names and positions on the way to a value of JSON."""


class JsonError(ValueError):
    """A text is not JSON, or one of its values is not as wanted. The message is the reason."""

    def __init__(self, reason: str, path: JsonPath = (), offset: int | None = None) -> None:
        """`offset` is the place in the text; None for that of the value at `path`."""
        super().__init__(reason)
        self.path = path
        self.offset = offset

    def offset_in(self, text: str, *, of_name: bool = False) -> int:
        """The place of the value, or of its name in an object."""
        if self.offset is not None:
            return self.offset
        return _offset_in_json(text, self.path, of_name=of_name)


class _Object(dict[str, Any]):
    repeated: str | None = None

    @classmethod
    def of_pairs(cls, pairs: list[tuple[str, Any]]) -> _Object:
        members = cls()
        for key, value in pairs:
            if key in members:
                members.repeated = key
            members[key] = value
        return members


_KINDS: Final[Mapping[type, str]] = {
    dict: "an object",
    list: "an array",
    str: "a text",
    int: "an integer",
    float: "a number",
    bool: "true or false",
}


@dataclass(frozen=True)
class JsonValue:
    """A value of a JSON text, and the way to it. Everything that reads it raises JsonError."""

    value: Any
    path: JsonPath = ()

    @classmethod
    def parse(cls, text: str) -> JsonValue:
        """The value that a text is."""
        try:
            return cls(json.loads(text, object_pairs_hook=_Object.of_pairs))
        except json.JSONDecodeError as error:
            raise JsonError(f"this is not JSON: {error.msg}", offset=error.pos) from None
        except RecursionError:
            raise JsonError("it is nested too deeply") from None
        except ValueError:
            # Python's error for an integer of thousands of digits has no position.
            digits = re.search(rf"[0-9]{{{sys.get_int_max_str_digits() + 1}}}", text)
            offset = 0 if digits is None else digits.start()
            raise JsonError("an integer has too many digits", offset=offset) from None

    def error(self, reason: str, *below: str | int) -> JsonError:
        """An error about this value, or one in it."""
        return JsonError(reason, (*self.path, *below))

    def of(self, kind: type[_T]) -> _T:
        """The value of exactly this type; objects are dict, arrays list."""
        value: Any = self.value
        if type(value) is not kind and not (kind is dict and isinstance(value, _Object)):
            raise self.error(f"it must be {_KINDS[kind]}, but is {shown(value)}")
        return cast(_T, value)

    def number(self) -> float:
        """An integer or another number."""
        try:
            return float(self.value if type(self.value) is int else self.of(float))
        except OverflowError:
            raise self.error("it is too large") from None

    def items(self) -> list[JsonValue]:
        """The items of an array."""
        items = enumerate(cast("list[Any]", self.of(list)))
        return [JsonValue(item, (*self.path, at)) for at, item in items]

    def members(
        self, keys: Collection[str] | None = None, optional: Collection[str] = ()
    ) -> dict[str, JsonValue]:
        """
        The members of an object by their names, which must differ.

        With `keys`, it has these and no others; those that are optional may be missing.
        """
        members = cast("dict[str, Any]", self.of(dict))
        if isinstance(members, _Object) and (repeated := members.repeated) is not None:
            raise self.error(f"'{repeated}' is given twice", repeated)
        for key in members:
            if keys is not None and key not in keys:
                names = ", ".join(keys)
                raise self.error(f"{shown(key)} is unknown: the keys are {names}", key)
        for key in keys or ():
            if key not in members and key not in optional:
                raise self.error(f"'{key}' is missing")
        return {key: JsonValue(value, (*self.path, key)) for key, value in members.items()}

    def made(self, make: Callable[[], _T]) -> _T:
        """What `make` returns; another ValueError of it is about this value."""
        try:
            return make()
        except JsonError:
            raise
        except ValueError as error:
            raise self.error(str(error)) from None


def _offset_in_json(text: str, path: JsonPath, *, of_name: bool) -> int:
    """
    The offset of a value of valid JSON, or of its name if it is a member of an object.

    Of several members of a name, the last one counts. Where the path ends at something that does
    not exist, the offset is that of the last value that does.
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
                member = start if of_name else at, at
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
