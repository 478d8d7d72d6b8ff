"""Carrying out a plan: writing constants, replacing uses, and erasing unused ops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, OpResult
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.transforms.dead_code_elimination import is_trivially_dead

from qdialect.dialects.quant.shape_ops import ShapeOp
from qdialect.folding.element_steps import ElementValues
from qdialect.folding.fold_plan import FoldPlan
from qdialect.folding.graph import FoldGraph
from qdialect.folding.plan import Decision, Fate, describe
from qdialect.folding.plan_binding import bind
from qdialect.folding.plan_report import report_of
from qdialect.folding.report import PassReport
from qdialect.folding.writing import WrittenConstant, write_constant
from qdialect.ops.computed_integers import computes_integers
from qdialect.ops.interface import elements_attribute_of, models_of, op_model
from qdialect.support.memory import memory_budget, paused_collection

LARGE_BYTES = 1 << 24
"""Above 16 MiB of source elements, each source is freed as soon as its last result is written."""


def apply(plan: FoldPlan, module: ModuleOp, context: Context) -> PassReport:
    """
    Carry out a plan in the module that it was made for, or in one with the same names.

    The module must have the ops that the plan names, with the same movements and types; the
    elements of constants may differ. Raises PlanError otherwise; the module is unchanged then.
    """
    with paused_collection(), models_of(context), memory_budget() as budget:
        graph = FoldGraph(module, context, budget)
        with graph.parts_taken_back():
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

    def __init__(self, graph: FoldGraph, decision: Decision) -> None:
        self._graph = graph
        self._decision = decision
        self._gone = [op for op in graph.order if not decision.is_left(op)]
        self._values = ElementValues(graph.steps, graph.constants)
        self._written: dict[Operation, WrittenConstant] = {}
        """For each replaced op, the constant and the casts after it that replace the op."""
        self._joined: dict[Operation, Operation] = {}
        """For each composed op, the op that replaces it and the ops before it."""
        self._readers = Counter[Operation]()
        """
        For each op, the number of its uses by ops that will be erased; only if sources are
        large.
        """
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
        graph, written = self._graph, list(self._decision.written)
        self._values.keep_for(graph.moved[op].step for op in written)
        is_large = sum([source.nbytes for source in graph.sources.values()]) >= LARGE_BYTES
        if is_large:
            self._readers.update(maker for op in self._gone for maker in _makers_of_operands(op))
        for op in reversed(written):
            moved = graph.moved[op]
            values = self._values.take(moved.step)
            new = write_constant(
                moved,
                values if moved.splat is None else moved.splat,
                self._decision.types[op],
                graph.constants.resources,
            )
            for each in new.ops:
                cast(Block, op.parent).insert_op_before(each, op)
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
        return report_of(self._graph, self._decision, self._written, self._joined)

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
        self._unused.update(made := dict.fromkeys(makers))
        return made

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
                pending += [each.op for each in op.operands if isinstance(each, OpResult)]
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
