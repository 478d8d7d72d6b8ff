"""
The ops of CHLO for functions without an op in StableHLO.

https://github.com/openxla/stablehlo/blob/main/docs/generated/chlo.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from xdsl.interpreter import Interpreter
from xdsl.ir import Operation
from xdsl.utils.exceptions import InterpretationError

from qdialect.interpreters.reference.registry import named_run
from qdialect.interpreters.reference.values import (
    Function,
    Numbers,
    all_numbers,
    is_float,
    on_elements,
    rounded,
)
from qdialect.interpreters.scalar_functions import erf, erfc, total_order
from qdialect.interpreters.values import TypedArray
from qdialect.shape_ops.attributes import integer_of


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
    "erfc": erfc,
    "sinh": np.sinh,
    "square": _square,
    "tan": np.tan,
}
"""Functions of floats."""

for _name, _function in _FUNCTIONS.items():
    named_run(f"chlo.{_name}", is_rounded=True)(on_elements(_function, count=1))

named_run("chlo.is_inf", is_rounded=False)(on_elements(np.isinf, count=1))
named_run("chlo.is_neg_inf", is_rounded=False)(on_elements(np.isneginf, count=1))
named_run("chlo.is_pos_inf", is_rounded=False)(on_elements(np.isposinf, count=1))


@named_run("chlo.top_k", is_rounded=False)
def _top_k(_: Interpreter, op: Operation, operands: Sequence[TypedArray]) -> Sequence[TypedArray]:
    """The greatest elements of each row, and their positions; the first of equal ones."""
    (value,) = operands
    count = integer_of(op, "k")
    if not value.shape or not 0 <= count <= value.shape[-1]:
        raise InterpretationError(f"a row has fewer than {count} elements")
    # Reserve memory for the numbers, the keys and their order.
    with all_numbers(value, value, value) as numbers:
        keys = total_order(numbers[0]) if is_float(value) else numbers[0]
        # Invert the bits to reverse the order, since negation can overflow.
        order = np.argsort(~keys, axis=-1, kind="stable")[..., :count]
        taken = TypedArray.of(np.take_along_axis(value.elements, order, -1), op.results[0].type)
        return [taken, rounded(order, op.results[1].type)]
