"""Two values compared element by element, in pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from qdialect.certificates.index_maps import (
    NotCertifiableError,
    index_at,
)
from qdialect.certificates.readings import differ
from qdialect.certificates.value_graph import (
    CastNode,
    ConstantNode,
    Elements,
    LayerAt,
    MovedNode,
    Node,
    elements_at,
    pieces_of,
)
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.lazy_numpy import np
from qdialect.movement import Pad
from qdialect.shape_op_interface import name_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Difference(NamedTuple):
    """What is not the same, first of all."""

    element: tuple[int, ...] | None
    """The index of the element; None if it is so of all."""

    before: str
    after: str


def first_difference(before: Node, after: Node, *, with_data: bool) -> Difference | None:
    """
    The first element that is not stored, or not read, in `after` as in `before`.

    Without data only what elements are read with is compared. Raises NotCertifiableError if
    that cannot be told.
    """
    if before.shape != after.shape:
        return Difference(None, f"{list(before.shape)}", f"its shape is {list(after.shape)}")
    if are_alike(before, after):
        return None
    for positions in pieces_of(before.size):
        old = elements_at(before, positions, with_data=with_data)
        new = elements_at(after, positions, with_data=with_data)
        if (difference := _other_layers(old, new)) is not None:
            return difference
        wrong = _wrong(old, new, with_data=with_data)
        if wrong.any():
            return _described(before, after, int(positions[np.argmax(wrong)]), with_data)
    return None


def _wrong(before: Elements, after: Elements, *, with_data: bool) -> NDArray[np.bool_]:
    wrong = _wrong_slots(before, after)
    return wrong | _wrong_values(before, after) if with_data else wrong


def are_alike(before: Node, after: Node) -> bool:
    """Whether every element is known to be the same one in both, wherever it comes from."""
    kinds, (new, *others) = _kinds_of(before), _kinds_of(after) or (None,)
    if not kinds or new is None or others:
        return False
    return all(
        _other_layers(old, new) is None and not _wrong(old, new, with_data=True).any()
        for old in kinds
    )


def _kinds_of(root: Node) -> list[Elements]:
    """
    One element for each that there can be: that of constants that are splats, and padding.

    An empty list where constants hold several, or read them in several ways.
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
        if not isinstance(node, CastNode | ConstantNode) or not node.size:
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
        *(Elements(1, read, stored, new, [padding]) for padding in paddings),
    ]


def _other_layers(before: Elements, after: Elements) -> Difference | None:
    """What elements are read through, if that is not the same."""
    casts = [
        [f"'{name_of(layer.op)}'" for layer in of.layers if not layer.is_constant]
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
    return wrong if before.unread is None else wrong & ~before.unread


def _wrong_values(before: Elements, after: Elements) -> NDArray[np.bool_]:
    assert before.stored is not None
    assert after.stored is not None
    wrong = before.moved & differ(before.stored, after.stored)
    padded = {depth for depth, _ in before.paddings}
    for depth in {0, *padded}:
        try:
            wrong |= differ(before.readings_at(depth), after.readings_at(depth))
        except NotCertifiableError:
            # Behind a cast that nothing is known of, the same is read of the same.
            if depth in padded:
                raise
    return wrong


def _described(before: Node, after: Node, position: int, with_data: bool) -> Difference:
    at = np.array([position], dtype=np.int64)
    old = elements_at(before, at, with_data=with_data)
    new = elements_at(after, at, with_data=with_data)
    return Difference(
        tuple(index_at(position, before.shape)),
        f"{_origin(old)} {_reading(old)}",
        _reading(new),
    )


def _reading(elements: Elements) -> str:
    """What one element is read as, as far as that is known."""
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
    """Where one element comes from."""
    if not elements.moved.all():
        return "the padding there"
    for leaf, positions in elements.leaves:
        if len(positions):
            name = leaf.op.results[0].name_hint
            of = f"'{name_of(leaf.op)}'" if name is None else f"%{name}"
            return f"element {index_at(int(positions[0]), leaf.shape)} of {of}"
    return "what it is made of"
