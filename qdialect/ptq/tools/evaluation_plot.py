"""The signal-to-noise ratios of all values, drawn by matplotlib."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from qdialect.opt.outputs import check_writable
from qdialect.opt.tool_error import ToolError, reason_of
from qdialect.ptq.tools.evaluation import Row
from qdialect.support.extras import MissingLibraryError, library
from qdialect.support.files import number_from_json

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
    matplotlib, to plot to `path`.

    Raises ToolError if it is missing, or for an unsupported file.
    """
    if not path.endswith(_ENDINGS):
        raise ToolError(f"--plot: '{path}' must end in {', '.join(_ENDINGS)}")
    # matplotlib would leave an empty file if writing fails.
    check_writable(path)
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
            held: Any = json.load(file)
    except OSError as error:
        raise ToolError(f"cannot open '{path}': {reason_of(error)}") from None
    except ValueError as error:
        raise ToolError(f"'{path}' is not JSON: {error}") from None
    of_object = cast("dict[str, Any]", held) if isinstance(held, dict) else {"values": held}
    listed: Any = of_object.get("values")
    if not isinstance(listed, list):
        raise ToolError(f"'{path}' is not a report of a quantization: it has no list of values")
    found = dict[str, float]()
    for each in cast("list[dict[str, Any]]", listed):
        key: Any = each.get("key") if hasattr(each, "get") else None
        if not isinstance(key, str):
            raise ToolError(f"'{path}' is not a report of a quantization: a value has no key")
        try:
            number = number_from_json(each.get("signal_to_noise"))
        except ValueError as error:
            raise ToolError(f"'{path}': signal_to_noise of '{key}': {error}") from None
        if number is not None:
            found[key] = number
    return found


def write_plot(figures: Any, rows: Sequence[Row], expected: Mapping[str, float], path: str) -> None:
    """Write the figure of `draw`. Raises ToolError."""
    try:
        draw(figures, rows, expected).savefig(path, dpi=_DPI)
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
        measured = [row.decibels for row in rows]
        numbers = [
            number
            for number in (*measured, *(expected.get(row.value.key) for row in rows))
            if number is not None and math.isfinite(number)
        ]
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
        self.figure.suptitle("Signal-to-noise ratios of the quantized module")
        self._add_legend()

    def _draw(self, axis: Any, rows: Sequence[Row], length: int) -> None:
        height = 0.4 if self._with_expected else 0.8
        for at, row in enumerate(rows):
            is_named = at % self._step == 0
            colour = self._colour(row.value.storage)
            place = at - height / 2 if self._with_expected else at
            self._bar(axis, place, row.decibels, is_named, height, color=colour)
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
        others = [each for each in self._storages if each not in _COLOURS]
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
