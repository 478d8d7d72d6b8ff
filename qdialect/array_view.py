"""Arrays that are moved without being copied, reshapes included."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Final, SupportsIndex, cast

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from qdialect.array_functions import ArrayFunctions
from qdialect.regrouping import regroup

MAX_RANK: Final = 64
"""The most dimensions that an array may have in numpy."""

_BACKWARDS = slice(None, None, -1)


@dataclass(frozen=True)
class ArrayView(ArrayFunctions):
    """
    An array whose axes are each one or more dimensions of another.

    A transposed array cannot be reshaped by strides alone: numpy copies it. Here axes are
    only grouped, so that a chain of movements ends in one copy, made by `array`. What no
    grouping can say copies at once: a reshape between factors that do not divide each
    other, and a slice of an axis that was merged from moved ones.
    """

    factors: NDArray[Any]

    groups: tuple[int, ...]
    """How many dimensions of `factors` each axis has; the first varies slowest."""

    @classmethod
    def of(cls, array: NDArray[Any]) -> ArrayView:
        """`array` itself."""
        return cls(array, (1,) * array.ndim)

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes."""
        return tuple(math.prod(lengths) for lengths in self._lengths)

    def array(self) -> NDArray[Any]:
        """The elements as an array of `shape`: a view where strides can say it."""
        return self.factors.reshape(self.shape)

    def transpose(self, axes: Sequence[int], /) -> ArrayView:
        """Axis `i` of the result is axis `axes[i]`."""
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
        return ArrayView.of(self.array().take(indices, axis=axis))

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
        return cls.of(np.concatenate([part.array() for part in parts], axis=axis))

    @override
    def _broadcast_to(self, shape: Sequence[int]) -> ArrayView:
        return ArrayView.of(np.broadcast_to(self.array(), shape))

    @override
    def _pad(self, pad_width: Sequence[tuple[int, int]], mode: str = "constant") -> ArrayView:
        return ArrayView.of(np.pad(self.array(), pad_width, cast(Any, mode)))

    @property
    def _dimensions(self) -> list[range]:
        ends = list(accumulate(self.groups, initial=0))
        return [range(*bounds) for bounds in pairwise(ends)]

    @property
    def _lengths(self) -> list[tuple[int, ...]]:
        lengths = self.factors.shape
        return [lengths[group.start : group.stop] for group in self._dimensions]

    def _regroup(self, shape: tuple[int, ...]) -> ArrayView | None:
        """A reshape by splitting and grouping dimensions, if these are enough."""
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
