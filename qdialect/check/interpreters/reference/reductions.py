"""Reductions along axes or in windows, by a function of two numbers or by a region."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from xdsl.interpreter import Interpreter
from xdsl.ir import Block, Operation, Region
from xdsl.utils.exceptions import InterpretationError

from qdialect.algebra.movement import Shape
from qdialect.check.interpreters.memory import require_possible, temporary_memory
from qdialect.check.interpreters.reference.products import padded, window_count
from qdialect.check.interpreters.reference.values import all_numbers, numbers_of, rounded
from qdialect.check.interpreters.scalar_functions import (
    larger,
    larger_number,
    smaller,
    smaller_number,
)
from qdialect.check.interpreters.values import TypedArray, at_all_positions, value_of
from qdialect.check.interpreters.work import spend_elements, spend_products
from qdialect.ops.interface import name_of

Arrays = list[NDArray[Any]]
Combine = Callable[[Arrays, Arrays], Arrays]
"""Combines the elements of two lists of arrays, position by position."""


def combined_by(function: Callable[..., NDArray[Any]]) -> Combine:
    """The combination of single arrays by a function of two numbers."""

    def combine(one: Arrays, other: Arrays) -> Arrays:
        with np.errstate(all="ignore"):
            return [np.asarray(function(*pair)) for pair in zip(one, other, strict=True)]

    return combine


def reduced(combine: Combine, arrays: Arrays, axes: Sequence[int]) -> Arrays:
    """
    The reduction of axes that are not empty, by combining halves.

    The order depends on lengths only, not on the layout in memory.
    """
    kept = [axis for axis in range(arrays[0].ndim) if axis not in axes]
    shape = tuple(arrays[0].shape[axis] for axis in kept)
    count = math.prod(arrays[0].shape[axis] for axis in axes)
    spend_elements(arrays[0].size)
    with temporary_memory(2 * sum(array.nbytes for array in arrays)):
        arrays = [array.transpose([*axes, *kept]).reshape((count, *shape)) for array in arrays]
        while count > 1:
            half = count // 2
            halves = combine(
                [array[:half] for array in arrays], [array[half : 2 * half] for array in arrays]
            )
            if count % 2:
                rest = [array[2 * half :] for array in arrays]
                halves = [np.concatenate(pair) for pair in zip(halves, rest, strict=True)]
            arrays, count = halves, half + count % 2
    return [array[0] for array in arrays]


@dataclass(frozen=True)
class PoolWindow:
    """A window along one axis."""

    size: int = 1
    stride: int = 1
    dilation: int = 1
    base_dilation: int = 1
    low: int = 0
    high: int = 0


def pooled(
    combine: Combine, arrays: Arrays, initial: Arrays, windows: Sequence[PoolWindow]
) -> Arrays:
    """
    The reduction of each window, one element at a time, starting with `initial`.

    `windows` has one window per axis. Padding consists of the initial elements.
    """
    ends = [(of.low, of.high, of.base_dilation) for of in windows]
    around = [
        padded(array, of.reshape(-1)[0], ends) for array, of in zip(arrays, initial, strict=True)
    ]
    shape = tuple(
        window_count(length, of.size, of.stride, of.dilation)
        for length, of in zip(around[0].shape, windows, strict=True)
    )
    require_possible(shape)
    with temporary_memory(2 * math.prod(shape) * sum(array.itemsize for array in arrays)):
        spend_products(_POSITION * math.prod(shape) * math.prod(of.size for of in windows))
        result = [np.broadcast_to(of, shape) for of in initial]
        for at in _positions(windows, shape):
            result = combine(result, [array[at] for array in around])
    return result


_POSITION: Final = 16
"""A position of a window takes as long as so many products of a sum."""

MAX_WINDOW: Final = 1 << 16
"""The maximum number of positions of a window that are combined one by one."""


def _positions(windows: Sequence[PoolWindow], shape: Shape) -> Iterator[tuple[slice, ...]]:
    """For each position in the window, the elements at that position of all windows."""
    sizes = [of.size for of in windows]
    if math.prod(sizes) > MAX_WINDOW:
        raise InterpretationError(f"its window has {math.prod(sizes)} positions")
    for index in np.ndindex(*sizes):
        starts = [at * of.dilation for at, of in zip(index, windows, strict=True)]
        yield tuple(
            slice(start, start + (length - 1) * of.stride + 1 if length else start, of.stride)
            for start, of, length in zip(starts, windows, shape, strict=True)
        )


# Regions


_COMBINERS: Final = {
    **dict.fromkeys(("stablehlo.add", "arith.addf", "arith.addi"), np.add),
    **dict.fromkeys(("stablehlo.multiply", "arith.mulf", "arith.muli"), np.multiply),
    **dict.fromkeys(("stablehlo.maximum", "arith.maximumf", "arith.maxsi"), larger),
    **dict.fromkeys(("stablehlo.minimum", "arith.minimumf", "arith.minsi"), smaller),
    "arith.maxnumf": larger_number,
    "arith.minnumf": smaller_number,
    **dict.fromkeys(("stablehlo.and", "arith.andi"), np.bitwise_and),
    **dict.fromkeys(("stablehlo.or", "arith.ori"), np.bitwise_or),
}
"""The functions of ops that can be the only op of a region."""


def combiner_of(block: Block) -> Callable[..., NDArray[Any]] | None:
    """The function of two numbers that a block computes; None if it is another computation."""
    ops = list(block.ops)
    if len(ops) != 2 or len(block.args) != 2 or len(ops[0].results) != 1:
        return None
    is_plain = {*ops[0].operands} == {*block.args} and [*ops[1].operands] == [*ops[0].results]
    return combiner_named(name_of(ops[0])) if is_plain else None


def combiner_named(name: str) -> Callable[..., NDArray[Any]] | None:
    """The function of two numbers of the op `name`; None if there is none."""
    return _COMBINERS.get(name)


Reduce = Callable[[Combine, Arrays, Arrays], Arrays]
"""Reduces arrays by a combination; the last parameter is the initial elements."""


def reduce_by_region(
    interpreter: Interpreter,
    op: Operation,
    values: Sequence[TypedArray],
    initial: Sequence[TypedArray],
    reduce: Reduce,
    *,
    is_started: bool,
) -> list[TypedArray]:
    """
    Reduce values by the region of an op, which is not run if it is a known function.

    The values have the types of the op's first results. With `is_started`, `reduce` starts with the
    initial elements.
    """
    (region,) = op.regions
    if len(region.block.args) != 2 * len(values):
        raise InterpretationError(f"its region does not combine {len(values)} elements")
    function = combiner_of(region.block)
    if function is not None:
        with all_numbers(*values) as numbers:
            starts = [numbers_of(of) for of in initial]
            (made,) = _reduced_from(combined_by(function), numbers, starts, reduce, is_started)
            return [rounded(made, op.results[0].type)]
    combine = _combined_in(interpreter, region, op)
    arrays = [[value.elements for value in of] for of in (values, initial)]
    found = _reduced_from(combine, arrays[0], arrays[1], reduce, is_started)
    types = [result.type for result in op.results[: len(values)]]
    return [TypedArray.of(of, type) for of, type in zip(found, types, strict=True)]


def _reduced_from(
    combine: Combine, arrays: Arrays, initial: Arrays, reduce: Reduce, is_started: bool
) -> Arrays:
    made = reduce(combine, arrays, initial)
    if is_started:
        return made
    starts = [np.broadcast_to(of, to.shape) for of, to in zip(initial, made, strict=True)]
    return combine(starts, made)


def _combined_in(interpreter: Interpreter, region: Region, op: Operation) -> Combine:
    """The combination of elements by a region, which is run for all positions at once."""
    types = [argument.type for argument in region.block.args]

    def combine(one: Arrays, other: Arrays) -> Arrays:
        given = [
            TypedArray.of(array, at_all_positions(type, array.shape))
            for array, type in zip((*one, *other), types, strict=True)
        ]
        yielded = interpreter.run_ssacfg_region(region, tuple(given), name_of(op))
        if len(yielded) != len(one):
            raise InterpretationError(f"its region yields {len(yielded)} elements")
        return [
            np.broadcast_to(value_of(value, type).elements, array.shape)
            for value, type, array in zip(yielded, types, one, strict=False)
        ]

    return combine
