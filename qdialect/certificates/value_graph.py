"""
What constants, casts and shape ops make a value of: read from the IR, and asked for in pieces.

Nothing is moved. The elements at some positions of a value are followed to the constants
that hold them, and only these are looked at.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any, Final, cast

from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from qdialect.certificates.index_maps import (
    NotCertifiableError,
    Positions,
    moved_shape,
    origins,
    steps_of,
)
from qdialect.certificates.readings import (
    Doubles,
    Integers,
    SlotTable,
    bits_of,
    cut,
    dequantize,
    differ,
    numbers_in,
    quantize,
    width_of,
)
from qdialect.dialects.quant.shape_ops import ShapeOp
from qdialect.dialects.quant.types import StoredType, UniformQuantizedType
from qdialect.dialects.value_types import element_type_or_self
from qdialect.elements import (
    MAX_REPEATED_ELEMENTS,
    DenseElementsAttr,
    UnsupportedElementTypeError,
    element_dtype,
    elements_of,
    in_width,
)
from qdialect.lazy_numpy import np
from qdialect.movement import DYNAMIC, Movement, PadWith, Shape, Splat
from qdialect.ordering import dependencies_first
from qdialect.resources import ResourceBlobs
from qdialect.shape_op_interface import (
    Code,
    NotFoldable,
    elements_attribute_of,
    find_attribute,
    is_cast,
    model_of,
    name_of,
    read_movements,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

PIECE: Final = 1 << 15
"""How many elements are looked at at once: a few MiB, with what is computed of them."""

MOST_ELEMENTS: Final = 1 << 30
"""Of more, it takes too long to look at each."""

_NUMBERS = count()


def pieces_of(size: int) -> Iterator[Positions]:
    """The positions in a tensor of `size` elements, in pieces; one without any, if it has none."""
    if size > MOST_ELEMENTS:
        raise NotCertifiableError(f"{size} elements are too many to look at each")
    for start in range(0, max(size, 1), PIECE):
        yield np.arange(start, min(start + PIECE, size), dtype=np.int64)


@dataclass(eq=False, kw_only=True)
class Node:
    """A value."""

    shape: Shape
    element_type: Attribute

    number: int = field(default_factory=_NUMBERS.__next__)
    """Greater than those of what the value is made of."""

    @property
    def size(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)


@dataclass(eq=False, kw_only=True)
class _Typed(Node):
    """What has a type that says how its elements are read."""

    op: Operation
    slots: SlotTable | None

    def layer_at(self, positions: Positions) -> LayerAt:
        """How the elements at row-major positions are read here."""
        scales, zero_points = self.slots.at(positions) if self.slots else (None, None)
        is_constant = isinstance(self, ConstantNode)
        return LayerAt(self.element_type, self.op, is_constant, scales, zero_points)


@dataclass(eq=False, kw_only=True)
class ConstantNode(_Typed):
    """Elements that an op holds."""

    elements: NDArray[Any]
    """All of them, row-major, or one that all are equal to."""

    held_type: Attribute
    """The element type of the attribute that holds them."""

    def bits_at(self, positions: Positions) -> NDArray[Any]:
        """The elements at row-major positions: see `bits_of`."""
        if len(self.elements) == 1:
            positions = np.zeros_like(positions)
        return bits_of(self.elements[positions], self.held_type)


@dataclass(eq=False, kw_only=True)
class CastNode(_Typed):
    """The same elements, read otherwise."""

    operand: Node


@dataclass(eq=False, kw_only=True)
class MovedNode(Node):
    """Elements that one movement takes from operands."""

    movement: Movement
    operands: Sequence[Node]

    padding: Node | None = None
    """The element that new positions have; without it, they have real zero."""


@dataclass
class LayerAt:
    """How some elements are read, at one place between casts."""

    element_type: Attribute
    op: Operation
    """The constant, or the cast that it is the result of."""

    is_constant: bool
    scales: Doubles | None
    zero_points: Integers | None

    def part(self, chosen: Positions) -> LayerAt:
        """How some of the elements are read."""
        if self.scales is None or self.zero_points is None:
            return self
        return replace(self, scales=self.scales[chosen], zero_points=self.zero_points[chosen])

    def is_same_as(self, other: LayerAt) -> bool:
        """Whether one element is read in the same way as another."""
        try:
            self.require_same(other)
        except NotCertifiableError:
            return False
        if self.scales is None or other.scales is None:
            return True
        assert self.zero_points is not None
        assert other.zero_points is not None
        is_other = differ(self.scales, other.scales) | differ(self.zero_points, other.zero_points)
        return not is_other.any()

    def require_same(self, other: LayerAt) -> None:
        """Raise NotCertifiableError if one tensor cannot have elements of both."""
        if self.is_constant != other.is_constant or (
            not self.is_constant
            and (name_of(self.op) != name_of(other.op) or _settings(self.op) != _settings(other.op))
        ):
            raise NotCertifiableError("its elements are behind different casts")
        if not stores_the_same(self.element_type, other.element_type):
            raise NotCertifiableError(
                f"there are elements of type '{self.element_type}' and '{other.element_type}'"
            )


def _settings(op: Operation) -> Mapping[str, Attribute]:
    return {**op.attributes, **op.properties}


def stores_the_same(one: Attribute, other: Attribute) -> bool:
    """Whether two element types differ in nothing but scales and zero points."""
    if isinstance(one, UniformQuantizedType) and isinstance(other, UniformQuantizedType):
        return (
            one.storage_type.bitwidth == other.storage_type.bitwidth
            and one.is_signed == other.is_signed
            and one.storage_type_min == other.storage_type_min
            and one.storage_type_max == other.storage_type_max
            and one.expressed_type == other.expressed_type
        )
    return one == other


@dataclass
class Elements:
    """Some elements of a value, followed to where they are stored."""

    size: int

    layers: list[LayerAt] = field(default_factory=list[LayerAt])
    """How they are read: first as the value itself is, last as the constants are."""

    stored: NDArray[Any] | None = None
    """Their bits, if they have been looked at; of padding, those of the nearest edge."""

    padding: Integers | None = None
    """The number of the padding that each element is, or -1; None if there is none."""

    paddings: list[tuple[int, Node | None]] = field(default_factory=list[tuple[int, "Node | None"]])
    """Below how many casts there is padding, and with what: None is real zero."""

    unread: NDArray[np.bool_] | None = None
    """The elements that there is nothing for in any constant; None if all are read."""

    leaves: list[tuple[ConstantNode, Positions]] = field(
        default_factory=list[tuple[ConstantNode, Positions]]
    )
    """The constants, and the positions there."""

    @property
    def moved(self) -> NDArray[np.bool_]:
        """Which elements are of a constant."""
        if self.padding is None:
            return np.ones(self.size, dtype=np.bool_)
        return self.padding < 0

    def numbers_at(self, depth: int) -> NDArray[Any]:
        """
        What the elements are below `depth` casts: integers, doubles, or bits.

        Stored integers for quantized types. Raises NotCertifiableError if that is not known.
        """
        assert self.stored is not None
        last = len(self.layers) - 1
        layer = self.layers[last]
        numbers = self._padded(numbers_in(self.stored, layer.element_type), last)
        for at in range(last - 1, depth - 1, -1):
            numbers = self._padded(_cast(numbers, self.layers[at + 1], self.layers[at]), at)
        return numbers

    def readings_at(self, depth: int) -> NDArray[Any]:
        """As `numbers_at`, but what quantized integers stand for: doubles."""
        return _read(self.numbers_at(depth), self.layers[depth])

    def _padded(self, numbers: NDArray[Any], depth: int) -> NDArray[Any]:
        for number, (at, element) in enumerate(self.paddings):
            if at == depth and self.padding is not None:
                new = np.flatnonzero(self.padding == number)
                if len(new):
                    numbers = numbers.copy()
                    numbers[new] = _padded_with(element, self.layers[at].part(new))
        return numbers


def _padded_with(element: Node | None, layer: LayerAt) -> NDArray[Any]:
    """What new positions hold, which are read so: one number, or one for each."""
    if element is None:
        if layer.zero_points is None:
            raise NotCertifiableError("there is no zero point to pad with")
        return layer.zero_points
    if element.size != 1:
        raise NotCertifiableError(f"it is padded with {element.size} elements")
    given = elements_at(element, np.zeros(1, dtype=np.int64))
    type, own = layer.element_type, given.layers[0]
    if not isinstance(type, UniformQuantizedType):
        if own.element_type != type:
            raise NotCertifiableError(
                f"'{type}' is padded with an element of type '{own.element_type}'"
            )
        return given.numbers_at(0)
    if own.scales is None or own.zero_points is None:
        raise NotCertifiableError("what is padded with is not quantized")
    assert layer.scales is not None
    assert layer.zero_points is not None
    real, same = given.readings_at(0), given.numbers_at(0)
    is_same = (layer.scales == own.scales) & (layer.zero_points == own.zero_points)
    with np.errstate(all="ignore"):
        steps = np.clip(np.rint(real / layer.scales), -(2.0**33), 2.0**33)
    steps = np.where(np.isnan(steps), 0.0, steps).astype(np.int64)
    codes = np.where(is_same, same, layer.zero_points + steps)
    codes = cut(codes, type.storage_type.bitwidth, type.is_signed)
    if differ(_read(codes, layer), np.broadcast_to(real, codes.shape)).any():
        raise NotCertifiableError(f"no stored integer is read as {real.item()}")
    return codes


def _read(numbers: NDArray[Any], layer: LayerAt) -> NDArray[Any]:
    type = layer.element_type
    if layer.scales is None or layer.zero_points is None:
        return numbers
    return dequantize(numbers, layer.scales, layer.zero_points, cast(UniformQuantizedType, type))


def _cast(numbers: NDArray[Any], below: LayerAt, above: LayerAt) -> NDArray[Any]:
    """
    What a cast makes of elements, by the types below and above it.

    Raises NotCertifiableError where it does more than to call, to read or to store them.
    """
    type, wanted = below.element_type, above.element_type
    stored = [isinstance(each, StoredType) for each in (type, wanted)]
    integer = [isinstance(each, IntegerType) for each in (type, wanted)]
    if (stored[0] and integer[1]) or (integer[0] and stored[1]):
        if width_of(type) == width_of(wanted):
            return numbers_in(bits_of(numbers, type), wanted)
    elif below.scales is not None:
        if wanted == cast(UniformQuantizedType, type).expressed_type:
            return _read(numbers, below)
    elif above.scales is not None and above.zero_points is not None and numbers.dtype.kind == "f":
        quantized = cast(UniformQuantizedType, wanted)
        if type == quantized.expressed_type:
            return quantize(numbers, above.scales, above.zero_points, quantized)
    raise NotCertifiableError(
        f"nothing says how '{name_of(above.op)}' casts '{type}' to '{wanted}'"
    )


@dataclass
class _Request:
    """Elements of a node that are asked for."""

    depth: int
    """How many casts there are above the node."""

    where: Positions | None
    """Which of the elements that are asked for they are: None for all, in order."""

    positions: Positions

    def part(self, chosen: Positions, positions: Positions) -> _Request:
        """Those of the chosen numbers, at `positions` elsewhere."""
        where = chosen if self.where is None else self.where[chosen]
        return _Request(self.depth, where, positions[chosen])


def elements_at(root: Node, positions: Positions, *, with_data: bool = True) -> Elements:
    """
    Follow the elements at row-major positions of a value.

    Raises NotCertifiableError where it is not known how.
    """
    return _Pull(len(positions), with_data).of(root, positions)


class _Pull:
    def __init__(self, size: int, with_data: bool) -> None:
        self._found = Elements(size)
        self._with_data = with_data
        self._layers: dict[int, LayerAt] = {}
        self._requests: dict[int, list[_Request]] = {}
        self._pending: list[tuple[int, Node]] = []
        """Nodes that elements are asked of: users come before what they use."""

    def of(self, root: Node, positions: Positions) -> Elements:
        self._ask(root, _Request(0, None, positions))
        while self._pending:
            _, node = heapq.heappop(self._pending)
            for request in _joined(self._requests.pop(node.number)):
                match node:
                    case ConstantNode():
                        self._add_layer(node, request)
                        self._take(node, request)
                    case CastNode():
                        self._add_layer(node, request)
                        lower = _Request(request.depth + 1, request.where, request.positions)
                        self._ask(node.operand, lower)
                    case MovedNode():
                        self._move(node, request)
                    case _:
                        raise NotCertifiableError("it is not made of constants")
        self._found.layers = [self._layers[depth] for depth in sorted(self._layers)]
        return self._found

    def _ask(self, node: Node, request: _Request) -> None:
        if node.number not in self._requests:
            self._requests[node.number] = []
            heapq.heappush(self._pending, (-node.number, node))
        self._requests[node.number].append(request)

    def _add_layer(self, node: _Typed, request: _Request) -> None:
        layer = node.layer_at(request.positions)
        scales, zero_points = layer.scales, layer.zero_points
        known = self._layers.get(request.depth)
        if known is not None:
            known.require_same(layer)
        if request.where is None:
            self._layers[request.depth] = layer
            return
        if known is None:
            if scales is not None and zero_points is not None:
                layer.scales = np.ones(self._found.size, dtype=np.float64)
                layer.zero_points = np.zeros(self._found.size, dtype=np.int64)
            self._layers[request.depth] = known = layer
        if known.scales is not None and known.zero_points is not None:
            assert scales is not None
            assert zero_points is not None
            known.scales[request.where] = scales
            known.zero_points[request.where] = zero_points

    def _take(self, node: ConstantNode, request: _Request) -> None:
        found = self._found
        found.leaves.append((node, request.positions))
        if not self._with_data:
            return
        bits = node.bits_at(request.positions)
        if request.where is None:
            found.stored = bits
            return
        if found.stored is None:
            found.stored = np.zeros(found.size, dtype=bits.dtype)
        elif found.stored.dtype != bits.dtype:
            raise NotCertifiableError("its elements are not stored as one type")
        found.stored[request.where] = bits

    def _move(self, node: MovedNode, request: _Request) -> None:
        shapes = [operand.shape for operand in node.operands]
        found = origins(node.movement, shapes, request.positions)
        if found.is_new is not None:
            self._pad(node, request, found.is_new)
        if found.operands is None:
            (operand,) = node.operands
            lower = _Request(request.depth, request.where, found.positions)
            if operand.size == 0 and len(found.positions):
                self._leave_unread(request)
                lower = request.part(np.zeros(0, dtype=np.int64), found.positions)
            self._ask(operand, lower)
            return
        order = np.argsort(found.operands, kind="stable")
        numbers = found.operands[order]
        starts = np.flatnonzero(np.diff(numbers, prepend=-1)).tolist()
        if not starts:
            # Where nothing is taken, one operand tells how it would be read.
            self._ask(node.operands[0], request.part(order, found.positions))
        for start, end in pairwise([*starts, len(order)]):
            chosen = order[start:end]
            self._ask(node.operands[int(numbers[start])], request.part(chosen, found.positions))

    def _pad(self, node: MovedNode, request: _Request, is_new: NDArray[np.bool_]) -> None:
        if not is_new.any():
            return
        found = self._found
        if found.padding is None:
            found.padding = np.full(found.size, -1, dtype=np.int64)
        where = np.arange(found.size) if request.where is None else request.where
        # What is above a padding has taken new positions for itself.
        new = where[is_new & (found.padding[where] < 0)]
        found.padding[new] = len(found.paddings)
        found.paddings.append((request.depth, node.padding))

    def _leave_unread(self, request: _Request) -> None:
        found = self._found
        if found.unread is None:
            found.unread = np.zeros(found.size, dtype=np.bool_)
        found.unread[slice(None) if request.where is None else request.where] = True


def _joined(requests: Sequence[_Request]) -> Iterator[_Request]:
    """The requests of each depth as one: a value may be used many times."""
    by_depth: dict[int, list[_Request]] = {}
    for request in requests:
        by_depth.setdefault(request.depth, []).append(request)
    for depth, parts in by_depth.items():
        if len(parts) == 1:
            yield parts[0]
            continue
        wheres = [part.where for part in parts if part.where is not None]
        assert len(wheres) == len(parts)
        yield _Request(
            depth, np.concatenate(wheres), np.concatenate([part.positions for part in parts])
        )


class GraphReader:
    """
    Reads how values are made, each once.

    `replaced` are values that others stand for: what those are made of does not count.
    Types that shape ops declare are not looked at, unless they are not trusted: then one
    that lies is refused.
    """

    def __init__(
        self,
        resources: ResourceBlobs,
        replaced: Mapping[SSAValue, SSAValue] | None = None,
        *,
        trusts_types: bool = True,
    ) -> None:
        self._resources = resources
        self._trusts_types = trusts_types
        self._replaced: Mapping[SSAValue, SSAValue] = replaced or {}
        self._nodes: dict[SSAValue, Node] = {}

    def read(self, value: SSAValue) -> Node:
        """How a value is made. Raises NotCertifiableError if it is not made of constants."""
        wanted = self._final(value)
        for each in dependencies_first([wanted], self._made_of):
            if each not in self._nodes:
                self._nodes[each] = _UnknownNode.of(each, "it is made of itself")
                self._nodes[each] = self._node(each)
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
        if model_of(owner) is None and not is_cast(owner):
            return ()
        return [self._final(operand) for operand in owner.operands]

    def _node(self, value: SSAValue) -> Node:
        owner = value.owner
        if not isinstance(owner, Operation) or len(owner.results) != 1:
            return _UnknownNode.of(value, "it is no constant")
        try:
            if model_of(owner) is not None:
                return self._moved(owner)
            if is_cast(owner):
                return self._cast(owner)
            if (name := elements_attribute_of(owner)) is not None:
                return self._constant(owner, name)
        except NotCertifiableError as error:
            return _UnknownNode.of(value, str(error))
        return _UnknownNode.of(value, f"'{name_of(owner)}' is not known to make constants")

    def _moved(self, op: Operation) -> Node:
        model = model_of(op)
        assert model is not None
        try:
            read = read_movements(op, model, self)
        except NotFoldable as error:
            raise NotCertifiableError(str(error)) from None
        operands = [self.read(operand) for operand in read.operands]
        element_type = element_type_or_self(op.results[0].type)
        padding = None if read.padding is None else self.read(read.padding)
        node = operands[0]
        for movement in steps_of(read.movements):
            shape = moved_shape(movement, [operand.shape for operand in operands])
            node = MovedNode(
                shape=shape,
                element_type=element_type,
                movement=movement,
                operands=operands,
                padding=padding if isinstance(movement, PadWith) else None,
            )
            operands = [node]
        if node.shape != _static_shape(op.results[0].type):
            raise NotCertifiableError(f"'{name_of(op)}' makes a tensor of shape {list(node.shape)}")
        if not self._trusts_types and not isinstance(op, ShapeOp):
            _require_true(op, node)
        return node

    def _cast(self, op: Operation) -> Node:
        operand = self.read(op.operands[0])
        type, slots = _typed(op.results[0].type, operand.shape)
        return CastNode(shape=operand.shape, element_type=type, op=op, slots=slots, operand=operand)

    def _constant(self, op: Operation, name: str) -> Node:
        attribute = find_attribute(op, name)
        try:
            held_type, shape, elements = self._held(attribute)
        except UnsupportedElementTypeError as error:
            raise NotCertifiableError(str(error)) from None
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
        """The type and the shape of what an attribute holds, and all elements, or one for all."""
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
            raise NotCertifiableError("the data of a constant is not here")
        elements = np.asarray(values.value) if isinstance(values, Splat) else values
        return cast(Any, attribute).type.element_type, values.shape, elements.reshape(-1)

    def integers(self, value: SSAValue) -> NDArray[np.int64]:
        """The elements of an integer constant, for what reads ops. Raises NotFoldable."""
        try:
            node = self.read(value)
            if node.size > MAX_REPEATED_ELEMENTS:
                raise NotCertifiableError("a constant that says what it does is too long")
            elements = elements_at(node, np.arange(node.size, dtype=np.int64))
            return elements.numbers_at(0).astype(np.int64).reshape(node.shape)
        except NotCertifiableError as error:
            raise NotFoldable(Code.NOT_CONSTANT, str(error)) from None


@dataclass(eq=False, kw_only=True)
class _UnknownNode(Node):
    """A value that nothing is known of."""

    reason: str

    @classmethod
    def of(cls, value: SSAValue, reason: str) -> _UnknownNode:
        """A value that cannot be read, and why."""
        return cls(shape=(), element_type=value.type, reason=reason)


def _require_true(op: Operation, node: Node) -> None:
    """Raise NotCertifiableError if an element is read otherwise than its type says."""
    type, slots = _typed(op.results[0].type, node.shape)
    for positions in pieces_of(node.size):
        layer = elements_at(node, positions, with_data=False).layers[0]
        scales, zero_points = slots.at(positions) if slots else (None, None)
        declared = replace(layer, element_type=type, scales=scales, zero_points=zero_points)
        if not layer.is_same_as(declared):
            raise NotCertifiableError(f"the type of '{name_of(op)}' is not what it makes")


def _static_shape(type: Attribute) -> Shape:
    shape = cast("TensorType[Attribute]", type).get_shape() if isinstance(type, TensorType) else ()
    if DYNAMIC in shape:
        raise NotCertifiableError("there is a length only known at run time")
    return shape


def _typed(type: Attribute, shape: Shape) -> tuple[Attribute, SlotTable | None]:
    """The element type of a value of `type`, and what elements read with it."""
    element_type = element_type_or_self(type)
    if element_type is not type and (declared := _static_shape(type)) != shape:
        raise NotCertifiableError(f"{list(shape)} is not the declared shape {list(declared)}")
    if not isinstance(element_type, UniformQuantizedType):
        return element_type, None
    try:
        return element_type, SlotTable.of(element_type, shape)
    except VerifyException as error:
        raise NotCertifiableError(str(error)) from None
