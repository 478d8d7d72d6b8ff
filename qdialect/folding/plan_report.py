"""Making the report of a fold after it has been carried out."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import Operation, SSAValue

from qdialect.algebra.movement import ValueSet
from qdialect.folding.graph import FoldGraph
from qdialect.folding.plan import Decision, Fate
from qdialect.folding.provenance import Provenance
from qdialect.folding.report import Outcome, PassRecord, PassReport
from qdialect.folding.writing import WrittenConstant
from qdialect.ops.interface import RefusalCode, is_list, name_of


def report_of(
    graph: FoldGraph,
    decision: Decision,
    written: Mapping[Operation, WrittenConstant],
    joined: Mapping[Operation, Operation],
) -> PassReport:
    """
    The report of a decision, after the module has been changed.

    `written` maps each replaced op to its constant and the casts after it, and `joined` each
    composed op of quant to the op that replaces it.
    """
    return _Reporter(graph, decision, written, joined).report()


class _Reporter:
    def __init__(
        self,
        graph: FoldGraph,
        decision: Decision,
        written: Mapping[Operation, WrittenConstant],
        joined: Mapping[Operation, Operation],
    ) -> None:
        self._graph = graph
        self._decision = decision
        self._written = written
        self._joined = joined
        self._source_ends = {
            source: op
            for op in reversed(list(decision.written))
            for source in graph.moved[op].provenance.sources
        }
        """For each moved source, the last op that is replaced by a constant with its elements."""
        self._repeated = decision.repeated_reshapes(graph)

    def report(self) -> PassReport:
        report, graph = PassReport(), self._graph
        report.constants = len(self._written)
        report.ops_removed -= len(self._repeated)
        report.bytes_before = sum([graph.sources[source].nbytes for source in self._source_ends])
        report.bytes_after = sum([graph.moved[op].nbytes for op in self._written])
        for op in graph.order:
            if graph.models[op] is None:
                if is_list(op):
                    continue
                if _is_erased(op) and (stands := self._in_place_of_cast(op)) is not None:
                    (result,) = op.results
                    report.vanished[result] = stands
            else:
                if not graph.parts or op not in graph.parts:
                    is_joined = self._joined and op in self._joined
                    report.ops_removed += _is_erased(op) and not is_joined
                record = self._record(op)
                if record is not None:
                    report.records.append(record)
        if graph.unknown:
            report.records += graph.unknown
            report.records.sort(key=lambda record: graph.places[record.op])
        for op, new_op in self._joined.items():
            report.vanished[op.results[0]] = new_op.results[0]
        for source, end in self._source_ends.items():
            if _is_erased(source):
                (old,), (new,) = source.results, self._written[end].chain[0].results
                report.vanished[old] = new
            else:
                report.bytes_after += graph.sources[source].nbytes
        for written in self._written.values():
            for source, new in written.sides.items():
                if _is_erased(source):
                    report.vanished[source.results[0]] = new.results[0]
        for step in self._decision.steps_to(graph):
            source, operands, _ = graph.steps[step]
            if not operands and _is_erased(source):
                # It was moved, and none of its elements is left.
                (old,) = source.results
                report.vanished.setdefault(old, None)
        return report

    def _record(self, op: Operation) -> PassRecord | None:
        end, moved = self._decision.ends.get(op), self._graph.moved.get(op)
        part = self._graph.parts.get(op) if self._graph.parts else None
        if end is not None and moved is not None:
            folded = self._folded(op, moved.provenance, end)
            if op in self._repeated:
                reason = "without it, each scale would be repeated for each element of its block"
                code = RefusalCode.PARAMETER_GROWTH
                reason = self._with_hint(op, f"it stays behind the constant: {reason}")
                return folded._replace(outcome=Outcome.REFUSED, code=code, reason=reason)
            if part is None:
                return folded
            return folded._replace(op=part.of, operands=(part.start, part.stop - 1))
        if part is not None:
            # The op that it is of is gone.
            return None
        if self._decision.fates[op] is Fate.GONE:
            stands = self._stands(op.results[0])
            reason = (
                "it is read by arithmetic behind a constant" if op in self._decision.beside else ""
            )
            return PassRecord(
                Outcome.DROPPED,
                op,
                name_of(op),
                reason=reason,
                stands=stands,
                values=ValueSet.SAME,
            )
        refusal = self._decision.refusals.get(op) or self._graph.refusals.get(op)
        if refusal is None:
            return None
        reason = self._with_hint(op, str(refusal))
        record = PassRecord(Outcome.REFUSED, op, name_of(op), code=refusal.code, reason=reason)
        joined = self._joined.get(op)
        return record if joined is None else record._replace(stands=joined.results[0])

    def _with_hint(self, op: Operation, reason: str) -> str:
        is_gone = op in self._decision.gone_if_raised
        return f"{reason}; '--raise-dequantization' first removes it" if is_gone else reason

    def _folded(self, op: Operation, provenance: Provenance, end: Operation) -> PassRecord:
        value_set = provenance.value_set
        if value_set is ValueSet.UNION and provenance.has_one_source:
            value_set = ValueSet.PART
        written = self._written[end].chain
        (constant,), (stands,) = written[0].results, written[-1].results
        return PassRecord(
            Outcome.FOLDED,
            op,
            name_of(op),
            made_of=provenance,
            constant=constant,
            stands=stands,
            values=value_set,
        )

    def _stands(self, result: SSAValue) -> SSAValue | None:
        """The value in the output that replaces the result of a dropped op."""
        same = self._graph.final(result)
        maker = same.owner
        if same is result:
            return None
        if not isinstance(maker, Operation) or not _is_erased(maker):
            return same
        return self._in_place_of(maker)

    def _in_place_of(self, op: Operation) -> SSAValue | None:
        """The value in the output that replaces the result of an erased op."""
        if (end := self._source_ends.get(op)) is not None:
            return self._written[end].chain[0].results[0]
        if op in self._graph.models and self._graph.models[op] is None:
            return self._in_place_of_cast(op)
        end = self._decision.ends.get(op)
        return None if end is None else self._written[end].chain[-1].results[0]

    def _in_place_of_cast(self, op: Operation) -> SSAValue | None:
        """The value in the output that replaces the result of an erased cast or arithmetic."""
        if (end := self._decision.ends.get(op)) is None:
            return None
        (result,) = self._written[end].chain[len(self._graph.moved[op].casts)].results
        return result


def _is_erased(op: Operation) -> bool:
    return op.parent is None
