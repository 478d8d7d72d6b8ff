"""The fold of all shape ops of a module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple, cast

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, NoneAttr, TensorType, UnregisteredOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.transforms.dead_code_elimination import is_trivially_dead
from xdsl.utils.exceptions import VerifyException

from qdialect.dialects.quant.folding import simplified
from qdialect.dialects.quant.shape_ops import ShapeOp
from qdialect.dialects.quant.slots import Granularity
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.dialects.quant.verification import verify_same_slots
from qdialect.dialects.value_types import tensor_element_type
from qdialect.fold_report import FoldRecord, FoldReport, Outcome
from qdialect.garbage import paused_collection
from qdialect.lazy_numpy import np
from qdialect.memo import Memo
from qdialect.movement import Movement, MovementError, Shape, ValueSet
from qdialect.ordering import operands_first
from qdialect.resources import ResourceBlobs
from qdialect.shape_folding.constants import ConstantOperands, Constants
from qdialect.shape_folding.moved import Element, Layer, MovedConstant, move
from qdialect.shape_folding.observer import FoldObserver
from qdialect.shape_folding.policy import FoldPolicy, coarser, spell
from qdialect.shape_folding.provenance import Part, Provenance
from qdialect.shape_op_interface import (
    Code,
    Movements,
    NotFoldable,
    ShapeOpModel,
    elements_attribute_of,
    integers_in,
    name_of,
    role_of,
    shape_of,
    static_shape_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FINEST = {"stablehlo": Granularity.PER_AXIS}
"""The finest types of the dialects that have fewer than MLIR."""


LARGE_BYTES = 1 << 24
"""From so many on, it is worth the time to have no more in memory than is needed: 16 MiB."""


def fold_shapes(
    module: ModuleOp,
    context: Context,
    policy: FoldPolicy,
    may_fold: Callable[[MovedConstant], bool] = lambda constant: True,
    observer: FoldObserver | None = None,
) -> FoldReport:
    """
    Fold the shape ops of a module, of all dialects, into the constants that they move.

    What is not understood, or not allowed by `policy`, is left as it is, and told in the
    report. `may_fold` chooses among constants, and what casts make of them. `observer` is
    told of each constant that is written, as soon as it is.
    """
    with paused_collection():
        return ShapeFolder(context, policy, may_fold, observer).fold(module)


def fold_shape_op(op: ShapeOp, sources: Sequence[Operation]) -> Operation | None:
    """The constant that `op` makes of `sources`, its operands, if the defaults allow it."""
    constants = Constants(ResourceBlobs(None))
    try:
        operands = [constants.read(source) for source in sources]
        known = [operand for operand in operands if operand is not None]
        static_shape_of(op.result)
        declared = _verified_type(op)
        moved = move(op.movement, known, declared=declared)
    except NotFoldable:
        return None
    if moved.nbytes - sum(operand.nbytes for operand in known) > FoldPolicy().max_growth:
        return None
    provenance = Provenance(moved.provenance.value_set, dict.fromkeys(sources))
    named = replace(moved, provenance=provenance)
    (constant,) = constants.write(named, [op.result.type])
    hint = constant.results[0].name_hint
    constant.results[0].name_hint = hint or op.result.name_hint
    return constant


class _State(Enum):
    """What becomes of an op whose result is a moved constant."""

    LEFT = auto()
    WRITTEN = auto()
    """A constant takes its place."""
    GONE = auto()
    """Nothing that is left uses it."""


@dataclass
class _Plan:
    """What becomes of the ops."""

    states: dict[Operation, _State] = field(default_factory=dict[Operation, _State])

    types: dict[Operation, list[Attribute]] = field(
        default_factory=dict[Operation, list[Attribute]]
    )
    """Of the constants that are written: of the constant, and of each cast behind it."""

    refusals: dict[Operation, NotFoldable] = field(default_factory=dict[Operation, NotFoldable])

    needed: set[SSAValue] = field(default_factory=set[SSAValue])
    """Values that take the place of others which are used."""

    def is_left(self, op: Operation) -> bool:
        """Whether an op stays."""
        return self.states.get(op, _State.LEFT) is _State.LEFT

    def is_needed(self, value: SSAValue) -> bool:
        """Whether something that stays uses a value, or needs what it takes the place of."""
        return value in self.needed or any(self.is_left(use.operation) for use in value.uses)

    @property
    def written(self) -> Iterator[Operation]:
        """The ops that a constant takes the place of, users first."""
        return (op for op, state in self.states.items() if state is _State.WRITTEN)


class _Told(NamedTuple):
    """What is told of moved constants: nothing that holds their elements."""

    report: FoldReport

    ends: Mapping[Operation, Operation]
    """For each op that is folded the one that a constant takes the place of."""

    provenances: Mapping[Operation, Provenance]

    casts: Mapping[Operation, int]
    """How many casts there are on the way to each op that is folded, itself included."""

    gone: Mapping[Operation, Operation]
    """The constants that nothing uses any more, and which op was made of each."""


class _Budget:
    """Bytes that folds may still add."""

    def __init__(self, most: int) -> None:
        self.most = self.left = most

    def spend(self, count: int) -> None:
        """Take so many. Raises NotFoldable if there are fewer left."""
        if count > self.left:
            raise NotFoldable(
                Code.GROWTH,
                f"it would add {count} bytes, of {self.most} that are allowed {self.left} are left",
            )
        self.left -= max(count, 0)


class _FoldedOperands(ConstantOperands):
    """Operands that may be folded themselves."""

    def __init__(self, constants: Constants, moved: Mapping[Operation, MovedConstant]) -> None:
        super().__init__(constants)
        self._moved = moved

    @override
    def integers(self, value: SSAValue) -> NDArray[np.int64]:
        owner = value.owner
        moved = self._moved.get(owner) if isinstance(owner, Operation) else None
        if moved is not None and not moved.casts:
            return integers_in(moved.values)
        return super().integers(value)


class ShapeFolder:
    """
    Folds the shape ops of a module in one walk.

    Elements are only viewed on the way, so that a chain is copied once, where an op that
    is left uses it. What is written is decided before anything is changed. Uses are
    replaced at the end, all operands of an op at once.
    """

    def __init__(
        self,
        context: Context,
        policy: FoldPolicy,
        may_fold: Callable[[MovedConstant], bool],
        observer: FoldObserver | None = None,
    ) -> None:
        self._observer = observer
        self._policy = policy
        self._may_fold = may_fold
        self._constants = Constants(ResourceBlobs.of(context))
        self._order: list[Operation] = []
        """Shape ops and casts, operands first."""
        self._models: dict[Operation, ShapeOpModel | None] = {}
        """How to read each of them; None for a cast."""
        self._moved: dict[Operation, MovedConstant] = {}
        self._operands = _FoldedOperands(self._constants, self._moved)
        self._refusals: dict[Operation, NotFoldable] = {}
        self._composed: dict[Operation, tuple[Movement, SSAValue]] = {}
        """What an op does together with those before it, and to what."""
        self._equal: dict[SSAValue, SSAValue] = {}
        """Values that others take the place of."""
        self._written: dict[Operation, list[Operation]] = {}
        """The constant, and the casts behind it, that take the place of an op."""
        self._readers = Counter[Operation]()
        """How often what is gone uses the results of each op."""
        self._unused: dict[Operation, None] = {}
        """What made operands of ops that are gone: perhaps for nothing else."""

    def fold(self, module: ModuleOp) -> FoldReport:
        """Fold what can be folded, and erase what that leaves unused."""
        for op in module.walk():
            role = role_of(op)
            if role.is_cast or role.model is not None:
                self._models[op] = None if role.is_cast else role.model
        for op in operands_first(self._models):
            self._order.append(op)
            self._visit(op)
        plan = self._affordable_plan()
        told = self._telling(plan)
        self._write(plan, is_large=told.report.bytes_before >= LARGE_BYTES)
        report = self._tell(plan, told)
        new_ops = self._simplify_left(plan)
        self._replace(plan)
        self._erase(plan, new_ops)
        return report

    # Reading and moving

    def _visit(self, op: Operation) -> None:
        model = self._models[op]
        try:
            if model is None:
                self._moved[op] = self._known(op.operands[0], op).through(op)
                return
            movements = self._operands.read(op, model)
            if not self._is_unmoved(op, movements):
                self._moved[op] = self._move(op, movements)
        except NotFoldable as error:
            self._refusals[op] = error

    def _is_unmoved(self, op: Operation, movements: Movements) -> bool:
        """Whether all that `op` and those before it do is nothing."""
        if len(movements.movements) > 1 or len(movements.operands) != 1:
            return False
        (result,), (operand,) = op.results, movements.operands
        operand = self._final(operand)
        is_same_type = operand.type == result.type
        for movement in movements.movements:
            shape = shape_of(operand)
            _check_movement(movement, shape)
            if is_same_type and movement.is_identity(shape):
                # What is before it need not be known, or be one movement with it.
                break
            first = self._composed.get(cast(Operation, operand.owner))
            composed = movement.after(first[0]) if first else None
            if composed is not None and first is not None:
                movement, operand = composed, first[1]
                is_same_type = operand.type == result.type
            self._composed[op] = movement, operand
            if is_same_type and not movement.is_identity(shape_of(operand)):
                return False
        if not is_same_type or operand is result:
            return False
        self._equal[result] = operand
        return True

    def _move(self, op: Operation, movements: Movements) -> MovedConstant:
        constants = [self._known(operand, op) for operand in movements.operands]
        if not all(map(self._may_fold, constants)):
            raise NotFoldable(Code.QUANTIZED, "an operand is quantized")
        (result,) = op.results
        shape = static_shape_of(result)
        padding = None if movements.padding is None else self._element(movements.padding, op)
        moved, declared = constants, _verified_type(op) if len(constants[0].layers) == 1 else None
        for movement in movements.movements:
            moved = [move(movement, moved, padding, declared)]
        (last,) = moved
        if last.shape != shape:
            raise NotFoldable(
                Code.UNKNOWN_OP, f"its result has shape {list(shape)}, not {list(last.shape)}"
            )
        layers = last.layers
        if declared is None:
            # What is below is read through casts, and what the op declares is above.
            declared = _declared(layers[-1], tensor_element_type(result.type), shape)
            layers = (*layers[:-1], declared)
        first = constants[0]
        if len(constants) == 1:
            provenance = first.provenance.moved(movements.movements)
        else:
            parts = [Part(constant.provenance, constant.shape) for constant in constants]
            provenance = Provenance.join(movements.movements, parts)
            # What is written is of the kind of the first source, and so is what is behind it.
            source = provenance.first_source
            first = next((c for c in constants if c.provenance.first_source is source), first)
        return MovedConstant(last.values, shape, layers, first.casts, provenance)

    def _known(self, value: SSAValue, user: Operation) -> MovedConstant:
        """What a value holds. Raises NotFoldable if that is not known."""
        owner = self._final(value).owner
        if not isinstance(owner, Operation):
            number = user.operands.index(value)
            raise NotFoldable(Code.NOT_CONSTANT, f"operand #{number} is an argument")
        if (moved := self._moved.get(owner)) is not None:
            return moved
        if (constant := self._constants.read(owner)) is not None:
            return constant
        made = f"operand #{user.operands.index(value)} is made by '{name_of(owner)}', which"
        if owner in self._refusals:
            raise NotFoldable(Code.NOT_CONSTANT, f"{made} is not folded")
        if isinstance(owner, UnregisteredOp):
            raise NotFoldable(Code.UNKNOWN_OP, f"{made} is not known to move elements")
        raise NotFoldable(Code.NOT_CONSTANT, f"{made} is not a constant")

    def _element(self, value: SSAValue, user: Operation) -> Element:
        """One element: a scalar constant, or a constant tensor. Raises NotFoldable."""
        if not isinstance(value.type, TensorType):
            return self._constants.element(value)
        try:
            return self._known(value, user).single_element
        except (NotFoldable, ValueError):
            # It need not be an operand: a region may yield it.
            raise NotFoldable(
                Code.PADDING, "what is padded with is not one constant element"
            ) from None

    def _final(self, value: SSAValue) -> SSAValue:
        while value in self._equal:
            value = self._equal[value]
        return value

    # Deciding

    def _affordable_plan(self) -> _Plan:
        """What becomes of the ops, such that it adds no more bytes than are allowed."""
        plan = self._plan(None, ())
        most = self._policy.max_growth
        if sum(self._moved[op].nbytes for op in plan.written) <= most or (
            self._growth(plan) <= most
        ):
            return plan
        # All is too much: as many as fit, in the order of the module.
        budget, affordable = _Budget(most), set[Operation]()
        for op in reversed(list(plan.written)):
            try:
                budget.spend(self._cost(op))
            except NotFoldable:
                continue
            affordable.add(op)
        return self._plan(budget, affordable)

    def _plan(self, budget: _Budget | None, affordable: Collection[Operation]) -> _Plan:
        plan = _Plan()
        for op in reversed(self._order):
            plan.states[op] = _State.LEFT
            result = next(iter(op.results), None)
            if result is None:
                continue
            if result in self._equal:
                if plan.is_needed(result):
                    plan.needed.add(self._final(result))
                plan.states[op] = _State.GONE
            elif op not in self._moved:
                if result.first_use is not None and not plan.is_needed(result):
                    # What it moved is moved back.
                    plan.states[op] = _State.GONE
            elif not plan.is_needed(result) and not (
                self._models[op] is None and result.first_use is None
            ):
                plan.states[op] = _State.GONE
            elif self._models[op] is not None:
                try:
                    plan.types[op] = self._types(op)
                    if budget is not None and op not in affordable:
                        budget.spend(self._cost(op))
                    plan.states[op] = _State.WRITTEN
                except NotFoldable as error:
                    plan.refusals[op] = error
        return plan

    def _types(self, op: Operation) -> list[Attribute]:
        """
        The types of the constant that `op` becomes, and of each cast behind it.

        Raises NotFoldable if one of them is not allowed, or not there.
        """
        moved, (result,) = self._moved[op], op.results
        finest = self._policy.granularity
        for maker in (moved.sources[0], *moved.casts):
            dialect = name_of(maker).partition(".")[0]
            finest = coarser(finest, _FINEST.get(dialect, finest))
            if dialect == "tosa" and 0 in moved.shape:
                raise NotFoldable(Code.ILLEGAL_TYPE, "tosa has no tensors without elements")
            if moved.casts and _has_encoding(maker.results[0].type):
                raise NotFoldable(
                    Code.ILLEGAL_TYPE, f"what the encoding of '{name_of(maker)}' becomes is unknown"
                )
        types: list[Attribute] = []
        for layer in moved.layers:
            tensor = _spelled(layer, moved.shape, finest)
            type = tensor.element_type
            if isinstance(type, UniformQuantizedType):
                self._policy.check_parameters(type, moved.shape, layer.slots_before)
            types.append(tensor)
        types[-1] = result.type
        return types

    def _growth(self, plan: _Plan) -> int:
        """How many bytes a plan adds to the module."""
        written = [self._moved[op] for op in plan.written]
        sources = dict.fromkeys(source for moved in written for source in moved.sources)
        gone = (source for source in sources if not plan.is_needed(source.results[0]))
        return sum(moved.nbytes for moved in written) - sum(map(self._nbytes, gone))

    def _nbytes(self, source: Operation) -> int:
        constant = self._constants.read(source)
        return 0 if constant is None else constant.nbytes

    def _cost(self, op: Operation) -> int:
        """How many bytes a constant adds, if those that something else may use stay."""
        moved = self._moved[op]
        before = sum(map(self._nbytes, moved.sources)) if self._uses_alone(op) else 0
        return moved.nbytes - before

    def _uses_alone(self, op: Operation) -> bool:
        """Whether nothing but `op` needs its operands, and what these are made of."""
        pending, sources = [op], set(self._moved[op].sources)
        while pending:
            for operand in pending.pop().operands:
                owner = operand.owner
                if not isinstance(owner, Operation):
                    continue
                if owner in self._moved:
                    pending.append(owner)
                elif owner not in sources:
                    continue
                if not operand.has_one_use():
                    return False
        return True

    # Writing

    def _write(self, plan: _Plan, *, is_large: bool) -> None:
        """
        Write the constants, before anything that uses them is told so.

        What only they were made of is let go of as soon as the last of them is written, if
        all that `is_large`.
        """
        written = list(plan.written)
        moved = [self._moved[op] for op in written]
        self._moved.clear()
        if is_large:
            gone = (op for op in self._order if not plan.is_left(op))
            self._readers.update(maker for op in gone for maker in _makers_of_operands(op))
        while moved:
            op = written.pop()
            ops = self._constants.write(moved.pop(), plan.types[op])
            for new in ops:
                cast(Block, op.parent).insert_op_before(new, op)
            (result,), (last,) = op.results, ops[-1].results
            last.name_hint = last.name_hint or result.name_hint
            self._written[op] = ops
            self._equal[result] = last
            if self._observer is not None:
                self._observer.constant_written(op, ops)
            if is_large:
                self._let_go(op, plan)

    def _let_go(self, op: Operation, plan: _Plan) -> None:
        """Have an op that is written use nothing, once all that is made of it is written too."""
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
                elif plan.states.get(maker) is _State.GONE:
                    pending.append(maker)
                elif elements_attribute_of(maker) and maker.results[0] not in plan.needed:
                    self._constants.forget(maker)
                    self._erase_op(maker)

    def _take_operands(self, op: Operation) -> Collection[Operation]:
        """Have an op, and all in it, use nothing. Returns what made its operands."""
        makers = list(_makers_of_operands(op)) if op.operands or op.regions else None
        if not makers:
            return ()
        for inner in op.walk() if op.regions else (op,):
            inner.operands = ()
        for maker in makers:
            self._readers[maker] -= 1
        made = dict.fromkeys(makers)
        self._unused |= made
        return made

    def _erase_op(self, op: Operation) -> None:
        """Erase an op, which is told of, without its elements."""
        self._take_operands(op)
        Rewriter.erase_op(op)
        if (name := elements_attribute_of(op)) is not None:
            op.properties.pop(name, None)
            op.attributes.pop(name, None)

    def _simplify_left(self, plan: _Plan) -> list[Operation]:
        """Join the shape ops of the quant dialect that are left: the new ones."""
        new_ops: list[Operation] = []
        for op in self._order:
            if not isinstance(op, ShapeOp) or not plan.is_left(op):
                continue
            new_op = simplified(op, [self._final(operand) for operand in op.operands])
            if new_op is not None:
                Rewriter.insert_op(new_op, InsertPoint.before(op))
                new_op.result.name_hint = op.result.name_hint
                self._equal[op.result] = new_op.result
                new_ops.append(new_op)
        return new_ops

    def _replace(self, plan: _Plan) -> None:
        """Have all users use what takes the place of values, each user once."""
        users = {use.operation: None for value in self._equal for use in value.uses}
        for user in users:
            if plan.is_left(user):
                user.operands = [self._final(operand) for operand in user.operands]

    def _erase(self, plan: _Plan, new_ops: Sequence[Operation]) -> None:
        """Erase what is gone, what shape ops nothing uses, and then what made their operands."""
        for op in self._order:
            if not plan.is_left(op):
                self._take_operands(op)
        for op in reversed([*self._order, *new_ops]):
            is_dead = not plan.is_left(op) or isinstance(op, ShapeOp)
            if is_dead and op.results[0].first_use is None:
                self._unused.pop(op, None)
                self._erase_op(op)
        pending = list(self._unused)
        while pending:
            op = pending.pop()
            if op.parent is None or any([result.first_use for result in op.results]):
                continue
            role = role_of(op)
            is_pure = role.elements is not None or role.model is not None
            if is_pure or is_trivially_dead(op):
                pending += [o.owner for o in op.operands if isinstance(o.owner, Operation)]
                self._erase_op(op)

    # Telling

    def _tell(self, plan: _Plan, told: _Told) -> FoldReport:
        report = told.report
        for op in self._order:
            if self._models[op] is None:
                if op in told.ends:
                    written = self._written[told.ends[op]]
                    report.vanished[op.results[0]] = written[told.casts[op]].results[0]
                continue
            if op in told.ends:
                report.records.append(self._folded(op, told))
            elif not plan.is_left(op):
                report.records.append(self._dropped(op))
            elif (refusal := plan.refusals.get(op) or self._refusals.get(op)) is not None:
                report.records.append(
                    FoldRecord(
                        Outcome.REFUSED, op, name_of(op), code=refusal.code, reason=str(refusal)
                    )
                )
        for source, end in told.gone.items():
            report.vanished[source.results[0]] = self._written[end][0].results[0]
        return report

    def _ends(self, plan: _Plan) -> dict[Operation, Operation]:
        """For each op that is folded the one that a constant takes the place of."""
        ends: dict[Operation, Operation] = {}
        for op, state in plan.states.items():
            if state is _State.WRITTEN:
                ends[op] = op
            elif state is _State.GONE and op in self._moved:
                users = (use.operation for use in op.results[0].uses)
                end = next((ends[user] for user in users if user in ends), None)
                if end is not None:
                    ends[op] = end
        return ends

    def _folded(self, op: Operation, told: _Told) -> FoldRecord:
        provenance = told.provenances[op]
        value_set = provenance.value_set
        if value_set is ValueSet.UNION and provenance.has_one_source:
            value_set = ValueSet.PART
        written = self._written[told.ends[op]]
        (constant,), (stands,) = written[0].results, written[-1].results
        return FoldRecord(
            Outcome.FOLDED,
            op,
            name_of(op),
            made_of=provenance,
            constant=constant,
            stands=stands,
            values=value_set,
        )

    def _dropped(self, op: Operation) -> FoldRecord:
        result = op.results[0]
        stands = self._final(result)
        return FoldRecord(
            Outcome.DROPPED,
            op,
            name_of(op),
            stands=None if stands is result else stands,
            values=ValueSet.SAME,
        )

    def _telling(self, plan: _Plan) -> _Told:
        """What there is to tell of moved constants, before they are let go of."""
        report, ends = FoldReport(), self._ends(plan)
        ends_of_sources = {source: op for op in plan.written for source in self._moved[op].sources}
        written = [self._moved[op] for op in plan.written]
        report.constants = len(written)
        report.bytes_after = sum(moved.nbytes for moved in written)
        gone: dict[Operation, Operation] = {}
        for source, end in ends_of_sources.items():
            nbytes = self._nbytes(source)
            report.bytes_before += nbytes
            if plan.is_needed(source.results[0]):
                report.bytes_after += nbytes
            else:
                gone[source] = end
        report.ops_removed = sum(
            not plan.is_left(op) and self._models[op] is not None for op in self._order
        )
        moved = {op: self._moved[op] for op in ends}
        return _Told(
            report,
            ends,
            {op: constant.provenance for op, constant in moved.items()},
            {op: len(constant.casts) for op, constant in moved.items()},
            gone,
        )


def _makers_of_operands(op: Operation) -> Iterator[Operation]:
    """What made the operands of an op and of all in it, as often as it made one."""
    for inner in op.walk() if op.regions else (op,):
        for operand in inner.operands:
            if isinstance(operand.owner, Operation):
                yield operand.owner


def _verified_type(op: Operation) -> Layer | None:
    """What the result of an op reads, if its verifier has seen to it that it is so."""
    if not isinstance(op, ShapeOp):
        return None
    (result,) = op.results
    return Layer.of(tensor_element_type(result.type), shape_of(result))


_KNOWN_DECLARED = Memo[tuple[Layer, Attribute, Shape], Layer]()


def _declared(layer: Layer, declared: Attribute, shape: Shape) -> Layer:
    """
    `layer`, as the type `declared` spells it.

    Raises NotFoldable if that type does not mean what the elements are read with.
    """
    key = layer, declared, shape
    if (known := _KNOWN_DECLARED.get(key)) is not None:
        return known
    read = Layer.of(declared, shape)
    if not layer.can_join(read):
        raise NotFoldable(
            Code.STALE_TYPE, f"its elements are of type '{layer.element_type}', not '{declared}'"
        )
    if layer.parameters is not None and read.parameters is not None:
        try:
            verify_same_slots(layer.parameters, read.parameters)
        except VerifyException as error:
            raise NotFoldable(Code.STALE_TYPE, str(error)) from None
    spelled = replace(layer, element_type=declared, is_spelled=True)
    return _KNOWN_DECLARED.add(key, spelled, layer.size + read.size)


_KNOWN_SPELLED = Memo[tuple[Layer, Shape, Granularity], TensorType[Attribute]]()


def _spelled(layer: Layer, shape: Shape, finest: Granularity) -> TensorType[Attribute]:
    """The type of a tensor of `shape` that is read so. Raises NotFoldable."""
    key = layer, shape, finest
    if (known := _KNOWN_SPELLED.get(key)) is not None:
        return known
    type = layer.element_type
    if layer.parameters is not None and not layer.is_spelled:
        type = spell(layer.quantized, layer.parameters, finest)
    return _KNOWN_SPELLED.add(key, TensorType(type, shape), layer.size)


def _check_movement(movement: Movement, shape: Shape) -> None:
    """Raise NotFoldable if there is no such movement of a tensor of `shape`."""
    try:
        movement.result_shape(shape)
    except MovementError as error:
        raise NotFoldable(Code.UNKNOWN_OP, str(error)) from None


def _has_encoding(type: Attribute) -> bool:
    return isinstance(type, TensorType) and not isinstance(type.encoding, NoneAttr)
