"""Sums of products of codes, with zero points, as one `linalg.generic` on integers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, TypeAlias, cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import IntegerAttr, IntegerType, TensorType, i8
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from qdialect.algebra.movement import DYNAMIC, Shape, Transpose, inverse
from qdialect.algebra.padding import Pad
from qdialect.integers.rescaling import along, constant_of, extended, line_of, with_numbers
from qdialect.lowering.storage_ops import Length, StorageBuilder, move_elements
from qdialect.ops.fields import WINDOW, Contraction, PoolWindow, Window
from qdialect.ops.refusals import Refusal, RefusalCode
from qdialect.support.lazy_numpy import NDArray, np

Integers: TypeAlias = "NDArray[np.int64]"


@dataclass(frozen=True)
class Factor:
    """
    One operand of a sum of products: codes that stand for `(code - zero) * scale`.

    Zeros and scales have the axes of the operand, of length 1 where they are the same.
    """

    zeros: Integers
    scales: NDArray[np.float64]

    magnitude: int
    """The largest `|code - zero|` that the type allows."""

    value: SSAValue | None = None
    """Signed integers of 8 or 16 bits; None for a constant."""

    numbers: Integers | None = None
    """The codes of a constant, less their zeros."""

    @property
    def shape(self) -> Shape:
        """The shape; lengths may be dynamic."""
        return _shape(self.value) if self.numbers is None else self.numbers.shape

    def stored(self, builder: StorageBuilder) -> Factor:
        """
        A constant as a value: without zeros if integers of its width hold that, else with them.
        """
        if self.numbers is None:
            return self
        zeros = self.zeros.astype(self.numbers.dtype)
        codes = self.numbers + zeros
        dtype = next((dtype for dtype in (np.int8, np.int16) if _fit(codes, dtype)), None)
        if dtype is None:
            raise Refusal(RefusalCode.STORAGE, "its codes have more than 16 bits")
        if _fit(self.numbers, dtype):
            codes, zeros = self.numbers, np.zeros_like(zeros)
        value = line_of(builder, codes.astype(dtype), range(codes.ndim))
        return replace(self, value=value, zeros=zeros)


def _fit(numbers: Integers, dtype: type[np.signedinteger[Any]]) -> bool:
    """Whether integers of a dtype hold numbers."""
    info = np.iinfo(dtype)
    return bool(info.min <= numbers.min(initial=0) and numbers.max(initial=0) <= info.max)


class Product(NamedTuple):
    """The accumulator of a sum of products, with an axis for each letter of the result."""

    value: SSAValue
    scales: NDArray[np.float64]
    """Of the rank of the value, and of length 1 along axes on which they are the same."""

    magnitudes: Integers
    """The largest magnitude that a sum can have: as `scales`."""

    terms: int
    """The number of products in a sum."""

    bias: Integers
    """The magnitudes of what is added: as `scales`."""

    finish: Callable[[SSAValue], SSAValue]
    """Moves codes in the place of the sums to the axes of the result."""

    def error(self, factors: NDArray[np.float64], span: int) -> float:
        """
        The bound of how far f32 is from the exact sum, as a code before it is rounded.

        `factors` are those of the sums, and results are in a range of `span` codes: see
        docs/integers.md.
        """
        relative = (self.terms + 4) * _UNIT / (1 - (self.terms + 4) * _UNIT)
        sums = (relative * self.magnitudes + self.bias * _UNIT) * factors
        return float(sums.max(initial=0)) + span * _UNIT


_UNIT: Final = 2.0**-24
"""The relative error of a rounding to f32."""

_MOST: Final = {32: 1 << 31, 64: 1 << 47}
"""The magnitudes that accumulators of some bits do not reach. Those of 64 are multiplied again."""


class _Loops:
    """The loops of a sum of products: those of the result first, then those that are summed."""

    def __init__(self, contraction: Contraction, windows: Sequence[Window]) -> None:
        lhs, rhs = list(contraction.lhs), list(contraction.rhs)
        result = [_letters(label) for label in contraction.result]
        for number, window in enumerate(windows):
            lhs[window.axes[0]] = rhs[window.axes[1]] + WINDOW
            result[window.axes[2]] = [f"{WINDOW}{number}"]
        self.groups: list[list[int]] = []
        parallel: list[str] = []
        for letters in result:
            self.groups.append([len(parallel) + at for at in range(len(letters))])
            parallel += letters
        self.lhs, self.rhs, self.parallel = lhs, rhs, parallel
        self.windows = {rhs[window.axes[1]]: window for window in windows}
        self.positions = {
            rhs[window.axes[1]]: f"{WINDOW}{number}" for number, window in enumerate(windows)
        }
        summed = [label for label in rhs if label not in parallel]
        self.order = {label: at for at, label in enumerate((*parallel, *summed))}
        alone = {*rhs, *lhs} - {*parallel} - {*self.windows}
        if any(label not in rhs or label not in lhs for label in alone if label[-1] != WINDOW):
            raise Refusal(RefusalCode.UNKNOWN_OP, "an axis of one operand is summed alone")

    def place(self, label: str) -> AffineExpr:
        """The position that loops read along an axis of this label."""
        if label[-1] != WINDOW or label in self.order:
            return AffineExpr.dimension(self.order[label])
        kernel = label[:-1]
        window = self.windows[kernel]
        position = AffineExpr.dimension(self.order[self.positions[kernel]]) * window.stride
        return position + AffineExpr.dimension(self.order[kernel]) * window.dilation

    def map(self, labels: Sequence[str]) -> AffineMap:
        """The indexing map of an operand."""
        return AffineMap(len(self.order), 0, tuple(self.place(label) for label in labels))

    def spread(self, array: NDArray[Any], labels: Sequence[str]) -> NDArray[Any]:
        """An array on the axes of an operand, on those of the result."""
        shape, order = [1] * len(self.parallel), list[tuple[int, int]]()
        for axis, (label, length) in enumerate(zip(labels, array.shape, strict=True)):
            if label in self.parallel:
                order.append((self.order[label], axis))
                shape[self.order[label]] = length
        kept = [axis for _, axis in sorted(order)]
        rest = [axis for axis in range(array.ndim) if axis not in kept]
        return array.transpose([*kept, *rest]).reshape(shape)

    def lengths(
        self, builder: StorageBuilder, lhs: SSAValue, rhs: SSAValue
    ) -> Mapping[str, Length]:
        """The length of each loop."""
        lengths: dict[str, Length] = {}
        shapes = [_shape(value) for value in (rhs, lhs)]
        for value, labels in ((rhs, self.rhs), (lhs, self.lhs)):
            for axis, label in enumerate(labels):
                if label in self.order and lengths.get(label, DYNAMIC) == DYNAMIC:
                    lengths[label] = builder.length(value, axis)
        for kernel, window in self.windows.items():
            size, given = lengths[kernel], shapes[1][window.axes[0]]
            if not isinstance(size, int) or given == DYNAMIC:
                raise Refusal(RefusalCode.DYNAMIC_SHAPE, "a window slides over an unknown length")
            reach = given - (size - 1) * window.dilation - 1
            lengths[self.positions[kernel]] = reach // window.stride + 1
        summed = [lengths[label] for label in list(self.order)[len(self.parallel) :]]
        if not all(isinstance(length, int) for length in summed):
            raise Refusal(RefusalCode.DYNAMIC_SHAPE, "the number of products is not known")
        return lengths


def _letters(label: str) -> list[str]:
    return list(label.strip("()"))


def _shape(value: SSAValue | None) -> Shape:
    return cast("TensorType[Any]", cast(SSAValue, value).type).get_shape()


def _element(value: SSAValue) -> IntegerType:
    return cast("TensorType[IntegerType]", value.type).element_type


def product(
    builder: StorageBuilder,
    factors: tuple[Factor, Factor],
    contraction: Contraction,
    windows: Sequence[Window],
    bias: Integers | None,
) -> Product:
    """
    Insert a sum of products. Raises Refusal.

    `bias` has the axes of the constant factor. The factors are of one type each; only constant
    ones have scales and zeros along axes.
    """
    lhs, rhs = factors
    if windows:
        if rhs.numbers is None:
            raise Refusal(RefusalCode.NOT_CONSTANT, "its windows slide weights that are computed")
        flipped = tuple(window.axes[1] for window in windows if window.is_reversed)
        rhs = replace(rhs, numbers=np.flip(rhs.numbers, flipped))
        lhs, windows = _padded(builder, lhs, windows, rhs.shape)
    if contraction.groups > 1:
        contraction, windows, lhs, rhs, bias = _ungrouped(
            builder, contraction, windows, lhs, rhs, bias
        )
    back: Transpose | None = None
    if windows and _is_dense(contraction, windows, rhs.shape):
        contraction, windows, lhs, rhs, bias, back = _with_channels_last(
            builder, contraction, windows, lhs, rhs, bias
        )
    lhs, rhs = lhs.stored(builder), rhs.stored(builder)
    loops = _Loops(contraction, windows)
    sides = (lhs, loops.lhs), (rhs, loops.rhs)
    for factor, labels in sides:
        _check_axes(factor, labels, loops)
    operands = [cast(SSAValue, factor.value) for factor, _ in sides]
    lengths = loops.lengths(builder, *operands)
    summed = list(loops.order)[len(loops.parallel) :]
    count = math.prod(cast(int, lengths[label]) for label in summed)
    known = [side for side in sides if side[0].numbers is not None]
    others = [side for side in sides if side[0].numbers is None]
    rank = len(loops.parallel)
    # The bound, and what does not depend on the other factor.
    offset = np.zeros([1] * rank, np.int64)
    bound = np.full([1] * rank, count * lhs.magnitude * rhs.magnitude)
    if len(known) == 1:
        ((constant, labels),) = known
        ((other, _),) = others
        numbers = cast(Integers, constant.numbers)
        axes = tuple(axis for axis, label in enumerate(labels) if label not in loops.parallel)
        sums = numbers.sum(axes, np.int64, keepdims=True)
        totals = np.abs(numbers).sum(axes, np.int64, keepdims=True)
        bound = loops.spread(totals, labels) * other.magnitude
        offset = loops.spread(sums, labels) * -int(other.zeros.item())
        if bias is not None:
            offset = offset + loops.spread(bias, labels)
    else:
        offset = offset + count * int(lhs.zeros.item()) * int(rhs.zeros.item())
    width = 32 if all(_element(operand).bitwidth == 8 for operand in operands) else 64
    added = 0 if bias is None or not known else np.abs(loops.spread(bias, known[0][1]))
    magnitudes = bound + added
    if (most := int(magnitudes.max(initial=0))) >= _MOST[width]:
        reason = f"its sums may reach {most}, and {_MOST[width]} overflows"
        raise Refusal(RefusalCode.OVERFLOW, reason)
    type = IntegerType(width)
    init = builder.empty([lengths[label] for label in loops.parallel], type)
    reads: list[tuple[SSAValue, AffineMap, NDArray[Any]]] = []
    for (factor, labels), (other, others_labels) in zip(sides, sides[::-1], strict=True):
        # The zeros of a factor meet the sum of the other one, unless that is constant.
        if factor.zeros.any() and other.numbers is None:
            total, letters = _summed(builder, other, others_labels, loops, lengths, type)
            places = [loops.order[letter] for letter in letters]
            reads.append((total, along(places, rank), loops.spread(factor.zeros, labels)))
    dtype = np.dtype(f"i{width // 8}")
    # Two's complement: only the last sum has to be in range.
    start = with_numbers(
        builder, init, [], [], [offset.astype(dtype)], lambda _, __, known: known[0]
    )

    def element(inner: StorageBuilder, elements: Sequence[SSAValue]) -> SSAValue:
        one, other, total = elements
        wide, wider = (extended(inner, value, type) for value in (one, other))
        term = inner.insert(arith.MuliOp(wide, wider)).result
        return inner.insert(arith.AddiOp(total, term)).result

    maps = [loops.map(labels) for _, labels in sides]
    value = builder.generic(start, operands, maps, element)
    if reads:
        value = _corrected(builder, value, reads, dtype)
    scales = loops.spread(lhs.scales, loops.lhs) * loops.spread(rhs.scales, loops.rhs)

    def finish(codes: SSAValue) -> SSAValue:
        codes = builder.collapse(codes, loops.groups)
        return codes if back is None else _moved(builder, back, codes)

    return Product(value, scales, magnitudes, count, np.asarray(added), finish)


def _check_axes(factor: Factor, labels: Sequence[str], loops: _Loops) -> None:
    for label, *lengths in zip(labels, factor.zeros.shape, factor.scales.shape, strict=True):
        if label not in loops.parallel and max(lengths) > 1:
            raise Refusal(RefusalCode.GRANULARITY, "scales differ along an axis that is summed")


def _corrected(
    builder: StorageBuilder,
    value: SSAValue,
    reads: Sequence[tuple[SSAValue, AffineMap, NDArray[Any]]],
    dtype: np.dtype[Any],
) -> SSAValue:
    """Sums, less the products of zeros and of sums of codes."""
    lengths = builder.lengths(value)

    def element(
        inner: StorageBuilder, elements: Sequence[SSAValue], known: Sequence[SSAValue]
    ) -> SSAValue:
        total, *sums = elements[:-1]
        for zero, one in zip(known, sums, strict=True):
            term = inner.insert(arith.MuliOp(zero, one)).result
            total = inner.insert(arith.SubiOp(total, term)).result
        return total

    maps = [AffineMap.identity(len(lengths)), *(map for _, map, _ in reads)]
    inputs = [value, *(total for total, _, _ in reads)]
    zeros = [array.astype(dtype) for _, _, array in reads]
    return with_numbers(
        builder, builder.empty(lengths, _element(value)), inputs, maps, zeros, element
    )


def _summed(
    builder: StorageBuilder,
    factor: Factor,
    labels: Sequence[str],
    loops: _Loops,
    lengths: Mapping[str, Length],
    type: IntegerType,
) -> tuple[SSAValue, Sequence[str]]:
    """The sum of a factor's codes for each position of the result that it has, and its letters."""
    kernels = [label[:-1] for label in labels if label[-1] == WINDOW and label not in loops.order]
    own = {*labels} | {loops.positions[kernel] for kernel in kernels}
    letters = [letter for letter in loops.parallel if letter in own]
    summed = [label for label in loops.order if label not in loops.parallel and label in own]
    order = {label: at for at, label in enumerate((*letters, *kernels, *summed))}
    dims = [
        AffineExpr.dimension(order[label]) if label in order else AffineExpr.constant(0)
        for label in loops.order
    ]
    places = [loops.place(label).replace_dims_and_symbols(dims, []) for label in labels]
    inputs, maps = [cast(SSAValue, factor.value)], [AffineMap(len(order), 0, tuple(places))]
    if kernels:
        # Its shape says how far the windows reach.
        inputs.append(builder.empty([lengths[kernel] for kernel in kernels], i8))
        maps.append(along([order[kernel] for kernel in kernels], len(order)))
    init = builder.empty([lengths[letter] for letter in letters], type)
    zeros = builder.generic(init, [], [], lambda inner, _: constant_of(inner, 0, type))

    def element(inner: StorageBuilder, elements: Sequence[SSAValue]) -> SSAValue:
        code = extended(inner, elements[0], type)
        return inner.insert(arith.AddiOp(elements[-1], code)).result

    return builder.generic(zeros, inputs, maps, element), letters


# Windows and groups


def _padded(
    builder: StorageBuilder, factor: Factor, windows: Sequence[Window], weights: Shape
) -> tuple[Factor, Sequence[Window]]:
    """A factor with real zeros where windows read padding, and the windows that read it."""
    rank = len(factor.shape)
    low, high, gaps = [0] * rank, [0] * rank, [1] * rank
    for window in windows:
        axis, size = window.axes[0], weights[window.axes[1]]
        slid = PoolWindow(
            size, window.stride, window.dilation, window.base_dilation, window.low, window.high
        )
        low[axis], gaps[axis] = window.low, window.base_dilation
        high[axis] = high_of(slid, factor.shape[axis])
    plain = [replace(window, low=0, high=0, base_dilation=1) for window in windows]
    codes = cast(SSAValue, factor.value)
    value = padded(builder, codes, (low, high, gaps), int(factor.zeros.item()))
    return replace(factor, value=value), plain


def high_of(window: PoolWindow, length: int) -> int:
    """The number of elements behind an axis, or cropped from it, that windows read."""
    if length == DYNAMIC:
        raise Refusal(RefusalCode.DYNAMIC_SHAPE, "a window slides over an unknown length")
    whole = (length - 1) * window.base_dilation + 1 + window.low + window.high
    # Loops of length 1 are dropped, and then an axis has to have the length of the window.
    unread = (whole - (window.size - 1) * window.dilation - 1) % window.stride
    return window.high - unread


def padded(
    builder: StorageBuilder, value: SSAValue, widths: tuple[Sequence[int], ...], code: int
) -> SSAValue:
    """
    Codes with others around and between them; a negative width crops.

    `widths` are those before, those behind, and the distances of neighbours.
    """
    low, high, gaps = widths
    type, shape = cast("TensorType[IntegerType]", value.type), _shape(value)
    if DYNAMIC in shape and (any(width < 0 for width in (*low, *high)) or max(gaps) > 1):
        raise Refusal(RefusalCode.DYNAMIC_SHAPE, "it pads between elements of an unknown number")
    element = IntegerAttr(code, type.element_type)
    if max(gaps) > 1:
        # A new axis is padded, and merged: IREE 3.13 ignores strides of inserted slices.
        groups: list[list[int]] = []
        lengths: list[int] = []
        added: list[int] = []
        for length, gap in zip(shape, gaps, strict=True):
            split = [(length, 0), (1, gap - 1)] if gap > 1 else [(length, 0)]
            groups.append([len(lengths) + at for at in range(len(split))])
            lengths += [n for n, _ in split]
            added += [more for _, more in split]
        value = builder.expand(value, groups, lengths)
        value = builder.pad(Pad((0,) * len(added), tuple(added)), value, element)
        value = builder.collapse(value, groups)
        high = [width - gap + 1 for width, gap in zip(high, gaps, strict=True)]
    if any(width > 0 for width in (*low, *high)):
        movement = Pad(*(tuple(max(width, 0) for width in part) for part in (low, high)))
        value = builder.pad(movement, value, element)
    if any(width < 0 for width in (*low, *high)):
        offsets = [max(-width, 0) for width in low]
        ends = zip(_shape(value), low, high, strict=True)
        sizes = [length + min(before, 0) + min(behind, 0) for length, before, behind in ends]
        op = tensor.ExtractSliceOp.from_static_parameters(value, offsets, sizes)
        value = builder.insert(op).result
    return value


def _is_dense(contraction: Contraction, windows: Sequence[Window], weights: Shape) -> bool:
    """Whether windows of several positions are summed over channels."""
    count = math.prod(weights[window.axes[1]] for window in windows)
    result = "".join(contraction.result)
    both = [label for label in contraction.lhs if label in contraction.rhs]
    return count > 1 and not any(label in result for label in both)


def _with_channels_last(
    builder: StorageBuilder,
    contraction: Contraction,
    windows: Sequence[Window],
    lhs: Factor,
    rhs: Factor,
    bias: Integers | None,
) -> tuple[Contraction, Sequence[Window], Factor, Factor, Integers | None, Transpose]:
    """
    A convolution whose channels are the last axes, and how its result is moved back.

    Loops over channels are those that compilers make vectors of.
    """
    slid, kernel, out = ([window.axes[at] for window in windows] for at in (0, 1, 2))
    left, right, result = contraction.lhs, contraction.rhs, contraction.result

    def order(labels: Sequence[str], others: Sequence[str], middle: Sequence[int]) -> list[int]:
        """Axes that the other operand lacks, then windows, then those of channels."""
        rest = [at for at in range(len(labels)) if at not in middle]
        first = [at for at in rest if not set(labels[at].strip("()")) & {*others}]
        return [*first, *middle, *(at for at in rest if at not in first)]

    one, last = order(left, right, slid), order(result, right, out)
    rest = [at for at in range(len(right)) if at not in kernel]
    other = [*kernel, *sorted(rest, key=lambda at: right[at] not in left)]

    def placed(factor: Factor, axes: Sequence[int]) -> Factor:
        return replace(
            factor, zeros=factor.zeros.transpose(axes), scales=factor.scales.transpose(axes)
        )

    numbers = cast(Integers, rhs.numbers).transpose(other)
    image = _moved(builder, Transpose(tuple(one)), cast(SSAValue, lhs.value))
    moved = [
        replace(
            window,
            axes=(
                one.index(window.axes[0]),
                other.index(window.axes[1]),
                last.index(window.axes[2]),
            ),
        )
        for window in windows
    ]
    whole = Contraction(
        tuple(left[at] for at in one),
        tuple(right[at] for at in other),
        tuple(result[at] for at in last),
    )
    return (
        whole,
        moved,
        replace(placed(lhs, one), value=image),
        replace(placed(rhs, other), numbers=numbers),
        None if bias is None else bias.transpose(other),
        Transpose(inverse(last)),
    )


def _moved(builder: StorageBuilder, movement: Transpose, value: SSAValue) -> SSAValue:
    type = TensorType(_element(value), movement.result_shape(_shape(value)))
    return move_elements(builder, movement, [value], type)


def _ungrouped(
    builder: StorageBuilder,
    contraction: Contraction,
    windows: Sequence[Window],
    lhs: Factor,
    rhs: Factor,
    bias: Integers | None,
) -> tuple[Contraction, Sequence[Window], Factor, Factor, Integers | None]:
    """A sum of products of groups of channels, with an axis for the groups."""
    groups = contraction.groups
    (summed,) = (
        label
        for label in contraction.lhs
        if label in contraction.rhs and label not in contraction.result
    )
    (outer,) = (
        label
        for label in contraction.rhs
        if label in contraction.result and label not in contraction.lhs
    )
    letter = next(letter for letter in "gGzZ" if letter not in "".join(contraction.rhs))
    at, place = contraction.lhs.index(summed), contraction.rhs.index(outer)
    if rhs.numbers is None or DYNAMIC in lhs.shape:
        raise Refusal(RefusalCode.NOT_CONSTANT, "it has groups, and its weights are not constant")
    lengths = [*lhs.shape[:at], groups, lhs.shape[at] // groups, *lhs.shape[at + 1 :]]
    axes = [[axis + (axis > at)] for axis in range(len(lhs.shape))]
    axes[at] = [at, at + 1]
    ones = [*lhs.zeros.shape, 1]
    left = replace(
        lhs,
        value=builder.expand(cast(SSAValue, lhs.value), axes, lengths),
        zeros=lhs.zeros.reshape(ones),
        scales=lhs.scales.reshape(ones),
    )

    def split(array: NDArray[Any]) -> NDArray[Any]:
        length = array.shape[place]
        parts = (1, 1) if length == 1 else (groups, length // groups)
        return array.reshape([*array.shape[:place], *parts, *array.shape[place + 1 :]])

    right = replace(
        rhs, numbers=split(rhs.numbers), zeros=split(rhs.zeros), scales=split(rhs.scales)
    )
    left_labels = (*contraction.lhs[:at], letter, *contraction.lhs[at:])
    right_labels = (*contraction.rhs[:place], letter, *contraction.rhs[place:])
    result = (f"({letter}{label})" if label == outer else label for label in contraction.result)
    whole = Contraction(left_labels, right_labels, tuple(result))
    moved = [
        replace(window, axes=(one + (one > at), other + (other > place), last))
        for window in windows
        for one, other, last in [window.axes]
    ]
    return whole, moved, left, right, None if bias is None else split(bias)
