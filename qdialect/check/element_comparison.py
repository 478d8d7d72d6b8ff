"""Comparing two values element by element, in pieces."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from qdialect.algebra.padding import Pad
from qdialect.check.dequantize import differ
from qdialect.check.followed_elements import Elements, elements_at, pieces_of
from qdialect.check.index_maps import (
    NotCertifiableError,
    index_at,
)
from qdialect.check.value_nodes import (
    CastNode,
    ComputedNode,
    ConstantNode,
    LayerAt,
    MovedNode,
    Node,
    SymbolNode,
)
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.ops.interface import name_of
from qdialect.support.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
    are_equal = _alike_elements(before, after)
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
    held = sum(len(node.elements) for node in old if isinstance(node, ConstantNode))
    steps = before.size * (len(old) + len(new))
    allowed = _FREE_STEPS + _STEPS_PER_ELEMENT * held
    if steps > allowed:
        raise NotCertifiableError(f"it would take {steps} steps, and {allowed} are allowed")


def nodes_of(root: Node) -> Collection[Node]:
    """All nodes of the graph of a value, including the value's own."""
    found, pending = dict[int, Node](), [root]
    while pending:
        node = pending.pop()
        if node.number not in found:
            found[node.number] = node
            if isinstance(node, MovedNode):
                pending += node.operands
            elif isinstance(node, CastNode):
                pending.append(node.operand)
                pending += node.sides if isinstance(node, ComputedNode) else ()
    return found.values()


def _wrong(before: Elements, after: Elements, *, with_data: bool) -> NDArray[np.bool_]:
    wrong = _wrong_slots(before, after)
    return wrong | _wrong_values(before, after) if with_data else wrong


def _alike_elements(before: Node, after: Node) -> bool | None:
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
        [f"'{name_of(layer.node.cast)}'" for layer in of.layers if layer.node.cast is not None]
        for of in (before, after)
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
