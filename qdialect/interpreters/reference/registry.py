"""
The functions that run ops by name, for ops of any dialect, registered or not.

They are fields of the models of ops; those of qdialect are here, in one file per dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

import numpy as np
from xdsl.interpreter import Interpreter
from xdsl.ir import Operation
from xdsl.utils.exceptions import InterpretationError

from qdialect.dialects.quant.storage import StoredType
from qdialect.interpreters.values import TypedArray, operands_of
from qdialect.ir.dialect_files import import_dialect_file
from qdialect.ir.value_types import element_type_or_self
from qdialect.ops.model import Bits, add_to_models, model_named

NamedRun = Callable[[Interpreter, Operation, Sequence[TypedArray]], Sequence[TypedArray]]
"""Computes the results of an op. Raises InterpretationError and NotFoldable."""


def named_run(*names: str, is_rounded: bool) -> Callable[[NamedRun], NamedRun]:
    """
    Register a function that computes the ops of these names.

    `is_rounded` says that a compiler's result may differ in the last bits, as it chooses the order
    of sums and the approximation of functions such as exp.
    """

    def register(run: NamedRun) -> NamedRun:
        bits = Bits.ROUNDED if is_rounded else Bits.EXACT
        add_to_models(*names, run=run, bits=bits)
        return run

    return register


def find_run(name: str) -> NamedRun | None:
    """The function for ops of that name, if there is one."""
    import_dialect_file(__package__, name.partition(".")[0])
    return model_named(name).run


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
    return find_run(name) is not None and model_named(name).bits is Bits.ROUNDED


RETURNS: Final = frozenset({"stablehlo.return", "tm_tensor.yield", "tosa.yield"})
"""Terminators that yield the values of a region."""

DIALECTS: Final[Collection[str]] = ("arith", "chlo", "linalg", "stablehlo", "tm_tensor", "tosa")
"""The dialects that have a file in this package."""
