"""The results of an evaluation: tables, JSON, a page, and a plot, drawn by matplotlib."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from typing import Any, Final, NamedTuple, TextIO, cast

from qdialect.opt.outputs import check_writable, write_file
from qdialect.opt.tool_error import ToolError, reason_of
from qdialect.ptq.calibration.recorded_functions import (
    ComparedResult,
    ComparedValue,
    NotCompared,
)
from qdialect.ptq.quantizing import table_of_times
from qdialect.ptq.schemes.noise import Answers, Noise
from qdialect.support.extras import MissingLibraryError, library
from qdialect.support.files import number_from_json, number_to_json
from qdialect.support.html import html_of, page
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
    form: str
    """How it is computed, such as `integer, 21 bits`; empty if that is not known."""
    reason: str
    """What codes are computed with, or why floats are."""


class ResultNoise(NamedTuple):
    """A result, its noise, and its answers if it has classes."""

    result: ComparedResult
    noise: Noise
    answers: Answers | None


@dataclass(frozen=True)
class Evaluation:
    """The comparison of two functions on some records."""

    engine: str
    records: int
    noises: tuple[tuple[ComparedValue, Noise], ...]
    results: tuple[ResultNoise, ...]
    has_labels: bool
    not_compared: tuple[NotCompared, ...]
    times: tuple[Mapping[str, float], ...] = ()
    """The seconds that groups of ops took in all records, of both modules; or nothing."""
    forms: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """By key, how values are computed by `--lower-to-integers`, and why, if that was asked for."""

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """All compared values, in module order."""
        known = dict[str, float]()
        for value, noise in self.noises:
            if (decibels := noise.decibels) is not None:
                known[value.key] = min(decibels, known.get(value.key, math.inf))
        rows = list[Row]()
        for value, noise in self.noises:
            decibels = noise.decibels
            inputs = [known[key] for key in value.inputs if key in known and key != value.key]
            drop = None
            if decibels is not None and inputs:
                # Equal ones may be infinite.
                drop = 0.0 if min(inputs) == decibels else min(inputs) - decibels
            rows.append(Row(value, noise, decibels, drop, *self.forms.get(value.key, ("", ""))))
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
            table_of_times(self._times_of_records),
        )

    @property
    def _times_of_records(self) -> list[tuple[str, float, float]]:
        """The groups of ops, and the seconds that each takes for a record, the longest first."""
        if not self.times:
            return []
        before, after = self.times
        groups = dict.fromkeys((*before, *after))
        return sorted(
            (
                (group, before.get(group, 0.0) / self.records, after.get(group, 0.0) / self.records)
                for group in groups
            ),
            key=lambda row: -max(row[1:]),
        )

    def lines(self) -> list[str]:
        """The lines below the tables."""
        lines = list[str]()
        for row in self.rows:
            if (text := _left_out(row.noise)) is not None:
                lines.append(f"'{row.value.key}': {text}")
            elif row.decibels is None:
                lines.append(f"'{row.value.key}': squares of its elements overflow float64")
        for reason in dict.fromkeys(value.reason for value in self.not_compared):
            omitted = (value for value in self.not_compared if value.reason == reason)
            keys = [f"'{value.key}'" for value in omitted]
            more = f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else ""
            lines.append(f"not compared: {', '.join(keys[:_NAMED])}{more}: {reason}")
        for result, noise, answers in self.results:
            named = f"result {result.number}" + (f" ('{result.key}')" if result.key else "")
            if noise.decibels is not None:
                lines.append(f"{named}: the signal to noise is {_decibels(noise.decibels)} dB")
            if answers is None:
                continue
            share = _share(answers.agreeing, answers.count)
            lines.append(f"{named}: the top answer agrees in {share}")
            if self.has_labels:
                rights = answers.right_before, answers.right_after
                before, after = (_share(right, answers.count) for right in rights)
                lines.append(f"{named}: accuracy is {before} for FLOAT, {after} for QUANTIZED")
            if answers.nans_before or answers.nans_after:
                lines.append(
                    f"{named}: answers with NaN: {answers.nans_before} of FLOAT, "
                    f"{answers.nans_after} of QUANTIZED"
                )
        if not any(result.answers for result in self.results):
            lines.append("no result has several classes, so there are no top answers")
        plural = "" if self.records == 1 else "s"
        lines.append(f"{self.records} record{plural}, run by {self.engine}")
        return lines

    def to_json(self) -> str:
        """All results. Infinities are strings, and NaN is null."""
        content: dict[str, Any] = {
            "format": "qdialect-evaluation",
            "version": 1,
            "engine": self.engine,
            "records": self.records,
            "values": [_json_of(row) for row in self.rows],
            "results": [
                {
                    "result": result.number,
                    "key": result.key,
                    "signal_to_noise": number_to_json(noise.decibels),
                }
                | ({} if answers is None else _json_of_answers(answers, self.has_labels))
                for result, noise, answers in self.results
            ],
            "not_compared": [
                {"key": value.key, "reason": value.reason} for value in self.not_compared
            ],
        }
        if self.times:
            content["times"] = self._times_of_records
        return json.dumps(content, indent=1) + "\n"

    def write(self, stream: TextIO, worst: int) -> None:
        """Write everything; `rich` draws tables if it is installed and there is a terminal."""
        write_tables(stream, self.tables(worst))
        for line in self.lines():
            stream.write(f"{line}\n")


def _json_of_answers(answers: Answers, has_labels: bool) -> dict[str, Any]:
    members: dict[str, Any] = {
        "answers": answers.count,
        "agreeing": answers.agreeing,
        "nans": [answers.nans_before, answers.nans_after],
    }
    if has_labels:
        members["right"] = [answers.right_before, answers.right_after]
    return members


def _json_of(row: Row) -> dict[str, Any]:
    computed = {"computed": row.form, "reason": row.reason} if row.form else {}
    return computed | {
        "key": row.value.key,
        "op": row.value.op,
        "inputs": row.value.inputs,
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


def _left_out(noise: Noise) -> str | None:
    """The elements that the signal-to-noise ratio omits, in words."""
    omissions = list[str]()
    if noise.nans_before or noise.nans_after:
        omissions.append(f"NaN in {noise.nans_before} of FLOAT and {noise.nans_after} of QUANTIZED")
    if noise.infinite:
        omissions.append(f"infinite in {noise.infinite}")
    if not omissions:
        return None
    return f"elements are omitted: {', '.join(omissions)}; {noise.differing} of them differ"


def _share(part: int, total: int) -> str:
    return f"{100 * part / total:.2f} % ({part} of {total})" if total else "none"


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


# The page and the plot


def page_of(evaluation: Evaluation, expected: Mapping[str, float], title: str) -> str:
    """A page in HTML with all results, which needs no other file."""
    names = (
        *("value", "op", "stored as", "computed by --lower-to-integers", "how, or why not"),
        *("signal to noise (dB)", "expected (dB)"),
    )
    cells = (
        (
            *(row.value.key, row.value.op, row.value.storage, row.form, row.reason),
            *map(_decibels, (row.decibels, expected.get(row.value.key))),
        )
        for row in evaluation.rows
        # What is neither quantized nor changed has nothing to tell.
        if row.form or row.decibels != math.inf
    )
    values = Table("values", names, (*cells,), 5)
    most = max(_finite(evaluation.rows, expected), default=1.0)
    tables = (*(table for table in evaluation.tables(0)[3:] if table.rows),)
    lines = "".join(f"<p>{escape(line, quote=False)}</p>\n" for line in evaluation.lines())
    return page(title, (lines, *map(html_of, tables), html_of(values, meters=(5, 6), most=most)))


def _finite(rows: Sequence[Row], expected: Mapping[str, float]) -> Sequence[float]:
    """All finite ratios, measured and expected."""
    numbers = (*(row.decibels for row in rows), *(expected.get(row.value.key) for row in rows))
    return [number for number in numbers if number is not None and math.isfinite(number)]


_PAGE: Final = ".html"
_ENDINGS: Final = (".png", ".svg", ".pdf")

_ROWS_OF_PANEL: Final = 60
_MOST_PANELS: Final = 4
_MOST_NAMES: Final = 200
"""The most values of a panel with a visible name; of more values, every second one has one, etc."""

_DPI: Final = 120
_FONT: Final = 7
_MOST_CHARACTERS: Final = 40

_PANEL_WIDTH: Final = 7.5
_ROW: Final = 0.17
_DOUBLE_ROW: Final = 0.28
_MARGIN: Final = 1.6
"""Sizes in inches; the last one is the height of the title, the axis and the legend together."""

_WORDS: Final = {math.inf: "equal", -math.inf: "noise only", None: "no number"}
"""The labels of values without a finite bar."""

_COLOURS: Final = {
    "f32": "silver",
    "u8": "tab:blue",
    "i8": "tab:orange",
    "i4": "tab:red",
    "u4": "tab:pink",
    "i16": "tab:green",
    "i32": "tab:purple",
}
_OTHER_COLOURS: Final = ("tab:brown", "tab:olive", "tab:cyan")


def plot_module(path: str) -> Any:
    """
    matplotlib, to plot to `path`; None for a page.

    Raises ToolError if it is missing, or for an unsupported file.
    """
    if not path.endswith((_PAGE, *_ENDINGS)):
        raise ToolError(f"--plot: '{path}' must end in {', '.join((_PAGE, *_ENDINGS))}")
    # matplotlib would leave an empty file if writing fails.
    check_writable(path)
    if path.endswith(_PAGE):
        return None
    try:
        library("matplotlib", "plot")
        return library("matplotlib.figure", "plot")
    except MissingLibraryError as error:
        raise ToolError(f"--plot: {error}") from None


def expected_from_report(path: str) -> dict[str, float]:
    """
    The expected signal-to-noise ratios in the report of a quantization, by key.

    Raises ToolError.
    """
    try:
        with open(path, encoding="utf-8") as file:
            content: Any = json.load(file)
    except OSError as error:
        raise ToolError(f"cannot open '{path}': {reason_of(error)}") from None
    except ValueError as error:
        raise ToolError(f"'{path}' is not JSON: {error}") from None
    report = cast("dict[str, Any]", content) if isinstance(content, dict) else {"values": content}
    listed: Any = report.get("values")
    if not isinstance(listed, list):
        raise ToolError(f"'{path}' is not a report of a quantization: it has no list of values")
    expected = dict[str, float]()
    for value in cast("list[dict[str, Any]]", listed):
        key: Any = value.get("key") if hasattr(value, "get") else None
        if not isinstance(key, str):
            raise ToolError(f"'{path}' is not a report of a quantization: a value has no key")
        try:
            number = number_from_json(value.get("signal_to_noise"))
        except ValueError as error:
            raise ToolError(f"'{path}': signal_to_noise of '{key}': {error}") from None
        if number is not None:
            expected[key] = number
    return expected


def write_plot(
    figures: Any, evaluation: Evaluation, expected: Mapping[str, float], path: str, title: str
) -> None:
    """Write the page, or the figure of `draw`. Raises ToolError."""
    if figures is None:
        write_file(path, page_of(evaluation, expected, title))
        return
    try:
        draw(figures, evaluation.rows, expected).savefig(path, dpi=_DPI)
    except OSError as error:
        raise ToolError(f"cannot write '{path}': {reason_of(error)}") from None


def draw(figures: Any, rows: Sequence[Row], expected: Mapping[str, float]) -> Any:
    """A figure with a bar for each value, in module order."""
    return _Drawing(figures, rows, expected).figure


class _Drawing:
    """A figure with one or more panels side by side, so that names are readable."""

    def __init__(self, figures: Any, rows: Sequence[Row], expected: Mapping[str, float]) -> None:
        self._expected = expected
        self._with_expected = any(row.value.key in expected for row in rows)
        self._storages = [*dict.fromkeys(row.value.storage for row in rows)]
        numbers = _finite(rows, expected)
        # Leave room for a number beside the longest bar.
        self._limits = min(1.15 * min(numbers, default=0.0), 0.0), 1.15 * max([*numbers, 10.0])
        panels = min(_MOST_PANELS, -(-len(rows) // _ROWS_OF_PANEL))
        length = -(-len(rows) // panels)
        self._step = -(-length // _MOST_NAMES)
        self.figure: Any = figures.Figure(
            figsize=(
                panels * _PANEL_WIDTH,
                _MARGIN + min(length, _MOST_NAMES) * (_DOUBLE_ROW if self._with_expected else _ROW),
            ),
            layout="constrained",
        )
        axes: Any = self.figure.subplots(1, panels, squeeze=False, sharex=True)[0]
        for panel, axis in enumerate(axes):
            self._draw(axis, rows[panel * length : (panel + 1) * length], length)
        title = "Signal-to-noise ratios of the quantized module"
        if any(row.form for row in rows):
            title += ",\nand how --lower-to-integers computes values"
        self.figure.suptitle(title)
        self._add_legend()

    def _draw(self, axis: Any, rows: Sequence[Row], length: int) -> None:
        height = 0.4 if self._with_expected else 0.8
        for at, row in enumerate(rows):
            is_named = at % self._step == 0
            colour = self._colour(row.value.storage)
            place = at - height / 2 if self._with_expected else at
            self._bar(axis, place, row.decibels, is_named, height, color=colour)
            if is_named and row.form:
                at_edge = axis.get_yaxis_transform()
                axis.text(1.01, at, row.form, transform=at_edge, va="center", fontsize=_FONT - 1)
            if self._with_expected and (expected := self._expected.get(row.value.key)) is not None:
                outline = {"facecolor": "none", "edgecolor": colour, "hatch": "////"}
                self._bar(axis, at + height / 2, expected, is_named, height, **outline)
        axis.set_xlim(*self._limits)
        axis.set_ylim(length - 0.4, -0.6)
        named = range(0, len(rows), self._step)
        axis.set_yticks([*named], [_shortened(rows[at].value.key) for at in named])
        for label in axis.get_yticklabels():
            label.set_parse_math(False)
            label.set_fontsize(_FONT)
        axis.set_xlabel("dB")
        axis.grid(axis="x", alpha=0.3)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)

    def _bar(
        self,
        axis: Any,
        at: float,
        number: float | None,
        is_named: bool,
        height: float,
        **style: Any,
    ) -> None:
        if number is not None and math.isfinite(number):
            axis.barh(at, number, height, **style)
            text = f"{number:.1f}"
        else:
            text = _WORDS.get(number, "")
        if is_named:
            is_negative = number is not None and -math.inf < number < 0
            axis.annotate(
                text,
                (number if text not in _WORDS.values() else 0, at),
                xytext=(-3 if is_negative else 3, 0),
                textcoords="offset points",
                va="center",
                ha="right" if is_negative else "left",
                fontsize=_FONT - 1,
                color="dimgray",
            )

    def _colour(self, storage: str) -> str:
        """The colour of a storage; common storages have fixed colours."""
        if storage in _COLOURS:
            return _COLOURS[storage]
        others = [name for name in self._storages if name not in _COLOURS]
        return _OTHER_COLOURS[others.index(storage) % len(_OTHER_COLOURS)]

    def _add_legend(self) -> None:
        patches: Any = library("matplotlib.patches", "plot")
        handles = [
            patches.Patch(color=self._colour(storage), label=storage) for storage in self._storages
        ]
        if self._with_expected:
            handles += [
                patches.Patch(color="gray", label="measured"),
                patches.Patch(facecolor="none", edgecolor="gray", hatch="////", label="expected"),
            ]
        self.figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)


def _shortened(key: str) -> str:
    """A key, with its middle elided if it is long: names differ at their ends."""
    if len(key) <= _MOST_CHARACTERS:
        return key
    side = (_MOST_CHARACTERS - 1) // 2
    return f"{key[:side]}\N{HORIZONTAL ELLIPSIS}{key[-side:]}"
