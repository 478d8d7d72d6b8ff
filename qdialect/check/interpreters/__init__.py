"""
Running modules on numpy arrays.

`run_function` runs a function of a module. `random_arguments` makes arguments for it from a
seed; `DealtArguments` makes sets of arguments that cover the values of their types.
`QuantFunctions` implements the quant dialect for xDSL's own interpreter. See docs/semantics.md.
"""

from qdialect.check.interpreters.arguments import (
    DealtArguments,
    interesting_numbers,
    random_arguments,
)
from qdialect.check.interpreters.interpreter import (
    ModuleInterpreter,
    OpInterpretationError,
    QuantFunctions,
    find_function,
    run_function,
)
from qdialect.dialects.arrays.values import TypedArray

__all__ = [
    "DealtArguments",
    "ModuleInterpreter",
    "OpInterpretationError",
    "QuantFunctions",
    "TypedArray",
    "find_function",
    "interesting_numbers",
    "random_arguments",
    "run_function",
]
