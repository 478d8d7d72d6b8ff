"""The integer arithmetic of reshapes: how one regroups the factors of a shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from qdialect.support.memory import registered_cache


class Regrouping(NamedTuple):
    """
    A reshape as splits, rearrangements and merges of axes.

    Each operand axis is split into factors; each group of neighbouring factors is either kept,
    or flattened and split differently; then factors are merged into result axes.
    """

    operand_factors: tuple[tuple[int, ...], ...]
    """The factors of each operand axis, the slowest first; none for a length of one."""

    groups: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    """
    Operand factors, and result factors with the same product; the slowest group first. Most
    groups are one factor that both shapes have; the others cannot be divided further.
    """

    result_factors: tuple[tuple[int, ...], ...]
    """The factors of each result axis."""


class _Factors:
    """Divides factors off the fastest axis of a shape, and records the axis of each."""

    def __init__(self, shape: Sequence[int]):
        self.lengths = list(shape)
        self.axis = len(shape) - 1
        self.taken: list[list[int]] = [[] for _ in shape]

    def left(self) -> int:
        """The undivided length of the fastest axis that has factors left, or one."""
        while self.axis > 0 and self.lengths[self.axis] == 1:
            self.axis -= 1
        return self.lengths[self.axis] if self.lengths else 1

    def take(self, factor: int) -> int:
        self.lengths[self.axis] //= factor
        self.taken[self.axis].append(factor)
        return factor

    def by_axis(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(reversed(factors)) for factors in self.taken)


def regroup(operand_shape: Sequence[int], result_shape: Sequence[int]) -> Regrouping:
    """
    The factors that a reshape from `operand_shape` to `result_shape` moves.

    Both shapes have the same product, which is not zero.
    """
    return _regroup(tuple(operand_shape), tuple(result_shape))


@registered_cache
@lru_cache(maxsize=1024)
def _regroup(operand_shape: tuple[int, ...], result_shape: tuple[int, ...]) -> Regrouping:
    operand, result = _Factors(operand_shape), _Factors(result_shape)
    groups: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    while (length := operand.left()) > 1:
        common = math.gcd(length, result.left())
        if common > 1:
            groups.append(((operand.take(common),), (result.take(common),)))
        else:
            groups.append(_take_knot(operand, result))
    return Regrouping(operand.by_axis(), tuple(reversed(groups)), result.by_axis())


def _take_knot(operand: _Factors, result: _Factors) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shortest run of factors that has the same product on both sides."""
    mine, theirs = [operand.take(operand.left())], [result.take(result.left())]
    while (product := math.prod(mine)) != (other := math.prod(theirs)):
        missing = other // math.gcd(product, other)
        factors, side = (mine, operand) if missing > 1 else (theirs, result)
        if side is result:
            missing = product // math.gcd(product, other)
        left = side.left()
        common = math.gcd(left, missing)
        factors.append(side.take(common if common > 1 else left))
    return tuple(reversed(mine)), tuple(reversed(theirs))
