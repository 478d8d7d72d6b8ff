"""
Running two functions with the same arguments, where no proof decides whether they are the same.

Elementwise functions run on many sets of arguments at once: each value has a leading batch axis,
one position per set. If sets diverge, because control flow depends on them or an op has no result
for some, the batch is split and run again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from numpy.typing import NDArray
from typing_extensions import override
from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerType, TensorType
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.interpreter import Interpreter, PythonValues
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import InterpretationError

from qdialect.algebra.movement import Shape
from qdialect.check.attribute_keys import DifferenceError, assumed_shape, place, require_same_type
from qdialect.check.compared_modules import ComparedModule, RunFailure
from qdialect.check.index_maps import index_at
from qdialect.check.interpreters import (
    DealtArguments,
    ModuleInterpreter,
    OpInterpretationError,
    TypedArray,
    interesting_numbers,
)
from qdialect.check.interpreters.arguments import DEFAULT_MAX_COMBINATIONS
from qdialect.check.step_budget import STEPS_PER_REQUEST, StepBudget, StepLimitError
from qdialect.check.value_nodes import SlotTable, bits_of, dequantize, differ, numbers_in
from qdialect.dialects.arrays.values import (
    DivergingError,
    at_all_positions,
    held_type,
    value_of,
    work_spent_by,
)
from qdialect.dialects.quant.casts import DequantizeBiasOp
from qdialect.dialects.quant.slots import Granularity
from qdialect.dialects.quant.storage import StoredType
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.ir.rewriting import dependencies_first
from qdialect.ir.value_types import element_type_or_self, is_static, shape_of
from qdialect.ops.interface import bits_of_op, elements_attribute_of, is_cast, name_of
from qdialect.ops.model import Bits, OnNumbers, model_named
from qdialect.support.lazy_numpy import np
from qdialect.support.memory import MemoryLimitError, memory_budget


def unequal_numbers(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.bool_]:
    """A mask of the numbers that differ; all NaNs are equal."""
    wrong = differ(one, other)
    if one.dtype.kind == other.dtype.kind == "f":
        wrong &= ~(np.isnan(one) & np.isnan(other))
    return wrong


def other_element(
    position: int, numbers: Sequence[NDArray[Any]], types: Sequence[Attribute], shape: Shape
) -> DifferenceError:
    """The error for one element that differs; `numbers` are arrays of one, before and after."""
    index = index_at(position, shape)
    was, now = (
        _number_text(number, type, shape, position)
        for number, type in zip(numbers, types, strict=True)
    )
    return DifferenceError(f"{f' element {index}' if shape else ''} is {now}, but was {was} before")


def _number_text(number: NDArray[Any], type: Attribute, shape: Shape, position: int) -> str:
    element_type = element_type_or_self(type)
    if not isinstance(element_type, UniformQuantizedType):
        return str(number.item())
    slots = SlotTable.of(element_type, shape).at(np.array([position], dtype=np.int64))
    return f"{dequantize(number, *slots, element_type).item()} (stored {number.item()})"


def _numbers_of(array: TypedArray) -> NDArray[Any]:
    bits = bits_of(array.elements.reshape(-1), held_type(array.element_type))
    return numbers_in(bits, array.element_type)


def require_same_results(befores: Sequence[TypedArray], afters: Sequence[TypedArray]) -> None:
    """Raise DifferenceError for the first element that differs."""
    for number, (before, after) in enumerate(zip(befores, afters, strict=True)):
        with place(f" result #{number}"):
            if before.type != after.type:
                require_same_type(before.type, after.type)
            numbers = _numbers_of(before), _numbers_of(after)
            wrong = unequal_numbers(*numbers)
            if wrong.any():
                at = int(np.argmax(wrong))
                ones = [of_side[at : at + 1] for of_side in numbers]
                raise other_element(at, ones, (before.type, after.type), before.shape)


Run = Callable[[Sequence[TypedArray], int], Sequence[TypedArray]]
"""
Runs a function with a number of sets of arguments. All values have the batch axis.

Raises InterpretationError, caused by a DivergingError if sets diverge, StepLimitError and
MemoryLimitError.
"""

_MAX_FAILURES: Final = 64
"""The maximum number of batches that may fail before the first success."""


def steps_for(side: ComparedModule, function: FuncOp, sets: int) -> int | None:
    """
    The minimum number of steps to run `sets` sets at once; None if a batched run is impossible.

    It is possible if each op of the function and its callees is elementwise: elements at a
    position depend only on the operands' elements at that position.
    """
    steps = 0
    for name in dependencies_first([function.sym_name.data], side.effects.called_by):
        for op in side.functions[name].body.walk():
            if not _keeps_positions(op):
                return None
            values = (*op.operands, *op.results)
            elements = sum(math.prod(shape_of(value.type) or ()) for value in values)
            steps += STEPS_PER_REQUEST + sets * elements
            if isinstance(op, CallOp):
                callee = side.effects.callee_of(op)
                if callee is None or callee.is_declaration:
                    return None
    return steps


def _keeps_positions(op: Operation) -> bool:
    model = model_named(name_of(op))
    # If sets diverge at control flow, DivergingError is raised.
    if model.is_control or (elements_attribute_of(op) is not None and not op.operands):
        return True
    is_elementwise = isinstance(model.run, OnNumbers) or model.is_elementwise
    if not (is_elementwise and model.bits is not Bits.ROUNDED) and not is_cast(op):
        return False
    if isinstance(op, DequantizeBiasOp) and op.axis is not None:
        return False
    shapes = set(
        map(_shape_computed_alone, cast("Sequence[SSAValue]", (*op.operands, *op.results)))
    )
    return len(shapes) == 1 and None not in shapes


def _shape_computed_alone(value: SSAValue) -> tuple[bool, Shape] | None:
    """Whether a value is a tensor, and its shape; None if its type tells positions apart."""
    type = value.type
    element_type, shape = element_type_or_self(type), shape_of(type)
    is_quantized = isinstance(element_type, UniformQuantizedType)
    if is_quantized and element_type.granularity is not Granularity.PER_TENSOR:
        return None
    if isinstance(type, AnyFloat | IndexType | IntegerType | StoredType):
        return False, ()
    return (True, shape) if isinstance(type, TensorType) and shape and is_static(shape) else None


@dataclass
class BatchedRuns:
    """The outcome of running two functions with all combinations of argument values."""

    alike: NDArray[np.bool_]
    """A mask of the sets for which both functions return the same."""

    undefined: NDArray[np.bool_] = field(init=False)
    """A mask of the sets for which the first function has no result."""

    def __post_init__(self) -> None:
        self.undefined = np.zeros_like(self.alike)

    @property
    def count(self) -> int:
        """The number of sets with the same results."""
        return int(np.count_nonzero(self.alike))

    @property
    def unknown(self) -> list[int]:
        """The indices of the sets still to be run; at least one unless some are alike."""
        unknown = np.flatnonzero(~(self.alike | self.undefined)).tolist()
        return unknown or ([] if self.count else [0])


def run_batches(sets: DealtArguments, runs: tuple[Run, Run]) -> BatchedRuns | None:
    """
    Run two functions with all of `sets`, in batches; None if no batch succeeds.

    The result is unknown for sets that are neither alike nor undefined. Raises StepLimitError.
    """
    outcome = BatchedRuns(np.zeros(len(sets), dtype=np.bool_))
    pending = [np.arange(len(sets))]
    failures = 0
    while pending:
        numbers = pending.pop()
        results: list[Sequence[TypedArray]] = []
        try:
            arguments = sets.combinations(numbers)
            for run in runs:
                results.append(run(arguments, len(numbers)))
        except (InterpretationError, MemoryLimitError) as error:
            if isinstance(error.__cause__, DivergingError):
                pending += _parted(numbers, error.__cause__.numbers)
                continue
            failures += 1
            if failures > _MAX_FAILURES and not outcome.alike.any():
                return None
            if len(numbers) > 1:
                pending += np.array_split(numbers, 2)
            elif not results:
                outcome.undefined[numbers] = True
        else:
            outcome.alike[numbers] = _are_alike(len(numbers), results[0], results[1])
    return outcome


def _parted(numbers: NDArray[np.int64], values: NDArray[np.generic]) -> Iterator[NDArray[np.int64]]:
    """Split the sets by the value in which they diverge."""
    order = np.argsort(values, kind="stable")
    ends = np.flatnonzero(np.diff(values[order])) + 1
    yield from np.split(numbers[order], ends)


def _are_alike(
    count: int, olds: Sequence[TypedArray], news: Sequence[TypedArray]
) -> NDArray[np.bool_]:
    alike = np.ones(count, dtype=np.bool_)
    for old, new in zip(olds, news, strict=True):
        wrong = unequal_numbers(_numbers_of(old), _numbers_of(new))
        alike &= ~wrong.reshape(old.shape).any(axis=tuple(range(1, len(old.shape))))
    return alike


MAX_COMBINATIONS: Final = 1 << 12
"""The maximum number of combinations of argument values that are tried one by one."""

_MAX_TEXT: Final = 60

_STEPS_PER_ARGUMENT_ELEMENT: Final = 4

_PRODUCTS_PER_STEP: Final = 1 << 8
"""A step is an element here, and a product of a sum takes less."""


@dataclass(frozen=True)
class Runs:
    """The number of runs in which two functions had the same results."""

    count: int
    is_exhaustive: bool
    """Whether these were all possible arguments, and their results are defined to the bit."""

    note: str = ""
    """Remarks on the runs: the engine, and how closely results were compared."""


def compare_runs(
    sides: tuple[ComparedModule, ComparedModule],
    functions: tuple[FuncOp, FuncOp],
    max_sets: int,
    steps: StepBudget,
) -> Runs:
    """
    Run both functions, whose types mean the same, with the same arguments.

    Raises DifferenceError if results differ, and RunFailure if the first function fails for all
    arguments, or the second one for arguments with which the first one succeeds.
    """
    old, new = functions
    sets = _dealt(functions, max_sets, DEFAULT_MAX_COMBINATIONS)
    # The other half is for running the remaining sets one by one.
    with steps.limited_to_part(2):
        batches = _batches(sides, functions, sets, steps)
    if batches is None:
        sets = _dealt(functions, max_sets, max(max_sets, MAX_COMBINATIONS))
        numbers, count = range(len(sets)), 0
    else:
        numbers, count = batches.unknown, batches.count
    elements = sum(math.prod(assumed_shape(type)) for type in old.function_type.inputs)
    runners = [
        _Runner(side, function, steps) for side, function in zip(sides, functions, strict=True)
    ]
    failure: RunFailure | None = None
    for number in numbers:
        try:
            # Spend steps before the arguments take memory.
            steps.spend(_STEPS_PER_ARGUMENT_ELEMENT * elements)
            arguments = sets[number]
            olds = runners[0].run(arguments)
        except StepLimitError as error:
            failure = failure or RunFailure(str(error), old)
            break
        except (InterpretationError, MemoryLimitError) as error:
            # Where the first function is undefined, the second one may do anything.
            failure = failure or _failure(error, old)
            continue
        try:
            news = runners[1].run(arguments)
        except StepLimitError as error:
            failure = failure or RunFailure(str(error), new)
            break
        except (InterpretationError, MemoryLimitError) as error:
            raise _failure(error, new) from None
        with place(after=arguments_text(number, arguments)):
            require_same_results(olds, news)
        count += 1
    if not count:
        raise failure or RunFailure("no arguments could be made for it", old)
    is_rounded = any(runner.is_rounded for runner in runners)
    return Runs(count, sets.is_exhaustive and count == len(sets) and not is_rounded)


def _dealt(
    functions: tuple[FuncOp, FuncOp], max_sets: int, max_combinations: int
) -> DealtArguments:
    """Arguments for both functions. Raises RunFailure if a type has no values to deal."""
    old = functions[0]
    try:
        return DealtArguments(
            old.function_type,
            interesting=interesting_numbers(functions),
            max_sets=max_sets,
            max_combinations=max_combinations,
        )
    except InterpretationError as error:
        raise RunFailure(str(error), old) from None


def _batches(
    sides: tuple[ComparedModule, ComparedModule],
    functions: tuple[FuncOp, FuncOp],
    sets: DealtArguments,
    steps: StepBudget,
) -> BatchedRuns | None:
    """
    Run both functions in batches if the sets are all combinations; None if that is impossible.
    """
    if not sets.is_exhaustive:
        return None
    needed = [steps_for(*pair, len(sets)) for pair in zip(sides, functions, strict=True)]
    if None in needed or sum(filter(None, needed)) > steps.left:
        return None
    old, new = (
        _Runner(side, function, steps) for side, function in zip(sides, functions, strict=True)
    )
    try:
        return run_batches(sets, (old.run_batch, new.run_batch))
    except StepLimitError:
        return None


def _failure(error: Exception, function: FuncOp) -> RunFailure:
    op = error.op if isinstance(error, OpInterpretationError) else function
    return RunFailure(str(error), op)


def arguments_text(number: int, arguments: Sequence[TypedArray]) -> str:
    """The end of a message: the set of arguments for which results differ."""
    if not arguments:
        return ""
    if sum(argument.elements.size for argument in arguments) <= len(arguments):
        text = ", ".join(map(str, arguments))
        if len(text) <= _MAX_TEXT:
            return f", with {text}"
    return f", with set #{number} of arguments"


def _limit_behind(error: BaseException | None) -> StepLimitError | None:
    """The StepLimitError that an error of the interpreter wraps, if it does."""
    while error is not None and not isinstance(error, StepLimitError):
        error = error.__cause__
    return error


class _StepCounter(Interpreter.Listener):
    """Spends the steps of a run. Raises StepLimitError."""

    def __init__(self, steps: StepBudget) -> None:
        self._steps = steps
        self.has_rounded = False

    @override
    def will_interpret_op(self, op: Operation, args: PythonValues) -> None:
        self._steps.spend(STEPS_PER_REQUEST + _size(args))

    @override
    def did_interpret_op(self, op: Operation, results: PythonValues) -> None:
        self._steps.spend(_size(results))
        self.has_rounded = self.has_rounded or bits_of_op(op) is Bits.ROUNDED


def _size(values: Sequence[Any]) -> int:
    return sum(value.elements.size for value in values if isinstance(value, TypedArray))


class _Runner:
    """Runs one function with any number of sets of arguments."""

    def __init__(self, side: ComparedModule, function: FuncOp, steps: StepBudget) -> None:
        self._side = side
        self._function = function
        self._steps = steps
        self._counter = _StepCounter(steps)
        self._interpreter: ModuleInterpreter | None = None

    @property
    def is_rounded(self) -> bool:
        """Whether an op that was run is defined up to rounding only."""
        return self._counter.has_rounded

    def run(self, arguments: Sequence[TypedArray]) -> tuple[TypedArray, ...]:
        """
        Run the function once. Raises InterpretationError, StepLimitError and MemoryLimitError.
        """
        types = self._function.function_type
        given = tuple(
            TypedArray.of(argument.elements, type)
            for argument, type in zip(arguments, types.inputs.data, strict=True)
        )
        return self._called(given)

    def run_batch(self, arguments: Sequence[TypedArray], count: int) -> list[TypedArray]:
        """Run the function with `count` sets of arguments: see `Run`. Raises as `run` does."""
        types = self._function.function_type
        given = tuple(
            TypedArray.of(argument.elements, at_all_positions(type, argument.shape))
            for argument, type in zip(arguments, types.inputs.data, strict=True)
        )
        results: list[TypedArray] = []
        for result, type in zip(self._called(given), types.outputs.data, strict=True):
            # A result that depends on no argument has no batch axis yet.
            shape = (count, *(shape_of(type) or ()))
            elements = np.broadcast_to(result.elements, shape)
            results.append(TypedArray.of(elements, at_all_positions(type, shape)))
        return results

    def _called(self, given: tuple[TypedArray, ...]) -> tuple[TypedArray, ...]:
        with memory_budget():
            # A failed run leaves an interpreter in the middle of a function: do not reuse it.
            interpreter, self._interpreter = self._interpreter or self._made(), None
            try:
                with work_spent_by(self):
                    results = interpreter.call_op(self._function, given)
            except InterpretationError as error:
                if (limit := _limit_behind(error)) is not None:
                    raise limit from None
                raise
        self._interpreter = interpreter
        types = self._function.function_type.outputs.data
        if len(results) != len(types):
            # It may end in an unknown op, which could be a terminator.
            raise OpInterpretationError(self._function, "does not end in a return")
        return tuple(map(value_of, results, types))

    def spend_products(self, count: int) -> None:
        """Spend the steps for products of a sum. Raises StepLimitError."""
        self._steps.spend(count // _PRODUCTS_PER_STEP)

    def spend_elements(self, count: int) -> None:
        """Nothing: the operands and results of all ops are counted."""

    def _made(self) -> ModuleInterpreter:
        # The counter raises StepLimitError before this limit is reached.
        max_steps = self._steps.left + 1
        interpreter = ModuleInterpreter(self._side.module, self._side.resources, max_steps)
        interpreter.listeners = (self._counter,)
        return interpreter
