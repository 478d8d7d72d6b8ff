"""Running the functions of a module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.interpreter import (
    Interpreter,
    InterpreterFunctions,
    OpImplResult,
    PythonValues,
)
from xdsl.interpreters.cf import CfFunctions
from xdsl.interpreters.func import FuncFunctions
from xdsl.interpreters.scf import ScfFunctions
from xdsl.ir import Operation
from xdsl.traits import SymbolTable
from xdsl.utils.exceptions import InterpretationError, VerifyException

from qdialect.errors import describe
from qdialect.interpreters.arith import ArithFunctions
from qdialect.interpreters.movements import run_known_op
from qdialect.interpreters.tensor import TensorFunctions
from qdialect.interpreters.values import TypedArray, value_of
from qdialect.movement import MovementError
from qdialect.resources import ResourceBlobs
from qdialect.shape_op_interface import NotFoldable, name_of


class OpInterpretationError(InterpretationError):
    """What an op cannot be run for. The message begins with its name."""

    def __init__(self, op: Operation, reason: str) -> None:
        super().__init__(f"'{name_of(op)}' op {reason}")
        self.op = op


class ModuleInterpreter(Interpreter):
    """
    Runs a module on `TypedArray`s.

    Shape ops, casts and constants of all dialects are run as the shape-op interface reads
    them, registered or not; those of arith and tensor, calls and control flow by functions,
    and what else is registered with `register_implementations`. An op that cannot be run
    raises OpInterpretationError; xDSL would print the whole module into its error.
    """

    def __init__(self, module: ModuleOp, resources: ResourceBlobs) -> None:
        super().__init__(module)
        self._resources = resources
        self._functions: dict[str, tuple[InterpreterFunctions, Any]] = {}
        for functions in (
            FuncFunctions(),
            ScfFunctions(),
            CfFunctions(),
            ArithFunctions(),
            TensorFunctions(),
        ):
            self.register_implementations(functions)

    @override
    def register_implementations(
        self, impls: InterpreterFunctions, /, override: bool = False
    ) -> None:
        super().register_implementations(impls, override=override)
        for op, run in impls._impls():  # pyright: ignore[reportPrivateUsage]
            # There may be several classes of one name: ours, and those that xDSL has.
            self._functions[op.name] = impls, run

    @override
    def _run_op(self, op: Operation, inputs: PythonValues) -> OpImplResult:
        for listener in self.listeners:
            listener.will_interpret_op(op, inputs)
        try:
            result = self._result_of(op, inputs)
        except OpInterpretationError:
            raise
        except (InterpretationError, MovementError, NotFoldable, VerifyException) as error:
            raise OpInterpretationError(op, f"cannot be run: {error}") from error
        except RecursionError:
            raise OpInterpretationError(op, "cannot be run: calls are too deep") from None
        except Exception as error:
            raise OpInterpretationError(op, f"cannot be run: {describe(error)}") from error
        for listener in self.listeners:
            listener.did_interpret_op(op, result.values)
        return result

    def _result_of(self, op: Operation, inputs: PythonValues) -> OpImplResult:
        if (found := self._functions.get(name_of(op))) is not None:
            functions, run = found
            return cast(OpImplResult, run(functions, self, op, inputs))
        known = run_known_op(self, op, inputs, self._resources)
        if known is None:
            raise InterpretationError("nothing says what it does")
        return OpImplResult((known,), None)


def find_function(module: ModuleOp, name: str) -> FuncOp:
    """The function of that name. Raises InterpretationError if there is none with a body."""
    op = SymbolTable.lookup_symbol(module, name)
    if not isinstance(op, FuncOp):
        raise InterpretationError(f"there is no function '{name}'")
    if op.is_declaration:
        raise OpInterpretationError(op, f"'{name}' has no body")
    return op


def run_function(
    module: ModuleOp,
    name: str,
    arguments: Sequence[TypedArray] = (),
    context: Context | None = None,
) -> tuple[TypedArray, ...]:
    """
    What a function of a module returns.

    `context` is the one that the module was read with, if constants have their elements in
    resources. Raises InterpretationError if there is no such function, or it does not take
    these arguments, and OpInterpretationError for an op that cannot be run.
    """
    function = find_function(module, name)
    types = function.function_type
    _check_arguments(function, arguments)
    resources = ResourceBlobs(None) if context is None else ResourceBlobs.of(context)
    results = ModuleInterpreter(module, resources).call_op(function, tuple(arguments))
    return tuple(map(value_of, results, types.outputs))


def _check_arguments(function: FuncOp, arguments: Sequence[TypedArray]) -> None:
    name, declared = function.sym_name.data, function.function_type.inputs.data
    if len(arguments) != len(declared):
        raise OpInterpretationError(
            function, f"'{name}' takes {len(declared)} arguments, and {len(arguments)} are given"
        )
    for number, (argument, type) in enumerate(zip(arguments, declared, strict=True)):
        try:
            is_same = TypedArray.of(argument.elements, type).type == argument.type
            reason = f"it is of type '{argument.type}', not '{type}'"
        except InterpretationError as error:
            is_same, reason = False, str(error)
        if not is_same:
            raise OpInterpretationError(function, f"'{name}' argument #{number}: {reason}")
