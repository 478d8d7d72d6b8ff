"""The loops of `linalg.generic`, and the elements that they read and write."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)
from xdsl.utils.exceptions import InterpretationError

from qdialect.algebra.movement import Shape
from qdialect.check.interpreters.memory import allocated, temporary_memory

Indices = tuple[NDArray[np.int64], ...]


def within(indices: Indices, shape: Shape) -> Indices:
    """`indices` after a bounds check against `shape`. Raises InterpretationError."""
    for index, length in zip(indices, shape, strict=True):
        if ((index < 0) | (index >= length)).any():
            raise InterpretationError(f"an index is out of range for an axis of length {length}")
    return indices


class Access:
    """The mapping from the loops of `linalg.generic` to the elements of an operand."""

    def __init__(self, map: AffineMap, grid: Indices, loops: Shape) -> None:
        self._map, self._grid, self._loops = map, grid, loops
        results = map.results
        self.dims = [of.position for of in results if isinstance(of, AffineDimExpr)]
        """The loops that index an axis alone."""
        self.is_plain = len(set(self.dims)) == len(results)
        """Whether the map is a projected permutation: each axis of the operand is another loop."""
        self.used = map.used_dims()
        """The loops that the read element depends on."""

    def read(self, elements: NDArray[Any]) -> NDArray[Any]:
        """The element that each iteration reads: an array of the shape of the loops."""
        if self.is_plain:
            order = sorted(range(len(self.dims)), key=self.dims.__getitem__)
            lengths = [n if at in self.dims else 1 for at, n in enumerate(self._loops)]
            return np.broadcast_to(elements.transpose(order).reshape(lengths), self._loops)
        if (view := self._view(elements)) is not None:
            return view
        with temporary_memory(self._size_of_positions):
            at = self._positions(elements.shape)
            nbytes = math.prod(self._loops) * elements.dtype.itemsize
            return allocated(lambda: np.asarray(elements[at]), nbytes)

    def at_first_of(self, loops: Sequence[int]) -> Access:
        """The same mapping from the first iteration of `loops` alone."""
        return Access(
            self._map,
            tuple(
                axis.take([0], at) if at in loops else axis for at, axis in enumerate(self._grid)
            ),
            tuple(1 if at in loops else length for at, length in enumerate(self._loops)),
        )

    def write(self, elements: NDArray[Any], target: NDArray[Any]) -> NDArray[Any]:
        """`target` with the elements that the iterations have computed."""
        elements = np.broadcast_to(elements, self._loops)
        others = [at for at in range(len(self._loops)) if at not in self.dims]
        if self.is_plain and all(self._loops[at] == 1 for at in others):
            return elements.transpose([*others, *self.dims])[(0,) * len(others)]
        written = allocated(target.copy, target.nbytes)
        with temporary_memory(self._size_of_positions):
            written[self._positions(target.shape)] = elements
        return written

    def _view(self, elements: NDArray[Any]) -> NDArray[Any] | None:
        """The elements without a copy, if each index is a sum of multiples of loops."""
        steps = [_step_of(of, len(self._loops)) for of in self._map.results]
        if None in steps or 0 in self._loops:
            return None
        strides = [0] * len(self._loops)
        starts: list[slice] = []
        for axis, step in enumerate(cast("list[_Step]", steps)):
            reaches = [by * (n - 1) for by, n in zip(step.by, self._loops, strict=True)]
            low = step.first + sum(min(reach, 0) for reach in reaches)
            high = step.first + sum(max(reach, 0) for reach in reaches)
            if low < 0 or high >= elements.shape[axis]:
                raise InterpretationError(
                    f"an index is out of range for an axis of length {elements.shape[axis]}"
                )
            starts.append(slice(step.first, None))
            for loop, by in enumerate(step.by):
                strides[loop] += by * elements.strides[axis]
        return as_strided(elements[tuple(starts)], self._loops, strides, writeable=False)

    @property
    def _size_of_positions(self) -> int:
        """The bytes of the index arrays and of their temporary arrays."""
        return math.prod(self._loops) * 8 * (len(self._map.results) + 2)

    def _positions(self, shape: Shape) -> Indices:
        indices = tuple(
            np.broadcast_to(np.asarray(of.eval(cast(Any, self._grid), ())), self._loops)
            for of in self._map.results
        )
        return within(indices, shape)


@dataclass(frozen=True)
class _Step:
    """An index: the value at the first iteration, and the step of each loop."""

    first: int
    by: tuple[int, ...]


def _step_of(expression: AffineExpr, loops: int) -> _Step | None:
    """An index as a sum of multiples of loops; None if it is something else."""
    match expression:
        case AffineConstantExpr():
            return _Step(expression.value, (0,) * loops)
        case AffineDimExpr():
            return _Step(0, tuple(int(at == expression.position) for at in range(loops)))
        case AffineBinaryOpExpr():
            one, other = (_step_of(of, loops) for of in (expression.lhs, expression.rhs))
            if one is None or other is None:
                return None
            if expression.kind is AffineBinaryOpKind.Add:
                by = tuple(map(sum, zip(one.by, other.by, strict=True)))
                return _Step(one.first + other.first, by)
            if expression.kind is AffineBinaryOpKind.Mul and not any(other.by):
                return _Step(one.first * other.first, tuple(by * other.first for by in one.by))
            if expression.kind is AffineBinaryOpKind.Mul and not any(one.by):
                return _Step(one.first * other.first, tuple(by * one.first for by in other.by))
            return None
        case _:
            return None


def lengths_of_loops(maps: Sequence[AffineMap], shapes: Sequence[Shape]) -> Shape:
    """
    The trip count of each loop, from the shapes of the operands indexed by it. Raises
    InterpretationError.
    """
    lengths: dict[int, int] = {}
    for map, shape in zip(maps, shapes, strict=True):
        for expression, length in zip(map.results, shape, strict=True):
            if not isinstance(expression, AffineDimExpr):
                continue
            if lengths.setdefault(expression.position, length) != length:
                raise InterpretationError("the shapes of its operands do not match")
    count = maps[0].num_dims
    if set(range(count)) - lengths.keys():
        raise InterpretationError("the length of a loop cannot be determined")
    return tuple(lengths[loop] for loop in range(count))
