"""
Following the elements of a value to the constants and symbols that hold them.

No array is moved: the requested positions are mapped, node by node, to positions in the
operands, and only the elements there are read.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, TypeAlias, cast

from typing_extensions import override
from xdsl.dialects.builtin import AnyFloat, IntegerType

from qdialect.algebra.parameters import StorageFormat
from qdialect.check.index_maps import NotCertifiableError, Positions, origins
from qdialect.check.step_budget import STEPS_PER_REQUEST, StepBudget
from qdialect.check.value_nodes import (
    CastNode,
    ComputedNode,
    ConstantNode,
    Doubles,
    Integers,
    LayerAt,
    MovedNode,
    Node,
    SideAt,
    Slots,
    SymbolNode,
    TypedNode,
    bits_of,
    certifying,
    dequantize,
    differ,
    numbers_in,
    quantize,
    storage_of,
    stores_the_same,
    width_of,
)
from qdialect.dialects.quant.storage import StoredType
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.ops.elementwise import conversion, values_of
from qdialect.ops.fields import Apply, Input, Term
from qdialect.ops.interface import is_arithmetic, name_of
from qdialect.support.float_format import FLOAT_FORMATS
from qdialect.support.lazy_numpy import NDArray, np

PIECE: Final = 1 << 15
"""The number of elements in a piece: a few MiB, including intermediate results."""

MOST_ELEMENTS: Final = 1 << 30
"""The maximum size of a tensor that is compared element by element."""

_Leaf: TypeAlias = "ConstantNode | PaddingNode | SymbolNode"
_Stack: TypeAlias = tuple[Hashable, ...]
"""The kinds of the typed nodes on the path from the root down to a node."""


def pieces_of(size: int) -> Iterator[Positions]:
    """
    The positions in a tensor of `size` elements, in pieces; one empty piece if it has none.
    Raises NotCertifiableError if there are too many.
    """
    if size > MOST_ELEMENTS:
        raise NotCertifiableError(f"{size} elements are too many to compare each")
    for start in range(0, max(size, 1), PIECE):
        yield np.arange(start, min(start + PIECE, size), dtype=np.int64)


_SAMPLES: Final = 24


def sample_positions(size: int) -> Positions:
    """
    Sample row-major positions in a tensor of `size` elements, including the first and the last.

    Raises NotCertifiableError if positions take more than 64 bits.
    """
    if size <= _SAMPLES:
        return np.arange(size, dtype=np.int64)
    if size >= 1 << 63:
        raise NotCertifiableError(f"{size} elements are too many: their positions exceed 64 bits")
    last = _SAMPLES // 2 - 1
    even = np.array([(size - 1) * number // last for number in range(last + 1)], dtype=np.int64)
    # Multiples of an odd number spread over the rows and columns of most shapes.
    odd = np.arange(1, _SAMPLES // 2 + 1, dtype=np.int64) * 2_654_435_761 % size
    return np.unique(np.concatenate((even, odd)))


@dataclass
class Elements:
    """Some elements of a value that share one path of casts, followed to their leaves."""

    size: int

    layers: list[LayerAt] = field(default_factory=list[LayerAt])
    """How the elements are read at each level, from the value itself down to the leaves."""

    stored: NDArray[Any] | None = None
    """Their bits, if the leaves are constants or padding, and data was requested."""

    symbols: Integers | None = None
    """The symbol that holds each element; None for elements of constants."""

    positions: Positions | None = None
    """The position of each element in its leaf."""

    leaves: list[tuple[_Leaf, Positions]] = field(default_factory=list[tuple[_Leaf, Positions]])
    """The leaves, each with the positions read there."""

    @property
    def is_padding(self) -> bool:
        """Whether no constant holds these elements."""
        return all(isinstance(leaf, PaddingNode) for leaf, _ in self.leaves)

    def numbers(self) -> NDArray[Any]:
        """
        The numbers that these are: integers, doubles, or bits.

        For quantized types, these are the stored integers. Raises NotCertifiableError if they
        are not known.
        """
        if self.stored is None:
            raise NotCertifiableError("its elements are not known")
        numbers = numbers_in(self.stored, self.layers[-1].element_type)
        for above, below in zip(self.layers[-2::-1], self.layers[:0:-1], strict=True):
            numbers = _cast(numbers, below, above)
        return numbers

    def readings(self) -> NDArray[Any]:
        """As `numbers`, but quantized integers are dequantized: doubles."""
        return _read(self.numbers(), self.layers[0])

    def part(self, chosen: Positions) -> Elements:
        """Some of the elements, in the order of `chosen`."""

        def taken(array: NDArray[Any] | None) -> NDArray[Any] | None:
            return None if array is None else array[chosen]

        return Elements(
            len(chosen),
            [layer.part(chosen) for layer in self.layers],
            taken(self.stored),
            taken(self.symbols),
            taken(self.positions),
            self.leaves,
        )


@dataclass
class Group:
    """Requested elements that share one path of casts."""

    where: Positions | None
    """Their indices among the requested positions; None for all, in order."""

    elements: Elements


@dataclass(eq=False, kw_only=True)
class PaddingNode(TypedNode):
    """The known elements at the new positions of a padded value."""

    padded: MovedNode

    @cached_property
    @override
    def kind(self) -> Hashable:
        """That of constants, beside which these elements are."""
        return "constant", "", storage_of(self.element_type)

    @override
    def layer_at(self, positions: Positions) -> LayerAt:
        """The layer at row-major positions, with the slots of the nearest edges."""
        if not isinstance(self.element_type, UniformQuantizedType):
            return LayerAt(self)
        (operand,) = self.padded.operands
        if not operand.size and len(positions):
            raise NotCertifiableError("there is no zero point to pad with")
        edges = origins(self.padded.movement, [operand.shape], positions).positions
        return LayerAt(self, slots_at(operand, edges))

    def bits_at(self, positions: Positions) -> NDArray[Any]:
        """
        The elements at row-major positions: see `bits_of`.

        Raises NotCertifiableError if they are not known, or no stored integer represents them.
        """
        type, layer = self.element_type, self.layer_at(positions)
        element = None if self.padded.padding is None else element_at(self.padded.padding)
        if layer.slots:
            if element is not None:
                codes = _codes_of(element, layer)
            else:
                with certifying():
                    storage = cast(UniformQuantizedType, type).storage_format
                    codes = storage.zeros(layer.slots[1])
            return bits_of(codes, type)
        if element is None:
            if not isinstance(type, AnyFloat | IntegerType):
                raise NotCertifiableError("there is no zero to pad with")
            return np.zeros(len(positions), dtype=np.uint64)
        if (own := element.layers[0].element_type) != type:
            raise NotCertifiableError(f"'{type}' is padded with an element of type '{own}'")
        bits = element.stored
        if bits is None or len(element.layers) > 1:
            bits = element.numbers()
            if bits.dtype.kind == "f":
                bits = FLOAT_FORMATS[type.name].encode(bits)
            bits = bits_of(bits, type)
        return np.repeat(bits, len(positions))


def _codes_of(element: Elements, layer: LayerAt) -> Integers:
    """The codes that `layer` reads as one quantized element. Raises NotCertifiableError."""
    own, type = element.layers[0], cast(UniformQuantizedType, layer.element_type)
    if not own.slots:
        raise NotCertifiableError("the padding element is not quantized")
    assert layer.slots
    scales, zero_points = layer.slots
    real, same = element.readings(), element.numbers()
    is_same = (scales == own.slots[0]) & (zero_points == own.slots[1])
    with np.errstate(all="ignore"), certifying():
        steps = np.where(is_same, 0.0, real / scales)
        codes = np.where(is_same, same, type.storage_format.codes_near(steps, zero_points))
    codes = StorageFormat(type.storage_type.bitwidth, type.is_signed).wrap(codes)
    if differ(_read(codes, layer), np.broadcast_to(real, codes.shape)).any():
        raise NotCertifiableError(f"no stored integer is read as {real.item()}")
    return codes


def _read(numbers: NDArray[Any], layer: LayerAt) -> NDArray[Any]:
    if not layer.slots:
        return numbers
    return dequantize(numbers, *layer.slots, cast(UniformQuantizedType, layer.element_type))


def keeps_bits(below: LayerAt, above: LayerAt) -> bool:
    """Whether the cast between two layers only reinterprets the bits of its operand."""
    type, wanted = below.element_type, above.element_type
    kinds = [
        (isinstance(kind, StoredType), isinstance(kind, IntegerType)) for kind in (type, wanted)
    ]
    is_renamed = kinds in ([(True, False), (False, True)], [(False, True), (True, False)])
    return is_renamed and width_of(type) == width_of(wanted)


def _cast(numbers: NDArray[Any], below: LayerAt, above: LayerAt) -> NDArray[Any]:
    """
    Cast numbers from the type of the layer below to that of the layer above.

    Raises NotCertifiableError for casts that neither preserve bits, nor dequantize, nor quantize,
    nor compute as arithmetic does.
    """
    type, wanted = below.element_type, above.element_type
    if keeps_bits(below, above):
        return numbers_in(bits_of(numbers, type), wanted)
    if below.slots:
        if wanted == cast(UniformQuantizedType, type).expressed_type:
            return _read(numbers, below)
    elif above.slots and numbers.dtype.kind == "f":
        quantized = cast(UniformQuantizedType, wanted)
        if type == quantized.expressed_type:
            return quantize(numbers, *above.slots, quantized)
    if (computed := _computed(numbers, below, above)) is not None:
        return computed
    op = above.node.cast
    name = "a cast" if op is None else f"'{name_of(op)}'"
    raise NotCertifiableError(f"it is unknown how {name} casts '{type}' to '{wanted}'")


def _computed(numbers: NDArray[Any], below: LayerAt, above: LayerAt) -> NDArray[Any] | None:
    """The numbers that arithmetic computes; None if the layer above is not known arithmetic."""
    node, wanted = above.node, above.element_type
    if node.cast is None or not is_arithmetic(node.cast):
        return None
    if isinstance(node, ComputedNode):
        term, main = cast(tuple[Term, int], node.settings)
    else:
        converts = conversion(below.element_type, wanted)
        if converts is None:
            return None
        term, main = Apply(converts, (Input(0, below.element_type),), wanted), 0
    inputs = [side.numbers for side in above.sides]
    inputs.insert(main, numbers)
    with certifying():
        computed = np.broadcast_to(values_of(term, inputs), numbers.shape)
    if computed.dtype.kind == "f":
        return computed
    return numbers_in(bits_of(computed, wanted), wanted)


@dataclass
class _Request:
    """A request for elements of a node."""

    stack: _Stack
    """The kinds of the typed nodes above the node."""

    where: Positions | None
    """Their indices among the elements requested of the root; None for all, in order."""

    positions: Positions

    layers: tuple[LayerAt, ...] = ()
    """How the elements are read above the node."""

    def part(self, chosen: Positions, positions: Positions) -> _Request:
        """The request for the chosen elements, at `positions[chosen]` of another node."""
        where = chosen if self.where is None else self.where[chosen]
        layers = tuple([layer.part(chosen) for layer in self.layers])
        return _Request(self.stack, where, positions[chosen], layers)

    def below(self, node: TypedNode, layer: LayerAt) -> _Request:
        """The request for the same elements below a typed node."""
        stack, layers = (*self.stack, node.kind), (*self.layers, layer)
        return _Request(stack, self.where, self.positions, layers)


def element_at(root: Node, position: int = 0, *, with_data: bool = True) -> Elements:
    """One element of a value. Raises NotCertifiableError if it cannot be followed."""
    if not 0 <= position < root.size:
        raise NotCertifiableError(f"it has {root.size} elements, and none at {position}")
    (group,) = groups_at(root, np.array([position], dtype=np.int64), with_data=with_data)
    return group.elements


def numbers_at(root: Node, positions: Positions, steps: StepBudget | None = None) -> NDArray[Any]:
    """
    The numbers at row-major positions of a value: see `Elements.numbers`.

    Raises NotCertifiableError if they are not known.
    """
    parts = [(group.where, group.elements.numbers()) for group in groups_at(root, positions, steps)]
    if parts[0][0] is None:
        return parts[0][1]
    numbers = np.empty(len(positions), dtype=parts[0][1].dtype)
    for where, part in parts:
        if part.dtype != numbers.dtype:
            raise NotCertifiableError("its elements are stored as different types")
        numbers[where] = part
    return numbers


def slots_at(
    root: Node, positions: Positions, steps: StepBudget | None = None
) -> tuple[Doubles, Integers]:
    """
    The scales and zero points at row-major positions of a quantized value.

    Raises NotCertifiableError if elements cannot be followed.
    """
    scales = np.empty(len(positions), dtype=np.float64)
    zero_points = np.empty(len(positions), dtype=np.int64)
    for group in groups_at(root, positions, steps, with_data=False):
        layer = group.elements.layers[0]
        if not layer.slots:
            raise NotCertifiableError("an element is not quantized")
        where = slice(None) if group.where is None else group.where
        scales[where], zero_points[where] = layer.slots
    return scales, zero_points


def groups_at(
    root: Node, positions: Positions, steps: StepBudget | None = None, *, with_data: bool = True
) -> list[Group]:
    """
    Follow the elements at row-major positions of a value, one group per path of casts.

    Padding is followed like another operand. Without data, only slots are read. Raises
    NotCertifiableError.
    """
    return _Following(steps, with_data=with_data).of(root, positions)


class _Following:
    """One traversal from a value down to its leaves."""

    def __init__(self, steps: StepBudget | None, *, with_data: bool) -> None:
        self._with_data = with_data
        self._steps = steps
        self._leaves: dict[_Stack, list[tuple[_Leaf, _Request]]] = {}
        self._requests: dict[int, dict[_Stack, list[_Request]]] = {}
        self._pending: list[tuple[int, Node]] = []
        """A heap of the nodes with requests: users come before their operands."""

    def of(self, root: Node, positions: Positions) -> list[Group]:
        self._ask(root, _Request((), None, positions))
        while self._pending:
            _, node = heapq.heappop(self._pending)
            for requests in self._requests.pop(node.number).values():
                request = _joined(requests)
                if self._steps is not None:
                    self._steps.spend(STEPS_PER_REQUEST + len(request.positions))
                match node:
                    case ConstantNode() | PaddingNode() | SymbolNode():
                        below = self._below(node, request)
                        self._leaves.setdefault(below.stack, []).append((node, below))
                    case CastNode():
                        self._ask(node.operand, self._below(node, request))
                    case MovedNode():
                        self._move(node, request)
                    case _:
                        raise NotCertifiableError("it is not computed from constants")
        return [self._group(leaves) for leaves in self._leaves.values()]

    def _ask(self, node: Node, request: _Request) -> None:
        if node.number not in self._requests:
            self._requests[node.number] = {}
            heapq.heappush(self._pending, (-node.number, node))
        self._requests[node.number].setdefault(request.stack, []).append(request)

    def _below(self, node: TypedNode, request: _Request) -> _Request:
        layer = node.layer_at(request.positions)
        if isinstance(node, ComputedNode):
            layer.sides = tuple(self._side(side, request.positions) for side in node.sides)
        return request.below(node, layer)

    def _side(self, node: Node, positions: Positions) -> SideAt:
        """The elements of a constant operand of arithmetic, which may be computed."""
        if isinstance(node.element_type, UniformQuantizedType):
            raise NotCertifiableError("an operand of the arithmetic is not a plain constant")
        return SideAt(node.element_type, numbers_at(node, positions, self._steps))

    def _move(self, node: MovedNode, request: _Request) -> None:
        shapes = [operand.shape for operand in node.operands]
        sources = origins(node.movement, shapes, request.positions)
        if sources.is_new is not None and sources.is_new.any():
            new, source = np.flatnonzero(sources.is_new), padding_of(node)
            is_one = source is node.padding
            at = np.zeros_like(sources.positions) if is_one else request.positions
            self._ask(source, request.part(new, at))
            if len(kept := np.flatnonzero(~sources.is_new)):
                self._ask(node.operands[0], request.part(kept, sources.positions))
            return
        if sources.operands is None:
            (operand,) = node.operands
            self._ask(operand, replace(request, positions=sources.positions))
            return
        order = np.argsort(sources.operands, kind="stable")
        numbers = sources.operands[order]
        starts = np.flatnonzero(np.diff(numbers, prepend=-1)).tolist()
        if not starts:
            # Without elements, the first operand determines the path.
            self._ask(node.operands[0], request.part(order, sources.positions))
        for start, end in pairwise([*starts, len(order)]):
            chosen = order[start:end]
            self._ask(node.operands[int(numbers[start])], request.part(chosen, sources.positions))

    def _group(self, leaves: list[tuple[_Leaf, _Request]]) -> Group:
        whole = _joined([request for _, request in leaves])
        elements = Elements(len(whole.positions), list(whole.layers), positions=whole.positions)
        elements.leaves = [(leaf, request.positions) for leaf, request in leaves]
        if isinstance(leaves[0][0], SymbolNode):
            symbols = [
                np.full(len(at), cast(SymbolNode, leaf).symbol, dtype=np.int64)
                for leaf, at in elements.leaves
            ]
            elements.symbols = np.concatenate(symbols)
        elif self._with_data:
            known = cast("list[tuple[ConstantNode | PaddingNode, Positions]]", elements.leaves)
            bits = [leaf.bits_at(at) for leaf, at in known]
            elements.stored = bits[0] if len(bits) == 1 else np.concatenate(bits)
        return Group(whole.where, elements)


def _of(where: Positions | None) -> Positions:
    # A request for all elements, which has no indices, is the only request of its stack.
    assert where is not None
    return where


def _joined_side(sides: Sequence[SideAt]) -> SideAt:
    if any(side.element_type != sides[0].element_type for side in sides):
        raise NotCertifiableError("its elements are computed with constants of different types")
    return SideAt(sides[0].element_type, np.concatenate([side.numbers for side in sides]))


def _joined(requests: list[_Request]) -> _Request:
    """Merge the requests of one stack: a value may be used many times."""
    if len(requests) == 1:
        return requests[0]
    where = np.concatenate([_of(request.where) for request in requests])
    positions = np.concatenate([request.positions for request in requests])
    columns = zip(*[request.layers for request in requests], strict=True)
    return _Request(requests[0].stack, where, positions, tuple(map(_joined_layer, columns)))


def _joined_layer(layers: Sequence[LayerAt]) -> LayerAt:
    slots = tuple(map(np.concatenate, zip(*[layer.slots for layer in layers], strict=True)))
    sides = zip(*[layer.sides for layer in layers], strict=True)
    return LayerAt(layers[0].node, cast("Slots", slots), tuple(map(_joined_side, sides)))


def padding_of(node: MovedNode) -> Node:
    """The node that holds the new positions of a padded value: one element, or one for each."""
    if node.new is None:
        node.new = _padding_of(node)
    return node.new


def _padding_of(node: MovedNode) -> Node:
    padding = node.padding
    known = PaddingNode(shape=node.shape, element_type=node.element_type, slots=None, padded=node)
    if padding is None or not stores_the_same(padding.element_type, node.element_type):
        return known
    try:
        element_at(padding).numbers()
    except NotCertifiableError:
        # An unknown element is followed, if it means the same everywhere.
        slots, own = node.slots, getattr(padding, "slots", None)
        is_alike = (
            slots is None if own is None else slots is not None and slots.is_one_for_all([own])
        )
        return padding if is_alike and padding.size == 1 else known
    return known
