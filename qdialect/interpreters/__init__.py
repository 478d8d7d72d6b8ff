"""
Running modules on numpy arrays: what the ops of the dialect mean, and those around them.

`run_function` runs a function of a module, `random_arguments` makes values for it to take.
`QuantFunctions` is for xDSL's own interpreter. See docs/semantics.md.
"""

from qdialect.interpreters.interpreter import (
    ModuleInterpreter,
    OpInterpretationError,
    find_function,
    run_function,
)
from qdialect.interpreters.quant import QuantFunctions
from qdialect.interpreters.random_values import random_arguments
from qdialect.interpreters.values import TypedArray

__all__ = [
    "ModuleInterpreter",
    "OpInterpretationError",
    "QuantFunctions",
    "TypedArray",
    "find_function",
    "random_arguments",
    "run_function",
]
