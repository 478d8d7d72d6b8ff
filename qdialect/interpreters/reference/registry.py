"""Which function computes an op of a name, for ops of any dialect, registered or not."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Final, TypeVar

import numpy as np
from xdsl.interpreter import Interpreter
from xdsl.ir import Operation
from xdsl.utils.exceptions import InterpretationError

from qdialect.algebra.bounded_cache import registered_cache
from qdialect.dialects.quant.types import StoredType
from qdialect.interpreters.values import TypedArray, operands_of
from qdialect.ir.value_types import element_type_or_self

NamedRun = Callable[[Interpreter, Operation, Sequence[TypedArray]], Sequence[TypedArray]]
"""Computes the results of an op. Raises InterpretationError and NotFoldable."""

_RUNS: Final[dict[str, NamedRun]] = {}
_ROUNDED: Final[set[str]] = set()

RunT = TypeVar("RunT", bound=NamedRun)


def named_run(*names: str, is_rounded: bool) -> Callable[[RunT], RunT]:
    """
    Register a function that computes the ops of these names.

    `is_rounded` says that a compiler's result may differ in the last digits: the order of sums,
    or a function such as exp, is its own choice.
    """

    def register(run: RunT) -> RunT:
        _RUNS.update(dict.fromkeys(names, run))
        if is_rounded:
            _ROUNDED.update(names)
        return run

    return register


def runs_of(dialect: str) -> Mapping[str, NamedRun]:
    """The functions for the ops of a dialect that come with qdialect, by name."""
    _load(dialect)
    return {name: run for name, run in _RUNS.items() if name.partition(".")[0] == dialect}


def find_run(name: str) -> NamedRun | None:
    """The function for ops of that name, if there is one."""
    _load(name.partition(".")[0])
    return _RUNS.get(name)


def is_quantized(op: Operation) -> bool:
    """Whether an op has operands or results that are held as storage integers."""
    types = (element_type_or_self(value.type) for value in (*op.operands, *op.results))
    return any(isinstance(type, StoredType) for type in types)


def run_named_op(
    interpreter: Interpreter, op: Operation, args: Sequence[object], run: NamedRun
) -> tuple[TypedArray, ...]:
    """The results of an op. Raises InterpretationError and NotFoldable."""
    if is_quantized(op):
        raise InterpretationError("it is not computed on quantized values")
    with np.errstate(all="ignore"):
        results = tuple(run(interpreter, op, operands_of(op, args)))
    if len(results) != len(op.results):
        raise InterpretationError(f"it has {len(op.results)} results, not {len(results)}")
    return results


def is_rounded_by_name(name: str) -> bool:
    """Whether results of ops of that name agree with a compiler's up to rounding only."""
    _load(name.partition(".")[0])
    return name in _ROUNDED


@registered_cache
@cache
def _load(dialect: str) -> None:
    """Import the functions that come with qdialect for `dialect`, if there are any."""
    module = f"{__package__}.{dialect}"
    if dialect in DIALECTS and find_spec(module) is not None:
        import_module(module)


RETURNS: Final = frozenset({"stablehlo.return", "tosa.yield"})
"""Ops that end a region, and give it its values."""

DIALECTS: Final[Collection[str]] = ("arith", "chlo", "linalg", "stablehlo", "tosa")
"""The dialects that this package has a file for."""
