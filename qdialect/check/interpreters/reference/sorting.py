"""Sorting of all rows at once, by any comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import TensorType, i1
from xdsl.interpreter import Interpreter
from xdsl.ir import Operation
from xdsl.utils.exceptions import InterpretationError

from qdialect.check.interpreters.memory import temporary_memory
from qdialect.check.interpreters.reference.values import all_numbers, is_float, rounded
from qdialect.check.interpreters.scalar_functions import total_order
from qdialect.check.interpreters.values import TypedArray, value_of
from qdialect.ops.attributes import integer_of
from qdialect.ops.interface import name_of

Order = NDArray[np.int64]

IsBefore = Callable[[Order, Order], NDArray[np.bool_]]
"""Whether the elements at some positions in rows come before those at others: (rows, count)."""

_ARRAYS = 12
"""The number of temporary arrays of the size of the order."""


def run_sort(
    interpreter: Interpreter,
    op: Operation,
    operands: Sequence[TypedArray],
    axis: int,
    *,
    is_strict: bool,
) -> Sequence[TypedArray]:
    """
    The operands, sorted along `axis` by the region of an op. Equal elements keep their order.

    The region gets two elements of each operand. It returns whether the first ones come before the
    second ones, or, if not `is_strict`, whether they need not be swapped. Raises
    InterpretationError.
    """
    shape = operands[0].shape
    if any(value.shape != shape for value in operands) or not -len(shape) <= axis < len(shape):
        raise InterpretationError("its operands differ in shape, or the axis is out of range")
    (region,) = op.regions
    moved = [np.moveaxis(value.elements, axis, -1) for value in operands]
    count = shape[axis]
    if not operands[0].elements.size:
        return operands
    rows = [of.reshape(-1, count) for of in moved]

    def is_before(one: Order, other: Order) -> NDArray[np.bool_]:
        given: list[TypedArray] = []
        for row, value in zip(rows, operands, strict=True):
            for order in (one, other) if is_strict else (other, one):
                elements = np.take_along_axis(row, order, 1)
                given.append(TypedArray(elements, TensorType(value.element_type, order.shape)))
        (found,) = interpreter.run_ssacfg_region(region, tuple(given), name_of(op))
        return np.broadcast_to((value_of(found, i1).elements != 0) == is_strict, one.shape)

    order = sorted_order(len(rows[0]), count, is_before)
    return [
        TypedArray.of(
            np.moveaxis(np.take_along_axis(row, order, 1).reshape(of.shape), -1, axis), result.type
        )
        for row, of, result in zip(rows, moved, op.results, strict=True)
    ]


def sorted_order(rows: int, count: int, is_before: IsBefore) -> Order:
    """
    The positions of the elements of each row in sorted order: (rows, count).

    The sort is stable. Runs are merged in pairs: the place of each element is found in the other
    run by bisection, for all elements at once.
    """
    with temporary_memory(_ARRAYS * 8 * rows * count):
        order = np.broadcast_to(np.arange(count), (rows, count)).copy()
        width = 1
        while width < count:
            order = _merged(order, width, is_before)
            width *= 2
    return order


def _merged(order: Order, width: int, is_before: IsBefore) -> Order:
    count = order.shape[1]
    own = np.arange(count, dtype=np.int64)
    within = np.remainder(own, 2 * width)
    start, is_left = np.subtract(own, within), np.less(within, width)
    first = np.minimum(np.where(is_left, start + width, start), count)
    last = np.where(is_left, np.minimum(first + width, count), start + width)
    low, high = (np.broadcast_to(of, order.shape) for of in (first, last))
    while (is_open := low < high).any():
        middle = (low + high) // 2
        other = np.take_along_axis(order, np.minimum(middle, count - 1), 1)
        # Of equal elements, those of the left run come first.
        goes_on = np.where(is_left, is_before(other, order), ~is_before(order, other))
        low = np.where(is_open & goes_on, middle + 1, low)
        high = np.where(is_open & ~goes_on, middle, high)
    place = own - np.where(is_left, 0, width) + low - first
    # Two elements may get the same place if the comparison is not an order, as with NaN.
    return np.take_along_axis(order, np.argsort(place, axis=1, kind="stable"), 1)


def top_k(_: Interpreter, op: Operation, operands: Sequence[TypedArray]) -> Sequence[TypedArray]:
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
