"""
Profiles: the recorded ranges of the values of a module, by their keys, as JSON.

Floats are written so that they round-trip as float32, and infinities as text. A profile has the
fingerprint of the module that it was recorded on; only profiles of the same module can be merged.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar, cast

from qdialect.ptq.schemes.ranges import (
    WHOLE,
    FloatHistogram,
    Reduction,
    ReductionKind,
    Statistics,
    merged,
)
from qdialect.support.files import FileError, read_text
from qdialect.support.lazy_numpy import NDArray, np

FORMAT: Final = "qdialect-profile"
VERSION: Final = 2
_VERSIONS: Final = (1, VERSION)
"""The versions that can be read: version 1 does not identify values."""

_FIELDS: Final = (
    "format",
    "version",
    "module",
    "identities",
    "numbered",
    "aliases",
    "reduction",
    "values",
)
_STATISTICS: Final = ("axes", "records", "minima", "maxima", "count", "nans", "histogram")
_MAX_COUNT: Final = (1 << 53) - 1

_RECORD_AGAIN: Final = "record the profile again"

_T = TypeVar("_T")
_Path: TypeAlias = "tuple[str | int, ...]"

_INFINITIES: Final[Mapping[float, str]] = {float("inf"): "inf", float("-inf"): "-inf"}


@dataclass(frozen=True)
class Fingerprint:
    """The identity of a module: a text for each of its parts, such as the hash of a function."""

    parts: Mapping[str, str]

    values: Mapping[str, str] = field(default_factory=dict[str, str])
    """For the key of each value, a hash of how it is computed; empty if that is not known."""

    numbered: frozenset[str] = frozenset()
    """The keys that number values: they may be those of other values in another module."""

    def has_keys_of(self, other: Fingerprint) -> bool:
        """Whether `other` is the same module, and each value has the same key in it."""
        return bool(self.values) and self.values == other.values and self.parts == other.parts

    def differences(self, other: Fingerprint) -> list[str]:
        """The differences of `other` from this one, in words; empty if it is the same."""
        return [
            f"'{part}' differs"
            if part in self.parts and part in other.parts
            else f"'{part}' is only in the {'first' if part in self.parts else 'second'}"
            for part in sorted({*self.parts, *other.parts})
            if self.parts.get(part) != other.parts.get(part)
        ]


@dataclass(frozen=True, eq=False)
class Profile:
    """The statistics of the values of a module."""

    fingerprint: Fingerprint
    values: Mapping[str, Statistics]
    """The statistics of values, by their keys."""
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    """Other names of values, and the keys in `values` that they stand for."""
    reduction: Reduction = WHOLE
    """The default reduction of several records to one range."""

    def __post_init__(self) -> None:
        """Raise ValueError for an alias of a missing key, and for one that is a key itself."""
        for alias, key in self.aliases.items():
            if key not in self.values:
                raise ValueError(f"'{alias}' is an alias of '{key}', which has no statistics")
            if alias in self.values:
                raise ValueError(f"'{alias}' is an alias, but has statistics of its own")

    def statistics(self, key: str) -> Statistics | None:
        """The statistics of the value with `key`, which may be an alias; None if there are none."""
        return self.values.get(self.aliases.get(key, key))

    def merge(self, other: Profile) -> Profile:
        """
        The union of both profiles, in any order; a value may be in only one of them.

        Raises ValueError if they are of different modules, and says how these differ; if both have
        the same record; and if they have ranges of different axes.
        """
        return merged_profiles((self, other))

    def to_json(self) -> str:
        """The text of a profile file: keys are sorted, and each value has a line."""
        module = self.fingerprint
        head = {"format": FORMAT, "version": VERSION, "module": {**module.parts}}
        if module.values:
            head |= {"identities": {**module.values}, "numbered": sorted(module.numbered)}
        lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
        aliases = dict(sorted(self.aliases.items()))
        lines.append(f' "aliases": {json.dumps(aliases)}')
        if self.reduction != WHOLE:
            reduction = self.reduction
            written = {"kind": reduction.kind.value, "low": reduction.low, "high": reduction.high}
            lines.append(f' "reduction": {json.dumps(written)}')
        values = [
            f"  {json.dumps(key)}: {json.dumps(_to_json(self.values[key]), allow_nan=False)}"
            for key in sorted(self.values)
        ]
        lines.append(' "values": {\n' + ",\n".join(values) + "\n }")
        return "{\n" + ",\n".join(lines) + "\n}\n"

    @classmethod
    def from_json(cls, text: str, file: str = "<profile>") -> Profile:
        """Parse a profile. Raises FileError, which names `file`."""
        return _JsonReader(text, file).profile()

    @classmethod
    def read(cls, path: str | Path) -> Profile:
        """Read a profile. Raises OSError and FileError."""
        return cls.from_json(read_text(path, _RECORD_AGAIN), str(path))


def merged_profiles(profiles: Sequence[Profile]) -> Profile:
    """Merge at least one profile. Raises as `Profile.merge`."""
    first, *others = profiles
    parts_of: dict[str, list[Statistics]] = {}
    aliases: dict[str, str] = {}
    for other in others:
        if differences := first.fingerprint.differences(other.fingerprint):
            raise ValueError(
                "profiles of different modules cannot be merged: " + "; ".join(differences)
            )
        if first.fingerprint.values != other.fingerprint.values:
            raise ValueError("profiles of modules whose values have other keys cannot be merged")
        if first.reduction != other.reduction:
            raise ValueError("profiles with different reductions cannot be merged")
    for profile in profiles:
        for key, statistics in profile.values.items():
            parts_of.setdefault(key, []).append(statistics)
        for alias, key in profile.aliases.items():
            if aliases.setdefault(alias, key) != key:
                raise ValueError(
                    f"'{alias}' is an alias of '{aliases[alias]}' in one profile, "
                    f"and of '{key}' in another"
                )
    values: dict[str, Statistics] = {}
    for key, parts in parts_of.items():
        try:
            values[key] = merged(parts)
        except ValueError as error:
            raise ValueError(f"value '{key}': {error}") from None
    return Profile(first.fingerprint, values, aliases, first.reduction)


def _to_json(statistics: Statistics) -> dict[str, Any]:
    histogram = statistics.histogram
    return {
        "axes": [*statistics.axes],
        "records": statistics.records.tolist(),
        "minima": _nested(statistics.minima),
        "maxima": _nested(statistics.maxima),
        "count": statistics.count,
        "nans": statistics.nans,
        **(
            {}
            if histogram is None
            else {
                "histogram": {"bins": histogram.bins.tolist(), "counts": histogram.counts.tolist()}
            }
        ),
    }


def _nested(numbers: NDArray[np.float32]) -> Any:
    """Nested lists; each float32 is converted exactly to a float."""

    def written(item: Any) -> Any:
        if isinstance(item, list):
            return [written(inner) for inner in cast("list[Any]", item)]
        return _INFINITIES.get(item, item)

    return written(numbers.tolist())


class _Object(dict[str, Any]):
    """An object of JSON. Raises ValueError for a duplicate key."""

    repeated: str | None = None

    @classmethod
    def of_pairs(cls, pairs: list[tuple[str, Any]]) -> _Object:
        members = cls()
        for key, value in pairs:
            if key in members:
                members.repeated = key
            members[key] = value
        return members


class _JsonReader:
    def __init__(self, text: str, file: str) -> None:
        self._text = text
        self._file = file

    def profile(self) -> Profile:
        try:
            content = json.loads(self._text, object_pairs_hook=_Object.of_pairs)
        except json.JSONDecodeError as error:
            reason = f"this is not JSON: {error.msg}"
            raise FileError(self._file, self._text, error.pos, reason, _RECORD_AGAIN) from None
        except ValueError:
            # Python's error for an integer of thousands of digits has no position.
            digits = re.search(rf"[0-9]{{{sys.get_int_max_str_digits() + 1}}}", self._text)
            offset = 0 if digits is None else digits.start()
            reason = "this number has too many digits"
            raise FileError(self._file, self._text, offset, reason, _RECORD_AGAIN) from None
        except RecursionError:
            raise self._error((), "this is nested too deeply") from None
        profile = self._typed((), content, _Object, "an object")
        if profile.get("format") != FORMAT:
            raise self._error((), f'this is not a profile: there is no "format": "{FORMAT}"')
        version = self._field((), profile, "version", int, "an integer")
        if version not in _VERSIONS:
            raise self._error(
                ("version",),
                f"version {version} is not supported",
                "read it with the qdialect that wrote it; this one supports the versions "
                f"{' and '.join(map(str, _VERSIONS))}",
            )
        self._check_names((), profile, _FIELDS)
        parts = self._texts(profile, "module")
        aliases = self._texts(profile, "aliases")
        identities = self._texts(profile, "identities") if "identities" in profile else {}
        numbered = self._list((), profile, "numbered") if "numbered" in profile else []
        for at, item in enumerate(numbered):
            self._typed(("numbered", at), item, str, "a text")
        values = self._field((), profile, "values", _Object, "an object")
        reduction = self._reduction(profile)
        return self._fitting(
            ("aliases",),
            lambda: Profile(
                Fingerprint(parts, identities, frozenset(numbered)),
                {
                    key: self._statistics(("values", key), content)
                    for key, content in values.items()
                },
                aliases,
                reduction,
            ),
        )

    def _reduction(self, profile: _Object) -> Reduction:
        path = ("reduction",)
        if "reduction" not in profile:
            return WHOLE
        content = self._field((), profile, "reduction", _Object, "an object")
        self._check_names(path, content, ("kind", "low", "high"))
        kind = self._field(path, content, "kind", str, "a text")
        if kind not in tuple(ReductionKind):
            words = ", ".join(ReductionKind)
            raise self._error((*path, "kind"), f"this must be one of {words}")
        low, high = (
            cast(float, self._field(path, content, name, (int, float), "a number"))
            for name in ("low", "high")
        )
        return self._fitting(path, lambda: Reduction(ReductionKind(kind), low, high))

    def _statistics(self, path: _Path, content: Any) -> Statistics:
        value = self._typed(path, content, _Object, "an object")
        self._check_names(path, value, _STATISTICS)
        minima, maxima = (self._floats(path, value, name) for name in ("minima", "maxima"))
        axes, records = (self._integers(path, value, name) for name in ("axes", "records"))
        count, nans = (
            self._count((*path, name), self._field(path, value, name, int, "an integer"))
            for name in ("count", "nans")
        )
        histogram = None
        if "histogram" in value:
            at = (*path, "histogram")
            content = self._field(path, value, "histogram", _Object, "an object")
            self._check_names(at, content, ("bins", "counts"))
            bins, counts = (self._integers(at, content, name) for name in ("bins", "counts"))
            for number, in_bin in enumerate(counts):
                self._count((*at, "counts", number), in_bin)
            histogram = self._fitting(
                at, lambda: FloatHistogram(np.array(bins, np.int64), np.array(counts, np.int64))
            )
        return self._fitting(
            path,
            lambda: Statistics(
                tuple(axes), np.array(records, np.int64), minima, maxima, count, nans, histogram
            ),
        )

    def _floats(self, path: _Path, value: _Object, name: str) -> NDArray[np.float32]:
        items = self._list(path, value, name)
        numbers: list[float] = []

        def shape_of(path: _Path, items: list[Any]) -> tuple[int, ...]:
            shapes: set[tuple[int, ...]] = set()
            for at, item in enumerate(items):
                if isinstance(item, list):
                    shapes.add(shape_of((*path, at), cast("list[Any]", item)))
                else:
                    shapes.add(())
                    numbers.append(self._float((*path, at), item))
            if len(shapes) > 1:
                raise self._error(path, "its elements differ in length")
            return (len(items), *(shapes.pop() if shapes else ()))

        shape = shape_of((*path, name), items)
        return np.array(numbers, np.float32).reshape(shape)

    def _float(self, path: _Path, item: Any) -> float:
        if item in _INFINITIES.values() and isinstance(item, str):
            return float(item)
        if isinstance(item, int | float) and not isinstance(item, bool):
            try:
                number = float(item)
            except OverflowError:
                number = float("nan")
            with np.errstate(over="ignore"):
                if float(np.float32(number)) == number and number not in _INFINITIES:
                    return number
        raise self._error(path, f'{json.dumps(item)} is neither a float32 nor "inf" or "-inf"')

    def _integers(self, path: _Path, value: _Object, name: str) -> list[int]:
        items = self._list(path, value, name)
        for at, item in enumerate(items):
            number = self._typed((*path, name, at), item, int, "an integer")
            if abs(number) >= 1 << 63:
                raise self._error((*path, name, at), f"{number} does not fit 64 bits")
        return items

    def _count(self, path: _Path, number: int) -> int:
        """A number of elements, at most half of 64 bits, so that sums of two do not overflow."""
        if not 0 <= number <= _MAX_COUNT:
            raise self._error(path, f"counts of elements are from 0 to {_MAX_COUNT}")
        return number

    def _check_names(self, path: _Path, value: _Object, known: Sequence[str]) -> None:
        """Refuse unknown names: they may be mistyped."""
        for name in value:
            if name not in known:
                told = f"{json.dumps(name)} is not one of {', '.join(map(json.dumps, known))}"
                raise self._error((*path, name), told)

    def _list(self, path: _Path, value: _Object, name: str) -> list[Any]:
        return cast("list[Any]", self._field(path, value, name, list, "a list"))

    def _texts(self, profile: _Object, name: str) -> dict[str, str]:
        texts = self._field((), profile, name, _Object, "an object")
        return {key: self._typed((name, key), text, str, "a text") for key, text in texts.items()}

    def _field(
        self,
        path: _Path,
        value: _Object,
        name: str,
        wanted: type[_T] | tuple[type[_T], ...],
        article: str,
    ) -> _T:
        if name not in value:
            raise self._error(path, f"there is no {json.dumps(name)}")
        return self._typed((*path, name), value[name], wanted, article)

    def _typed(
        self, path: _Path, value: Any, wanted: type[_T] | tuple[type[_T], ...], article: str
    ) -> _T:
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise self._error(path, f"this must be {article}")
        if isinstance(value, _Object) and value.repeated is not None:
            raise self._error(
                (*path, value.repeated), f"{json.dumps(value.repeated)} is given twice"
            )
        return value

    def _fitting(self, path: _Path, make: Callable[[], _T]) -> _T:
        try:
            return make()
        except FileError:
            raise
        except ValueError as error:
            raise self._error(path, str(error)) from None

    def _error(self, path: _Path, reason: str, remedy: str = _RECORD_AGAIN) -> FileError:
        return FileError(self._file, self._text, _offset_of(self._text, path), reason, remedy)


_SPACE = re.compile(r"[ \t\r\n]*")


def _offset_of(text: str, path: Sequence[str | int]) -> int:
    """The position of the value at `path`, in a valid JSON text."""

    def after_space(offset: int) -> int:
        space = _SPACE.match(text, offset)
        return offset if space is None else space.end()

    decoder = json.JSONDecoder()
    offset = after_space(0)
    for step in path:
        start, index, at = offset, 0, after_space(offset + 1)
        while text[at] not in "]}":
            key: str | int = index
            if isinstance(step, str):
                key, at = decoder.raw_decode(text, at)
                at = after_space(after_space(at) + 1)
            if key == step:
                # Of duplicate keys, the last one counts.
                start = at
            at = after_space(decoder.raw_decode(text, at)[1])
            at = after_space(at + 1) if text[at] == "," else at
            index += 1
        offset = start
    return offset
