"""
Profiles: the recorded ranges of the values of a module, by their keys, as JSON.

Floats are written so that they round-trip as float32, and infinities as text. A profile has the
fingerprint of the module that it was recorded on; only profiles of the same module can be merged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from typing_extensions import override

from qdialect.ptq.schemes.ranges import (
    WHOLE,
    FloatHistogram,
    Reduction,
    ReductionKind,
    Statistics,
    merged,
)
from qdialect.support.files import FileError, JsonError, JsonValue, read_text
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.support.terminal import Displayed, Table, first_rows

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
_OPTIONAL: Final = ("identities", "numbered", "reduction")
_STATISTICS: Final = ("axes", "records", "minima", "maxima", "count", "nans", "histogram")
_MAX_COUNT: Final = (1 << 53) - 1

_RECORD_AGAIN: Final = "record the profile again"
_READ_ELSEWHERE: Final = (
    "read it with the qdialect that wrote it; this one supports the versions "
    f"{' and '.join(map(str, _VERSIONS))}"
)


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


@dataclass(frozen=True, eq=False, repr=False)
class Profile(Displayed):
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

    @override
    def __repr__(self) -> str:
        records = max((part.records.size for part in self.values.values()), default=0)
        return f"{type(self).__name__}({len(self.values)} values, up to {records} records each)"

    @override
    def tables(self) -> Sequence[Table]:
        rows = (
            (key, *map(str, (part.records.size, part.minima.min(), part.maxima.max(), part.nans)))
            for key, part in self.values.items()
        )
        names = "value", "records", "minimum", "maximum", "NaNs"
        return (first_rows("profile", names, rows, 1, len(self.values)),)

    def statistics(self, key: str) -> Statistics | None:
        """The statistics of the value with `key`, which may be an alias; None if there are none."""
        return self.values.get(self.aliases.get(key, key))

    @property
    def has_histograms(self) -> bool:
        """Whether each value has a histogram."""
        return all(statistics.histogram is not None for statistics in self.values.values())

    def merge(self, other: Profile) -> Profile:
        """
        The union of both profiles, in any order; a value may be in only one of them.

        Raises ValueError if they are of different modules, and says how these differ; if both have
        the same record; and if they have ranges of different axes.
        """
        return merge_profiles((self, other))

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
        try:
            return _profile(JsonValue.parse(text))
        except JsonError as error:
            is_version = error.path == ("version",)
            remedy = _READ_ELSEWHERE if is_version else _RECORD_AGAIN
            raise FileError(file, text, error.offset_in(text), str(error), remedy) from None

    @classmethod
    def read(cls, path: str | Path) -> Profile:
        """Read a profile. Raises OSError and FileError."""
        return cls.from_json(read_text(path, _RECORD_AGAIN), str(path))


def merge_profiles(profiles: Sequence[Profile]) -> Profile:
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
    content: dict[str, Any] = {
        "axes": [*statistics.axes],
        "records": statistics.records.tolist(),
        "minima": _nested(statistics.minima),
        "maxima": _nested(statistics.maxima),
        "count": statistics.count,
        "nans": statistics.nans,
    }
    if (histogram := statistics.histogram) is not None:
        bins, counts = histogram.bins.tolist(), histogram.counts.tolist()
        content["histogram"] = {"bins": bins, "counts": counts}
    return content


def _nested(numbers: NDArray[np.float32]) -> Any:
    """Nested lists; each float32 is converted exactly to a float."""

    def written(item: Any) -> Any:
        if isinstance(item, list):
            return [written(inner) for inner in cast("list[Any]", item)]
        return _INFINITIES.get(item, item)

    return written(numbers.tolist())


def _profile(root: JsonValue) -> Profile:
    written = root.members()
    if "format" not in written or written["format"].value != FORMAT:
        raise root.error(f'this is not a profile: there is no "format": "{FORMAT}"')
    version = written.get("version", JsonValue(None, ("version",)))
    if version.of(int) not in _VERSIONS:
        raise version.error(f"version {version.value} is not supported")
    written = root.members(_FIELDS, _OPTIONAL)
    parts, aliases, identities = (
        {key: text.of(str) for key, text in written[name].members().items()}
        if name in written
        else {}
        for name in ("module", "aliases", "identities")
    )
    numbered = written["numbered"].items() if "numbered" in written else []
    fingerprint = Fingerprint(parts, identities, frozenset([key.of(str) for key in numbered]))
    values = {key: _statistics(value) for key, value in written["values"].members().items()}
    reduction = _reduction(written["reduction"]) if "reduction" in written else WHOLE
    return written["aliases"].made(lambda: Profile(fingerprint, values, aliases, reduction))


def _reduction(value: JsonValue) -> Reduction:
    written = value.members(("kind", "low", "high"))
    kind = written["kind"].of(str)
    if kind not in tuple(ReductionKind):
        raise written["kind"].error(f"this must be one of {', '.join(ReductionKind)}")
    low, high = written["low"].number(), written["high"].number()
    return value.made(lambda: Reduction(ReductionKind(kind), low, high))


def _statistics(value: JsonValue) -> Statistics:
    written = value.members(_STATISTICS, ("histogram",))
    minima, maxima = _floats(written["minima"]), _floats(written["maxima"])
    axes, records = _integers(written["axes"]), _integers(written["records"])
    count, nans = _count(written["count"]), _count(written["nans"])
    histogram = _histogram(written["histogram"]) if "histogram" in written else None
    return value.made(
        lambda: Statistics(
            tuple(axes), np.array(records, np.int64), minima, maxima, count, nans, histogram
        )
    )


def _histogram(value: JsonValue) -> FloatHistogram:
    written = value.members(("bins", "counts"))
    bins, counts = _integers(written["bins"]), list(map(_count, written["counts"].items()))
    return value.made(lambda: FloatHistogram(np.array(bins, np.int64), np.array(counts, np.int64)))


def _floats(value: JsonValue) -> NDArray[np.float32]:
    numbers: list[float] = []

    def shape_of(value: JsonValue) -> tuple[int, ...]:
        if not isinstance(value.value, list):
            numbers.append(_float(value))
            return ()
        items = value.items()
        shapes = set(map(shape_of, items))
        if len(shapes) > 1:
            raise value.error("its elements differ in length")
        return (len(items), *(shapes.pop() if shapes else ()))

    value.of(list)
    shape = shape_of(value)
    return np.array(numbers, np.float32).reshape(shape)


def _float(value: JsonValue) -> float:
    item: Any = value.value
    if isinstance(item, str) and item in _INFINITIES.values():
        return float(item)
    if isinstance(item, int | float) and not isinstance(item, bool):
        try:
            number = float(item)
        except OverflowError:
            number = float("nan")
        with np.errstate(over="ignore"):
            if float(np.float32(number)) == number and number not in _INFINITIES:
                return number
    raise value.error(f'{json.dumps(item)} is neither a float32 nor "inf" or "-inf"')


def _integers(value: JsonValue) -> list[int]:
    return [_integer(item) for item in value.items()]


def _integer(value: JsonValue) -> int:
    if abs(value.of(int)) >= 1 << 63:
        raise value.error(f"{value.value} does not fit 64 bits")
    return value.value


def _count(value: JsonValue) -> int:
    """A number of elements, at most half of 64 bits, so that sums of two do not overflow."""
    if not 0 <= value.of(int) <= _MAX_COUNT:
        raise value.error(f"counts of elements are from 0 to {_MAX_COUNT}")
    return value.value
