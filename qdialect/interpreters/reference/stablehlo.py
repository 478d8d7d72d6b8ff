"""
The ops of StableHLO other than shape ops.

Attributes are read from text, since registered and unregistered ones print the same.
https://openxla.org/stablehlo/spec.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
from xdsl.dialects.builtin import SymbolRefAttr
from xdsl.interpreter import Interpreter
from xdsl.ir import Operation
from xdsl.traits import SymbolTable
from xdsl.utils.exceptions import InterpretationError

from qdialect.algebra.movement import DYNAMIC
from qdialect.algebra.rounding import rounded_half_away
from qdialect.contractions.interface import per_window, positive
from qdialect.interpreters.memory import require_possible, temporary_memory
from qdialect.interpreters.reference.layers import run_layer
from qdialect.interpreters.reference.reductions import (
    Arrays,
    Combine,
    PoolWindow,
    pooled,
    reduce_by_region,
    reduced,
)
from qdialect.interpreters.reference.registry import named_run
from qdialect.interpreters.reference.values import (
    Function,
    Numbers,
    on_elements,
    rounded,
    run_conversion,
)
from qdialect.interpreters.scalar_functions import (
    clamped,
    larger,
    logistic,
    quotient,
    reciprocal_root,
    remainder,
    sign,
    smaller,
)
from qdialect.interpreters.values import TypedArray, value_of
from qdialect.ir.value_types import shape_of
from qdialect.shape_ops.interface import (
    attribute_of,
    find_attribute,
    integer_of,
    integers_of,
)

_ROUNDED: Final[dict[str, Function]] = {
    "cbrt": np.cbrt,
    "cosine": np.cos,
    "exponential": np.exp,
    "exponential_minus_one": np.expm1,
    "log": np.log,
    "log_plus_one": np.log1p,
    "logistic": logistic,
    "rsqrt": reciprocal_root,
    "sine": np.sin,
    "tan": np.tan,
    "tanh": np.tanh,
}
"""Functions of floats whose results are not specified to the last bit."""

for _name, _function in _ROUNDED.items():
    named_run(f"stablehlo.{_name}", is_rounded=True)(on_elements(_function, count=1))
named_run("stablehlo.atan2", is_rounded=True)(on_elements(np.arctan2, count=2))
named_run("stablehlo.power", is_rounded=True)(on_elements(np.power, count=2))


def _clamp(least: Numbers, numbers: Numbers, greatest: Numbers) -> Numbers:
    return clamped(numbers, least, greatest)


_EXACT: Final[dict[str, tuple[int, Function | None, Function | None, Function | None]]] = {
    "abs": (1, np.abs, np.abs, None),
    "add": (2, np.add, np.add, np.logical_or),
    "and": (2, None, np.bitwise_and, np.logical_and),
    "ceil": (1, np.ceil, None, None),
    "clamp": (3, _clamp, _clamp, None),
    "divide": (2, np.divide, quotient, None),
    "floor": (1, np.floor, None, None),
    "is_finite": (1, np.isfinite, None, None),
    "maximum": (2, larger, larger, np.logical_or),
    "minimum": (2, smaller, smaller, np.logical_and),
    "multiply": (2, np.multiply, np.multiply, np.logical_and),
    "negate": (1, np.negative, np.negative, None),
    "not": (1, None, np.invert, np.logical_not),
    "or": (2, None, np.bitwise_or, np.logical_or),
    "remainder": (2, np.fmod, remainder, None),
    "round_nearest_afz": (1, rounded_half_away, None, None),
    "round_nearest_even": (1, np.rint, None, None),
    "select": (3, np.where, np.where, np.where),
    "sign": (1, sign, np.sign, None),
    "sqrt": (1, np.sqrt, None, None),
    "subtract": (2, np.subtract, np.subtract, None),
    "xor": (2, None, np.bitwise_xor, np.logical_xor),
}
"""For each op, the number of operands it reads, and its functions of floats, integers and i1."""

for _name, (_count, _floats, _integers, _truths) in _EXACT.items():
    named_run(f"stablehlo.{_name}", is_rounded=False)(
        on_elements(_floats, _integers, truths=_truths, count=_count)
    )


_COMPARISONS: Final[dict[str, Function]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "GE": np.greater_equal,
    "GT": np.greater,
    "LE": np.less_equal,
    "LT": np.less,
}


@named_run("stablehlo.compare", is_rounded=False)
def _compare(
    interpreter: Interpreter, op: Operation, operands: Sequence[TypedArray]
) -> Sequence[TypedArray]:
    text = str(attribute_of(op, "comparison_direction"))
    found = re.search(r"\b(EQ|NE|GE|GT|LE|LT)\b", text)
    if found is None or "TOTALORDER" in str(find_attribute(op, "compare_type")):
        raise InterpretationError("its order is not understood")
    function = _COMPARISONS[found[1]]
    return on_elements(function, function, truths=function, count=2)(interpreter, op, operands)


@named_run("stablehlo.convert", is_rounded=False)
def _convert(_: Interpreter, op: Operation, operands: Sequence[TypedArray]) -> Sequence[TypedArray]:
    """A conversion: floats to integers truncate toward zero, all others are casts."""

    def truncate(numbers: Numbers, least: int, greatest: int) -> Numbers:
        cut = np.trunc(numbers)
        # The greatest 64-bit integer is not a double, but the number after it is.
        if not np.all((cut >= least) & (cut < float(greatest + 1))):
            raise InterpretationError(
                "the result is undefined: a float is outside the range of the integers"
            )
        return cut.astype(np.int64 if least else np.uint64)

    return [run_conversion(op, operands, truncate)]


@named_run("stablehlo.optimization_barrier", is_rounded=False)
def _barrier(_: Interpreter, op: Operation, operands: Sequence[TypedArray]) -> Sequence[TypedArray]:
    return operands


@named_run("stablehlo.iota", is_rounded=False)
def _iota(_: Interpreter, op: Operation, operands: Sequence[TypedArray]) -> Sequence[TypedArray]:
    declared = op.results[0].type
    shape = shape_of(declared) or ()
    axis = integer_of(op, "iota_dimension")
    if DYNAMIC in shape or not 0 <= axis < len(shape):
        raise InterpretationError("its result has no such axis, or no static shape")
    require_possible(shape)
    line = [1] * len(shape)
    line[axis] = shape[axis]
    with temporary_memory(8 * shape[axis]):
        numbers = np.arange(shape[axis]).reshape(line)
        return [rounded(np.broadcast_to(numbers, shape), declared)]


@named_run("stablehlo.composite", is_rounded=True)
def _composite(
    interpreter: Interpreter, op: Operation, operands: Sequence[TypedArray]
) -> Sequence[TypedArray]:
    """The results of the function that is its decomposition."""
    name = attribute_of(op, "decomposition")
    function = (
        SymbolTable.lookup_symbol(interpreter.module, name)
        if isinstance(name, SymbolRefAttr)
        else None
    )
    if function is None:
        raise InterpretationError("its decomposition is not there")
    made = interpreter.call_op(function, tuple(operands))
    return [value_of(value, result.type) for value, result in zip(made, op.results, strict=True)]


@named_run("stablehlo.dot", "stablehlo.dot_general", "stablehlo.convolution", is_rounded=True)
def _layer(
    interpreter: Interpreter, op: Operation, operands: Sequence[TypedArray]
) -> Sequence[TypedArray]:
    return run_layer(interpreter, op, operands)


# Reductions


def _halves(
    operands: Sequence[TypedArray],
) -> tuple[Sequence[TypedArray], Sequence[TypedArray]]:
    """The values to reduce, and their initial elements."""
    count = len(operands) // 2
    values, initial = operands[:count], operands[count:]
    if not count or len(initial) != count or any(of.shape for of in initial):
        raise InterpretationError("it has not one initial element for each operand")
    if len({value.shape for value in values}) != 1:
        raise InterpretationError("its operands differ in shape")
    return values, initial


@named_run("stablehlo.reduce", is_rounded=True)
def _reduce(
    interpreter: Interpreter, op: Operation, operands: Sequence[TypedArray]
) -> Sequence[TypedArray]:
    values, initial = _halves(operands)
    axes = integers_of(op, "dimensions")
    shape = values[0].shape
    if len(set(axes)) != len(axes) or not all(0 <= axis < len(shape) for axis in axes):
        raise InterpretationError(f"its dimensions {list(axes)} are not axes of its operands")
    if not all(shape[axis] for axis in axes):
        kept = tuple(n for axis, n in enumerate(shape) if axis not in axes)
        return [
            TypedArray.of(np.broadcast_to(of.elements, kept), result.type)
            for of, result in zip(initial, op.results, strict=True)
        ]

    def reduce(combine: Combine, arrays: Arrays, _: Arrays) -> Arrays:
        return reduced(combine, arrays, axes)

    return reduce_by_region(interpreter, op, values, initial, reduce, is_started=False)


@named_run("stablehlo.reduce_window", is_rounded=True)
def _reduce_window(
    interpreter: Interpreter, op: Operation, operands: Sequence[TypedArray]
) -> Sequence[TypedArray]:
    values, initial = _halves(operands)
    count = len(values[0].shape)
    pads = per_window(op, "padding", 2 * count, default=0)
    lists = (
        positive(op, "window_dimensions", count),
        positive(op, "window_strides", count, default=1),
        positive(op, "window_dilations", count, default=1),
        positive(op, "base_dilations", count, default=1),
        pads[::2],
        pads[1::2],
    )
    windows = [PoolWindow(*of) for of in zip(*lists, strict=True)]

    def reduce(combine: Combine, arrays: Arrays, initial: Arrays) -> Arrays:
        return pooled(combine, arrays, initial, windows)

    return reduce_by_region(interpreter, op, values, initial, reduce, is_started=True)
