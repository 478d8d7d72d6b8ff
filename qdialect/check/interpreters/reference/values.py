"""Reading operands as numbers, and rounding numbers to results."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import AnyFloat, IntegerType, Signedness
from xdsl.interpreter import Interpreter
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import InterpretationError

from qdialect.check.interpreters.memory import Slices, elementwise, temporary_memory
from qdialect.check.interpreters.movements import run_cast
from qdialect.check.interpreters.values import (
    TypedArray,
    at_all_positions,
    computed,
    dtype_of,
    elements_of_numbers,
    held_type,
    width_of,
)
from qdialect.ir.elements import has_signedness, integer_range
from qdialect.ir.value_types import element_type_or_self, shape_of

if TYPE_CHECKING:
    # It imports this module.
    from qdialect.check.interpreters.reference.registry import NamedRun

Numbers = NDArray[Any]
Function = Callable[..., Any]


def is_float(value: TypedArray) -> bool:
    """Whether the elements are floats."""
    return isinstance(value.element_type, AnyFloat)


def range_of(type: Attribute) -> tuple[int, int]:
    """The least and the greatest integer of a type. Raises InterpretationError."""
    held = held_type(type)
    is_unsigned = isinstance(held, IntegerType) and has_signedness(held, Signedness.UNSIGNED)
    return integer_range(width_of(held), is_signed=not is_unsigned)


def is_integer(type: Attribute) -> bool:
    """Whether elements of `type` are integers, including i1."""
    return isinstance(type, IntegerType)


def is_truth(type: Attribute) -> bool:
    """Whether elements of `type` are i1."""
    return isinstance(type, IntegerType) and type.bitwidth == 1


def numbers_of(value: TypedArray) -> Numbers:
    """float64 for floats, bool for i1, int64 for other integers."""
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

    def run(_: Interpreter, op: Operation, operands: Sequence[TypedArray]) -> list[TypedArray]:
        values = operands[:count]
        if count is not None and len(values) < count:
            raise InterpretationError(f"it has {len(values)} operands, not {count}")
        _require_one_shape(op, values, broadcasts=broadcasts)
        return [applied((floats, integers, truths), values, op.results[0].type)]

    return run


def applied(
    functions: tuple[Function | None, Function | None, Function | None],
    values: Sequence[TypedArray],
    declared: Attribute,
) -> TypedArray:
    """The function for the type of the last of `values`, applied to their elements."""
    type = values[-1].element_type
    floats, integers, truths = functions
    function = integers
    if isinstance(type, AnyFloat):
        function = floats
    elif is_truth(type):
        function = truths
    if function is None:
        raise InterpretationError(f"elements of type '{type}' are not supported")

    def compute(*pieces: TypedArray) -> Numbers:
        with np.errstate(all="ignore"):
            return np.asarray(function(*map(numbers_of, pieces)))

    return computed(compute, values, declared)


def run_conversion(
    op: Operation,
    operands: Sequence[TypedArray],
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


def _require_one_shape(op: Operation, values: Sequence[TypedArray], *, broadcasts: bool) -> None:
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
