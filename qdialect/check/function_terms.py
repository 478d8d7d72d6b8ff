"""
Reading functions as terms: their results and side effects, over classes of equal values.

Two functions with equal terms behave the same for all arguments. Arguments are symbols; so are
the results of unknown ops.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from typing_extensions import override
from xdsl.dialects.builtin import AnyFloat, ComplexType, IndexType, IntegerType
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from qdialect.algebra.movement import DYNAMIC
from qdialect.algebra.padding import PadWith
from qdialect.check.attribute_keys import AttributeKeys, TypeClasses
from qdialect.check.compared_modules import (
    CallEffects,
    ComparedModule,
    is_plain_terminator,
    is_terminator,
)
from qdialect.check.followed_elements import PaddingNode, padding_of, pieces_of
from qdialect.check.index_maps import NotCertifiableError, origins
from qdialect.check.step_budget import STEPS_PER_REQUEST, StepBudget, StepLimitError
from qdialect.check.value_classes import ValueClasses
from qdialect.check.value_graph import GraphReader
from qdialect.check.value_nodes import (
    CastNode,
    ComputedNode,
    ConstantNode,
    MovedNode,
    Node,
    SlotTable,
    SymbolNode,
)
from qdialect.dialects.quant.storage import StoredType
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.ir.value_types import element_type_or_self, is_static, shape_of
from qdialect.ops.fields import RunTimeOperands
from qdialect.ops.interface import Refusal, elements_attribute_of, lists_of, name_of, op_model
from qdialect.ops.model import Effects
from qdialect.ops.reading import computes_integers

_STEPS_PER_OP: Final = 3_000

_STEPS_PER_EXPANSION: Final = 10_000

_SCALARS: Final = (AnyFloat, ComplexType, IndexType, IntegerType, StoredType)


class Terms:
    """
    The classes of values and types, shared by the terms of both modules.

    With `ignores_numbers`, all constants of one type are one value, as are all values computed
    from constants alone.
    """

    def __init__(self, steps: StepBudget, *, ignores_numbers: bool = False) -> None:
        self.steps = steps
        self.values = ValueClasses(steps)
        self.types = TypeClasses(steps, ignores_numbers=ignores_numbers)
        self.constants = set[int]()
        """The symbols of constants, if numbers are ignored."""


@dataclass(frozen=True)
class Event:
    """An op with side effects, or a terminator: its place in the order of ops matters."""

    op: Operation
    key: Hashable
    """A key of everything in the op except its operands."""

    operands: tuple[int, ...]
    """The classes of the operands."""

    reader: TermReader
    """The reader of the operands."""


@dataclass(frozen=True)
class Body:
    """A region as a term."""

    blocks: tuple[tuple[Event, ...], ...]
    arguments: tuple[tuple[int, ...], ...]
    """For each block, the numbers of its arguments' types."""

    @property
    def key(self) -> Hashable:
        """A key that is equal for regions with the same behaviour."""
        events = tuple(
            tuple((event.key, event.operands) for event in block) for block in self.blocks
        )
        return self.arguments, events


@dataclass
class Calls:
    """The treatment of calls to functions of the module."""

    expanded: frozenset[str] = frozenset()
    """The names of functions whose calls are inlined where possible."""

    kept: set[str] = field(default_factory=set[str])
    """The names of functions whose calls have been read as opaque calls."""


class TermReader(GraphReader):
    """Reads the values of one module as terms."""

    def __init__(
        self,
        side: ComparedModule,
        terms: Terms,
        keys: AttributeKeys,
        calls: Calls,
        others: CallEffects,
        level: int = 0,
    ) -> None:
        super().__init__(side.resources, trusts_types=False, steps=terms.steps)
        self._side = side
        self._terms = terms
        self._keys = keys
        self._calls = calls
        self._others = others
        """The effects of the functions of the other module."""
        self._levels: dict[Region | None, int] = {None: level}
        """The nesting level of each region read."""
        self._from_outside: dict[Operation, tuple[SSAValue, ...]] = {}

    def body(self, region: Region, level: int = 0) -> Body:
        """
        A region as a term. Its block arguments are symbols, identified by their places.

        `level` is the number of enclosing regions that are part of the term. Raises
        NotCertifiableError.
        """
        self._levels[region] = level
        numbers = {block: number for number, block in enumerate(region.blocks)}
        arguments = tuple(
            self._bind_arguments(block, level, number) for block, number in numbers.items()
        )
        done: list[list[tuple[TermReader, Operation]]] = []
        for block, number in numbers.items():
            done.append([])
            self._bind_events(block.ops, (level, number), done[-1], inlines=len(numbers) == 1)
        blocks = tuple(tuple(reader.event(op, numbers) for reader, op in events) for events in done)
        return Body(blocks, arguments)

    def event(self, op: Operation, blocks: Mapping[Block, int] | None = None) -> Event:
        """The event of an op. Raises NotCertifiableError."""
        successors = tuple((blocks or {}).get(block, -1) for block in op.successors)
        operands = tuple(map(self.class_of, op.operands))
        return Event(op, (self._key(op), successors), operands, self)

    def class_of(self, value: SSAValue) -> int:
        """The class of a value. Raises NotCertifiableError."""
        return self._terms.values.class_of(self.read(value), self._type_number(value.type))

    def symbol(self, key: Hashable, type: Attribute, text: str) -> SymbolNode:
        """The symbol for an unknown value: values with equal keys are equal."""
        number = self._terms.values.number(("symbol", key, self._type_number(type)))
        element_type, shape = element_type_or_self(type), shape_of(type) or ()
        slots = None
        is_known = shape_of(type) is None or is_static(shape)
        if is_known and isinstance(element_type, UniformQuantizedType):
            with suppress(NotCertifiableError):
                slots = SlotTable.of(element_type, shape)
        node = SymbolNode(
            shape=shape if is_known else (),
            element_type=element_type,
            slots=slots,
            symbol=number,
            text=text,
        )
        if is_known and (element_type is not type or isinstance(element_type, _SCALARS)):
            self._terms.values.add_symbol(node, self._type_number(type))
        return node

    @override
    def _made_of(self, value: SSAValue) -> Sequence[SSAValue]:
        owner = value.owner
        if value in self._nodes or not isinstance(owner, Operation):
            return ()
        return [*owner.operands, *self._values_from_outside(owner)]

    @override
    def _known(self, value: SSAValue) -> Node | None:
        owner = value.owner
        if not isinstance(owner, Operation):
            raise NotCertifiableError("a block argument is used outside of its block")
        self._terms.steps.spend(_STEPS_PER_OP)
        if self._terms.types.ignores_numbers and self._is_constant(owner):
            constant = self.symbol("constant", value.type, "a constant")
            self._terms.constants.add(constant.symbol)
            return constant
        try:
            if (node := super()._known(value)) is not None:
                return node
        except StepLimitError:
            raise
        except NotCertifiableError:
            # Even so, equal operands give equal results.
            pass
        if self._expands(owner):
            self._take_results(owner, *self._reader_of_call(owner))
        else:
            # The value of an op without operands may depend on the enclosing op: `linalg.index`.
            around = None if owner.operands else self._levels.get(owner.parent_region(), 0)
            key = "op", self._key(owner), tuple(map(self.class_of, owner.operands)), around
            self._name_results(owner, key)
        return self._nodes[value]

    def _is_constant(self, op: Operation) -> bool:
        """Whether an op is a constant, or computes its results from constants alone."""
        if elements_attribute_of(op) is not None:
            return True
        values = (*op.operands, *self._values_from_outside(op))
        if not values:
            return computes_integers(op)
        nodes = map(self.read, values)
        return self._effects_of(op) is Effects.NONE and all(
            isinstance(node, SymbolNode) and node.symbol in self._terms.constants for node in nodes
        )

    @override
    def _operand(self, value: SSAValue) -> Node:
        shape = shape_of(value.type)
        if shape is not None and not is_static(shape):
            raise NotCertifiableError("a length is only known at run time")
        if shape is None and not isinstance(value.type, _SCALARS):
            raise NotCertifiableError(f"'{value.type}' is not a ranked tensor")
        return super()._operand(value)

    @override
    def _moved(self, op: Operation) -> MovedNode:
        self._require_stated_shape(op)
        node = super()._moved(op)
        moved: Node = node
        # Of the movements of an op, only the last node has slots: those of the declared type.
        while isinstance(moved, MovedNode) and (moved is node or moved.slots is None):
            if isinstance(moved.movement, PadWith):
                self._require_known(moved)
            moved = moved.operands[0]
        return node

    def _require_known(self, padded: MovedNode) -> None:
        """Raise NotCertifiableError if no stored integer represents the padding somewhere."""
        padding, shapes = padding_of(padded), [operand.shape for operand in padded.operands]
        is_quantized = isinstance(padding.element_type, UniformQuantizedType)
        if is_quantized and isinstance(padding, PaddingNode):
            for positions in pieces_of(padding.size):
                self._terms.steps.spend(STEPS_PER_REQUEST + len(positions))
                is_new = origins(padded.movement, shapes, positions).is_new
                if is_new is not None:
                    padding.bits_at(positions[is_new])

    def _require_stated_shape(self, op: Operation) -> None:
        """Raise NotCertifiableError if an operand or a list states another shape than the type."""
        model = op_model(op)
        if model.run_time_shape is None:
            return
        try:
            lists = lists_of(op, model.static_lists, self)
            operands = RunTimeOperands(
                op,
                dict(zip(model.static_lists, lists, strict=True)),
                lambda number: shape_of(op.operands[number].type) or (),
                lambda number: self.integers(op.operands[number]),
            )
            stated = model.run_time_shape(operands)
        except Refusal:
            # It is not constant.
            return
        declared = shape_of(op.results[0].type) or ()
        # A slice may leave out axes of length 1, and is read with the lengths that it states.
        lengths = zip(stated, declared, strict=False) if len(stated) == len(declared) else ()
        if any(length not in (own, DYNAMIC) for length, own in lengths):
            raise NotCertifiableError(f"'{name_of(op)}' states another shape than its type has")

    @override
    def _computed(self, op: Operation) -> ComputedNode:
        node = super()._computed(op)
        pending: list[Node] = [node.operand, *node.sides]
        while pending:
            match pending.pop():
                case MovedNode() as moved:
                    pending += moved.operands
                case ComputedNode() | ConstantNode():
                    pass
                case CastNode() as each:
                    pending.append(each.operand)
                case _:
                    # As a symbol keyed by its operands, the op equals more values.
                    raise NotCertifiableError("it computes with operands that are not constants")
        return node

    @override
    def _settings(self, op: Operation, *without: str) -> Hashable:
        return self._keys.of_op(op, *without)

    def _name_results(self, op: Operation, key: Hashable) -> None:
        number = self._terms.values.number(key)
        for index, result in enumerate(op.results):
            text = f"a result of '{name_of(op)}'"
            self._nodes[result] = self.symbol((number, index), result.type, text)

    def _key(self, op: Operation) -> int:
        """The number of everything in an op except its operands and successors."""
        if (callee := self._side.effects.callee_of(op)) is not None:
            self._calls.kept.add(callee.sym_name.data)
        level = self._levels.get(op.parent_region(), 0)
        regions = tuple(self.body(region, level + 1).key for region in op.regions)
        types = tuple(self._type_number(type) for type in (*op.operand_types, *op.result_types))
        attributes = self._keys.of_op(op)
        return self._terms.values.number(("op", name_of(op), attributes, types, regions))

    def _bind_arguments(self, block: Block, level: int, number: int) -> tuple[int, ...]:
        for index, argument in enumerate(block.args):
            if argument not in self._nodes:
                key = "argument", level, number, index
                self._nodes[argument] = self.symbol(key, argument.type, f"argument #{index}")
        return tuple(self._type_number(argument.type) for argument in block.args)

    def _bind_events(
        self,
        ops: Iterable[Operation],
        place: tuple[int, int],
        done: list[tuple[TermReader, Operation]],
        *,
        inlines: bool,
    ) -> None:
        """Append the events among the ops of a block to `done`, each with its reader."""
        for op in ops:
            if not self._is_event(op):
                continue
            if inlines and self._is_expandable(op):
                reader, block = self._reader_of_call(op)
                reader._bind_events([*block.ops][:-1], place, done, inlines=True)
                self._take_results(op, reader, block)
                continue
            if self._effects_of(op) is Effects.ANY:
                # In equal regions, all earlier events are equal, so the number of events
                # identifies this one.
                self._name_results(op, ("event", *place, len(done)))
            done.append((self, op))

    def _is_event(self, op: Operation) -> bool:
        if op.parent is not None and op is op.parent.last_op and is_terminator(op):
            return True
        return self._effects_of(op) is not Effects.NONE and not self._expands(op)

    def _effects_of(self, op: Operation) -> Effects:
        if op.parent is not None and op is op.parent.last_op and is_plain_terminator(op):
            return Effects.NONE
        effects = self._side.effects.of(op)
        if (callee := self._side.effects.callee_of(op)) is not None:
            effects = max(effects, self._others.of_function(callee.sym_name.data, Effects.NONE))
        return effects

    def _is_expandable(self, op: Operation) -> bool:
        """Whether an op is a call that may be inlined."""
        callee = self._side.effects.callee_of(op)
        if callee is None or callee.is_declaration or len(callee.body.blocks) != 1:
            return False
        name = callee.sym_name.data
        return (
            name in self._calls.expanded
            and isinstance(callee.body.block.last_op, ReturnOp)
            and name not in self._side.effects.on_circles
        )

    def _expands(self, op: Operation) -> bool:
        """Whether a call is inlined on demand, because the function has no events."""
        callee = self._side.effects.callee_of(op)
        return (
            callee is not None
            and self._side.effects.of_function(callee.sym_name.data) is Effects.NONE
            and self._is_expandable(op)
        )

    def _reader_of_call(self, op: Operation) -> tuple[TermReader, Block]:
        """A reader of the body of the called function, with the operands bound, and that body."""
        callee = self._side.effects.callee_of(op)
        assert callee is not None
        level = self._levels.get(op.parent_region(), 0)
        self._terms.steps.spend(_STEPS_PER_EXPANSION)
        reader = TermReader(self._side, self._terms, self._keys, self._calls, self._others, level)
        reader._levels[callee.body] = level
        block = callee.body.block
        for argument, operand in zip(block.args, op.operands, strict=True):
            reader._nodes[argument] = self.read(operand)
        return reader, block

    def _take_results(self, op: Operation, reader: TermReader, block: Block) -> None:
        assert block.last_op is not None
        for result, value in zip(op.results, block.last_op.operands, strict=True):
            self._nodes[result] = reader.read(value)

    def _values_from_outside(self, op: Operation) -> tuple[SSAValue, ...]:
        """The values that the regions of an op use but do not define."""
        if not op.regions:
            return ()
        # Cached: each enclosing op asks again.
        if (known := self._from_outside.get(op)) is None:
            inside = set[SSAValue]()
            used = dict[SSAValue, None]()
            for block in (block for region in op.regions for block in region.blocks):
                inside.update(block.args)
                for inner in block.ops:
                    inside.update(inner.results)
                    used.update(dict.fromkeys(inner.operands))
                    used.update(dict.fromkeys(self._values_from_outside(inner)))
            known = tuple(value for value in used if value not in inside)
            self._from_outside[op] = known
        return known

    def _type_number(self, type: Attribute) -> int:
        return self._terms.types.of(type, self._keys)
