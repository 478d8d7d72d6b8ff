"""
Comparing two values element by element, and classes of equal values across two modules.

Values are equal if the same op computes them from equal values (congruence), or if all their
elements are equal: the same number, or the same element of the same symbol through the same
casts.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeAlias, cast

from qdialect.algebra.padding import Pad
from qdialect.check.followed_elements import (
    Elements,
    Group,
    PaddingNode,
    element_at,
    groups_at,
    keeps_bits,
    padding_of,
    pieces_of,
    sample_positions,
)
from qdialect.check.index_maps import NotCertifiableError, index_at
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
    numbers_in,
    operands_of,
    storage_of,
)
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
    comparison is not possible, or takes more steps than the constants of `before` allow.
    """
    if before.shape != after.shape:
        return Difference(None, f"{list(before.shape)}", f"its shape is {list(after.shape)}")
    steps = StepBudget(_FREE_STEPS + _STEPS_PER_ELEMENT * _elements_of(before), "it")
    position = unequal_element(before, after, steps, _unequal_as_stored, with_data=with_data)
    if position is None:
        return None
    old, new = (element_at(node, position, with_data=with_data) for node in (before, after))
    if not old.is_padding and (difference := _other_layers(old, new)) is not None:
        return difference
    index = tuple(index_at(position, before.shape))
    return Difference(index, f"{_origin(old)} {_reading(old)}", _reading(new))


_FREE_STEPS: Final = 1 << 29
_STEPS_PER_ELEMENT: Final = 1 << 8
"""Additional steps allowed per element of the constants in `before`."""


def _elements_of(root: Node) -> int:
    """The number of elements in the constants that a value is computed from."""
    nodes = dependencies_first([root], operands_of)
    return sum(len(node.elements) for node in nodes if isinstance(node, ConstantNode))


def _unequal_as_stored(old: Elements, new: Elements) -> NDArray[np.bool_]:
    """
    A mask of the elements that are read through other casts, or stored in other bits or slots.

    Padding is compared as numbers.
    """
    if _other_layers(old, new) is not None:
        if not old.is_padding:
            return np.ones(old.size, dtype=np.bool_)
        # Without data, nothing is known of it.
        wrong = np.zeros(old.size, dtype=np.bool_)
        return wrong if old.stored is None else differ(old.numbers(), new.numbers())
    wrong = np.zeros(old.size, dtype=np.bool_)
    if old.stored is not None and new.stored is not None:
        wrong |= differ(old.stored, new.stored)
    for one, other in zip(old.layers, new.layers, strict=True):
        wrong |= one.other_sides(other)
        for array, another in zip(one.slots, other.slots, strict=True):
            wrong |= differ(array, another)
    return wrong


def elements_anywhere(root: Node) -> list[Elements]:
    """
    The elements that may occur in a value whose leaves have one element each.

    An empty list if a leaf has several elements or slots, or unknown ones.
    """
    elements = dict[tuple[object, ...], Elements]()
    first, seen = np.zeros(1, dtype=np.int64), set[tuple[object, ...]]()
    pending: list[tuple[Node, tuple[object, ...], list[LayerAt]]] = [(root, (), [])]
    while pending:
        node, path, layers = pending.pop()
        if (node.number, *path) in seen or not node.size:
            continue
        seen.add((node.number, *path))
        if isinstance(node, MovedNode):
            pending += [(operand, path, layers) for operand in node.operands]
            if isinstance(node.movement, Pad):
                pending.append((padding_of(node), path, layers))
            continue
        is_one = isinstance(node, CastNode | ConstantNode | PaddingNode)
        if not is_one or isinstance(node, ComputedNode):
            return []
        if node.slots is not None and len(node.slots.scales) > 1:
            return []
        try:
            layer = node.layer_at(first)
            path = (*path, node.kind, *(slots.item() for slots in layer.slots))
            if isinstance(node, CastNode):
                pending.append((node.operand, path, [*layers, layer]))
                continue
            bits = node.bits_at(first)
        except NotCertifiableError:
            return []
        if isinstance(node, ConstantNode) and len(node.elements) > 1:
            return []
        one = Elements(1, [*layers, layer], bits, leaves=[(node, first)])
        elements[*path, bits.tobytes()] = one
    return list(elements.values())


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


def _reading(elements: Elements) -> str:
    """The text for the number that an element is dequantized to, as far as it is known."""
    slots = "; ".join(
        f"scale {layer.slots[0].item():.6e}, zero point {layer.slots[1].item()}"
        for layer in elements.layers
        if layer.slots
    )
    if elements.stored is None:
        return f"is read with {slots}"
    try:
        number: Any = elements.readings().item()
    except NotCertifiableError:
        number = "something unknown"
    if len(elements.layers) == 1 and not slots:
        return f"is {number}"
    stored: Any = numbers_in(elements.stored, elements.layers[-1].element_type).item()
    return f"is read as {number} ({'; '.join(filter(None, (f'stored {stored}', slots)))})"


def _origin(elements: Elements) -> str:
    """The text for the source of an element."""
    if elements.is_padding:
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
        return "the padding"
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
        return (operand for operand in operands_of(node) if operand.number not in self._structures)

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


def unequal_as_terms(before: Elements, after: Elements) -> NDArray[np.bool_]:
    """A mask of the elements that are not the same number, or element of a symbol through casts."""
    numbers = _numbers(before), _numbers(after)
    if numbers[0] is not None and numbers[1] is not None:
        return differ(numbers[0], numbers[1])
    (head, olds), (other_head, news) = _term(before), _term(after)
    if head != other_head:
        return np.ones(before.size, dtype=np.bool_)
    wrong = np.zeros(before.size, dtype=np.bool_)
    for old, new in zip(olds, news, strict=True):
        wrong |= differ(old, new)
    return wrong


def _numbers(elements: Elements) -> NDArray[Any] | None:
    """The numbers of elements; None if they are not known."""
    if elements.symbols is not None:
        return None
    try:
        return elements.numbers()
    except NotCertifiableError:
        return None


def _term(elements: Elements) -> tuple[Hashable, list[NDArray[Any]]]:
    """
    Elements as terms: casts of elements of leaves. Equal if the heads and all arrays are equal.
    """
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
            arrays += [*below.slots, *above.slots, *(side.numbers for side in above.sides)]
    return tuple(heads), arrays


Unequal: TypeAlias = Callable[[Elements, Elements], "NDArray[np.bool_]"]
"""Makes a mask of the elements that are not shown to be the same."""


def unequal_element(
    before: Node,
    after: Node,
    steps: StepBudget,
    unequal: Unequal = unequal_as_terms,
    *,
    with_data: bool = True,
) -> int | None:
    """
    The row-major position of the first element that is not shown to be the same.

    None if all are the same. Both values have the same shape, and types that mean the same.
    Raises NotCertifiableError if elements cannot be followed.
    """
    if (are_equal := _alike_elements(before, after, unequal)) is not None:
        return None if are_equal else 0
    for positions in pieces_of(before.size):
        befores, afters = (
            groups_at(node, positions, steps, with_data=with_data) for node in (before, after)
        )
        wrong = _unequal(len(positions), befores, afters, unequal)
        if wrong.any():
            return int(positions[np.argmax(wrong)])
    return None


def _alike_elements(before: Node, after: Node, unequal: Unequal) -> bool | None:
    """
    Whether all elements are equal, for values with one element (or padding) at all positions;
    None if undecided.
    """
    olds, news = elements_anywhere(before), elements_anywhere(after)
    if not olds or len(news) != 1:
        return None
    try:
        are_equal = not any(unequal(old, news[0]).any() for old in olds)
    except NotCertifiableError:
        return None
    return are_equal if are_equal or len(olds) == 1 else None


def _unequal(
    size: int, befores: list[Group], afters: list[Group], unequal: Unequal
) -> NDArray[np.bool_]:
    """A mask of the elements, `size` in all, that are not shown to be the same."""
    wrong = np.ones(size, dtype=np.bool_)
    for before in befores:
        for after in afters:
            if before.where is None and after.where is None:
                return unequal(before.elements, after.elements)
            at_before, at_after = _indices(before, size), _indices(after, size)
            both = np.flatnonzero((at_before >= 0) & (at_after >= 0))
            if len(both):
                old = before.elements.part(at_before[both])
                wrong[both] = unequal(old, after.elements.part(at_after[both]))
    return wrong


def _indices(group: Group, size: int) -> NDArray[np.int64]:
    """For each requested element, its index in the group, or -1."""
    if group.where is None:
        return np.arange(size, dtype=np.int64)
    indices = np.full(size, -1, dtype=np.int64)
    indices[group.where] = np.arange(len(group.where))
    return indices


def _element_keys(elements: Elements) -> Iterator[Hashable]:
    """A key for each element."""
    if (numbers := _numbers(elements)) is not None:
        yield from (("number", key) for key in _bits(numbers))
        return
    head, arrays = _term(elements)
    yield from ((head, row) for row in zip(*map(_bits, arrays), strict=True))


def _bits(array: NDArray[Any]) -> list[Any]:
    array = np.ascontiguousarray(array)
    if array.dtype.kind == "f":
        return cast("list[Any]", array.view(np.int64).tolist())
    if array.dtype.kind in "iu":
        return cast("list[Any]", array.tolist())
    return [element.tobytes() for element in array]
