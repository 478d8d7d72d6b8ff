"""
The nodes of a value graph: how a value is made of constants, casts, shape ops and symbols.

A symbol is a value of which nothing is known but which other values are equal to it: an
argument, or the result of an op that no model describes.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any

from typing_extensions import override
from xdsl.ir import Attribute, Operation

from qdialect.algebra.lazy_numpy import np
from qdialect.algebra.movement import Movement, Shape
from qdialect.certificates.dequantize import Doubles, Integers, SlotTable, bits_of, differ
from qdialect.certificates.index_maps import NotCertifiableError, Positions
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.shape_ops.interface import name_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NUMBERS = count()


def storage_of(type: Attribute) -> Hashable:
    """All of an element type but scales and zero points."""
    if isinstance(type, UniformQuantizedType):
        return (
            type.storage_type.bitwidth,
            type.is_signed,
            type.storage_type_min,
            type.storage_type_max,
            type.expressed_type,
        )
    return type


def stores_the_same(one: Attribute, other: Attribute) -> bool:
    """Whether two element types differ in nothing but scales and zero points."""
    return storage_of(one) == storage_of(other)


@dataclass(eq=False, kw_only=True)
class Node:
    """A value."""

    shape: Shape
    element_type: Attribute

    number: int = field(default_factory=_NUMBERS.__next__)
    """Greater than the numbers of the operands."""

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)


@dataclass(eq=False, kw_only=True)
class TypedNode(Node):
    """A value whose own type says how its elements are read."""

    slots: SlotTable | None

    @cached_property
    def kind(self) -> Hashable:
        """Elements of different kinds are read in different ways."""
        return storage_of(self.element_type)

    @property
    def cast(self) -> Operation | None:
        """The cast that makes this of its operand, if one does."""
        return None

    def layer_at(self, positions: Positions) -> LayerAt:
        """How the elements at row-major positions are read here."""
        scales, zero_points = self.slots.at(positions) if self.slots else (None, None)
        return LayerAt(self, scales, zero_points)


@dataclass(eq=False, kw_only=True)
class ConstantNode(TypedNode):
    """Elements that an op holds."""

    op: Operation

    elements: NDArray[Any]
    """All elements, row-major; or one element, which all are equal to."""

    held_type: Attribute
    """The element type of the attribute that holds the elements."""

    @cached_property
    @override
    def kind(self) -> Hashable:
        """Also which dtype `bits_at` has."""
        dtype = self.elements.dtype
        long = str(dtype) if dtype.itemsize > 8 else ""
        return "constant", long, storage_of(self.element_type)

    def bits_at(self, positions: Positions) -> NDArray[Any]:
        """The elements at row-major positions: see `bits_of`."""
        if len(self.elements) == 1:
            positions = np.zeros_like(positions)
        return bits_of(self.elements[positions], self.held_type)


@dataclass(eq=False, kw_only=True)
class ZeroPointsNode(TypedNode):
    """The integers that stand for real zero at each position of a quantized tensor."""

    @cached_property
    @override
    def kind(self) -> Hashable:
        return "constant", "", storage_of(self.element_type)

    def bits_at(self, positions: Positions) -> NDArray[Any]:
        """The zero points at row-major positions: see `bits_of`."""
        assert self.slots is not None
        _, zero_points = self.slots.at(positions)
        return bits_of(zero_points, self.element_type)


@dataclass(eq=False, kw_only=True)
class SymbolNode(TypedNode):
    """A value that is known by its class of equal values only."""

    symbol: int
    """The number of the class."""

    text: str
    """What it is, for messages."""

    @cached_property
    @override
    def kind(self) -> Hashable:
        return "symbol", storage_of(self.element_type)


@dataclass(eq=False, kw_only=True)
class CastNode(TypedNode):
    """The elements of another value, read in another way."""

    op: Operation
    operand: Node

    settings: Hashable
    """The attributes of the cast: casts of one name and equal settings do the same."""

    @cached_property
    @override
    def kind(self) -> Hashable:
        return "cast", name_of(self.op), self.settings, storage_of(self.element_type)

    @property
    @override
    def cast(self) -> Operation | None:
        return self.op


@dataclass(eq=False, kw_only=True)
class ComputedNode(CastNode):
    """
    What arithmetic makes of the elements of another value, and of small constants beside them.

    Its `settings` are what is computed.
    """

    sides: tuple[Node, ...]
    """The constants, each of the shape of this."""


@dataclass(eq=False, kw_only=True)
class MovedNode(Node):
    """Elements that one movement takes from operands."""

    movement: Movement
    operands: Sequence[Node]

    padding: Node | None = None
    """The element at new positions; without it, they hold real zero."""

    slots: SlotTable | None = None
    """The slots of the declared type, where that is known to be true."""


@dataclass
class SideAt:
    """What arithmetic reads beside some elements."""

    kinds: Hashable
    """How these are read, down to where they are held."""

    bits: NDArray[Any]

    def is_same_as(self, other: SideAt) -> NDArray[np.bool_]:
        """Which elements are the same as those of another."""
        if self.kinds != other.kinds:
            return np.zeros(len(self.bits), dtype=np.bool_)
        return ~differ(self.bits, other.bits)


@dataclass
class LayerAt:
    """How some elements are read at one place between casts."""

    node: TypedNode
    """One of the nodes at that place; all of them are of one kind."""

    scales: Doubles | None
    zero_points: Integers | None

    sides: tuple[SideAt, ...] = ()

    @property
    def element_type(self) -> Attribute:
        """The type there; of the slots in it, only those of `node` are true."""
        return self.node.element_type

    def part(self, chosen: Positions) -> LayerAt:
        """How some of the elements are read."""
        if self.sides:
            sides = tuple(SideAt(side.kinds, side.bits[chosen]) for side in self.sides)
            return replace(self, sides=sides)
        if self.scales is None or self.zero_points is None:
            return self
        return replace(self, scales=self.scales[chosen], zero_points=self.zero_points[chosen])

    def other_sides(self, other: LayerAt) -> NDArray[np.bool_] | bool:
        """Which elements have something else read beside them."""
        if len(self.sides) != len(other.sides):
            return True
        wrong: NDArray[np.bool_] | bool = False
        for side, another in zip(self.sides, other.sides, strict=True):
            wrong = wrong | ~side.is_same_as(another)
        return wrong

    def is_same_as(self, other: LayerAt) -> bool:
        """Whether one element is read in the same way as another."""
        try:
            self.require_same(other)
        except NotCertifiableError:
            return False
        if np.any(self.other_sides(other)):
            return False
        if self.scales is None or other.scales is None:
            return True
        assert self.zero_points is not None
        assert other.zero_points is not None
        is_other = differ(self.scales, other.scales) | differ(self.zero_points, other.zero_points)
        return not is_other.any()

    def require_same(self, other: LayerAt) -> None:
        """Raise NotCertifiableError if one tensor cannot have elements of both."""
        if _cast_of(self.node) != _cast_of(other.node):
            raise NotCertifiableError("its elements are behind different casts")
        if not stores_the_same(self.element_type, other.element_type):
            raise NotCertifiableError(
                f"there are elements of type '{self.element_type}' and '{other.element_type}'"
            )


def _cast_of(node: TypedNode) -> Hashable:
    return (name_of(node.op), node.settings) if isinstance(node, CastNode) else None
