"""
The elementwise ops of arith and math.

https://mlir.llvm.org/docs/Dialects/ArithOps/. Most have an exactly defined result; the others
are in a table of their own. Float ops compute in double and round once, which is correctly
rounded for formats of at most half the precision of double, and for double itself. A result that
MLIR leaves undefined is an error. A computed NaN has neither a sign nor a payload.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import IntegerAttr
from xdsl.interpreter import Interpreter, InterpreterFunctions, PythonValues
from xdsl.ir import Operation
from xdsl.utils.exceptions import InterpretationError

from qdialect.check.interpreters.functions import Run, with_runs
from qdialect.check.interpreters.memory import Slices, elementwise
from qdialect.check.interpreters.scalar_functions import (
    erf,
    larger,
    larger_number,
    reciprocal_root,
    smaller,
    smaller_number,
)
from qdialect.check.interpreters.values import (
    TypedArray,
    at_all_positions,
    computed,
    held_type,
    operands_of,
    reinterpreted,
    unsigned,
    width_of,
)
from qdialect.ir.elements import integer_range
from qdialect.ir.value_types import element_type_or_self
from qdialect.support.float_format import rounded_half_away

_Numbers = NDArray[Any]
_Function = Callable[..., Any]


def _run(read: Callable[[TypedArray], _Numbers], function: _Function) -> Run:
    """The run of `function`, applied to the numbers that `read` returns for the operands."""

    def compute(*operands: TypedArray) -> _Numbers:
        with np.errstate(all="ignore"):
            return np.asarray(function(*map(read, operands)))

    def run(_: Any, interpreter: Interpreter, op: Operation, args: PythonValues) -> PythonValues:
        return (computed(compute, operands_of(op, args), op.results[0].type),)

    return run


def _on_numbers(function: _Function) -> Run:
    """A run on floats, and on integers as signed."""
    return _run(lambda value: value.numbers, function)


def _on_bits(function: _Function) -> Run:
    """A run on integers as unsigned."""
    return _run(unsigned, function)


def _require(is_defined: _Numbers, otherwise: str) -> None:
    if not np.all(is_defined):
        raise InterpretationError(f"the result is undefined: {otherwise}")


def _dividing(function: _Function) -> _Function:
    def divide(dividend: _Numbers, divisor: _Numbers) -> _Numbers:
        _require(divisor != 0, "division by zero")
        return function(dividend, divisor)

    return divide


def _toward_zero(dividend: _Numbers, divisor: _Numbers) -> _Numbers:
    return (dividend - np.fmod(dividend, divisor)) // divisor


def _upward(dividend: _Numbers, divisor: _Numbers) -> _Numbers:
    quotient = dividend // divisor
    return quotient + (quotient * divisor != dividend)


def _run_shift(read: Callable[[TypedArray], _Numbers], function: _Function) -> Run:
    def shift(shifted: TypedArray, by: TypedArray) -> _Numbers:
        counts = unsigned(by)
        _require(counts < width_of(held_type(by.element_type)), "a shift by the width or more")
        numbers = read(shifted)
        return function(numbers, counts.astype(numbers.dtype))

    def run(_: Any, interpreter: Interpreter, op: Operation, args: PythonValues) -> PythonValues:
        return (computed(shift, operands_of(op, args), op.results[0].type),)

    return run


def _run_truncate(is_signed: bool) -> Run:
    """The conversion of floats to integers, truncating toward zero."""

    def run(_: Any, interpreter: Interpreter, op: Operation, args: PythonValues) -> PythonValues:
        width = width_of(held_type(element_type_or_self(op.results[0].type)))
        least, greatest = integer_range(width, is_signed)

        def truncate(value: TypedArray) -> _Numbers:
            numbers = np.trunc(value.numbers)
            # The maximum of 64 bits is not a double, but the number after it is.
            fits = (numbers >= least) & (numbers < float(greatest + 1))
            _require(fits, "a float is outside the range of the integers")
            return numbers.astype(np.int64 if is_signed else np.uint64)

        return (computed(truncate, operands_of(op, args), op.results[0].type),)

    return run


def _run_bitcast(
    _: Any, interpreter: Interpreter, op: Operation, args: PythonValues
) -> PythonValues:
    (value,) = operands_of(op, args)
    return (reinterpreted(value, op.results[0].type),)


_SIGNED = (np.less, np.less_equal, np.greater, np.greater_equal)
_INTEGER_PREDICATES = (np.equal, np.not_equal, *_SIGNED, *_SIGNED)
_FIRST_UNSIGNED = 6
_FLOAT_PREDICATES = (
    np.equal,
    np.greater,
    np.greater_equal,
    np.less,
    np.less_equal,
    np.not_equal,
)


def _run_compare_integers(
    functions: Any, interpreter: Interpreter, op: arith.CmpiOp, args: PythonValues
) -> PythonValues:
    predicate = cast("IntegerAttr[Any]", op.predicate).value.data
    on = _on_bits if predicate >= _FIRST_UNSIGNED else _on_numbers
    return on(_INTEGER_PREDICATES[predicate])(functions, interpreter, op, args)


def _run_compare_floats(
    functions: Any, interpreter: Interpreter, op: arith.CmpfOp, args: PythonValues
) -> PythonValues:
    predicate = cast("IntegerAttr[Any]", op.predicate).value.data

    def compare(one: _Numbers, other: _Numbers) -> _Numbers:
        unordered = np.isnan(one) | np.isnan(other)
        never = np.zeros_like(unordered)
        ordered = [of(one, other) & ~unordered for of in _FLOAT_PREDICATES]
        or_unordered = [of | unordered for of in ordered]
        return [never, *ordered, ~unordered, *or_unordered, unordered, ~never][predicate]

    return _on_numbers(compare)(functions, interpreter, op, args)


def _run_select(
    _: Any, interpreter: Interpreter, op: arith.SelectOp, args: PythonValues
) -> PythonValues:
    condition, one, other = operands_of(op, args)

    def choose(_: Slices, condition: _Numbers, one: _Numbers, other: _Numbers) -> _Numbers:
        return np.where(condition != 0, one, other)

    arrays = [condition.elements, one.elements, other.elements]
    chosen = elementwise(choose, arrays, one.elements.dtype)
    return (TypedArray.of(chosen, at_all_positions(op.results[0].type, chosen.shape)),)


def _same(numbers: _Numbers) -> _Numbers:
    return numbers


def _numbers(value: TypedArray) -> _Numbers:
    return value.numbers


_RUNS: dict[type[Operation], Run] = {
    arith.AddfOp: _on_numbers(np.add),
    arith.SubfOp: _on_numbers(np.subtract),
    arith.MulfOp: _on_numbers(np.multiply),
    arith.DivfOp: _on_numbers(np.divide),
    arith.NegfOp: _on_numbers(np.negative),
    arith.MaximumfOp: _on_numbers(larger),
    arith.MinimumfOp: _on_numbers(smaller),
    arith.MaxnumfOp: _on_numbers(larger_number),
    arith.MinnumfOp: _on_numbers(smaller_number),
    math.AbsFOp: _on_numbers(np.abs),
    math.CeilOp: _on_numbers(np.ceil),
    math.FloorOp: _on_numbers(np.floor),
    math.RoundEvenOp: _on_numbers(np.rint),
    math.RoundOp: _on_numbers(rounded_half_away),
    math.TruncOp: _on_numbers(np.trunc),
    math.CopySignOp: _on_numbers(np.copysign),
    math.AbsIOp: _on_numbers(np.abs),
    math.SqrtOp: _on_numbers(np.sqrt),
    arith.AddiOp: _on_bits(np.add),
    arith.SubiOp: _on_bits(np.subtract),
    arith.MuliOp: _on_bits(np.multiply),
    arith.AndIOp: _on_bits(np.bitwise_and),
    arith.OrIOp: _on_bits(np.bitwise_or),
    arith.XOrIOp: _on_bits(np.bitwise_xor),
    arith.DivUIOp: _on_bits(_dividing(np.floor_divide)),
    arith.CeilDivUIOp: _on_bits(_dividing(_upward)),
    arith.RemUIOp: _on_bits(_dividing(np.fmod)),
    arith.DivSIOp: _on_numbers(_dividing(_toward_zero)),
    arith.FloorDivSIOp: _on_numbers(_dividing(np.floor_divide)),
    arith.CeilDivSIOp: _on_numbers(_dividing(_upward)),
    arith.RemSIOp: _on_numbers(_dividing(np.fmod)),
    arith.MaxSIOp: _on_numbers(np.maximum),
    arith.MinSIOp: _on_numbers(np.minimum),
    arith.MaxUIOp: _on_bits(np.maximum),
    arith.MinUIOp: _on_bits(np.minimum),
    arith.ShLIOp: _run_shift(unsigned, np.left_shift),
    arith.ShRUIOp: _run_shift(unsigned, np.right_shift),
    arith.ShRSIOp: _run_shift(_numbers, np.right_shift),
    arith.CmpiOp: _run_compare_integers,
    arith.CmpfOp: _run_compare_floats,
    arith.SelectOp: _run_select,
    arith.BitcastOp: _run_bitcast,
    arith.IndexCastOp: _on_numbers(_same),
    arith.SIToFPOp: _on_numbers(_same),
    arith.UIToFPOp: _on_bits(_same),
    arith.FPToSIOp: _run_truncate(is_signed=True),
    arith.FPToUIOp: _run_truncate(is_signed=False),
    arith.ExtFOp: _on_numbers(_same),
    arith.TruncFOp: _on_numbers(_same),
    arith.ExtSIOp: _on_numbers(_same),
    arith.ExtUIOp: _on_bits(_same),
    arith.TruncIOp: _on_bits(_same),
}


def _power(base: _Numbers, exponent: _Numbers) -> _Numbers:
    return np.power(base, exponent.astype(np.float64))


def _multiply_add(one: _Numbers, other: _Numbers, added: _Numbers) -> _Numbers:
    return one * other + added


_ROUNDED_RUNS: dict[type[Operation], Run] = {
    math.AcosOp: _on_numbers(np.arccos),
    math.AcoshOp: _on_numbers(np.arccosh),
    math.AsinOp: _on_numbers(np.arcsin),
    math.AsinhOp: _on_numbers(np.arcsinh),
    math.AtanOp: _on_numbers(np.arctan),
    math.Atan2Op: _on_numbers(np.arctan2),
    math.AtanhOp: _on_numbers(np.arctanh),
    math.CbrtOp: _on_numbers(np.cbrt),
    math.CosOp: _on_numbers(np.cos),
    math.CoshOp: _on_numbers(np.cosh),
    math.ErfOp: _on_numbers(erf),
    math.ExpOp: _on_numbers(np.exp),
    math.Exp2Op: _on_numbers(np.exp2),
    math.ExpM1Op: _on_numbers(np.expm1),
    math.FmaOp: _on_numbers(_multiply_add),
    math.FPowIOp: _on_numbers(_power),
    math.LogOp: _on_numbers(np.log),
    math.Log10Op: _on_numbers(np.log10),
    math.Log1pOp: _on_numbers(np.log1p),
    math.Log2Op: _on_numbers(np.log2),
    math.PowFOp: _on_numbers(_power),
    math.RsqrtOp: _on_numbers(reciprocal_root),
    math.SinOp: _on_numbers(np.sin),
    math.SinhOp: _on_numbers(np.sinh),
    math.TanOp: _on_numbers(np.tan),
    math.TanhOp: _on_numbers(np.tanh),
}
"""Ops whose result MLIR does not define to the last bit."""


ELEMENTWISE_OPS: Final = frozenset(op.name for op in _RUNS)
"""The names of these ops: each element of a result depends on the elements at its position only."""


@with_runs({**_RUNS, **_ROUNDED_RUNS})
class ArithFunctions(InterpreterFunctions):
    """The ops of arith and math on `TypedArray`s. They raise InterpretationError."""
