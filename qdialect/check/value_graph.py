"""Reading the value graph of a value: constants, casts, arithmetic and shape ops."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    f64,
)
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.movement import DYNAMIC, BroadcastInDim, Movement, Reshape, Shape
from qdialect.algebra.padding import PadWith
from qdialect.algebra.views import Splat
from qdialect.check.followed_elements import numbers_at, pieces_of, slots_at
from qdialect.check.index_maps import NotCertifiableError, moved_shape, steps_of
from qdialect.check.step_budget import StepBudget, StepLimitError
from qdialect.check.value_nodes import (
    CastNode,
    ComputedNode,
    ConstantNode,
    MovedNode,
    Node,
    SlotTable,
    SymbolNode,
    certifying,
    differ,
    stores_the_same,
)
from qdialect.dialects.quant.shape_ops import ShapeOp
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.ir.elements import (
    MAX_REPEATED_ELEMENTS,
    DenseElementsAttr,
    element_dtype,
    elements_of,
    in_width,
)
from qdialect.ir.resources import ResourceBlobs
from qdialect.ir.rewriting import dependencies_first
from qdialect.ir.value_types import element_type_or_self, shape_of
from qdialect.ops.along_axis import AXIS
from qdialect.ops.elementwise import operand_movements, read_elementwise
from qdialect.ops.fields import AlongAxis, Movements
from qdialect.ops.interface import (
    Refusal,
    RefusalCode,
    as_integers,
    elements_attribute_of,
    held_elements,
    integers_in_list,
    is_arithmetic,
    is_cast,
    is_list,
    model_of,
    name_of,
    numbers_along_axis,
    read_movements,
)
from qdialect.ops.reading import computed_integers, computes_integers
from qdialect.support.lazy_numpy import NDArray, np


class GraphReader:
    """
    Builds the nodes of values, each value once.

    `replaced` maps values to values that are read in their place. With `trusts_types`, the
    declared result types of shape ops are not checked; otherwise a type that contradicts the
    slots of the moved elements raises NotCertifiableError.
    """

    def __init__(
        self,
        resources: ResourceBlobs,
        replaced: Mapping[SSAValue, SSAValue] | None = None,
        *,
        trusts_types: bool = True,
        steps: StepBudget | None = None,
    ) -> None:
        self._resources = resources
        self._trusts_types = trusts_types
        self._steps = steps
        self._replaced: Mapping[SSAValue, SSAValue] = replaced or {}
        self._nodes: dict[SSAValue, Node] = {}

    def read(self, value: SSAValue) -> Node:
        """The node of a value. Raises NotCertifiableError if constants do not determine it."""
        wanted = self._final(value)
        for source in dependencies_first([wanted], self._made_of):
            if source not in self._nodes:
                self._nodes[source] = _UnknownNode.of(source, "it depends on itself")
                self._nodes[source] = self._node(source)
        node = self._nodes[wanted]
        if isinstance(node, _UnknownNode):
            raise NotCertifiableError(node.reason)
        return node

    def _final(self, value: SSAValue) -> SSAValue:
        while value in self._replaced:
            value = self._replaced[value]
        return value

    def _made_of(self, value: SSAValue) -> Sequence[SSAValue]:
        owner = value.owner
        if value in self._nodes or not isinstance(owner, Operation):
            return ()
        is_known = model_of(owner) is not None or is_cast(owner) or is_arithmetic(owner)
        if not is_known and not is_list(owner):
            return ()
        return [self._final(operand) for operand in owner.operands]

    def _node(self, value: SSAValue) -> Node:
        try:
            node = self._known(value)
        except StepLimitError:
            raise
        except NotCertifiableError as error:
            return _UnknownNode.of(value, str(error))
        return node or _UnknownNode.of(value, "it is not computed from constants")

    def _known(self, value: SSAValue) -> Node | None:
        """
        The node of the result of a constant, a cast or a shape op; None for other values.

        Raises NotCertifiableError.
        """
        owner = value.owner
        if not isinstance(owner, Operation) or len(owner.results) != 1:
            return None
        if model_of(owner) is not None:
            try:
                return self._moved(owner)
            except NotCertifiableError:
                # The op may be both a shape op and arithmetic, such as `linalg.generic`.
                if not is_arithmetic(owner):
                    raise
        if is_cast(owner):
            return self._cast(owner)
        if is_arithmetic(owner):
            return self._computed(owner)
        if elements_attribute_of(owner) is not None:
            return self._constant(owner)
        return None

    def _operand(self, value: SSAValue) -> Node:
        """The node of an operand whose elements are moved or cast. Raises NotCertifiableError."""
        return self.read(value)

    def _moved(self, op: Operation) -> MovedNode:
        model = model_of(op)
        assert model is not None
        with certifying():
            read = read_movements(op, model, self)
        operands = [self._operand(operand) for operand in read.operands]
        padding = None if read.padding is None else self._operand(read.padding)
        type = op.results[0].type
        node = _moved(read.movements, operands, padding, element_type_or_self(type))
        if node.shape != _static_shape(type):
            raise NotCertifiableError(f"'{name_of(op)}' makes a tensor of shape {list(node.shape)}")
        _, node.slots = _typed(type, node.shape)
        if not self._trusts_types and not isinstance(op, ShapeOp):
            self._require_true(op, read, node)
        return node

    def _require_true(self, op: Operation, read: Movements, node: MovedNode) -> None:
        """Raise NotCertifiableError if the declared type contradicts the moved slots."""
        lie = NotCertifiableError(
            f"the type of '{name_of(op)}' contradicts the slots of its elements"
        )
        declared = [_typed(operand.type, _static_shape(operand.type)) for operand in read.operands]
        if any(not stores_the_same(type, node.element_type) for type, _ in declared):
            raise lie
        if node.slots is None or node.slots.is_one_for_all(slots for _, slots in declared):
            return
        operands = [
            SymbolNode(
                shape=_static_shape(operand.type), element_type=type, slots=slots, symbol=0, text=""
            )
            for operand, (type, slots) in zip(read.operands, declared, strict=True)
        ]
        moved = _moved(read.movements, operands, None, node.element_type)
        for positions in pieces_of(node.size):
            moves = zip(
                slots_at(moved, positions, self._steps), node.slots.at(positions), strict=True
            )
            if any([differ(one, other).any() for one, other in moves]):
                raise lie

    def _cast(self, op: Operation) -> Node:
        operand = self._operand(op.operands[0])
        type, slots = _typed(op.results[0].type, operand.shape)
        with certifying():
            rows = numbers_along_axis(op, operand.shape)
        node_of, without = CastNode, ()
        if rows is not None:
            sides = _sides_of_elements(op, rows, operand.shape)
            node_of, without = partial(ComputedNode, sides=sides), (AXIS, rows.attribute)
        return node_of(
            shape=operand.shape,
            element_type=type,
            op=op,
            slots=slots,
            operand=operand,
            settings=self._settings(op, *without),
        )

    def _computed(self, op: Operation) -> ComputedNode:
        """The node of an arithmetic op on constants. Raises NotCertifiableError."""
        type = op.results[0].type
        shape = _static_shape(type)
        with certifying():
            read = read_elementwise(op, self)
            operands = [
                _moved(
                    operand_movements(read, number, node.shape, shape),
                    [node],
                    None,
                    node.element_type,
                )
                for number, node in enumerate(map(self._operand, read.operands))
            ]
        element_type, slots = _typed(type, shape)
        # The main operand holds the stored integers; scales are floats.
        main = next((at for at, node in enumerate(operands) if _holds_integers(node)), 0)
        return ComputedNode(
            shape=shape,
            element_type=element_type,
            op=op,
            slots=slots,
            operand=operands[main],
            settings=(read.term, main),
            sides=tuple(node for at, node in enumerate(operands) if at != main),
        )

    def _settings(self, op: Operation, *without: str) -> Hashable:
        """The attributes of a cast except those named in `without`, as a key."""
        attributes = {**op.attributes, **op.properties}
        return frozenset(item for item in attributes.items() if item[0] not in without)

    def _constant(self, op: Operation) -> Node:
        with certifying():
            held_type, shape, elements = self._held(held_elements(op))
        type, slots = _typed(op.results[0].type, shape)
        return ConstantNode(
            shape=shape,
            element_type=type,
            op=op,
            slots=slots,
            elements=elements,
            held_type=held_type,
        )

    def _held(self, attribute: Attribute | None) -> tuple[Attribute, Shape, NDArray[Any]]:
        """The element type, shape and elements of an attribute; one element for a splat."""
        values: Splat | NDArray[Any] | None = None
        if isinstance(attribute, IntegerAttr | FloatAttr):
            type = cast(Any, attribute).type
            data = np.frombuffer(type.pack([attribute.value.data]), dtype=element_dtype(type))
            return type, (), in_width(data, type)
        if isinstance(attribute, DenseIntOrFPElementsAttr):
            values = elements_of(cast(DenseElementsAttr, attribute))
        elif isinstance(attribute, DenseResourceAttr):
            values = self._resources.read(attribute)
        if values is None:
            raise NotCertifiableError("the data of a constant is missing")
        elements = np.asarray(values.value) if isinstance(values, Splat) else values
        return cast(Any, attribute).type.element_type, values.shape, elements.reshape(-1)

    def integers(self, value: SSAValue) -> NDArray[np.integer[Any]]:
        """The elements of an integer constant, for models of ops. Raises Refusal."""
        if isinstance(owner := value.owner, Operation):
            if is_list(owner):
                return integers_in_list(owner, self)
            if _moves_computed(owner):
                return computed_integers(value, self)
        try:
            node = self.read(value)
            if node.size > MAX_REPEATED_ELEMENTS:
                raise NotCertifiableError("a constant that parametrizes it is too long")
            numbers = numbers_at(node, np.arange(node.size, dtype=np.int64), self._steps)
            # A `!tosa.shape` is not a tensor.
            is_shape = isinstance(node, ConstantNode) and shape_of(value.type) is None
            type = cast(ConstantNode, node).held_type if is_shape else node.element_type
            return as_integers(numbers, type).reshape(node.shape)
        except NotCertifiableError as error:
            raise Refusal(RefusalCode.NOT_CONSTANT, str(error)) from None


@dataclass(eq=False, kw_only=True)
class _UnknownNode(Node):
    """The node of a value that cannot be read."""

    reason: str

    @classmethod
    def of(cls, value: SSAValue, reason: str) -> _UnknownNode:
        """The node of `value`, with the reason why it cannot be read."""
        return cls(shape=(), element_type=value.type, reason=reason)


def _moves_computed(op: Operation) -> bool:
    """Whether the elements of a result are computed integers, moved by shape ops or not."""
    while not computes_integers(op):
        operand = op.operands[0].owner if model_of(op) is not None and op.operands else None
        if not isinstance(operand, Operation):
            return False
        op = operand
    return True


def _sides_of_elements(op: Operation, along: AlongAxis, shape: Shape) -> tuple[Node, ...]:
    """The parameters of each element, by columns: minimum and maximum, or the scale."""
    rows = along.rows.reshape(len(along.rows), -1)
    columns = (
        ConstantNode(
            shape=rows.shape[:1],
            element_type=f64,
            op=op,
            slots=None,
            elements=column.copy().view(element_dtype(f64)),
            held_type=f64,
        )
        for column in rows.T
    )
    spread = BroadcastInDim((along.axis,), shape)
    return tuple(_moved([spread], [column], None, f64) for column in columns)


def _moved(
    movements: Sequence[Movement],
    operands: Sequence[Node],
    padding: Node | None,
    element_type: Attribute,
) -> MovedNode:
    """
    The node of operands after movements, applied in sequence.

    Raises NotCertifiableError for a movement that is impossible, such as a slice beyond the end.
    """
    # Without movements, make a node for the op by a reshape to the same shape.
    for movement in steps_of(movements or [Reshape(operands[0].shape)]):
        shapes = [operand.shape for operand in operands]
        with certifying():
            movement.result_shape(*shapes)
        node = MovedNode(
            shape=moved_shape(movement, shapes),
            element_type=element_type,
            movement=movement,
            operands=operands,
            padding=padding if isinstance(movement, PadWith) else None,
        )
        operands = [node]
    return cast(MovedNode, operands[0])


def _holds_integers(node: Node) -> bool:
    """Whether a value is computed from an integer constant."""
    while isinstance(node, MovedNode | CastNode):
        node = node.operands[0] if isinstance(node, MovedNode) else node.operand
    return isinstance(node, ConstantNode) and isinstance(node.held_type, IntegerType)


def _static_shape(type: Attribute) -> Shape:
    shape = shape_of(type) or ()
    if DYNAMIC in shape:
        raise NotCertifiableError("a length is only known at run time")
    return shape


def _typed(type: Attribute, shape: Shape) -> tuple[Attribute, SlotTable | None]:
    """The element type of a value of `type`, and its slots if it is quantized."""
    element_type = element_type_or_self(type)
    if element_type is not type and (declared := _static_shape(type)) != shape:
        raise NotCertifiableError(f"{list(shape)} is not the declared shape {list(declared)}")
    if not isinstance(element_type, UniformQuantizedType):
        return element_type, None
    with certifying():
        return element_type, SlotTable.of(element_type, shape)
