"""
Factors of the elements of a tensor, and how they move with the elements.

Factors are an array of the rank of the tensor. An axis of length 1 has one factor for all
positions, which saves memory; axes of unknown length always have length 1. NaN stands for any
factor, where no element is read. Most factors vary along one axis, but a reshape may produce any
pattern. They move by the source position of each result element, so every movement is supported:
forward from an operand, and backward to it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from qdialect.algebra.movement import DYNAMIC, BroadcastInDim, Movement, Reshape, Shape
from qdialect.check.index_maps import (
    NotCertifiableError,
    moved_shape,
    origins,
    steps_of,
)
from qdialect.ptq.schemes.ranges import Range
from qdialect.support.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Factors: TypeAlias = "NDArray[np.float32]"

_STAND_INS = (2, 3)
"""Lengths that replace unknown ones: a property that holds for both is taken to hold for all."""


def ones(rank: int) -> Factors:
    """Factors of one."""
    return np.ones((1,) * rank, "f4")


def are_ones(factors: Factors) -> bool:
    """Whether all factors are one."""
    return bool((np.isnan(factors) | (factors == 1)).all())


def compact(values: NDArray[Any]) -> NDArray[Any]:
    """The same array with length 1 along each axis along which it is constant."""
    for axis in range(values.ndim):
        first = values.take([0], axis) if values.shape[axis] > 1 else values
        if first is not values and _are_equal(values, first):
            values = first
    return values


def _are_equal(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Whether arrays are equal; NaN equals NaN."""
    return bool(((one == other) | ((one != one) & (other != other))).all())


def merged(one: Factors, other: Factors) -> Factors | None:
    """The union of factors, where NaN means no factor; None if they differ anywhere."""
    one, other = np.broadcast_arrays(one, other)
    if ((one != other) & ~np.isnan(one) & ~np.isnan(other)).any():
        return None
    return compact(np.where(np.isnan(one), other, one))


def filled(factors: Factors, by: Factors | None = None) -> Factors:
    """Factors with NaN replaced by those of another array, or by 1."""
    if by is not None:
        one, other = np.broadcast_arrays(factors, by)
        factors = np.where(np.isnan(one), other, one)
    return compact(np.where(np.isnan(factors), np.float32(1), factors))


_BYTES_PER_ELEMENT: Final = 32
"""For the index of an element, and for temporary copies of factors."""


@dataclass(frozen=True, eq=False)
class Places:
    """The source of each element of the result of movements."""

    operands: tuple[Shape, ...]
    result: Shape
    index: NDArray[np.int64]
    """For each element of the result, its linear index in all operands together; -1 for padding."""

    @classmethod
    def of(cls, movements: Sequence[Movement], operands: Sequence[Shape]) -> Places:
        """
        Follow movements of operands of static shapes.

        Raises NotCertifiableError, and MemoryLimitError for too many elements.
        """
        shapes, steps = [tuple(operands)], list(steps_of(movements))
        for step in steps:
            shapes.append((moved_shape(step, shapes[-1]),))
        (result,) = shapes[-1] if steps else (operands[0],)
        largest = max(math.prod(shape) for of_step in shapes for shape in of_step)
        # Interpreters import numpy.
        from qdialect.check.interpreters.memory import allocated

        index = allocated(lambda: cls._index(shapes, steps, result), _BYTES_PER_ELEMENT * largest)
        return cls(tuple(operands), result, index)

    @staticmethod
    def _index(
        shapes: Sequence[Sequence[Shape]], steps: Sequence[Movement], result: Shape
    ) -> NDArray[np.int64]:
        positions = np.arange(math.prod(result), dtype=np.int64)
        is_new = np.zeros(len(positions), np.bool_)
        numbers: NDArray[np.int64] | None = None
        for step, before in zip(reversed(steps), reversed(shapes[:-1]), strict=True):
            found = origins(step, before, positions)
            positions, numbers = found.positions, found.operands
            if found.is_new is not None:
                is_new |= found.is_new
        if numbers is not None:
            starts = np.cumsum([0, *map(math.prod, shapes[0])])
            positions = positions + starts[numbers]
        return np.where(is_new, -1, positions)

    @property
    def pads(self) -> bool:
        """Whether any element is padding."""
        return bool((self.index < 0).any())

    def pulled(self, factors: Factors) -> list[Factors] | None:
        """The operand factors that give the result these factors; None if there are none."""
        wanted = np.broadcast_to(factors, self.result).reshape(-1)
        is_known = ~np.isnan(wanted) & (self.index >= 0)
        wanted, index = wanted[is_known], self.index[is_known]
        found = np.full(sum(map(math.prod, self.operands)), np.nan, "f4")
        found[index] = wanted
        if (found[index] != wanted).any():
            return None
        ends = np.cumsum([math.prod(shape) for shape in self.operands])
        parts = np.split(found, ends[:-1])
        return [
            compact(part.reshape(shape)) for part, shape in zip(parts, self.operands, strict=True)
        ]

    def moved(self, operands: Sequence[NDArray[Any]], new: object) -> NDArray[Any]:
        """The elements of the result, from arrays of the operands; `new` where there is padding."""
        pairs = zip(operands, self.operands, strict=True)
        parts = [np.broadcast_to(array, shape).reshape(-1) for array, shape in pairs]
        held = np.concatenate([*parts, np.asarray([new], parts[0].dtype)])
        return compact(held[self.index].reshape(self.result))

    def keeps(self, groups: Sequence[NDArray[np.int64]]) -> bool:
        """Whether the result has all or none of the elements of each group of the operands."""
        if self.pads:
            return False
        pairs = zip(groups, self.operands, strict=True)
        of_elements = np.concatenate([np.broadcast_to(*pair).reshape(-1) for pair in pairs])
        is_here = np.zeros(len(of_elements), np.bool_)
        is_here[self.index] = True
        return not np.isin(of_elements[is_here], of_elements[~is_here]).any()


def places_of(movements: Sequence[Movement], operands: Sequence[Shape]) -> list[Places]:
    """
    The sources of the elements of movements: several if lengths are known only at run time.

    Each of them is for other lengths in their place. Raises NotCertifiableError for an unknown
    movement, or a movement with unknown lengths of its own.
    """
    own = map(_own_shape, steps_of(movements))
    if not any(DYNAMIC in shape for shape in (*operands, *own)):
        return [Places.of(movements, operands)]
    found = list[Places]()
    for length in _STAND_INS:
        shapes = [tuple(length if of == DYNAMIC else of for of in shape) for shape in operands]
        steps, shape = list[Movement](), shapes
        for step in steps_of(movements):
            steps.append(_with_length(step, shape, length))
            shape = [moved_shape(steps[-1], shape)]
        found.append(Places.of(steps, shapes))
    return found


def _with_length(movement: Movement, operands: Sequence[Shape], length: int) -> Movement:
    """A movement with its own unknown length replaced by one that fits its operands."""
    shape = _own_shape(movement)
    if DYNAMIC not in shape:
        return movement
    if isinstance(movement, Reshape):
        known = math.prod(of for of in shape if of != DYNAMIC)
        count = math.prod(operands[0])
        if shape.count(DYNAMIC) > 1 or not known or count % known:
            raise NotCertifiableError("a length is only known at run time")
        length = count // known
    return movement.to(tuple(length if of == DYNAMIC else of for of in shape))


def _own_shape(movement: Movement) -> Shape:
    """The result shape that a movement contains; empty if its operands decide the shape."""
    return movement.shape if isinstance(movement, Reshape | BroadcastInDim) else ()


def common(found: Sequence[NDArray[Any] | None], shape: Shape) -> NDArray[Any] | None:
    """One array for a tensor of `shape`, from arrays for several lengths of its unknown axes."""
    first = found[0]
    for each in found:
        if each is None or first is None or each.shape != first.shape:
            return None
        if not _are_equal(each, first):
            return None
    if first is None or any(
        of == DYNAMIC and length > 1 for of, length in zip(shape, first.shape, strict=True)
    ):
        return None
    return first


@dataclass(frozen=True, eq=False)
class GroupedRanges:
    """Ranges of groups of elements of a tensor, such as its channels."""

    groups: NDArray[np.int64]
    """
    The group of each element.

    As with factors, length 1 stands for the same group along an axis.
    """
    minima: NDArray[np.float32]
    maxima: NDArray[np.float32]

    def scaled(self, factors: Factors) -> GroupedRanges | None:
        """The ranges after a multiplication; None if one group has several factors."""
        groups, of_elements = np.broadcast_arrays(self.groups, factors)
        is_known = ~np.isnan(of_elements)
        groups, of_elements = groups[is_known], of_elements[is_known]
        of_groups = np.ones(len(self.minima), "f4")
        of_groups[groups] = of_elements
        if (of_groups[groups] != of_elements).any():
            return None
        return GroupedRanges(self.groups, self.minima * of_groups, self.maxima * of_groups)

    @property
    def whole(self) -> tuple[np.float32, np.float32]:
        """The range of all groups."""
        return self.minima.min(), self.maxima.max()

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes along which groups vary."""
        return tuple(axis for axis, length in enumerate(self.groups.shape) if length > 1)

    def pooled(self, of_positions: Range) -> Range:
        """
        The ranges of positions, as of `along`, with one range for each group.

        Groups that differ only in other axes count as one.
        """
        others = tuple(
            axis for axis, length in enumerate(of_positions.minimum.shape) if length == 1
        )
        groups = self.groups.min(axis=others, keepdims=True)
        low = np.full(len(self.minima), np.inf, "f4")
        high = np.full(len(self.minima), -np.inf, "f4")
        positions = np.broadcast_to(groups, of_positions.minimum.shape)
        np.minimum.at(low, positions, of_positions.minimum)
        np.maximum.at(high, positions, of_positions.maximum)
        return Range(low[positions], high[positions])

    def along(self, axes: Sequence[int]) -> Range:
        """The ranges at the positions of some axes, with length 1 along all other axes."""
        others = tuple(axis for axis in range(self.groups.ndim) if axis not in axes)
        low, high = self.minima[self.groups], self.maxima[self.groups]
        return Range(low.min(axis=others, keepdims=True), high.max(axis=others, keepdims=True))
