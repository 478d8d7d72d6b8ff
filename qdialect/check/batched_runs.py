"""
Running elementwise functions on many sets of arguments at once.

Each value has a leading batch axis, one position per set of arguments. If sets diverge, because
control flow depends on them or an op has no result for some, the batch is split and run again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerType, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import InterpretationError

from qdialect.algebra.movement import Shape
from qdialect.check.function_terms import ComparedModule
from qdialect.check.interpreters import DealtArguments, TypedArray
from qdialect.check.interpreters.arith import ELEMENTWISE_OPS
from qdialect.check.interpreters.values import DivergingError
from qdialect.check.step_budget import STEPS_PER_REQUEST
from qdialect.check.typed_values import Numbers
from qdialect.dialects.quant.biases import DequantizeBiasOp
from qdialect.dialects.quant.slot_arrays import Granularity
from qdialect.dialects.quant.storage import StoredType
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.ir.value_types import element_type_or_self, is_static, shape_of
from qdialect.ops.interface import elements_attribute_of, is_cast, name_of
from qdialect.support.memory_budget import MemoryLimitError

Run = Callable[[Sequence[TypedArray], int], Sequence[TypedArray]]
"""
Runs a function with a number of sets of arguments. All values have the batch axis.

Raises InterpretationError, caused by a DivergingError if sets diverge, StepLimitError and
MemoryLimitError.
"""

_CONTROL: Final = frozenset(
    {
        *("cf.br", "cf.cond_br", "func.call", "func.return"),
        *("scf.condition", "scf.for", "scf.if", "scf.index_switch", "scf.while", "scf.yield"),
    }
)
"""Ops that only transfer values and control. If sets diverge there, DivergingError is raised."""

_MAX_FAILURES: Final = 64
"""The maximum number of batches that may fail before the first success."""


def steps_for(side: ComparedModule, function: FuncOp, sets: int) -> int | None:
    """
    The minimum number of steps to run `sets` sets at once; None if a batched run is impossible.

    It is possible if each op of the function and its callees is elementwise: elements at a
    position depend only on the operands' elements at that position.
    """
    found = {function}
    pending = [function]
    steps = 0
    while pending:
        for op in pending.pop().body.walk():
            if not _keeps_positions(op):
                return None
            values = (*op.operands, *op.results)
            elements = sum(math.prod(shape_of(value.type) or ()) for value in values)
            steps += STEPS_PER_REQUEST + sets * elements
            if name_of(op) == "func.call":
                callee = side.effects.callee_of(op)
                if callee is None or callee.is_declaration:
                    return None
                if callee not in found:
                    found.add(callee)
                    pending.append(callee)
    return steps


def _keeps_positions(op: Operation) -> bool:
    if name_of(op) in _CONTROL:
        return True
    if elements_attribute_of(op) is not None and not op.operands:
        return True
    if name_of(op) not in ELEMENTWISE_OPS and not is_cast(op):
        return False
    if isinstance(op, DequantizeBiasOp) and op.axis is not None:
        return False
    shapes = set(
        map(_shape_computed_alone, cast("Sequence[SSAValue]", (*op.operands, *op.results)))
    )
    return len(shapes) == 1 and None not in shapes


def _shape_computed_alone(value: SSAValue) -> tuple[bool, Shape] | None:
    """
    Whether a value is a tensor, and its shape; None if its type does not treat all positions
    alike.
    """
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
    found = BatchedRuns(np.zeros(len(sets), dtype=np.bool_))
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
            if failures > _MAX_FAILURES and not found.alike.any():
                return None
            if len(numbers) > 1:
                pending += np.array_split(numbers, 2)
            elif not results:
                found.undefined[numbers] = True
        else:
            found.alike[numbers] = _are_alike(len(numbers), results[0], results[1])
    return found


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
        wrong = Numbers.of_array(old).differs_from(Numbers.of_array(new))
        alike &= ~wrong.reshape(old.shape).any(axis=tuple(range(1, len(old.shape))))
    return alike
