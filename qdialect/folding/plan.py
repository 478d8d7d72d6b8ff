"""Planning a fold: choosing the constants to write, their types, and the refusals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Final, cast

from xdsl.context import Context
from xdsl.dialects.builtin import DenseResourceAttr, ModuleOp, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.movement import Movement, Reshape, Shape, Slice
from qdialect.algebra.padding import PadWith, ZeroPoint
from qdialect.dialects.quant.composition import Composition, composed
from qdialect.dialects.quant.shape_ops import ShapeOp
from qdialect.dialects.quant.slots import Granularity
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.folding.fold_plan import (
    FoldPlan,
    PlannedConstant,
    PlannedRefusal,
    PlannedRemoval,
    PlannedSource,
    PlannedStep,
)
from qdialect.folding.graph import FoldGraph, GraphReader
from qdialect.folding.layers import refusing
from qdialect.folding.moved_constant import (
    SLOT_BYTES,
    ElementMove,
    ElementStep,
    Layer,
    MovedConstant,
    form_for,
    in_blocks,
    unread_for,
)
from qdialect.folding.policy import FoldPolicy, coarser, spell
from qdialect.folding.writing import check_writable
from qdialect.ir.rewriting import dependencies_first
from qdialect.ir.value_types import has_encoding, tensor_element_type, tensor_like
from qdialect.ops.interface import (
    Refusal,
    RefusalCode,
    dialect_traits_of,
    elements_attribute_of,
    find_attribute,
    is_list,
    models_of,
    name_of,
)
from qdialect.support.memory import BoundedCache, MemoryBudget, memory_budget, paused_collection

SMALL_COPY_BYTES: Final = 64
"""A copy of that many bytes takes no more text than the op that it replaces."""


def plan(
    module: ModuleOp,
    context: Context,
    policy: FoldPolicy,
    may_fold: Callable[[MovedConstant], bool] = lambda constant: True,
) -> FoldPlan:
    """
    The plan of `fold_shapes` for a module, which is not changed.

    `may_fold` selects the source constants, and casts of constants.
    """
    with paused_collection(), models_of(context), memory_budget() as budget:
        graph = GraphReader(module, context, budget, may_fold).graph
        return describe(graph, decide(graph, policy, budget))


class Fate(Enum):
    """The fate of an op."""

    LEFT = auto()
    WRITTEN = auto()
    """A constant replaces it."""
    JOINED = auto()
    """The composition with the ops before it replaces it."""
    GONE = auto()
    """It is erased: no remaining op uses it."""


@dataclass
class Decision:
    """The fates of the shape ops and casts of a graph."""

    fates: dict[Operation, Fate] = field(default_factory=dict[Operation, Fate])
    types: dict[Operation, Sequence[Attribute]] = field(
        default_factory=dict[Operation, Sequence[Attribute]]
    )
    """For each written op, the types of the constant and of each cast after it."""

    refusals: dict[Operation, Refusal] = field(default_factory=dict[Operation, Refusal])
    joined: dict[Operation, Composition] = field(default_factory=dict[Operation, Composition])
    ends: dict[Operation, Operation] = field(default_factory=dict[Operation, Operation])
    """For each op whose result a constant contains, the op that the constant replaces."""

    beside: set[Operation] = field(default_factory=set[Operation])
    """Erased ops whose results are side constants of written constants."""

    needed: set[SSAValue] = field(default_factory=set[SSAValue])
    """Values that replace used values, or are operands of joined ops."""

    parts: dict[SSAValue, Operation] = field(default_factory=dict[SSAValue, Operation])
    """For each constant of a part that is written, the part, which is then its only user."""

    def is_left(self, op: Operation) -> bool:
        """Whether an op is left unchanged."""
        return self.fates.get(op, Fate.LEFT) is Fate.LEFT

    def is_needed(self, value: SSAValue) -> bool:
        """Whether a remaining op uses a value, or will use it in place of another."""
        if self.needed and value in self.needed:
            return True
        if self.parts and value in self.parts:
            return False
        fates = self.fates
        return any([fates.get(use.operation, Fate.LEFT) is Fate.LEFT for use in value.uses])

    @property
    def written(self) -> Iterator[Operation]:
        """The ops that constants replace, users first."""
        return (op for op, fate in self.fates.items() if fate is Fate.WRITTEN)

    def repeated_reshapes(self, graph: FoldGraph) -> Sequence[Operation]:
        """For each constant in blocks, the reshape that is repeated behind its arithmetic."""
        written = [(graph.moved[op], self.types[op]) for op in self.written]
        return [
            cast(Operation, moved.reshape)
            for moved, types in written
            if form_for(moved, types) is not moved
        ]

    def steps_to(self, graph: FoldGraph) -> Sequence[int]:
        """The steps of the graph that the constants need, in order."""
        roots = [graph.moved[op].step for op in self.written]
        return sorted(dependencies_first(roots, lambda step: graph.steps[step].operands))


class _GrowthBudget:
    """Bytes that folds may still add to the module."""

    def __init__(self, most: int) -> None:
        self.most = self.left = most

    def spend(self, count: int) -> None:
        """Spend bytes. Raises Refusal if fewer are left."""
        if count > self.left:
            raise Refusal(
                RefusalCode.GROWTH,
                f"it would add {count} bytes, of {self.most} that are allowed {self.left} are "
                f"left; it takes max-growth={self.most + count - self.left} or more",
            )
        self.left -= max(count, 0)


def decide(graph: FoldGraph, policy: FoldPolicy, budget: MemoryBudget) -> Decision:
    """Decide the fates of the ops of a graph, within the limits of `policy`."""
    decision = _Decider(graph, policy, budget).decide()
    graph.keep_parts(set(decision.written))
    _join_left(graph, decision)
    find_ends(graph, decision)
    return decision


class _Decider:
    """Chooses the constants to write, such that they add no more bytes than allowed."""

    def __init__(self, graph: FoldGraph, policy: FoldPolicy, budget: MemoryBudget) -> None:
        self._graph = graph
        self._policy = policy
        self._budget = budget
        self._first: Decision | None = None
        """The decision for all folds, if together they exceed a limit."""
        self._has_scales: set[Operation] = set()
        """The ops whose constants may add scales to the module."""
        self._staying: set[int] = set()
        """The steps whose elements the module has anyway: not every copy of them is worth it."""
        self._wholes = _wholes(graph.steps)
        self._reserved = set[Operation]()
        """The views whose memory has been reserved."""

    def decide(self) -> Decision:
        """
        All folds if together they stay within the limits, else as many as fit, in module order.
        """
        decision = self._without_idle_copies(lambda: self._decision(None, ()))
        most, moved = self._policy.max_growth, self._graph.moved
        types = decision.types
        added = sum([moved[op].nbytes + self._new_scales(op, types[op]) for op in decision.written])
        if added <= most or added - self._freed(decision) <= most:
            return decision
        self._first = decision
        return self._without_idle_copies(lambda: self._affordable(decision))

    def _without_idle_copies(self, decide: Callable[[], Decision]) -> Decision:
        """The decision without constants that copy others and save nothing at run time."""
        decision = decide()
        while copied := self._copied_idly(decision) - self._staying:
            self._staying |= copied
            decision = decide()
        return decision

    def _affordable(self, all_folds: Decision) -> Decision:
        """The folds of a decision that fit into the limit of bytes."""
        budget, affordable = _GrowthBudget(self._policy.max_growth), set[Operation]()
        for op in reversed(list(all_folds.written)):
            try:
                budget.spend(self._cost(op, all_folds.types[op]))
            except Refusal:
                continue
            affordable.add(op)
        return self._decision(budget, affordable)

    def _decision(
        self, budget: _GrowthBudget | None, affordable: Collection[Operation]
    ) -> Decision:
        decision, graph, equal = Decision(), self._graph, self._graph.equal
        for op in reversed(graph.order):
            fate = Fate.LEFT
            result = next(iter(op.results), None)
            if result is None:
                pass
            elif equal and result in equal:
                if decision.is_needed(result):
                    decision.needed.add(graph.final(result))
                fate = Fate.GONE
            elif op not in graph.moved:
                if result.first_use is not None and not decision.is_needed(result):
                    # A later op undoes it.
                    fate = Fate.GONE
            elif not self._is_needed(op, decision):
                if result.first_use is not None or graph.models[op] is not None:
                    fate = Fate.GONE
            elif graph.models[op] is not None:
                try:
                    self._check_copy(op, decision)
                    types = self._allowed_types(op)
                    part = graph.parts.get(op)
                    if part is not None:
                        self._check_part(op, types)
                    if budget is not None and op not in affordable:
                        budget.spend(self._cost(op, types))
                    self._reserve(op)
                    decision.types[op] = types
                    if part is not None:
                        decision.parts |= dict.fromkeys(part.operands, op)
                    fate = Fate.WRITTEN
                except Refusal as error:
                    decision.refusals[op] = error
            decision.fates[op] = fate
        return decision

    def _is_needed(self, op: Operation, decision: Decision) -> bool:
        """Whether a remaining op uses the result of an op, or would use it."""
        part = self._graph.parts.get(op)
        return decision.is_needed(op.results[0]) if part is None else decision.is_left(part.whole)

    def _allowed_types(self, op: Operation) -> Sequence[Attribute]:
        """
        The types of the constant that replaces `op`, and of each op after it.

        Raises Refusal if the policy or a dialect forbids one of them.
        """
        if self._first is not None:
            if (known := self._first.types.get(op)) is not None:
                return known
            if (refusal := self._first.refusals.get(op)) is not None:
                raise refusal
        return self._spelled_types(op)

    def _spelled_types(self, op: Operation) -> Sequence[Attribute]:
        whole, (result,) = self._graph.moved[op], op.results
        moved = self._computable(whole) if whole.carries else whole
        shape, first = moved.shape, whole.provenance.first_source
        assert first is not None
        makers = (first, *moved.casts)
        limits = [dialect_traits_of(maker) for maker in makers]
        for maker, traits in zip(makers, limits, strict=True):
            if not traits.has_empty_tensors and 0 in shape:
                dialect = name_of(maker).partition(".")[0]
                raise Refusal(
                    RefusalCode.ILLEGAL_TYPE, f"{dialect} has no tensors without elements"
                )
            if moved.casts and has_encoding(maker.results[0].type):
                raise Refusal(
                    RefusalCode.ILLEGAL_TYPE, f"the new encoding of '{name_of(maker)}' is unknown"
                )
        types: list[Attribute] = []
        # The op declares the type of the last of them.
        last = makers[-1] if moved is whole else None
        # A quantized type is of the dialect of the op that makes it, and of that which reads it.
        ends = zip(limits, (*limits[1:], limits[-1]), strict=True)
        layers = zip(moved.layers, moved.scale_origins, makers, ends, strict=True)
        for layer, origin, maker, (makes, read) in layers:
            if maker is last and layer.is_spelled:
                type = layer.element_type
            else:
                finest = coarser(self._policy.granularity, coarser(makes.finest, read.finest))
                tensor = _spelled(layer, shape, finest)
                type = tensor.element_type
                if maker is not last:
                    like = maker.results[0].type
                    is_builtin = isinstance(like, TensorType)
                    types.append(tensor if is_builtin else tensor_like(like, shape, type))
            if origin is not None and isinstance(type, UniformQuantizedType):
                slots = type.scales.size
                is_free = slots <= self._policy.free_slots(shape)
                before = slots if is_free else origin.total
                self._policy.check_parameters(type, shape, before)
                if slots > 1:
                    self._has_scales.add(op)
        types.append(result.type)
        if repeated := moved.repeated_bytes:
            self._policy.check_repetition(repeated, is_quantized=moved.is_quantized)
        check_writable(whole, types, self._graph.constants)
        return types

    def _computable(self, moved: MovedConstant) -> MovedConstant:
        """
        `moved`, or `moved` in blocks if side constants or ranges of the former exceed the limits.

        Raises Refusal if those of both exceed the limits.
        """
        try:
            self._check_carried(moved)
        except Refusal:
            blocks = in_blocks(moved) if self._graph.has_several_behind(moved) else None
            if blocks is None:
                raise
            self._check_carried(blocks)
            return blocks
        return moved

    def _check_carried(self, moved: MovedConstant) -> None:
        for layer, maker in zip(moved.layers[1:], moved.casts, strict=True):
            if layer.carried is not None:
                layer.carried.check(maker, self._policy)

    def _check_copy(self, op: Operation, decision: Decision) -> None:
        """Raise Refusal if a copy of a constant that stays would save nothing at run time."""
        moved, staying = self._graph.moved[op], self._staying
        if not staying:
            return
        whole = self._wholes[moved.step]
        if whole != moved.step and whole in staying and moved.nbytes > SMALL_COPY_BYTES:
            raise Refusal(
                RefusalCode.GROWTH, "it would copy a constant that stays, only to reshape or cut it"
            )
        if moved.is_narrowed and staying.intersection(self._source_steps(moved)):
            raise Refusal(
                RefusalCode.GROWTH,
                "it would copy a constant that stays, and make it narrower once more",
            )
        if self._serves_refused(op, decision) and staying & self._steps_before(moved.step):
            raise Refusal(
                RefusalCode.GROWTH,
                "it would copy a constant that stays, for ops that are not folded",
            )

    def _copied_idly(self, decision: Decision) -> set[int]:
        """The steps whose elements stay, and are copied by constants that save nothing."""
        graph, copied = self._graph, set[int]()
        # For each step, the bytes of the constants that hold it or parts of it.
        parts = Counter[int]()
        for op in decision.written:
            moved = graph.moved[op]
            held_steps = set(self._source_steps(moved)) if moved.is_narrowed else set[int]()
            if moved.nbytes > SMALL_COPY_BYTES:
                held_steps |= {self._wholes[moved.step]} - {moved.step}
            for step in held_steps:
                parts[step] += min(moved.nbytes, self._moved_by(step).nbytes)
            if self._serves_refused(op, decision):
                steps = self._steps_before(moved.step)
                copied |= {step for step in steps if self._stays(step, decision)}
        for whole, nbytes in parts.items():
            if nbytes > self._moved_by(whole).nbytes or self._stays(whole, decision):
                copied.add(whole)
        return copied

    def _serves_refused(self, op: Operation, decision: Decision) -> bool:
        """Whether only shape ops that are refused for their constants use the result of `op`."""
        (result,), users = op.results, list[Operation]()
        pending = [result]
        while pending:
            for use in pending.pop().uses:
                user = use.operation
                if decision.is_left(user):
                    users.append(user)
                elif self._graph.final(user.results[0]) is result:
                    # It moves nothing.
                    pending.append(user.results[0])
        return bool(users) and all([user in decision.refusals for user in users])

    def _steps_before(self, step: int) -> set[int]:
        """The steps whose elements a step moves, directly or not."""
        steps = self._graph.steps
        return set(dependencies_first(steps[step].operands, lambda at: steps[at].operands))

    def _source_steps(self, moved: MovedConstant) -> Sequence[int]:
        """The steps of the source constants of a value."""
        return [self._graph.sources[source].step for source in moved.provenance.sources]

    def _stays(self, step: int, decision: Decision) -> bool:
        """Whether the module has a constant with the elements of a step."""
        op, operands, _ = self._graph.steps[step]
        if operands:
            return decision.fates.get(op) is Fate.WRITTEN
        return decision.is_needed(op.results[0])

    def _moved_by(self, step: int) -> MovedConstant:
        op, operands, _ = self._graph.steps[step]
        return self._graph.moved[op] if operands else self._graph.sources[op]

    def _reserve(self, op: Operation) -> None:
        """Reserve the memory that the result of a view takes. Raises Refusal."""
        if op in self._reserved:
            return
        with refusing:
            self._budget.reserve(self._graph.bytes_if_written(op))
        self._reserved.add(op)

    def _freed(self, decision: Decision) -> int:
        """The bytes of the sources that will be erased."""
        sources = dict[Operation, None]()
        for op in decision.written:
            sources |= dict.fromkeys(self._graph.moved[op].provenance.sources)
        gone = (source for source in sources if not decision.is_needed(source.results[0]))
        return sum(self._graph.sources[source].nbytes for source in gone)

    def _new_scales(self, op: Operation, types: Sequence[Attribute]) -> int:
        """The bytes of the scales of a constant in excess of those of its sources."""
        if not self._has_scales or op not in self._has_scales:
            return 0
        moved, added = self._graph.moved[op], 0
        for type, origin in zip(types, moved.scale_origins, strict=True):
            element = tensor_element_type(type)
            if origin is not None and isinstance(element, UniformQuantizedType):
                added += max(element.scales.size - origin.total, 0)
        return SLOT_BYTES * added

    def _cost(self, op: Operation, types: Sequence[Attribute]) -> int:
        """The bytes that a constant adds, given that sources with other uses stay."""
        moved, before = self._graph.moved[op], 0
        if self._graph.uses_alone(op):
            sources = moved.provenance.sources
            before = sum(self._graph.sources[source].nbytes for source in sources)
        return moved.nbytes + self._new_scales(op, types) - before

    def _check_part(self, op: Operation, types: Sequence[Attribute]) -> None:
        """Raise Refusal if the constant of a part adds anything: no op goes for it."""
        moved, sources = self._graph.moved[op], self._graph.sources
        before = sum([sources[source].spelled_bytes for source in moved.provenance.sources])
        if (added := moved.spelled_bytes + self._new_scales(op, types) - before) > 0:
            raise Refusal(RefusalCode.GROWTH, f"it would add {added} bytes")


def _wholes(steps: Sequence[ElementStep]) -> Sequence[int]:
    """For each step, the first one that it only reshapes and cuts parts out of."""
    wholes: list[int] = []
    for number, (_, operands, moves) in enumerate(steps):
        is_part = len(operands) == 1 and all([isinstance(f, Reshape | Slice) for f, _ in moves])
        wholes.append(wholes[operands[0]] if is_part else number)
    return wholes


def _join_left(graph: FoldGraph, decision: Decision) -> None:
    """Compose the remaining shape ops of quant, and erase those that become unused."""
    left = [op for op in graph.order if decision.is_left(op) and isinstance(op, ShapeOp)]
    if not left and not graph.equal:
        return
    compositions = compositions_of(graph, left, decision.is_left)
    # The intermediate ops of a composition are not needed any more.
    decision.needed.clear()
    for op in reversed(graph.order):
        for result in op.results:
            if result in graph.equal:
                if decision.is_needed(result):
                    decision.needed.add(graph.final(result))
            elif not isinstance(op, ShapeOp) or not decision.is_left(op):
                continue
            elif not decision.is_needed(result):
                decision.fates[op] = Fate.GONE
            elif (composition := compositions.get(op)) is not None:
                decision.fates[op] = Fate.JOINED
                decision.joined[op] = composition
                decision.needed.update(map(graph.final, composition.operands))


def compositions_of(
    graph: FoldGraph, ops: Iterable[ShapeOp], may_pass: Callable[[Operation], bool]
) -> Mapping[Operation, Composition]:
    """The composition of each of `ops`, operands first, with the ops before it."""
    compositions: dict[Operation, Composition] = {}
    for op in ops:
        operands = [graph.final(operand) for operand in op.operands]
        if composition := composed(op, operands, compositions, may_pass):
            compositions[op] = composition
    return compositions


def find_ends(graph: FoldGraph, decision: Decision) -> None:
    """For each op, find the constant that contains its result, if any."""
    ends, equal = decision.ends, graph.equal
    for op, fate in decision.fates.items():
        if fate is Fate.WRITTEN:
            ends[op] = op
        elif fate is Fate.GONE and (op in graph.moved or op.results[0] in equal or is_list(op)):
            (result,) = op.results
            for use in result.uses:
                user = decision.parts.get(result, use.operation)
                if user in decision.beside or result in graph.side_operands(user):
                    decision.beside.add(op)
                    continue
                if (end := ends.get(user)) is None or not graph.moves(user, result):
                    continue
                # An identity op may be equal to a value further up.
                if equal and user.results[0] in equal and not _leads_to(graph, user, op):
                    continue
                ends[op] = end
                break


def _leads_to(graph: FoldGraph, user: Operation, op: Operation) -> bool:
    """Whether the result of `user`, which equals an earlier value, equals that of `op`."""
    return graph.final(user.results[0]) is graph.final(op.results[0])


def planned_movement(move: ElementMove) -> Movement:
    """The movement as recorded in a plan, without the padding element."""
    movement = move.movement
    if isinstance(movement, PadWith):
        return replace(movement, padded_with=ZeroPoint())
    return movement


def describe(graph: FoldGraph, decision: Decision) -> FoldPlan:
    """The plan that describes a decision."""
    return _Describer(graph, decision).plan()


class _Describer:
    def __init__(self, graph: FoldGraph, decision: Decision) -> None:
        self._graph = graph
        self._decision = decision

    def plan(self) -> FoldPlan:
        graph, names = self._graph, self._graph.names
        written = list(self._decision.written)[::-1]
        sources: list[PlannedSource] = []
        steps: list[PlannedStep] = []
        numbers, ends, moved = self._decision.steps_to(graph), self._decision.ends, graph.moved
        named = {number: names[graph.steps[number].op] for number in numbers}
        for number, name in named.items():
            op, operands, moves = graph.steps[number]
            if not operands:
                sources.append(self._source(op, name))
                continue
            operand_names = tuple([named[operand] for operand in operands])
            movements = tuple([planned_movement(move) for move in moves])
            end = ends.get(op)
            into = None if end is None else named[moved[end].step]
            steps.append(
                PlannedStep(name, name_of(op), op.results[0].type, operand_names, movements, into)
            )
        removed, refused = self._others(named)
        return FoldPlan(
            tuple(sources),
            tuple(steps),
            tuple([self._constant(op, named) for op in written]),
            tuple(removed),
            tuple([names[op] for op in graph.order if op in self._decision.joined])
            if self._decision.joined
            else (),
            tuple(refused),
        )

    def _source(self, op: Operation, name: str) -> PlannedSource:
        attribute = find_attribute(op, elements_attribute_of(op) or "")
        is_resource = isinstance(attribute, DenseResourceAttr)
        (result,) = op.results
        return PlannedSource(
            name,
            name_of(op),
            result.type,
            attribute.resource_handle.data if is_resource else None,
            self._graph.sources[op].nbytes,
            self._decision.is_needed(result),
        )

    def _constant(self, op: Operation, named: Mapping[int, str]) -> PlannedConstant:
        moved, names = self._graph.moved[op], self._graph.names
        unread = unread_for(moved, self._decision.types[op])
        return PlannedConstant(
            named[moved.step],
            tuple([names[source] for source in moved.provenance.sources]),
            tuple([names[cast_op] for cast_op in moved.casts]),
            tuple(self._decision.types[op]),
            moved.nbytes,
            None if unread is None else unread.key,
        )

    def _others(
        self, steps: Container[int]
    ) -> tuple[Sequence[PlannedRemoval], Sequence[PlannedRefusal]]:
        """The erased ops that are not steps, and the refused ops."""
        graph, decision, names = self._graph, self._decision, self._graph.names
        removed: list[PlannedRemoval] = []
        refused: list[PlannedRefusal] = []
        for op in graph.order:
            fate = decision.fates[op]
            if fate is Fate.GONE:
                moved = graph.moved.get(op)
                if moved is not None and moved.step in steps and graph.models[op] is not None:
                    continue
                end = decision.ends.get(op)
                into = None if end is None else names[end]
                removed.append(PlannedRemoval(names[op], name_of(op), into))
            elif fate is Fate.LEFT and graph.models[op] is not None:
                refusal = decision.refusals.get(op) or graph.refusals.get(op)
                if refusal is not None:
                    refused.append(
                        PlannedRefusal(names[op], name_of(op), refusal.code, str(refusal))
                    )
        return removed, refused


_KNOWN_SPELLED = BoundedCache[tuple[Layer, Shape, Granularity], TensorType[Attribute]]()


def _spelled(layer: Layer, shape: Shape, finest: Granularity) -> TensorType[Attribute]:
    """The type of a tensor of `shape` that spells `layer`. Raises Refusal."""
    key = layer, shape, finest
    if (known := _KNOWN_SPELLED.get(key)) is not None:
        return known
    type = layer.element_type
    if layer.parameters is not None and not layer.is_spelled:
        type = spell(layer.quantized, layer.parameters, finest)
    return _KNOWN_SPELLED.add(key, TensorType(type, shape), layer.size)
