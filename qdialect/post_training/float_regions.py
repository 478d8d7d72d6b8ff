"""
Functions that are written as several ops: softmax, normalizations, and gates such as gelu.

Such ops start from one value, and join again in one. A value is found to be the start of a join by
dominance in the graph of data: each path to the join goes through it. The values between stay
in floats: they have no recorded ranges, and rounding each of them would lose most of the precision.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from xdsl.ir import Operation, SSAValue

from qdialect.contractions.interface import Contraction, layer_of
from qdialect.post_training.keys import is_recordable
from qdialect.relations.interface import relation_of
from qdialect.shape_ops.interface import (
    NotFoldable,
    Operands,
    model_of,
    read_movements,
)
from qdialect.shape_ops.statistics import is_statistics

_MOST_OPS: Final = 64
"""The most ops of one function. A polynomial for `erf` has some 30."""


@dataclass(frozen=True, eq=False)
class FloatRegion:
    """Ops that are one function of `entries`."""

    ops: tuple[Operation, ...]
    """In the order of the module; the last one makes the result."""
    entries: frozenset[SSAValue]
    """The values from outside that the ops read, without constants."""
    name: str
    fixed: str = ""
    """`softmax` if the results are in its range."""


class _Dominators:
    """
    For each value, the nearest one that all paths to it go through.

    Each has a link far up the tree, so that the common ancestor of two values is found in a number
    of steps that is logarithmic. Myers, "An applicative random-access stack", 1983.
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
        """The nearest dominator of a value; None if there is no one value."""
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
        """The ancestor of a value that is no deeper than another."""
        depth = self._depth[to]
        while self._depth[value] > depth:
            jump = self._jump[value]
            value = jump if self._depth[jump] >= depth else self._parent[value]
        return value


class _Step(NamedTuple):
    """An op that a region may have."""

    functions: frozenset[str]
    operands: tuple[SSAValue, ...]
    """Its operands that are tensors of floats and no constants."""


class Known(NamedTuple):
    """Lookups in a module: the source of a value, its readers, its constants."""

    value_of: Callable[[SSAValue], SSAValue]
    """The value before `quant.stats` and the like, which only carry ranges."""
    is_constant: Callable[[SSAValue], bool]
    """Whether a value is computed from constants alone."""
    splat_of: Callable[[SSAValue], float | None]
    """The number that all elements of a constant are."""
    is_mask: Callable[[SSAValue], bool]
    """Whether some numbers of a value are only there to be ignored by a softmax."""
    operands: Operands
    """Reads those that parametrize ops."""


def float_regions(ops: Sequence[Operation], values: Known) -> list[FloatRegion]:
    """
    The functions that `ops`, which are in the order of their module, are written as.

    No op is in two of the regions.
    """
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
        found = list[FloatRegion]()
        taken = set[Operation]()
        # A larger function ends later, and includes the smaller ones in it.
        for op in reversed(self._ops):
            region = None if op in taken else self._ending_at(op)
            if region is not None and taken.isdisjoint(region.ops):
                found.append(region)
                taken.update(region.ops)
        return found

    def _step(self, op: Operation) -> _Step | None:
        """Note the dominator of the results of an op, and read the op."""
        found = None if is_statistics(op) else _read(op, self._values.operands)
        functions, operands = found or (frozenset[str](), ())
        read = [
            self._value_of(operand)
            for operand in operands
            if is_recordable(operand) and not self._values.is_constant(operand)
        ]
        # The comparison that a predicate comes from belongs to the region.
        if "select" in functions:
            read += [each for each in op.operands if self._compares(each, op)]
        for value in read:
            if not self._dominators.knows(value):
                self._dominators.add(value, ())
        for result in op.results:
            if self._value_of(result) is result:
                self._dominators.add(result, read)
        if found is None or not op.results:
            return None
        if any(other.first_use is not None for other in op.results[1:]):
            # The position of a maximum is computed with it, and may be unused.
            return None
        return _Step(functions, tuple(dict.fromkeys(read)))

    def _compares(self, value: SSAValue, reader: Operation) -> bool:
        """Whether an op that compares numbers makes a value, which shape ops may have moved."""
        maker = value.owner
        if not isinstance(maker, Operation):
            return False
        if (step := self._steps.get(maker)) is not None:
            return bool(step.functions & _COMPARISONS) or not step.functions
        if maker in self._place or len(maker.results) != 1 or model_of(maker) is None:
            return False
        read = _read(maker, self._values.operands)
        if read is None or len(read[1]) != 1 or not self._compares(read[1][0], maker):
            return False
        self._steps[maker] = _Step(frozenset(), tuple(read[1]))
        self._place[maker] = self._place.get(reader, len(self._place)) - 0.5
        self._dominators.add(value, read[1])
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
            is_gate = bool(step.functions & _PRODUCTS) and bool(functions & _NONLINEAR)
            is_piecewise = "select" in step.functions and bool(functions & _COMPARISONS)
            is_piecewise |= "add" in step.functions and (
                "expm1" in functions or {"max", "min"} <= functions
            )
            if not (is_gate or is_piecewise):
                return None
            scaled = self._with_affine(ops, frozenset({"mul", "div"}))
            return self._region(scaled, [entry], "gate")
        if "add" in step.functions:
            is_sum = "exp" in functions and bool(functions & {"log", "log1p"})
            return self._region(ops, [entry], "log-sum-exp") if is_sum else None
        if "exp" in functions or self._is_made_by(entry, "exp"):
            return self._softmax(op, ops, entry)
        if step.functions & _PRODUCTS and functions & _INVERSES:
            ops, entry = self._with_difference(ops, entry)
            ops = self._with_affine(ops, frozenset({"mul", "add"}))
            return self._region(ops, [entry], "normalization")
        return None

    def _softmax(self, op: Operation, ops: set[Operation], entry: SSAValue) -> FloatRegion | None:
        if self._is_made_by(entry, "exp"):
            maker = self._maker(entry)
            ops = {*ops, maker}
            entry = self._steps[maker].operands[0]
        ops, entry = self._with_difference(ops, entry)
        is_quotient = bool(self._steps[op].functions & _PRODUCTS)
        name = "softmax" if is_quotient else "log-softmax"
        ops = self._with_select(ops, op)
        masked = self._with_mask(ops, entry)
        return (masked and self._region(*masked, name)) or self._region(ops, [entry], name)

    def _with_select(self, ops: set[Operation], op: Operation) -> set[Operation]:
        """Also what sets results of a softmax to a constant, where its operands were masked."""
        readers = list(self._readers(op.results[0]))
        if len(readers) != 1 or (step := self._steps.get(readers[0])) is None:
            return ops
        is_select = step.functions == frozenset({"select"}) and step.operands == (op.results[0],)
        return {*ops, readers[0]} if is_select else ops

    def _chain(self, op: Operation) -> FloatRegion | None:
        """A function of one value that is computed step by step, with constants."""
        chain = [op]
        while len(chain) < _LONGEST_CHAIN:
            step = self._steps[chain[0]]
            if len(step.functions) != 1 or len(step.operands) != 1:
                break
            (value,) = step.operands
            if not isinstance(value.owner, Operation) or value.owner not in self._steps:
                break
            if len(list(self._readers(value))) != 1:
                break
            chain.insert(0, value.owner)
        names = list[str]()
        for each in reversed(chain):
            step = self._steps[each]
            if len(step.functions) != 1 or len(step.operands) != 1:
                break
            names += step.functions
        chain, names = chain[len(chain) - len(names) :], names[::-1]
        for start in range(len(chain) - 1):
            text = " ".join(names[start:])
            name = next((name for form, name in _CHAINS.items() if form.fullmatch(text)), None)
            if name is None:
                continue
            ops = chain[start:]
            constants = list(self._constants(ops))
            if name == "sigmoid" and any(number != 1 for number in constants):
                continue
            if name == "batch normalization" and None not in constants:
                # Those of channels differ.
                continue
            entry = self._steps[ops[0]].operands[0]
            return self._region({*ops}, [entry], name)
        return None

    def _constants(self, ops: Sequence[Operation]) -> Iterator[float | None]:
        """The numbers that constants hold which ops read; None for one that holds several."""
        for op in ops:
            for value in op.operands:
                if is_recordable(value) and self._values.is_constant(value):
                    yield self._values.splat_of(value)

    def _with_mask(
        self, ops: set[Operation], entry: SSAValue
    ) -> tuple[set[Operation], Sequence[SSAValue]] | None:
        """Extend the region by the ops of a mask, which hides some numbers of the entry."""
        moves, value = list[Operation](), entry
        while isinstance(value.owner, Operation) and value.owner in self._steps:
            maker = value.owner
            step = self._steps[maker]
            if not step.functions and len(step.operands) == 1:
                moves.append(maker)
                (value,) = step.operands
                continue
            if not step.functions & _MASKING or not (
                self._values.is_mask(value) or any(map(self._values.is_mask, maker.operands))
            ):
                return None
            return {*ops, *moves, maker}, step.operands
        return None

    def _with_difference(
        self, ops: set[Operation], entry: SSAValue
    ) -> tuple[set[Operation], SSAValue]:
        """Add the producers of an entry that is a value without its mean, or its maximum."""
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
                # Movements are part of the region if a function follows them.
                ops.update(between)

    def _readers(self, value: SSAValue) -> Iterator[Operation]:
        """The users of a value, through ops that only carry ranges."""
        for use in value.uses:
            behind = [each for each in use.operation.results if self._value_of(each) is value]
            if behind:
                for each in behind:
                    yield from self._readers(each)
            elif not use.operation.results or any(map(_is_used, use.operation.results)):
                # Ops with unused results are dead, and no readers.
                yield use.operation

    def _joined(self, op: Operation) -> tuple[set[Operation], SSAValue] | None:
        """The ops on all paths to an op from the value that they start at; None if too many."""
        if len(self._steps[op].operands) < 2:
            return None
        entry = self._dominators.of(op.results[0])
        if entry is None:
            return None
        found, pending = {op}, [op]
        while pending:
            for value in self._steps[pending.pop()].operands:
                if value is entry:
                    continue
                maker = value.owner
                if not isinstance(maker, Operation) or maker not in self._steps:
                    return None
                if maker not in found:
                    found.add(maker)
                    pending.append(maker)
            if len(found) > _MOST_OPS:
                return None
        return found, entry

    def _region(
        self, ops: set[Operation], entries: Sequence[SSAValue], name: str
    ) -> FloatRegion | None:
        """A region, if no other op reads the values in it."""
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


def _is_used(value: SSAValue) -> bool:
    """Whether an op reads a value, other than to tell its range."""
    return any(
        not is_statistics(use.operation) or _is_used(use.operation.results[0]) for use in value.uses
    )


def _read(op: Operation, operands: Operands) -> tuple[frozenset[str], Sequence[SSAValue]] | None:
    """
    The functions that an op computes, and their operands; None if they are not known.

    A shape op computes nothing.
    """
    try:
        if isinstance(layer_of(op), Contraction):
            return None
    except NotFoldable:
        pass
    try:
        if (model := model_of(op)) is not None:
            return frozenset(), read_movements(op, model, operands).operands
    except NotFoldable:
        # Its numbers are known at run time only, or it is another op of this name.
        pass
    try:
        found = relation_of(op)
    except NotFoldable:
        return None
    if found is None:
        return None
    read = op.operands if found.operands is None else [op.operands[at] for at in found.operands]
    return found.functions, read


_PRODUCTS: Final = frozenset({"mul", "div"})
_COMPARISONS: Final = frozenset(
    {"cmp", "compare", "equal", "greater", "greater_equal", "is_finite", "isfinite", "isnan"}
)
_JOINS: Final = _PRODUCTS | {"add", "select", "sub"}
"""The functions that the last op of a region with several paths may compute."""

_CHAINS: Final = {
    re.compile(form): name
    for form, name in (
        ("neg exp add (div|reciprocal)", "sigmoid"),
        ("(mul |div )?add (clamp|max min|min max|clamp clamp) (mul|div)", "hard sigmoid"),
        ("(mul|div) add (clamp|max min|min max|clamp clamp)", "hard sigmoid"),
        ("sub( mul| div)+( add)?", "batch normalization"),
        ("exp (log1p|add log)", "softplus"),
        ("max min|min max|clamp clamp", "clamp"),
    )
}
"""The names of functions that are written as one op after another, by the functions of these."""

_LONGEST_CHAIN: Final = 6
_FIXED: Final = {"softmax": "softmax", "sigmoid": "logistic"}
"""The ranges of functions that are known."""

_INVERSES: Final = frozenset({"div", "pow", "reciprocal", "rsqrt", "sqrt"})
"""Functions of which a normalization has one."""

_MASKING: Final = frozenset({"add", "select", "sub"})
"""Functions that mask: elements become a number, or as low as it."""

_NONLINEAR: Final = frozenset(
    {
        "abs",
        "clamp",
        "erf",
        "erfc",
        "exp",
        "expm1",
        "log",
        "log1p",
        "logistic",
        "max",
        "min",
        "select",
        "tanh",
    }
)
"""The functions of which a gate has one: a product of linear functions is no gate."""
