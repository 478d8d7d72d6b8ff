"""Adding a table of op implementations to xDSL's interpreter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from xdsl.interpreter import Interpreter, InterpreterFunctions, PythonValues, impl, register_impls
from xdsl.ir import Operation

Run = Callable[[Any, Interpreter, Any, PythonValues], PythonValues]
"""A method of an InterpreterFunctions class: computes the results of an op from its operands."""

FunctionsT = TypeVar("FunctionsT", bound=InterpreterFunctions)


def with_runs(
    runs: Mapping[type[Operation], Run],
) -> Callable[[type[FunctionsT]], type[FunctionsT]]:
    """A decorator that adds `runs` to a class as methods, and registers the class."""

    def register(functions: type[FunctionsT]) -> type[FunctionsT]:
        for op, run in runs.items():
            setattr(functions, f"run_{op.name.replace('.', '_')}", impl(op)(run))
        return register_impls(functions)

    return register
