"""Array views on which most movements, including reshapes, do not copy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Final, SupportsIndex, cast

from typing_extensions import override

from qdialect.algebra.blocked_copy import contiguous, contiguous_bytes, write
from qdialect.algebra.regrouping import regroup
from qdialect.support.lazy_numpy import np
from qdialect.support.numpy_protocol import ArrayFunctions

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_RANK: Final = 64
"""The maximum rank of a numpy array."""

_BACKWARDS = slice(None, None, -1)


@dataclass(frozen=True, eq=False)
class ArrayView(ArrayFunctions):
    """
    A view of an array, each of whose axes is a group of dimensions of that array.

    Strides alone cannot express the reshape of a transposed array: numpy copies it. A view only
    regroups dimensions, so that a chain of movements ends in one copy, made by `array`. Two
    movements copy immediately: a reshape between factors that do not divide each other, and a
    slice of an axis that was merged from transposed dimensions.
    """

    factors: NDArray[Any]

    groups: tuple[int, ...]
    """The number of dimensions of `factors` in each axis; the first dimension varies slowest."""

    @classmethod
    def of(cls, array: NDArray[Any]) -> ArrayView:
        """A view of `array` with the same axes."""
        return cls(array, (1,) * array.ndim)

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes."""
        if self._is_plain:
            return self.factors.shape
        return tuple(math.prod(lengths) for lengths in self._lengths)

    def array(self) -> NDArray[Any]:
        """The elements as an array of `shape`: without a copy where strides can express it."""
        steps = list(zip(self.factors.shape, self.factors.strides, strict=True))
        groups = (steps[group.start : group.stop] for group in self._dimensions)
        factors = self.factors if all(map(_is_one_axis, groups)) else contiguous(self.factors)
        return factors.reshape(self.shape)

    def write(self, target: NDArray[Any]) -> None:
        """Write the elements to `target`: see `qdialect.algebra.blocked_copy.write`."""
        if target.shape != self.shape:
            raise ValueError(f"shapes {self.shape} and {target.shape} differ")
        if target.size:
            # Splitting the axes of `target` never copies.
            write(self.factors, target.reshape(self.factors.shape))

    def to_bytes(self, dtype: np.dtype[Any]) -> bytes:
        """The elements in row-major order, in one copy; integers may be cast to `dtype`."""
        return contiguous_bytes(self.factors, dtype)

    def transpose(self, axes: Sequence[int], /) -> ArrayView:
        """Axis `i` of the result is axis `axes[i]`."""
        if self._is_plain:
            return ArrayView(self.factors.transpose(axes), self.groups)
        dimensions = self._dimensions
        return ArrayView(
            self.factors.transpose([d for axis in axes for d in dimensions[axis]]),
            tuple(self.groups[axis] for axis in axes),
        )

    def reshape(self, shape: Sequence[int], /) -> ArrayView:
        """The same elements in row-major order, as an array of `shape`."""
        regrouped = None if 0 in shape else self._regroup(tuple(shape))
        return regrouped or ArrayView.of(self.array().reshape(shape))

    def take(self, indices: NDArray[np.int64], axis: int) -> ArrayView:
        """The positions `indices` (int64, 1-d) of `axis`: a copy."""
        if self.groups[axis] != 1:
            return ArrayView.of(self.array().take(indices, axis=axis))
        # numpy copies arrays that are not contiguous first, so take along the axes in memory order.
        order = sorted(range(self.factors.ndim), key=lambda d: -abs(self.factors.strides[d]))
        dimension = order.index(self._dimensions[axis].start)
        taken = self.factors.transpose(order).take(indices, axis=dimension)
        return ArrayView(taken.transpose(np.argsort(order)), self.groups)

    def __getitem__(self, slices: tuple[slice, ...], /) -> ArrayView:
        """The elements in `slices`, one per axis."""
        selected: list[slice] = []
        for positions, lengths in zip(slices, self._lengths, strict=True):
            length = math.prod(lengths)
            if len(lengths) == 1:
                selected.append(positions)
            elif positions.indices(length) == (0, length, 1):
                selected += [slice(None)] * len(lengths)
            elif positions == _BACKWARDS:
                selected += [_BACKWARDS] * len(lengths)
            else:
                return ArrayView.of(self.array()[slices])
        return ArrayView(self.factors[tuple(selected)], self.groups)

    @classmethod
    @override
    def _concatenate(cls, parts: Sequence[ArrayView], axis: SupportsIndex = 0) -> ArrayView:
        before, after = parts[0].shape[:axis], parts[0].shape[int(axis) + 1 :]
        ends = list(accumulate((part.shape[axis] for part in parts), initial=0))
        dtype = np.result_type(*(part.factors for part in parts))
        result = np.empty((*before, ends[-1], *after), dtype=dtype)
        for part, positions in zip(parts, pairwise(ends), strict=True):
            part.write(result[(slice(None),) * len(before) + (slice(*positions),)])
        return cls.of(result)

    @override
    def _broadcast_to(self, shape: Sequence[int]) -> ArrayView:
        added = len(shape) - len(self.groups)
        repeated: list[tuple[int, ...]] = [(1,)] * added
        for length, lengths in zip(shape[added:], self._lengths, strict=True):
            repeated.append(lengths if length == math.prod(lengths) else (1,))
        if sum(map(len, repeated)) > MAX_RANK:
            return ArrayView.of(np.broadcast_to(self.array(), shape))
        factors = self.factors.reshape([n for lengths in repeated for n in lengths])
        wanted = [
            n
            for length, lengths in zip(shape, repeated, strict=True)
            for n in (lengths if length == math.prod(lengths) else (length,))
        ]
        return ArrayView(np.broadcast_to(factors, wanted), tuple(map(len, repeated)))

    @override
    def _pad(self, pad_width: Sequence[tuple[int, int]], mode: str = "constant") -> ArrayView:
        return ArrayView.of(np.pad(self.array(), pad_width, cast(Any, mode)))

    @property
    def _is_plain(self) -> bool:
        """Whether each axis consists of one dimension."""
        return self.groups == (1,) * self.factors.ndim

    @property
    def _dimensions(self) -> list[range]:
        ends = list(accumulate(self.groups, initial=0))
        return [range(*bounds) for bounds in pairwise(ends)]

    @property
    def _lengths(self) -> list[tuple[int, ...]]:
        lengths = self.factors.shape
        return [lengths[group.start : group.stop] for group in self._dimensions]

    def _regroup(self, shape: tuple[int, ...]) -> ArrayView | None:
        """The reshape done by splitting and grouping dimensions; None if it needs a copy."""
        regrouping = regroup(self.shape, shape)
        if any(before != after for before, after in regrouping.groups):
            return None
        dimensions: list[tuple[int, ...]] = []
        for lengths, factors in zip(self._lengths, regrouping.operand_factors, strict=True):
            inner = regroup(lengths, factors)
            if any(before != after for before, after in inner.groups):
                return None
            dimensions += inner.result_factors
        counts = iter(map(len, dimensions))
        groups = tuple(sum(next(counts) for _ in factors) for factors in regrouping.result_factors)
        lengths = [length for factor in dimensions for length in factor]
        if len(lengths) > MAX_RANK:
            return None
        return ArrayView(self.factors.reshape(lengths), groups)


def _is_one_axis(steps: Sequence[tuple[int, int]]) -> bool:
    """
    Whether dimensions of these lengths and strides can be merged into one axis without a copy.
    """
    moving = [step for step in steps if step[0] != 1]
    return all(outer == length * inner for (_, outer), (length, inner) in pairwise(moving))
