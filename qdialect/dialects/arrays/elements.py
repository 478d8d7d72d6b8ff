"""Functions of the elements of values: numbers, casts, and results that are rounded once."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import AnyFloat, IntegerType, Signedness, TensorType, f32, f64, i1
from xdsl.interpreter import Interpreter
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import InterpretationError

from qdialect.dialects.arrays.values import (
    Slices,
    TypedArray,
    TypedArrays,
    at_all_positions,
    computed,
    dequantized,
    dtype_of,
    elements_of_bits,
    elements_of_numbers,
    elementwise,
    held_type,
    is_in_single,
    quantized,
    reinterpreted,
    signed,
    temporary_memory,
    unsigned,
    value_of,
    width_of,
)
from qdialect.dialects.quant.casts import DequantizeBiasOp, rounding_of
from qdialect.dialects.quant.storage import StoredType
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.ir.elements import has_signedness, integer_range
from qdialect.ir.value_types import element_type_or_self, shape_of
from qdialect.ops.fields import CastReads
from qdialect.ops.interface import bits_of_op, cast_reads, name_of, reads_unsigned
from qdialect.ops.model import Bits, OnElements, OnNumbers, imported, model_named
from qdialect.support.float_format import FLOAT_FORMATS
from qdialect.support.memory import registered_cache

Numbers = NDArray[Any]
Function = Callable[..., Any]
Functions = tuple[Function | None, Function | None, Function | None]
"""The functions of floats, of integers, and of truth values."""

NamedRun = Callable[[Interpreter, Operation, TypedArrays], TypedArrays]
"""Computes the results of an op. Raises InterpretationError and Refusal."""


def find_run(name: str) -> NamedRun | None:
    """The function that computes ops of that name, if there is one."""
    return _run_of(model_named(name).run)


@registered_cache
@cache
def _run_of(run: NamedRun | OnElements | OnNumbers | str | None) -> NamedRun | None:
    match run:
        case OnElements():
            floats, integers, truths = functions_of(run)
            return on_elements(
                floats, integers, truths=truths, count=run.arity, broadcasts=run.broadcasts
            )
        case OnNumbers():
            return on_numbers(imported(run.function), is_unsigned=run.is_unsigned)
        case str():
            return imported(run)
        case _:
            return run


def functions_of(run: OnElements) -> Functions:
    """The functions of floats, of integers, and of truth values."""
    floats, integers, truths = (imported(path) if path else None for path in run[:3])
    return floats, integers, truths


def bitcast(_: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    """The same bits, as elements of the type of the result. Raises InterpretationError."""
    return [reinterpreted(operands[0], op.results[0].type)]


def is_float(value: TypedArray) -> bool:
    """Whether the elements are floats."""
    return isinstance(value.element_type, AnyFloat)


def range_of(type: Attribute) -> tuple[int, int]:
    """The least and the greatest integer of a type. Raises InterpretationError."""
    plain = held_type(type)
    is_unsigned = isinstance(plain, IntegerType) and has_signedness(plain, Signedness.UNSIGNED)
    return integer_range(width_of(plain), is_signed=not is_unsigned)


def is_integer(type: Attribute) -> bool:
    """Whether elements of `type` are integers, including i1."""
    return isinstance(type, IntegerType)


def is_truth(type: Attribute) -> bool:
    """Whether elements of `type` are i1."""
    return isinstance(type, IntegerType) and type.bitwidth == 1


def numbers_of(value: TypedArray) -> Numbers:
    """bool for i1; else as in `TypedArray.numbers`."""
    numbers = value.numbers
    return numbers != 0 if is_truth(value.element_type) else numbers


@contextmanager
def all_numbers(*values: TypedArray) -> Generator[list[Numbers]]:
    """The numbers of whole values, with their bytes reserved for the duration of the block."""
    with temporary_memory(sum(8 * value.elements.size for value in values)):
        yield [numbers_of(value) for value in values]


def rounded(numbers: Numbers, declared: Attribute) -> TypedArray:
    """A value of the type `declared` from numbers, each rounded once."""
    type = element_type_or_self(declared)

    def convert(_: Slices, part: Numbers) -> Numbers:
        return elements_of_numbers(part, type)

    elements = elementwise(convert, [np.asarray(numbers)], dtype_of(type))
    return TypedArray.of(elements, at_all_positions(declared, elements.shape))


def on_elements(
    floats: Function | None = None,
    integers: Function | None = None,
    *,
    truths: Function | None = None,
    count: int | None = None,
    broadcasts: bool = False,
) -> NamedRun:
    """
    A run that applies a function of numbers to the elements of the first `count` operands.

    There are separate functions for floats, for integers, and for i1; None if the op does not take
    such elements. Operands must have the same shape, unless `broadcasts` allows axes of length 1,
    or they are scalars.
    """

    def run(_: Interpreter, op: Operation, operands: TypedArrays) -> list[TypedArray]:
        values = operands[:count]
        if count is not None and len(values) < count:
            raise InterpretationError(f"it has {len(values)} operands, not {count}")
        _require_one_shape(op, values, broadcasts=broadcasts)
        return [applied((floats, integers, truths), values, op.results[0].type)]

    return run


def on_numbers(function: Function, *, is_unsigned: bool = False) -> NamedRun:
    """A run that applies a function to the numbers of elements: see `OnNumbers`."""
    read = unsigned if is_unsigned else signed

    def compute(*operands: TypedArray) -> Numbers:
        with np.errstate(all="ignore"):
            return np.asarray(function(*map(read, operands)))

    def compute_singles(*operands: TypedArray) -> Numbers:
        with np.errstate(all="ignore"):
            return np.asarray(
                function(*(operand.elements.view(np.float32) for operand in operands))
            )

    def run(_: Interpreter, op: Operation, operands: TypedArrays) -> list[TypedArray]:
        is_single = rounds_once(op) and all(value.element_type == f32 for value in operands)
        declared = op.results[0].type
        return [computed(compute_singles if is_single else compute, operands, declared)]

    return run


def rounds_once(op: Operation) -> bool:
    """
    Whether float32 gives the same as float64 that is rounded to float32, and is faster.

    A function that rounds once as IEEE 754 says has the same result, as has one that only chooses.
    """
    return all(bits_of_op(inner) is Bits.EXACT for inner in op.walk())


def function_on_arrays(op: Operation) -> Function | None:
    """
    The function of arrays that computes an op on float32 and truth values; None if there is none.

    Its arrays are of float32 and bool, and have the shape of the result, or broadcast to it, unless
    the model says otherwise. The results are those of the run, but for the bits of NaN. It
    can be pickled if the op has no body.
    """
    model = model_named(name_of(op))
    types = {element_type_or_self(value.type) for value in (*op.operands, *op.results)}
    if not types <= {f32, i1} or not (is_in_single() or rounds_once(op)):
        return None
    if model.on_arrays is not None:
        return imported(model.on_arrays)(op)
    match model.run:
        case OnNumbers(is_unsigned=False) if i1 not in types:
            function, count = imported(model.run.function), None
        case OnElements() if i1 not in types and model.run.floats:
            function, count = imported(model.run.floats), model.run.arity
        case _:
            return None
    return partial(_in_single, function, count)


def _in_single(function: Function, count: int | None, *arrays: Numbers) -> Numbers:
    # Some functions compute in double.
    return np.asarray(function(*arrays[:count])).astype(np.float32, copy=False)


def function_for(functions: Functions, type: Attribute) -> Function | None:
    """The function of elements of a type."""
    floats, integers, truths = functions
    if isinstance(type, AnyFloat):
        return floats
    return truths if is_truth(type) else integers


def applied(functions: Functions, values: TypedArrays, declared: Attribute) -> TypedArray:
    """The function for the type of the last of `values`, applied to their elements."""
    type = values[-1].element_type
    function = function_for(functions, type)
    if function is None:
        raise InterpretationError(f"elements of type '{type}' are not supported")

    def compute(*pieces: TypedArray) -> Numbers:
        with np.errstate(all="ignore"):
            return np.asarray(function(*map(numbers_of, pieces)))

    return computed(compute, values, declared)


def run_conversion(
    op: Operation,
    operands: TypedArrays,
    to_integers: Callable[[Numbers, int, int], Numbers],
) -> TypedArray:
    """
    Run a conversion of elements.

    `to_integers` converts floats to integers, from the least to the greatest one. Floats become i1
    by comparison with 0. All other conversions are casts.
    """
    declared = op.results[0].type
    result = element_type_or_self(declared)
    if not is_float(operands[0]) or not is_integer(result):
        return run_cast(op, operands)
    least, greatest = range_of(result)

    def convert(numbers: Numbers) -> Numbers:
        return numbers != 0 if is_truth(result) else to_integers(numbers, least, greatest)

    return applied((convert, None, None), operands, declared)


def _require_one_shape(op: Operation, values: TypedArrays, *, broadcasts: bool) -> None:
    # Use declared shapes: in a vectorized body, values have additional axes.
    shapes = [shape_of(operand.type) or () for operand in op.operands[: len(values)]]
    if broadcasts:
        fits = len({len(shape) for shape in shapes}) <= 1
    else:
        ranked = [value.shape for value, shape in zip(values, shapes, strict=True) if shape]
        fits = len(set(ranked)) <= 1
    if not fits:
        listed = " and ".join(str(list(value.shape)) for value in values)
        raise InterpretationError(f"its operands have the shapes {listed}")


# Casts


def run_cast(op: Operation, args: Sequence[Any]) -> TypedArray:
    """
    The result of a cast of any dialect.

    Raises InterpretationError if the types do not determine it.
    """
    operand, declared = value_of(args[0], op.operands[0].type), op.results[0].type
    if isinstance(op, DequantizeBiasOp):
        return run_bias(op, operand)
    source, result = operand.element_type, element_type_or_self(declared)
    match source, result:
        case UniformQuantizedType(), UniformQuantizedType():
            real = TensorType(source.expressed_type, operand.shape)
            return quantized(dequantized(operand, real), declared, rounding_of(op))
        case (StoredType(), IntegerType()) | (IntegerType(), StoredType()) if (
            not (reads := cast_reads(op)) or CastReads.BITS in reads
        ):
            return reinterpreted(operand, declared)
        case StoredType(), _ if isinstance(result, AnyFloat):
            return dequantized(operand, declared)
        case _, StoredType() if isinstance(source, AnyFloat):
            return quantized(operand, declared)
        case IntegerType(), IntegerType() if result.bitwidth == 1:
            return computed(_is_not_zero, [operand], declared)
        case IntegerType(), _ if isinstance(result, IntegerType | AnyFloat):
            is_unsigned = source.bitwidth == 1 or reads_unsigned(op)
            return computed(unsigned if is_unsigned else signed, [operand], declared)
        case _ if isinstance(source, AnyFloat) and isinstance(result, AnyFloat):
            return computed(signed, [operand], declared)
        case _:
            raise InterpretationError(f"no cast from '{source}' to '{result}' is defined")


def run_bias(op: DequantizeBiasOp, codes: TypedArray) -> TypedArray:
    """The result of a bias: products in double, rounded once more. Raises Refusal."""
    scales, axis = op.scales_of_elements
    if axis is not None:
        # The axes of a batch are before those of the declared type.
        last = len(shape_of(op.input.type) or ()) - 1
        scales = scales.reshape(-1, *(1,) * (last - axis))
    bits = FLOAT_FORMATS[f64.name].encode(np.broadcast_to(scales, codes.shape))
    of_elements = TypedArray.of(elements_of_bits(bits, f64), TensorType(f64, codes.shape))

    def multiply(codes: TypedArray, scales: TypedArray) -> NDArray[np.float64]:
        return codes.numbers.astype(np.float64) * scales.numbers

    return computed(multiply, [codes, of_elements], op.result.type)


def _is_not_zero(value: TypedArray) -> NDArray[Any]:
    return value.numbers != 0
