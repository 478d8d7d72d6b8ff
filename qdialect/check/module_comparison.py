"""Comparing two modules: function by function, and the other ops at the top level."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    ModuleOp,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from qdialect.check.attribute_keys import AttributeKeys, blob_of
from qdialect.check.function_comparison import (
    Finding,
    FunctionComparison,
    NotShownError,
    Pair,
    Verdict,
    require_same_attributes,
    visibility_of,
)
from qdialect.check.function_terms import Calls, ComparedModule, Terms
from qdialect.check.index_maps import NotCertifiableError
from qdialect.check.sampled_runs import DEFAULT_RUNS, Engine
from qdialect.check.step_budget import DEFAULT_STEPS, StepBudget
from qdialect.check.typed_values import DifferenceError
from qdialect.ir.names import symbols_used_by
from qdialect.ir.rewriting import dependencies_first
from qdialect.ops.interface import models_of, name_of


class Side(NamedTuple):
    """One of the two modules, and the context that it was parsed in."""

    module: ModuleOp
    context: Context


@dataclass
class Comparison:
    """The outcome of comparing two modules."""

    findings: list[Finding] = field(default_factory=list[Finding])
    """Everything that differs, or cannot be shown to be the same."""

    verdicts: list[Verdict] = field(default_factory=list[Verdict])
    """The functions that mean the same."""


def compare_modules(
    old: Side,
    new: Side,
    runs: int = DEFAULT_RUNS,
    *,
    ignored_attributes: Collection[str] = (),
    max_steps: int = DEFAULT_STEPS,
    engine: Engine | None = None,
    requires_proof: bool = False,
) -> Comparison:
    """
    Compare two modules: functions by name, other ops at the top level in order.

    `runs` limits the sets of arguments that a function is run with if no proof succeeds.
    `max_steps` limits the proofs, and separately the runs; an allowance for the size of the
    modules is added. With an `engine`, nothing is proven: it runs the public functions, and
    the functions that they call. With `requires_proof`, a function that is not proven is a
    finding, even if all its runs have the same results.
    """
    comparison = Comparison()
    # Both sides are read with the models of the first context.
    with models_of(old.context):
        sides = before, after = ComparedModule(*old), ComparedModule(*new)
        sizes = [_size_of(side) for side in sides]
        terms = Terms(StepBudget(max_steps + _allowance(sizes, _STEPS_PER_OP_READ), "proofs"))
        run_steps = StepBudget(max_steps + _allowance(sizes, _STEPS_PER_OP_RUN), "runs")
        old_keys, new_keys = (
            AttributeKeys(terms.types, side.resources, ignored_attributes) for side in sides
        )
        named = _names_reached(sides[0]), _names_reached(sides[1])
        reachable = named[0].intersection(before.functions), named[1].intersection(after.functions)
        pair = Pair(
            sides, terms, (old_keys, new_keys), reachable, runs, run_steps, engine, requires_proof
        )
        comparison.findings += _compare_attributes(pair)
        comparison.findings += _compare_others(pair)
        comparison.findings += _missing_functions(pair, named)
        for finding in _compare_functions(pair):
            if isinstance(finding, Verdict):
                comparison.verdicts.append(finding)
            else:
                comparison.findings.append(finding)
        comparison.verdicts = _as_good_as_callees(comparison.verdicts)
    return comparison


_STEPS_PER_OP_READ: Final = 10_000
_STEPS_PER_OP_RUN: Final = 3_000
_STEPS_PER_BYTE: Final = 100
"""Steps per byte of the elements of constants."""


def _allowance(sizes: Sequence[tuple[int, int]], steps_per_op: int) -> int:
    """The additional steps allowed for the sizes of the modules."""
    return sum(steps_per_op * ops + _STEPS_PER_BYTE * size for ops, size in sizes)


def _size_of(side: ComparedModule) -> tuple[int, int]:
    """The number of ops of a module, and the bytes of the elements of its constants."""
    ops = size = 0
    for op in side.module.walk():
        ops += 1
        for attribute in (*op.properties.values(), *op.attributes.values()):
            if isinstance(attribute, DenseIntOrFPElementsAttr):
                size += len(attribute.data.data)
            elif isinstance(attribute, DenseResourceAttr):
                blob = blob_of(attribute.resource_handle.data, side.resources)
                size += 0 if blob is None else len(blob.elements)
    return ops, size


def _compare_functions(pair: Pair) -> Iterator[Finding | Verdict]:
    before, after = (side.functions for side in pair.sides)
    compared = {
        name: FunctionComparison(pair, old, after[name])
        for name, old in before.items()
        if name in after and _is_compared(pair, old, after[name])
    }
    decided = _decide(pair, compared)
    for name, old in before.items():
        if name in compared:
            yield decided[name]
        elif name not in after and visibility_of(old) != "private":
            yield Finding(f"function '{name}' was removed", old, is_before=True)
    for name, new in after.items():
        if name not in before and visibility_of(new) != "private":
            yield Finding(f"function '{name}' was added", new)


def _decide(
    pair: Pair, compared: Mapping[str, FunctionComparison]
) -> Mapping[str, Finding | Verdict]:
    """Decide each function by the cheapest possible grounds, within a shared number of steps."""
    decided: dict[str, Finding | Verdict] = {}

    def attempt(method: Callable[[FunctionComparison], Verdict | None], name: str) -> bool:
        new = compared[name].new
        try:
            if (verdict := method(compared[name])) is not None:
                decided[name] = verdict
            return verdict is not None
        except DifferenceError as error:
            decided[name] = Finding(f"function '{name}'{error}", new)
            return True
        except NotShownError as error:
            finding = Finding(f"function '{name}' {error}", error.op, error.is_before)
        except NotCertifiableError as error:
            finding = Finding(f"function '{name}' is not shown to be the same: {error}", new)
        decided[name] = finding
        return False

    def attempt_each(
        method: Callable[[FunctionComparison], Verdict | None], steps: StepBudget
    ) -> None:
        undecided = [name for name in callees_first if name not in decided]
        steps.in_parts(undecided, partial(attempt, method))

    callees_first = [
        name
        for name in dependencies_first(compared, pair.sides[0].effects.called_by)
        if name in compared
    ]
    proof_steps = pair.terms.steps
    attempt_each(FunctionComparison.declare, proof_steps)
    if pair.engine is None:
        with proof_steps.limited_to_part(2):
            attempt_each(FunctionComparison.prove, proof_steps)
        attempt_each(FunctionComparison.prove_with_callees, proof_steps)
    attempt_each(FunctionComparison.run, pair.run_steps)
    return decided


def _missing_functions(
    pair: Pair, named: tuple[frozenset[str], frozenset[str]]
) -> Iterator[Finding]:
    """Private functions that only one module defines, but that both refer to."""
    before, after = (side.functions for side in pair.sides)
    for name in sorted(named[0] & named[1]):
        if (name in before) == (name in after):
            continue
        is_gone = name in before
        function = before[name] if is_gone else after[name]
        if visibility_of(function) == "private":
            what = (
                f"is no function '{name}' any more"
                if is_gone
                else f"was no function '{name}' before"
            )
            yield Finding(f"there {what}, but it is named in both", function, is_gone)


def _is_compared(pair: Pair, old: FuncOp, new: FuncOp) -> bool:
    """Whether both functions are reachable, or one of them is not private."""
    if any(visibility_of(function) != "private" for function in (old, new)):
        return True
    if pair.engine is not None:
        return False
    return all(old.sym_name.data in reachable for reachable in pair.reachable)


def _as_good_as_callees(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Weaken each proof to the weakest grounds among the functions that it relies on."""
    proofs_with = defaultdict[str, list[str]](list)
    """The functions whose proofs rely on a function."""
    for verdict in verdicts:
        for name in verdict.callees:
            proofs_with[name].append(verdict.name)
    weakest = dict[str, Verdict]()
    for verdict in sorted(verdicts, key=lambda of: (of.grounds, -of.runs), reverse=True):
        pending = [verdict.name]
        while pending:
            if (name := pending.pop()) not in weakest:
                weakest[name] = verdict
                pending += proofs_with[name]
    return [replace(weakest[verdict.name], name=verdict.name) for verdict in verdicts]


# Ops other than functions


def _compare_attributes(pair: Pair) -> Iterator[Finding]:
    modules = [side.module for side in pair.sides]
    try:
        require_same_attributes(
            pair.keys, *({**module.attributes, **module.properties} for module in modules)
        )
    except DifferenceError as error:
        yield Finding(f"the module's{error}", modules[1])
    except NotCertifiableError as error:
        yield Finding(f"the module's attributes are not shown to be the same: {error}", modules[1])


def _compare_others(pair: Pair) -> Iterator[Finding]:
    """The first difference among the ops at the top level that are not functions."""
    olds, news = (
        [op for op in side.module.ops if not isinstance(op, FuncOp)] for side in pair.sides
    )
    readers = pair.readers(Calls())
    for number in range(max(len(olds), len(news))):
        if number == len(news):
            yield Finding(f"'{name_of(olds[number])}' op was removed", olds[number], is_before=True)
            return
        if number == len(olds):
            yield Finding(f"'{name_of(news[number])}' op was added", news[number])
            return
        old, new = olds[number], news[number]
        try:
            events = [reader.event(op) for reader, op in zip(readers, (old, new), strict=True)]
            is_same = [events[0].key, events[0].operands] == [events[1].key, events[1].operands]
            reason = ""
        except (NotCertifiableError, RecursionError) as error:
            is_same, reason = False, f": {error}"
        if not is_same:
            yield Finding(
                f"'{name_of(new)}' op is not shown to be the same as '{name_of(old)}' op, which "
                f"was number {number + 1} of the ops at the top level that are not "
                f"functions{reason}",
                new,
            )
            return


def _names_reached(side: ComparedModule) -> frozenset[str]:
    """The symbols that are public, or reachable from anything but private functions."""
    roots = [op for op in side.module.ops if not isinstance(op, FuncOp)]
    roots += [op for op in side.functions.values() if visibility_of(op) != "private"]
    found = {op.sym_name.data for op in roots if isinstance(op, FuncOp)}
    pending: list[Operation] = roots
    while pending:
        for name in set(symbols_used_by(pending.pop())) - found:
            found.add(name)
            if name in side.functions:
                pending.append(side.functions[name])
    return frozenset(found)
