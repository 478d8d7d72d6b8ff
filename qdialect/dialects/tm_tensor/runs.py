"""
Functions that compute ops of torch-mlir without a form in linalg: scans, sorts and scatters.

They write to their last operands, like ops of linalg.
https://github.com/llvm/torch-mlir/blob/main/include/torch-mlir-dialects/Dialect/TMTensor/IR/TMTensorOps.td
"""

from __future__ import annotations

import numpy as np
from xdsl.interpreter import Interpreter
from xdsl.ir import Operation
from xdsl.utils.exceptions import InterpretationError

from qdialect.dialects.arrays.places import (
    indices_of,
    run_sort,
    scattered,
    within,
)
from qdialect.dialects.arrays.reductions import Arrays, Combine, reduce_by_region
from qdialect.dialects.arrays.values import TypedArray, TypedArrays, axis_in, temporary_memory
from qdialect.dialects.tm_tensor.models import is_inclusive
from qdialect.ops.fields import WindowNumbers
from qdialect.ops.interface import integers_of


def scan(interpreter: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    """
    A scan, which combines each element with all elements before it, one at a time.

    An inclusive scan includes the element itself; an exclusive one starts with the accumulator. The
    second result, if there is one, is the last element.
    """
    value, target, accumulator = operands
    axis = axis_in(op, "dimension", value)
    includes_itself = is_inclusive(op)
    kept = value.shape[:axis] + value.shape[axis + 1 :]
    if target.shape != value.shape or accumulator.shape != kept:
        raise InterpretationError("the shapes of its operands do not match")
    count = value.shape[axis]
    if not count:
        return [target, accumulator]

    def scan(combine: Combine, arrays: Arrays, initial: Arrays) -> Arrays:
        (elements,) = (np.moveaxis(array, axis, 0) for array in arrays)
        so_far = [elements[0]] if includes_itself else initial
        with temporary_memory(elements.nbytes):
            scanned = np.empty(elements.shape, elements.dtype)
        scanned[0] = so_far[0]
        for at in range(1, count):
            so_far = combine(so_far, [elements[at if includes_itself else at - 1]])
            scanned[at] = so_far[0]
        return [np.moveaxis(scanned, 0, axis)]

    (scanned,) = reduce_by_region(interpreter, op, [value], [accumulator], scan, is_started=True)
    last = np.take(scanned.elements, count - 1, axis)
    ends = TypedArray.of(last, op.results[1].type) if count > 1 else accumulator
    return [scanned, ends]


def sort(interpreter: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    """A sort, whose region returns whether two neighbours need not be swapped."""
    axis = axis_in(op, "dimension", operands[0])
    return run_sort(interpreter, op, operands, axis, is_strict=False)


def scatter(interpreter: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    """
    Elements are combined in the order of the updates, which are the first axis.

    The others are the last axes of the result. An index counts from its own position in these.
    """
    updates, indices, target = operands
    axes = integers_of(op, "dimension_map")
    rank = len(target.shape)
    first = rank + 1 - len(updates.shape)
    if (
        first < 0
        or not updates.shape
        or indices.shape != (updates.shape[0], len(axes))
        or len(set(axes)) != len(axes)
        or not set(range(first)) <= set(axes) <= set(range(rank))
    ):
        raise InterpretationError("its indices do not match its operands")
    numbers = WindowNumbers(
        windows=range(1, len(updates.shape)),
        dropped=range(first),
        batching=(),
        indices_batching=(),
        starts=axes,
        vector=1,
    )
    places = indices_of(indices)
    sizes = [1] * first + [*updates.shape[1:]]
    if updates.elements.size:
        within(
            tuple(places[:, at] for at in range(len(axes))),
            tuple(target.shape[axis] - sizes[axis] + 1 for axis in axes),
        )

    def scatter(combine: Combine, arrays: Arrays, initial: Arrays) -> Arrays:
        def updated(old: Arrays, new: Arrays) -> Arrays:
            return combine(new, old)

        return scattered(updated, initial, places, arrays, numbers)

    with temporary_memory(8 * target.elements.size):
        return reduce_by_region(interpreter, op, [updates], [target], scatter, is_started=True)
