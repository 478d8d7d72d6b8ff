"""
The ops of CHLO for functions that StableHLO has no op for.

https://github.com/openxla/stablehlo/blob/main/docs/generated/chlo.md.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from qdialect.interpreters.reference.registry import named_run
from qdialect.interpreters.reference.values import Function, Numbers, on_elements
from qdialect.interpreters.scalar_functions import erf


def _square(numbers: Numbers) -> Numbers:
    return numbers * numbers


_FUNCTIONS: Final[dict[str, Function]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "cosh": np.cosh,
    "erf": erf,
    "sinh": np.sinh,
    "square": _square,
    "tan": np.tan,
}
"""Functions of floats."""

for _name, _function in _FUNCTIONS.items():
    named_run(f"chlo.{_name}", is_rounded=True)(on_elements(_function, count=1))
