"""
Functions that are written as several ops: softmax, normalizations, gates such as gelu, and clamps.

The ops of such a function start from one value and end in one op. The start dominates the end in
the data-flow graph: each path to the end goes through it. The values in between stay float: they
have no recorded ranges, and rounding each of them would lose most of the precision. What the ops
compute decides, not how they are written: see `facts` and `computed_functions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import isnan
from typing import Final, NamedTuple, cast

from xdsl.dialects.builtin import i1
from xdsl.ir import Operation, SSAValue

from qdialect.ir.value_types import element_type_or_self
from qdialect.ops.along_axis import is_recordable, is_statistics
from qdialect.ops.interface import known_rule, name_of
from qdialect.ops.model import model_named
from qdialect.ptq.float_graph.computed_functions import (
    CLAMPS,
    COMPARISONS,
    EXPONENTIALS,
    LINES,
    PRODUCTS,
    REDUCE,
    SUMS,
    Computations,
    avoids_pole,
    is_clamp,
    is_one_function,
    name_of_function,
)
from qdialect.ptq.float_graph.facts import SMALL, FactReader, is_near
from qdialect.ptq.float_graph.flow_graph import CLAMP, is_softmax_mask

_MOST_OPS: Final = 64
"""The most ops of one function. A polynomial for `erf` has about 30."""

_MOST_BETWEEN: Final = 16
"""The most ops between a comparison and the select that reads it."""

_MOST_STEPS: Final = 8
"""The most ops of a function, joins of several counted once."""

_JOINS: Final = PRODUCTS | SUMS | {"max", "min", "select"}
"""The functions that may end a region with several paths."""

_ROOTS: Final = frozenset({"sqrt", "pow"})

_RANGES: Final = {"softmax": "softmax", "sigmoid": "logistic", "tanh": "tanh"}
"""The known ranges of functions, by the names of the functions."""


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


class _Step(NamedTuple):
    """An op that may be in a region."""

    functions: frozenset[str]
    operands: tuple[SSAValue, ...]
    """Its float tensor operands, except constants."""


class _Candidate(NamedTuple):
    """Ops that may compute one function."""

    ops: set[Operation]
    entry: SSAValue
    """The value that all of them are computed from."""
    join: Operation | None
    """The last op that reads several values that are computed from the entry."""
    before: frozenset[str]
    """The functions of the ops before these join, up to an exponential."""
    after: frozenset[str]
    """The functions of the ops after it, or of all ops."""
    is_centered: bool
    """Whether a join of reductions before it only subtracts a mean or an extreme."""


def float_regions(ops: Sequence[Operation], computations: Computations) -> list[FloatRegion]:
    """The disjoint regions among `ops`, which are in module order."""
    return _Finder(ops, computations).regions()


class _Finder:
    def __init__(self, ops: Sequence[Operation], computations: Computations) -> None:
        self._ops = ops
        self._computations = computations
        self._graph = computations.graph
        self._steps = dict[Operation, _Step]()
        self._place: dict[Operation, float] = {op: place for place, op in enumerate(ops)}
        self._taken = set[Operation]()
        self._readers = cache(self._find_readers)

    def regions(self) -> list[FloatRegion]:
        for op in self._ops:
            if (step := self._step(op)) is not None:
                self._steps[op] = step
        regions = list[FloatRegion]()
        # A normalization that only scales and shifts may be part of a larger one.
        for find in (self._function, self._scaling):
            # In reverse, since a larger function ends later, and includes smaller ones.
            for op in reversed(list(self._steps)):
                is_end = self._steps[op].functions and op not in self._taken and not _is_dead(op)
                region = find(op) if is_end else None
                if region is not None and self._taken.isdisjoint(region.ops):
                    regions.append(self._with_dead_readers(region))
                    self._taken.update(regions[-1].ops)
        return regions

    def _with_dead_readers(self, region: FloatRegion) -> FloatRegion:
        """Add the dead readers of a region to it, so that no inner value is quantized for them."""
        *inner, last = region.ops
        readers = [reader for op in inner for reader in self._users(op.results[0])]
        dead = [op for op in dict.fromkeys(readers) if _is_dead(op) and op in self._place]
        return replace(region, ops=(*inner, *dead, last))

    def _step(self, op: Operation) -> _Step | None:
        reading = None if is_statistics(op) else self._computations.reading(op)
        # An op may compute a maximum and its position; one of them may be unused.
        if reading is None or not op.results or any(other.first_use for other in op.results[1:]):
            return None
        functions, operands, *_ = reading
        read = [
            self._graph.value(operand)
            for operand in operands
            if is_recordable(operand) and not self._graph.is_computed(operand)
        ]
        # The comparison that a predicate comes from belongs to the region.
        if "select" in functions:
            place = self._place[op]
            read += [
                predicate
                for predicate in op.operands
                if self._compares(predicate, place, _MOST_BETWEEN)
            ]
        return _Step(functions, tuple(dict.fromkeys(read)))

    def _compares(self, value: SSAValue, place: float, most: int) -> bool:
        """
        Whether comparisons compute a value, through at most `most` movements and logical ops.

        The ops are added as steps at `place`.
        """
        maker = value.owner
        if not isinstance(maker, Operation) or self._graph.is_computed(value):
            return False
        if (step := self._steps.get(maker)) is not None:
            return bool(step.functions & COMPARISONS) or not step.functions
        is_truth = element_type_or_self(value.type) == i1
        if maker in self._place or len(maker.results) != 1 or not is_truth or not most:
            return False
        read = [
            operand
            for operand in maker.operands
            if element_type_or_self(operand.type) == i1 and not self._graph.is_computed(operand)
        ]
        if not read or not all(self._compares(operand, place - 0.5, most - 1) for operand in read):
            return False
        self._steps[maker] = _Step(frozenset(), tuple(read))
        self._place[maker] = place - 0.5
        return True

    def _candidates(self, op: Operation) -> Iterator[_Candidate]:
        """The sets of ops that may compute one function that ends with an op, small ones first."""
        last = _Candidate(set(), op.results[0], None, frozenset(), frozenset(), is_centered=True)
        count = 0
        while count < _MOST_STEPS and (larger := self._above(last)) is not None:
            maker, last = last.entry.owner, larger
            has_function = bool(self._steps[cast(Operation, maker)].functions)
            count += has_function
            if has_function and (count > 1 or last.join is not None):
                yield last

    def _above(self, below: _Candidate) -> _Candidate | None:
        """A candidate with the op that computes the entry of another one, and with what joins."""
        ops, value, join, before, after, is_centered = below
        maker = value.owner
        if not isinstance(maker, Operation) or maker in self._taken or maker not in self._steps:
            return None
        if ops and not self._readers(value) <= ops:
            return None
        functions, operands = self._steps[maker]
        if len(operands) == 1:
            (entry,) = operands
            if join is None:
                after |= functions
            elif self._computations.function_of(value) in EXPONENTIALS:
                before = frozenset[str]()
            else:
                before |= functions
            return _Candidate({*ops, maker}, entry, join, before, after, is_centered)
        joined = self._joined(maker) if functions & _JOINS else None
        if joined is None:
            return None
        if join is not None:
            if REDUCE not in self._functions_of(joined[0]):
                return None
            is_centered &= FactReader(self._computations, joined[1]).is_centered(value)
            # Factors may be between an exponential and the difference from a maximum.
            before -= PRODUCTS | {"select"}
        return _Candidate(ops | joined[0], joined[1], join or maker, before, after, is_centered)

    def _function(self, op: Operation) -> FloatRegion | None:
        """The function whose last op is this one."""
        for candidate in reversed(list(self._candidates(op))):
            has_reduction = REDUCE in self._functions_of(candidate.ops)
            find = self._with_reductions if has_reduction else self._of_one_number
            region = self._length(op, candidate) or find(op, candidate)
            if region is not None:
                return region
        return None

    def _length(self, op: Operation, candidate: _Candidate) -> FloatRegion | None:
        """The root of a sum of squares: these have twice as many digits as the result."""
        if self._steps[op].functions.isdisjoint(_ROOTS):
            return None
        reader = FactReader(self._computations, candidate.entry)
        ends = [inner.results[0] for inner in candidate.ops if self._steps[inner].functions]
        scales = {value: reader.degrees(value).scale for value in ends}
        root = scales.pop(op.results[0])
        is_length = is_near(root, 1) and bool(scales)
        if not is_length or not all(scale and scale > 1 + SMALL for scale in scales.values()):
            return None
        return self._region(candidate.ops, [candidate.entry], "length")

    def _of_one_number(self, op: Operation, candidate: _Candidate) -> FloatRegion | None:
        ops, entry, join, before, after, _ = candidate
        functions, value = self._functions_of(ops), op.results[0]
        if functions <= LINES:
            scale, shift, *_ = FactReader(self._computations, entry).degrees(value)
            is_mean = join is not None and is_near(scale, 1) and is_near(shift, 1)
            return self._region(ops, [entry], "interpolation") if is_mean else None
        is_chosen = "select" in functions and is_clamp(self._computations, value, entry)
        if is_chosen or (functions <= CLAMPS and not join and all(map(_has_limit, ops))):
            return self._region(ops, [entry], CLAMP)
        name = name_of_function(self._computations, value, entry)
        rules = filter(None, map(known_rule, ops))
        if name in _RANGES and any(rule.fixed == _RANGES[name] for rule in rules):
            # One of the ops is that function, and the others change nothing.
            return None
        if name in _RANGES or (name and not join):
            return self._region(ops, [entry], name)
        if join is None:
            # Codes of what it reads would lose the numbers near the pole.
            is_gate = avoids_pole(self._computations, value, entry, functions)
            return self._region(ops, [entry], "gate") if is_gate else None
        if not (after <= PRODUCTS | {"neg"} and before <= {"neg"}):
            return None
        is_gate = is_one_function(self._computations, join.results[0], entry, functions)
        return self._region(ops, [entry], "gate") if is_gate else None

    def _with_reductions(self, op: Operation, candidate: _Candidate) -> FloatRegion | None:
        """A softmax or a normalization, or what is computed in the same way."""
        ops, entry, join, before, after, is_centered = candidate
        if before:
            return None
        reader = FactReader(self._computations, entry)
        name = reader.name_of(op.results[0], is_join=op is join)
        if name == "normalization":
            # Shares have another range after they are scaled.
            is_scaled_share = after and self._computations.function_of(entry) in EXPONENTIALS
            is_whole = join and is_centered and after <= LINES and not is_scaled_share
            return self._region(ops, [entry], name) if is_whole else None
        if not name or not reader.sums_exponentials(op.results[0]):
            return None
        masked = self._with_mask(ops, entry)
        return (masked and self._region(*masked, name)) or self._region(ops, [entry], name)

    def _scaling(self, op: Operation) -> FloatRegion | None:
        """A batch normalization: it scales and shifts by constants that differ."""
        if not self._steps[op].functions <= PRODUCTS | SUMS:
            return None
        for ops, entry, join, _, after, _ in reversed(list(self._candidates(op))):
            first = min(ops, key=self._place.__getitem__)
            function = self._computations.function_of(first.results[0])
            rest = self._functions_of(ops - {first})
            # What is added to a layer is its bias.
            is_bias = function == "add" and isinstance(entry.owner, Operation)
            is_bias = is_bias and not self._computations.function_of(entry)
            is_affine = bool(rest & (PRODUCTS if function in SUMS else SUMS))
            if join or is_bias or not (is_affine and function and after <= PRODUCTS | SUMS):
                continue
            numbers = [
                self._computations.number(value)
                for inner in ops
                if function == "sub" or self._steps[inner].functions <= PRODUCTS
                for value in inner.operands
                if is_recordable(value)
            ]
            if any(number is not None and isnan(number) for number in numbers):
                return self._region(ops, [entry], "batch normalization")
        return None

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
            if not is_softmax_mask(self._graph, maker):
                return None
            return {*ops, *moves, maker}, step.operands
        return None

    # The graph

    def _find_readers(self, value: SSAValue) -> frozenset[Operation]:
        """The users of a value that are not dead, or the ops that contain these."""
        readers = set[Operation]()
        for reader in self._users(value):
            if _is_dead(reader):
                continue
            while reader not in self._place and (outer := reader.parent_op()) is not None:
                if not outer.results:
                    break
                reader = outer
            readers.add(reader)
        return frozenset(readers)

    def _users(self, value: SSAValue) -> Iterator[Operation]:
        """The users of a value, through ops that only carry ranges."""
        for use in value.uses:
            behind = [
                result for result in use.operation.results if self._graph.value(result) is value
            ]
            for result in behind:
                yield from self._users(result)
            if not behind and not model_named(name_of(use.operation)).reads_lengths:
                yield use.operation

    def _joined(self, op: Operation) -> tuple[set[Operation], SSAValue] | None:
        """The ops on all paths from a value to an op, and that value; None if too many."""
        joined, ends = {op}, {*self._steps[op].operands}
        while len(ends) > 1 and len(joined) < _MOST_OPS:
            # All paths meet in a value if it is the last one that is left.
            end = max(ends, key=lambda value: self._place.get(cast(Operation, value.owner), -1))
            if not isinstance(maker := end.owner, Operation) or maker not in self._steps:
                return None
            joined.add(maker)
            ends = (ends - {end}).union(self._steps[maker].operands)
        return (joined, ends.pop()) if len(ends) == 1 else None

    def _region(
        self, ops: set[Operation], entries: Sequence[SSAValue], name: str
    ) -> FloatRegion | None:
        """A region, if no other op reads its inner values."""
        ordered = sorted(ops, key=self._place.__getitem__)
        for inner in ordered[:-1]:
            if not self._readers(inner.results[0]) <= ops:
                return None
        return FloatRegion(tuple(ordered), frozenset(entries), name, _RANGES.get(name, ""))

    def _functions_of(self, ops: Iterable[Operation]) -> frozenset[str]:
        return frozenset[str]().union(*(self._steps[op].functions for op in ops))


def _is_dead(op: Operation) -> bool:
    """Whether an op has results, and nothing reads them."""
    return bool(op.results) and not any(map(_is_used, op.results))


def _is_used(value: SSAValue) -> bool:
    """Whether an op reads a value, except to record its range."""
    return any(
        not is_statistics(use.operation) or _is_used(use.operation.results[0]) for use in value.uses
    )


def _has_limit(op: Operation) -> bool:
    """Whether the operands of an op differ: the maximum of a value and itself is no clamp."""
    return len({*op.operands}) == len(op.operands)
