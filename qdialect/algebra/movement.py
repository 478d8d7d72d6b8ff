"""
Shape ops, each defined once as a function that moves both arrays and parameters.

A `Movement` is applied to the elements of a constant (an array, an `ArrayView`, or a `Splat` if
all are equal) and to its `QuantizationParameters`: one program with two readings.
`Movement.after` composes two movements.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, Protocol, TypeVar, cast

from qdialect.algebra.parameters import QuantizationParameters
from qdialect.algebra.views import ArrayView, Splat, Values, as_view
from qdialect.support.arguments import check_instance, integer, integers
from qdialect.support.lazy_numpy import NDArray, np

DYNAMIC: Final = -(2**63)
"""xDSL's placeholder for an axis length that is only known at run time."""

Shape = tuple[int, ...]


class MovementError(ValueError):
    """The movement is invalid for operands of these shapes, or for all operands."""


class ValueSet(Enum):
    """The relation of the set of values of a result to that of the operands."""

    SAME = "same"
    """The set is the same, so a recorded range still holds exactly."""

    PART = "superset"
    """A subset: some values may be missing, but none is new."""

    UNION = "union"
    """The union of the values of several operands."""

    MORE = "padded"
    """There may be one value that no operand has: the padding value."""

    def then(self, *others: ValueSet) -> ValueSet:
        """The relation of a chain of movements: this one, followed by `others`."""
        reached = self
        for other in others:
            if other is not ValueSet.SAME and _ORDER[other] > _ORDER[reached]:
                reached = other
        return reached


_ORDER: Final = {value_set: at for at, value_set in enumerate(ValueSet)}


class Movable(Protocol):
    """
    The methods that arrays, splats and quantization parameters share.

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
class Movement(ABC):
    """
    The source of each element of a result: `f` in `C' = C . f`, `p' = p . f`.

    Constructors accept any integers and sequences of integers, and store them as `int` and
    `tuple`. They raise TypeError for anything else, and MovementError for a movement that is
    invalid for every operand.
    """

    def _plain(self, *, one: Sequence[str] = (), many: Sequence[str] = ()) -> None:
        """Convert the fields in `one` to `int` and those in `many` to tuples. Raises TypeError."""
        for name in one:
            object.__setattr__(self, name, integer(name, getattr(self, name)))
        for name in many:
            object.__setattr__(self, name, integers(name, getattr(self, name)))

    @abstractmethod
    def __call__(self, *operands: MovableT) -> MovableT:
        """Move `operands`, whose shapes `result_shape` must accept."""

    @abstractmethod
    def result_shape(self, *operands: Shape) -> Shape:
        """
        The shape of the result for operands of these shapes.

        Lengths may be DYNAMIC. Raises MovementError if the movement is invalid for these shapes.
        """

    def undo(self, moved: MovableT, operand: Shape) -> MovableT:
        """
        A right inverse: an operand of static shape `operand` that moves to `moved`.

        Only for movements of one operand, and for shapes without a zero. The operand is
        constant along each axis on which the movement drops positions. If no operand moves to
        `moved`, the result moves to something else; `pulled_back` checks this.
        """
        first = moved[(slice(1),) * len(moved.shape)]
        return _broadcast(cast(MovableT, first.reshape((1,) * len(operand))), operand)

    def to(self, shape: Shape) -> Movement:
        """This movement with `shape` as its result shape; itself if it holds no shape."""
        return self

    @property
    def size(self) -> int:
        """The number of stored integers where it can exceed the rank, else 0."""
        return 0

    @property
    def values(self) -> ValueSet:
        """How the set of values of the result relates to the values of the operands."""
        return ValueSet.SAME

    def coupled_axes(self, rank: int) -> Sequence[int]:
        """The axes of operands and result whose lengths depend on several axes."""
        return ()

    def keeps_splats(
        self, operands: Sequence[Splat], parameters: QuantizationParameters | None
    ) -> bool:
        """Whether the result of moving these splats, under `parameters`, is a splat."""
        return True

    def move_views(
        self, operands: Sequence[ArrayView], parameters: QuantizationParameters | None
    ) -> ArrayView:
        """
        Move the elements of constants to a result that has `parameters`.

        `parameters` are None if the elements are not quantized.
        """
        return self(*operands)

    def move_values(
        self, operands: Sequence[Values], parameters: QuantizationParameters | None
    ) -> Values:
        """As `move_views`, but the copy of a concatenation may be deferred."""
        return self.move_views([as_view(values) for values in operands], parameters)

    def is_identity(self, *operands: Shape) -> bool:
        """
        Whether every element of operands of these shapes stays where it is.

        `result_shape` must accept the shapes. For a DYNAMIC length, the answer is True only if
        it holds for every length. A movement that does not override this is never simplified away.
        """
        return False

    def after(self, first: Movement) -> Movement | None:
        """
        The movement that does `first` and then this one, or None if no single one does.

        A movement that does not override this is never composed.
        """
        return None


@dataclass(frozen=True)
class Transpose(Movement):
    """Axis `k` of the result is axis `permutation[k]` of the operand."""

    permutation: tuple[int, ...]

    def __post_init__(self) -> None:
        self._plain(many=["permutation"])
        self._check_axes(len(self.permutation))

    def _check_axes(self, rank: int) -> None:
        if sorted(self.permutation) != list(range(rank)):
            raise MovementError(
                f"permutation {list(self.permutation)} does not name each of {rank} axes once"
            )

    def __call__(self, *operands: MovableT) -> MovableT:
        (operand,) = operands
        return operand.transpose(self.permutation)

    def result_shape(self, *operands: Shape) -> Shape:
        (operand,) = operands
        if len(self.permutation) != len(operand):
            self._check_axes(len(operand))
        return tuple([operand[axis] for axis in self.permutation])

    def undo(self, moved: MovableT, operand: Shape) -> MovableT:
        return moved.transpose(inverse(self.permutation))

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

    def __post_init__(self) -> None:
        self._plain(many=["shape"])
        _check_lengths(self.shape)

    def __call__(self, *operands: MovableT) -> MovableT:
        (operand,) = operands
        return operand.reshape(self.shape)

    def result_shape(self, *operands: Shape) -> Shape:
        (operand,) = operands
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
        # A single dynamic length follows from the number of elements, unless a static one is zero.
        unknown = operand.count(DYNAMIC)
        return operand == self.shape and (not unknown or (unknown == 1 and 0 not in operand))

    def after(self, first: Movement) -> Movement | None:
        return self if isinstance(first, Reshape) else None


@dataclass(frozen=True)
class Slice(Movement):
    """`result[i] = operand[offsets + i * strides]`, of `sizes`; strides are positive."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    def __post_init__(self) -> None:
        self._plain(many=["offsets", "sizes", "strides"])
        if not len(self.offsets) == len(self.sizes) == len(self.strides):
            raise MovementError(f"{self._counts} differ in length")
        triples = zip(self.offsets, self.sizes, self.strides, strict=True)
        for axis, (offset, size, stride) in enumerate(triples):
            if offset < 0 or size < 0 or stride < 1:
                raise MovementError(
                    f"offset {offset}, size {size} and stride {stride} on axis {axis} "
                    "must be at least 0, 0 and 1"
                )

    @classmethod
    def between(cls, starts: Sequence[int], limits: Sequence[int], strides: Sequence[int]) -> Slice:
        """The slice of the half-open ranges `starts[k]` to `limits[k]`. Raises MovementError."""
        triples = zip(starts, limits, strides, strict=True)
        sizes = [-((start - limit) // max(stride, 1)) for start, limit, stride in triples]
        return cls(tuple(starts), tuple(sizes), tuple(strides))

    @property
    def _counts(self) -> str:
        offsets, sizes, strides = map(len, (self.offsets, self.sizes, self.strides))
        return f"{offsets} offsets, {sizes} sizes and {strides} strides"

    def __call__(self, *operands: MovableT) -> MovableT:
        (operand,) = operands
        return operand[self.slices]

    @property
    def slices(self) -> tuple[slice, ...]:
        """The positions on each axis, as Python slices."""
        return tuple(
            slice(offset, offset + size * stride, stride)
            for offset, size, stride in zip(self.offsets, self.sizes, self.strides, strict=True)
        )

    def result_shape(self, *operands: Shape) -> Shape:
        (operand,) = operands
        if len(self.sizes) != len(operand):
            raise MovementError(
                f"{self._counts} do not match the rank {len(operand)} of the operand"
            )
        for axis, length in enumerate(operand):
            offset, size, stride = (
                self.offsets[axis],
                self.sizes[axis],
                self.strides[axis],
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
        steps = zip(self.sizes, self.strides, strict=True)
        return (
            not any(self.offsets)
            and self.sizes == operand
            and all(stride == 1 or size < 2 for size, stride in steps)
        )

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
class BroadcastInDim(Movement):
    """
    Axis `i` of the operand is axis `dims[i]` of `shape`, repeated if its length is one.

    https://openxla.org/stablehlo/spec#broadcast_in_dim.
    """

    dims: tuple[int, ...]
    shape: Shape

    def __post_init__(self) -> None:
        self._plain(many=["dims", "shape"])
        _check_lengths(self.shape)
        _check_different_axes(self.dims, len(self.shape))

    @classmethod
    def trailing(cls, operand: Shape, result: Shape) -> BroadcastInDim:
        """Broadcast like numpy: the axes of the operand are the last axes of the result."""
        return cls(tuple(range(len(result) - len(operand), len(result))), result)

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
        if len(self.dims) != len(operand):
            raise MovementError(
                f"{len(self.dims)} dims do not match the rank {len(operand)} of the operand"
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
        return cast(MovableT, aligned.transpose(inverse(order)))

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

    def __post_init__(self) -> None:
        self._plain(many=["dims"])
        _check_different_axes(self.dims)

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
        _check_different_axes(self.dims, len(operand))
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


@dataclass(frozen=True)
class Take(Movement):
    """`result[..., i, ...] = operand[..., indices[i], ...]` on axis `dim`."""

    dim: int
    indices: tuple[int, ...]

    def __post_init__(self) -> None:
        self._plain(one=["dim"], many=["indices"])
        check_axis(self.dim)
        if self.indices and (least := min(self.indices)) < 0:
            raise MovementError(f"index {least} is negative: positions are counted from 0")

    @property
    def size(self) -> int:
        return len(self.indices)

    def __call__(self, *operands: MovableT) -> MovableT:
        (operand,) = operands
        return operand.take(np.array(self.indices, dtype=np.int64), axis=self.dim)

    def result_shape(self, *operands: Shape) -> Shape:
        (operand,) = operands
        if self.dim >= len(operand):
            raise MovementError(f"axis {self.dim} is out of range for rank {len(operand)}")
        length = operand[self.dim]
        if length != DYNAMIC and self.indices and (last := max(self.indices)) >= length:
            raise MovementError(
                f"index {last} is out of range for axis {self.dim} of length {length}"
            )
        return (*operand[: self.dim], len(self.indices), *operand[self.dim + 1 :])

    def undo(self, moved: MovableT, operand: Shape) -> MovableT:
        taken, first = np.unique(np.array(self.indices, dtype=np.int64), return_index=True)
        if len(taken) < operand[self.dim]:
            first = np.zeros(operand[self.dim], dtype=np.int64)
        return cast(MovableT, moved.take(first, axis=self.dim))

    @property
    def values(self) -> ValueSet:
        return ValueSet.PART

    def is_identity(self, *operands: Shape) -> bool:
        (operand,) = operands
        length = operand[self.dim]
        return len(self.indices) == length and self.indices == tuple(range(length))

    def after(self, first: Movement) -> Movement | None:
        if not isinstance(first, Take) or first.dim != self.dim:
            return None
        of_first = np.array(first.indices, dtype=np.int64)
        taken = of_first[np.array(self.indices, dtype=np.int64)]
        return Take(self.dim, tuple(taken.tolist()))


@dataclass(frozen=True)
class Chain(Movement):
    """Several movements in sequence: `first`, then each of `others`."""

    first: Movement
    others: tuple[Movement, ...]

    def __post_init__(self) -> None:
        check_instance("the others of a chain", self.others, tuple, "(Transpose((1, 0)),)")
        for movement in (self.first, *self.others):
            _check_movement(movement)

    @classmethod
    def of(cls, movements: Sequence[Movement]) -> Movement:
        """
        One or more movements as a single one.

        Raises TypeError, and ValueError for an empty sequence.
        """
        if not movements:
            raise ValueError("a chain needs at least one movement")
        first, *others = movements
        _check_movement(first)
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
    def values(self) -> ValueSet:
        return self.first.values.then(*(movement.values for movement in self.others))

    @property
    def size(self) -> int:
        return sum(movement.size for movement in (self.first, *self.others))

    def to(self, shape: Shape) -> Movement:
        return replace(self, others=(*self.others[:-1], self.others[-1].to(shape)))

    def coupled_axes(self, rank: int) -> Sequence[int]:
        return range(rank)

    def is_identity(self, *operands: Shape) -> bool:
        if not self.first.is_identity(*operands):
            return False
        shape = self.first.result_shape(*operands)
        for movement in self.others:
            if not movement.is_identity(shape):
                return False
            shape = movement.result_shape(shape)
        return True

    def after(self, first: Movement) -> Movement | None:
        composed = self.first.after(first)
        return None if composed is None else Chain(composed, self.others)


def pulled_back(
    movement: Movement, moved: QuantizationParameters, operand: Shape
) -> QuantizationParameters | None:
    """
    The parameters `p` of an operand of static shape `operand` for which `p . f` is `moved`.

    None if there are none, if they cannot be constant along an axis on which the movement drops
    positions, or if a shape has no elements. Raises TooManySlotsError.
    """
    if 0 in (*operand, *moved.shape):
        return None
    pulled = movement.undo(moved, operand)
    return pulled if movement(pulled).first_difference(moved) is None else None


def inverse(permutation: Sequence[int]) -> tuple[int, ...]:
    """The inverse of a permutation; of other different numbers, their places in rising order."""
    return tuple(sorted(range(len(permutation)), key=permutation.__getitem__))


def _broadcast(moved: MovableT, shape: Shape) -> MovableT:
    return cast(MovableT, np.broadcast_to(moved, shape))  # pyright: ignore[reportCallIssue, reportArgumentType]


def _check_lengths(shape: Shape) -> None:
    """Raise MovementError if a length of `shape` is neither DYNAMIC nor at least zero."""
    if any(length < 0 and length != DYNAMIC for length in shape):
        raise MovementError(f"{list(shape)} is not a shape")


def _check_movement(movement: object) -> None:
    """Raise TypeError if `movement` is not a Movement."""
    check_instance("a part of a chain", movement, Movement, "Transpose((1, 0))")


def check_axis(axis: int) -> None:
    """Raise MovementError if `axis` is negative."""
    if axis < 0:
        raise MovementError(f"axis {axis} is negative: axes are counted from 0")


def _check_different_axes(axes: Sequence[int], rank: int | None = None) -> None:
    """Raise MovementError unless `axes` are distinct axes of a tensor, of `rank` if given."""
    if len(set(axes)) < len(axes) or any(
        axis < 0 or (rank is not None and axis >= rank) for axis in axes
    ):
        of_rank = "" if rank is None else f" of {rank}"
        raise MovementError(f"dims {list(axes)} are not different axes{of_rank}")
