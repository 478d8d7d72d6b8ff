"""
Runs two modules with IREE, and compares their results.

The arguments whose elements are read as positions are kept within bounds, as compilers read memory
of anything beyond them. Results of the same bits with every compiler are compared exactly.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, cast

from xdsl.dialects.builtin import AnyFloat, ComplexType, ModuleOp
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.utils.exceptions import InterpretationError

from qdialect.check.attribute_keys import DifferenceError, place
from qdialect.check.compared_modules import RunFailure, Side
from qdialect.check.interpreters import DealtArguments, TypedArray, interesting_numbers
from qdialect.check.iree_runs import LoadedModule, compile_module
from qdialect.check.sampled_runs import MAX_COMBINATIONS, Runs, arguments_text, require_same_results
from qdialect.dialects.arrays.values import held_type
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.ir.value_types import element_type_or_self
from qdialect.ops.fields import CastReads, Positions
from qdialect.ops.interface import bits_of_op, function_of, name_of, op_model
from qdialect.ops.model import Bits, model_named
from qdialect.opt.child_processes import ChildEndedError, computed_in_copy
from qdialect.opt.tool_error import ToolError
from qdialect.support.extras import library
from qdialect.support.float_format import FLOAT_FORMATS
from qdialect.support.lazy_numpy import np
from qdialect.support.memory import MemoryLimitError

Bounds = Mapping[int, int]
"""For the number of an argument, the number that all of its elements must be below."""


class PositionArguments:
    """The arguments of the functions of a module that are read as positions."""

    def __init__(self, functions: Mapping[str, FuncOp]) -> None:
        self._functions = functions
        self._known: dict[str, Bounds] = {}

    def of(self, name: str) -> Bounds:
        """
        The bounds of arguments from which integers that are read as positions are computed.

        An argument is bounded as the positions are, though what is computed from it may exceed
        them. An axis of unknown length has one position.
        """
        if name not in self._known:
            # A function that calls itself finds no bounds there.
            self._known[name] = {}
            self._known[name] = self._found(self._functions[name])
        return self._known[name]

    def _found(self, function: FuncOp) -> Bounds:
        bounds: dict[int, int] = {}
        visited = set[SSAValue]()
        # From the lowest bound up, each value needs only one visit.
        read = [pair for op in function.walk() for pair in self._read_by(op)]
        for first, bound in sorted(read, key=lambda pair: pair[1]):
            pending = [first]
            while pending:
                value = pending.pop()
                element_type = element_type_or_self(value.type)
                if value in visited or isinstance(element_type, AnyFloat | UniformQuantizedType):
                    continue
                visited.add(value)
                owner = value.owner
                if isinstance(value, BlockArgument) and owner is function.body.blocks.first:
                    bounds[value.index] = bound
                else:
                    pending += _sources(owner)
        return bounds

    def _read_by(self, op: Operation) -> Positions:
        if isinstance(op, CallOp):
            callee = op.callee.string_value()
            if callee in self._functions:
                yield from ((op.operands[at], bound) for at, bound in self.of(callee).items())
        elif (reader := model_named(name_of(op)).positions) is not None:
            for value, bound in reader(op):
                yield value, max(bound, 1)


def _sources(owner: Operation | Block) -> Iterator[SSAValue]:
    """The values from which those of an op or a block may be computed, by that op or around it."""
    op = owner.parent_op() if isinstance(owner, Block) else owner
    if op is None:
        return
    yield from op.operands
    for region in op.regions:
        for block in region.blocks:
            if block.last_op is not None:
                yield from block.last_op.operands


_CONTROL: Final = frozenset({"builtin", "cf", "func", "scf", "shape", "ub"})
"""Dialects without arithmetic of their own."""

_WHOLE: Final = frozenset({"ceil", "floor", "round", "roundeven", "sign", "trunc"})
"""The functions whose results are whole floats."""


@dataclass(frozen=True)
class DefinedBits:
    """Reasons why the bits of results may differ between compilers, or between two runs."""

    unordered: str | None
    """An op whose floats depend on the compiler, such as a sum; None if there is none."""

    undefined: str | None
    """An op that is undefined for some operands; None if there is none."""

    is_discrete: bool
    """
    Whether floats are compared, or rounded to whole numbers.

    Then a small difference before may become a large one after.
    """

    precision: int
    """The significant bits of the narrowest floats that unordered ops have."""

    @property
    def tolerance(self) -> float:
        """
        The relative tolerance of results, to the largest: two thirds of the bits must agree.

        Rounding errors of `n` terms grow as the square root of `n`, so 40,000 terms of f32 stay
        within it.
        """
        return 2.0 ** (-2 * (self.precision - 1) / 3)


def defined_bits(ops: Iterable[Operation]) -> DefinedBits:
    """The reasons for functions that consist of `ops`, which include those in regions."""
    unordered = undefined = None
    is_discrete, precision = False, 53
    for op in ops:
        name = name_of(op)
        precisions = list(filter(None, map(_precision_of, _element_types(op))))
        bits = bits_of_op(op)
        is_division = bits is Bits.UNDEFINED_ON_INTEGERS and not precisions
        if is_division or bits is Bits.UNDEFINED or _is_conversion(op):
            undefined = undefined or name
        is_discrete |= _is_discrete(op, name)
        if precisions and not _is_exact(op, name, bits):
            unordered = unordered or name
            precision = min(precision, *precisions)
    return DefinedBits(unordered, undefined, is_discrete, precision)


def _is_exact(op: Operation, name: str, bits: Bits) -> bool:
    if any(isinstance(type, ComplexType) for type in _element_types(op)):
        return _is_moved(op)
    flags = op.properties.get("fastmath") or op.attributes.get("fastmath")
    if flags is not None and getattr(flags, "data", ()):
        return False
    if bits is not Bits.UNKNOWN:
        return bits is not Bits.ROUNDED
    return name.partition(".")[0] in _CONTROL or _is_moved(op)


def _is_moved(op: Operation) -> bool:
    """Whether it is a constant, a shape op, or a cast."""
    model = op_model(op)
    return not (model.cast is model.movement is model.constant is None)


def _is_conversion(op: Operation) -> bool:
    """Whether it converts floats to integers."""
    if CastReads.CONVERTED not in (op_model(op).cast or CastReads.UNKNOWN):
        return False
    before, after = (
        [isinstance(element_type_or_self(value.type), AnyFloat) for value in values]
        for values in (op.operands, op.results)
    )
    return any(before) and not any(after)


def _is_discrete(op: Operation, name: str) -> bool:
    """Whether it maps floats to whole numbers, or to something other than floats."""
    before, after = (
        [_precision_of(element_type_or_self(value.type)) is not None for value in values]
        for values in (op.operands, op.results)
    )
    return any(before) and (not all(after) or not _WHOLE.isdisjoint(_functions_of(name)))


def _functions_of(name: str) -> Collection[str]:
    rule = model_named(name).rule
    return () if rule is None or callable(rule) else (rule.functions or {function_of(name)})


def _element_types(op: Operation) -> Iterator[Attribute]:
    for value in (*op.operands, *op.results):
        yield element_type_or_self(value.type)


def _precision_of(type: Attribute) -> int | None:
    """The significant bits of a float, or of the parts of a complex number; None for others."""
    part = (
        cast("ComplexType[AnyFloat]", type).element_type if isinstance(type, ComplexType) else type
    )
    return FLOAT_FORMATS[part.name].precision if isinstance(part, AnyFloat) else None


class _CompiledModule:
    """One of the two compared modules."""

    def __init__(self, side: Side) -> None:
        """Raises RunFailure if IREE does not compile it, and MissingLibraryError."""
        self.module, self.binary = compile_module(side)
        self.functions = {op.sym_name.data: op for op in self.module.ops if isinstance(op, FuncOp)}
        self.positions = PositionArguments(self.functions)


class IreeEngine:
    """Compiles both modules for the CPU, and runs functions of both."""

    def __init__(self, before: Side, after: Side) -> None:
        """
        Raises RunFailure if IREE does not compile one, and ToolError if IREE is not installed.
        """
        try:
            self._before = _CompiledModule(before)
            self._after = _CompiledModule(after)
            # Errors of its import are reported here, not by the processes that run functions.
            library("iree.runtime", "iree")
        except ImportError as error:
            raise ToolError(f"--engine=iree: {error}") from None

    def compare(self, functions: tuple[FuncOp, FuncOp], max_sets: int) -> Runs:
        """
        Run both functions, of types that mean the same, with the same arguments.

        Raises DifferenceError for results that are different, and RunFailure if they cannot be run,
        or if a difference may be legal.
        """

        def compared() -> Iterator[Runs | tuple[str, int]]:
            try:
                yield self._compare(functions, max_sets)
            except RunFailure as failure:
                # Its op is one of this process.
                yield failure.reason, functions.index(cast(FuncOp, failure.op))

        try:
            # IREE's runtime may crash, such as at positions out of bounds.
            (outcome,) = computed_in_copy(compared)
        except ChildEndedError as error:
            raise RunFailure(f"IREE's runtime {error}", functions[0]) from None
        if isinstance(outcome, Runs):
            return outcome
        reason, number = outcome
        raise RunFailure(reason, functions[number])

    def _compare(self, functions: tuple[FuncOp, FuncOp], max_sets: int) -> Runs:
        old, new = functions
        name = old.sym_name.data
        known = defined_bits(
            op
            for side in (self._before, self._after)
            for op in _ops_run_by(side.functions[name], side.module)
        )
        olds, news = (side.positions.of(name) for side in (self._before, self._after))
        bounds = {
            at: min(bounds[at] for bounds in (olds, news) if at in bounds) for at in {*olds, *news}
        }
        is_tame = known.unordered is not None or known.undefined is not None
        try:
            sets = DealtArguments(
                old.function_type,
                interesting=interesting_numbers(functions),
                max_sets=max_sets,
                max_combinations=max(max_sets, MAX_COMBINATIONS),
                is_tame=is_tame,
                bounds=bounds,
            )
            before, after = (LoadedModule(side.binary) for side in (self._before, self._after))
            furthest = 0.0
            for number, arguments in enumerate(sets):
                olds = before.run(old, arguments)
                news = after.run(new, arguments)
                with place(after=arguments_text(number, arguments)):
                    furthest = max(furthest, _distance(olds, news, known, new))
        except (InterpretationError, MemoryLimitError) as error:
            raise RunFailure(str(error), old) from None
        note = f" by IREE ({_closeness(furthest, known)}{_within(bounds)})"
        return Runs(len(sets), sets.is_exhaustive, note)


def _distance(
    befores: tuple[TypedArray, ...],
    afters: tuple[TypedArray, ...],
    known: DefinedBits,
    function: FuncOp,
) -> float:
    """
    The largest difference of results relative to the largest element; 0 if all bits are equal.

    Raises DifferenceError if it exceeds the tolerance, and RunFailure if that may be a legal
    difference.
    """
    try:
        require_same_results(befores, afters)
    except DifferenceError as error:
        if known.unordered is None:
            raise
        furthest = max(map(_relative_distance, befores, afters))
        if furthest <= known.tolerance:
            return furthest
        allowed = f"{known.tolerance:.1e} of the largest element"
        reason = f" ('{known.unordered}' allows {allowed})"
        if known.is_discrete:
            raise RunFailure(
                f"{str(error).strip()}{reason}, but it rounds or compares floats, which a "
                "reordered sum may change",
                function,
            ) from None
        raise DifferenceError(f"{error}{reason}") from None
    return 0.0


def _relative_distance(before: TypedArray, after: TypedArray) -> float:
    """
    The largest difference of elements relative to the largest; at least 1 for unequal integers.
    """
    old, new = before.numbers, after.numbers
    if not isinstance(held_type(before.element_type), AnyFloat):
        return 0.0 if (old == new).all() else np.inf
    is_finite = np.isfinite(old) & np.isfinite(new)
    alike = (old == new) | (np.isnan(old) & np.isnan(new))
    if not (is_finite | alike).all():
        return np.inf
    with np.errstate(over="ignore"):
        apart = np.abs(new[is_finite] - old[is_finite]).max(initial=0.0)
    largest = np.abs(old[is_finite]).max(initial=0.0)
    return float(apart / largest) if apart and largest else float(np.inf if apart else 0.0)


def _closeness(furthest: float, known: DefinedBits) -> str:
    if not furthest:
        return "bit for bit"
    return (
        f"within {known.tolerance:.1e} of the largest element, "
        f"since '{known.unordered}' may add floats in a different order"
    )


def _within(bounds: Bounds) -> str:
    """A remark on the arguments that have positions."""
    if not bounds:
        return ""
    numbers = ", ".join(f"#{at}" for at in sorted(bounds))
    return f"; positions within bounds in argument{'s' if len(bounds) > 1 else ''} {numbers}"


def _ops_run_by(function: FuncOp, module: ModuleOp) -> list[Operation]:
    """The ops of a function, or of the whole module if it calls another."""
    ops = list(function.walk())
    return list(module.walk()) if any(isinstance(op, CallOp) for op in ops) else ops
