"""
Glow's profiles, as YAML: read, written, and converted.

The files have three documents: the version of Glow's tools (which older files lack), a hash of
the graph, and a list of ranges. `lib/Quantization/Serialization.cpp` of
https://github.com/pytorch/glow. The parser reads the subset of YAML that LLVM's printer writes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Final, NoReturn

from qdialect.algebra.lazy_numpy import np
from qdialect.quantization.file_errors import FileError, read_text
from qdialect.quantization.profile import Fingerprint, Profile
from qdialect.quantization.ranges import Range, Statistics

BINS: Final = 10
"""The default number of bins in Glow."""

_VERSION: Final = "GlowToolsVersion"
_HASH: Final = "GraphPreLowerHash"
_FIELDS: Final = ("NodeOutputName", "Min", "Max", "Histogram")
_KEY_WIDTH: Final = 17
_RECORD_AGAIN: Final = "record the profile again with Glow's tools"


@dataclass(frozen=True)
class GlowValue:
    """The profile of one value."""

    minimum: float
    """A float32, like `maximum`."""
    maximum: float
    histogram: tuple[float, ...]
    """Counts of equal bins from `minimum` to `maximum`; Glow writes them with six digits."""


@dataclass(frozen=True)
class GlowProfile:
    """A profile of Glow."""

    version: str
    """The build date of Glow's tools, or an empty string."""
    graph_hash: int
    """The hash of the graph before lowering: 64 bits."""
    values: Mapping[str, GlowValue]
    """By `<node>:<number of the result>`."""

    @classmethod
    def from_yaml(cls, text: str, file: str = "<profile>") -> GlowProfile:
        """Parse a profile. Raises FileError, which names `file`."""
        return _YamlReader(text, file).profile()

    @classmethod
    def read(cls, path: str | Path) -> GlowProfile:
        """Read a profile. Raises OSError and FileError."""
        return cls.from_yaml(read_text(path, _RECORD_AGAIN), str(path))

    @classmethod
    def of_ranges(
        cls, profile: Profile, ranges: Mapping[str, Range], graph_hash: int, version: str = ""
    ) -> GlowProfile:
        """
        The values of `profile` with `ranges`, which one of its reductions gives for each key.

        Ranges of several slots become one. Histograms are those of the statistics, in ten equal
        bins, approximately; without one, the list is empty.
        """
        values: dict[str, GlowValue] = {}
        for key, of in ranges.items():
            low, high = float(np.min(of.minimum)), float(np.max(of.maximum))
            statistics = profile.statistics(key)
            histogram = None if statistics is None else statistics.histogram
            counts = () if histogram is None else histogram.linear(BINS, low, high).tolist()
            values[key] = GlowValue(low, high, tuple(map(float, counts)))
        return cls(version, graph_hash, values)

    def to_profile(self) -> Profile:
        """
        Convert to a profile of one record, whose fingerprint is the hash of the graph.

        It has no histograms, since their bins differ. The sums of Glow's counts are the numbers of
        elements.
        """
        values = {
            key: Statistics(
                (),
                np.array([0]),
                np.array([value.minimum], "f4"),
                np.array([value.maximum], "f4"),
                int(sum(value.histogram)),
            )
            for key, value in self.values.items()
        }
        return Profile(Fingerprint({_HASH: f"0x{self.graph_hash:016X}"}), values)

    def to_yaml(self) -> str:
        """The text of a file, with all digits of each number."""
        lines = ["---", f"{_VERSION}: {_quoted(self.version)}", "...", "---"]
        lines += [f"{_HASH}: 0x{self.graph_hash:016X}", "...", "---"]
        for key, value in self.values.items():
            histogram = ", ".join(map(_decimal, value.histogram))
            fields = (_quoted(key), _decimal(value.minimum), _decimal(value.maximum))
            texts = (*fields, f"[ {histogram} ]" if histogram else "[  ]")
            for name, text in zip(_FIELDS, texts, strict=True):
                mark = "- " if name == _FIELDS[0] else "  "
                lines.append(f"{mark}{name + ':':<{_KEY_WIDTH}}{text}")
        return "\n".join([*lines, "[]"] if not self.values else lines) + "\n...\n"


def _quoted(text: str) -> str:
    if text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    return json.dumps(text)


def _decimal(number: float) -> str:
    """All digits of a float."""
    if math.isinf(number):
        return str(number)
    return format(Decimal(number), "f")


_ENTRY = re.compile(r"(?P<item>- +)?(?P<key>[A-Za-z]+) *:(?= |$)[ ]*(?P<value>.*)")
_FLOW = re.compile(r"\[([-+.\w\s,]*)\][ \t]*(?:#.*)?$", re.MULTILINE)
_ELEMENT = re.compile(r"[^\s,](?:[^,]*[^\s,])?")
# Python's `re` stores each repetition of a group, so runs of plain characters are one group.
_SINGLE = re.compile(r"'([^']*+(?:''[^']*+)*)'\s*(?:#.*)?$")
_DOUBLE = re.compile(r'("[^"\\]*+(?:\\.[^"\\]*+)*")\s*(?:#.*)?$')
_INDICATORS = "[]{},#&*!|>%@`?~"
"""The characters with which plain YAML text may not begin."""
_NUMBER = re.compile(
    r"[-+]?(?:(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:e[-+]?[0-9]++)?|\.?inf(?:inity)?|\.?nan)",
    re.ASCII | re.IGNORECASE,
)


@dataclass(frozen=True)
class _Text:
    """A part of the text of a file, and its position."""

    text: str
    offset: int


@dataclass(frozen=True)
class _Entry:
    """A key and the text of its value."""

    begins_item: bool
    key: _Text
    value: _Text


class _YamlReader:
    def __init__(self, text: str, file: str) -> None:
        self._text = text
        self._file = file

    def profile(self) -> GlowProfile:
        documents = self._documents()
        version = ""
        if documents and documents[0] and documents[0][0].key.text == _VERSION:
            version = self._string(self._only(documents.pop(0), _VERSION))
        if not documents or not documents[0]:
            self._fail(_Text("", 0), f"this is not a profile of Glow: there is no {_HASH}")
        text = self._only(documents[0], _HASH)
        graph_hash = self._string(text)
        if not re.fullmatch("0x[0-9a-fA-F]{1,16}", graph_hash):
            self._fail(text, f"{graph_hash} is not a 64-bit hash, such as 0x0123456789ABCDEF")
        values: dict[str, GlowValue] = {}
        items = self._items(documents[1] if len(documents) > 1 else [])
        for extra in documents[2:]:
            if extra:
                self._fail(extra[0].key, "there is another document after the list of ranges")
        for fields in items:
            name = fields["NodeOutputName"]
            if (key := self._string(name)) in values:
                self._fail(name, f"'{key}' is given twice")
            low, high = (self._float(fields[end]) for end in ("Min", "Max"))
            if not low <= high:
                self._fail(fields["Min"], f"the minimum of '{key}' exceeds its maximum")
            values[key] = GlowValue(low, high, self._counts(fields["Histogram"]))
        return GlowProfile(version, int(graph_hash, 16), values)

    def _documents(self) -> list[list[_Entry]]:
        """The entries of each document."""
        documents: list[list[_Entry]] = []
        offset, after = 0, 0
        for line in self._text.splitlines(keepends=True):
            begin, offset = offset, offset + len(line)
            stripped = line.strip()
            if begin < after or not stripped or stripped.startswith(("#", "%")):
                continue
            if stripped.split()[0] == "---" and line.startswith("---"):
                documents.append([])
                continue
            if stripped == "..." or (stripped == "[]" and documents):
                continue
            if not documents:
                documents.append([])
            at = begin + len(line) - len(line.lstrip())
            found = _ENTRY.match(stripped)
            if found is None:
                self._fail(
                    _Text(stripped, at), "this is not a `key: value` line of Glow's profiles"
                )
            value = _Text(found["value"].strip(), at + found.start("value"))
            if not value.text or value.text.startswith("["):
                value = self._list(value)
                after = value.offset + len(value.text)
            key = _Text(found["key"], at + found.start("key"))
            documents[-1].append(_Entry(found["item"] is not None, key, value))
        return documents

    def _list(self, value: _Text) -> _Text:
        """A list, in brackets or with a line for each element; brackets may span lines."""
        if value.text:
            found = _FLOW.match(self._text, value.offset)
            if found is None:
                self._fail(value, "this list has no closing bracket")
            return _Text(found[0], value.offset)
        found = re.compile(r"(\s*\n +- +[-+.\w]+ *(?=\n))*").match(self._text, value.offset)
        return _Text(found[0] if found else "", value.offset)

    def _items(self, entries: list[_Entry]) -> list[dict[str, _Text]]:
        items: list[dict[str, _Text]] = []
        starts: list[_Text] = []
        for entry in entries:
            if entry.begins_item:
                items.append({})
                starts.append(entry.key)
            key = entry.key
            if key.text not in _FIELDS:
                self._fail(key, f"'{key.text}' is not one of {', '.join(_FIELDS)}")
            if not items:
                self._fail(key, "this is not an element of a list: there is no '- ' before")
            if key.text in items[-1]:
                self._fail(key, f"'{key.text}' is given twice")
            items[-1][key.text] = entry.value
        for item, start in zip(items, starts, strict=True):
            if missing := [name for name in _FIELDS if name not in item]:
                self._fail(start, f"there is no {' and no '.join(missing)}")
        return items

    def _only(self, entries: list[_Entry], key: str) -> _Text:
        if len(entries) != 1 or entries[0].key.text != key:
            self._fail(entries[0].key, f"this document must have {key} and nothing else")
        return entries[0].value

    def _string(self, text: _Text) -> str:
        if found := _SINGLE.match(text.text):
            return found[1].replace("''", "'")
        if found := _DOUBLE.match(text.text):
            try:
                return str(json.loads(found[1]))
            except json.JSONDecodeError:
                pass
        elif text.text and text.text[0] not in "'\"" + _INDICATORS:
            return text.text.partition(" #")[0].rstrip()
        quoted = text.text.startswith(("'", '"'))
        self._fail(text, f"this text{' in quotes' * quoted} is not valid")

    def _float(self, text: _Text) -> float:
        spelled = text.text.partition(" #")[0].rstrip()
        if _NUMBER.fullmatch(spelled) is None:
            self._fail(text, f"{text.text or 'nothing'} is not a number")
        number = float(re.sub(r"\.(?=[in])", "", spelled.lower()))
        if math.isnan(number):
            self._fail(text, "NaN is neither an end of a range nor a count")
        with np.errstate(over="ignore"):
            rounded = float(np.float32(number))
        if math.isinf(rounded) and "inf" not in spelled.lower():
            self._fail(text, f"{spelled} does not fit float32")
        return rounded

    def _count(self, text: _Text) -> float:
        number = self._float(text)
        if not 0 <= number < math.inf:
            self._fail(text, f"{text.text} is not a count of elements")
        return number

    def _counts(self, text: _Text) -> tuple[float, ...]:
        inside = _FLOW.match(text.text)
        if inside is None:
            found = re.finditer(r"(?<=- )[-+.\w]+", text.text)
            return tuple(self._count(_Text(of[0], text.offset + of.start())) for of in found)
        return tuple(
            self._count(_Text(of[0], text.offset + 1 + of.start()))
            for of in _ELEMENT.finditer(inside[1])
        )

    def _fail(self, at: _Text, reason: str) -> NoReturn:
        raise FileError(self._file, self._text, at.offset, reason, _RECORD_AGAIN)
