"""
The functions that run ops by name, for ops of any dialect, registered or not.

They are fields of the models of ops; those of qdialect are here, in one file per dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from xdsl.interpreter import Interpreter
from xdsl.ir import Operation
from xdsl.utils.exceptions import InterpretationError

from qdialect.check.interpreters.reference.values import on_elements
from qdialect.check.interpreters.values import TypedArray, operands_of
from qdialect.dialects.quant.storage import StoredType
from qdialect.ir.dialect_files import import_dialect_file
from qdialect.ir.value_types import element_type_or_self
from qdialect.ops.model import Bits, OnElements, add_to_models, model_named
from qdialect.support.memory import registered_cache

NamedRun = Callable[[Interpreter, Operation, Sequence[TypedArray]], Sequence[TypedArray]]
"""Computes the results of an op. Raises InterpretationError and Refusal."""


def named_run(*names: str, is_rounded: bool) -> Callable[[NamedRun], NamedRun]:
    """
    Register a function that computes the ops of these names.

    `is_rounded` says that a compiler's result may differ in the last bits, as it chooses the order
    of sums and the approximation of functions such as exp.
    """

    def register(run: NamedRun) -> NamedRun:
        add_to_models(*names, run=run, **({"bits": Bits.ROUNDED} if is_rounded else {}))
        return run

    return register


def find_run(name: str) -> NamedRun | None:
    """The function for ops of that name, if there is one."""
    import_dialect_file(__package__, name.partition(".")[0])
    return _run_of(model_named(name).run)


@registered_cache
@cache
def _run_of(run: NamedRun | OnElements | str | None) -> NamedRun | None:
    if isinstance(run, OnElements):
        functions = [_imported(path) if path else None for path in run[:3]]
        floats, integers, truths = functions
        return on_elements(
            floats, integers, truths=truths, count=run.arity, broadcasts=run.broadcasts
        )
    return _imported(run) if isinstance(run, str) else run


def _imported(path: str) -> Any:
    module, _, function = path.partition(":")
    return getattr(import_module(module), function)


def is_quantized(op: Operation) -> bool:
    """Whether an op has operands or results that are held as storage integers."""
    types = (element_type_or_self(value.type) for value in (*op.operands, *op.results))
    return any(isinstance(type, StoredType) for type in types)


def run_named_op(
    interpreter: Interpreter, op: Operation, args: Sequence[object], run: NamedRun
) -> tuple[TypedArray, ...]:
    """The results of an op. Raises InterpretationError and Refusal."""
    if is_quantized(op):
        raise InterpretationError("quantized values are not supported")
    with np.errstate(all="ignore"):
        results = tuple(run(interpreter, op, operands_of(op, args)))
    if len(results) != len(op.results):
        raise InterpretationError(f"it has {len(op.results)} results, not {len(results)}")
    return results
