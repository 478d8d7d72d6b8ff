"""
Clamps that are written as comparisons and selections, such as `select(x > 0, x, 0)`.

Such ops have a result that is the operand or a constant, and which of them does not change between
two neighbouring constants. So one number in each of these intervals, and the constants themselves,
show the whole function.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Final, cast

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineMap

from qdialect.ops.attributes import integer_of
from qdialect.ops.interface import Refusal, RefusalCode, find_attribute, name_of, op_model
from qdialect.ops.rules import Limit, rule_of
from qdialect.ptq.float_graph.flow_graph import number_of

Compare = Callable[[float, float], bool]

_MOST_VALUES: Final = 64
"""The most values of a clamp."""

_COMPARISONS: Final = {"equal": "EQ", "greater": "GT", "greater_equal": "GE"}

_DIRECTIONS: Final[dict[str, Compare]] = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "GE": operator.ge,
    "GT": operator.gt,
    "LE": operator.le,
    "LT": operator.lt,
}
_PREDICATES: Final = ("EQ", "GT", "GE", "LT", "LE", "NE")
"""The directions of the predicates 1 to 6 of `arith.cmpf`, by number."""


def is_clamp(
    result: SSAValue,
    entry: SSAValue,
    value_of: Callable[[SSAValue], SSAValue],
    splat_of: Callable[[SSAValue], float | None],
) -> bool:
    """
    Whether `result` is `entry` between two numbers, and outside of them the number that is nearer.

    `value_of` skips ops that only carry ranges. `splat_of` is the number that all elements of a
    constant equal, or None.
    """
    function = _Function(entry, value_of, splat_of)
    try:
        function.at(result, 0.0)
        ends = sorted(function.constants)
        if not ends or not all(map(math.isfinite, ends)):
            return False
        between = [(low + high) / 2 for low, high in pairwise(ends)]
        numbers = sorted({ends[0] - 1, *ends, *between, ends[-1] + 1})
        found = [function.at(result, number) for number in numbers]
    except Refusal:
        return False
    low = -math.inf if found[0] == numbers[0] else found[0]
    high = math.inf if found[-1] == numbers[-1] else found[-1]
    clamped = [min(max(number, low), high) for number in numbers]
    return low <= high and found == clamped


class _Function:
    """The number that ops compute from one number; raises Refusal for other ops."""

    def __init__(
        self,
        entry: SSAValue,
        value_of: Callable[[SSAValue], SSAValue],
        splat_of: Callable[[SSAValue], float | None],
    ) -> None:
        self.constants = set[float]()
        """The constants read so far."""
        self._entry = entry
        self._value_of = value_of
        self._splat_of = splat_of
        self._known = dict[SSAValue, float]()

    def at(self, result: SSAValue, number: float) -> float:
        self._known = {self._entry: number}
        return self._number(result)

    def _number(self, value: SSAValue) -> float:
        value = self._value_of(value)
        if value not in self._known:
            constant = number_of(value)
            constant = self._splat_of(value) if constant is None else constant
            if constant is None:
                self._known[value] = self._computed(value)
            else:
                self._known[value] = constant
                self.constants.add(constant)
        return self._known[value]

    def _computed(self, value: SSAValue) -> float:
        op = value.owner
        if isinstance(op, Block):
            return self._number(self._outer(op).operands[cast(BlockArgument, value).index])
        if op_model(op).maps_elements and self._keeps_places(op):
            end = op.regions[0].block.last_op
            assert end is not None
            return self._number(end.operands[0])
        found = rule_of(op)
        if found is None or op.regions or len(self._known) > _MOST_VALUES:
            raise _unknown(op)
        numbers = range(len(op.operands)) if found.operands is None else found.operands
        read = [op.operands[at] for at in numbers]
        if not found.functions and found.keeps_places and len(read) == 1:
            # It only converts its operand.
            return self._number(read[0])
        match tuple(found.functions), [self._number(each) for each in read]:
            case ("max",), [one, other]:
                return max(one, other)
            case ("min",), [one, other]:
                return min(one, other)
            case ("select",), [one, other]:
                return one if self._number(op.operands[0]) else other
            case ("clamp",), [number] if found.limits is not None:
                low, high = map(self._limit, found.limits)
                return min(max(number, low), high)
            case (function,), [one, other]:
                return _compare(op, function)(one, other)
            case _:
                raise _unknown(op)

    def _limit(self, limit: Limit) -> float:
        if isinstance(limit, SSAValue):
            return self._number(limit)
        if math.isfinite(limit):
            self.constants.add(limit)
        return limit

    def _outer(self, block: Block) -> Operation:
        """The op of a body that elements are passed to."""
        op = block.parent_op()
        if op is None or not op_model(op).maps_elements:
            raise Refusal(RefusalCode.UNKNOWN_OP, "it is no result of an op")
        return op

    def _keeps_places(self, op: Operation) -> bool:
        """Whether each element of the result is computed from operands at the same position."""
        maps = find_attribute(op, "indexing_maps")
        if maps is None:
            return True
        *read, made = [each.data for each in cast("ArrayAttr[AffineMapAttr]", maps).data]
        return made == AffineMap.identity(made.num_dims) and all(
            each == made or self._splat_of(value) is not None
            for each, value in zip(read, op.operands, strict=False)
        )


def _compare(op: Operation, function: str) -> Compare:
    """The comparison that an op computes. Raises Refusal for other ops."""
    if function in _COMPARISONS:
        return _DIRECTIONS[_COMPARISONS[function]]
    if function == "compare":
        word = re.search("[A-Z]{2}", str(find_attribute(op, "comparison_direction")))
        if word is not None and word[0] in _DIRECTIONS:
            return _DIRECTIONS[word[0]]
    elif function == "cmp" and (number := integer_of(op, "predicate")) % 7 > 0 and number < 14:
        return _DIRECTIONS[_PREDICATES[number % 7 - 1]]
    raise _unknown(op)


def _unknown(op: Operation) -> Refusal:
    return Refusal(RefusalCode.UNKNOWN_OP, f"'{name_of(op)}' is no part of a clamp")
