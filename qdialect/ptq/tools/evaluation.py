"""The results of an evaluation, as tables and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple, TextIO

from qdialect.ptq.calibration.compared_functions import (
    ComparedResult,
    ComparedValue,
    NotCompared,
)
from qdialect.ptq.schemes.noise import Answers, Noise
from qdialect.support.files import number_to_json
from qdialect.support.terminal import Table, write_tables

_NAMED: Final = 10
"""The number of values of only one module that are listed by name."""


class Row(NamedTuple):
    """A value and its noise."""

    value: ComparedValue
    noise: Noise
    decibels: float | None
    drop: float | None
    """The loss of the signal-to-noise ratio against the worst operand of its op, in dB."""


@dataclass(frozen=True)
class Evaluation:
    """The comparison of two functions on some records."""

    engine: str
    records: int
    noises: tuple[tuple[ComparedValue, Noise], ...]
    answers: tuple[tuple[ComparedResult, Answers], ...]
    has_labels: bool
    not_compared: tuple[NotCompared, ...]

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """All compared values, in module order."""
        known = dict[str, float]()
        for value, noise in self.noises:
            if (found := noise.decibels) is not None:
                known[value.key] = min(found, known.get(value.key, math.inf))
        rows = list[Row]()
        for value, noise in self.noises:
            found = noise.decibels
            inputs = [known[key] for key in value.inputs if key in known and key != value.key]
            drop = None if found is None or not inputs else _difference(min(inputs), found)
            rows.append(Row(value, noise, found, drop))
        return tuple(rows)

    def tables(self, worst: int) -> tuple[Table, ...]:
        """All values, and the worst ones, by signal-to-noise ratio and by its loss."""
        rows = self.rows
        lowest = sorted(
            (row for row in rows if row.noise.differing or _number(row.decibels) < math.inf),
            key=lambda row: (not row.noise.differing, _number(row.decibels)),
        )
        losing = sorted(
            (row for row in rows if row.drop is not None and row.drop > 0),
            key=lambda row: (-_number(row.drop), _number(row.decibels)),
        )
        return (
            _table("values", rows),
            _table("lowest signal-to-noise ratios", lowest[:worst]),
            _table("largest drops from the operands of an op", losing[:worst]),
        )

    def lines(self) -> list[str]:
        """The lines below the tables."""
        found = list[str]()
        for row in self.rows:
            if (told := _left_out(row.noise)) is not None:
                found.append(f"'{row.value.key}': {told}")
            elif row.decibels is None:
                found.append(f"'{row.value.key}': squares of its elements overflow float64")
        for reason in dict.fromkeys(of.reason for of in self.not_compared):
            keys = [f"'{of.key}'" for of in self.not_compared if of.reason == reason]
            more = f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else ""
            found.append(f"not compared: {', '.join(keys[:_NAMED])}{more}: {reason}")
        for result, answers in self.answers:
            named = f"result {result.number}" + (f" ('{result.key}')" if result.key else "")
            share = _share(answers.agreeing, answers.count)
            found.append(f"{named}: the top answer agrees in {share}")
            if self.has_labels:
                rights = answers.right_before, answers.right_after
                before, after = (_share(right, answers.count) for right in rights)
                found.append(f"{named}: accuracy is {before} for FLOAT, {after} for QUANTIZED")
            if answers.nans_before or answers.nans_after:
                found.append(
                    f"{named}: answers with NaN: {answers.nans_before} of FLOAT, "
                    f"{answers.nans_after} of QUANTIZED"
                )
        if not self.answers:
            found.append("no result has several classes, so there are no top answers")
        plural = "" if self.records == 1 else "s"
        found.append(f"{self.records} record{plural}, run by {self.engine}")
        return found

    def to_json(self) -> str:
        """All results. Infinities are strings, and NaN is null."""
        return (
            json.dumps(
                {
                    "format": "qdialect-evaluation",
                    "version": 1,
                    "engine": self.engine,
                    "records": self.records,
                    "values": [_json_of(row) for row in self.rows],
                    "results": [
                        {
                            "result": result.number,
                            "key": result.key,
                            "answers": answers.count,
                            "agreeing": answers.agreeing,
                            "nans": [answers.nans_before, answers.nans_after],
                        }
                        | (
                            {"right": [answers.right_before, answers.right_after]}
                            if self.has_labels
                            else {}
                        )
                        for result, answers in self.answers
                    ],
                    "not_compared": [
                        {"key": of.key, "reason": of.reason} for of in self.not_compared
                    ],
                },
                indent=1,
            )
            + "\n"
        )

    def write(self, stream: TextIO, worst: int) -> None:
        """Write everything; `rich` draws tables if it is installed and there is a terminal."""
        write_tables(stream, self.tables(worst))
        for line in self.lines():
            stream.write(f"{line}\n")


def _json_of(row: Row) -> dict[str, Any]:
    return {
        "key": row.value.key,
        "op": row.value.op,
        "storage": row.value.storage,
        "signal_to_noise": number_to_json(row.decibels),
        "drop": number_to_json(row.drop),
        "signal": number_to_json(row.noise.signal),
        "noise": number_to_json(row.noise.noise),
        "elements": row.noise.count,
        "nans": [row.noise.nans_before, row.noise.nans_after],
        "infinite": row.noise.infinite,
        "differing": row.noise.differing,
    }


def _number(decibels: float | None) -> float:
    """The sort key; None comes last."""
    return math.inf if decibels is None else decibels


def _difference(before: float, after: float) -> float:
    return 0.0 if before == after else before - after


def _left_out(noise: Noise) -> str | None:
    """The elements that the signal-to-noise ratio omits, in words."""
    told = list[str]()
    if noise.nans_before or noise.nans_after:
        told.append(f"NaN in {noise.nans_before} of FLOAT and {noise.nans_after} of QUANTIZED")
    if noise.infinite:
        told.append(f"infinite in {noise.infinite}")
    if not told:
        return None
    return f"elements are omitted: {', '.join(told)}; {noise.differing} of them differ"


def _share(part: int, of: int) -> str:
    return f"{100 * part / of:.2f} % ({part} of {of})" if of else "none"


def _table(title: str, rows: Sequence[Row]) -> Table:
    names = ("value", "op", "stored as", "signal to noise (dB)", "drop (dB)")
    cells = (
        (
            row.value.key,
            row.value.op,
            row.value.storage,
            _decibels(row.decibels),
            _decibels(row.drop),
        )
        for row in rows
    )
    return Table(title, names, (*cells,), 3)


def _decibels(value: float | None) -> str:
    # Adding zero makes a negative zero positive.
    return "" if value is None else f"{round(value, 2) + 0.0:.2f}"
