"""
Padding: new positions, and the integers stored there.

A new position reads the slot of the nearest edge. The integer stored there must dequantize to
the padding value, bit for bit: nothing is rounded. The fold, the sinking and the interpreter
share this code. The certificates repeat the rules on purpose.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from typing_extensions import override

from qdialect.algebra.movement import (
    DYNAMIC,
    Movable,
    MovableT,
    Movement,
    MovementError,
    Shape,
    ValueSet,
)
from qdialect.algebra.parameters import QuantizationParameters, Slot, StorageFormat
from qdialect.algebra.run_map import IntArray
from qdialect.algebra.views import ArrayView, Splat
from qdialect.support.arguments import check_instance, number
from qdialect.support.lazy_numpy import NDArray, np


class PaddingError(MovementError):
    """No storage integer represents the padding value."""


class StorageRange(NamedTuple):
    """The closed range of integers that a type may store, at one point of a chain of casts."""

    format: StorageFormat
    minimum: int
    maximum: int

    def check(self, codes: IntArray) -> None:
        """Raise PaddingError if one of `codes`, cut to the width of the range, is outside of it."""
        stored = self.format.wrap(codes)
        if self.format.first_outside(stored, self.minimum, self.maximum) is not None:
            raise PaddingError(
                f"the padding is outside the storage range [{self.minimum}, {self.maximum}]"
            )


class Padding(ABC):
    """The value of new positions."""

    @abstractmethod
    def codes(self, parameters: QuantizationParameters | None) -> NDArray[Any]:
        """
        The stored elements that represent the value under `parameters`.

        The array broadcasts to the shape of the parameters. `parameters` are None if the
        elements are not quantized. Raises PaddingError if no element represents the value.
        """


@dataclass(frozen=True)
class ZeroPoint(Padding):
    """Real zero, stored as its code under the slot that a position reads: often the zero point."""

    def codes(self, parameters: QuantizationParameters | None) -> NDArray[Any]:
        if parameters is None:
            raise PaddingError("there is no zero point to pad with")
        try:
            return parameters.storage.zeros(parameters.expand()[1])
        except ValueError as error:
            raise PaddingError(str(error)) from None


@dataclass(frozen=True)
class Stored(Padding):
    """A stored element, whatever slot the position reads."""

    value: np.generic

    def __post_init__(self) -> None:
        check_instance("the stored element", self.value, np.generic, "np.int8(3)")

    def codes(self, parameters: QuantizationParameters | None) -> NDArray[Any]:
        return np.asarray(self.value)


@dataclass(frozen=True)
class Real(Padding):
    """A real number, stored as the integer that dequantizes to `value`, bit for bit."""

    value: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", number("the padded value", self.value))

    def codes(self, parameters: QuantizationParameters | None) -> NDArray[Any]:
        if parameters is None:
            raise PaddingError("elements are not quantized")
        if self.value and parameters.expressed.precision > sys.float_info.mant_dig:
            raise PaddingError(f"{parameters.expressed.name} has more digits than float64")
        scales, zero_points = parameters.expand()
        try:
            with np.errstate(all="ignore"):
                codes = parameters.storage.codes_near(np.float64(self.value) / scales, zero_points)
        except ValueError as error:
            raise PaddingError(f"{self.value} is not stored: {error}") from None
        read = parameters.read(codes)
        wanted = np.full(read.shape, self.value, dtype=np.float64)
        differs = read.view(np.int64) != wanted.view(np.int64)
        if differs.any():
            scale = np.broadcast_to(scales, differs.shape)[differs][0]
            zero_point = np.broadcast_to(zero_points, differs.shape)[differs][0]
            raise PaddingError(
                f"no {parameters.storage.noun} dequantizes to {self.value} with scale "
                f"{scale:.6e}, zero point {zero_point}"
            )
        return codes


@dataclass(frozen=True)
class Pad(Movement):
    """
    `low` new positions before and `high` after each axis, which hold real zero.

    A new position reads the slot of the nearest edge, and stores its zero point.
    """

    low: tuple[int, ...]
    high: tuple[int, ...]

    def __post_init__(self) -> None:
        self._plain(many=["low", "high"])
        if not len(self.low) == len(self.high) == len(self.gaps):
            counts = [len(widths) for widths in (self.low, self.high, self.gaps)]
            raise MovementError(f"low, high and interior widths differ in length: {counts}")
        if any(width < 0 for width in (*self.low, *self.high, *self.gaps)):
            raise MovementError("padding widths must not be negative")

    @property
    def gaps(self) -> tuple[int, ...]:
        """For each axis, the number of new positions between two neighbours."""
        return (0,) * len(self.low)

    @property
    def padding(self) -> Padding:
        """The value of new positions."""
        return ZeroPoint()

    def __call__(self, *operands: MovableT) -> MovableT:
        (operand,) = operands
        widths = tuple(zip(self.low, self.high, strict=True))
        for axis, gap in enumerate(self.gaps):
            if gap and operand.shape[axis] > 1:
                operand = _repeated(operand, axis, gap)
        if not any(self.low) and not any(self.high):
            return operand
        return cast(MovableT, np.pad(operand, widths, mode="edge"))  # pyright: ignore[reportCallIssue, reportArgumentType]

    def result_shape(self, *operands: Shape) -> Shape:
        (operand,) = operands
        if len(self.low) != len(operand):
            raise MovementError(
                f"{len(self.low)} low and {len(self.high)} high widths do not match "
                f"the rank {len(operand)} of the operand"
            )
        return tuple(
            DYNAMIC if length == DYNAMIC else low + length + max(length - 1, 0) * gap + high
            for low, length, high, gap in zip(self.low, operand, self.high, self.gaps, strict=True)
        )

    def undo(self, moved: MovableT, operand: Shape) -> MovableT:
        return cast(MovableT, moved[tuple(self._inside(moved.shape))])

    @property
    def values(self) -> ValueSet:
        return ValueSet.MORE

    def keeps_splats(
        self, operands: Sequence[Splat], parameters: QuantizationParameters | None
    ) -> bool:
        (operand,) = operands
        if parameters is None:
            return np.asarray(self.padding.codes(None)).tobytes() == operand.value.tobytes()
        wrap = parameters.storage.wrap
        stored = wrap(np.asarray(operand.value).astype(np.int64))
        return all(
            (wrap(self.padding.codes(read).astype(np.int64)) == stored).all()
            for _, read in self.new_positions(parameters)
        )

    def move_views(
        self, operands: Sequence[ArrayView], parameters: QuantizationParameters | None
    ) -> ArrayView:
        (operand,) = operands
        padded = np.empty(self.result_shape(operand.shape), dtype=operand.factors.dtype)
        if parameters is None:
            padded[...] = self.padding.codes(None)
        else:
            for region, read in self.new_positions(parameters):
                padded[region] = self.padding.codes(read)
        # Indexing an array of rank 0 would return a scalar.
        operand.write(padded[(*self._inside(padded.shape), ...)])
        return ArrayView.of(padded)

    def new_positions(
        self, parameters: QuantizationParameters
    ) -> list[tuple[tuple[slice, ...], QuantizationParameters]]:
        """
        The new positions of a result that has `parameters`, as disjoint regions.

        Each region comes with the parameters of its elements.
        """
        regions: list[tuple[tuple[slice, ...], QuantizationParameters]] = []
        shape = parameters.shape
        inside = self._inside(shape)
        for axis, (low, high) in enumerate(zip(self.low, self.high, strict=True)):
            whole = [slice(0, length) for length in shape[axis + 1 :]]
            end = shape[axis] - high
            step = self.gaps[axis] + 1
            between = [slice(low + offset, end, step) for offset in range(1, step)]
            for new in (slice(0, low), slice(end, shape[axis]), *between):
                region = (*inside[:axis], new, *whole)
                if all(range(n)[positions] for positions, n in zip(region, shape, strict=True)):
                    regions.append((region, parameters[region]))
        return regions

    def _inside(self, shape: Shape) -> list[slice]:
        """The slices that select the operand in a result of `shape`."""
        return [
            slice(low, length - high, gap + 1)
            for low, length, high, gap in zip(self.low, shape, self.high, self.gaps, strict=True)
        ]

    def is_identity(self, *operands: Shape) -> bool:
        (operand,) = operands
        grows = any(
            gap and length not in (0, 1) for gap, length in zip(self.gaps, operand, strict=True)
        )
        return not any(self.low) and not any(self.high) and not grows

    def after(self, first: Movement) -> Movement | None:
        if type(first) is not Pad or type(self) is not Pad:
            return None
        return Pad(
            tuple(map(int.__add__, self.low, first.low)),
            tuple(map(int.__add__, self.high, first.high)),
        )


@dataclass(frozen=True)
class PadWith(Pad):
    """
    `Pad` with any value, and optionally between neighbouring positions.

    https://openxla.org/stablehlo/spec#pad, except for negative widths: those are slices.
    """

    interior: tuple[int, ...]
    padded_with: Padding

    @override
    def __post_init__(self) -> None:
        self._plain(many=["interior"])
        check_instance("padded_with", self.padded_with, Padding, "ZeroPoint()")
        super().__post_init__()

    @property
    def gaps(self) -> tuple[int, ...]:
        return self.interior

    @property
    def padding(self) -> Padding:
        return self.padded_with


def padding_of_codes(
    code: np.generic,
    parameters: QuantizationParameters,
    wanted: QuantizationParameters,
    *,
    is_same_storage: bool,
) -> Stored | Real:
    """
    The padding value given by one quantized element, for new positions that read `wanted`.

    The element is stored as `code` and reads `parameters`. The result is that integer if storage,
    scale and zero point are the same, and otherwise the number that the element dequantizes to.
    Raises PaddingError if that number is not known.
    """
    if parameters.size != 1:
        raise PaddingError("the padding is not one element")
    if is_same_storage and wanted.size == 1 and _slot(parameters) == _slot(wanted):
        return Stored(code)
    if parameters.expressed.precision > sys.float_info.mant_dig:
        raise PaddingError(f"{parameters.expressed.name} has more digits than float64")
    return Real(parameters.read(cast(IntArray, np.asarray(code))).item())


def _slot(parameters: QuantizationParameters) -> Slot:
    return Slot(parameters.rounded_scales.item(), parameters.cut_zero_points.item())


def check_padding(
    movement: Pad, parameters: QuantizationParameters, ranges: Sequence[StorageRange]
) -> None:
    """
    Raise PaddingError if a new position cannot store the integer that represents the padding.

    `parameters` are those of the result. `ranges` are the storage ranges of all quantized and
    integer types on the element's way through casts: all must have the same width, and contain
    the integer with those bits.
    """
    if any(range.format.width != parameters.storage.width for range in ranges):
        raise PaddingError("the operand is cast to another number of bits")
    for _, read in movement.new_positions(parameters):
        codes = parameters.storage.wrap(movement.padding.codes(read).astype(np.int64))
        for range in ranges:
            range.check(codes)


class ZeroPoints(NamedTuple):
    """A region of new positions that hold their codes of real zero: integers, the zero points."""

    parameters: QuantizationParameters
    """The parameters of the elements of the region."""

    range: StorageRange

    @classmethod
    def of(
        cls, movement: Pad, parameters: QuantizationParameters, range: StorageRange
    ) -> list[ZeroPoints]:
        """The new positions of a result that has `parameters`, whose elements are in `range`."""
        return [cls(read, range) for _, read in movement.new_positions(parameters)]

    def are_bits(self, bits: int) -> bool:
        """Whether all zeros are in range, and equal the code with these bits."""
        return self._are(self.parameters.storage.wrap(np.array(bits, dtype=np.int64)))

    def are_quantized_zeros(self) -> bool:
        """Whether quantizing 0.0 results in these codes."""
        low, high = self.range.minimum, self.range.maximum
        try:
            return self._are(self.parameters.store(np.zeros(()), low, high))
        except ValueError:
            return False

    def _are(self, codes: NDArray[np.integer[Any]]) -> bool:
        try:
            zeros = ZeroPoint().codes(self.parameters)
            self.range.check(zeros)
        except PaddingError:
            return False
        return bool((codes == zeros).all())

    def bits(self) -> int | None:
        """The common bits of the zeros as a signed integer; None if they differ, or are none."""
        signed = StorageFormat(self.parameters.storage.width, signed=True)
        try:
            distinct = np.unique(signed.wrap(ZeroPoint().codes(self.parameters)))
        except PaddingError:
            return None
        return int(distinct[0]) if len(distinct) == 1 else None

    def are_read_as_zero(self) -> bool:
        """
        Whether all dequantize to 0.0, bit for bit, which negative and infinite scales rule out.
        """
        try:
            zeros = ZeroPoint().codes(self.parameters)
        except PaddingError:
            return False
        read = np.ascontiguousarray(self.parameters.read(zeros))
        return not read.view(np.int64).any()


def _repeated(operand: Movable, axis: int, gap: int) -> Any:
    """Each position of `axis` followed by `gap` copies of it, except for the last."""
    before, length, after = operand.shape[:axis], operand.shape[axis], operand.shape[axis + 1 :]
    single = operand.reshape((*before, length, 1, *after))
    repeated = np.broadcast_to(single, (*before, length, gap + 1, *after))
    positions = slice(0, (length - 1) * (gap + 1) + 1)
    whole = (slice(None),) * len(before), (slice(None),) * len(after)
    return repeated.reshape((*before, length * (gap + 1), *after))[
        (*whole[0], positions, *whole[1])
    ]
