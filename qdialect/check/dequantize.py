"""Finding the slot of an element by division, and the arithmetic of quantization."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from xdsl.dialects.builtin import AnyFloat, ComplexType, IndexType, IntegerType, Signedness
from xdsl.ir import Attribute

from qdialect.algebra.movement import Shape
from qdialect.check.index_maps import NotCertifiableError, Positions
from qdialect.dialects.quant.slot_arrays import Granularity
from qdialect.dialects.quant.storage import StoredType
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.support.float_format import FLOAT_FORMATS
from qdialect.support.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Doubles: TypeAlias = "NDArray[np.float64]"
Integers: TypeAlias = "NDArray[np.int64]"


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
        """
        The table of a tensor of static `shape`. Raises NotCertifiableError if the type does not
        fit.
        """
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
            cut(type.zero_points.reshape(-1), type.storage_type.bitwidth, type.is_signed),
            axes,
        )

    def is_one_for_all(self, others: Iterable[SlotTable | None]) -> bool:
        """Whether this table and all others have one and the same slot."""
        return len(self.scales) == 1 and all(
            other is not None
            and len(other.scales) == 1
            and not differ(self.scales, other.scales).any()
            and not differ(self.zero_points, other.zero_points).any()
            for other in others
        )

    def is_spelled_as(self, other: SlotTable) -> bool:
        """Whether both list the same slots for the same blocks in the same order."""
        return (
            self.axes == other.axes
            and len(self.scales) == len(other.scales)
            and not differ(self.scales, other.scales).any()
            and not differ(self.zero_points, other.zero_points).any()
        )

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


def cut(values: Integers, width: int, is_signed: bool) -> Integers:
    """Integers truncated to `width` bits."""
    kept = values & ((1 << width) - 1)
    if not is_signed:
        return kept
    return kept - ((kept >> (width - 1)) << width)


def dequantize(
    codes: Integers, scales: Doubles, zero_points: Integers, type: UniformQuantizedType
) -> Doubles:
    """
    `(code - zero_point) * scale`, every step rounded to the expressed type.

    https://mlir.llvm.org/docs/Dialects/QuantDialect/.
    """
    rounded = FLOAT_FORMATS[type.expressed_type.name].round
    with np.errstate(all="ignore"):
        stored, zeros = rounded(codes.astype(np.float64)), rounded(zero_points.astype(np.float64))
        return rounded(rounded(stored - zeros) * scales)


def quantize(
    numbers: Doubles, scales: Doubles, zero_points: Integers, type: UniformQuantizedType
) -> Integers:
    """
    `number / scale + zero_point`, rounded to an integer and clamped; NaN becomes the minimum.

    Division and addition are rounded to the expressed type.
    """
    rounded = FLOAT_FORMATS[type.expressed_type.name].round
    low, high = type.storage_type_min, type.storage_type_max
    with np.errstate(all="ignore"):
        steps = rounded(rounded(numbers / scales) + rounded(zero_points.astype(np.float64)))
    bounded = np.clip(np.rint(steps), low, high)
    return np.where(np.isnan(bounded), low, bounded).astype(np.int64)


def bits_of(elements: NDArray[Any], type: Attribute) -> NDArray[Any]:
    """
    The stored bits of elements of `type`, with unused bits zero: uint64.

    Elements of more than 64 bits are returned unchanged.
    """
    if elements.dtype.kind not in "iu":
        if elements.dtype.itemsize > 8:
            return elements
        size = elements.dtype.itemsize
        whole = np.zeros((len(elements), 8), dtype=np.uint8)
        whole[:, :size] = np.ascontiguousarray(elements).view(np.uint8).reshape(-1, size)
        return whole.reshape(-1).view("<u8")
    mask = np.uint64((1 << width_of(type)) - 1)
    return elements.astype(f"u{elements.dtype.itemsize}").astype(np.uint64) & mask


def numbers_in(bits: NDArray[Any], type: Attribute) -> NDArray[Any]:
    """
    The numbers that bits encode, in a tensor of elements of `type`.

    Integers for integers and quantized types, doubles for floats; bits for other types.
    """
    if bits.dtype.kind != "u":
        return bits
    match type:
        case StoredType():
            return cut(bits.view(np.int64), type.storage_type.bitwidth, type.is_signed)
        case IntegerType():
            is_signed = type.signedness.data is not Signedness.UNSIGNED
            if type.bitwidth == 64:
                return bits.view(np.int64)
            return cut(bits.view(np.int64), type.bitwidth, is_signed)
        case IndexType():
            return bits.view(np.int64)
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
        one, other = (np.ascontiguousarray(of).view(np.int64) for of in (one, other))
    if one.dtype != other.dtype:
        return np.ones(len(one), dtype=np.bool_)
    return one != other
