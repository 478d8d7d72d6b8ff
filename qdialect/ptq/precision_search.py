"""
The search for layers that need more than 8 bits.

The noise that each op adds is measured once: its noise-to-signal ratio, less the largest of its
operands. Ops are raised in the order of this noise for each byte that raising them costs, first to
16 bits and then to floats, as many as a model needs to be good enough. That number is found by
bisection, since the noise of a result falls with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from qdialect.support.files import number_from_json

STORAGES: Final = ("int16", "float32")
"""What layers are raised to, one after the other."""


class Candidate(NamedTuple):
    """Ops that are raised together, since they have one rounding: a layer, its bias, its clamp."""

    keys: tuple[str, ...]
    noise: float
    """The noise that they add, as a ratio of noise to signal."""
    bytes: int
    """The number of bytes that another byte for each element of weights and results takes."""
    arguments: tuple[str, ...] = ()
    """The arguments that they read, which get 16 bits with them."""


class Choice(NamedTuple):
    """The first ops of a list of candidates, raised to a storage, and all others to another."""

    storage: str
    raised: int
    """The number of ops that are raised to it."""

    def settings(self, candidates: Sequence[Candidate]) -> Mapping[str, Any]:
        """The configuration, beside the default storage of whatever it does not name."""
        is_float = self.storage == STORAGES[1]
        # Next to floats, and if all ops have 16 bits, so have arguments.
        if self.raised == len(candidates) and not is_float:
            return {"default_quantization_dtype": "int16"}
        raised = candidates[: self.raised]
        names = [key for item in raised for key in item.keys]
        if not is_float:
            names += dict.fromkeys(key for item in raised for key in item.arguments)
        layer = {"names": names, "dtype": self.storage, "granularity": "channel"}
        default = {"default_quantization_dtype": "int16"} if is_float else {}
        return {**default, "layers": [layer]}


def candidates_of(report: Mapping[str, Any], evaluation: Mapping[str, Any]) -> list[Candidate]:
    """
    What may be raised, by the noise for each byte, from the reports of one quantization.

    `report` is that of `--quantization-report`, and `evaluation` that of `qdialect-evaluate`.
    """
    roles, ends = dict[str, str](), dict[str, str]()
    for value in report["values"]:
        roles.setdefault(value["key"], value["role"])
        if value["storage"] == "f32" and value.get("code"):
            roles[value["key"]] = "other"
        elif value.get("rule") == "shared" and value["origin"]:
            ends[value["key"]] = value["origin"]
    rows = {row["key"]: row for row in evaluation["values"]}
    for row in rows.values():
        for name in row["inputs"]:
            # A sum of products has codes only once its bias is added.
            if roles.get(name) == "activation" and rows.get(name, row)["storage"] == "f32":
                ends.setdefault(name, row["key"])
    groups = dict[str, list[str]]()
    for key in rows:
        if roles.get(key) == "activation":
            groups.setdefault(_end_of(key, ends), []).append(key)
    candidates = [
        _candidate(keys, rows[end if end in rows else keys[-1]], rows, roles, evaluation["records"])
        for end, keys in groups.items()
    ]
    return sorted(candidates, key=lambda item: -item.noise / item.bytes)


def _end_of(key: str, ends: Mapping[str, str]) -> str:
    """The last of the values that have one rounding."""
    seen = {key}
    while (following := ends.get(key, key)) not in seen:
        seen.add(following)
        key = following
    return key


def _candidate(
    keys: Sequence[str],
    end: Mapping[str, Any],
    rows: Mapping[str, Mapping[str, Any]],
    roles: Mapping[str, str],
    records: int,
) -> Candidate:
    """The candidate of values whose rounding is that of the value of `end`."""
    read = dict.fromkeys(name for key in keys for name in rows[key]["inputs"] if name not in keys)
    weights, arguments = (
        [name for name in read if roles.get(name) == role] for role in ("weight", "argument")
    )
    before = (_ratio(rows[name]) for name in read.keys() & rows.keys() - {*weights, *arguments})
    noise = max(0.0, _ratio(end) - max(before, default=0.0))
    elements = sum(rows[name]["elements"] for name in (*keys, *weights, *arguments) if name in rows)
    return Candidate((*keys,), noise, max(elements // records, 1), (*arguments,))


def _ratio(row: Mapping[str, Any]) -> float:
    """The noise of a value by its signal; 0 where it has no signal."""
    noise, signal = (number_from_json(row[name]) for name in ("noise", "signal"))
    return noise / signal if noise and signal else 0.0


def least_raised(
    candidates: Sequence[Candidate], score: Callable[[Choice], float], least: float
) -> Choice | None:
    """
    The choice with the fewest ops raised whose score is at least `least`; None if there is none.

    `score` is called some log2(number of candidates) times for each storage.
    """
    for storage in STORAGES:
        count = len(candidates)
        if not count or score(Choice(storage, count)) < least:
            continue
        low, high = 0, count
        while high - low > 1:
            middle = (low + high) // 2
            if score(Choice(storage, middle)) >= least:
                high = middle
            else:
                low = middle
        return Choice(storage, high)
    return None


def decibels_of(ratio: float) -> float:
    """A ratio of noise to signal as a ratio of signal to noise in dB."""
    return math.inf if ratio <= 0 else -10 * math.log10(ratio)
