"""Comparing two modules: each function by a proof on terms, or else by running it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    DictionaryAttr,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.check.attribute_keys import (
    AttributeKeys,
    DifferenceError,
    blob_of,
    first_other_attribute,
    place,
    require_same_type,
)
from qdialect.check.compared_modules import ComparedModule, RunFailure, Side
from qdialect.check.followed_elements import element_at
from qdialect.check.function_terms import Body, Calls, Event, TermReader, Terms
from qdialect.check.index_maps import NotCertifiableError, index_at
from qdialect.check.interpreters.arguments import DEFAULT_MAX_SETS
from qdialect.check.sampled_runs import (
    Runs,
    compare_runs,
    other_element,
    unequal_numbers,
)
from qdialect.check.step_budget import DEFAULT_STEPS, StepBudget
from qdialect.check.value_classes import leaf_name, unequal_element
from qdialect.check.value_nodes import Node, SymbolNode
from qdialect.ir.names import symbols_used_by, visibility_of
from qdialect.ir.rewriting import dependencies_first
from qdialect.ops.interface import models_of, name_of
from qdialect.ops.model import Effects

if TYPE_CHECKING:
    from qdialect.check.iree_engine import IreeEngine


class Grounds(IntEnum):
    """The grounds for a verdict that two functions mean the same, from strongest to weakest."""

    DECLARED = 0
    """Neither function has a body."""

    PROVEN = 1
    """All results and effects are proven to be the same."""

    ALL_INPUTS = 2
    """Both were run with all possible arguments."""

    SAMPLES = 3
    """Both were run with some arguments."""


@dataclass(frozen=True)
class Verdict:
    """The verdict that two functions mean the same, with its grounds."""

    name: str
    grounds: Grounds
    runs: int = 0
    """The number of sets of arguments that both were run with."""

    callees: frozenset[str] = frozenset()
    """The functions that a proof assumes to mean the same."""

    note: str = ""
    """Remarks on the runs."""

    def __str__(self) -> str:
        match self.grounds:
            case Grounds.DECLARED:
                text = "declared"
            case Grounds.PROVEN:
                text = "proven"
            case Grounds.ALL_INPUTS:
                text = "its only input" if self.runs == 1 else f"all {self.runs} inputs"
                text = f"run with {text}"
            case Grounds.SAMPLES:
                text = f"run with {self.runs} of its inputs"
        return text + self.note

    @classmethod
    def of(cls, name: str, runs: Runs, callees: frozenset[str] = frozenset()) -> Verdict:
        """The verdict of runs."""
        grounds = Grounds.ALL_INPUTS if runs.is_exhaustive else Grounds.SAMPLES
        return cls(name, grounds, runs.count, callees, runs.note)

    def rank(self) -> tuple[int, int]:
        """What sorts verdicts, those with the strongest grounds first."""
        return self.grounds, -self.runs


@dataclass(frozen=True)
class Finding:
    """A difference, or a part that cannot be shown to be the same."""

    message: str
    op: Operation
    """An op of either module."""


class NotShownError(Exception):
    """Two functions cannot be shown to mean the same. The message gives the reason."""

    def __init__(self, message: str, op: Operation) -> None:
        super().__init__(message)
        self.op = op


@dataclass(frozen=True)
class Pair:
    """A pair of modules to compare, and the state of the comparison."""

    sides: tuple[ComparedModule, ComparedModule]
    terms: Terms
    keys: tuple[AttributeKeys, AttributeKeys]
    reachable: tuple[frozenset[str], frozenset[str]]
    """The names of the functions of each module that are reachable from outside."""

    runs: int
    """The maximum number of sets of arguments that a function is run with."""

    run_steps: StepBudget

    engine: IreeEngine | None = None
    """The engine that runs functions, instead of proofs and the interpreter."""

    requires_proof: bool = False
    """Whether runs are no grounds for a verdict."""

    def readers(self, calls: Calls) -> tuple[TermReader, TermReader]:
        """Readers of the terms of both modules."""
        before, after = (
            TermReader(self.sides[at], self.terms, self.keys[at], calls, self.sides[1 - at].effects)
            for at in (0, 1)
        )
        return before, after

    def ignoring_numbers(self) -> Pair:
        """The same pair, whose readers tell the functions apart by all but their numbers."""
        terms = Terms(self.terms.steps, ignores_numbers=True)
        before, after = (keys.ignoring_numbers(terms.types) for keys in self.keys)
        return replace(self, terms=terms, keys=(before, after))


_STEPS_PER_OP: Final = 1_000

_SIGNATURE: Final = ("arg_attrs", "function_type", "res_attrs", "sym_name", "sym_visibility")


class FunctionComparison:
    """
    The comparison of two functions of one name, from the cheapest grounds to the most expensive.

    Each method returns a verdict, or None if it does not decide. Each raises DifferenceError if
    the functions differ, and NotCertifiableError if it takes too many steps.
    """

    def __init__(self, pair: Pair, old: FuncOp, new: FuncOp) -> None:
        self.old = old
        self.new = new
        self._pair = pair
        self._name = new.sym_name.data
        self._unproven = _Unproven()

    def declare(self) -> Verdict | None:
        """Compare the signatures. Only declarations have a verdict."""
        _require_same_signature(self._pair, self.old, self.new)
        if self.old.is_declaration and self.new.is_declaration:
            return Verdict(self._name, Grounds.DECLARED)
        if self.old.is_declaration or self.new.is_declaration:
            raise DifferenceError(" has a body in only one of the modules")
        return None

    def prove(self) -> Verdict | None:
        """Try a proof that assumes called functions of both modules to be the same."""
        return self._prove(self._only_one)

    def prove_with_callees(self) -> Verdict | None:
        """After `prove`, try a proof that reads calls as the bodies of the called functions."""
        if not self._unproven.callees - self._only_one:
            return None
        return self._prove(frozenset[str]().union(*(side.functions for side in self._pair.sides)))

    def run(self) -> Verdict:
        """Run both functions. Raises NotShownError if that shows nothing."""
        unproven = self._unproven
        if (engine := self._pair.engine) is not None:
            try:
                runs = engine.compare((self.old, self.new), self._pair.runs)
            except RunFailure as failure:
                raise NotShownError(f"is not checked: {failure.reason}", failure.op) from None
            return Verdict.of(self._name, runs)
        callees = frozenset[str]()
        effects = [side.effects.of_function(self._name) for side in self._pair.sides]
        if Effects.ANY in effects:
            if unproven.other_effect is not None:
                raise unproven.other_effect
            callees = unproven.callees
        _require_no_other_attributes(self._pair, (self.old, self.new), unproven.reason)
        pair = self._pair
        try:
            runs = compare_runs(pair.sides, (self.old, self.new), pair.runs, pair.run_steps)
        except RunFailure as failure:
            raise NotShownError(
                f"is not shown to be the same: {unproven.reason}; and it cannot be run: "
                f"{failure.reason}",
                failure.op,
            ) from None
        verdict = Verdict.of(self._name, runs, callees)
        if pair.requires_proof:
            raise NotShownError(f"is not proven: {unproven.reason}; it was {verdict}", self.new)
        if verdict.grounds is Grounds.SAMPLES and self._differ_in_numbers():
            raise NotShownError(
                f"is not shown to be the same: {unproven.reason}; as the functions differ in "
                f"numbers only, it is no proof that it was {verdict}",
                self.new,
            )
        return verdict

    def _differ_in_numbers(self) -> bool:
        """Whether the functions, which are not proven to be equal, are equal but for numbers."""
        pair = self._pair.ignoring_numbers()
        names = frozenset[str]().union(*(side.functions for side in pair.sides))
        return _Proof(pair, self.old, self.new, Calls(names)).has_equal_terms()

    @property
    def _only_one(self) -> frozenset[str]:
        """The functions that are reachable in one module only."""
        return self._pair.reachable[0] ^ self._pair.reachable[1]

    def _prove(self, expanded: frozenset[str]) -> Verdict | None:
        steps = self._pair.terms.steps
        calls, refusals = Calls(expanded), steps.refusals
        proof = _Proof(self._pair, self.old, self.new, calls)
        if proof.succeeds():
            return Verdict(self._name, Grounds.PROVEN, callees=frozenset(calls.kept))
        if steps.refusals == refusals or not self._unproven.is_complete:
            is_complete = steps.refusals == refusals
            kept = frozenset(calls.kept)
            self._unproven = _Unproven(proof.reason, proof.other_effect, kept, is_complete)
        return None


@dataclass(frozen=True)
class _Unproven:
    """The outcome of a proof that failed."""

    reason: str = "no proof was tried"

    other_effect: NotShownError | None = None
    """The error for the first effect that is not shown to be the same."""

    callees: frozenset[str] = frozenset()
    """The functions whose calls were assumed to be the same."""

    is_complete: bool = False
    """Whether the proof finished within its steps."""


def _require_no_other_attributes(pair: Pair, functions: tuple[FuncOp, FuncOp], reason: str) -> None:
    """Raise NotShownError if only one of the functions has an attribute that runs do not read."""
    ops = [
        [
            op
            for name in sorted(_names_run(pair, side, function))
            for op in side.functions[name].walk()
        ]
        for side, function in zip(pair.sides, functions, strict=True)
    ]
    other = first_other_attribute(pair.keys, ops)
    if other is not None:
        name, op = other
        raise NotShownError(
            f"is not shown to be the same: {reason}; and runs do not depend on attribute "
            f"'{name}', which differs",
            op,
        )


def _names_run(pair: Pair, side: ComparedModule, function: FuncOp) -> Iterator[str]:
    """The names of a function and of those that it calls, directly or through others."""

    def called_by(name: str) -> Iterator[str]:
        for op in side.functions[name].walk():
            pair.run_steps.spend(_STEPS_PER_OP)
            if (callee := side.effects.callee_of(op)) is not None:
                yield callee.sym_name.data

    return dependencies_first([function.sym_name.data], called_by)


def _require_same_signature(pair: Pair, old: FuncOp, new: FuncOp) -> None:
    types = old.function_type, new.function_type
    for kind, olds, news in (
        ("argument", types[0].inputs.data, types[1].inputs.data),
        ("result", types[0].outputs.data, types[1].outputs.data),
    ):
        if len(olds) != len(news):
            raise DifferenceError(f" has {len(news)} {kind}s, but had {len(olds)} before")
        for number, of_both in enumerate(zip(olds, news, strict=True)):
            with place(f" {kind} #{number}"):
                require_same_type(*of_both, pair.keys)
    visibilities = [visibility_of(function) for function in (old, new)]
    if visibilities[0] != visibilities[1]:
        raise DifferenceError(f" is {visibilities[1]}, but was {visibilities[0]} before")
    require_same_attributes(pair.keys, *(_own_attributes(function) for function in (old, new)))
    for kind, name in (("argument", "arg_attrs"), ("result", "res_attrs")):
        lists = [_dictionaries(function, name) for function in (old, new)]
        for number, (before, after) in enumerate(zip_longest(*lists, fillvalue={})):
            with place(f" {kind} #{number}"):
                require_same_attributes(pair.keys, before, after)


def _own_attributes(function: FuncOp) -> dict[str, Attribute]:
    attributes = {**function.attributes, **function.properties}
    return {name: attribute for name, attribute in attributes.items() if name not in _SIGNATURE}


def _dictionaries(function: FuncOp, name: str) -> list[Mapping[str, Attribute]]:
    attribute = function.properties.get(name) or function.attributes.get(name)
    if not isinstance(attribute, ArrayAttr):
        return []
    items = cast("ArrayAttr[Attribute]", attribute).data
    return [item.data if isinstance(item, DictionaryAttr) else {} for item in items]


def require_same_attributes(
    keys: tuple[AttributeKeys, AttributeKeys],
    before: Mapping[str, Attribute],
    after: Mapping[str, Attribute],
) -> None:
    """Raise DifferenceError for the first attribute that differs."""
    for name in sorted({*before, *after}):
        olds, news = (
            {name: attributes[name]} if name in attributes else {} for attributes in (before, after)
        )
        if keys[0].of_names(olds) != keys[1].of_names(news):
            was, now = (
                f"is {attributes[name]}" if attributes else "is missing"
                for attributes in (olds, news)
            )
            was = was.replace("is", "was", 1)
            raise DifferenceError(f" attribute '{name}' {now}, but {was} before")


def require_same_elements(
    before: Node, after: Node, types: Sequence[Attribute], steps: StepBudget
) -> None:
    """
    Raise DifferenceError unless both values have the same elements; all NaNs are equal.

    `types` are the types of both. Raises NotCertifiableError if not all elements are known.
    """
    if before.shape != after.shape:
        raise DifferenceError(
            f" has shape {list(after.shape)}, but had {list(before.shape)} before"
        )
    position = unequal_element(
        before, after, steps, lambda old, new: unequal_numbers(old.numbers(), new.numbers())
    )
    if position is not None:
        old, new = (element_at(node, position).numbers() for node in (before, after))
        raise other_element(position, (old, new), types, before.shape)


class _Proof:
    """An attempt to prove that two functions are equal as terms."""

    def __init__(self, pair: Pair, old: FuncOp, new: FuncOp, calls: Calls) -> None:
        self._pair = pair
        self._functions = old, new
        self._readers: tuple[TermReader, TermReader] = pair.readers(calls)
        self.reason = ""
        """The reason why the attempt failed."""
        self.other_effect: NotShownError | None = None
        """The error for the first effect that is not shown to be the same."""

    def succeeds(self) -> bool:
        """
        Try to prove that the functions are equal; return whether that succeeded.

        Raises DifferenceError if constant results differ.
        """
        try:
            old, new = self._bodies()
            return old.key == new.key or self._are_equal(old, new)
        except NotCertifiableError as error:
            self.reason = str(error)
        except RecursionError:
            self.reason = "regions or calls are too deep"
        self.other_effect = self._unshown(None, None)
        return False

    def has_equal_terms(self) -> bool:
        """Whether the functions can be read as terms, which are equal."""
        try:
            old, new = self._bodies()
        except (NotCertifiableError, RecursionError):
            return False
        return old.key == new.key

    def _bodies(self) -> tuple[Body, Body]:
        old, new = (
            reader.body(function.body)
            for reader, function in zip(self._readers, self._functions, strict=True)
        )
        return old, new

    def _are_equal(self, old: Body, new: Body) -> bool:
        if len(old.blocks) != 1 or len(new.blocks) != 1:
            self.reason = "the control flow differs"
            self.other_effect = self._unshown(None, None)
            return False
        olds, news = old.blocks[0], new.blocks[0]
        self.other_effect = self._first_other_effect(olds[:-1], news[:-1])
        last = olds[-1], news[-1]
        if not all(isinstance(event.op, ReturnOp) for event in last):
            self.reason = "it does not end in a return"
            return False
        return self._have_same_results(last[0], last[1]) and self.other_effect is None

    def _have_same_results(self, old: Event, new: Event) -> bool:
        is_shown = True
        for number, values in enumerate(zip(old.op.operands, new.op.operands, strict=True)):
            if old.operands[number] == new.operands[number]:
                continue
            nodes = _nodes(self._readers, values)
            types = [value.type for value in values]
            with place(f" result #{number}"):
                try:
                    require_same_elements(*nodes, types, self._pair.terms.steps)
                except NotCertifiableError:
                    self.reason = _cause(self._pair, self._readers, f"result #{number}", values)
                    is_shown = False
        return is_shown

    def _first_other_effect(
        self, olds: Sequence[Event], news: Sequence[Event]
    ) -> NotShownError | None:
        keys = [[(event.key, event.operands) for event in events] for events in (olds, news)]
        for at, (old, new) in enumerate(zip_longest(*keys)):
            if old == new:
                continue
            # Distinguish a removed or added op from a changed one.
            is_gone = new is None or keys[0][at + 1 : at + 2] == [new]
            is_new = old is None or keys[1][at + 1 : at + 2] == [old]
            return self._unshown(
                None if is_new and not is_gone else olds[at],
                None if is_gone else news[at],
            )
        return None

    def _unshown(self, old: Event | None, new: Event | None) -> NotShownError:
        if old is None or new is None:
            there = new or old
            if there is None:
                message = f"is not shown to be the same: {self.reason}; and it has effects"
                return NotShownError(message, self._functions[1])
            name = f"'{name_of(there.op)}' op"
            self.reason = f"{name} was {'removed' if new is None else 'added'}"
            return NotShownError(f"is not the same: {self.reason}", there.op)
        if old.key == new.key:
            number = next(
                at
                for at, (was, now) in enumerate(zip(old.operands, new.operands, strict=True))
                if was != now
            )
            values = old.op.operands[number], new.op.operands[number]
            subject = f"operand #{number} of '{name_of(new.op)}' op"
            self.reason = _cause(self._pair, (old.reader, new.reader), subject, values)
        elif name_of(old.op) != name_of(new.op):
            self.reason = f"there is '{name_of(new.op)}' op instead of '{name_of(old.op)}' op"
        else:
            self.reason = (
                f"'{name_of(new.op)}' op has different {_other_part(self._pair, old.op, new.op)}"
            )
        return NotShownError(f"is not shown to be the same: {self.reason}", new.op)


_Readers = tuple[TermReader, TermReader]


def _nodes(readers: _Readers, values: tuple[SSAValue, SSAValue]) -> tuple[Node, Node]:
    before, after = (reader.read(value) for reader, value in zip(readers, values, strict=True))
    return before, after


def _cause(pair: Pair, readers: _Readers, subject: str, values: tuple[SSAValue, SSAValue]) -> str:
    """Why values are not shown to be equal: the first difference among their operands."""
    try:
        for _ in range(_MAX_CAUSES):
            below = _first_unequal_operands(readers, values)
            if below is None:
                break
            user, number, values = below
            subject = f"operand #{number} of '{name_of(user)}' op"
        return f"{subject} {_difference(pair, readers, values)}"
    except NotCertifiableError as error:
        return f"{subject}: {error}"


def _first_unequal_operands(
    readers: _Readers, values: tuple[SSAValue, SSAValue]
) -> tuple[Operation, int, tuple[SSAValue, SSAValue]] | None:
    old, new = (value.owner for value in values)
    if not isinstance(old, Operation) or not isinstance(new, Operation):
        return None
    nodes = _nodes(readers, values)
    is_alike = name_of(old) == name_of(new) and len(old.operands) == len(new.operands)
    if not is_alike or not all(isinstance(node, SymbolNode) for node in nodes):
        return None
    for number, operands in enumerate(zip(old.operands, new.operands, strict=True)):
        classes = [
            reader.class_of(operand) for reader, operand in zip(readers, operands, strict=True)
        ]
        if classes[0] != classes[1]:
            return new, number, operands
    return None


def _difference(pair: Pair, readers: _Readers, values: tuple[SSAValue, SSAValue]) -> str:
    before, after = _nodes(readers, values)
    if before.shape != after.shape:
        return f"has shape {list(after.shape)}, but had {list(before.shape)} before"
    owners = [value.owner for value in values if isinstance(value.owner, Operation)]
    if all(isinstance(node, SymbolNode) for node in (before, after)):
        was, now = (leaf_name(node) for node in (before, after))
        if was == now and len(owners) == 2:
            return f"is {now}, which has different {_other_part(pair, *owners)}"
        return f"is {now}, but was {was} before"
    position = unequal_element(before, after, pair.terms.steps)
    if position is None:
        return "has another type"
    element = f"element {index_at(position, before.shape)} " if before.shape else ""
    was, now = (_element(node, position) for node in (before, after))
    return f"{element}is {now}, but was {was} before"


def _element(node: Node, position: int) -> str:
    element = element_at(node, position)
    try:
        return str(element.numbers().item())
    except NotCertifiableError:
        leaf, positions = element.leaves[0]
        casts = [layer.node.cast for layer in element.layers]
        through = "".join(f"'{name_of(op)}' of " for op in casts if op is not None)
        index = index_at(int(positions[0]), leaf.shape)
        return f"{through}element {index} of {leaf_name(leaf)}"


_MAX_CAUSES: Final = 1_000
"""The maximum number of ops searched for the first difference."""


def _other_part(pair: Pair, *ops: Operation) -> str:
    keys = [pair_keys.of_op(op) for pair_keys, op in zip(pair.keys, ops, strict=True)]
    if keys[0] != keys[1]:
        return "attributes"
    types = [
        [pair.terms.types.of(type, pair_keys) for type in (*op.operand_types, *op.result_types)]
        for pair_keys, op in zip(pair.keys, ops, strict=True)
    ]
    return "types" if types[0] != types[1] else "regions or operands"


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
    runs: int = DEFAULT_MAX_SETS,
    *,
    ignored_attributes: Collection[str] = (),
    max_steps: int = DEFAULT_STEPS,
    engine: IreeEngine | None = None,
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
            yield Finding(f"function '{name}' was removed", old)
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
            finding = Finding(f"function '{name}' {error}", error.op)
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
            verb, when = ("is", "any more") if is_gone else ("was", "before")
            what = f"there {verb} no function '{name}' {when}"
            yield Finding(f"{what}, but it is named in both", function)


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
    for verdict in sorted(verdicts, key=Verdict.rank, reverse=True):
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
            yield Finding(f"'{name_of(olds[number])}' op was removed", olds[number])
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
    names = list[str]()
    for op in side.module.ops:
        if not isinstance(op, FuncOp):
            names += symbols_used_by(op)
        elif visibility_of(op) != "private":
            names.append(op.sym_name.data)

    def named_in(name: str) -> Iterator[str]:
        function = side.functions.get(name)
        return iter(()) if function is None else symbols_used_by(function)

    return frozenset(dependencies_first(names, named_in))
