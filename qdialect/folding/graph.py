"""The graph of a module's constants, shape ops, casts and arithmetic, from which a plan is made."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple, cast

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import DenseResourceAttr, ModuleOp, UnregisteredOp
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, Block, IRNode, Operation, OpResult, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from qdialect.algebra.joins import Concat
from qdialect.algebra.movement import BroadcastInDim, Movement, Reverse, Shape, Transpose
from qdialect.algebra.padding import Pad
from qdialect.algebra.parameters import QuantizationParameters
from qdialect.algebra.views import Splat, Values, as_view
from qdialect.dialects.quant.shape_ops import ShapeOp
from qdialect.dialects.quant.slots import Granularity
from qdialect.folding.arithmetic import SHORT, ArithmeticReader, ComputedElements, parameters_of
from qdialect.folding.dequantization import without_conversions
from qdialect.folding.fold_plan import OpNames
from qdialect.folding.layers import Layer, declared_layer, refusing
from qdialect.folding.moved_constant import (
    SLOT_BYTES,
    Element,
    ElementMove,
    ElementStep,
    ElementValues,
    MovedConstant,
    check_joinable,
    move,
    single_element,
)
from qdialect.folding.policy import coarser, spell
from qdialect.folding.provenance import Part as ProvenancePart
from qdialect.folding.provenance import Provenance
from qdialect.folding.report import Outcome, PassRecord
from qdialect.ir.names import visibility_of
from qdialect.ir.resources import ResourceBlobs
from qdialect.ir.rewriting import dependencies_first, operands_first
from qdialect.ir.value_types import has_encoding, tensor_element_type, tensor_like, tensor_parts
from qdialect.ops.elementwise import recreated
from qdialect.ops.fields import Movements, ShapeOpModel
from qdialect.ops.interface import (
    Refusal,
    RefusalCode,
    check_not_kept,
    elements_attribute_of,
    held_elements,
    integers_in,
    is_arithmetic,
    is_cast,
    is_known_dialect,
    is_list,
    keeping_attribute_of,
    model_of,
    name_of,
    op_model,
    shape_of,
    static_shape_of,
)
from qdialect.ops.reading import (
    ConstantOperands,
    Constants,
    composition,
    computed_integers,
    computes_integers,
)
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.support.memory import MemoryBudget


class _FoldedOperands(ConstantOperands):
    """Operands that parametrize ops, such as shapes, which may be computed from constants."""

    def __init__(
        self,
        constants: Constants,
        steps: Sequence[ElementStep],
        moved: Mapping[Operation, MovedConstant],
        equal: Mapping[SSAValue, SSAValue],
    ) -> None:
        # Not the graph itself, which would make a reference cycle.
        super().__init__(constants)
        self._steps, self._moved, self._equal = steps, moved, equal

    @override
    def integers(self, value: SSAValue) -> NDArray[np.integer[Any]]:
        value = _final(self._equal, value)
        owner = value.owner
        moved = self._moved.get(owner) if isinstance(owner, Operation) else None
        if moved is not None and not moved.casts:
            values = ElementValues(self._steps, self.constants).of(moved.step)
            return integers_in(values, moved.layers[0].element_type)
        # A shape op may move computed integers, or converted ones.
        if (
            isinstance(owner, Operation)
            and not is_list(owner)
            and (model_of(owner) is not None or computes_integers(owner))
        ):
            return computed_integers(value, self)
        return super().integers(value)


def _final(equal: Mapping[SSAValue, SSAValue], value: SSAValue) -> SSAValue:
    while equal and value in equal:
        value = equal[value]
    return value


_MAX_COMPARED_BYTES: Final = 1 << 16
"""The most bytes of elements that are compared to detect a splat."""

_UNTOLD: Final = (RefusalCode.NOT_CONSTANT, RefusalCode.USES)
"""The codes of refusals of arithmetic that are not reported."""


class Part(NamedTuple):
    """
    Adjacent constants among the operands of a concatenation that has other operands too.

    `concat(x, C, D)` is `concat(x, concat(C, D))`. A node of the graph stands for the inner op: an
    op that is in no module, and has no operands before the plan is applied.
    """

    whole: Operation
    """The concatenation."""

    operands: Sequence[SSAValue]
    """The constants; each has no other use."""

    start: int
    """The index of the first of them among the operands of the op, or of its list."""

    @property
    def stop(self) -> int:
        """The index after the last of them."""
        return self.start + len(self.operands)

    def insert(self, op: Operation) -> None:
        """Insert the inner op, and let the concatenation have its result in their place."""
        holder = holder_of(self.whole)
        before, operands = list(holder.operands), list(self.operands)
        if holder is not self.whole:
            items = recreated(holder, operands, holder.results[0].type)
            Rewriter.insert_op(items, InsertPoint.before(holder))
            operands = [items.results[0], *self.whole.operands[1:]]
        op.operands = operands
        Rewriter.insert_op(op, InsertPoint.before(holder))
        at = before.index(self.operands[0])
        before[at : at + len(self.operands)] = op.results
        holder.operands = before


class FoldGraph:
    """
    The shape ops, casts and arithmetic of a module, and the constants that they move.

    Only parameters are moved here. Elements are read only where they parametrize an op. A
    `GraphReader` fills it; the module is not changed.
    """

    def __init__(self, module: ModuleOp, constants: Constants) -> None:
        self.module = module
        self.constants = constants
        self.order: list[Operation] = []
        """Shape ops, casts and arithmetic, operands first."""
        self.models: dict[Operation, ShapeOpModel | None] = {}
        """The model of each op in `order`; None for casts and arithmetic."""
        self.moved: dict[Operation, MovedConstant] = {}
        """For each op whose result is computed from constants, that result."""
        self.sources: dict[Operation, MovedConstant] = {}
        """For each constant that has been read, its value."""
        self.steps: list[ElementStep] = []
        self.refusals: dict[Operation, Refusal] = {}
        self.equal: dict[SSAValue, SSAValue] = {}
        """For each result that equals another value of the same type, that value."""
        self.parts: dict[Operation, Part] = {}
        """The ops in `order` that are not in the module."""
        self.arithmetic = set[Operation]()
        """The ops that were read as arithmetic, and not as shape ops of the same name."""
        self.unknown: Sequence[PassRecord] = ()
        """The records of ops without a model that may be shape ops."""
        self.input_bytes = 0
        """The bytes of elements and scales in the input module."""
        self.operands = _FoldedOperands(constants, self.steps, self.moved, self.equal)
        """Reads the operands that parametrize ops."""
        self.terms = ArithmeticReader(self.operands, self.steps)
        """Reads arithmetic on constants as terms."""

    @cached_property
    def names(self) -> OpNames:
        """The names of the shape ops, casts and constants of the module before it is changed."""
        return OpNames(
            self.module,
            lambda op: op in self.models or elements_attribute_of(op) is not None,
            {op: (part.whole, f"[{part.start}:{part.stop}]") for op, part in self.parts.items()},
        )

    def final(self, value: SSAValue) -> SSAValue:
        """The first value that `value` is equal to."""
        return _final(self.equal, value)

    def side_operands(self, op: Operation) -> Sequence[SSAValue]:
        """The operands of arithmetic other than the moved elements."""
        moved = self.moved.get(op)
        if moved is None or (sides := moved.layers[-1].sides) is None or moved.casts[-1] is not op:
            return ()
        main = op.operands[sides.main]
        return [operand for operand in op.operands if operand is not main]

    def moves(self, user: Operation, value: SSAValue) -> bool:
        """Whether `user` moves an operand, and does not only read positions or a padding."""
        moved, owner = self.moved.get(user), self.final(value).owner
        if moved is None or self.models.get(user) is None or not isinstance(owner, Operation):
            return True
        operand = self.moved.get(owner) or self.sources.get(owner)
        return operand is None or operand.step in self.steps[moved.step].operands

    def keep_parts(self, written: Container[Operation]) -> None:
        """Drop the parts that are not written."""
        gone = {op for op in self.parts if op not in written}
        for op in gone:
            del self.parts[op], self.moved[op], self.models[op]
        if gone:
            self.order = [op for op in self.order if op not in gone]

    def bytes_if_written(self, op: Operation) -> int:
        """The bytes that the result of a shape op takes, if it is a view until it is written."""
        moved = self.moved[op]
        moves = self.steps[moved.step].moves
        if moved.unread is not None or not moves or not _is_view(moves[-1].movement):
            return 0
        return max(moved.nbytes - min(moved.input_bytes, self.input_bytes), 0)

    def has_several_behind(self, moved: MovedConstant) -> bool:
        """Whether several shape ops are behind the arithmetic of a value."""
        layers = zip(moved.casts, moved.layers[1:], strict=True)
        first = next((op for op, layer in layers if layer.sides is not None), None)
        return first is not None and self.moved[first].step not in self.steps[moved.step].operands

    def term_of(self, op: Operation) -> ComputedElements:
        """The computation that defines the result of arithmetic. Raises Refusal."""
        return self.terms.term_of(self.moved[op])

    def values_of(self, moved: MovedConstant) -> Values:
        """The elements of a small constant, for reading them."""
        return ElementValues(self.steps, self.constants).of(moved.step)

    def known(self, value: SSAValue, user: Operation) -> MovedConstant:
        """The constant that a value holds. Raises Refusal if it is not computed from constants."""
        same = self.final(value)
        if not isinstance(same, OpResult):
            inline = "; '--inline' first may bring a constant" if _is_of_private(same) else ""
            raise Refusal(RefusalCode.NOT_CONSTANT, f"{_place(value, user)} is an argument{inline}")
        owner = same.op
        if (moved := self.moved.get(owner)) is not None:
            return moved
        if (source := self._source(owner)) is not None:
            return source
        subject = f"{_place(value, user)} is made by '{name_of(owner)}', which"
        refusal = self.why_not_computed(owner)
        is_moved = self.models.get(user) is not None
        if is_moved and (refusal is None or refusal.code is RefusalCode.UNKNOWN_OP):
            computing = self._computing.get(owner)
            if computing is not None:
                reason = f"'{name_of(computing)}' is not part of a dequantization"
                refusal = Refusal(RefusalCode.ARITHMETIC, reason)
        if refusal is not None:
            raise Refusal(refusal.code, f"{subject} is not folded: {refusal}")
        if owner in self.refusals and (self.models[owner] is not None or is_cast(owner)):
            raise Refusal(RefusalCode.NOT_CONSTANT, f"{subject} is not folded")
        if isinstance(owner, UnregisteredOp) and not is_arithmetic(owner):
            raise Refusal(RefusalCode.UNKNOWN_OP, f"{subject} is not known to move elements")
        inline = "; '--inline' first may bring one" if isinstance(owner, CallOp) else ""
        raise Refusal(RefusalCode.NOT_CONSTANT, f"{subject} is not a constant{inline}")

    def _source(self, op: Operation) -> MovedConstant | None:
        """The value of a constant op, None for other ops. Raises Refusal."""
        if (known := self.sources.get(op)) is not None:
            return known
        elements = self.constants.unread(op) or self.constants.read(op)
        if elements is None:
            return None
        if (attribute := keeping_attribute_of(op)) is not None:
            raise Refusal(
                RefusalCode.KEPT, f"the attribute '{attribute}' of its constant is not moved"
            )
        source = MovedConstant.of_source(op, elements, len(self.steps))
        self.input_bytes += source.input_bytes
        self.steps.append(ElementStep(op))
        self.sources[op] = source
        return source

    def why_not_computed(self, owner: Operation | Block) -> Refusal | None:
        """The reason why arithmetic on constants is not read; None for other owners."""
        if not isinstance(owner, Operation):
            return None
        refusal = self.refusals.get(owner)
        if refusal is None or refusal.code in _UNTOLD:
            return None
        is_cast_of_it = refusal.code is RefusalCode.ARITHMETIC and is_cast(owner)
        return refusal if owner in self.arithmetic or is_cast_of_it else None

    @cached_property
    def _computing(self) -> Mapping[Operation, Operation]:
        """
        For ops computed from constants by an op that is not read as arithmetic, that op.

        Only ops of known dialects count, without arguments or casts before them: an op on a
        dequantized value is not part of the dequantization.
        """
        of_constants: dict[Operation, Operation | None] = {}
        for op in self.module.walk():
            owners = [operand.owner for operand in op.operands]
            if (
                len(op.results) == 1
                and (is_arithmetic(op) or not is_cast(op))
                and all([owner in of_constants for owner in owners])
                and is_known_dialect(name_of(op).partition(".")[0])
            ):
                makers = (of_constants[cast(Operation, owner)] for owner in owners)
                is_followed = op in self.models or not owners or is_list(op)
                of_constants[op] = next(filter(None, makers), None if is_followed else op)
        return {op: computing for op, computing in of_constants.items() if computing is not None}

    def uses_alone(self, op: Operation) -> bool:
        """
        Whether only the result of `op` needs its sources and the ops between them.

        All ops must have been read.
        """
        sources = set(self.moved[op].provenance.sources)

        def read_by(user: Operation) -> Iterator[tuple[SSAValue, Operation]]:
            for operand in map(self.final, user.operands):
                owner = operand.owner
                is_read = owner in self.moved or owner in sources
                if isinstance(owner, Operation) and (is_read or is_list(owner)):
                    yield operand, owner

        for user in dependencies_first([op], lambda user: [owner for _, owner in read_by(user)]):
            for operand, _ in read_by(user):
                users = self._live_users.get(operand)
                if not (operand.has_one_use() if users is None else users <= {user}):
                    return False
        return True

    @cached_property
    def _live_users(self) -> Mapping[SSAValue, set[Operation]]:
        """
        The users of the results of these ops and of the sources, except unused ops.

        Users of a value that equals another one count as users of the latter.
        """
        users: dict[SSAValue, set[Operation]] = {}
        ours, live, equal = set(self.order), set[Operation](), self.equal
        for op in (*reversed(self.order), *self.sources):
            for result in op.results:
                value_users = users.setdefault(self.final(result), set())
                for use in result.uses:
                    user = use.operation
                    if user not in ours or (user in live and user.results[0] not in equal):
                        value_users.add(user)
                if value_users:
                    live.add(op)
        return users


class GraphReader:
    """Reads the shape ops, casts and arithmetic of a module as a graph, operands first."""

    def __init__(
        self,
        module: ModuleOp,
        context: Context,
        budget: MemoryBudget,
        may_fold: Callable[[MovedConstant], bool] = lambda constant: True,
        *,
        reads_all_arithmetic: bool = False,
        has_parts: bool = True,
    ) -> None:
        self.graph = FoldGraph(module, Constants(ResourceBlobs.of(context)))
        self.may_fold = may_fold
        self._budget = budget
        self._has_parts = has_parts
        self._reads_all_arithmetic = reads_all_arithmetic
        """Whether to read arithmetic that no shape op, cast or other arithmetic uses."""
        self._composed: dict[Operation, tuple[Movement, SSAValue, bool]] = {}
        """
        For each op: its composition with the ops before it, the operand of the composition, and
        whether it is an identity.
        """
        self._unmoved: dict[SSAValue, SSAValue] = {}
        """For results whose type alone differs from that of an operand, this operand."""
        self._compared = ElementValues(self.graph.steps, self.graph.constants)
        """The elements that are compared to detect splats."""
        self._mixed = set[int]()
        """The steps whose elements were found to differ."""
        self._read(module)

    def _read(self, module: ModuleOp) -> None:
        graph, unknown = self.graph, list[Operation]()
        constants = set[IRNode]()
        for op in module.walk():
            role = op_model(op)
            is_moving = role.cast is not None or role.movement is not None
            if role.term is not None and constants and not is_moving:
                # Most elementwise ops compute with arguments.
                first = op.operands[0].owner if is_arithmetic(op) else None
                is_moving = first in constants or first in graph.models
            if role.is_list:
                # A list is moved by the ops that read tensors of it.
                is_moving = any([tensor_parts(type) is not None for type in op.operand_types])
            if is_moving:
                graph.models[op] = None if role.cast is not None else role.movement
            if role.constant is not None:
                constants.add(op)
            elif not is_moving and isinstance(op, UnregisteredOp):
                unknown.append(op)
        for op in operands_first(graph.models):
            graph.order.append(op)
            self._visit_or_refuse(op)
        # Parts were made while the models were read.
        for op, part in graph.parts.items():
            graph.models[op] = graph.models[part.whole]
        records = map(self._unknown_op_record, unknown)
        graph.unknown = [record for record in records if record is not None]

    def read_unused_arithmetic(self) -> None:
        """Read the arithmetic on constants that no shape op uses, too."""
        self._reads_all_arithmetic = True
        refusals = self.graph.refusals
        for op in self.graph.order:
            if (refusal := refusals.get(op)) is not None and refusal.code is RefusalCode.USES:
                del refusals[op]
                self._visit_or_refuse(op)

    def _visit_or_refuse(self, op: Operation) -> None:
        try:
            with refusing:
                self._visit(op)
        except Refusal as error:
            self.graph.refusals[op] = error

    def _visit(self, op: Operation) -> None:
        graph = self.graph
        model = graph.models[op]
        if model is None:
            role = op_model(op)
            if role.is_list:
                return
            if role.cast is None:
                graph.moved[op] = self._computed(op)
                return
            check_not_kept(op)
            (operand,) = op.operands
            if (refusal := graph.why_not_computed(graph.final(operand).owner)) is not None:
                raise refusal
            moved = graph.moved[op] = graph.known(operand, op).through(op)
            graph.input_bytes += SLOT_BYTES * moved.layers[-1].slots_in_type
            return
        try:
            movements = graph.operands.read(op, model)
        except Refusal as unread:
            # The op may be both a shape op and arithmetic, such as `linalg.generic`.
            if not is_arithmetic(op):
                raise
            try:
                graph.moved[op] = self._computed(op)
            except Refusal as error:
                raise unread if error.code in _UNTOLD else error from None
            graph.models[op] = None
            return
        if self._is_unmoved(op, movements):
            return
        try:
            graph.moved[op] = self._move(op, movements)
        except Refusal:
            if self._has_parts:
                self._join_neighbours(op, movements)
            raise

    def _unknown_op_record(self, op: Operation) -> PassRecord | None:
        """
        The record of an op without a model; None if it does not look like a shape op.

        It does if nothing is registered for its dialect, its only result is a ranked tensor, and
        all its operands are computed from constants by casts and shape ops, at least one with a
        quantized type. Ops that compute usually have other operands.
        """
        if not op.operands or op.regions or len(op.results) != 1:
            return None
        dialect = name_of(op).partition(".")[0]
        if is_known_dialect(dialect) or tensor_parts(op.results[0].type) is None:
            return None
        constants = [self._constant(operand) for operand in op.operands]
        layers = [layer for constant in constants if constant for layer in constant.layers]
        if None in constants or not any(layer.parameters is not None for layer in layers):
            return None
        return PassRecord(
            Outcome.REFUSED,
            op,
            name_of(op),
            code=RefusalCode.UNKNOWN_OP,
            reason=f"no models are registered for dialect '{dialect}', so it is not known whether "
            "the op moves elements",
        )

    def _constant(self, value: SSAValue) -> MovedConstant | None:
        """The constant that a value holds, None if it is not computed from constants."""
        try:
            return self.graph.known(value, next(iter(value.uses)).operation)
        except Refusal:
            return None

    def _join_neighbours(self, op: Operation, movements: Movements) -> None:
        """Make parts of the adjacent constants of a concatenation, and leave other ops alone."""
        holder, operands = holder_of(op), tuple(movements.operands)
        movement = next(iter(movements.movements), None)
        is_concat = len(movements.movements) == 1 and isinstance(movement, Concat)
        if not is_concat or operands != tuple(holder.operands) or op.results[0].first_use is None:
            return
        if holder is not op and not holder.results[0].has_one_use():
            return
        for start, constants in _runs(operands, lambda value: self._constant_alone(value, op)):
            if not 1 < len(constants) < len(operands):
                continue
            part = Part(op, operands[start : start + len(constants)], start)
            try:
                with refusing:
                    inner = self._joining_op(part, cast(Concat, movement), constants)
                    moved = self._move(inner, movements._replace(operands=part.operands))
            except Refusal:
                continue
            self.graph.moved[inner], self.graph.parts[inner] = moved, part
            self.graph.order.insert(-1, inner)

    def _constant_alone(self, value: SSAValue, op: Operation) -> MovedConstant:
        """The constant that a value holds, which can be folded into `op` alone. Raises Refusal."""
        constant = self.graph.known(value, op)
        if not self.may_fold(constant):
            raise Refusal(RefusalCode.QUANTIZED, "an operand is quantized: see --fold-quant-shapes")
        pending, sources = [value], constant.provenance.sources
        while pending:
            value = pending.pop()
            owner = value.owner
            assert isinstance(owner, Operation)
            # Unused ops count: they stay.
            if not value.has_one_use():
                raise Refusal(RefusalCode.GROWTH, "its sources have other uses")
            pending += [
                operand for operand in owner.operands if self._is_computed(operand, sources)
            ]
        return constant

    def _is_computed(self, value: SSAValue, sources: Collection[Operation]) -> bool:
        """Whether a value is one of some constants, or computed from constants."""
        owner = value.owner
        if not isinstance(owner, Operation):
            return False
        is_read = owner in self.graph.moved or value in self.graph.equal
        return is_read or owner in sources or is_list(owner)

    def _joining_op(
        self, part: Part, movement: Concat, constants: Sequence[MovedConstant]
    ) -> Operation:
        """The inner op of a part, without its operands. Raises Refusal and VerifyException."""
        op, holder = part.whole, holder_of(part.whole)
        type = _joined_type(op, movement, part.operands, constants)
        joined = [value.type for value in part.operands]
        others = [value.type for value in op.operands]
        if holder is op:
            others[part.start : part.stop] = [type]
        else:
            joined = others
        # Values of other ops would have uses, if only for a moment.
        inner = recreated(op, Block(arg_types=joined).args, type)
        outer = recreated(op, Block(arg_types=others).args, op.results[0].type)
        try:
            for trial in (inner, outer):
                if not isinstance(trial, UnregisteredOp):
                    trial.verify_()
        finally:
            inner.operands = outer.operands = ()
        return inner

    def _computed(self, op: Operation) -> MovedConstant:
        """The result of arithmetic on constants. Raises Refusal."""
        self.graph.arithmetic.add(op)
        owners = [self.graph.final(operand).owner for operand in op.operands]
        for owner in owners:
            if (refusal := self.graph.why_not_computed(owner)) is not None:
                raise refusal
        first = owners[0]
        if not isinstance(first, Operation) or (first.operands and first not in self.graph.moved):
            raise Refusal(RefusalCode.NOT_CONSTANT, "it does not compute with constants")
        is_used = any([use.operation in self.graph.models for use in op.results[0].uses])
        if not is_used and not self._reads_all_arithmetic:
            raise Refusal(RefusalCode.USES, "no shape op uses its result")
        constant, movements, layer = self.graph.terms.read(
            op, lambda value: self.graph.known(value, op)
        )
        if any([not movement.is_identity(constant.shape) for movement in movements]):
            moves, operand = list[ElementMove](), constant
            for movement in movements:
                elements, operand = move(movement, [operand])
                moves.append(elements)
            self.graph.steps.append(ElementStep(op, (constant.step,), tuple(moves)))
            provenance = constant.provenance.moved(movements)
            step = len(self.graph.steps) - 1
            constant = operand._replace(step=step, provenance=provenance)
        return constant.behind(op, layer)

    def _is_unmoved(self, op: Operation, movements: Movements) -> bool:
        """
        Whether the composition of `op` with the ops before it is an identity.

        Raises MovementError for a movement that is invalid.
        """
        if len(movements.movements) > 1 or len(movements.operands) != 1:
            return False
        (result,), (operand,) = op.results, movements.operands
        operand = self.graph.final(operand)
        for movement in movements.movements:
            shape = shape_of(operand)
            movement.result_shape(shape)
            moves_nothing = movement.is_identity(shape)
            if moves_nothing and (same := self._of_type(operand, result.type)) is not None:
                # The ops before it may be unknown, or not compose with it.
                operand = same
                break
            if moves_nothing:
                self._unmoved[result] = operand
            if (first := self._composed.get(cast(Operation, operand.owner))) is not None:
                composed = composition(movement, moves_nothing, first[0], first[2])
                if composed is not None:
                    movement, operand = composed, first[1]
                    moves_nothing = movement.is_identity(shape_of(operand))
            self._composed[op] = movement, operand, moves_nothing
            if not moves_nothing:
                return False
        if operand is result or operand.type != result.type:
            return False
        self.graph.equal[result] = operand
        return True

    def _of_type(self, value: SSAValue, type: Attribute) -> SSAValue | None:
        """`value`, or what it spells with another type, with the given type."""
        same: SSAValue | None = value
        while same is not None and same.type != type:
            same = self._unmoved.get(same)
        return same

    def _move(self, op: Operation, movements: Movements) -> MovedConstant:
        constants = [self.graph.known(operand, op) for operand in movements.operands]
        if not all(map(self.may_fold, constants)):
            raise Refusal(RefusalCode.QUANTIZED, "an operand is quantized: see --fold-quant-shapes")
        (result,) = op.results
        shape = static_shape_of(result)
        padding = None
        if movements.padding is not None:
            padding = self._element(movements.padding, op)
        operands, moves = constants, list[ElementMove]()
        declared = verified_layer(op, shape) if len(constants[0].layers) == 1 else None
        for movement in movements.movements:
            elements, moved = move(movement, operands, padding, declared, self._parameters_for)
            self._reserve(movement, moved)
            moves.append(elements)
            operands = [moved]
        (last,) = operands
        if last.shape != shape:
            raise Refusal(
                RefusalCode.UNKNOWN_OP,
                f"its result has shape {list(shape)}, not {list(last.shape)}",
            )
        if last.repeated_bytes and (splat := self._splat_of(last, constants, moves)) is not None:
            # As of a splat that is read: the next run must not fold more.
            last = last._replace(splat=splat, distinct=math.prod(last.shape))
        layers = last.layers
        if declared is None:
            # The lower layers are read through casts; the op declares the type of the top layer.
            top = declared_layer(layers[-1], tensor_element_type(result.type), shape)
            layers = (*layers[:-1], top)
        provenance, casts = _named_after(constants, movements.movements)
        self.graph.steps.append(
            ElementStep(op, tuple([constant.step for constant in constants]), tuple(moves))
        )
        reshape = None
        if any([layer.sides is not None for layer in layers]):
            reshape = op if op_model(op).write_reshape is not None else constants[0].reshape
        return last._replace(
            step=len(self.graph.steps) - 1,
            layers=layers,
            casts=casts,
            provenance=provenance,
            reshape=reshape,
        )

    def _parameters_for(self, constant: MovedConstant, real: float) -> QuantizationParameters:
        """The parameters of the quantized type that equals the arithmetic. Raises Refusal."""
        computed = self.graph.terms.term_of(constant)
        with refusing:
            parameters = parameters_of(computed, constant.shape)
        is_converted = bool(without_conversions(computed.term)[1])
        if real and (is_converted or parameters.storage.width > SHORT):
            # Arithmetic on wide integers is checked only for those in the constant.
            raise Refusal(RefusalCode.PADDING, "after this arithmetic, the padding must be 0.0")
        return parameters

    def _splat_of(
        self, moved: MovedConstant, operands: Sequence[MovedConstant], moves: Sequence[ElementMove]
    ) -> Splat | None:
        """
        The splat of a few equal repeated elements; None if they differ.

        If the operands were written as constants and read again, they would be splats.
        """
        first = operands[0].provenance.first_source
        if (
            moved.distinct * moved.itemsize > _MAX_COMPARED_BYTES
            or any([isinstance(movement, Pad) for movement, _ in moves])
            or first is None
            or isinstance(held_elements(first), DenseResourceAttr)
        ):
            return None
        arrays: list[NDArray[Any]] = []
        for number in {operand.step for operand in operands}:
            values = None if number in self._mixed else self._compared.of(number)
            if values is None:
                break
            if (array := as_view(values).array().reshape(-1)).size:
                arrays.append(array)
        else:
            bits = [_bits_of(array, moved.layers[0].width) for array in arrays]
            first_bits = bits[0][0]
            if all([(elements == first_bits).all() for elements in bits]):
                return Splat(arrays[0][0], moved.shape)
        # The result holds all elements of the operands.
        self._mixed.add(len(self.graph.steps))
        return None

    def _reserve(self, movement: Movement, moved: MovedConstant) -> None:
        """Reserve the memory that `movement` may take. Raises MemoryLimitError."""
        if moved.unread is not None:
            return
        in_input = min(moved.input_bytes, self.graph.input_bytes)
        nbytes = moved.nbytes + SLOT_BYTES * sum([layer.size for layer in moved.layers])
        if nbytes <= in_input:
            return
        if _is_view(movement):
            # It takes no memory until it is written.
            nbytes -= moved.nbytes
        self._budget.reserve(max(nbytes - in_input, 0))

    def _element(self, value: SSAValue, user: Operation) -> Element:
        """One element: a scalar constant, or a constant tensor of one element. Raises Refusal."""
        if tensor_parts(value.type) is None:
            stored, type, casts = self.graph.constants.element(value)
            return Element(stored, Layer.of(type, ()), casts)
        try:
            moved = self.graph.known(value, user)
            element = single_element(moved, self.graph.values_of(moved))
            return self.graph.terms.computed_element(element, moved)
        except (Refusal, ValueError):
            # The padding need not be an operand: a region may yield it.
            raise Refusal(RefusalCode.PADDING, "the padding is not one constant element") from None


def _bits_of(array: NDArray[Any], width: int) -> NDArray[Any]:
    """The bits of elements. Integers of `width` bits may be held with a sign or without."""
    if array.dtype.kind not in "iu" or not 0 < width < 64:
        return array.view(f"V{array.itemsize}")
    return array.astype(np.int64) & ((1 << width) - 1)


def holder_of(op: Operation) -> Operation:
    """The op with the operands of a concatenation: itself, or the list that it takes."""
    owner = op.operands[0].owner if op.operands else op
    return owner if isinstance(owner, Operation) and is_list(owner) else op


def _runs(
    operands: Iterable[SSAValue], known: Callable[[SSAValue], MovedConstant]
) -> Iterator[tuple[int, Sequence[MovedConstant]]]:
    """
    Runs of constants that can be joined: the index of the first in `operands`, and the constants.
    """
    start, run = 0, list[MovedConstant]()
    for number, operand in enumerate(operands):
        try:
            constant = known(operand)
        except Refusal:
            yield start, run
            run = []
            continue
        try:
            if run:
                check_joinable(run[0], constant)
                _check_not_smaller_apart(run[-1], constant)
        except Refusal:
            yield start, run
            run = []
        start = start if run else number
        run.append(constant)
    yield start, run


def _check_not_smaller_apart(one: MovedConstant, other: MovedConstant) -> None:
    """Raise Refusal if a splat would be spelled element by element."""
    splats = [constant.splat for constant in (one, other) if constant.splat is not None]
    is_large = any([math.prod(splat.shape) > 1 for splat in splats])
    if is_large and (len(splats) < 2 or splats[0].value != splats[1].value):
        raise Refusal(RefusalCode.GROWTH, "separate splats take less memory")


def _joined_type(
    op: Operation,
    movement: Concat,
    operands: Sequence[SSAValue],
    constants: Sequence[MovedConstant],
) -> Attribute:
    """The type of joined constants, as an operand of `op`. Raises Refusal."""
    if any(has_encoding(operand.type) for operand in operands):
        raise Refusal(RefusalCode.ILLEGAL_TYPE, "their new encoding is unknown")
    _, moved = move(movement, constants)
    layer, element = moved.layers[-1], moved.layers[-1].element_type
    if layer.parameters is not None:
        finest = Granularity.SUB_CHANNEL
        if not isinstance(op, ShapeOp):
            # The operand types that an op of another dialect accepts are unknown, except its
            # current ones.
            for constant in constants:
                finest = coarser(finest, constant.layers[-1].quantized.granularity)
        element = spell(layer.quantized, layer.parameters, finest)
    return tensor_like(operands[0].type, moved.shape, element)


def _is_of_private(argument: SSAValue) -> bool:
    """Whether a value is an argument of a private function."""
    function = argument.owner.parent_op() if isinstance(argument.owner, Block) else None
    return isinstance(function, FuncOp) and visibility_of(function) == "private"


def _place(value: SSAValue, user: Operation) -> str:
    """The description of an op's moved value, for messages."""
    operands = list(user.operands)
    return f"operand #{operands.index(value)}" if value in operands else "an element of its list"


def _named_after(
    constants: Sequence[MovedConstant], movements: Sequence[Movement]
) -> tuple[Provenance, tuple[Operation, ...]]:
    """The provenance of the moved elements, and the casts to repeat after them."""
    first = constants[0]
    if len(constants) == 1:
        return first.provenance.moved(movements), first.casts
    parts = [ProvenancePart(constant.provenance, constant.shape) for constant in constants]
    provenance = Provenance.join(movements, parts)
    # The written constant and its casts are like those of the first source.
    source = provenance.first_source
    of_source = (constant for constant in constants if constant.provenance.first_source is source)
    return provenance, next(of_source, first).casts


def _is_view(movement: Movement) -> bool:
    """Whether a movement of elements needs no copy."""
    return isinstance(movement, Transpose | Reverse | BroadcastInDim)


def verified_layer(op: Operation, shape: Shape) -> Layer | None:
    """The layer declared by a result type that a verifier has checked; None otherwise."""
    if not isinstance(op, ShapeOp):
        return None
    (result,) = op.results
    return Layer.of(tensor_element_type(result.type), shape)
