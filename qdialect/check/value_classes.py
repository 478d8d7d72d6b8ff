"""
Classes of equal values across two modules.

Values are equal if the same op computes them from equal values (congruence), or if all their
elements are equal: the same number, or the same element of the same symbol through the same
casts.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from qdialect.check.attribute_keys import sample_positions
from qdialect.check.dequantize import differ
from qdialect.check.element_comparison import elements_anywhere
from qdialect.check.followed_elements import (
    Elements,
    Group,
    groups_at,
    keeps_bits,
    pieces_of,
)
from qdialect.check.index_maps import NotCertifiableError, Positions
from qdialect.check.step_budget import StepBudget, StepLimitError
from qdialect.check.value_nodes import (
    CastNode,
    ComputedNode,
    ConstantNode,
    LayerAt,
    MovedNode,
    Node,
    SymbolNode,
    storage_of,
)
from qdialect.ir.ordering import dependencies_first
from qdialect.support.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
        made = self._structure_of(node), type_number
        if (known := self._by_structure.get(made)) is None:
            known = self._by_structure[made] = self._class_of(node, type_number)
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
        for each in dependencies_first([node], self._unknown_operands):
            if each.number not in self._structures:
                self._structures[each.number] = self._structure(each)
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
                held = np.ascontiguousarray(node.elements)
                content = held.tobytes() if held.nbytes <= 64 else blake2b(held.data).digest()
                key = ("constant", node.shape, str(held.dtype), node.held_type, content)
                return self.number((*key, node.element_type))
            case CastNode():
                operand = self._structures[node.operand.number]
                key = node.kind, node.element_type, operand
                if isinstance(node, ComputedNode):
                    sides = tuple(self._structures[side.number] for side in node.sides)
                    return self.number((*key, sides))
                return self.number(key)
            case MovedNode():
                operands = tuple(self._structures[each.number] for each in node.operands)
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
