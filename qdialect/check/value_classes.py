"""
Comparing two values element by element, and classes of equal values across two modules.

Values are equal if the same op computes them from equal values (congruence), or if all their
elements are equal: the same number, or the same element of the same symbol through the same
casts.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeAlias, cast

from qdialect.algebra.padding import Pad
from qdialect.check.followed_elements import (
    Elements,
    Group,
    elements_at,
    groups_at,
    keeps_bits,
    pieces_of,
    sample_positions,
)
from qdialect.check.index_maps import (
    NotCertifiableError,
    Positions,
    index_at,
)
from qdialect.check.step_budget import StepBudget, StepLimitError
from qdialect.check.value_nodes import (
    CastNode,
    ComputedNode,
    ConstantNode,
    LayerAt,
    MovedNode,
    Node,
    SymbolNode,
    differ,
    storage_of,
)
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.ir.rewriting import dependencies_first
from qdialect.ops.interface import name_of
from qdialect.support.lazy_numpy import NDArray, np


class Difference(NamedTuple):
    """The first difference of two values."""

    element: tuple[int, ...] | None
    """The index of the element; None if all elements differ in this way."""

    before: str
    after: str


def first_difference(before: Node, after: Node, *, with_data: bool) -> Difference | None:
    """
    The first element that is stored or dequantized differently in `after` than in `before`.

    Without data, only scales and zero points are compared. Raises NotCertifiableError if the
    comparison is not possible.
    """
    if before.shape != after.shape:
        return Difference(None, f"{list(before.shape)}", f"its shape is {list(after.shape)}")
    are_equal = _are_same_everywhere(before, after)
    if are_equal:
        return None
    # If all positions have the same wrong element, comparing the first one is enough.
    is_first_enough = are_equal is not None and with_data
    if not is_first_enough:
        _check_steps(before, after)
    first = np.zeros(1, dtype=np.int64)
    for positions in [first] if is_first_enough else pieces_of(before.size):
        old = elements_at(before, positions, with_data=with_data)
        new = elements_at(after, positions, with_data=with_data)
        if (difference := _other_layers(old, new)) is not None:
            return difference
        wrong = _wrong(old, new, with_data=with_data)
        if wrong.any():
            return _described(before, after, int(positions[np.argmax(wrong)]), with_data=with_data)
    return None


_FREE_STEPS: Final = 1 << 29
_STEPS_PER_ELEMENT: Final = 1 << 8
"""Additional steps allowed per element of the constants in `before`."""


def _check_steps(before: Node, after: Node) -> None:
    """Raise NotCertifiableError if the comparison takes more steps than allowed for `before`."""
    old, new = nodes_of(before), nodes_of(after)
    elements = sum(len(node.elements) for node in old if isinstance(node, ConstantNode))
    steps = before.size * (len(old) + len(new))
    allowed = _FREE_STEPS + _STEPS_PER_ELEMENT * elements
    if steps > allowed:
        raise NotCertifiableError(f"it would take {steps} steps, and {allowed} are allowed")


def nodes_of(root: Node) -> Collection[Node]:
    """All nodes of the graph of a value, including the value's own."""
    nodes, pending = dict[int, Node](), [root]
    while pending:
        node = pending.pop()
        if node.number not in nodes:
            nodes[node.number] = node
            if isinstance(node, MovedNode):
                pending += node.operands
            elif isinstance(node, CastNode):
                pending.append(node.operand)
                pending += node.sides if isinstance(node, ComputedNode) else ()
    return nodes.values()


def _wrong(before: Elements, after: Elements, *, with_data: bool) -> NDArray[np.bool_]:
    wrong = _wrong_slots(before, after)
    return wrong | _wrong_values(before, after) if with_data else wrong


def _are_same_everywhere(before: Node, after: Node) -> bool | None:
    """
    Whether all elements are equal, if each value has the same element at all positions.

    None if a value may have several elements.
    """
    olds, news = elements_anywhere(before), elements_anywhere(after)
    if not olds or len(news) != 1:
        return None
    if all(_are_same(old, news[0]) for old in olds):
        return True
    return False if len(olds) == 1 and before.size else None


def _are_same(old: Elements, new: Elements) -> bool:
    return _other_layers(old, new) is None and not _wrong(old, new, with_data=True).any()


def elements_anywhere(root: Node) -> list[Elements]:
    """
    The elements that may occur in a value whose constants are splats: the splat and the padding.

    An empty list if constants hold several elements, or are read with several slots.
    """
    layers, paddings = dict[int, LayerAt](), list[tuple[int, Node | None]]()
    stored: NDArray[Any] | None = None
    first, pending, seen = np.zeros(1, dtype=np.int64), [(root, 0)], set[tuple[int, int]]()
    while pending:
        node, depth = pending.pop()
        if (node.number, depth) in seen:
            continue
        seen.add((node.number, depth))
        if isinstance(node, MovedNode):
            pending += [(operand, depth) for operand in node.operands]
            if isinstance(node.movement, Pad):
                paddings.append((depth, node.padding))
            continue
        if isinstance(node, ComputedNode) or not isinstance(node, CastNode | ConstantNode):
            return []
        if not node.size:
            return []
        if node.slots is not None and len(node.slots.scales) > 1:
            return []
        layer = node.layer_at(first)
        known = layers.setdefault(depth, layer)
        if not layer.is_same_as(known):
            return []
        if isinstance(node, CastNode):
            pending.append((node.operand, depth + 1))
            continue
        bits = node.bits_at(first)
        if len(node.elements) > 1 or (stored is not None and differ(stored, bits).any()):
            return []
        stored = bits
    read = [layers[depth] for depth in sorted(layers)]
    new = np.zeros(1, dtype=np.int64)
    return [
        Elements(1, read, stored),
        *(Elements(1, read, stored, padding=new, paddings=[padding]) for padding in paddings),
    ]


def _other_layers(before: Elements, after: Elements) -> Difference | None:
    """The difference of casts or element types through which elements are read; None if equal."""
    casts = [
        [f"'{name_of(layer.node.cast)}'" for layer in side.layers if layer.node.cast is not None]
        for side in (before, after)
    ]
    if casts[0] != casts[1]:
        texts = [" of ".join(names) or "no cast" for names in casts]
        return Difference(None, f"through {texts[0]}", f"it is read through {texts[1]}")
    for old, new in zip(before.layers, after.layers, strict=True):
        try:
            new.require_same(old)
        except NotCertifiableError:
            types = f"'{old.element_type}'", f"there are elements of type '{new.element_type}'"
            return Difference(None, *types)
    return None


def _wrong_slots(before: Elements, after: Elements) -> NDArray[np.bool_]:
    wrong = np.zeros(before.size, dtype=np.bool_)
    for old, new in zip(before.layers, after.layers, strict=True):
        if old.scales is not None and new.scales is not None:
            wrong |= differ(old.scales, new.scales)
        if old.zero_points is not None and new.zero_points is not None:
            wrong |= differ(old.zero_points, new.zero_points)
        wrong |= old.other_sides(new)
    return wrong if before.unread is None else wrong & ~before.unread


def _wrong_values(before: Elements, after: Elements) -> NDArray[np.bool_]:
    assert before.stored is not None
    assert after.stored is not None
    wrong = before.moved & differ(before.stored, after.stored)
    padded = {depth for depth, _ in before.paddings}
    # Equal arithmetic on equal elements gives equal results.
    is_computed = any([layer.sides for layer in before.layers])
    for depth in padded if is_computed and not padded else {0, *padded}:
        try:
            wrong |= differ(before.readings_at(depth), after.readings_at(depth))
        except NotCertifiableError:
            # Through an unknown cast, equal elements are read as equal.
            if depth in padded:
                raise
    return wrong


def _described(before: Node, after: Node, position: int, *, with_data: bool) -> Difference:
    at = np.array([position], dtype=np.int64)
    old = elements_at(before, at, with_data=with_data)
    new = elements_at(after, at, with_data=with_data)
    return Difference(
        tuple(index_at(position, before.shape)),
        f"{_origin(old)} {_reading(old)}",
        _reading(new),
    )


def _reading(elements: Elements) -> str:
    """The text for the number that an element is dequantized to, as far as it is known."""
    slots = "; ".join(
        f"scale {layer.scales.item():.6e}, zero point {layer.zero_points.item()}"
        for layer in elements.layers
        if layer.scales is not None and layer.zero_points is not None
    )
    if elements.stored is None:
        return f"is read with {slots}"
    try:
        number: Any = elements.readings_at(0).item()
    except NotCertifiableError:
        number = "something unknown"
    stored: Any = None
    if elements.moved.all():
        stored = elements.numbers_at(len(elements.layers) - 1).item()
    details = "; ".join(filter(None, ("padded" if stored is None else f"stored {stored}", slots)))
    is_stored = len(elements.layers) == 1 and not isinstance(
        elements.layers[0].element_type, UniformQuantizedType
    )
    return f"is {number}" if is_stored else f"is read as {number} ({details})"


def _origin(elements: Elements) -> str:
    """The text for the source of an element."""
    if not elements.moved.all():
        return "the padding there"
    for leaf, positions in elements.leaves:
        if len(positions):
            return f"element {index_at(int(positions[0]), leaf.shape)} of {leaf_name(leaf)}"
    return "its source"


def leaf_name(leaf: Node) -> str:
    """The name of a leaf in messages."""
    if isinstance(leaf, SymbolNode):
        return leaf.text
    if not isinstance(leaf, ConstantNode):
        return "the zero points"
    name = leaf.op.results[0].name_hint
    return f"'{name_of(leaf.op)}'" if name is None else f"%{name}"


_Fingerprint: TypeAlias = Hashable


@dataclass
class _Bucket:
    """Representatives of the classes of values of one type."""

    unseen: list[tuple[Node, int]] = field(default_factory=list[tuple[Node, int]])
    """
    Values whose fingerprints have not been computed, as no other value was compared with them.
    """

    by_fingerprint: dict[_Fingerprint, list[tuple[Node, int]]] = field(
        default_factory=dict[_Fingerprint, list[tuple[Node, int]]]
    )


class ValueClasses:
    """Assigns numbers to values; values with the same number are equal."""

    def __init__(self, steps: StepBudget) -> None:
        self._steps = steps
        self._keys: dict[Hashable, int] = {}
        self._structures: dict[int, int] = {}
        """The number of each node's structure, by the number of the node."""
        self._by_structure: dict[tuple[int, int], int] = {}
        self._buckets: dict[tuple[int, tuple[int, ...]], _Bucket] = {}

    def number(self, key: Hashable) -> int:
        """The unique number of a key."""
        return self._keys.setdefault(key, len(self._keys))

    def add_symbol(self, node: SymbolNode, type_number: int) -> None:
        """Make a symbol a candidate for equality with other values of the type."""
        known = node.symbol, type_number
        if node.size and known not in self._by_structure:
            self._by_structure[known] = node.symbol
            self._bucket(node, type_number).unseen.append((node, node.symbol))

    def class_of(self, node: Node, type_number: int) -> int:
        """The class of a value whose type has the number `type_number`. Raises StepLimitError."""
        if isinstance(node, SymbolNode):
            return node.symbol
        key = self._structure_of(node), type_number
        if (known := self._by_structure.get(key)) is None:
            known = self._by_structure[key] = self._class_of(node, type_number)
        return known

    def _class_of(self, node: Node, type_number: int) -> int:
        if not node.size:
            return self.number(("no elements", type_number))
        bucket = self._bucket(node, type_number)
        if not bucket.unseen and not bucket.by_fingerprint:
            number = self.number(("value", node.number))
            bucket.unseen.append((node, number))
            return number
        for other in bucket.unseen:
            bucket.by_fingerprint.setdefault(self._fingerprint(other[0]), []).append(other)
        bucket.unseen.clear()
        alike = bucket.by_fingerprint.setdefault(self._fingerprint(node), [])
        for other, number in alike:
            if self._are_equal(node, other):
                return number
        number = self.number(("value", node.number))
        alike.append((node, number))
        return number

    def _bucket(self, node: Node, type_number: int) -> _Bucket:
        return self._buckets.setdefault((type_number, node.shape), _Bucket())

    def _are_equal(self, one: Node, other: Node) -> bool:
        try:
            return unequal_element(one, other, self._steps) is None
        except StepLimitError:
            raise
        except NotCertifiableError:
            return False

    def _fingerprint(self, node: Node) -> _Fingerprint:
        """A fingerprint from sampled elements: equal values have equal fingerprints."""
        keys: dict[int, Hashable] = {}
        try:
            for group in groups_at(node, sample_positions(node.size), self._steps):
                where = range(group.elements.size) if group.where is None else group.where.tolist()
                keys.update(zip(where, _element_keys(group.elements), strict=True))
        except StepLimitError:
            raise
        except NotCertifiableError:
            return node.number
        return tuple(sorted(keys.items(), key=lambda item: item[0]))

    def _structure_of(self, node: Node) -> int:
        for operand in dependencies_first([node], self._unknown_operands):
            if operand.number not in self._structures:
                self._structures[operand.number] = self._structure(operand)
        return self._structures[node.number]

    def _unknown_operands(self, node: Node) -> Iterator[Node]:
        operands: Sequence[Node] = ()
        if isinstance(node, CastNode):
            operands = (node.operand, *(node.sides if isinstance(node, ComputedNode) else ()))
        elif isinstance(node, MovedNode):
            operands = node.operands if node.padding is None else (*node.operands, node.padding)
        return (operand for operand in operands if operand.number not in self._structures)

    def _structure(self, node: Node) -> int:
        match node:
            case SymbolNode():
                return node.symbol
            case ConstantNode():
                elements = np.ascontiguousarray(node.elements)
                content = (
                    elements.tobytes() if elements.nbytes <= 64 else blake2b(elements.data).digest()
                )
                key = ("constant", node.shape, str(elements.dtype), node.held_type, content)
                return self.number((*key, node.element_type))
            case CastNode():
                operand = self._structures[node.operand.number]
                key = node.kind, node.element_type, operand
                if isinstance(node, ComputedNode):
                    sides = tuple(self._structures[side.number] for side in node.sides)
                    return self.number((*key, sides))
                return self.number(key)
            case MovedNode():
                operands = tuple(self._structures[operand.number] for operand in node.operands)
                padding = None if node.padding is None else self._structures[node.padding.number]
                element_type = storage_of(node.element_type)
                return self.number(("moved", node.movement, operands, padding, element_type))
            case _:
                return self.number(("node", node.number))


def unequal_element(before: Node, after: Node, steps: StepBudget) -> int | None:
    """
    The row-major position of the first element that is not shown to be the same.

    None if all are the same. Both values have the same shape, and types that mean the same.
    Raises NotCertifiableError if elements cannot be followed.
    """
    if (are_equal := _alike_elements(before, after)) is not None:
        return None if are_equal else 0
    for positions in pieces_of(before.size):
        wrong = _unequal(
            len(positions), groups_at(before, positions, steps), groups_at(after, positions, steps)
        )
        if wrong.any():
            return int(positions[np.argmax(wrong)])
    return None


def _alike_elements(before: Node, after: Node) -> bool | None:
    """
    Whether all elements are equal, for values with one element (or padding) at all positions;
    None if undecided.
    """
    olds, news = elements_anywhere(before), elements_anywhere(after)
    if not olds or len(news) != 1:
        return None
    try:
        are_equal = not any(_unequal_in_group(old, news[0]).any() for old in olds)
    except NotCertifiableError:
        return None
    return are_equal if are_equal or len(olds) == 1 else None


def _unequal(size: int, befores: list[Group], afters: list[Group]) -> NDArray[np.bool_]:
    """A mask of the elements, `size` in all, that are not shown to be the same."""
    wrong = np.ones(size, dtype=np.bool_)
    for before in befores:
        for after in afters:
            if before.where is None and after.where is None:
                return _unequal_in_group(before.elements, after.elements)
            at_before, at_after = _indices(before, size), _indices(after, size)
            both = np.flatnonzero((at_before >= 0) & (at_after >= 0))
            if len(both):
                old = _part(before.elements, at_before[both])
                new = _part(after.elements, at_after[both])
                wrong[both] = _unequal_in_group(old, new)
    return wrong


def _indices(group: Group, size: int) -> NDArray[np.int64]:
    """For each requested element, its index in the group, or -1."""
    if group.where is None:
        return np.arange(size, dtype=np.int64)
    indices = np.full(size, -1, dtype=np.int64)
    indices[group.where] = np.arange(len(group.where))
    return indices


def _part(elements: Elements, chosen: Positions) -> Elements:
    def of(array: NDArray[Any] | None) -> NDArray[Any] | None:
        return None if array is None else array[chosen]

    return Elements(
        len(chosen),
        layers=[layer.part(chosen) for layer in elements.layers],
        stored=of(elements.stored),
        symbols=of(elements.symbols),
        positions=of(elements.positions),
        padding=of(elements.padding),
        paddings=elements.paddings,
        unread=of(elements.unread),
    )


def _unequal_in_group(before: Elements, after: Elements) -> NDArray[np.bool_]:
    numbers = _numbers(before), _numbers(after)
    if numbers[0] is not None and numbers[1] is not None:
        return differ(numbers[0], numbers[1])
    terms = _term(before), _term(after)
    if terms[0].head != terms[1].head:
        return np.ones(before.size, dtype=np.bool_)
    wrong = np.zeros(before.size, dtype=np.bool_)
    for old, new in zip(terms[0].arrays, terms[1].arrays, strict=True):
        wrong |= differ(old, new)
    return wrong


def _numbers(elements: Elements) -> NDArray[Any] | None:
    """The numbers of elements; None if they are not known."""
    if elements.symbols is not None:
        return None
    try:
        return elements.numbers_at(0)
    except NotCertifiableError:
        return None


@dataclass
class _Term:
    """
    Elements as terms: casts of elements of leaves. Equal if the heads and all arrays are equal.
    """

    head: Hashable
    arrays: list[NDArray[Any]]


def _term(elements: Elements) -> _Term:
    """The terms of elements. Raises NotCertifiableError if some of them are unknown padding."""
    if not elements.moved.all():
        raise NotCertifiableError("its padding element is unknown")
    heads: list[Hashable] = []
    arrays: list[NDArray[Any]] = []
    if elements.symbols is not None:
        assert elements.positions is not None
        heads.append("symbol")
        arrays += [elements.symbols, elements.positions]
    else:
        assert elements.stored is not None
        heads.append("stored")
        arrays.append(elements.stored)
    for above, below in zip(elements.layers, elements.layers[1:], strict=False):
        # A storage cast changes neither the bits nor the result of the cast above.
        if not keeps_bits(below, above):
            kinds = tuple(side.element_type for side in above.sides)
            heads.append((above.node.kind, storage_of(below.element_type), kinds))
            arrays += [*_slots(below), *_slots(above), *(side.numbers for side in above.sides)]
    return _Term(tuple(heads), arrays)


def _slots(layer: LayerAt) -> list[NDArray[Any]]:
    if layer.scales is None or layer.zero_points is None:
        return []
    return [layer.scales, layer.zero_points]


def _element_keys(elements: Elements) -> Iterator[Hashable]:
    """A key for each element."""
    if (numbers := _numbers(elements)) is not None:
        yield from (("number", key) for key in _bits(numbers))
        return
    term = _term(elements)
    rows = zip(*map(_bits, term.arrays), strict=True)
    yield from ((term.head, row) for row in rows)


def _bits(array: NDArray[Any]) -> list[Any]:
    array = np.ascontiguousarray(array)
    if array.dtype.kind == "f":
        return cast("list[Any]", array.view(np.int64).tolist())
    if array.dtype.kind in "iu":
        return cast("list[Any]", array.tolist())
    return [element.tobytes() for element in array]
