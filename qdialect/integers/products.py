"""Sums of products of codes, with zero points, and pools, as `linalg.generic` on integers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from string import ascii_letters
from typing import Any, Final, NamedTuple, TypeAlias, cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import IntegerAttr, IntegerType, TensorType, i8
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from qdialect.algebra.joins import Concat
from qdialect.algebra.movement import DYNAMIC, Movement, Reshape, Shape, Slice, Transpose, inverse
from qdialect.algebra.padding import Pad
from qdialect.integers.rescaling import along, line_of, with_numbers
from qdialect.lowering.storage_ops import (
    Length,
    StorageBuilder,
    move_elements,
)
from qdialect.ops.fields import WINDOW, Contraction, Labels, PoolWindow, Window
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
    """Integers of 8 or 16 bits; None for a constant."""

    numbers: Integers | None = None
    """The codes of a constant, less their zeros."""

    is_unsigned: bool = False
    """Whether the integers are read as unsigned: those of 8 bits may be."""

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

    def transposed(self, builder: StorageBuilder, axes: Sequence[int]) -> Factor:
        """With its axes in another order."""
        value, numbers = self.value, self.numbers
        return replace(
            self,
            zeros=self.zeros.transpose(axes),
            scales=self.scales.transpose(axes),
            value=None if value is None else _moved(builder, Transpose(tuple(axes)), value),
            numbers=None if numbers is None else numbers.transpose(axes),
        )


def _fit(numbers: Integers, dtype: type[np.signedinteger[Any]]) -> bool:
    """Whether integers of a dtype hold numbers."""
    info = np.iinfo(dtype)
    return bool(info.min <= numbers.min(initial=0) and numbers.max(initial=0) <= info.max)


class Layer(NamedTuple):
    """A sum of products. Only a constant factor has scales and zeros along axes."""

    lhs: Factor
    rhs: Factor
    contraction: Contraction
    windows: Sequence[Window]

    bias: Integers | None
    """What is added, on the axes of the constant factor."""

    def upright(self) -> Layer:
        """With weights that no window reverses. Raises Refusal unless they are constant."""
        if not self.windows:
            return self
        if self.rhs.numbers is None:
            raise Refusal(RefusalCode.NOT_CONSTANT, "its windows slide weights that are computed")
        flipped = tuple(window.axes[1] for window in self.windows if window.is_reversed)
        return self._replace(rhs=replace(self.rhs, numbers=np.flip(self.rhs.numbers, flipped)))

    def padded(self, builder: StorageBuilder) -> Layer:
        """With real zeros where windows read padding."""
        pools = {
            window.axes[0]: window.of_size(self.rhs.shape[window.axes[1]])
            for window in self.windows
        }
        codes, zero = cast(SSAValue, self.lhs.value), int(self.lhs.zeros.item())
        value = padded_for(builder, codes, pools, zero)
        plain = [replace(window, low=0, high=0, base_dilation=1) for window in self.windows]
        return self._replace(lhs=replace(self.lhs, value=value), windows=plain)


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

        `factors` are those of the sums, and `span` is the number of codes of the result, and the
        magnitude of its zero point: see docs/integers.md.
        """
        relative = (self.terms + 4) * _UNIT / (1 - (self.terms + 4) * _UNIT)
        sums = (relative * self.magnitudes + self.bias * _UNIT) * factors
        return float(sums.max(initial=0)) + span * _UNIT


_UNIT: Final = 2.0**-24
"""The relative error of a rounding to f32."""

_MOST: Final = {32: 1 << 31, 64: 1 << 47}
"""The magnitudes that accumulators of some bits do not reach. Those of 64 are multiplied again."""


def check_sums(magnitudes: Integers, width: int) -> None:
    """Raise Refusal if sums may overflow an accumulator."""
    if (most := int(magnitudes.max(initial=0))) >= _MOST[width]:
        reason = f"its sums may reach {most}, and {_MOST[width]} overflows"
        raise Refusal(RefusalCode.OVERFLOW, reason)


class _Loops:
    """The loops of a sum of products: those of the result first, then those that are summed."""

    def __init__(self, layer: Layer) -> None:
        contraction, windows = layer.contraction, layer.windows
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
        self.summed = [*self.windows, *contraction.roles(windows).summed]
        self.order = {label: at for at, label in enumerate((*parallel, *self.summed))}

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

    def total(
        self,
        builder: StorageBuilder,
        factor: Factor,
        labels: Sequence[str],
        lengths: Mapping[str, Length],
        type: IntegerType,
    ) -> tuple[SSAValue, AffineMap]:
        """The sums of the codes of a factor that results need, and how results read them."""
        value, flag = cast(SSAValue, factor.value), factor.is_unsigned
        shape = _shape(value)
        windows: dict[int, PoolWindow] = {}
        places: list[int] = []
        for axis, label in enumerate(labels):
            kernel = label.removesuffix(WINDOW)
            if label in self.parallel:
                places.append(self.order[label])
            elif label == kernel:
                windows[axis] = PoolWindow(shape[axis])
            else:
                windows[axis] = self.windows[kernel].of_size(cast(int, lengths[kernel]))
                if not windows[axis].is_all_of(shape[axis]):
                    places.append(self.order[self.positions[kernel]])
        total = pooled(builder, value, windows, (0, 0), type, arith.AddiOp, is_unsigned=flag)
        return total, along(places, len(self.parallel))

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
            lengths[self.positions[kernel]] = window.of_size(size).count(given)
        if not all(isinstance(lengths[label], int) for label in self.summed):
            raise Refusal(RefusalCode.DYNAMIC_SHAPE, "the number of products is not known")
        return lengths


def _letters(label: str) -> list[str]:
    return list(label.strip("()"))


def _shape(value: SSAValue | None) -> Shape:
    return cast("TensorType[Any]", cast(SSAValue, value).type).get_shape()


def _element(value: SSAValue) -> IntegerType:
    return cast("TensorType[IntegerType]", value.type).element_type


def product(builder: StorageBuilder, layer: Layer, *, as_matrices: bool = False) -> Product:
    """
    Insert a sum of products. Raises Refusal.

    With `as_matrices`, it is one of two matrices, unless there are several, or lengths are open.
    """
    layer = layer.upright()
    if layer.windows:
        layer = layer.padded(builder)
    if layer.contraction.groups > 1:
        layer = _ungrouped(builder, layer)
    back: list[Movement] = []
    if math.prod(layer.rhs.shape[window.axes[1]] for window in layer.windows) > 1:
        layer, turn = _with_channels_last(builder, layer)
        back.append(turn)
    if as_matrices and _is_for_matrices(layer):
        layer = _as_matrices(builder, layer, back)
    lhs, rhs = layer.lhs.stored(builder), layer.rhs.stored(builder)
    loops = _Loops(layer)
    sides = (lhs, loops.lhs), (rhs, loops.rhs)
    for factor, labels in sides:
        _check_axes(factor, labels, loops)
    operands = [cast(SSAValue, factor.value) for factor, _ in sides]
    lengths = loops.lengths(builder, *operands)
    count = math.prod(cast(int, lengths[label]) for label in loops.summed)
    known = [side for side in sides if side[0].numbers is not None]
    others = [side for side in sides if side[0].numbers is None]
    rank = len(loops.parallel)
    # The bound, and what does not depend on the other factor.
    offset = added = np.zeros([1] * rank, np.int64)
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
        if layer.bias is not None:
            added = loops.spread(layer.bias, labels)
            offset = offset + added
    else:
        offset = offset + count * int(lhs.zeros.item()) * int(rhs.zeros.item())
    width = 32 if all(_element(operand).bitwidth == 8 for operand in operands) else 64
    magnitudes = bound + np.abs(added)
    check_sums(magnitudes, width)
    type = IntegerType(width)
    init = builder.empty([lengths[label] for label in loops.parallel], type)
    reads: list[tuple[SSAValue, AffineMap, NDArray[Any]]] = []
    for (factor, labels), (other, others_labels) in zip(sides, sides[::-1], strict=True):
        # The zeros of a factor meet the sum of the other one, unless that is constant.
        if factor.zeros.any() and other.numbers is None:
            total, places = loops.total(builder, other, others_labels, lengths, type)
            reads.append((total, places, loops.spread(factor.zeros, labels)))
    dtype = np.dtype(f"i{width // 8}")
    start = builder.generic(init, [], [], lambda inner, _: inner.integer(0, type))

    def element(inner: StorageBuilder, elements: Sequence[SSAValue]) -> SSAValue:
        one, other, total = elements
        wide = inner.extended(one, type, is_unsigned=lhs.is_unsigned)
        wider = inner.extended(other, type, is_unsigned=rhs.is_unsigned)
        term = inner.insert(arith.MuliOp(wide, wider)).result
        return inner.insert(arith.AddiOp(total, term)).result

    maps = [loops.map(labels) for _, labels in sides]
    value = builder.generic(start, operands, maps, element)
    if reads or offset.any():
        value = _corrected(builder, value, reads, offset.astype(dtype))
    scales = loops.spread(lhs.scales, loops.lhs) * loops.spread(rhs.scales, loops.rhs)

    def finish(codes: SSAValue) -> SSAValue:
        codes = builder.collapse(codes, loops.groups)
        for movement in reversed(back):
            codes = _moved(builder, movement, codes)
        return codes

    return Product(value, scales, magnitudes, count, np.abs(added), finish)


def _check_axes(factor: Factor, labels: Sequence[str], loops: _Loops) -> None:
    for label, *lengths in zip(labels, factor.zeros.shape, factor.scales.shape, strict=True):
        if label not in loops.parallel and max(lengths) > 1:
            raise Refusal(RefusalCode.GRANULARITY, "scales differ along an axis that is summed")


def _corrected(
    builder: StorageBuilder,
    value: SSAValue,
    reads: Sequence[tuple[SSAValue, AffineMap, NDArray[Any]]],
    offset: NDArray[np.signedinteger[Any]],
) -> SSAValue:
    """Sums and an offset, less the products of zeros and of sums of codes."""
    lengths = builder.lengths(value)

    def element(
        inner: StorageBuilder, elements: Sequence[SSAValue], known: Sequence[SSAValue]
    ) -> SSAValue:
        total, *sums = elements[:-1]
        # Two's complement: only the last sum has to be in range.
        total = inner.insert(arith.AddiOp(total, known[-1])).result
        for zero, one in zip(known[:-1], sums, strict=True):
            term = inner.insert(arith.MuliOp(zero, one)).result
            total = inner.insert(arith.SubiOp(total, term)).result
        return total

    maps = [AffineMap.identity(len(lengths)), *(map for _, map, _ in reads)]
    inputs = [value, *(total for total, _, _ in reads)]
    known = [*(array.astype(offset.dtype) for *_, array in reads), offset]
    return with_numbers(
        builder, builder.empty(lengths, _element(value)), inputs, maps, known, element
    )


# Windows and groups


def _high_of(window: PoolWindow, length: int) -> int:
    """The number of elements behind an axis, or cropped from it, that windows read."""
    if length == DYNAMIC:
        raise Refusal(RefusalCode.DYNAMIC_SHAPE, "a window slides over an unknown length")
    whole = (length - 1) * window.base_dilation + 1 + window.low + window.high
    # Loops of length 1 are dropped, and then an axis has to have the length of the window.
    unread = (whole - (window.size - 1) * window.dilation - 1) % window.stride
    return window.high - unread


def padded_for(
    builder: StorageBuilder, value: SSAValue, windows: Mapping[int, PoolWindow], code: int
) -> SSAValue:
    """Codes with others where windows read padding, and without those that no window reads."""
    shape = _shape(value)
    used = [windows.get(axis, PoolWindow()) for axis in range(len(shape))]
    highs = [
        _high_of(windows[axis], length) if axis in windows else 0
        for axis, length in enumerate(shape)
    ]
    widths = [window.low for window in used], highs, [window.base_dilation for window in used]
    return padded(builder, value, widths, code)


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


def pooled(
    builder: StorageBuilder,
    value: SSAValue,
    windows: Mapping[int, PoolWindow],
    pads: tuple[int, int],
    type: IntegerType,
    step: Callable[[SSAValue, SSAValue], Any],
    *,
    is_unsigned: bool = False,
) -> SSAValue:
    """
    Integers combined in windows, and along whole axes, which are dropped.

    `pads` are the integer around the windows, and the one that each result starts from.
    """
    shape = _shape(value)
    whole = [axis for axis, window in windows.items() if window.is_all_of(shape[axis])]
    sliding = {axis: window for axis, window in windows.items() if axis not in whole}
    value = padded_for(builder, value, sliding, pads[0])
    kept = [axis for axis in range(len(shape)) if axis not in whole]
    loops = {axis: at for at, axis in enumerate(kept)}
    loops |= {axis: len(kept) + len(sliding) + at for at, axis in enumerate(whole)}
    inner_loops = {axis: len(kept) + at for at, axis in enumerate(sliding)}
    lengths: list[Length] = []
    places: list[AffineExpr] = []
    for axis, length in enumerate(_shape(value)):
        place = AffineExpr.dimension(loops[axis])
        if (window := sliding.get(axis)) is not None:
            lengths.append(window.count(length))
            offset = AffineExpr.dimension(inner_loops[axis]) * window.dilation
            place = place * window.stride + offset
        elif axis in kept:
            lengths.append(builder.length(value, axis))
        places.append(place)
    count = len(kept) + len(sliding) + len(whole)
    inputs, maps = [value], [AffineMap(count, 0, tuple(places))]
    if sliding:
        # Its shape says how far the windows reach.
        inputs.append(builder.empty([window.size for window in sliding.values()], i8))
        maps.append(along([*inner_loops.values()], count))
    init = builder.empty(lengths, type)
    start = builder.generic(init, [], [], lambda inner, _: inner.integer(pads[1], type))

    def element(inner: StorageBuilder, elements: Sequence[SSAValue]) -> SSAValue:
        own = inner.extended(elements[0], type, is_unsigned=is_unsigned)
        return inner.insert(step(elements[-1], own)).result

    return builder.generic(start, inputs, maps, element)


def _with_channels_last(builder: StorageBuilder, layer: Layer) -> tuple[Layer, Transpose]:
    """
    A convolution whose channels are the last axes, and how its result is moved back.

    Loops over channels are those that compilers make vectors of.
    """
    contraction, windows = layer.contraction, layer.windows
    roles = contraction.roles(windows)
    left, right, result = contraction.lhs, contraction.rhs, contraction.result
    slid, kernel, out = ([window.axes[at] for window in windows] for at in (0, 1, 2))
    rows = [*map(result.index, roles.left), *out]
    orders = (
        [*map(left.index, roles.left), *slid, *map(left.index, (*roles.both, *roles.summed))],
        [*kernel, *map(right.index, (*roles.summed, *roles.both, *roles.right))],
        [*rows, *(axis for axis in range(len(result)) if axis not in rows)],
    )
    one, other, last = (
        tuple(labels[axis] for axis in order)
        for labels, order in zip((left, right, result), orders, strict=True)
    )
    lhs, rhs, back = orders
    moved = [
        replace(window, axes=(lhs.index(image), rhs.index(weight), back.index(behind)))
        for window in windows
        for image, weight, behind in [window.axes]
    ]
    turned = Layer(
        layer.lhs.transposed(builder, lhs),
        layer.rhs.transposed(builder, rhs),
        Contraction(one, other, last),
        moved,
        None if layer.bias is None else layer.bias.transpose(rhs),
    )
    return turned, Transpose(inverse(back))


_MOST_POSITIONS: Final = 64
"""The longest window of which a matrix is made, by an op for each position."""


def _is_for_matrices(layer: Layer) -> bool:
    """Whether its factors are two matrices, if windows are moved to one by a few ops."""
    sizes = [layer.rhs.shape[window.axes[1]] for window in layer.windows]
    is_known = DYNAMIC not in (*layer.lhs.shape, *layer.rhs.shape)
    lengths = dict(zip(layer.contraction.rhs, layer.rhs.shape, strict=True))
    batch = math.prod(lengths[label] for label in layer.contraction.roles(layer.windows).both)
    return is_known and batch == 1 and max(sizes, default=1) <= _MOST_POSITIONS


def _as_matrices(builder: StorageBuilder, layer: Layer, back: list[Movement]) -> Layer:
    """
    A layer as a product of two matrices of several rows and columns.

    A vector is a matrix of two equal ones. What makes the result of the layer from the one of the
    product is added to `back`, the last one first.
    """
    lhs, rhs, contraction, _, bias = _with_windows_as_axes(builder, layer)
    roles, result = contraction.roles(), contraction.result
    lengths = dict(zip(contraction.lhs, lhs.shape, strict=True))
    lengths |= zip(contraction.rhs, rhs.shape, strict=True)
    merged = {
        "m": [label for label in result if label in (*roles.left, *roles.both)],
        "k": [label for label in contraction.lhs if label in roles.summed],
        "n": [label for label in result if label in roles.right],
    }

    def order(labels: Sequence[str], pair: str) -> str:
        """The order of two merged axes: one in which no element is moved, if there is one."""
        back_to_front = [label for name in pair[::-1] for label in merged[name]]
        long = [[label for label in part if lengths[label] > 1] for part in (labels, back_to_front)]
        return pair[::-1] if long[0] == long[1] else pair

    def matrix(factor: Factor, labels: Labels, pair: str) -> tuple[Factor, Labels, Integers | None]:
        pair = order(labels, pair)
        axes = [labels.index(label) for name in pair for label in merged[name]]
        shapes = [[lengths[label] for label in merged[name]] for name in pair]
        # A batch of length 1 is one of the rows of the left factor.
        axes += [axis for axis in range(len(labels)) if axis not in axes]
        shapes[1] += [1] * (len(labels) - sum(map(len, shapes)))
        # IREE 3.13 has inner tiles of matrices alone.
        copies = [
            2 if name != "k" and math.prod(shape) == 1 else 1
            for name, shape in zip(pair, shapes, strict=True)
        ]

        def flat(array: NDArray[Any]) -> NDArray[Any]:
            return _merged(array.transpose(axes), shapes)

        value, numbers = factor.value, factor.numbers
        if value is not None:
            value = _moved(builder, Transpose(tuple(axes)), value)
            value = _moved(builder, Reshape(tuple(map(math.prod, shapes))), value)
            for axis, count in enumerate(copies):
                value = _moved(builder, Concat(axis), *[value] * count)
        if numbers is not None:
            numbers = np.tile(flat(numbers), copies)
        turned = replace(
            factor,
            value=value,
            numbers=numbers,
            zeros=flat(factor.zeros),
            scales=flat(factor.scales),
        )
        own = None if bias is None or numbers is None else flat(bias)
        return turned, tuple(pair), own

    left, left_labels, left_bias = matrix(lhs, contraction.lhs, "mk")
    right, right_labels, right_bias = matrix(rhs, contraction.rhs, "kn")
    pair = order(result, "mn")
    new = Contraction(left_labels, right_labels, tuple(pair))
    ordered = [label for name in pair for label in merged[name]]
    sizes = tuple(math.prod(lengths[label] for label in merged[name]) for name in pair)
    back += [
        Transpose(tuple(map(ordered.index, result))),
        Reshape(tuple(lengths[label] for label in ordered)),
        Slice((0, 0), sizes, (1, 1)),
    ]
    return Layer(left, right, new, (), right_bias if left_bias is None else left_bias)


def _merged(array: NDArray[Any], shapes: Sequence[Sequence[int]]) -> NDArray[Any]:
    """An array with groups of axes merged; they have these lengths, or 1."""
    groups: list[Sequence[int]] = []
    for shape in shapes:
        own = array.shape[sum(map(len, groups)) :][: len(shape)]
        groups.append(shape if max(own, default=1) > 1 else own)
    whole = np.broadcast_to(array, [length for group in groups for length in group])
    return whole.reshape([math.prod(group) for group in groups])


def _with_windows_as_axes(builder: StorageBuilder, layer: Layer) -> Layer:
    """
    A layer whose left factor has an axis for the positions in each window, and one for its places.

    The windows of one axis are moved at a time.
    """
    lhs, rhs, contraction, windows, bias = layer
    if not windows:
        return layer
    value = cast(SSAValue, lhs.value)
    left, result = list(contraction.lhs), list(contraction.result)
    unused = (letter for letter in ascii_letters if letter not in {*left, *contraction.rhs})
    end = max(window.axes[0] for window in windows) + 1
    for window in windows:
        axis, shape, size = window.axes[0], _shape(value), rhs.shape[window.axes[1]]
        offsets, strides, sizes = [0] * len(shape), [1] * len(shape), [*shape]
        strides[axis], sizes[axis] = window.stride, window.of_size(size).count(shape[axis])
        apart = Reshape((*sizes[:end], 1, *sizes[end:]))
        parts: list[SSAValue] = []
        for position in range(size):
            offsets[axis] = position * window.dilation
            part = _moved(builder, Slice(tuple(offsets), tuple(sizes), tuple(strides)), value)
            parts.append(_moved(builder, apart, part))
        value = _moved(builder, Concat(end), *parts)
        left[axis] = result[window.axes[2]] = next(unused)
        left.insert(end, contraction.rhs[window.axes[1]])
    ones = (1,) * len(left)
    zeros, scales = lhs.zeros.reshape(ones), lhs.scales.reshape(ones)
    new = Contraction(tuple(left), contraction.rhs, tuple(result))
    return Layer(replace(lhs, value=value, zeros=zeros, scales=scales), rhs, new, (), bias)


def _moved(builder: StorageBuilder, movement: Movement, *values: SSAValue) -> SSAValue:
    type = TensorType(_element(values[0]), movement.result_shape(*map(_shape, values)))
    return move_elements(builder, movement, values, type)


def _ungrouped(builder: StorageBuilder, layer: Layer) -> Layer:
    """A sum of products of groups of channels, with an axis for the groups."""
    lhs, rhs, contraction, windows, bias = layer
    groups, roles = contraction.groups, contraction.roles(windows)
    if rhs.numbers is None or DYNAMIC in lhs.shape:
        raise Refusal(RefusalCode.NOT_CONSTANT, "it has groups, and its weights are not constant")
    if len(roles.summed) != 1 or len(roles.right) != 1:
        raise Refusal(RefusalCode.UNKNOWN_OP, "its groups are of several axes")
    (summed,), (outer,) = roles.summed, roles.right
    letter = next(letter for letter in "gGzZ" if letter not in "".join(contraction.rhs))
    at, place = contraction.lhs.index(summed), contraction.rhs.index(outer)
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
    moved = [
        replace(window, axes=(one + (one > at), other + (other > place), last))
        for window in windows
        for one, other, last in [window.axes]
    ]
    whole = Contraction(left_labels, right_labels, tuple(result))
    return Layer(left, right, whole, moved, None if bias is None else split(bias))
