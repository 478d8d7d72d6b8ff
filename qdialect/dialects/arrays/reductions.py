"""
Sums of products and reductions of arrays: convolutions, matrix products, pools, and regions.

Windows are views of the operand. A sum of products is a matrix product of numpy, of one piece of a
view at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray
from xdsl.interpreter import Interpreter
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.utils.exceptions import InterpretationError

from qdialect.algebra.movement import Shape
from qdialect.dialects.arrays.elements import (
    Function,
    Numbers,
    all_numbers,
    function_for,
    functions_of,
    is_integer,
    numbers_of,
    range_of,
    rounded,
)
from qdialect.dialects.arrays.values import (
    TypedArray,
    TypedArrays,
    at_all_positions,
    elements_of_numbers,
    require_possible,
    signed,
    spend_elements,
    spend_products,
    temporary_memory,
    value_of,
)
from qdialect.ir.value_types import element_type_or_self
from qdialect.ops.fields import Contraction, PoolWindow, Window
from qdialect.ops.interface import layer_of, name_of, windows_of
from qdialect.ops.model import OnElements, OnNumbers, imported, model_named
from qdialect.ops.readers import combining_op

_PIECE: Final = 1 << 19
"""The maximum number of elements copied at once, unless one row has more."""

_FEW_TERMS: Final = 64

_EXACT_IN_DOUBLE: Final = 1 << 53

_INTEGER_PRODUCT: Final = 8
"""A product of integers takes as long as so many in double."""


def sum_of_products(
    lhs: Numbers, rhs: Numbers, contraction: Contraction, windows: Sequence[Window]
) -> Numbers:
    """
    The result of a contraction: modulo 2**64 for integers, in float32 for two arrays of that, else
    in double.

    Raises InterpretationError if the shapes do not match it.
    """
    left, right, result = (
        list(part) for part in (contraction.lhs, contraction.rhs, contraction.result)
    )
    if (len(left), len(right)) != (lhs.ndim, rhs.ndim):
        raise InterpretationError(f"its operands have ranks {lhs.ndim} and {rhs.ndim}")
    lhs = _spread(lhs, windows)
    positions: list[str] = []
    is_narrow = contraction.groups == 1 and _is_narrow(lhs, rhs, (left, right, result), windows)
    for number, window in enumerate(windows):
        at, kernel_axis, result_axis = window.axes
        if window.is_reversed:
            rhs = np.flip(rhs, kernel_axis)
        if not is_narrow:
            lhs = _with_window(lhs, at, rhs.shape[kernel_axis], window)
        # Use a label that no other axis has.
        left[at] = result[result_axis] = f"*{number}"
        positions.append(right[kernel_axis])
    if is_narrow:
        products = contracted(lhs, left, rhs, right, [*positions, *result])
        return _sum_of_shifted(products, windows)
    left += positions
    if contraction.groups > 1:
        lhs, rhs = _grouped(lhs, rhs, (left, right, result), positions, contraction.groups)
    axes = [_axes_in(label) for label in result]
    flat = contracted(lhs, left, rhs, right, [axis for label_axes in axes for axis in label_axes])
    lengths = iter(flat.shape)
    return flat.reshape([math.prod(next(lengths) for _ in label_axes) for label_axes in axes])


def _is_narrow(
    lhs: Numbers, rhs: Numbers, labels: Sequence[Sequence[str]], windows: Sequence[Window]
) -> bool:
    """
    Whether windows have many more channels than results, and products with all weights are few.

    Then each position is multiplied by all weights, and no window is copied.
    """
    left, right, result = labels
    axes = {axis for label in result for axis in _axes_in(label)}
    shape = dict(zip(right, rhs.shape, strict=True))
    summed = math.prod(n for label, n in shape.items() if label in left and label not in axes)
    columns = math.prod(n for label, n in shape.items() if label in axes)
    return (
        {lhs.dtype, rhs.dtype} == {np.dtype(np.float32)}
        and any(rhs.shape[window.axes[1]] > 1 for window in windows)
        and all(window.stride == 1 for window in windows)
        and not any(label in left and label in axes for label in right)
        and 0 < 2 * columns <= summed
        and 0 < lhs.size // summed * (rhs.size // summed) <= _MOST_PRODUCTS
    )


_MOST_PRODUCTS: Final = 1 << 23
"""The most products that are held at once where windows are not copied."""


def _sum_of_shifted(products: Numbers, windows: Sequence[Window]) -> Numbers:
    """The sum of products over the positions of windows, which are the first axes."""
    total = None
    sizes = products.shape[: len(windows)]
    for position in np.ndindex(*sizes):
        part = [slice(None)] * (products.ndim - len(windows))
        for at, window, size in zip(position, windows, sizes, strict=True):
            axis, start = window.axes[2], at * window.dilation
            count = window.of_size(size).count(products.shape[len(windows) + axis])
            part[axis] = slice(start, start + count)
        shifted = products[(*position, *part)]
        total = shifted.copy("K") if total is None else np.add(total, shifted, out=total)
    assert total is not None
    return total


def _axes_in(label: str) -> list[str]:
    """The axes of a label: `(cm)` has two, which are combined."""
    return list(label[1:-1]) if label.startswith("(") else [label]


def _grouped(
    lhs: Numbers,
    rhs: Numbers,
    labels: Sequence[list[str]],
    positions: Sequence[str],
    groups: int,
) -> tuple[Numbers, Numbers]:
    """The operands and their labels, with an axis for the groups of channels."""
    left, right, result = labels
    # Both operands have an axis for the positions in a window.
    (read,) = (at for at in left if at in right and at not in (*result, *positions))
    (output,) = (at for at in right if at in result and at not in left)
    lhs = _split(lhs, left, read, groups)
    rhs = _split(rhs, right, output, groups)
    result[result.index(output)] = f"({_GROUP}{output})"
    return lhs, rhs


_GROUP: Final = "G"


def _split(numbers: Numbers, labels: list[str], label: str, groups: int) -> Numbers:
    axis = labels.index(label)
    if numbers.shape[axis] % groups:
        raise InterpretationError(
            f"{numbers.shape[axis]} channels are not divisible into {groups} groups"
        )
    labels.insert(axis, _GROUP)
    shape = numbers.shape
    return numbers.reshape(*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])


def _spread(numbers: Numbers, windows: Iterable[Window]) -> Numbers:
    """The operand with zeros inserted between its elements, and around it."""
    ends = {window.axes[0]: (window.low, window.high, window.base_dilation) for window in windows}
    return padded(numbers, 0, [ends.get(axis, (0, 0, 1)) for axis in range(numbers.ndim)])


def padded(numbers: Numbers, fill: Any, ends: Sequence[tuple[int, int, int]]) -> Numbers:
    """
    `numbers` with `fill` before, after and between elements, per axis; negative counts crop.

    Raises InterpretationError for a shape that numpy cannot have.
    """
    if all(end == (0, 0, 1) for end in ends):
        return numbers
    shape = tuple(
        max((n - 1) * spread + 1 if n else 0, 0) + low + high
        for n, (low, high, spread) in zip(numbers.shape, ends, strict=True)
    )
    require_possible(shape)
    with temporary_memory(math.prod(shape) * numbers.dtype.itemsize):
        result = np.full(shape, fill, dtype=numbers.dtype)
    target: list[slice] = []
    source: list[slice] = []
    for n, length, (low, _, spread) in zip(numbers.shape, shape, ends, strict=True):
        first = max(-(low // spread), 0)
        # The last element that is not cropped.
        last = min((length - 1 - low) // spread, n - 1)
        source.append(slice(first, max(last + 1, first)))
        start = low + first * spread
        target.append(slice(start, max(start + (last - first) * spread + 1, start), spread))
    result[tuple(target)] = numbers[tuple(source)]
    return result


def _with_window(numbers: Numbers, axis: int, size: int, window: Window) -> Numbers:
    """A view with the windows along `axis`, and the positions in a window along a new last axis."""
    length = window.of_size(size).count(numbers.shape[axis])
    stride = numbers.strides[axis]
    shape, strides = list(numbers.shape), list(numbers.strides)
    shape[axis], strides[axis] = length, stride * window.stride
    return as_strided(
        numbers, (*shape, size), (*strides, stride * window.dilation), writeable=False
    )


def contracted(
    lhs: Numbers, left: Sequence[str], rhs: Numbers, right: Sequence[str], result: Sequence[str]
) -> Numbers:
    """
    The sums of products of two arrays with the axis labels `left` and `right`.

    The result has the axes `result`; other axes are summed over. Raises InterpretationError if axes
    of one label differ in length.
    """
    lengths = _lengths((left, lhs.shape), (right, rhs.shape))
    lhs, left = _without(lhs, left, {*right, *result})
    rhs, right = _without(rhs, right, {*left, *result})
    both = [name for name in result if name in left and name in right]
    rows = [name for name in result if name in left and name not in right]
    columns = [name for name in result if name not in left]
    summed = [name for name in left if name not in result]
    is_single = {lhs.dtype, rhs.dtype} == {np.dtype(np.float32)}
    if is_single:
        # What is copied is read in the order of memory. In double, the order of sums stays.
        summed.sort(key=lambda name: -abs(lhs.strides[left.index(name)]))
    lhs = lhs.transpose([left.index(name) for name in (*both, *rows, *summed)])
    rhs = rhs.transpose([right.index(name) for name in (*both, *summed, *columns)])

    def count(names: Iterable[str]) -> int:
        return math.prod(lengths[name] for name in names)

    shape = tuple(lengths[name] for name in (*both, *rows, *columns))
    require_possible(shape)
    dtype = _dtype_for(lhs, rhs, count(summed))
    strides = [abs(stride) for stride in lhs.strides[len(both) :]]
    is_along_rows = is_single and bool(rows) and min(strides) in strides[: len(rows)]
    spend_products(count(lengths) * (1 if dtype.kind == "f" else _INTEGER_PRODUCT))
    # Windows of one channel each, and channels last: a matrix would be read across memory.
    steps = [abs(stride) for stride, n in zip(lhs.strides, lhs.shape, strict=True) if n > 1]
    is_by_terms = (
        is_single
        and bool(both)
        and abs(lhs.strides[len(both) - 1]) <= min(steps, default=0)
        and count(columns) == 1
        and count(summed) <= _FEW_TERMS
    )
    outer = max(range(len(both) + len(rows)), key=shape.__getitem__, default=None)
    pieces: Iterable[slice] = [slice(None)]
    if outer is not None and shape[outer]:
        per_position = max(lhs.size // shape[outer], 1)
        step = max(_PIECE // per_position, 1)
        pieces = (slice(at, at + step) for at in range(0, shape[outer], step))
        temporary = min(step, shape[outer]) * per_position
    else:
        temporary = lhs.size
    with temporary_memory(8 * (temporary + rhs.size + math.prod(shape))):
        sums = np.empty(shape, dtype=dtype if dtype.kind == "f" else np.int64)
        for piece in pieces:
            at = (slice(None),) * (outer or 0) + (piece,) if outer is not None else ()
            of_rhs = rhs[at] if outer is not None and outer < len(both) else rhs
            part = lhs[at]
            if is_by_terms:
                sums[at] = _sum_of_terms(part, of_rhs, len(both), len(rows)).reshape(sums[at].shape)
                continue
            batch = math.prod(part.shape[: len(both)])
            one = _as_matrices(part, dtype, len(both), len(rows), is_along_rows=is_along_rows)
            other = of_rhs.astype(dtype, copy=False).reshape(batch, count(summed), count(columns))
            target = sums[at].reshape(batch, one.shape[1], count(columns))
            is_view = np.may_share_memory(target, sums) and sums.dtype == dtype
            product = np.matmul(one, other, out=target if is_view else None)
            if not is_view:
                sums[at] = product.reshape(sums[at].shape)
    names = [*both, *rows, *columns]
    return sums.transpose([names.index(name) for name in result])


def _sum_of_terms(lhs: Numbers, rhs: Numbers, batches: int, rows: int) -> Numbers:
    """
    The sums over the last axes of `lhs`, one term after the other.

    `lhs` has `batches` axes, `rows` axes, and those, and `rhs` the same without the rows.
    """
    shape = (*rhs.shape[:batches], *(1,) * rows)
    total = term = None
    for at in np.ndindex(*lhs.shape[batches + rows :]):
        factor = rhs[(slice(None),) * batches + at].reshape(shape)
        # The result has the order of memory of the operand.
        term = np.multiply(lhs[(..., *at)], factor, out=term)
        if total is None:
            total, term = term, None
        else:
            total += term
    return np.zeros(lhs.shape[: batches + rows], lhs.dtype) if total is None else total


def _as_matrices(
    array: Numbers, dtype: np.dtype[Any], batches: int, rows: int, *, is_along_rows: bool
) -> Numbers:
    """
    An array as a batch of matrices, whose columns are the axes after the first `batches + rows`.

    With `is_along_rows`, what must be copied is copied column by column.
    """
    end = batches + rows
    lengths = [math.prod(part) for part in (array.shape[:batches], array.shape[batches:end])]
    last = math.prod(array.shape[end:])
    if not is_along_rows:
        return array.astype(dtype, copy=False).reshape(*lengths, last)
    order = [*range(batches), *range(end, array.ndim), *range(batches, end)]
    columns = array.transpose(order).astype(dtype, copy=False).reshape(lengths[0], last, lengths[1])
    return columns.swapaxes(1, 2)


def _lengths(*parts: tuple[Sequence[str], Shape]) -> Mapping[str, int]:
    lengths: dict[str, int] = {}
    for names, shape in parts:
        for name, length in zip(names, shape, strict=True):
            if lengths.setdefault(name, length) != length:
                raise InterpretationError(
                    f"the shapes of its operands do not match: {lengths[name]} is not {length}"
                )
    return lengths


def _without(
    numbers: Numbers, names: Sequence[str], kept: set[str]
) -> tuple[Numbers, Sequence[str]]:
    """The sums over the axes that only this operand has."""
    alone = tuple(axis for axis, name in enumerate(names) if name not in kept)
    if not alone:
        return numbers, names
    return numbers.sum(axis=alone), [name for name in names if name in kept]


def _dtype_for(lhs: Numbers, rhs: Numbers, terms: int) -> np.dtype[Any]:
    """Double, which numpy multiplies faster, if it is exact for these sums of integers."""
    if "f" in (lhs.dtype.kind, rhs.dtype.kind):
        return np.result_type(lhs, rhs)
    most = [
        max(int(side.max(initial=0)), -int(side.min(initial=0))) if side.size else 0
        for side in (lhs, rhs)
    ]
    is_exact = most[0] * most[1] * max(terms, 1) < _EXACT_IN_DOUBLE
    return np.dtype(np.float64 if is_exact else np.int64)


def run_layer(_: Interpreter, op: Operation, operands: TypedArrays) -> list[TypedArray]:
    """The result of a sum of products, with its bias. Raises InterpretationError and Refusal."""
    compute = layer_on_arrays(op)
    with all_numbers(*operands) as numbers:
        return [rounded(compute(*numbers), op.results[0].type)]


def layer_on_arrays(op: Operation) -> Callable[..., Numbers]:
    """
    The function of numbers that computes a sum of products, with its bias.

    It raises InterpretationError for shapes that do not match. Raises that and Refusal.
    """
    contraction = layer_of(op)
    if not isinstance(contraction, Contraction):
        raise InterpretationError("it is not a sum of products")
    windows = windows_of(op, contraction)
    zeros = list(model_named(name_of(op)).zero_points or ())

    def compute(*numbers: Numbers) -> Numbers:
        lhs, rhs = (numbers[at] for at in contraction.operands)
        if zeros and len(numbers) > zeros[0]:
            lhs_zero, rhs_zero = (_single(numbers[at]) for at in zeros)
            # A zero point of 0 needs no other copy of an operand.
            lhs, rhs = (lhs - lhs_zero if lhs_zero else lhs, rhs - rhs_zero if rhs_zero else rhs)
        total = sum_of_products(lhs, rhs, contraction, windows)
        if contraction.bias is None or len(numbers) <= contraction.bias:
            return total
        bias = numbers[contraction.bias]
        if (bias.shape, bias.dtype) == (total.shape, total.dtype):
            return np.add(total, bias, out=total)
        with temporary_memory(total.nbytes):
            return total + bias

    return compute


def _single(point: Numbers) -> Numbers:
    if point.size != 1:
        raise InterpretationError(f"it has {point.size} zero points for one operand")
    return point.reshape(())


Arrays = list[NDArray[Any]]
Combine = Callable[[Arrays, Arrays], Arrays]
"""Combines the elements of two lists of arrays, position by position."""


class Combination(NamedTuple):
    """The combination of single arrays by a function of two numbers."""

    function: Callable[..., NDArray[Any]]

    def __call__(self, one: Arrays, other: Arrays) -> Arrays:
        with np.errstate(all="ignore"):
            return [np.asarray(self.function(*pair)) for pair in zip(one, other, strict=True)]


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


def read_reduction(op: Operation) -> tuple[Combine, Mapping[int, PoolWindow]]:
    """How an op combines elements, and its windows, by axis. Raises Refusal."""
    read = model_named(name_of(op)).reduction
    assert read is not None
    reduction = read(op)
    return Combination(imported(reduction.function)), reduction.windows


def pooled(
    combine: Combine, arrays: Arrays, initial: Arrays, windows_by_axis: Mapping[int, PoolWindow]
) -> Arrays:
    """
    The reduction of each window, one element at a time, starting with `initial`.

    Along other axes, nothing is combined. Padding consists of the initial elements.
    """
    windows = [windows_by_axis.get(axis, PoolWindow()) for axis in range(arrays[0].ndim)]
    ends = [(window.low, window.high, window.base_dilation) for window in windows]
    around = [
        padded(array, start.reshape(-1)[0], ends)
        for array, start in zip(arrays, initial, strict=True)
    ]
    shape = tuple(
        window.count(length) for length, window in zip(around[0].shape, windows, strict=True)
    )
    require_possible(shape)
    with temporary_memory(2 * math.prod(shape) * sum(array.itemsize for array in arrays)):
        spend_products(_POSITION * math.prod(shape) * math.prod(window.size for window in windows))
        result = [np.broadcast_to(start, shape) for start in initial]
        if isinstance(combine, Combination) and isinstance(combine.function, np.ufunc):
            axes = [*windows_by_axis]
            if all(shape[axis] == 1 for axis in axes):
                return [_in_order(combine.function, result[0], around[0], axes, windows)]
        for at in _positions(windows, shape):
            result = combine(result, [array[at] for array in around])
    return result


def _in_order(
    function: np.ufunc,
    start: NDArray[Any],
    array: NDArray[Any],
    axes: Sequence[int],
    windows: Sequence[PoolWindow],
) -> NDArray[Any]:
    """The reduction of the only window of `axes`: `accumulate` never changes the order of terms."""
    others = [axis for axis in range(array.ndim) if axis not in axes]
    at = [slice(None)] * array.ndim
    for axis in axes:
        size, dilation = windows[axis].size, windows[axis].dilation
        at[axis] = slice(0, dilation * (size - 1) + 1 if size else 0, dilation)
    parts = [part.transpose([*others, *axes]) for part in (start, array[tuple(at)])]
    kept = parts[0].shape[: len(others)]
    with temporary_memory(3 * parts[1].nbytes), np.errstate(all="ignore"):
        terms = [part.reshape(*kept, math.prod(part.shape[len(others) :])) for part in parts]
        row = np.concatenate(terms, -1)
        sums = function.accumulate(row, -1, row.dtype)[..., -1]
        return np.expand_dims(sums, tuple(axes))


_POSITION: Final = 16
"""A position of a window takes as long as so many products of a sum."""

MAX_WINDOW: Final = 1 << 16
"""The maximum number of positions of a window that are combined one by one."""


def _positions(windows: Sequence[PoolWindow], shape: Shape) -> Iterator[tuple[slice, ...]]:
    """For each position in the window, the elements at that position of all windows."""
    sizes = [window.size for window in windows]
    if math.prod(sizes) > MAX_WINDOW:
        raise InterpretationError(f"its window has {math.prod(sizes)} positions")
    for index in np.ndindex(*sizes):
        starts = [at * window.dilation for at, window in zip(index, windows, strict=True)]
        yield tuple(
            slice(
                start, start + (length - 1) * window.stride + 1 if length else start, window.stride
            )
            for start, window, length in zip(starts, windows, shape, strict=True)
        )


# Regions


class Combiner(NamedTuple):
    """A function of two elements that reductions apply to whole arrays, in any order."""

    function: Function
    identity: float
    """The identity; an infinity is the least or the greatest integer for integers."""
    read: Callable[[TypedArray], Numbers]
    """Reads the numbers that the function combines."""

    def identity_of(self, type: Attribute) -> NDArray[Any]:
        """The identity as an element of `type`."""
        number = self.identity
        if math.isinf(number) and is_integer(type):
            number = range_of(type)[number > 0]
        return elements_of_numbers(np.asarray(number), type)


def combiner_of(op: Operation) -> Combiner | None:
    """The function of two elements that an op computes; None if it has no identity."""
    model = model_named(name_of(op))
    if model.identity is None:
        return None
    match model.run:
        case OnElements() as run:
            function = function_for(functions_of(run), element_type_or_self(op.operands[0].type))
            return None if function is None else Combiner(function, model.identity, numbers_of)
        case OnNumbers() as run:
            # Signed and unsigned integers are combined to the same bits.
            return Combiner(imported(run.function), model.identity, signed)
        case _:
            return None


def _combiner_in(block: Block) -> Combiner | None:
    """The function of two elements that a block computes; None if it is another computation."""
    op = combining_op(block)
    return None if op is None else combiner_of(op)


Reduce = Callable[[Combine, Arrays, Arrays], Arrays]
"""Reduces arrays by a combination; the last parameter is the initial elements."""


def reduce_by_region(
    interpreter: Interpreter,
    op: Operation,
    values: TypedArrays,
    initial: TypedArrays,
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
    if (combiner := _combiner_in(region.block)) is not None:
        with temporary_memory(sum(8 * value.elements.size for value in values)):
            numbers, starts = (
                [combiner.read(value) for value in group] for group in (values, initial)
            )
            combine = Combination(combiner.function)
            (total,) = _reduced_from(combine, numbers, starts, reduce, is_started)
            return [rounded(total, op.results[0].type)]
    combine = _combined_in(interpreter, region, op)
    arrays = [[value.elements for value in group] for group in (values, initial)]
    totals = _reduced_from(combine, arrays[0], arrays[1], reduce, is_started)
    types = [result.type for result in op.results[: len(values)]]
    return [TypedArray.of(total, type) for total, type in zip(totals, types, strict=True)]


def _reduced_from(
    combine: Combine, arrays: Arrays, initial: Arrays, reduce: Reduce, is_started: bool
) -> Arrays:
    totals = reduce(combine, arrays, initial)
    if is_started:
        return totals
    starts = [np.broadcast_to(start, to.shape) for start, to in zip(initial, totals, strict=True)]
    return combine(starts, totals)


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
