"""
Following the elements of a value to the constants and symbols that hold them.

No array is moved: the requested positions are mapped, node by node, to positions in the
operands, and only the elements there are read.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, TypeAlias, cast

from xdsl.dialects.builtin import AnyFloat, IntegerType

from qdialect.algebra.padding import PadWith
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
    SymbolNode,
    TypedNode,
    ZerosNode,
    bits_of,
    cut,
    dequantize,
    differ,
    numbers_in,
    quantize,
    stores_the_same,
    width_of,
)
from qdialect.dialects.quant.storage import StoredType
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.ops.elementwise import conversion, values_of
from qdialect.ops.fields import Apply, Input, Term
from qdialect.ops.interface import Refusal, is_arithmetic, name_of
from qdialect.support.lazy_numpy import NDArray, np

PIECE: Final = 1 << 15
"""The number of elements in a piece: a few MiB, including intermediate results."""

MOST_ELEMENTS: Final = 1 << 30
"""The maximum size of a tensor that is compared element by element."""

_Leaf: TypeAlias = "ConstantNode | ZerosNode | SymbolNode"
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
    """
    How the elements are read at each level: the first entry is the value itself, the last one
    the leaves.
    """

    stored: NDArray[Any] | None = None
    """
    Their bits, if the leaves are constants and data was requested.

    At padded positions, the bits of the nearest edge.
    """

    symbols: Integers | None = None
    """The symbol that holds each element; None for elements of constants."""

    positions: Positions | None = None
    """The position of each element in its leaf."""

    padding: Integers | None = None
    """
    For each element its index in `paddings`, or -1 if it is not padding; None if there is no
    padding.
    """

    paddings: list[tuple[int, Node | None]] = field(default_factory=list[tuple[int, "Node | None"]])
    """For each padding, the number of casts above it, and its element: None for real zero."""

    unread: NDArray[np.bool_] | None = None
    """A mask of the elements that no constant holds; None if there are none."""

    leaves: list[tuple[_Leaf, Positions]] = field(default_factory=list[tuple[_Leaf, Positions]])
    """The leaves, each with the positions read there."""

    @property
    def moved(self) -> NDArray[np.bool_]:
        """A mask of the elements that are not padding."""
        if self.padding is None:
            return np.ones(self.size, dtype=np.bool_)
        return self.padding < 0

    def numbers_at(self, depth: int) -> NDArray[Any]:
        """
        The numbers below `depth` casts: integers, doubles, or bits.

        For quantized types, these are the stored integers. Raises NotCertifiableError if they
        are not known.
        """
        if self.stored is None:
            raise NotCertifiableError("its elements are not known")
        last = len(self.layers) - 1
        layer = self.layers[last]
        numbers = self._padded(numbers_in(self.stored, layer.element_type), last)
        for at in range(last - 1, depth - 1, -1):
            numbers = self._padded(_cast(numbers, self.layers[at + 1], self.layers[at]), at)
        return numbers

    def readings_at(self, depth: int) -> NDArray[Any]:
        """As `numbers_at`, but quantized integers are dequantized: doubles."""
        return _read(self.numbers_at(depth), self.layers[depth])

    def _padded(self, numbers: NDArray[Any], depth: int) -> NDArray[Any]:
        for number, (at, element) in enumerate(self.paddings):
            if at == depth and self.padding is not None:
                new = np.flatnonzero(self.padding == number)
                if len(new):
                    numbers = numbers.copy()
                    numbers[new] = _padded_with(element, self.layers[at].part(new))
        return numbers


@dataclass
class Group:
    """Requested elements that share one path of casts."""

    where: Positions | None
    """Their indices among the requested positions; None for all, in order."""

    elements: Elements


def _padded_with(element: Node | None, layer: LayerAt) -> NDArray[Any]:
    """The numbers at new positions that `layer` reads: one for all, or one for each."""
    if element is None:
        if _is_number(layer.node):
            return np.zeros(1, dtype=np.int64)
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
        raise NotCertifiableError("the padding element is not quantized")
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
    if below.scales is not None:
        if wanted == cast(UniformQuantizedType, type).expressed_type:
            return _read(numbers, below)
    elif above.scales is not None and above.zero_points is not None and numbers.dtype.kind == "f":
        quantized = cast(UniformQuantizedType, wanted)
        if type == quantized.expressed_type:
            return quantize(numbers, above.scales, above.zero_points, quantized)
    if (computed := _computed(numbers, below, above)) is not None:
        return computed
    op = above.node.cast
    name = "a cast" if op is None else f"'{name_of(op)}'"
    raise NotCertifiableError(f"it is unknown how {name} casts '{type}' to '{wanted}'")


def _computed(numbers: NDArray[Any], below: LayerAt, above: LayerAt) -> NDArray[Any] | None:
    """The numbers that arithmetic computes; None if the layer above is not known arithmetic."""
    node, wanted = above.node, above.element_type
    if isinstance(node, ComputedNode) and isinstance(node.settings, tuple):
        term, main = cast(tuple[Term, int], node.settings)
    else:
        op = node.cast
        is_known = op is not None and is_arithmetic(op)
        converts = conversion(below.element_type, wanted) if is_known else None
        if converts is None:
            return None
        term, main = Apply(converts, (Input(0, below.element_type),), wanted), 0
    inputs = [side.numbers for side in above.sides]
    inputs.insert(main, numbers)
    try:
        computed = np.broadcast_to(values_of(term, inputs), numbers.shape)
    except Refusal as error:
        raise NotCertifiableError(str(error)) from None
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

    def part(self, chosen: Positions, positions: Positions) -> _Request:
        """The request for the chosen elements, at `positions[chosen]` of another node."""
        where = chosen if self.where is None else self.where[chosen]
        return _Request(self.stack, where, positions[chosen])


def elements_at(root: Node, positions: Positions, *, with_data: bool = True) -> Elements:
    """
    Follow the elements at row-major positions of a value.

    Raises NotCertifiableError if they cannot be followed, or do not share one path of casts.
    """
    following = _Following(len(positions), with_data=with_data)
    groups = following.of(root, positions)
    if len(groups) != 1:
        raise NotCertifiableError("its elements are read through different casts")
    (group,) = groups
    return group.elements if group.where is None else following.whole(group.where, group.elements)


def _side_at(node: Node, positions: Positions) -> SideAt:
    """
    The elements of a constant operand of arithmetic, which may be computed.

    Raises NotCertifiableError.
    """
    elements = elements_at(node, positions)
    if elements.layers[0].scales is not None or elements.unread is not None:
        raise NotCertifiableError("an operand of the arithmetic is not a plain constant")
    return SideAt(node.element_type, elements.numbers_at(0))


def groups_at(root: Node, positions: Positions, steps: StepBudget) -> list[Group]:
    """
    Follow the elements at row-major positions of a value, one group per path of casts.

    Padding is followed like another operand where types allow it. Raises NotCertifiableError.
    """
    return _Following(len(positions), steps=steps).of(root, positions)


class _Following:
    """One traversal from a value down to its leaves."""

    def __init__(
        self, size: int, *, with_data: bool = True, steps: StepBudget | None = None
    ) -> None:
        self._size = size
        self._with_data = with_data
        self._steps = steps
        self._layers: dict[_Stack, list[tuple[Positions | None, LayerAt]]] = {}
        self._leaves: dict[_Stack, list[tuple[Positions | None, _Leaf, Positions]]] = {}
        self._padding: Integers | None = None
        self._paddings: list[tuple[int, Node | None]] = []
        self._unread: NDArray[np.bool_] | None = None
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
                    case ConstantNode() | ZerosNode() | SymbolNode():
                        stack = self._add_layer(node, request)
                        leaf = (request.where, node, request.positions)
                        self._leaves.setdefault(stack, []).append(leaf)
                    case CastNode():
                        stack = self._add_layer(node, request)
                        self._ask(node.operand, _Request(stack, request.where, request.positions))
                    case MovedNode():
                        self._move(node, request)
                    case _:
                        raise NotCertifiableError("it is not computed from constants")
        return [self._group(stack) for stack in self._leaves]

    def _ask(self, node: Node, request: _Request) -> None:
        if node.number not in self._requests:
            self._requests[node.number] = {}
            heapq.heappush(self._pending, (-node.number, node))
        self._requests[node.number].setdefault(request.stack, []).append(request)

    def _add_layer(self, node: TypedNode, request: _Request) -> _Stack:
        stack = (*request.stack, node.kind)
        layer = node.layer_at(request.positions)
        if isinstance(node, ComputedNode):
            layer.sides = tuple(_side_at(side, request.positions) for side in node.sides)
        self._layers.setdefault(stack, []).append((request.where, layer))
        return stack

    def _move(self, node: MovedNode, request: _Request) -> None:
        shapes = [operand.shape for operand in node.operands]
        sources = origins(node.movement, shapes, request.positions)
        if sources.is_new is not None and sources.is_new.any():
            source = None if self._steps is None else _padding_source(node)
            if source is not None:
                new = np.flatnonzero(sources.is_new)
                at = (
                    request.positions
                    if source is not node.padding
                    else np.zeros_like(sources.positions)
                )
                self._ask(source, request.part(new, at))
                kept = np.flatnonzero(~sources.is_new)
                if len(kept):
                    self._ask(node.operands[0], request.part(kept, sources.positions))
                return
            self._pad(node, request, sources.is_new)
        if sources.operands is None:
            (operand,) = node.operands
            lower = _Request(request.stack, request.where, sources.positions)
            if operand.size == 0 and len(sources.positions):
                self._leave_unread(request)
                lower = request.part(np.zeros(0, dtype=np.int64), sources.positions)
            self._ask(operand, lower)
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

    def _pad(self, node: MovedNode, request: _Request, is_new: NDArray[np.bool_]) -> None:
        if self._padding is None:
            self._padding = np.full(self._size, -1, dtype=np.int64)
        where = np.arange(self._size) if request.where is None else request.where
        # New positions of a padding above this one are already taken.
        new = where[is_new & (self._padding[where] < 0)]
        self._padding[new] = len(self._paddings)
        self._paddings.append((len(request.stack), node.padding))

    def _leave_unread(self, request: _Request) -> None:
        if self._unread is None:
            self._unread = np.zeros(self._size, dtype=np.bool_)
        self._unread[slice(None) if request.where is None else request.where] = True

    def _group(self, stack: _Stack) -> Group:
        parts = self._leaves[stack]
        where = parts[0][0] if len(parts) == 1 else np.concatenate([_of(part[0]) for part in parts])
        positions = np.concatenate([part[2] for part in parts]) if len(parts) > 1 else parts[0][2]
        elements = Elements(len(positions), positions=positions)
        elements.layers = [self._layer(stack[:depth], where) for depth in range(1, len(stack) + 1)]
        elements.leaves = [(leaf, at) for _, leaf, at in parts]
        if isinstance(parts[0][1], SymbolNode):
            symbols = [
                np.full(len(at), cast(SymbolNode, leaf).symbol, dtype=np.int64)
                for _, leaf, at in parts
            ]
            elements.symbols = np.concatenate(symbols)
        elif self._with_data:
            bits = [cast("ConstantNode | ZerosNode", leaf).bits_at(at) for _, leaf, at in parts]
            elements.stored = bits[0] if len(bits) == 1 else np.concatenate(bits)
        elements.paddings = self._paddings
        chosen = slice(None) if where is None else where
        elements.padding = None if self._padding is None else self._padding[chosen]
        elements.unread = None if self._unread is None else self._unread[chosen]
        return Group(where, elements)

    def whole(self, where: Positions, part: Elements) -> Elements:
        """The elements of a single group at their requested indices; the others are unread."""

        def placed(values: NDArray[Any], otherwise: int) -> NDArray[Any]:
            array = np.full(self._size, otherwise, dtype=values.dtype)
            array[where] = values
            return array

        def placed_layer(layer: LayerAt) -> LayerAt:
            if layer.sides:
                sides = tuple(
                    SideAt(side.element_type, placed(side.numbers, 0)) for side in layer.sides
                )
                return LayerAt(layer.node, None, None, sides)
            if layer.scales is None or layer.zero_points is None:
                return layer
            return LayerAt(layer.node, placed(layer.scales, 1), placed(layer.zero_points, 0))

        return Elements(
            self._size,
            layers=[placed_layer(layer) for layer in part.layers],
            stored=None if part.stored is None else placed(part.stored, 0),
            padding=self._padding,
            paddings=self._paddings,
            unread=self._unread,
            leaves=part.leaves,
        )

    def _layer(self, stack: _Stack, where: Positions | None) -> LayerAt:
        """The layer of the last node of `stack`, for the elements at the indices `where`."""
        parts = self._layers[stack]
        first = parts[0][1]
        if first.scales is None and not first.sides:
            return first
        if len(parts) == 1 and (parts[0][0] is where or parts[0][0] is None):
            return first if parts[0][0] is where or where is None else first.part(where)
        indices = np.concatenate([_of(part[0]) for part in parts])
        at = np.zeros(self._size, dtype=np.int64)
        at[indices] = np.arange(len(indices))
        if first.sides:
            columns = zip(*[layer.sides for _, layer in parts], strict=True)
            joined = LayerAt(first.node, None, None, tuple(map(_joined_side, columns)))
            return joined.part(at[where] if where is not None else at)
        scales = np.concatenate([cast(Doubles, layer.scales) for _, layer in parts])
        zero_points = np.concatenate([cast(Integers, layer.zero_points) for _, layer in parts])
        joined = LayerAt(first.node, scales, zero_points)
        return joined.part(at[where] if where is not None else at)


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
    return _Request(requests[0].stack, where, positions)


def _padding_source(node: MovedNode) -> Node | None:
    """
    The node of `node`'s type that holds new positions: one element, or one per position. None
    if there is none.
    """
    padding = node.padding
    if padding is None:
        is_quantized = isinstance(node.element_type, UniformQuantizedType)
        if (is_quantized and node.slots is None) or not (is_quantized or _is_number(node)):
            return None
        return ZerosNode(shape=node.shape, element_type=node.element_type, slots=node.slots)
    if padding.size != 1 or not stores_the_same(padding.element_type, node.element_type):
        return None
    if not isinstance(node.element_type, UniformQuantizedType):
        return padding
    slots = getattr(padding, "slots", None)
    is_alike = node.slots is not None and node.slots.is_one_for_all([slots])
    return padding if is_alike else None


def _is_number(node: Node) -> bool:
    return isinstance(node.element_type, AnyFloat | IntegerType)


def pads_with_quantized(node: MovedNode) -> bool:
    """Whether the op of `node` pads with an element that must be requantized to the slots there."""
    if not isinstance(node.element_type, UniformQuantizedType):
        return False
    moved: Node = node
    # Of the movements of an op, only the last node has slots: those of the declared type.
    while isinstance(moved, MovedNode) and (moved is node or moved.slots is None):
        if isinstance(moved.movement, PadWith) and moved.padding is not None:
            return _padding_source(moved) is None
        moved = moved.operands[0]
    return False
