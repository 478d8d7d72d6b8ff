"""
The ops of the quant dialect for xDSL's interpreter.

docs/semantics.md defines their meaning.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.interpreter import Interpreter, InterpreterFunctions, PythonValues
from xdsl.ir import Operation
from xdsl.utils.exceptions import InterpretationError

from qdialect.check.interpreters.functions import with_runs
from qdialect.check.interpreters.movements import run_known_op
from qdialect.dialects.quant import Quant
from qdialect.ir.resources import ResourceBlobs


def _run(
    functions: QuantFunctions,
    interpreter: Interpreter,
    op: Operation,
    args: PythonValues,
) -> PythonValues:
    result = run_known_op(interpreter, op, args, functions.resources)
    if result is None:
        raise InterpretationError(f"'{op.name}' is not supported")
    return (result,)


@with_runs(dict.fromkeys(Quant.operations, _run))
@dataclass
class QuantFunctions(InterpreterFunctions):
    """
    Implementations of all ops of the dialect on `TypedArray`s.

    They raise InterpretationError, Refusal, MovementError and VerifyException with the
    reason, but without a location.
    """

    resources: ResourceBlobs = field(default=ResourceBlobs(None))
    """The resources that constants refer to."""
