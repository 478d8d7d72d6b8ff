"""
Carrying out a plan: writing constants, replacing uses, erasing unused ops, and reporting.

The decision that is carried out is a new one, or that of a stored plan, bound to a module.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TypeAlias, TypeVar, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.transforms.dead_code_elimination import is_trivially_dead

from qdialect.algebra.movement import ValueSet
from qdialect.dialects.quant.shape_ops import ShapeOp
from qdialect.folding import FoldReportListener
from qdialect.folding.fold_plan import FoldPlan, PlanError, PlannedConstant, PlannedStep
from qdialect.folding.graph import FoldGraph, GraphReader, declared_layer
from qdialect.folding.layers import refusing
from qdialect.folding.moved_constant import ElementValues, MovedConstant, form_for
from qdialect.folding.plan import (
    Decision,
    Fate,
    compositions_of,
    decide,
    describe,
    find_ends,
    planned_movement,
)
from qdialect.folding.policy import FoldPolicy
from qdialect.folding.provenance import Provenance
from qdialect.folding.report import Outcome, PassRecord, PassReport
from qdialect.folding.writing import WrittenConstant, check_writable, write_constant
from qdialect.ir.errors import OpErrors
from qdialect.ir.value_types import tensor_parts
from qdialect.ops.interface import (
    Refusal,
    RefusalCode,
    elements_attribute_of,
    is_list,
    models_of,
    name_of,
    op_model,
)
from qdialect.ops.model import imported
from qdialect.ops.reading import computes_integers
from qdialect.support.arguments import check_instance
from qdialect.support.memory import MemoryBudget, memory_budget, paused_collection

if TYPE_CHECKING:
    from collections.abc import Generator

Record = TypeVar("Record")


def bind(plan: FoldPlan, graph: FoldGraph, budget: MemoryBudget) -> Decision:
    """
    The decision of a plan about the ops of a graph.

    Every op that the plan names must exist, and match its record in the plan. Raises PlanError
    otherwise, and if results take more memory than allowed; the message has the path to the record,
    such as `steps[2]`.
    """
    binder = _Binder(plan, graph, budget)
    try:
        return binder.bind()
    except PlanError as error:
        raise PlanError(f"{binder.place}: {error}") from None


class _Binder:
    def __init__(self, plan: FoldPlan, graph: FoldGraph, budget: MemoryBudget) -> None:
        self._plan = plan
        self._graph = graph
        self._budget = budget
        self._ops = graph.names.by_name
        self.place = "the plan"
        """The path to the record that is bound."""

    def bind(self) -> Decision:
        plan, graph, decision = self._plan, self._graph, Decision()
        for source in self._records("sources", plan.sources):
            self._check_op(source.name, source.op, source.type)
        steps = {
            self._check_op(step.name, step.op, step.type): step
            for step in self._records("steps", plan.steps)
        }
        constants = self._records("constants", plan.constants)
        written = {self._find(constant.name): constant for constant in constants}
        gone = {op for op, step in steps.items() if step.into is not None}
        for removal in self._records("removed", plan.removed):
            gone.add(self._check_op(removal.name, removal.op, None))
        joined = set(map(self._find, self._records("joined", plan.joined)))
        for op in reversed(graph.order):
            decision.fates[op] = Fate.LEFT
            if op in written:
                decision.fates[op] = Fate.WRITTEN
                decision.types[op] = written[op].types
                if (part := graph.parts.get(op)) is not None:
                    decision.parts |= dict.fromkeys(part.operands, op)
            elif op in gone:
                decision.fates[op] = Fate.GONE
            elif op in joined:
                decision.fates[op] = Fate.JOINED
        for refusal in self._records("refused", plan.refused):
            op = self._check_op(refusal.name, refusal.op, None)
            decision.refusals[op] = Refusal(refusal.code, refusal.reason)
        graph.keep_parts(written)
        for step in self._records("steps", plan.steps):
            self._check_step(step)
        for constant in self._records("constants", plan.constants):
            self._check_constant(constant)
        for result in graph.equal:
            if any(decision.is_left(use.operation) for use in result.uses):
                decision.needed.add(graph.final(result))
        self._join(decision)
        find_ends(graph, decision)
        self._check_unused(decision)
        return decision

    def _find(self, name: str) -> Operation:
        op = self._ops.get(name)
        if op is None:
            raise PlanError(f"the module has no constant, cast or shape op {name}")
        return op

    def _check_op(self, name: str, kind: str, type: Attribute | None) -> Operation:
        op = self._find(name)
        if name_of(op) != kind:
            raise PlanError(f"{name} is made by '{name_of(op)}', not by '{kind}'")
        if type is not None and [type] != list(op.result_types):
            own_types = ", ".join(f"'{other}'" for other in op.result_types)
            raise PlanError(f"{name} is of type {own_types}, not '{type}'")
        return op

    def _records(self, part: str, records: Iterable[Record]) -> Iterator[Record]:
        """The records of a part of the plan; errors refer to the current one."""
        for number, record in enumerate(records):
            self.place = f"{part}[{number}]"
            yield record
        self.place = "the plan"

    def _moved(self, op: Operation, name: str) -> MovedConstant:
        """What a shape op moves, or raise PlanError."""
        moved = self._graph.moved.get(op)
        if moved is None or self._graph.models.get(op) is None:
            reason = self._graph.refusals.get(op, "it moves nothing")
            raise PlanError(f"{name} cannot be folded: {reason}")
        return moved

    def _check_step(self, step: PlannedStep) -> None:
        """Raise PlanError if the operands or movements of a shape op differ from the plan."""
        steps = self._graph.steps
        _, operands, moves = steps[self._moved(self._find(step.name), step.name).step]
        operand_ops = [steps[operand].op for operand in operands]
        if operand_ops != [self._find(name) for name in step.operands]:
            self._differs(step.name, "has other operands")
        if tuple([planned_movement(move) for move in moves]) != step.movements:
            self._differs(step.name, "moves elements in another way")

    def _check_constant(self, constant: PlannedConstant) -> None:
        name, types = constant.name, constant.types
        op = self._find(name)
        graph, moved = self._graph, self._moved(op, name)
        if list(moved.provenance.sources) != [self._find(source) for source in constant.sources]:
            self._differs(name, "is made of other constants")
        if list(moved.casts) != [self._find(cast_op) for cast_op in constant.casts]:
            self._differs(name, "is behind other casts")
        form = form_for(moved, types)
        count = len(moved.layers) + (form is not moved)
        if len(types) != count or types[-1] != op.results[0].type:
            self._differs(name, "is of another type")
        try:
            with refusing:
                self._check_spelling(form, types)
                check_writable(moved, types, graph.constants)
                self._budget.reserve(graph.bytes_if_written(op))
        except Refusal as error:
            raise PlanError(f"{name} cannot be folded: {error}") from None

    def _check_spelling(self, moved: MovedConstant, types: Sequence[Attribute]) -> None:
        """Raise Refusal if `types` do not have the meaning of the layers."""
        for layer, type in zip(moved.layers, types, strict=False):
            parts = tensor_parts(type)
            if parts is None or parts.shape != moved.shape:
                raise Refusal(RefusalCode.STALE_TYPE, f"its shape is not that of '{type}'")
            declared_layer(layer, parts.element_type, moved.shape)

    def _join(self, decision: Decision) -> None:
        written = set(decision.written)
        ops = [op for op in self._graph.order if isinstance(op, ShapeOp) and op not in written]
        compositions = compositions_of(self._graph, ops, lambda op: op not in written)
        for name in self._records("joined", self._plan.joined):
            op = self._find(name)
            if op not in compositions:
                self._differs(name, "is preceded by other ops")
            decision.joined[op] = compositions[op]
            decision.needed.update(map(self._graph.final, compositions[op].operands))

    def _check_unused(self, decision: Decision) -> None:
        """Raise PlanError if an op to be erased has a use that is not in the plan."""
        graph = self._graph
        for op, fate in decision.fates.items():
            if fate is not Fate.GONE:
                continue
            for result in op.results:
                is_used = result in decision.needed or (
                    result not in graph.equal and decision.is_needed(result)
                )
                if is_used:
                    self._differs(graph.names[op], "has other uses")

    def _differs(self, name: str, what: str) -> NoReturn:
        raise PlanError(f"{name} {what} than the plan says")


@dataclass
class _Reporter:
    """
    Makes the report of a decision, after the module has been changed.

    `written` maps each replaced op to its constant and the casts after it, `joined` each composed
    op of quant to the op that replaces it, and `raisable` each op that raising removes to a hint.
    """

    _graph: FoldGraph
    _decision: Decision
    _written: Mapping[Operation, WrittenConstant]
    _joined: Mapping[Operation, Operation]
    _raisable: Mapping[Operation, str]

    def __post_init__(self) -> None:
        self._source_ends = {
            source: op
            for op in reversed(list(self._decision.written))
            for source in self._graph.moved[op].provenance.sources
        }
        """For each moved source, the last op that is replaced by a constant with its elements."""
        self._repeated = self._decision.repeated_reshapes(self._graph)

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
                if op not in graph.parts and op not in self._joined:
                    report.ops_removed += _is_erased(op)
                record = self._record(op)
                if record is not None:
                    report.records.append(record)
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
        part = self._graph.parts.get(op)
        if end is not None and moved is not None:
            folded = self._folded(op, moved.provenance, end)
            if op in self._repeated:
                reason = "without it, each scale would be repeated for each element of its block"
                code = RefusalCode.PARAMETER_GROWTH
                reason = self._with_hint(op, f"it stays behind the constant: {reason}")
                return folded._replace(outcome=Outcome.REFUSED, code=code, reason=reason)
            if part is None:
                return folded
            return folded._replace(op=part.whole, operands=(part.start, part.stop - 1))
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
        return f"{reason}; {self._raisable[op]}" if op in self._raisable else reason

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


LARGE_BYTES = 1 << 24
"""Above 16 MiB of source elements, each source is freed as soon as its last result is written."""


def apply(plan: FoldPlan, module: ModuleOp, context: Context) -> PassReport:
    """
    Carry out a plan in the module that it was made for, or in one with the same names.

    The module must have the ops that the plan names, with the same movements and types; the
    elements of constants may differ. Raises PlanError otherwise; the module is unchanged then.
    """
    with paused_collection(), models_of(context), memory_budget() as budget:
        graph = GraphReader(module, context, budget).graph
        return FoldRun(graph, bind(plan, graph, budget)).run()


class Written(NamedTuple):
    """A constant that has been written, with the casts after it, to replace `op`."""

    op: Operation
    """The replaced op, still with operands. Sources that no later constant needs may be erased."""

    ops: Sequence[Operation]


class FoldRun:
    """
    The execution of a decision: exhaust `write`, then call `finish`.

    Elements are moved as views, so that a chain is copied once, into the written attribute.
    Uses are replaced at the end, all operands of an op at once.
    """

    def __init__(
        self, graph: FoldGraph, decision: Decision, raisable: Mapping[Operation, str] | None = None
    ) -> None:
        self._graph = graph
        self._decision = decision
        self._raisable = raisable or {}
        """Hints for ops that `--raise-dequantization` would remove."""
        places = enumerate(graph.module.walk()) if graph.unknown else ()
        self._places = {op: at for at, op in places}
        """The position of each op of the module, if there are unknown ops."""
        self._gone = [op for op in graph.order if not decision.is_left(op)]
        self._values = ElementValues(graph.steps, graph.constants)
        self._written: dict[Operation, WrittenConstant] = {}
        """For each replaced op, the constant and the casts after it that replace the op."""
        self._joined: dict[Operation, Operation] = {}
        """For each composed op, the op that replaces it and the ops before it."""
        self._readers = Counter[Operation]()
        """For each op, the number of its uses by ops to be erased; only if sources are large."""
        self._unused: dict[Operation, None] = {}
        """Ops that defined operands of erased ops, and may be unused now."""

    @property
    def plan(self) -> FoldPlan:
        """The plan of this run; only valid before the first constant is written."""
        return describe(self._graph, self._decision)

    def run(self) -> PassReport:
        """Carry out the whole decision, and return the report."""
        for _ in self.write():
            pass
        return self.finish()

    def write(self) -> Iterator[Written]:
        """
        Write the constants one by one, before the ops that they replace are changed.

        The operands of a replaced op are dropped when the next constant is requested.
        """
        for op, part in self._graph.parts.items():
            part.insert(op)
        graph, written = self._graph, list(self._decision.written)
        self._values.keep_for(
            graph.moved[op].step for op in written if graph.moved[op].unread is None
        )
        is_large = sum([source.nbytes for source in graph.sources.values()]) >= LARGE_BYTES
        if is_large:
            self._readers.update(maker for op in self._gone for maker in _makers_of_operands(op))
        for op in reversed(written):
            moved = graph.moved[op]
            values = moved.unread or self._values.take(moved.step)
            new = write_constant(
                moved,
                values if moved.splat is None else moved.splat,
                self._decision.types[op],
                graph.constants.resources,
            )
            for new_op in new.ops:
                cast(Block, op.parent).insert_op_before(new_op, op)
            (result,), (last,) = op.results, new.chain[-1].results
            if last.name_hint is None:
                last.name_hint = result.name_hint
            self._written[op] = new
            graph.equal[result] = last
            yield Written(op, new.chain)
            if is_large:
                self._release(op)

    def finish(self) -> PassReport:
        """Replace uses, and erase the replaced ops and the ops that only they used."""
        self._write_joined()
        self._replace()
        self._erase()
        reporter = _Reporter(
            self._graph, self._decision, self._written, self._joined, self._raisable
        )
        report = reporter.report()
        if self._graph.unknown:
            report.records += self._graph.unknown
            report.records.sort(key=lambda record: self._places[record.op])
        return report

    def _release(self, op: Operation) -> None:
        """
        Drop the operands of a replaced op once all its folded users are written too.

        Constants that become unused are erased.
        """
        pending = [op]
        while pending:
            op = pending.pop()
            if self._readers[op]:
                continue
            for maker in self._take_operands(op):
                if maker in self._written:
                    pending.append(maker)
                elif any(result.first_use is not None for result in maker.results):
                    continue
                elif self._decision.fates.get(maker) is Fate.GONE:
                    pending.append(maker)
                elif elements_attribute_of(maker) and maker.results[0] not in self._decision.needed:
                    self._graph.constants.forget(maker)
                    self._erase_op(maker)

    def _take_operands(self, op: Operation) -> Collection[Operation]:
        """
        Drop the operands of an op and the ops nested in it. Returns the ops that defined them.
        """
        makers = list(_makers_of_operands(op))
        if not makers:
            return ()
        for inner in op.walk() if op.regions else (op,):
            inner.operands = ()
        if self._readers:
            self._readers.subtract(makers)
        self._unused.update(unused := dict.fromkeys(makers))
        return unused

    def _erase_op(self, op: Operation) -> None:
        """Erase an op and free its elements: the report may hold the op."""
        self._take_operands(op)
        _erase_unused(op)
        if (name := elements_attribute_of(op)) is not None:
            op.properties.pop(name, None)
            op.attributes.pop(name, None)

    def _write_joined(self) -> None:
        """Insert the ops that replace composed shape ops."""
        graph = self._graph
        joined = self._decision.joined
        for op in graph.order if joined else ():
            if (composition := joined.get(op)) is None:
                continue
            operands = [graph.final(operand) for operand in composition.operands]
            new_op = composition.op_for(cast(ShapeOp, op), operands)
            Rewriter.insert_op(new_op, InsertPoint.before(op))
            new_op.result.name_hint = op.results[0].name_hint
            graph.equal[op.results[0]] = new_op.result
            self._joined[op] = new_op

    def _replace(self) -> None:
        """Replace all uses, all operands of an op at once."""
        equal = self._graph.equal
        users = {use.operation: None for value in equal for use in value.uses}
        for user in users:
            if self._decision.is_left(user):
                user.operands = [self._graph.final(operand) for operand in user.operands]

    def _erase(self) -> None:
        """Erase the replaced ops, and then pure ops that only they used."""
        for op in self._gone:
            self._take_operands(op)
        for op in reversed(self._gone):
            if op.results[0].first_use is None:
                self._unused.pop(op, None)
                _erase_unused(op)
        pending = list(self._unused)
        while pending:
            op = pending.pop()
            if op.parent is None or any([result.first_use for result in op.results]):
                continue
            model = op_model(op)
            is_pure = model.constant is not None or model.movement is not None or model.is_list
            if is_pure or computes_integers(op) or is_trivially_dead(op):
                pending += [operand.op for operand in op.operands if isinstance(operand, OpResult)]
                self._erase_op(op)


def _makers_of_operands(op: Operation) -> Iterator[Operation]:
    """The ops that define the operands of an op and the ops nested in it, once per operand."""
    for inner in op.walk() if op.regions else (op,):
        for operand in inner.operands:
            if isinstance(operand, OpResult):
                yield operand.op


def _erase_unused(op: Operation) -> None:
    """Erase an op whose results have no uses."""
    # xDSL would make a value for each result, in place of the uses that it does not have.
    if op.parent is not None:
        op.detach()
    op.drop_all_references()


class Certificate(Enum):
    """The property that a certificate shows of each constant that a fold writes."""

    NONE = "none"

    STRUCTURE = "structure"
    """`p' = p . f`: every element reads the same slot as before. Elements are not compared."""

    VALUES = "values"
    """STRUCTURE, and `C' = C . f`: every element is stored and dequantized as before."""


MayFold: TypeAlias = Callable[[MovedConstant], bool]
"""Selects the source constants of a fold, and casts of constants."""


def fold_shapes(
    module: ModuleOp,
    context: Context,
    policy: FoldPolicy,
    may_fold: MayFold = lambda constant: True,
    certificate: Certificate = Certificate.NONE,
) -> PassReport:
    """
    Fold the shape ops of a module, of all dialects, into the constants that they move.

    An op that cannot be read, or whose fold `policy` does not allow, is kept, and reported with
    the reason. Raises TypeError for arguments of another kind, and OpErrors for ops without the
    certificate: they were folded wrongly, and the folded module is kept.
    """
    check_instance("module", module, ModuleOp, "parse_module(context, text)")
    check_instance("context", context, Context, "Context()")
    check_instance("policy", policy, FoldPolicy, "FoldPolicy()")
    with paused_collection():
        return _folded(module, context, policy, may_fold, certificate)


def _folded(
    module: ModuleOp,
    context: Context,
    policy: FoldPolicy,
    may_fold: MayFold,
    certificate: Certificate,
) -> PassReport:
    # The graph is freed on return, before the garbage collector is enabled and visits it.
    with fold_run(module, context, policy, may_fold) as run:
        if certificate is Certificate.NONE:
            return run.run()
        # By name: what proves a fold stands on it.
        certifier = imported("qdialect.check.fold_certificates:FoldCertifier")(
            context, with_data=certificate is Certificate.VALUES
        )
        for written in run.write():
            certifier.check(*written)
        report = run.finish()
    if certifier.errors:
        raise OpErrors(certifier.errors)
    return report


@contextmanager
def fold_run(
    module: ModuleOp,
    context: Context,
    policy: FoldPolicy,
    may_fold: MayFold = lambda constant: True,
) -> Generator[FoldRun]:
    """
    A planned fold, which the caller carries out. See `fold_shapes`.

    The plan is passed to the context if it wants plans.
    """
    with paused_collection(), models_of(context), memory_budget() as budget:
        reader = GraphReader(module, context, budget, may_fold)
        decision = decide(reader.graph, policy, budget)
        run = FoldRun(reader.graph, decision, _hints(reader, decision, policy))
        if isinstance(context, FoldReportListener) and context.wants_fold_plans:
            context.take_fold_plan(run.plan)
        yield run


def _hints(reader: GraphReader, decision: Decision, policy: FoldPolicy) -> Mapping[Operation, str]:
    """Hints for the refused ops, and repeated reshapes, that raising first would remove."""
    limits = RefusalCode.GRANULARITY, RefusalCode.GROWTH, RefusalCode.PARAMETER_GROWTH
    codes = {
        op: refusal.code
        for op, refusal in decision.refusals.items()
        # Parts that are not folded have been dropped.
        if refusal.code in limits and op in reader.graph.moved
    }
    reshapes = decision.repeated_reshapes(reader.graph)
    codes |= dict.fromkeys(reshapes, RefusalCode.PARAMETER_GROWTH)
    if not codes:
        return {}
    # Deferred: few folds meet a limit, and raising needs the ops of arith.
    from qdialect.folding.raising import hints_of_raising

    return hints_of_raising(reader, codes, policy)
