"""
The functions that run ops by name, for ops of any dialect, registered or not.

They are registered for all contexts, or in the `Runs` of a dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from xdsl.interpreter import Interpreter
from xdsl.ir import Operation
from xdsl.utils.exceptions import InterpretationError

from qdialect.dialects.quant.storage import StoredType
from qdialect.interpreters.values import TypedArray, operands_of
from qdialect.ir.dialect_files import import_dialect_file
from qdialect.ir.op_models import OpModels
from qdialect.ir.value_types import element_type_or_self

NamedRun = Callable[[Interpreter, Operation, Sequence[TypedArray]], Sequence[TypedArray]]
"""Computes the results of an op. Raises InterpretationError and NotFoldable."""


class _Run(NamedTuple):
    function: NamedRun
    is_rounded: bool


class Runs(OpModels[_Run]):
    """The functions that compute the ops of a dialect."""

    package = "qdialect.interpreters.reference"

    def named_run(self, *names: str, is_rounded: bool) -> Callable[[NamedRun], NamedRun]:
        """Like the function `named_run`, for the contexts that load the dialect."""

        def register(run: NamedRun) -> NamedRun:
            self.add(names, _Run(run, is_rounded))
            return run

        return register


_RUNS: Final = Runs()


def named_run(*names: str, is_rounded: bool) -> Callable[[NamedRun], NamedRun]:
    """
    Register a function that computes the ops of these names.

    `is_rounded` says that a compiler's result may differ in the last bits, as it chooses the order
    of sums and the approximation of functions such as exp.
    """
    return _RUNS.named_run(*names, is_rounded=is_rounded)


def runs_of(dialect: str) -> Mapping[str, NamedRun]:
    """The functions for the ops of a dialect that are registered for all contexts, by name."""
    import_dialect_file(Runs.package, dialect)
    runs = _RUNS.by_name.items()
    return {name: run.function for name, run in runs if name.partition(".")[0] == dialect}


def find_run(name: str) -> NamedRun | None:
    """The function for ops of that name, if there is one."""
    found = _RUNS.find(name)
    return None if found is None else found.function


def is_quantized(op: Operation) -> bool:
    """Whether an op has operands or results that are held as storage integers."""
    types = (element_type_or_self(value.type) for value in (*op.operands, *op.results))
    return any(isinstance(type, StoredType) for type in types)


def run_named_op(
    interpreter: Interpreter, op: Operation, args: Sequence[object], run: NamedRun
) -> tuple[TypedArray, ...]:
    """The results of an op. Raises InterpretationError and NotFoldable."""
    if is_quantized(op):
        raise InterpretationError("quantized values are not supported")
    with np.errstate(all="ignore"):
        results = tuple(run(interpreter, op, operands_of(op, args)))
    if len(results) != len(op.results):
        raise InterpretationError(f"it has {len(op.results)} results, not {len(results)}")
    return results


def is_rounded_by_name(name: str) -> bool:
    """Whether the results of the op `name` agree with a compiler's only up to rounding."""
    found = _RUNS.find(name)
    return found is not None and found.is_rounded


RETURNS: Final = frozenset({"stablehlo.return", "tm_tensor.yield", "tosa.yield"})
"""Terminators that yield the values of a region."""

DIALECTS: Final[Collection[str]] = ("arith", "chlo", "linalg", "stablehlo", "tm_tensor", "tosa")
"""The dialects that have a file in this package."""
