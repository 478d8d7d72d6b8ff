"""What the folds of a run come to: remarks, a table, and a file for other tools."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from xdsl.ir import Operation, SSAValue

from qdialect.fold_report import FoldRecord, FoldReport, Outcome

if TYPE_CHECKING:
    from qdialect.shape_op_interface import Code

NameOf = Callable[[SSAValue], str | None]
"""The name of a value as a text has it, with the percent sign."""

PlaceOf = Callable[[Operation], str]
"""`file:line:column` of an op."""


def remarks(report: FoldReport) -> Iterator[tuple[Operation, str]]:
    """For each op what has become of it, and why."""
    for record in report.records:
        match record.outcome:
            case Outcome.FOLDED:
                yield record.op, f"folded '{record.op_name}' into {_constant_text(record)}"
            case Outcome.DROPPED:
                yield record.op, f"dropped '{record.op_name}': nothing is moved"
            case Outcome.REFUSED:
                yield record.op, f"not folded: {record.reason} [{record.code}]"


def _constant_text(record: FoldRecord) -> str:
    names = [f"%{source.name_hint}" for source in record.sources if source.name_hint]
    return f"the constant {', '.join(names)}".rstrip() if names else "its constant"


def statistics(reports: Iterable[FoldReport]) -> str:
    """A table of what was folded, over several modules."""
    reports = list(reports)
    refused: Counter[Code] = sum((r.refused_by_code for r in reports), Counter())
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

    def add(self, report: FoldReport, before: NameOf, after: NameOf, place: PlaceOf) -> None:
        """
        Add what was folded in a module.

        `before` names values of the text that was read, `after` those of the one printed.
        """
        for record in report.records:
            self._records.append(_record(record, before, after, place))
            if record.stands is not None:
                self._stand(record.op.results[0], record.stands, before, after)
        for vanished, stands in report.vanished.items():
            self._stand(vanished, stands, before, after)

    def _stand(self, vanished: SSAValue, stands: SSAValue, before: NameOf, after: NameOf) -> None:
        self._values.append({"vanished": before(vanished), "stands": after(stands)})

    @property
    def text(self) -> str:
        """The whole file."""
        content = {"records": self._records, "values": self._values}
        return json.dumps(content, indent=2) + "\n"


def _record(record: FoldRecord, before: NameOf, after: NameOf, place: PlaceOf) -> dict[str, object]:
    found: dict[str, object] = {
        "outcome": record.outcome.value,
        "op": record.op_name,
        "location": place(record.op),
        "result": before(record.op.results[0]) if record.op.results else None,
    }
    if record.code is not None:
        return found | {"code": record.code.value, "reason": record.reason}
    found["sources"] = [before(source) for source in record.sources]
    if record.constant is not None:
        found["constant"] = after(record.constant)
    if record.stands is not None:
        found["stands"] = after(record.stands)
    if record.values is not None:
        found["range"] = record.values.value
    return found
