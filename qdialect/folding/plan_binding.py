"""Binding a stored plan to the ops of a module that it names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NoReturn, TypeVar

from xdsl.ir import Attribute, Operation

from qdialect.dialects.quant.shape_ops import ShapeOp
from qdialect.folding.fold_plan import FoldPlan, PlanError, PlannedConstant, PlannedStep
from qdialect.folding.graph import FoldGraph, declared_layer
from qdialect.folding.moved_constant import MovedConstant, form_for
from qdialect.folding.plan import Decision, Fate, compositions_of, find_ends, planned_movement
from qdialect.folding.writing import check_writable
from qdialect.ir.value_types import tensor_parts
from qdialect.ops.interface import Refusal, RefusalCode, name_of
from qdialect.support.memory import MemoryBudget, MemoryLimitError

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
            elif op in gone:
                decision.fates[op] = Fate.GONE
            elif op in joined:
                decision.fates[op] = Fate.JOINED
        for refusal in self._records("refused", plan.refused):
            op = self._check_op(refusal.name, refusal.op, None)
            decision.refusals[op] = Refusal(refusal.code, refusal.reason)
        graph.take_parts_back(decision.is_left)
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
            found = ", ".join(f"'{other}'" for other in op.result_types)
            raise PlanError(f"{name} is of type {found}, not '{type}'")
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
        found = [steps[operand].op for operand in operands]
        if found != [self._find(name) for name in step.operands]:
            self._differs(step.name, "has other operands")
        if tuple([planned_movement(move) for move in moves]) != step.movements:
            self._differs(step.name, "moves elements in another way")

    def _check_constant(self, constant: PlannedConstant) -> None:
        name, _, _, types, _ = constant
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
            self._check_spelling(form, types)
            check_writable(moved, types, graph.constants)
            self._budget.reserve(graph.unreserved.get(op, 0))
        except (Refusal, MemoryLimitError) as error:
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
