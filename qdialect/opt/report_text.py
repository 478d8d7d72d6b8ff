"""The folds of a run as text: remarks, a table, and a JSON file for other tools."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Protocol

from xdsl.ir import Block, Operation, SSAValue

from qdialect.folding.report import Outcome, PassRecord, PassReport


class Names(Protocol):
    """The names of values and the places of ops, in the text of a module."""

    def before(self, value: SSAValue) -> str | None:
        """The name of a value in the text that was read, with the percent sign."""
        ...

    def after(self, value: SSAValue) -> str | None:
        """The name of a value in the text that was printed, with the percent sign."""
        ...

    def place(self, op: Operation | Block) -> str:
        """`file:line:column` of an op in the text that was read."""
        ...


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


def statistics(reports: Iterable[PassReport]) -> str:
    """A table of the counts of all reports."""
    reports = list(reports)
    refused = Counter[str]()
    for report in reports:
        refused.update(report.refused_by_code)
    rows = [
        ("constants folded", sum(report.constants for report in reports)),
        ("shape ops removed", sum(report.ops_removed for report in reports)),
        ("bytes before", sum(report.bytes_before for report in reports)),
        ("bytes after", sum(report.bytes_after for report in reports)),
        ("refused", refused.total()),
        *((f"  [{code}]", count) for code, count in sorted(refused.items())),
    ]
    width = max(len(title) for title, _ in rows)
    digits = max(len(str(count)) for _, count in rows)
    lines = [f"{title:<{width}}  {count:>{digits}}" for title, count in rows]
    return "\n".join(["fold statistics", *lines]) + "\n"


class FoldReportFile:
    """The file of `--fold-report`: JSON, of all modules of a run."""

    def __init__(self) -> None:
        self._records: list[dict[str, object]] = []
        self._values: list[dict[str, object]] = []

    def add(self, report: PassReport, names: Names) -> None:
        """Add the report of a module."""
        gone = {
            record.op.results[0]: record.stands
            for record in report.records
            if record.stands is not None and record.operands is None
        }
        for record in report.records:
            self._records.append(_record(record, names))
        for vanished, stands in (gone | report.vanished).items():
            self._values.append(
                {
                    "vanished": names.before(vanished),
                    "location": names.place(vanished.owner),
                    "stands": None if stands is None else names.after(stands),
                }
            )

    @property
    def text(self) -> str:
        """The whole file."""
        content = {"records": self._records, "values": self._values}
        return json.dumps(content, indent=2) + "\n"


def _record(record: PassRecord, names: Names) -> dict[str, object]:
    is_of_result = record.op.results and record.operands is None
    found: dict[str, object] = {
        "outcome": record.outcome.value,
        "op": record.op_name,
        "location": names.place(record.op),
        "result": names.before(record.op.results[0]) if is_of_result else None,
    }
    if record.operands is not None:
        found["operands"] = list(record.operands)
    if record.code is not None:
        return found | {"code": record.code.value, "reason": record.reason}
    found["sources"] = [names.before(source) for source in record.sources]
    if record.constant is not None:
        found["constant"] = names.after(record.constant)
    if record.stands is not None:
        found["stands"] = names.after(record.stands)
    if record.values is not None:
        found["range"] = record.values.value
    return found
