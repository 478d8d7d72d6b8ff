"""
The shape ops, each written once as a function on anything that moves.

A `Movement` is applied to the elements of a constant (an array, an `ArrayView` of one, or
a `Splat` where all are equal) and to its `QuantizationParameters`: one program, read twice.
Two movements in a row may be one: see `Movement.after`.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Protocol,
    SupportsIndex,
    TypeAlias,
    TypeVar,
    Union,
    cast,
)

from typing_extensions import override

from qdialect.array_functions import ArrayFunctions
from qdialect.array_view import ArrayView
from qdialect.joined import Joined
from qdialect.lazy_numpy import np
from qdialect.parameters import QuantizationParameters

if TYPE_CHECKING:
    from numpy.typing import NDArray

DYNAMIC: Final = -(2**63)
"""The length of an axis that is only known at run time, as in xDSL."""

Shape = tuple[int, ...]


class MovementError(ValueError):
    """The movement does not exist for an operand of this shape."""


class ValueSet(Enum):
    """What a range that holds all values of the operands is, for the result."""

    SAME = "same"
    """The values are the same: what was recorded is what would be recorded."""

    PART = "superset"
    """Some values may be gone, and none is new."""

    UNION = "union"
    """They come from several operands: the ranges of all hold them."""

    MORE = "padded"
    """There may be one that no operand has: what is padded with."""

    def then(self, *others: ValueSet) -> ValueSet:
        """What this is after other movements, which make `others` of what there is."""
        reached = self
        for other in others:
            if other is not ValueSet.SAME and _ORDER[other] > _ORDER[reached]:
                reached = other
        return reached


_ORDER: Final = {value_set: at for at, value_set in enumerate(ValueSet)}


class Movable(Protocol):
    """
    What arrays, splats and quantization parameters have in common.

    They also accept `np.concatenate`, `np.broadcast_to` and `np.pad(mode="edge")`.
    """

    @property
    def shape(self) -> Shape: ...
    def transpose(self, axes: Sequence[int], /) -> Any: ...
    def reshape(self, shape: Sequence[int], /) -> Any: ...
    def take(self, indices: NDArray[np.int64], axis: int) -> Any: ...
    def __getitem__(self, slices: tuple[slice, ...], /) -> Any: ...


MovableT = TypeVar("MovableT", bound=Movable)


@dataclass(frozen=True)
class Splat(ArrayFunctions):
    """
    A tensor of `shape` whose elements are all `value`, in no memory.

    It moves as an array does. Concatenating or padding keeps it a splat, so the caller
    sees to it that what is joined is equal.
    """

    value: Any
    """A scalar of numpy. A float or a complex number is its bits: an integer, or void."""

    shape: Shape

    def transpose(self, axes: Sequence[int], /) -> Splat:
        """Axis `i` of the result is axis `axes[i]`."""
        return Splat(self.value, tuple(self.shape[axis] for axis in axes))

    def reshape(self, shape: Sequence[int], /) -> Splat:
        """The same elements as a tensor of `shape`."""
        return Splat(self.value, tuple(shape))

    def take(self, indices: NDArray[np.int64], axis: int) -> Splat:
        """The positions `indices` of `axis`."""
        before, after = self.shape[:axis], self.shape[axis + 1 :]
        return Splat(self.value, (*before, len(indices), *after))

    def __getitem__(self, slices: tuple[slice, ...], /) -> Splat:
        """The elements in `slices`, one per axis."""
        lengths = zip(slices, self.shape, strict=True)
        return Splat(self.value, tuple(len(range(n)[positions]) for positions, n in lengths))

    @classmethod
    @override
    def _concatenate(cls, parts: Sequence[Splat], axis: SupportsIndex = 0) -> Splat:
        first, axis = parts[0], int(axis)
        length = sum(part.shape[axis] for part in parts)
        return Splat(first.value, (*first.shape[:axis], length, *first.shape[axis + 1 :]))

    @override
    def _broadcast_to(self, shape: Sequence[int]) -> Splat:
        return Splat(self.value, tuple(shape))

    @override
    def _pad(self, pad_width: Sequence[tuple[int, int]], mode: str = "constant") -> Splat:
        lengths = zip(self.shape, pad_width, strict=True)
        return Splat(self.value, tuple(low + n + high for n, (low, high) in lengths))


Elements: TypeAlias = Union["NDArray[Any]", Splat]
"""The elements of a constant, as it holds them."""

Values: TypeAlias = Elements | ArrayView | Joined
"""Elements on the move."""


def as_view(values: Values) -> ArrayView:
    """`values` as a view of an array: of one element where they are a splat."""
    if isinstance(values, ArrayView):
        return values
    if isinstance(values, Joined):
        return values.view()
    if isinstance(values, Splat):
        values = np.broadcast_to(np.asarray(values.value), values.shape)
    return ArrayView.of(values)


@dataclass(frozen=True)
class Movement(ABC):
    """Where each element of the result comes from: `f` in `C' = C . f`, `p' = p . f`."""

    @abstractmethod
    def __call__(self, *operands: MovableT) -> MovableT:
        """Move `operands`, of shapes that `result_shape` accepts."""

    @abstractmethod
    def result_shape(self, *operands: Shape) -> Shape:
        """
        The shape that operands of these shapes are moved to.

        Lengths may be DYNAMIC. Raises MovementError if there is no such movement.
        """

    def undo(self, moved: MovableT, operand: Shape) -> MovableT:
        """
        What this moves to `moved`: an operand of that static shape, of several none.

        Where positions are dropped, the operand is taken to be the same all along their axis,
        so that nothing is made up. What is moved may then be something else: see
        `pulled_back`. No length may be zero.
        """
        first = moved[(slice(1),) * len(moved.shape)]
        return _broadcast(cast(MovableT, first.reshape((1,) * len(operand))), operand)

    def to(self, shape: Shape) -> Movement:
        """This movement to a result of `shape`, if that is part of it."""
        return self

    @property
    def size(self) -> int:
        """How many integers say what it does, if they may be more than there are axes."""
        return 0

    @property
    def values(self) -> ValueSet:
        """The values of the result, as a set, beside those of the operands."""
        return ValueSet.SAME

    def coupled_axes(self, rank: int) -> Sequence[int]:
        """The axes, in operands and the result, whose lengths follow from several others."""
        return ()

    def keeps_splats(
        self, operands: Sequence[Splat], parameters: QuantizationParameters | None
    ) -> bool:
        """Whether operands that are splats move to a splat that has `parameters`."""
        return True

    def move_views(
        self, operands: Sequence[ArrayView], parameters: QuantizationParameters | None
    ) -> ArrayView:
        """
        Move the elements of constants to a result that has `parameters`.

        They are None if elements are what they stand for.
        """
        return self(*operands)

    def move_values(
        self, operands: Sequence[Values], parameters: QuantizationParameters | None
    ) -> Values:
        """As `move_views`, but what is copied anyway may be copied later."""
        return self.move_views([as_view(values) for values in operands], parameters)

    def is_identity(self, *operands: Shape) -> bool:
        """Whether every element of operands of these shapes stays where it is."""
        return False

    def after(self, first: Movement) -> Movement | None:
        """The single movement that does `first` and then this one, if there is one."""
        return None


@dataclass(frozen=True)
class Transpose(Movement):
    """Axis `k` of the result is axis `permutation[k]` of the operand."""

    permutation: tuple[int, ...]

    def __call__(self, *operands: MovableT) -> MovableT:
        (operand,) = operands
        return operand.transpose(self.permutation)

    def result_shape(self, *operands: Shape) -> Shape:
        (operand,) = operands
        if sorted(self.permutation) != list(range(len(operand))):
            raise MovementError(
                f"permutation {list(self.permutation)} does not name each of "
                f"{len(operand)} axes once"
            )
        return tuple(operand[axis] for axis in self.permutation)

    def undo(self, moved: MovableT, operand: Shape) -> MovableT:
        return moved.transpose(_inverse(self.permutation))

    def is_identity(self, *operands: Shape) -> bool:
        (operand,) = operands
        return self.permutation == tuple(range(len(operand)))

    def after(self, first: Movement) -> Movement | None:
        if not isinstance(first, Transpose):
            return None
        return Transpose(tuple(first.permutation[axis] for axis in self.permutation))


@dataclass(frozen=True)
class Reshape(Movement):
    """The same elements, in row-major order, as a tensor of `shape`."""

    shape: Shape

    def __call__(self, *operands: MovableT) -> MovableT:
        (operand,) = operands
        return operand.reshape(self.shape)

    def result_shape(self, *operands: Shape) -> Shape:
        (operand,) = operands
        _check_lengths(self.shape)
        if DYNAMIC in operand or DYNAMIC in self.shape:
            return self.shape
        if math.prod(operand) != math.prod(self.shape):
            raise MovementError(
                f"{math.prod(operand)} elements cannot be reshaped to {math.prod(self.shape)}"
            )
        return self.shape

    def undo(self, moved: MovableT, operand: Shape) -> MovableT:
        return moved.reshape(operand)

    def to(self, shape: Shape) -> Movement:
        return replace(self, shape=shape)

    def coupled_axes(self, rank: int) -> Sequence[int]:
        return range(rank)

    def is_identity(self, *operands: Shape) -> bool:
        (operand,) = operands
        return operand == self.shape and operand.count(DYNAMIC) <= 1

    def after(self, first: Movement) -> Movement | None:
        return self if isinstance(first, Reshape) else None


@dataclass(frozen=True)
class Slice(Movement):
    """`result[i] = operand[offsets + i * strides]`, of `sizes`; strides are positive."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    def __call__(self, *operands: MovableT) -> MovableT:
        (operand,) = operands
        return operand[self.slices]

    @property
    def slices(self) -> tuple[slice, ...]:
        """The positions of each axis, as Python has them."""
        return tuple(
            slice(offset, offset + size * stride, stride)
            for offset, size, stride in zip(self.offsets, self.sizes, self.strides, strict=True)
        )

    def result_shape(self, *operands: Shape) -> Shape:
        (operand,) = operands
        if not len(self.offsets) == len(self.sizes) == len(self.strides) == len(operand):
            raise MovementError(
                f"{len(self.offsets)} offsets, {len(self.sizes)} sizes and "
                f"{len(self.strides)} strides do not fit {len(operand)} axes"
            )
        for axis, length in enumerate(operand):
            offset, size, stride = (
                self.offsets[axis],
                self.sizes[axis],
                self.strides[axis],
            )
            if offset < 0 or size < 0 or stride < 1:
                raise MovementError(
                    f"offset {offset}, size {size} and stride {stride} on axis {axis} "
                    "must be at least 0, 0 and 1"
                )
            last = offset + (size - 1) * stride
            if length != DYNAMIC and (last >= length if size else offset > length):
                raise MovementError(
                    f"offset {offset}, size {size} and stride {stride} leave axis "
                    f"{axis} of length {length}"
                )
        return self.sizes

    def undo(self, moved: MovableT, operand: Shape) -> MovableT:
        kept = zip(self.sizes, operand, strict=True)
        first = moved[tuple(slice(None) if size == n else slice(1) for size, n in kept)]
        return _broadcast(cast(MovableT, first), operand)

    @property
    def values(self) -> ValueSet:
        return ValueSet.PART

    def is_identity(self, *operands: Shape) -> bool:
        (operand,) = operands
        return not any(self.offsets) and self.sizes == operand

    def after(self, first: Movement) -> Movement | None:
        if not isinstance(first, Slice):
            return None
        return Slice(
            tuple(
                outer + inner * stride if size else outer
                for outer, inner, stride, size in zip(
                    first.offsets, self.offsets, first.strides, self.sizes, strict=True
                )
            ),
            self.sizes,
            tuple(outer * inner for outer, inner in zip(first.strides, self.strides, strict=True)),
        )


@dataclass(frozen=True)
class Concat(Movement):
    """The operands one after another on axis `dim`."""

    dim: int

    def __call__(self, *operands: MovableT) -> MovableT:
        return cast(MovableT, np.concatenate(operands, axis=self.dim))  # pyright: ignore[reportCallIssue, reportArgumentType]

    def result_shape(self, *operands: Shape) -> Shape:
        if not operands:
            raise MovementError("there is nothing to concatenate")
        rank = len(operands[0])
        if not 0 <= self.dim < rank:
            raise MovementError(f"axis {self.dim} is not one of {rank} axes")
        result: list[int] = []
        for axis in range(rank):
            lengths = [shape[axis] for shape in operands if len(shape) == rank]
            if len(lengths) != len(operands):
                raise MovementError("the operands differ in rank")
            known = {length for length in lengths if length != DYNAMIC}
            if axis == self.dim:
                result.append(DYNAMIC if DYNAMIC in lengths else sum(lengths))
            elif len(known) > 1:
                raise MovementError(f"the operands differ in length on axis {axis}")
            else:
                result.append(known.pop() if known else DYNAMIC)
        return tuple(result)

    def undo(self, moved: MovableT, operand: Shape) -> MovableT:
        return moved

    @property
    def values(self) -> ValueSet:
        return ValueSet.UNION

    def coupled_axes(self, rank: int) -> Sequence[int]:
        return (self.dim,)

    def is_identity(self, *operands: Shape) -> bool:
        return len(operands) == 1

    def keeps_splats(
        self, operands: Sequence[Splat], parameters: QuantizationParameters | None
    ) -> bool:
        return _are_equal(operands)

    def move_values(
        self, operands: Sequence[Values], parameters: QuantizationParameters | None
    ) -> Values:
        parts = [part if isinstance(part, Joined) else as_view(part) for part in operands]
        return Joined(parts, self.dim)


@dataclass(frozen=True)
class BroadcastInDim(Movement):
    """
    Axis `i` of the operand is axis `dims[i]` of `shape`, repeated if its length is one.

    https://openxla.org/stablehlo/spec#broadcast_in_dim.
    """

    dims: tuple[int, ...]
    shape: Shape

    def __call__(self, *operands: MovableT) -> MovableT:
        (operand,) = operands
        lengths = dict(zip(self.dims, operand.shape, strict=True))
        order = sorted(range(len(self.dims)), key=lambda axis: self.dims[axis])
        aligned = operand.transpose(order).reshape(
            tuple(lengths.get(axis, 1) for axis in range(len(self.shape)))
        )
        return cast(MovableT, np.broadcast_to(aligned, self.shape))

    def result_shape(self, *operands: Shape) -> Shape:
        (operand,) = operands
        _check_lengths(self.shape)
        if len(self.dims) != len(operand):
            raise MovementError(f"{len(self.dims)} dims do not fit {len(operand)} axes")
        if len(set(self.dims)) != len(self.dims) or not set(self.dims) <= set(
            range(len(self.shape))
        ):
            raise MovementError(
                f"dims {list(self.dims)} are not different axes of {len(self.shape)}"
            )
        for axis, dim in enumerate(self.dims):
            length, wanted = operand[axis], self.shape[dim]
            if DYNAMIC not in (length, wanted) and length not in (1, wanted):
                raise MovementError(
                    f"axis {axis} of length {length} cannot be broadcast to {wanted}"
                )
        return self.shape

    def undo(self, moved: MovableT, operand: Shape) -> MovableT:
        lengths = dict(zip(self.dims, operand, strict=True))
        single = moved[
            tuple(
                slice(None) if lengths.get(axis) == n else slice(1)
                for axis, n in enumerate(self.shape)
            )
        ]
        order = sorted(range(len(self.dims)), key=self.dims.__getitem__)
        aligned = single.reshape(tuple(operand[axis] for axis in order))
        return cast(MovableT, aligned.transpose(_inverse(order)))

    def to(self, shape: Shape) -> Movement:
        return replace(self, shape=shape)

    @property
    def values(self) -> ValueSet:
        return ValueSet.PART

    def is_identity(self, *operands: Shape) -> bool:
        (operand,) = operands
        return (
            self.dims == tuple(range(len(self.shape)))
            and operand == self.shape
            and DYNAMIC not in operand
        )

    def after(self, first: Movement) -> Movement | None:
        if not isinstance(first, BroadcastInDim):
            return None
        return BroadcastInDim(tuple(self.dims[dim] for dim in first.dims), self.shape)


@dataclass(frozen=True)
class Reverse(Movement):
    """The axes `dims` from back to front."""

    dims: tuple[int, ...]

    def __call__(self, *operands: MovableT) -> MovableT:
        (operand,) = operands
        backwards = slice(None, None, -1)
        return operand[
            tuple(
                backwards if axis in self.dims else slice(None)
                for axis in range(len(operand.shape))
            )
        ]

    def result_shape(self, *operands: Shape) -> Shape:
        (operand,) = operands
        if len(set(self.dims)) != len(self.dims) or not set(self.dims) <= set(range(len(operand))):
            raise MovementError(f"dims {list(self.dims)} are not different axes of {len(operand)}")
        return operand

    def undo(self, moved: MovableT, operand: Shape) -> MovableT:
        return self(moved)

    def is_identity(self, *operands: Shape) -> bool:
        (operand,) = operands
        return all(operand[axis] in (0, 1) for axis in self.dims)

    def after(self, first: Movement) -> Movement | None:
        if not isinstance(first, Reverse):
            return None
        return Reverse(tuple(sorted(set(self.dims) ^ set(first.dims))))


class Padding(ABC):
    """What new positions hold."""

    @abstractmethod
    def codes(self, parameters: QuantizationParameters | None) -> NDArray[Any]:
        """
        The elements that stand for it where elements are read with `parameters`.

        An array that broadcasts to their shape. `parameters` are None if elements are what
        they stand for. Raises PaddingError if no element does.
        """


class PaddingError(MovementError):
    """No stored element stands for what is padded with."""


@dataclass(frozen=True)
class ZeroPoint(Padding):
    """The zero point of the slot that a position reads, which is real zero."""

    def codes(self, parameters: QuantizationParameters | None) -> NDArray[Any]:
        if parameters is None:
            raise PaddingError("there is no zero point to pad with")
        return parameters.expand()[1]


@dataclass(frozen=True)
class Stored(Padding):
    """An element as it is stored, whatever it is read with."""

    value: np.generic

    def codes(self, parameters: QuantizationParameters | None) -> NDArray[Any]:
        return np.asarray(self.value)


@dataclass(frozen=True)
class Real(Padding):
    """The element that is read as `value`, bit for bit."""

    value: float

    def codes(self, parameters: QuantizationParameters | None) -> NDArray[Any]:
        if parameters is None:
            raise PaddingError("elements are not quantized")
        if self.value and parameters.expressed.precision > sys.float_info.mant_dig:
            raise PaddingError(
                f"{parameters.expressed.name} has more digits than are computed with"
            )
        scales, zero_points = parameters.expand()
        with np.errstate(all="ignore"):
            steps = np.rint(np.float64(self.value) / scales)
        limit = 1 << parameters.storage.width
        if not (np.abs(steps) <= limit).all():
            raise PaddingError(f"{self.value} is out of the range of the storage")
        codes = zero_points + steps.astype(np.int64)
        read = parameters.read(codes)
        wanted = np.full(read.shape, self.value, dtype=np.float64)
        differs = read.view(np.int64) != wanted.view(np.int64)
        if differs.any():
            scale = np.broadcast_to(scales, differs.shape)[differs][0]
            zero_point = np.broadcast_to(zero_points, differs.shape)[differs][0]
            raise PaddingError(
                f"no integer is read as {self.value} with scale {scale:.6e}, zero point "
                f"{zero_point}"
            )
        return codes


@dataclass(frozen=True)
class Pad(Movement):
    """
    `low` and `high` new positions before and after each axis, which hold real zero.

    A new position reads the slot of the nearest edge, and holds its zero point.
    """

    low: tuple[int, ...]
    high: tuple[int, ...]

    @property
    def gaps(self) -> tuple[int, ...]:
        """How many new positions there are between every two of each axis."""
        return (0,) * len(self.low)

    @property
    def padding(self) -> Padding:
        """What new positions hold."""
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
        if not len(self.low) == len(self.high) == len(self.gaps) == len(operand):
            raise MovementError(
                f"{len(self.low)} low and {len(self.high)} high widths do not fit "
                f"{len(operand)} axes"
            )
        if any(width < 0 for width in (*self.low, *self.high, *self.gaps)):
            raise MovementError("padding widths must not be negative")
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
        # A scalar would be what is read of an array without axes.
        operand.write(padded[(*self._inside(padded.shape), ...)])
        return ArrayView.of(padded)

    def new_positions(
        self, parameters: QuantizationParameters
    ) -> list[tuple[tuple[slice, ...], QuantizationParameters]]:
        """
        The new positions of a result that has `parameters`: disjoint regions, and what
        their elements read.
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
        """Where the operand is in a result of `shape`."""
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
    `Pad`, also between every two positions, and with something else than zero.

    https://openxla.org/stablehlo/spec#pad, but for negative widths, which are a slice.
    """

    interior: tuple[int, ...]
    padded_with: Padding

    @property
    def gaps(self) -> tuple[int, ...]:
        return self.interior

    @property
    def padding(self) -> Padding:
        return self.padded_with


@dataclass(frozen=True)
class Take(Movement):
    """`result[..., i, ...] = operand[..., indices[i], ...]` on `axis`."""

    axis: int
    indices: tuple[int, ...]

    @property
    def size(self) -> int:
        return len(self.indices)

    def __call__(self, *operands: MovableT) -> MovableT:
        (operand,) = operands
        return operand.take(np.array(self.indices, dtype=np.int64), axis=self.axis)

    def result_shape(self, *operands: Shape) -> Shape:
        (operand,) = operands
        if not 0 <= self.axis < len(operand):
            raise MovementError(f"axis {self.axis} is not one of {len(operand)} axes")
        length = operand[self.axis]
        for index in self.indices:
            if index < 0 or (length != DYNAMIC and index >= length):
                raise MovementError(f"index {index} is not in axis {self.axis} of length {length}")
        return (*operand[: self.axis], len(self.indices), *operand[self.axis + 1 :])

    def undo(self, moved: MovableT, operand: Shape) -> MovableT:
        taken, first = np.unique(np.array(self.indices, dtype=np.int64), return_index=True)
        if len(taken) < operand[self.axis]:
            first = np.zeros(operand[self.axis], dtype=np.int64)
        return cast(MovableT, moved.take(first, axis=self.axis))

    @property
    def values(self) -> ValueSet:
        return ValueSet.PART


@dataclass(frozen=True)
class InsertSlice(Movement):
    """
    The second operand, but for a slice, which is the first.

    `result[offsets + i * strides] = source[i]` for `i` within `sizes`, of which the source
    may leave out those that are one:
    https://mlir.llvm.org/docs/Dialects/TensorOps/#tensorinsert_slice-tensorinsertsliceop.
    """

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    def __call__(self, *operands: MovableT) -> MovableT:
        source, destination = operands
        return self._insert(cast(MovableT, source.reshape(self.sizes)), destination, 0)

    def _insert(self, source: MovableT, destination: MovableT, axis: int) -> MovableT:
        """Insert on `axis` and those after it; on those before, all positions are inserted at."""
        if axis == len(self.sizes):
            return source
        length, positions = destination.shape[axis], self._positions[axis]
        inserted = self._insert(source, destination.take(positions, axis=axis), axis + 1)
        both = cast(MovableT, np.concatenate((destination, inserted), axis=axis))  # pyright: ignore[reportCallIssue, reportArgumentType]
        indices = np.arange(length, dtype=np.int64)
        indices[positions] = length + np.arange(len(positions))
        return cast(MovableT, both.take(indices, axis=axis))

    @property
    def _positions(self) -> list[NDArray[np.int64]]:
        return [
            offset + stride * np.arange(size, dtype=np.int64)
            for offset, size, stride in zip(self.offsets, self.sizes, self.strides, strict=True)
        ]

    @property
    def _slice(self) -> Slice:
        return Slice(self.offsets, self.sizes, self.strides)

    def result_shape(self, *operands: Shape) -> Shape:
        source, destination = operands
        self._slice.result_shape(destination)
        Reshape(self.sizes).result_shape(source)
        return destination

    def move_views(
        self, operands: Sequence[ArrayView], parameters: QuantizationParameters | None
    ) -> ArrayView:
        source, destination = operands
        result = np.empty(destination.shape, dtype=destination.factors.dtype)
        destination.write(result)
        source.reshape(self.sizes).write(result[(*self._slice.slices, ...)])
        return ArrayView.of(result)

    def keeps_splats(
        self, operands: Sequence[Splat], parameters: QuantizationParameters | None
    ) -> bool:
        return _are_equal(operands)

    @property
    def values(self) -> ValueSet:
        return ValueSet.UNION


@dataclass(frozen=True)
class Chain(Movement):
    """`first` and then the others, one after another."""

    first: Movement
    others: tuple[Movement, ...]

    @classmethod
    def of(cls, movements: Sequence[Movement]) -> Movement:
        """One or more movements as one."""
        first, *others = movements
        return cls(first, tuple(others)) if others else first

    def __call__(self, *operands: MovableT) -> MovableT:
        moved = self.first(*operands)
        for movement in self.others:
            moved = movement(moved)
        return moved

    def result_shape(self, *operands: Shape) -> Shape:
        shape = self.first.result_shape(*operands)
        for movement in self.others:
            shape = movement.result_shape(shape)
        return shape

    def undo(self, moved: MovableT, operand: Shape) -> MovableT:
        movements, shapes = (self.first, *self.others), [operand]
        for movement in movements[:-1]:
            shapes.append(movement.result_shape(shapes[-1]))
        for movement, shape in zip(reversed(movements), reversed(shapes), strict=True):
            moved = movement.undo(moved, shape)
        return moved

    @property
    def size(self) -> int:
        return sum(movement.size for movement in (self.first, *self.others))

    def to(self, shape: Shape) -> Movement:
        return replace(self, others=(*self.others[:-1], self.others[-1].to(shape)))

    def coupled_axes(self, rank: int) -> Sequence[int]:
        return range(rank)


def pulled_back(
    movement: Movement, moved: QuantizationParameters, operand: Shape
) -> QuantizationParameters | None:
    """
    The `p` of an operand of static shape `operand` such that `p . f` is `moved`.

    None if there is none, or it would have to say what elements read that are dropped; none
    is looked for where there are no elements. Raises TooManySlotsError.
    """
    if 0 in (*operand, *moved.shape):
        return None
    found = movement.undo(moved, operand)
    return found if movement(found).first_difference(moved) is None else None


def _inverse(permutation: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(permutation)), key=permutation.__getitem__))


def _broadcast(moved: MovableT, shape: Shape) -> MovableT:
    return cast(MovableT, np.broadcast_to(moved, shape))  # pyright: ignore[reportCallIssue, reportArgumentType]


def _repeated(operand: Movable, axis: int, gap: int) -> Any:
    """Each position of `axis` and then `gap` times the same, but for the last."""
    before, length, after = operand.shape[:axis], operand.shape[axis], operand.shape[axis + 1 :]
    single = operand.reshape((*before, length, 1, *after))
    repeated = np.broadcast_to(single, (*before, length, gap + 1, *after))
    positions = slice(0, (length - 1) * (gap + 1) + 1)
    whole = (slice(None),) * len(before), (slice(None),) * len(after)
    return repeated.reshape((*before, length * (gap + 1), *after))[
        (*whole[0], positions, *whole[1])
    ]


def _check_lengths(shape: Shape) -> None:
    """Raise MovementError if no tensor has `shape`."""
    if any(length < 0 and length != DYNAMIC for length in shape):
        raise MovementError(f"{list(shape)} is not a shape")


def _are_equal(splats: Sequence[Splat]) -> bool:
    """Whether all elements that there are have the same bits."""
    return len({splat.value.tobytes() for splat in splats if 0 not in splat.shape}) < 2
