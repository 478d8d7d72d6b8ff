"""
Functions that compute ops of StableHLO on arrays, where one of elements is not enough.

Attributes are parsed from printed text, which is the same for registered and unregistered ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Final

import numpy as np
from xdsl.dialects.builtin import FloatAttr, SymbolRefAttr, TensorType, i1
from xdsl.interpreter import Interpreter
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import InterpretationError

from qdialect.algebra.movement import DYNAMIC
from qdialect.dialects.arrays.elements import (
    Function,
    Numbers,
    all_numbers,
    on_elements,
    rounded,
    run_conversion,
)
from qdialect.dialects.arrays.places import (
    along,
    gathered,
    indices_of,
    run_sort,
    scattered,
)
from qdialect.dialects.arrays.reductions import (
    Arrays,
    Combine,
    pooled,
    reduce_by_region,
    reduced,
)
from qdialect.dialects.arrays.scalar_functions import total_order, truncated
from qdialect.dialects.arrays.values import (
    TypedArray,
    TypedArrays,
    axis_in,
    computed,
    held_type,
    require_possible,
    temporary_memory,
    unsigned,
    value_of,
    width_of,
)
from qdialect.dialects.stablehlo.models import (
    GATHERED,
    comparison_of,
    window_numbers,
    windows_of_pool,
)
from qdialect.ir.value_types import element_type_or_self, shape_of
from qdialect.ops.interface import attribute_of, find_attribute, integer_of, integers_of, name_of
from qdialect.support.float_format import FloatFormat


def compare(interpreter: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    function: Function = getattr(np, comparison_of(op))
    is_total = "TOTALORDER" in str(find_attribute(op, "compare_type"))

    def floats(one: Numbers, other: Numbers) -> Numbers:
        if is_total:
            return function(total_order(one), total_order(other))
        return function(one, other)

    return on_elements(floats, function, truths=function, count=2)(interpreter, op, operands)


def convert(_: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    """A conversion: floats to integers truncate toward zero, all others are casts."""
    return [run_conversion(op, operands, truncated)]


_LAST_PLACE_OF_DOUBLE: Final = -1074


def reduce_precision(interpreter: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    exponent, mantissa = (integer_of(op, f"{name}_bits") for name in ("exponent", "mantissa"))
    if exponent < 2 or mantissa < 1:
        raise InterpretationError(
            f"it keeps {exponent} bits of the exponent and {mantissa} of the significand"
        )
    bias = 2 ** (exponent - 1) - 1
    largest = (2.0 - 2.0**-mantissa) * 2.0**bias
    format = FloatFormat("", exponent, mantissa + 1, _LAST_PLACE_OF_DOUBLE, largest)

    def reduce(numbers: Numbers) -> Numbers:
        nearest = format.round(numbers)
        # There are no subnormal numbers.
        return np.where(np.abs(nearest) < 2.0 ** (1 - bias), 0.0 * numbers, nearest)

    return on_elements(reduce, count=1)(interpreter, op, operands)


def shift(_: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    """A shift; by the width or more, all bits are shifted in."""
    name = name_of(op).removeprefix("stablehlo.shift_")
    width = width_of(held_type(operands[0].element_type))

    def shift(value: TypedArray, by: TypedArray) -> Numbers:
        counts = unsigned(by)
        if name == "right_arithmetic":
            return value.numbers >> np.minimum(counts, np.uint64(width - 1)).astype(np.int64)
        function = np.left_shift if name == "left" else np.right_shift
        shifted = function(unsigned(value), np.minimum(counts, np.uint64(63)))
        return np.where(counts < width, shifted, np.uint64(0))

    return [computed(shift, operands[:2], op.results[0].type)]


def count_bits(_: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    width = width_of(held_type(operands[0].element_type))

    def count(value: TypedArray) -> Numbers:
        bits = unsigned(value)
        if name_of(op) == "stablehlo.popcnt":
            return np.bitwise_count(bits).astype(np.int64)
        for distance in (1, 2, 4, 8, 16, 32):
            bits = bits | bits >> np.uint64(distance)
        return width - np.bitwise_count(bits).astype(np.int64)

    return [computed(count, operands, op.results[0].type)]


def normalize(_: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    axis, epsilon = integer_of(op, "feature_index"), find_attribute(op, "epsilon")
    rank = len(operands[0].shape)
    if not isinstance(epsilon, FloatAttr) or not 0 <= axis < rank:
        raise InterpretationError("its epsilon or its feature axis is missing")
    with all_numbers(*operands) as (numbers, *others):
        scale, offset, mean, variance = (along(array, axis, rank) for array in others)
        normal = (numbers - mean) / np.sqrt(variance + epsilon.value.data)
        return [rounded(normal * scale + offset, op.results[0].type)]


def barrier(_: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    return operands


def iota(_: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    return [_numbered(op, op.results[0].type)]


def _numbered(op: Operation, declared: Attribute) -> TypedArray:
    """The position of each element along the axis of an `iota`."""
    shape = shape_of(declared) or ()
    axis = integer_of(op, "iota_dimension")
    if DYNAMIC in shape or not 0 <= axis < len(shape):
        raise InterpretationError(
            "the axis is out of range of its result, or the shape of the result is not static"
        )
    require_possible(shape)
    with temporary_memory(8 * shape[axis]):
        numbers = along(np.arange(shape[axis]), axis, len(shape))
        return rounded(np.broadcast_to(numbers, shape), declared)


def dynamic_iota(interpreter: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    shape = [int(length) for length in operands[0].numbers]
    return [_numbered(op, TensorType(element_type_or_self(op.results[0].type), shape))]


def get_dimension_size(_: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    length = operands[0].shape[axis_in(op, "dimension", operands[0])]
    return [TypedArray.of_numbers(np.array(length), op.results[0].type)]


def composite(interpreter: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    """The results of the function that is its decomposition."""
    name = attribute_of(op, "decomposition")
    if not isinstance(name, SymbolRefAttr):
        raise InterpretationError("its decomposition is not in the module")
    return _values(interpreter.call_op(name, tuple(operands)), op)


# Reductions


def _halves(
    operands: TypedArrays,
) -> tuple[TypedArrays, TypedArrays]:
    """The values to reduce, and their initial elements."""
    count = len(operands) // 2
    values, initial = operands[:count], operands[count:]
    if not count or len(initial) != count or any(start.shape for start in initial):
        raise InterpretationError("it does not have one initial element for each operand")
    if len({value.shape for value in values}) != 1:
        raise InterpretationError("its operands differ in shape")
    return values, initial


def reduce(interpreter: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    values, initial = _halves(operands)
    axes = integers_of(op, "dimensions")
    shape = values[0].shape
    if len(set(axes)) != len(axes) or not all(0 <= axis < len(shape) for axis in axes):
        raise InterpretationError(f"its dimensions {list(axes)} are not axes of its operands")
    if not all(shape[axis] for axis in axes):
        kept = tuple(n for axis, n in enumerate(shape) if axis not in axes)
        return [
            TypedArray.of(np.broadcast_to(start.elements, kept), result.type)
            for start, result in zip(initial, op.results, strict=True)
        ]

    def reduce(combine: Combine, arrays: Arrays, _: Arrays) -> Arrays:
        return reduced(combine, arrays, axes)

    return reduce_by_region(interpreter, op, values, initial, reduce, is_started=False)


def reduce_window(interpreter: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    values, initial = _halves(operands)
    windows = windows_of_pool(op)

    def reduce(combine: Combine, arrays: Arrays, initial: Arrays) -> Arrays:
        return pooled(combine, arrays, initial, windows)

    return reduce_by_region(interpreter, op, values, initial, reduce, is_started=True)


# Places that are known at run time


def gather(_: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    value, indices = operands
    numbers = window_numbers(op, "dimension_numbers", GATHERED)
    windows = gathered(value.elements, indices_of(indices), numbers, integers_of(op, "slice_sizes"))
    return [TypedArray.of(windows, op.results[0].type)]


def scatter(interpreter: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    """Elements are combined in the order of the updates, which StableHLO leaves open."""
    count = len(operands) // 2
    values, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    fields = (
        "update_window_dims inserted_window_dims input_batching_dims "
        "scatter_indices_batching_dims scatter_dims_to_operand_dims"
    )
    numbers = window_numbers(op, "scatter_dimension_numbers", fields)

    def scatter(combine: Combine, arrays: Arrays, initial: Arrays) -> Arrays:
        return scattered(combine, initial, indices_of(indices), arrays, numbers)

    with temporary_memory(sum(8 * value.elements.size for value in values)):
        return reduce_by_region(interpreter, op, updates, values, scatter, is_started=True)


def sort(interpreter: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    axis = integer_of(op, "dimension") if find_attribute(op, "dimension") is not None else -1
    return run_sort(interpreter, op, operands, axis, is_strict=True)


# Control flow


def _values(values: Sequence[object], op: Operation) -> list[TypedArray]:
    """The values that a region has returned."""
    return [value_of(value, result.type) for value, result in zip(values, op.results, strict=True)]


def repeat(interpreter: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    condition, body = op.regions
    values = tuple(operands)
    while True:
        (goes_on,) = interpreter.run_ssacfg_region(condition, values, name_of(op))
        if not value_of(goes_on, i1):
            return values
        values = tuple(_values(interpreter.run_ssacfg_region(body, values, name_of(op)), op))


def branch(interpreter: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    """Run the selected branch. The last branch of a `case` is the default."""
    is_if = name_of(op) == "stablehlo.if"
    number = int(not operands[0]) if is_if else index(operands[0])
    last = len(op.regions) - 1
    region = op.regions[number if 0 <= number <= last else last]
    return _values(interpreter.run_ssacfg_region(region, (), name_of(op)), op)
