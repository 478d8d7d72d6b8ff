"""The parameters that a quantization chose for each value: a table, and JSON for other tools."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from qdialect.dialects.quant import UniformQuantizedType
from qdialect.folding.report import PassReport
from qdialect.ir.value_types import element_type_or_self
from qdialect.opt.report_text import Names
from qdialect.opt.tables import Table
from qdialect.ptq.value_reports import (
    QuantizationReport,
    Stored,
    ValueReport,
    zero_points_of,
)
from qdialect.support.files import number_to_json


class QuantizationReportFile:
    """The file of `--quantization-report`: JSON, of all modules of a run."""

    def __init__(self) -> None:
        self._values: list[dict[str, Any]] = []

    def add(self, reports: Iterable[PassReport], names: Names) -> None:
        """Add the values of a module."""
        for value in values_of(reports):
            self._values.append(_json_of_value(value, names))

    @property
    def text(self) -> str:
        """The whole file."""
        content = {
            "format": "qdialect-quantization-report",
            "version": 1,
            "values": self._values,
        }
        return json.dumps(content, indent=1) + "\n"


def values_of(reports: Iterable[PassReport]) -> Sequence[ValueReport]:
    """The values of all reports."""
    return [
        value
        for report in reports
        if isinstance(report, QuantizationReport)
        for value in report.values
    ]


def table_of(reports: Iterable[PassReport]) -> Table:
    """
    A table with a row for each value, and for each operand that reads it with other parameters.
    """
    rows = list[tuple[str, ...]]()
    for value in values_of(reports):
        if value.stored is None:
            rows.append(_row_of_floats(value))
            continue
        rows.append(_row(value.key, value.role, value, value.stored))
        rows += (_row("", f"read by {each.op.name}", value, each.stored) for each in value.reads)
    names = (
        "value",
        "is",
        "stored as",
        "follows from",
        "range",
        "scale:zero point",
        "saturated",
        "signal to noise (dB)",
    )
    return Table("quantization", names, (*rows,), 4)


def _row_of_floats(value: ValueReport) -> tuple[str, ...]:
    storage = str(element_type_or_self(value.value.type))
    return value.key, value.role, storage, value.reason, _range_text(value.range), "", "", ""


def _row(key: str, role: str, value: ValueReport, stored: Stored) -> tuple[str, ...]:
    follows = f"{stored.rule} ({stored.origin})" if stored.origin else str(stored.rule)
    saturated = ""
    if stored.saturated_elements is not None:
        saturated = str(stored.saturated_elements)
    elif stored.saturated is not None:
        saturated = f"{100 * stored.saturated:.2f} %"
    decibels = "" if stored.decibels is None else f"{stored.decibels:.2f}"
    return (
        key,
        role,
        _storage_text(stored),
        follows,
        _range_text(value.range),
        _parameters_text(stored.type),
        saturated,
        decibels,
    )


def _storage_text(stored: Stored) -> str:
    return f"{'i' if stored.type.storage_format.signed else 'u'}{stored.bits}"


def _range_text(range: Sequence[float] | None) -> str:
    return "" if range is None else f"{range[0]:.5g} to {range[1]:.5g}"


def _parameters_text(type: UniformQuantizedType) -> str:
    """The scale and zero point, or their number and range."""
    scales, zero_points = type.scales.reshape(-1), zero_points_of(type).reshape(-1)
    if scales.size == 1:
        return f"{scales[0]:.5g}:{zero_points[0]}"
    least, most = zero_points.min(), zero_points.max()
    zeros = str(least) if least == most else f"{least} to {most}"
    return f"{scales.size} of {scales.min():.5g} to {scales.max():.5g}:{zeros}"


def _json_of_value(value: ValueReport, names: Names) -> dict[str, Any]:
    found: dict[str, Any] = {
        "key": value.key,
        "name": names.before(value.value),
        "op": value.op_name,
        "location": names.place(value.place),
        "role": value.role.value,
        "precision": value.precision,
        "range": _json_of_range(value.range),
    }
    if value.stored is None:
        found["storage"] = str(element_type_or_self(value.value.type))
        if value.code is not None:
            found["code"] = value.code.value
        return found | {"reason": value.reason}
    found |= _json_of_stored(value.stored)
    if value.reads:
        found["reads"] = [
            {
                "op": each.op.name,
                "location": names.place(each.op),
                "operand": each.number,
                **_json_of_stored(each.stored),
            }
            for each in value.reads
        ]
    return found


def _json_of_stored(stored: Stored) -> dict[str, Any]:
    type = stored.type
    found: dict[str, Any] = {
        "storage": _storage_text(stored),
        "codes": _codes(stored),
        "scheme": stored.scheme or None,
        "scales": type.scales.reshape(-1).tolist(),
        "zero_points": zero_points_of(type).reshape(-1).tolist(),
    }
    if type.scales.size > 1:
        found["shape"] = list(type.scales.shape)
        found["axes"] = list(type.quantized_dimensions)
        if type.block_sizes:
            found["block_sizes"] = list(type.block_sizes)
    return found | {
        "rule": stored.rule.value,
        "origin": stored.origin or None,
        "chosen_for": _json_of_range(stored.range),
        "saturated": stored.saturated,
        "saturated_elements": stored.saturated_elements,
        "signal_to_noise": number_to_json(stored.decibels),
        "basis": None if stored.basis is None else stored.basis.value,
    }


def _codes(stored: Stored) -> list[int]:
    """The lowest and the highest code."""
    if stored.bits > stored.type.storage_format.width:
        return [-(1 << (stored.bits - 1)), (1 << (stored.bits - 1)) - 1]
    return [stored.type.storage_type_min, stored.type.storage_type_max]


def _json_of_range(range: Sequence[float] | None) -> list[float | str | None] | None:
    return None if range is None else [number_to_json(float(end)) for end in range]
