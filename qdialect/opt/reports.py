"""The reports of a run as text: remarks, a table of counts, and JSON files for other tools."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO

from xdsl.ir import Operation

from qdialect.folding.report import Outcome, PassRecord, PassReport
from qdialect.support.terminal import write_tables

if TYPE_CHECKING:
    from qdialect.folding.fold_plan import FoldPlan
    from qdialect.folding.report import Names


def remarks(report: PassReport) -> Iterator[tuple[Operation, str]]:
    """For each op, its outcome and the reason."""
    for record in report.records:
        match record.outcome:
            case Outcome.FOLDED if record.operands is not None:
                first, last = record.operands
                operands = f"operands #{first} to #{last} of '{record.op_name}'"
                yield record.op, f"folded {operands} into {_constant_text(record)}"
            case Outcome.FOLDED:
                yield record.op, f"folded '{record.op_name}' into {_constant_text(record)}"
            case Outcome.DROPPED:
                is_used = record.stands is not None
                reason = "nothing is moved" if is_used else "its result is not used"
                yield record.op, f"dropped '{record.op_name}': {record.reason or reason}"
            case Outcome.REFUSED:
                yield record.op, f"not {report.verb}: {record.reason} [{record.code}]"
            case _:
                yield record.op, f"{record.outcome} '{record.op_name}': {record.reason}"


def _constant_text(record: PassRecord) -> str:
    sources = record.sources
    names = [f"%{source.name_hint}" for source in sources if source.name_hint]
    if len(sources) == 1:
        return f"constant {names[0]}" if names else "its constant"
    return f"one constant, of {', '.join(names)}" if names else "one constant"


class RunReports:
    """The reports of all passes on all modules of a run."""

    def __init__(self) -> None:
        self._reports: list[PassReport] = []
        self._plans: list[FoldPlan] = []
        self._records: list[dict[str, Any]] = []
        self._vanished: list[dict[str, Any]] = []
        self._values: list[dict[str, Any]] = []

    def add(self, reports: list[PassReport], plans: list[FoldPlan], names: Names | None) -> None:
        """Add those of a module, with its names if it was printed."""
        self._reports += reports
        self._plans += plans
        if names is None:
            return
        for report in reports:
            self._records += (_record_to_json(record, names) for record in report.records)
            self._vanished += _vanished_to_json(report, names)
            self._values += report.values_to_json(names)

    def fold_report(self) -> str:
        """The file of `--fold-report`."""
        return json.dumps({"records": self._records, "values": self._vanished}, indent=2) + "\n"

    def fold_plan(self) -> str:
        """The file of `--fold-plan`."""
        # Only `--fold-plan` needs it, and the dialect with it.
        from qdialect.folding.plan_json import plans_to_json

        return plans_to_json(self._plans)

    def quantization_report(self) -> str:
        """The file of `--quantization-report`."""
        content = {
            "format": "qdialect-quantization-report",
            "version": 1,
            "values": self._values,
        }
        return json.dumps(content, indent=1) + "\n"

    def write_values(self, stream: TextIO) -> None:
        """Write the table of `--quantization-table`, if there was a quantization."""
        tables = [table for report in self._reports if (table := report.values_table())]
        rows = tuple(row for table in tables for row in table.rows)
        write_tables(stream, [table._replace(rows=rows) for table in tables[:1]])

    def statistics(self) -> str:
        """The table of `--fold-stats`."""
        refused = Counter[str]()
        for report in self._reports:
            refused.update(report.refused_by_code)
        rows = [
            ("constants folded", sum(report.constants for report in self._reports)),
            ("shape ops removed", sum(report.ops_removed for report in self._reports)),
            ("bytes before", sum(report.bytes_before for report in self._reports)),
            ("bytes after", sum(report.bytes_after for report in self._reports)),
            ("refused", refused.total()),
            *((f"  [{code}]", count) for code, count in sorted(refused.items())),
        ]
        width = max(len(title) for title, _ in rows)
        digits = max(len(str(count)) for _, count in rows)
        lines = [f"{title:<{width}}  {count:>{digits}}" for title, count in rows]
        return "\n".join(["fold statistics", *lines]) + "\n"


def _vanished_to_json(report: PassReport, names: Names) -> Iterator[dict[str, Any]]:
    folded = {
        record.op.results[0]: record.stands
        for record in report.records
        if record.stands is not None and record.operands is None
    }
    for value, replacement in (folded | report.vanished).items():
        yield {
            "vanished": names.before(value),
            "location": names.place(value.owner),
            "stands": None if replacement is None else names.after(replacement),
        }


def _record_to_json(record: PassRecord, names: Names) -> dict[str, Any]:
    is_of_result = record.op.results and record.operands is None
    content: dict[str, Any] = {
        "outcome": record.outcome.value,
        "op": record.op_name,
        "location": names.place(record.op),
        "result": names.before(record.op.results[0]) if is_of_result else None,
    }
    if record.operands is not None:
        content["operands"] = list(record.operands)
    if record.code is not None:
        return content | {"code": record.code.value, "reason": record.reason}
    content["sources"] = [names.before(source) for source in record.sources]
    if record.constant is not None:
        content["constant"] = names.after(record.constant)
    if record.stands is not None:
        content["stands"] = names.after(record.stands)
    if record.values is not None:
        content["range"] = record.values.value
    return content
