"""
Functions that are written as several ops: softmax, normalizations, gates such as gelu, and clamps.

The ops of such a function start from one value and end in one op. The start dominates the end in
the data-flow graph: each path to the end goes through it. The values in between stay float: they
have no recorded ranges, and rounding each of them would lose most of the precision.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, NamedTuple, cast

from xdsl.dialects.builtin import AffineMapAttr, AnyFloat, ArrayAttr, i1
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineMap

from qdialect.dialects.linalg.models import gathering_op
from qdialect.ir.value_types import element_type_or_self
from qdialect.ops.along_axis import is_recordable, is_statistics
from qdialect.ops.fields import Contraction, Limit, Operands
from qdialect.ops.interface import (
    Refusal,
    RefusalCode,
    find_attribute,
    integer_of,
    known_layer,
    known_rule,
    model_of,
    name_of,
    number_of,
    op_model,
    read_movements,
    rule_of,
)
from qdialect.support.lazy_numpy import np

Compare = Callable[[float, float], bool]

_MOST_VALUES: Final = 64
"""The most values of a clamp."""

_DIRECTION_OF: Final = {"equal": "EQ", "greater": "GT", "greater_equal": "GE"}

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
    function = _Function(entry, value_of, splat_of, is_piecewise=True)
    try:
        function.at(result, 0.0)
        ends = sorted(function.constants)
        if not ends or not all(map(math.isfinite, ends)):
            return False
        between = [(low + high) / 2 for low, high in pairwise(ends)]
        numbers = sorted({ends[0] - 1, *ends, *between, ends[-1] + 1})
        results = [function.at(result, number) for number in numbers]
    except Refusal:
        return False
    low = -math.inf if results[0] == numbers[0] else results[0]
    high = math.inf if results[-1] == numbers[-1] else results[-1]
    clamped = [min(max(number, low), high) for number in numbers]
    return low <= high and results == clamped


class _Function:
    """The number that ops compute from one number; raises Refusal for other ops."""

    def __init__(
        self,
        entry: SSAValue,
        value_of: Callable[[SSAValue], SSAValue],
        splat_of: Callable[[SSAValue], float | None],
        *,
        is_piecewise: bool = False,
    ) -> None:
        self.constants = set[float]()
        """The constants read so far."""
        self._entry = entry
        self._value_of = value_of
        self._splat_of = splat_of
        self._is_piecewise = is_piecewise
        """Whether each result must be an operand or a constant."""
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
        rule = rule_of(op)
        if rule is None or op.regions or len(self._known) > _MOST_VALUES:
            raise _unknown(op)
        if rule.operands is None:
            # Others are parameters, such as a shift.
            read = [value for value in op.operands if _is_float(value)]
        else:
            read = [op.operands[at] for at in rule.operands]
        if not rule.functions and rule.keeps_places and len(read) == 1:
            # It only converts its operand.
            return self._number(read[0])
        match tuple(rule.functions), [self._number(value) for value in read]:
            case ("max",), [one, other]:
                return max(one, other)
            case ("min",), [one, other]:
                return min(one, other)
            case ("select",), [one, other]:
                return one if self._number(op.operands[0]) else other
            case ("clamp",), [number] if rule.limits is not None:
                low, high = map(self._limit, rule.limits)
                return min(max(number, low), high)
            case (function,), numbers:
                known = None if self._is_piecewise else _computed(function, numbers)
                return _compare(op, function)(*numbers) if known is None else known
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
        *operands, result = [map.data for map in cast("ArrayAttr[AffineMapAttr]", maps).data]
        return result == AffineMap.identity(result.num_dims) and all(
            operand == result or self._splat_of(value) is not None
            for operand, value in zip(operands, op.operands, strict=False)
        )


def _compare(op: Operation, function: str) -> Compare:
    """The comparison that an op computes. Raises Refusal for other ops."""
    if function in _DIRECTION_OF:
        return _DIRECTIONS[_DIRECTION_OF[function]]
    if function == "compare":
        word = re.search("[A-Z]{2}", str(find_attribute(op, "comparison_direction")))
        if word is not None and word[0] in _DIRECTIONS:
            return _DIRECTIONS[word[0]]
    elif function == "cmp" and (number := integer_of(op, "predicate")) % 7 > 0 and number < 14:
        return _DIRECTIONS[_PREDICATES[number % 7 - 1]]
    raise _unknown(op)


def _unknown(op: Operation) -> Refusal:
    return Refusal(RefusalCode.UNKNOWN_OP, f"'{name_of(op)}' computes no known function")


def _is_float(value: SSAValue) -> bool:
    return isinstance(element_type_or_self(value.type), AnyFloat)


def _computed(function: str, numbers: Sequence[float]) -> float | None:
    """A function of the models' rules, of numbers; None for others."""
    match function, numbers:
        case "add", [one, other]:
            return one + other
        case "sub", [one, other]:
            return one - other
        case "mul", [one, other]:
            return one * other
        case "div", [one, other]:
            return one / other
        case "reciprocal", [number]:
            return 1 / number
        case "neg", [number]:
            return -number
        case "exp", [number]:
            return math.exp(number)
        case "log", [number]:
            return math.log(number)
        case "log1p", [number]:
            return math.log1p(number)
        case _:
            return None


CLAMP: Final = "clamp"
"""The name of a function that clamps one value by constants."""

_MOST_OPS: Final = 64
"""The most ops of one function. A polynomial for `erf` has about 30."""

_MOST_BETWEEN: Final = 16
"""The most ops between a comparison and the select that reads it."""


@dataclass(frozen=True, eq=False)
class FloatRegion:
    """Ops that compute one function of `entries`."""

    ops: tuple[Operation, ...]
    """The last op computes the result. Dead readers of the other ops are included."""
    entries: frozenset[SSAValue]
    """The values from outside that the ops read, except constants."""
    name: str
    fixed: str = ""
    """The name of the known range of the results, such as `softmax`; empty without one."""


class _Dominators:
    """
    The immediate dominator of each value: the nearest value on all paths to it.

    Each value has a jump pointer to an ancestor, so that the common ancestor of two values is found
    in a logarithmic number of steps. Myers, "An applicative random-access stack", 1983.
    """

    def __init__(self) -> None:
        self._parent = dict[SSAValue | None, SSAValue | None]({None: None})
        self._jump = dict[SSAValue | None, SSAValue | None]({None: None})
        self._depth = dict[SSAValue | None, int]({None: 0})

    def add(self, value: SSAValue, operands: Sequence[SSAValue]) -> None:
        parent: SSAValue | None = None
        if operands:
            parent = operands[0]
            for other in operands[1:]:
                parent = self._common(parent, other)
        jump = self._jump[parent]
        far = (
            self._depth[parent] - self._depth[jump]
            == self._depth[jump] - self._depth[self._jump[jump]]
        )
        self._parent[value] = parent
        self._jump[value] = self._jump[jump] if far else parent
        self._depth[value] = self._depth[parent] + 1

    def of(self, value: SSAValue) -> SSAValue | None:
        """The immediate dominator of a value; None if it has none."""
        return self._parent.get(value)

    def knows(self, value: SSAValue) -> bool:
        return value in self._depth

    def _common(self, one: SSAValue | None, other: SSAValue | None) -> SSAValue | None:
        one, other = self._lifted(one, other), self._lifted(other, one)
        while one is not other:
            if self._jump[one] is not self._jump[other]:
                one, other = self._jump[one], self._jump[other]
            else:
                one, other = self._parent[one], self._parent[other]
        return one

    def _lifted(self, value: SSAValue | None, to: SSAValue | None) -> SSAValue | None:
        """The nearest ancestor of a value that is not deeper than `to`."""
        depth = self._depth[to]
        while self._depth[value] > depth:
            jump = self._jump[value]
            value = jump if self._depth[jump] >= depth else self._parent[value]
        return value


class _Step(NamedTuple):
    """An op that may be in a region."""

    functions: frozenset[str]
    operands: tuple[SSAValue, ...]
    """Its float tensor operands, except constants."""


class Known(NamedTuple):
    """Lookups in a module: the source of a value, its readers, its constants."""

    value_of: Callable[[SSAValue], SSAValue]
    """The value with `quant.stats` and other ops that only carry ranges skipped."""
    is_constant: Callable[[SSAValue], bool]
    """Whether a value is computed from constants alone."""
    splat_of: Callable[[SSAValue], float | None]
    """The number that all elements of a constant equal; None if they differ."""
    is_mask: Callable[[Operation], bool]
    """Whether an op gives elements numbers that have no weight in a softmax."""
    operands: Operands
    """Reads constant operands that parametrize ops."""


def float_regions(ops: Sequence[Operation], values: Known) -> list[FloatRegion]:
    """The disjoint regions among `ops`, which are in module order."""
    return _Finder(ops, values).regions()


class _Finder:
    def __init__(self, ops: Sequence[Operation], values: Known) -> None:
        self._ops = ops
        self._values = values
        self._value_of = values.value_of
        self._steps = dict[Operation, _Step]()
        self._place: dict[Operation, float] = {op: place for place, op in enumerate(ops)}
        self._dominators = _Dominators()

    def regions(self) -> list[FloatRegion]:
        for op in self._ops:
            if (step := self._step(op)) is not None:
                self._steps[op] = step
        regions = list[FloatRegion]()
        taken = set[Operation]()
        # In reverse, since a larger function ends later, and includes smaller ones.
        for op in reversed(self._ops):
            region = None if op in taken or _is_dead(op) else self._ending_at(op)
            if region is not None and taken.isdisjoint(region.ops):
                regions.append(self._with_dead_readers(region))
                taken.update(regions[-1].ops)
        return regions

    def _with_dead_readers(self, region: FloatRegion) -> FloatRegion:
        """Add the dead readers of a region to it, so that no inner value is quantized for them."""
        *inner, last = region.ops
        readers = [reader for op in inner for reader in self._users(op.results[0])]
        dead = [op for op in dict.fromkeys(readers) if _is_dead(op) and op in self._place]
        return replace(region, ops=(*inner, *dead, last))

    def _step(self, op: Operation) -> _Step | None:
        """Note the dominator of the results of an op, and read the op."""
        function = None if is_statistics(op) else _read(op, self._values.operands)
        functions, operands = function or (frozenset[str](), ())
        read = [
            self._value_of(operand)
            for operand in operands
            if is_recordable(operand) and not self._values.is_constant(operand)
        ]
        # The comparison that a predicate comes from belongs to the region.
        if "select" in functions:
            place = self._place[op]
            read += [
                predicate
                for predicate in op.operands
                if self._compares(predicate, place, _MOST_BETWEEN)
            ]
        for value in read:
            if not self._dominators.knows(value):
                self._dominators.add(value, ())
        for result in op.results:
            if self._value_of(result) is result:
                self._dominators.add(result, read)
        if function is None or not op.results:
            return None
        if any(other.first_use is not None for other in op.results[1:]):
            # The op computes a maximum and its position; one of them may be unused.
            return None
        return _Step(functions, tuple(dict.fromkeys(read)))

    def _compares(self, value: SSAValue, place: float, most: int) -> bool:
        """
        Whether comparisons compute a value, through at most `most` movements and logical ops.

        The ops are added as steps at `place`.
        """
        maker = value.owner
        if not isinstance(maker, Operation) or self._values.is_constant(value):
            return False
        if (step := self._steps.get(maker)) is not None:
            return bool(step.functions & _COMPARISONS) or not step.functions
        is_truth = element_type_or_self(value.type) == i1
        if maker in self._place or len(maker.results) != 1 or not is_truth or not most:
            return False
        read = [
            operand
            for operand in maker.operands
            if element_type_or_self(operand.type) == i1 and not self._values.is_constant(operand)
        ]
        if not read or not all(self._compares(operand, place - 0.5, most - 1) for operand in read):
            return False
        self._steps[maker] = _Step(frozenset(), tuple(read))
        self._place[maker] = place - 0.5
        self._dominators.add(value, read)
        return True

    def _ending_at(self, op: Operation) -> FloatRegion | None:
        """The function whose last op is this one."""
        step = self._steps.get(op)
        if step is None or not step.functions:
            return None
        joined = self._joined(op) if step.functions & _JOINS else None
        if joined is None:
            return self._chain(op)
        ops, entry = joined
        functions = self._functions_of(ops)
        if "reduce" not in functions:
            if not (self._is_gate(op, functions) or _is_sum_of_parts(functions)):
                return None
            if "select" in functions and self._is_clamp(op, entry):
                return self._region(ops, [entry], CLAMP)
            scaled = self._with_affine(ops, frozenset({"mul", "div", "neg"}))
            return self._region(*self._with_negation(scaled, entry), "gate")
        is_sum = "add" in step.functions
        if is_sum and "exp" in functions:
            is_log = bool(functions & {"log", "log1p"})
            return self._region(ops, [entry], "log-sum-exp") if is_log else None
        if "exp" in functions or self._is_made_by(entry, "exp"):
            return self._softmax(op, ops, entry)
        is_normal = bool(step.functions & _PRODUCTS) or (is_sum and self._is_affine(op, entry))
        if is_normal and functions & _INVERSES:
            ops, entry = self._with_difference(ops, entry)
            ops = self._with_affine(ops, frozenset({"mul", "add"}))
            return self._region(ops, [entry], "normalization")
        return None

    def _is_gate(self, op: Operation, functions: frozenset[str]) -> bool:
        """Whether an op multiplies or selects a value by a function of the same value."""
        last = self._steps[op].functions
        is_product = bool(last & _PRODUCTS) and bool(functions - _LINEAR)
        return is_product or ("select" in last and bool(functions & _COMPARISONS))

    def _is_clamp(self, op: Operation, entry: SSAValue) -> bool:
        return is_clamp(op.results[0], entry, self._value_of, self._values.splat_of)

    def _is_affine(self, op: Operation, entry: SSAValue) -> bool:
        """Whether all addends of an op are functions of the entry other than the entry itself."""
        for value in self._steps[op].operands:
            while value is not entry and not (step := self._steps[self._maker(value)]).functions:
                if len(step.operands) != 1:
                    break
                (value,) = step.operands
            if value is entry:
                return False
        return True

    def _with_negation(
        self, ops: set[Operation], entry: SSAValue
    ) -> tuple[set[Operation], Sequence[SSAValue]]:
        """Add a negation of the entry that only these ops read."""
        maker = entry.owner
        step = self._steps.get(maker) if isinstance(maker, Operation) else None
        if step is None or step.functions != frozenset({"neg"}) or len(step.operands) != 1:
            return ops, [entry]
        if any(reader not in ops for reader in self._readers(entry)):
            return ops, [entry]
        return {*ops, self._maker(entry)}, step.operands

    def _softmax(self, op: Operation, ops: set[Operation], entry: SSAValue) -> FloatRegion | None:
        if self._is_made_by(entry, "exp"):
            maker = self._maker(entry)
            ops = {*ops, maker}
            entry = self._steps[maker].operands[0]
        ops, entry = self._with_difference(ops, entry)
        if (name := self._name_of_softmax(op, ops)) is None:
            return None
        if name == "softmax":
            ops = self._with_select(ops, op)
        masked = self._with_mask(ops, entry)
        return (masked and self._region(*masked, name)) or self._region(ops, [entry], name)

    def _name_of_softmax(self, op: Operation, ops: set[Operation]) -> str | None:
        """The name of a function with exponentials and sums whose last op is this one."""
        functions = self._steps[op].functions
        if "select" in functions:
            makers = [
                self._base(operand).owner
                for operand in self._steps[op].operands
                if is_recordable(operand)
            ]
            is_share = all(
                isinstance(operand, Operation) and self._is_share(operand) for operand in makers
            )
            return "softmax" if is_share and self._selects_share(op) else None
        if functions & _PRODUCTS:
            is_share = self._is_share(op) or any(
                self._is_share(op, reader.operands[0]) and self._selects_share(reader)
                for reader in self._readers(op.results[0])
                if reader in self._steps and self._steps[reader].functions == frozenset({"select"})
            )
            return "softmax" if is_share else "normalization"
        is_log = "sub" in functions and self._functions_of(ops) & {"log", "log1p"}
        return "log-softmax" if is_log else None

    def _is_share(self, op: Operation, chosen: SSAValue | None = None) -> bool:
        """Whether an op divides numbers by their sum, or by the sum of the chosen ones."""
        step = self._steps.get(op)
        if step is None or len(step.operands) != 2:
            return False
        for numerator, other in (step.operands, step.operands[::-1]):
            maker = self._base(other).owner
            if step.functions == frozenset({"mul"}):
                if not isinstance(maker, Operation) or not self._is_reciprocal(maker):
                    continue
                maker = self._base(self._steps[maker].operands[0]).owner
            elif (
                step.functions != frozenset({"div"})
                or self._value_of(op.operands[0]) is not numerator
            ):
                continue
            while isinstance(maker, Operation) and (sum_step := self._steps.get(maker)) is not None:
                if not {"reduce", "add"} <= sum_step.functions or len(sum_step.operands) != 1:
                    break
                summed = self._base(sum_step.operands[0])
                maker = summed.owner
                if chosen is not None and isinstance(maker, Operation) and maker in self._steps:
                    selected = self._steps[maker]
                    if selected.functions == frozenset({"select"}) and maker.operands[0] is chosen:
                        summed = self._base(selected.operands[0])
                if summed is self._base(numerator):
                    return True
                maker = summed.owner
        return False

    def _base(self, value: SSAValue) -> SSAValue:
        """The value before shape ops and conversions."""
        while isinstance(maker := value.owner, Operation):
            step = self._steps.get(maker)
            if step is None or step.functions or len(step.operands) != 1:
                break
            (value,) = step.operands
        return value

    def _is_reciprocal(self, op: Operation) -> bool:
        """Whether an op divides one by its operand."""
        step = self._steps.get(op)
        if step is None or len(step.operands) != 1:
            return False
        return self._computed(step.operands[0], op, 4, 0.5) == [0.25, 2]

    def _computed(self, entry: SSAValue, op: Operation, *numbers: float) -> list[float]:
        """What an op computes from numbers in the place of the entry; NaN if it is unknown."""
        known = self._values
        function = _Function(entry, known.value_of, known.splat_of)
        try:
            return [function.at(op.results[0], number) for number in numbers]
        except (Refusal, ArithmeticError, ValueError):
            return [math.nan] * len(numbers)

    def _selects_share(self, op: Operation) -> bool:
        """Whether the constants of a select are in the range of a softmax."""
        numbers = list(self._constants([op]))
        return bool(numbers) and all(number is not None and 0 <= number <= 1 for number in numbers)

    def _with_select(self, ops: set[Operation], op: Operation) -> set[Operation]:
        """
        Add a select that sets results of a softmax to a constant where its operands were masked.
        """
        readers = list(self._readers(op.results[0]))
        if len(readers) != 1 or (step := self._steps.get(readers[0])) is None:
            return ops
        is_select = step.functions == frozenset({"select"}) and step.operands == (op.results[0],)
        return {*ops, readers[0]} if is_select and self._selects_share(readers[0]) else ops

    def _chain(self, op: Operation) -> FloatRegion | None:
        """A function of one value that is computed by a chain of ops with constants."""
        chain, value = list[Operation](), op.results[0]
        while len(chain) < _LONGEST_CHAIN and isinstance(value.owner, Operation):
            step = self._steps.get(value.owner)
            if step is None or len(step.functions) != 1 or len(step.operands) != 1:
                break
            if chain and len(list(self._readers(value))) != 1:
                break
            chain.insert(0, value.owner)
            (value,) = step.operands
        for start in range(len(chain) - 1):
            if (name := self._name_of_chain(chain[start:])) is not None:
                (entry,) = self._steps[chain[start]].operands
                return self._region({*chain[start:]}, [entry], name)
        return None

    def _name_of_chain(self, ops: Sequence[Operation]) -> str | None:
        """The name of the function of a chain, by the numbers that it computes."""
        functions = [function for op in ops for function in self._steps[op].functions]
        kinds, (entry,) = frozenset(functions), self._steps[ops[0]].operands
        if kinds in (_CLAMPS - {"clamp"}, {"clamp"}):
            return CLAMP
        if "exp" in kinds:
            results = self._computed(entry, ops[-1], *_SAMPLES)
            for name, function in _OF_EXPONENTIALS.items():
                if np.allclose(results, list(map(function, _SAMPLES)), rtol=1e-6, atol=0):
                    return name
        elif kinds & _CLAMPS and "add" in kinds and kinds <= _CLAMPS | _PRODUCTS | {"add"}:
            ends = self._computed(entry, ops[-1], -_LARGE, _LARGE)
            if kinds & _PRODUCTS and np.allclose(sorted(ends), (0, 1), atol=1e-3):
                return "hard sigmoid"
        elif functions[0] == "sub" and functions[1] in _PRODUCTS:
            is_affine = frozenset(functions[1:]) <= _PRODUCTS | {"add"}
            # Constants per channel differ.
            return "batch normalization" if is_affine and None in self._constants(ops) else None
        return None

    def _constants(self, ops: Sequence[Operation]) -> Iterator[float | None]:
        """The numbers of the constants that ops read; None for a constant with several numbers."""
        for op in ops:
            for value in op.operands:
                if is_recordable(value) and self._values.is_constant(value):
                    yield self._values.splat_of(value)
            for inner in (inner_op for region in op.regions for inner_op in region.walk()):
                for value in inner.operands:
                    if (number := number_of(value)) is not None:
                        yield number

    def _with_mask(
        self, ops: set[Operation], entry: SSAValue
    ) -> tuple[set[Operation], Sequence[SSAValue]] | None:
        """Extend the region by the ops that mask elements of the entry."""
        moves, value = list[Operation](), entry
        while isinstance(value.owner, Operation) and value.owner in self._steps:
            maker = value.owner
            step = self._steps[maker]
            if not step.functions and len(step.operands) == 1:
                moves.append(maker)
                (value,) = step.operands
                continue
            if not self._values.is_mask(maker):
                return None
            return {*ops, *moves, maker}, step.operands
        return None

    def _with_difference(
        self, ops: set[Operation], entry: SSAValue
    ) -> tuple[set[Operation], SSAValue]:
        """Add the producers of an entry that is a value minus its mean or its maximum."""
        maker = entry.owner
        if not isinstance(maker, Operation) or maker not in self._steps:
            return ops, entry
        joined = self._joined(maker) if "sub" in self._steps[maker].functions else None
        if joined is None or "reduce" not in self._functions_of(joined[0]):
            return ops, entry
        return ops | joined[0], joined[1]

    def _with_affine(self, ops: set[Operation], functions: frozenset[str]) -> set[Operation]:
        """Extend the region by ops of `functions` that read the result and constants alone."""
        ops, between = set(ops), list[Operation]()
        last = max(ops, key=self._place.__getitem__)
        while True:
            readers = list(self._readers(last.results[0]))
            if len(readers) != 1 or (step := self._steps.get(readers[0])) is None:
                return ops
            last = readers[0]
            if len(step.operands) != 1 or not step.functions <= functions:
                return ops
            between.append(last)
            if step.functions:
                # Movements are included if such an op follows them.
                ops.update(between)

    def _readers(self, value: SSAValue) -> Iterator[Operation]:
        """The users of a value that are not dead, or the ops that contain these."""
        for reader in self._users(value):
            if not _is_dead(reader):
                while reader not in self._place and (outer := reader.parent_op()) is not None:
                    if not outer.results:
                        break
                    reader = outer
                yield reader

    def _users(self, value: SSAValue) -> Iterator[Operation]:
        """The users of a value, through ops that only carry ranges."""
        for use in value.uses:
            behind = [result for result in use.operation.results if self._value_of(result) is value]
            for result in behind:
                yield from self._users(result)
            if not behind:
                yield use.operation

    def _joined(self, op: Operation) -> tuple[set[Operation], SSAValue] | None:
        """The ops on all paths from a dominator to an op, and the dominator; None if too many."""
        if len(self._steps[op].operands) < 2:
            return None
        entry = self._dominators.of(op.results[0])
        if entry is None:
            return None
        joined, pending = {op}, [op]
        while pending:
            for value in self._steps[pending.pop()].operands:
                if value is entry:
                    continue
                maker = value.owner
                if not isinstance(maker, Operation) or maker not in self._steps:
                    return None
                if maker not in joined:
                    joined.add(maker)
                    pending.append(maker)
            if len(joined) > _MOST_OPS:
                return None
        return joined, entry

    def _region(
        self, ops: set[Operation], entries: Sequence[SSAValue], name: str
    ) -> FloatRegion | None:
        """A region, if no other op reads its inner values."""
        ordered = sorted(ops, key=self._place.__getitem__)
        for inner in ordered[:-1]:
            if any(reader not in ops for reader in self._readers(inner.results[0])):
                return None
        return FloatRegion(tuple(ordered), frozenset(entries), name, _FIXED.get(name, ""))

    def _functions_of(self, ops: set[Operation]) -> frozenset[str]:
        return frozenset[str]().union(*(self._steps[op].functions for op in ops))

    def _maker(self, value: SSAValue) -> Operation:
        assert isinstance(value.owner, Operation)
        return value.owner

    def _is_made_by(self, value: SSAValue, function: str) -> bool:
        owner = value.owner
        step = self._steps.get(owner) if isinstance(owner, Operation) else None
        return step is not None and function in step.functions and len(step.operands) == 1


def _is_sum_of_parts(functions: frozenset[str]) -> bool:
    """
    Whether a sum of functions of one value is one function, by the names of its parts.

    Other sums, such as a value plus its absolute value, are separate layers.
    """
    return any(needed <= functions <= needed | allowed for needed, allowed in _SUMS)


def _is_dead(op: Operation) -> bool:
    """Whether an op has results, and nothing reads them."""
    return bool(op.results) and not any(map(_is_used, op.results))


def _is_used(value: SSAValue) -> bool:
    """Whether an op reads a value, except to record its range."""
    return any(
        not is_statistics(use.operation) or _is_used(use.operation.results[0]) for use in value.uses
    )


def _read(op: Operation, operands: Operands) -> tuple[frozenset[str], Sequence[SSAValue]] | None:
    """
    The functions that an op computes, and their operands; None if they are not known.

    A shape op computes nothing.
    """
    if isinstance(known_layer(op), Contraction):
        return None
    try:
        if (model := model_of(op)) is not None:
            return frozenset(), read_movements(op, model, operands).operands
    except Refusal:
        # Its attributes or constants are unknown, or it is another op of this name.
        pass
    if (inner := gathering_op(op)) is not None:
        return frozenset(), inner.operands[:1]
    if (rule := known_rule(op)) is None:
        return None
    read = op.operands if rule.operands is None else [op.operands[at] for at in rule.operands]
    return rule.functions, read


_PRODUCTS: Final = frozenset({"mul", "div"})
_COMPARISONS: Final = frozenset(
    {"cmp", "compare", "equal", "greater", "greater_equal", "is_finite", "isfinite", "isnan"}
)
_JOINS: Final = _PRODUCTS | {"add", "max", "min", "select", "sub"}
"""The functions that may end a region with several paths."""

_CLAMPS: Final = frozenset({"clamp", "max", "min"})

_SAMPLES: Final = (-3.0, -0.5, 0.0, 0.5, 3.0)
_LARGE: Final = 1e9
_OF_EXPONENTIALS: Final[Mapping[str, Callable[[float], float]]] = {
    "sigmoid": lambda number: 1 / (1 + math.exp(-number)),
    "softplus": lambda number: math.log1p(math.exp(number)),
}
"""Functions that are chains with an exponential, by their names."""

_LONGEST_CHAIN: Final = 6
_FIXED: Final = {"softmax": "softmax", "sigmoid": "logistic"}
"""The known ranges of functions, by the names of the functions."""

_INVERSES: Final = frozenset({"div", "pow", "reciprocal", "rsqrt", "sqrt"})
"""A normalization has one of these functions."""

_LINEAR: Final = _PRODUCTS | _COMPARISONS | {"add", "neg", "reduce", "square", "sub"}
"""Products and sums of these functions are no gates: a gate has another function."""

_LINEAR_PARTS: Final = frozenset({"abs", "add", "clamp", "max", "min", "neg", "sub"})
_SUMS: Final = (
    # A leaky relu.
    (frozenset({"mul", "max"}), _LINEAR_PARTS),
    (frozenset({"mul", "min"}), _LINEAR_PARTS),
    (frozenset({"mul", "clamp"}), _LINEAR_PARTS),
    # The logarithm of a sigmoid, and of a sum of exponentials.
    (frozenset({"exp", "log"}), _LINEAR_PARTS | {"mul"}),
    (frozenset({"exp", "log1p"}), _LINEAR_PARTS | {"mul"} | _COMPARISONS | {"select"}),
    # elu: an exponential below zero, and a line above.
    (frozenset({"expm1", "min"}), _LINEAR_PARTS | _PRODUCTS),
    # The square root of a square plus a constant: a smooth relu.
    (frozenset({"pow"}), _PRODUCTS | {"add", "sub"}),
    (frozenset({"sqrt"}), _PRODUCTS | {"add", "pow", "square", "sub"}),
    (frozenset({"rsqrt", "reciprocal"}), _PRODUCTS | {"add", "pow", "square", "sub"}),
)
"""Functions that are written as a sum: the required and the optional parts of each."""
