"""Functions that compute ops of TOSA on arrays, where one of elements is not enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.interpreter import Interpreter
from xdsl.ir import Operation
from xdsl.utils.exceptions import InterpretationError

from qdialect.dialects.arrays.elements import (
    Function,
    Numbers,
    all_numbers,
    is_float,
    on_elements,
    range_of,
    rounded,
    run_conversion,
)
from qdialect.dialects.arrays.places import within
from qdialect.dialects.arrays.reductions import (
    pooled,
    read_reduction,
    reduced,
)
from qdialect.dialects.arrays.scalar_functions import (
    larger,
    larger_number,
    smaller,
    smaller_number,
)
from qdialect.dialects.arrays.values import (
    TypedArray,
    TypedArrays,
    allocated,
    axis_in,
    temporary_memory,
    unsigned,
)
from qdialect.dialects.tosa.models import ignores_nan
from qdialect.ir.value_types import element_type_or_self
from qdialect.ops.interface import find_attribute, name_of

_FIRST_OF: Final = {
    False: {"max": larger, "min": smaller},
    True: {"max": larger_number, "min": smaller_number},
}
"""The functions of two numbers, by whether they ignore NaN."""


def extreme(interpreter: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    function = _FIRST_OF[ignores_nan(op)][name_of(op)[len("tosa.") :][:3]]
    return on_elements(function, function, count=2, broadcasts=True)(interpreter, op, operands)


def clamp(interpreter: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    function = clamping(op)
    return on_elements(function, function, count=1)(interpreter, op, operands)


def clamping(op: Operation) -> Function:
    """The function of an array of numbers that a clamp computes."""
    ends = (_number_of(op, name) for name in ("min_val", "max_val"))
    return partial(_clamped, _FIRST_OF[ignores_nan(op)], *ends)


def _clamped(
    functions: Mapping[str, Function], least: float, greatest: float, numbers: Numbers
) -> Numbers:
    low, high = (np.asarray(bound, dtype=numbers.dtype) for bound in (least, greatest))
    return functions["min"](functions["max"](numbers, low), high)


def _number_of(op: Operation, name: str) -> float | int:
    attribute = find_attribute(op, name)
    if not isinstance(attribute, FloatAttr | IntegerAttr):
        raise InterpretationError(f"'{name}' is not a number")
    return cast("FloatAttr[Any] | IntegerAttr[Any]", attribute).value.data


def mul(interpreter: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    if len(operands) > 2 and operands[2].numbers.any():
        raise InterpretationError("its shift is not 0")
    return on_elements(np.multiply, np.multiply, count=2, broadcasts=True)(
        interpreter, op, operands
    )


def negate(interpreter: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    if any(point.numbers.any() for point in operands[1:]):
        raise InterpretationError("its zero points are not 0")
    return on_elements(np.negative, count=1)(interpreter, op, operands)


def conversion(_: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    """A conversion: floats to integers round half to even and saturate, all others are casts."""

    def nearest_code(numbers: Numbers, least: int, greatest: int) -> Numbers:
        if np.isnan(numbers).any():
            raise InterpretationError("the result is undefined: NaN is not an integer")
        nearest = np.rint(numbers)
        # The greatest 64-bit integer is not a double.
        inside = np.clip(nearest, least, np.nextafter(float(greatest + 1), 0)).astype(np.int64)
        return np.where(nearest >= greatest, greatest, inside)

    return [run_conversion(op, operands, nearest_code)]


# Reductions


def reduce(_: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    combine, _windows = read_reduction(op)
    axis = axis_in(op, "axis", operands[0])
    if not operands[0].shape[axis]:
        raise InterpretationError("it reduces an axis of length 0")
    with all_numbers(operands[0]) as numbers:
        (totals,) = reduced(combine, numbers, [axis])
        return [rounded(np.expand_dims(totals, axis), op.results[0].type)]


def argmax(_: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    axis = axis_in(op, "axis", operands[0])
    if not operands[0].shape[axis]:
        raise InterpretationError("it searches an axis of length 0")
    with all_numbers(operands[0]) as (numbers,):
        if name_of(op) == "tosa.argmin":
            numbers = -numbers
        if is_float(operands[0]) and ignores_nan(op):
            # NaN is less than all numbers. If all are NaN, the first one is the result.
            indices = np.argmax(np.where(np.isnan(numbers), -np.inf, numbers), axis)
        else:
            indices = np.argmax(numbers, axis)
        return [rounded(indices, op.results[0].type)]


def scatter(_: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    """Replace rows of the first operand by those of the third; of several for one row, the last."""
    values, indices, rows = operands
    if [len(value.shape) for value in operands] != [3, 2, 3] or indices.shape != rows.shape[:2]:
        raise InterpretationError("its indices do not match its operands")
    with temporary_memory(8 * indices.elements.size):
        (places,) = within((indices.numbers,), values.shape[1:2])
        copy = allocated(values.elements.copy, values.elements.nbytes)
        copy[np.arange(len(copy))[:, None], places] = rows.elements
    return [TypedArray.of(copy, op.results[0].type)]


# Integers


def rescale(_: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    """
    `((value - zero) * m + half) >> shift`, and the other zero: with a single rounding.

    https://www.mlplatform.org/tosa/tosa_spec.html#_rescale
    """
    if "SINGLE_ROUND" not in str(find_attribute(op, "rounding_mode")):
        raise InterpretationError("it is run only with one rounding")
    flags = [find_attribute(op, name) for name in ("input_unsigned", "output_unsigned")]
    of_input, of_output = (isinstance(flag, IntegerAttr) and flag.value.data for flag in flags)
    value, m, shift, first, last = (operand.numbers for operand in operands)
    type = element_type_or_self(op.results[0].type)
    if of_input:
        value, first = (unsigned(operands[at]).astype(np.int64) for at in (0, 3))
    if of_output:
        last = unsigned(operands[4]).astype(np.int64)
    if operands[0].elements.dtype.itemsize > 4 or (shift < 2).any() or (shift > 62).any():
        raise InterpretationError("it shifts by less than 2 bits, or rescales more than 32")
    with temporary_memory(8 * value.nbytes):
        scaled = ((value - first) * m + (np.int64(1) << (shift - 1))) >> shift
        # More than 32 bits are not defined: compilers drop them.
        codes = scaled.astype(np.int32).astype(np.int64) + last
        low, high = range_of(type)
        if of_output:
            low, high = 0, high - low
        return [rounded(codes.clip(low, high), op.results[0].type)]


def table(_: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    """The elements of a table of 256 entries, of which -128 reads the first."""
    places, entries = operands
    if entries.shape != (256,) or places.elements.dtype != np.int8:
        raise InterpretationError("it is run only on integers of 8 bits")
    codes = entries.elements[places.numbers + 128]
    return [TypedArray.of(codes, op.results[0].type)]


# Pooling


def _image(operands: TypedArrays) -> TypedArray:
    if len(operands[0].shape) != 4:
        raise InterpretationError(f"its operand has rank {len(operands[0].shape)}, not 4")
    return operands[0]


def max_pool(_: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    image = _image(operands)
    least: Any = -np.inf
    if not is_float(image):
        least = range_of(image.element_type)[0]
    combine, windows = read_reduction(op)
    with all_numbers(image) as numbers:
        initial = np.asarray(least, dtype=numbers[0].dtype)
        (pools,) = pooled(combine, numbers, [initial], windows)
        return [rounded(pools, op.results[0].type)]


def average_pool(_: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    """The mean of the elements in each window; padding does not count."""
    image = _image(operands)
    add, windows = read_reduction(op)
    if not is_float(image) or any(point.numbers.any() for point in operands[1:]):
        raise InterpretationError("it is supported only on floats with zero points of 0")
    zero = [np.zeros(())]
    with all_numbers(image) as numbers:
        (total,) = pooled(add, numbers, zero, windows)
        (count,) = pooled(add, [np.ones((1, *image.shape[1:3], 1))], zero, windows)
        with np.errstate(all="ignore"), temporary_memory(total.nbytes):
            return [rounded(total / count, op.results[0].type)]


def resize(_: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    image, *lists = operands
    shape, is_bilinear = _image(operands).shape, _is_bilinear(op)
    places = _places_of([value.numbers.reshape(-1) for value in lists], shape)
    with all_numbers(image) as (numbers,):
        for axis in (1, 2):
            numbers = _resized(numbers, axis, places[axis - 1], is_bilinear=is_bilinear)
        return [rounded(numbers, op.results[0].type)]


def resized_factors(
    op: Operation, shape: Sequence[int], lists: Sequence[NDArray[Any]]
) -> Mapping[int, NDArray[np.float64]]:
    """The factors of elements along the axes of an image, with a row for each of the result."""
    factors, is_bilinear = dict[int, NDArray[np.float64]](), _is_bilinear(op)
    for axis, places in enumerate(_places_of(lists, shape), start=1):
        rows = np.eye(shape[axis]).reshape(1, shape[axis], shape[axis], 1)
        factors[axis] = _resized(rows, 1, places, is_bilinear=is_bilinear)[0, :, :, 0]
    return factors


def _is_bilinear(op: Operation) -> bool:
    mode = str(find_attribute(op, "mode"))
    if "BILINEAR" not in mode and "NEAREST" not in mode:
        raise InterpretationError(f"its mode {mode} is not supported")
    return "BILINEAR" in mode


def _places_of(lists: Sequence[NDArray[Any]], shape: Sequence[int]) -> Sequence[_Places]:
    """The positions along both axes, by the scale, the offset and the border."""
    if [numbers.size for numbers in lists] != [4, 2, 2]:
        raise InterpretationError("its scale, offset and border are not of two axes")
    scale, offset, border = (list(map(int, numbers)) for numbers in lists)
    pairs = zip(shape[1:3], scale[::2], scale[1::2], offset, border, strict=True)
    return [_places(*numbers) for numbers in pairs]


_BYTES_OF_PLACE: Final = 48
"""The bytes per position: its index, the two that it reads, and temporary ones."""


class _Places(NamedTuple):
    """The positions along an axis that a resized image reads, in steps of 1 / `above`."""

    above: int
    before: NDArray[np.int64]
    after: NDArray[np.int64]
    rest: NDArray[np.int64]
    """How many steps each position is behind `before`."""


def _places(length: int, above: int, below: int, offset: int, border: int) -> _Places:
    if length < 1 or above < 1 or below < 1:
        raise InterpretationError("its scale, or an axis of its operand, is not positive")
    reach = (length - 1) * above - offset + border
    if reach < 0 or reach % below:
        raise InterpretationError("its scale, offset and border do not give a whole length")
    count = reach // below + 1
    with temporary_memory(_BYTES_OF_PLACE * count):
        before, rest = np.divmod(np.arange(count) * below + offset, above)
        ends = (before.clip(0, length - 1), (before + 1).clip(0, length - 1))
        return _Places(above, *ends, rest)


def _resized(numbers: Numbers, axis: int, places: _Places, *, is_bilinear: bool) -> Numbers:
    size = numbers.size // numbers.shape[axis] * len(places.rest)
    with temporary_memory(_ARRAYS_OF_RESIZE * 8 * size):
        if is_bilinear:
            return _between(numbers, axis, places)
        nearest = np.where(2 * places.rest >= places.above, places.after, places.before)
        return numbers.take(nearest, axis)


_ARRAYS_OF_RESIZE: Final = 4
"""The two arrays that are read, and their products."""


def _between(numbers: Numbers, axis: int, places: _Places) -> Numbers:
    shape = [1, 1, 1, 1]
    shape[axis] = len(places.rest)
    rest = places.rest.reshape(shape)
    weights = places.above - rest, rest
    if numbers.dtype.kind == "f":
        weights = weights[0] / places.above, weights[1] / places.above
    return (
        numbers.take(places.before, axis) * weights[0]
        + numbers.take(places.after, axis) * weights[1]
    )
