"""
The nodes of a value graph: constants, casts, arithmetic, shape ops and symbols; and their numbers.

A symbol is an unknown value: an argument, or the result of an op without a model. Only its
class of equal values is known.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Hashable, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from typing import Any, TypeAlias

from typing_extensions import override
from xdsl.dialects.builtin import AnyFloat, ComplexType, IndexType, IntegerType, Signedness
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.movement import Movement, Shape
from qdialect.algebra.parameters import StorageFormat
from qdialect.check.index_maps import NotCertifiableError, Positions
from qdialect.dialects.quant.slots import Granularity
from qdialect.dialects.quant.storage import StoredType
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.ir.elements import resized
from qdialect.ops.interface import Refusal, name_of
from qdialect.support.float_format import FLOAT_FORMATS
from qdialect.support.lazy_numpy import NDArray, np

Doubles: TypeAlias = "NDArray[np.float64]"
Integers: TypeAlias = "NDArray[np.int64]"
Slots: TypeAlias = "tuple[Doubles, Integers] | tuple[()]"
"""The scale and the zero point of each element; nothing of elements that are not quantized."""


@dataclass(frozen=True, eq=False)
class SlotTable:
    """The scale and zero point of each element of a tensor, looked up in the lists of its type."""

    scales: Doubles
    """The scales, rounded to the expressed type: one-dimensional, row-major."""

    zero_points: Integers
    """The zero points, truncated to the storage width: as `scales`."""

    axes: tuple[tuple[int, int, int, int], ...]
    """
    For each axis with several blocks: its stride in elements, its length, its block size, and
    the stride of a block in slots.
    """

    @classmethod
    def of(cls, type: UniformQuantizedType, shape: Shape) -> SlotTable:
        """The table of a tensor of static `shape`. Raises NotCertifiableError if there is none."""
        counts = type.scales.shape
        blocks = dict(zip(type.quantized_dimensions, type.block_sizes, strict=False))
        if type.granularity is Granularity.PER_TENSOR:
            counts = (1,) * len(shape)
        elif type.granularity is Granularity.PER_AXIS:
            (axis,) = type.quantized_dimensions
            counts = tuple(counts[0] if at == axis else 1 for at in range(len(shape)))
            blocks = {axis: 1}
        lengths = [blocks.get(axis, length) for axis, length in enumerate(shape)]
        fits = len(counts) == len(shape) and math.prod(counts) == type.scales.size
        if not fits or any(
            count * block != length
            for count, block, length in zip(counts, lengths, shape, strict=True)
            if block != length or count != 1
        ):
            raise NotCertifiableError(f"no tensor of shape {list(shape)} has the type '{type}'")
        axes = tuple(
            (math.prod(shape[axis + 1 :]), shape[axis], block, math.prod(counts[axis + 1 :]))
            for axis, block in enumerate(lengths)
            if counts[axis] > 1
        )
        return cls(
            FLOAT_FORMATS[type.expressed_type.name].round(type.scales.reshape(-1)),
            type.storage_format.zero_points(type.zero_points.reshape(-1)),
            axes,
        )

    def is_one_for_all(self, others: Iterable[SlotTable | None]) -> bool:
        """Whether this table and all others have one and the same slot."""
        return len(self.scales) == 1 and all(
            other is not None and len(other.scales) == 1 and self._lists_the_same(other)
            for other in others
        )

    def is_spelled_as(self, other: SlotTable) -> bool:
        """Whether both list the same slots for the same blocks in the same order."""
        is_alike = self.axes == other.axes and len(self.scales) == len(other.scales)
        return is_alike and self._lists_the_same(other)

    def _lists_the_same(self, other: SlotTable) -> bool:
        is_other = differ(self.scales, other.scales) | differ(self.zero_points, other.zero_points)
        return not is_other.any()

    def differs_at(self, other: SlotTable, positions: Positions) -> NDArray[np.bool_]:
        """A mask of the row-major positions whose elements have different slots."""
        (scales, zero_points), (others, other_zero_points) = self.at(positions), other.at(positions)
        return differ(scales, others) | differ(zero_points, other_zero_points)

    def at(self, positions: Positions) -> tuple[Doubles, Integers]:
        """The scales and zero points of the elements at row-major positions."""
        slots = np.zeros(len(positions), dtype=np.int64)
        for step, length, block, slot_step in self.axes:
            slots += positions // step % length // block * slot_step
        return self.scales[slots], self.zero_points[slots]


def dequantize(
    codes: Integers, scales: Doubles, zero_points: Integers, type: UniformQuantizedType
) -> Doubles:
    """
    `(code - zero_point) * scale`, every step rounded to the expressed type.

    https://mlir.llvm.org/docs/Dialects/QuantDialect/.
    """
    rounded = FLOAT_FORMATS[type.expressed_type.name].round
    with np.errstate(all="ignore"), certifying():
        numbers = type.storage_format.numbers(codes).astype(np.float64)
        stored, zeros = rounded(numbers), rounded(zero_points.astype(np.float64))
        return rounded(rounded(stored - zeros) * scales)


def quantize(
    numbers: Doubles, scales: Doubles, zero_points: Integers, type: UniformQuantizedType
) -> Integers:
    """
    `number / scale + zero_point`, as the nearest code; of integers, NaN becomes the minimum.

    Division and addition are rounded to the expressed type.
    """
    rounded = FLOAT_FORMATS[type.expressed_type.name].round
    low, high = type.storage_type_min, type.storage_type_max
    with np.errstate(all="ignore"):
        # Subtracting 0.0 keeps -0.0, and adding it does not.
        steps = rounded(rounded(numbers / scales) - (0.0 - rounded(zero_points.astype(np.float64))))
    with certifying():
        return type.storage_format.nearest(steps, low, high).astype(np.int64, copy=False)


@contextmanager
def certifying() -> Generator[None]:
    """
    Raise NotCertifiableError for what models, movements or verifiers refuse.

    So it is for codes without a number, and for numbers without a code, which are ValueErrors.
    """
    try:
        yield
    except NotCertifiableError:
        raise
    except (Refusal, ValueError, VerifyException) as error:
        raise NotCertifiableError(str(error)) from None


def bits_of(elements: NDArray[Any], type: Attribute) -> NDArray[Any]:
    """
    The stored bits of elements of `type`, with unused bits zero: uint64.

    Elements of more than 64 bits are returned unchanged.
    """
    if elements.dtype.kind not in "iu":
        if (size := elements.dtype.itemsize) > 8:
            return elements
        raw = np.ascontiguousarray(elements).view(np.uint8).reshape(-1)
        return resized(raw, size, 8).view("<u8")
    mask = np.uint64((1 << width_of(type)) - 1)
    return elements.astype(f"u{elements.dtype.itemsize}").astype(np.uint64) & mask


def numbers_in(bits: NDArray[Any], type: Attribute) -> NDArray[Any]:
    """
    The numbers that bits encode, in a tensor of elements of `type`.

    Integers for integers and quantized types, doubles for floats; bits for other types.
    """
    if bits.dtype.kind != "u":
        return bits
    codes = bits.view(np.int64)
    match type:
        case StoredType():
            return StorageFormat(type.storage_type.bitwidth, type.is_signed).wrap(codes)
        case IntegerType() if type.bitwidth < 64:
            is_signed = type.signedness.data is not Signedness.UNSIGNED
            return StorageFormat(type.bitwidth, is_signed).wrap(codes)
        case IntegerType() | IndexType():
            return codes
        case _ if isinstance(type, AnyFloat) and type.bitwidth <= 64:
            return FLOAT_FORMATS[type.name].decode(bits)
        case _:
            return bits


def width_of(type: Attribute) -> int:
    """The width in bits of an element, or of its storage."""
    match type:
        case StoredType():
            return type.storage_type.bitwidth
        case IndexType():
            return 64
        case ComplexType():
            return 2 * width_of(type.element_type)
        case _ if isinstance(type, IntegerType | AnyFloat):
            return type.bitwidth
        case _:
            raise NotCertifiableError(f"the width of '{type}' is unknown")


def differ(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.bool_]:
    """A mask of the elements that differ, bit for bit."""
    if one.dtype.kind == other.dtype.kind == "f":
        one, other = (np.ascontiguousarray(array).view(np.int64) for array in (one, other))
    if one.dtype != other.dtype:
        return np.ones(len(one), dtype=np.bool_)
    return one != other


_NUMBERS = count()


def storage_of(type: Attribute) -> Hashable:
    """Everything in an element type except scales and zero points, as a key."""
    if isinstance(type, UniformQuantizedType):
        return (
            type.storage_format,
            type.storage_type_min,
            type.storage_type_max,
            type.expressed_type,
        )
    return type


def stores_the_same(one: Attribute, other: Attribute) -> bool:
    """Whether two element types differ at most in scales and zero points."""
    return storage_of(one) == storage_of(other)


@dataclass(eq=False, kw_only=True)
class Node:
    """A value of a static shape."""

    shape: Shape
    element_type: Attribute

    number: int = field(default_factory=_NUMBERS.__next__)
    """A unique number, greater than those of the operands."""

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)


@dataclass(eq=False, kw_only=True)
class TypedNode(Node):
    """A value whose type determines how its elements are read."""

    slots: SlotTable | None

    @cached_property
    def kind(self) -> Hashable:
        """A key: elements of nodes with equal kinds are read in the same way."""
        return storage_of(self.element_type)

    @property
    def cast(self) -> Operation | None:
        """The op of a cast node, None for other nodes."""
        return None

    def layer_at(self, positions: Positions) -> LayerAt:
        """The layer of this node for the elements at row-major positions."""
        return LayerAt(self, self.slots.at(positions) if self.slots else ())


@dataclass(eq=False, kw_only=True)
class ConstantNode(TypedNode):
    """A constant."""

    op: Operation

    elements: NDArray[Any]
    """All elements, row-major; or one element if all are equal."""

    held_type: Attribute
    """The element type of the attribute that holds the elements."""

    @cached_property
    @override
    def kind(self) -> Hashable:
        """A key that includes the dtype of `bits_at`."""
        dtype = self.elements.dtype
        long = str(dtype) if dtype.itemsize > 8 else ""
        return "constant", long, storage_of(self.element_type)

    def bits_at(self, positions: Positions) -> NDArray[Any]:
        """The elements at row-major positions: see `bits_of`."""
        if len(self.elements) == 1:
            positions = np.zeros_like(positions)
        return bits_of(self.elements[positions], self.held_type)


@dataclass(eq=False, kw_only=True)
class SymbolNode(TypedNode):
    """An unknown value, identified by its class of equal values."""

    symbol: int
    """The number of the class."""

    text: str
    """A description for messages."""

    @cached_property
    @override
    def kind(self) -> Hashable:
        return "symbol", storage_of(self.element_type)


@dataclass(eq=False, kw_only=True)
class CastNode(TypedNode):
    """A cast of the elements of another value."""

    op: Operation
    operand: Node

    settings: Hashable
    """A key of the attributes: casts with the same name and settings do the same."""

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
    Arithmetic on the elements of another value, with constants as further operands.

    Its `settings` are the computed term.
    """

    sides: tuple[Node, ...]
    """The constants, broadcast to the shape of this node."""


@dataclass(eq=False, kw_only=True)
class MovedNode(Node):
    """The result of one movement of operands."""

    movement: Movement
    operands: Sequence[Node]

    padding: Node | None = None
    """The element at new positions; None for real zero."""

    slots: SlotTable | None = None
    """The slots of the declared type, on the last node of an op; None otherwise."""

    new: Node | None = None
    """The node that holds the elements at new positions, once `padding_of` has found it."""


def operands_of(node: Node) -> Sequence[Node]:
    """The nodes that a node is made of."""
    match node:
        case ComputedNode():
            return node.operand, *node.sides
        case CastNode():
            return (node.operand,)
        case MovedNode():
            return node.operands if node.padding is None else (*node.operands, node.padding)
        case _:
            return ()


@dataclass
class SideAt:
    """The elements of a constant operand of arithmetic that are combined with some elements."""

    element_type: Attribute

    numbers: NDArray[Any]
    """The numbers: integers, doubles, or bits, as in `Elements.numbers`."""

    def is_same_as(self, other: SideAt) -> NDArray[np.bool_]:
        """A mask of the elements that equal those of `other`."""
        if self.element_type != other.element_type:
            return np.zeros(len(self.numbers), dtype=np.bool_)
        return ~differ(self.numbers, other.numbers)


@dataclass
class LayerAt:
    """How some elements are read at one level of a path of casts."""

    node: TypedNode
    """A representative of the nodes at that level, which all have the same kind."""

    slots: Slots = ()
    sides: tuple[SideAt, ...] = ()

    @property
    def element_type(self) -> Attribute:
        """The element type of `node`; other nodes at this level may have other slots."""
        return self.node.element_type

    def part(self, chosen: Positions) -> LayerAt:
        """The layer for some of the elements."""
        if self.sides:
            sides = tuple(SideAt(side.element_type, side.numbers[chosen]) for side in self.sides)
            return replace(self, sides=sides)
        if not self.slots:
            return self
        scales, zero_points = self.slots
        return replace(self, slots=(scales[chosen], zero_points[chosen]))

    def other_sides(self, other: LayerAt) -> NDArray[np.bool_] | bool:
        """A mask of the elements whose constant operands differ from those of `other`."""
        if len(self.sides) != len(other.sides):
            return True
        wrong: NDArray[np.bool_] | bool = False
        for side, another in zip(self.sides, other.sides, strict=True):
            wrong = wrong | ~side.is_same_as(another)
        return wrong

    def require_same(self, other: LayerAt) -> None:
        """Raise NotCertifiableError if elements of both layers cannot occur in one tensor."""
        if _cast_of(self.node) != _cast_of(other.node):
            raise NotCertifiableError("its elements are read through different casts")
        if not stores_the_same(self.element_type, other.element_type):
            raise NotCertifiableError(
                f"there are elements of type '{self.element_type}' and '{other.element_type}'"
            )


def _cast_of(node: TypedNode) -> Hashable:
    return (name_of(node.op), node.settings) if isinstance(node, CastNode) else None
