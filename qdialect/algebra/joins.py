"""The movements of several operands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from qdialect.algebra.movement import (
    DYNAMIC,
    MovableT,
    Movement,
    MovementError,
    Reshape,
    Shape,
    Slice,
    ValueSet,
    check_axis,
)
from qdialect.algebra.parameters import QuantizationParameters
from qdialect.algebra.views import ArrayView, Joined, Splat, Values, as_view
from qdialect.support.lazy_numpy import NDArray, np


@dataclass(frozen=True)
class Concat(Movement):
    """The operands one after another on axis `dim`."""

    dim: int

    def __post_init__(self) -> None:
        self._plain(one=["dim"])
        check_axis(self.dim)

    def __call__(self, *operands: MovableT) -> MovableT:
        return cast(MovableT, np.concatenate(operands, axis=self.dim))  # pyright: ignore[reportCallIssue, reportArgumentType]

    def result_shape(self, *operands: Shape) -> Shape:
        if not operands:
            raise MovementError("a concatenation needs at least one operand")
        rank = len(operands[0])
        if self.dim >= rank:
            raise MovementError(f"axis {self.dim} is out of range for rank {rank}")
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

    def part(self, moved: MovableT, start: int, shape: Shape) -> MovableT:
        """What an operand of static `shape` has of `moved`, from a position of the axis on."""
        starts = [start if axis == self.dim else 0 for axis in range(len(shape))]
        ends = [low + length for low, length in zip(starts, shape, strict=True)]
        return Slice.between(starts, ends, [1] * len(shape))(moved)

    @property
    def values(self) -> ValueSet:
        return ValueSet.UNION

    def coupled_axes(self, rank: int) -> Sequence[int]:
        return (self.dim,)

    def is_identity(self, *operands: Shape) -> bool:
        return len(operands) == 1

    def after(self, first: Movement) -> Movement | None:
        # `first` would move only one of several operands.
        return None

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
class InsertSlice(Movement):
    """
    The second operand, with one slice of it replaced by the first.

    `result[offsets + i * strides] = source[i]` for `i` within `sizes`. The source may lack
    axes of size one:
    https://mlir.llvm.org/docs/Dialects/TensorOps/#tensorinsert_slice-tensorinsertsliceop.
    """

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    def __post_init__(self) -> None:
        self._plain(many=["offsets", "sizes", "strides"])
        _ = self._slice

    def __call__(self, *operands: MovableT) -> MovableT:
        source, destination = operands
        return self._insert(cast(MovableT, source.reshape(self.sizes)), destination, 0)

    def _insert(self, source: MovableT, destination: MovableT, axis: int) -> MovableT:
        """Insert along `axis` and the axes after it; those before are replaced as a whole."""
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

    def undo(self, moved: MovableT, operand: Shape) -> MovableT:
        # The result has elements of both operands, so neither is a right inverse on its own.
        return super().undo(moved, operand)

    def is_identity(self, *operands: Shape) -> bool:
        # There are always two operands, and the first may have no elements.
        return False

    def after(self, first: Movement) -> Movement | None:
        # `first` would move only one of the two operands.
        return None


def _are_equal(splats: Sequence[Splat]) -> bool:
    """Whether all non-empty splats have the same bits."""
    return len({splat.value.tobytes() for splat in splats if 0 not in splat.shape}) < 2
