"""Integer arithmetic in TOSA: https://www.mlplatform.org/tosa/tosa_spec.html."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from typing_extensions import override
from xdsl.dialects.builtin import IntegerType, TensorType, i8, i32
from xdsl.ir import SSAValue

from qdialect.algebra.movement import DYNAMIC, Reshape, Shape, Transpose
from qdialect.dialects.tosa.integer_ops import ZERO_SHIFT, TosaIntegers
from qdialect.integers.forms import Codes, Form, Goal, shape_of_integers
from qdialect.integers.products import Factor, Layer, Product, check_sums, padded_for
from qdialect.integers.rescaling import Addend, multipliers
from qdialect.lowering.storage_ops import ContextBuilder, Length, move_elements
from qdialect.ops.fields import Contraction, PoolWindow
from qdialect.ops.refusals import Refusal, RefusalCode
from qdialect.support.lazy_numpy import NDArray, np

_ONE: Final = (np.array([1 << 30]), np.array([30]))
"""The multiplier and the shift of a factor of 1."""

_MOST: Final = 1 << 31
"""The magnitude that integers of 32 bits do not reach."""


class TosaForm(Form):
    """Ops of TOSA on integers of 8 bits, with sums of 32."""

    def __init__(self, builder: ContextBuilder) -> None:
        super().__init__(builder)
        self.writer = TosaIntegers(builder.make)

    # Elements

    @override
    def plain(self, codes: Codes, *, is_unsigned: bool = False) -> tuple[SSAValue, int]:
        if codes.width != 8:
            raise Refusal(RefusalCode.STORAGE, "TOSA's sums of products are of 8 bits")
        if not codes.is_unsigned:
            return codes.value, codes.zero_point
        return self._less_half(codes.value), codes.zero_point - ZERO_SHIFT

    def _less_half(self, value: SSAValue) -> SSAValue:
        """Unsigned codes as signed ones, less half of them."""
        # The point of zero is stored as its bits.
        return self.writer.rescale(value, *_ONE, (-ZERO_SHIFT, 0), i8, is_unsigned=(True, False))

    def _from_signed(self, value: SSAValue, goal: Goal, limits: tuple[int, int]) -> SSAValue:
        """Codes of signed integers, less the shift if codes are unsigned, between limits."""
        low, high = limits
        if low > -ZERO_SHIFT or high < ZERO_SHIFT - 1:
            value = self.writer.clamp(value, limits)
        if not goal.is_unsigned:
            return value
        return self.writer.rescale(value, *_ONE, (0, -ZERO_SHIFT), i8, is_unsigned=(False, True))

    def _limits(self, goal: Goal) -> tuple[int, int]:
        shift = ZERO_SHIFT if goal.is_unsigned else 0
        low, high = goal.limits
        return low - shift, high - shift

    @override
    def rescaled(
        self, addends: Sequence[Addend], lengths: Sequence[Length], goal: Goal
    ) -> SSAValue:
        if goal.width != 8:
            raise Refusal(RefusalCode.STORAGE, "TOSA rescales to 8 bits")
        zero = goal.zero_point - (ZERO_SHIFT if goal.is_unsigned else 0)
        parts = [self._plain(addend, len(lengths)) for addend in addends]
        if len(parts) > 1:
            parts = [self._added(parts)]
        (part,) = parts
        (m,), shift = multipliers([part.factors])
        axes = [axis for axis, length in enumerate(part.factors.shape) if length > 1]
        rank = part.factors.ndim
        if axes not in ([], [rank - 1]):
            raise Refusal(RefusalCode.GRANULARITY, "TOSA rescales along the last axis only")
        if (most := int(part.bound * np.abs(part.factors).max()) + 1 + abs(zero)) >= _MOST:
            raise Refusal(RefusalCode.OVERFLOW, f"TOSA's rescale wraps, and it may reach {most}")
        value = self.writer.rescale(
            part.value, m.reshape(-1), shift.reshape(-1), (part.zero_point, zero), i8
        )
        return self._from_signed(value, goal, self._limits(goal))

    def _plain(self, addend: Addend, rank: int) -> Addend:
        """An addend of signed integers, with the axes of the result."""
        if [*addend.axes] != [*range(rank)]:
            raise Refusal(RefusalCode.GRANULARITY, "an operand is broadcast")
        width = cast("TensorType[IntegerType]", addend.value.type).element_type.bitwidth
        if width not in (8, 32):
            raise Refusal(RefusalCode.STORAGE, "TOSA rescales integers of 8 and 32 bits")
        if not addend.is_unsigned:
            return addend
        value, zero = self._less_half(addend.value), addend.zero_point - ZERO_SHIFT
        return addend._replace(value=value, zero_point=zero, is_unsigned=False)

    def _added(self, parts: Sequence[Addend]) -> Addend:
        """A sum of rescaled integers of 32 bits, with as many digits as fit."""
        reach = sum(part.bound * float(np.abs(part.factors).max()) for part in parts) + 2
        digits = 31 - math.frexp(reach)[1]
        total: SSAValue | None = None
        for part in parts:
            (m,), shift = multipliers([np.ldexp(np.abs(part.factors), digits)])
            value = self.writer.rescale(
                part.value, m.reshape(-1), shift.reshape(-1), (part.zero_point, 0), i32
            )
            if total is None:
                total = value
            else:
                is_negative = bool((part.factors < 0).any())
                add = self.writer.subtract if is_negative else self.writer.add
                total = add(total, value)
        shape = parts[0].factors.shape
        scale = np.full([1] * len(shape), math.ldexp(1.0, -digits))
        bound = int(math.ldexp(reach, digits))
        return Addend(cast(SSAValue, total), range(len(shape)), scale, 0, bound)

    @override
    def multiplied(
        self,
        codes: Sequence[Codes],
        axes: Sequence[Sequence[int | None]],
        lengths: Sequence[Length],
    ) -> SSAValue:
        wide: list[SSAValue] = []
        for part, places in zip(codes, axes, strict=True):
            if [*places] != [*range(len(lengths))]:
                raise Refusal(RefusalCode.GRANULARITY, "an operand is broadcast")
            value, zero = self.plain(part)
            wide.append(self.writer.rescale(value, *_ONE, (zero, 0), i32))
        return self.writer.multiply(*wide)

    @override
    def within(self, value: SSAValue, goal: Goal) -> SSAValue:
        codes = Codes(goal.type, value)
        plain, _ = self.plain(codes)
        return self._from_signed(plain, goal, self._limits(goal))

    @override
    def looked_up(self, codes: Codes, table: NDArray[np.int64], goal: Goal) -> SSAValue:
        if goal.width != 8:
            raise Refusal(RefusalCode.STORAGE, "TOSA's tables are of 8 bits")
        value, _ = self.plain(codes)
        shift = ZERO_SHIFT if codes.is_unsigned else 0
        low, high = (end - shift for end in codes.limits)
        # Codes out of the range of the type do not occur.
        whole = np.pad(table, (low + ZERO_SHIFT, ZERO_SHIFT - 1 - high), mode="edge")
        entries = whole - (ZERO_SHIFT if goal.is_unsigned else 0)
        read = self.writer.look_up(value, entries)
        return self._from_signed(read, goal, (-ZERO_SHIFT, ZERO_SHIFT - 1))

    # Sums of products

    @override
    def product(self, layer: Layer) -> Product:
        layer = layer.upright()
        lhs, rhs, contraction, windows, bias = layer
        if any(DYNAMIC in factor.shape for factor in (lhs, rhs)):
            raise Refusal(RefusalCode.DYNAMIC_SHAPE, "a length is only known at run time")
        if windows:
            return self._convolution(layer)
        if contraction.groups > 1:
            raise Refusal(RefusalCode.UNKNOWN_OP, "it has groups, and no windows")
        if rhs.numbers is None and lhs.numbers is not None:
            # Channels are the last axis.
            turned = Contraction(contraction.rhs, contraction.lhs, contraction.result)
            layer = Layer(rhs, lhs, turned, windows, bias)
        return self._matrices(layer)

    def _weights(
        self, rhs: Factor, order: Sequence[int], shape: Shape, channels: Sequence[int]
    ) -> tuple[NDArray[Any], int, NDArray[np.float64]]:
        """Constant weights in an order and a shape, their zero, and the scales of channels."""
        numbers = cast("NDArray[Any]", rhs.numbers)
        zeros = np.zeros(1, np.int64)
        codes = numbers
        if numbers.min(initial=0) < -ZERO_SHIFT or numbers.max(initial=0) >= ZERO_SHIFT:
            if rhs.zeros.size > 1 and (rhs.zeros != rhs.zeros.flat[0]).any():
                raise Refusal(
                    RefusalCode.ZERO_POINT, "zero points of weights differ between channels"
                )
            zeros = rhs.zeros.reshape(-1)[:1]
            codes = numbers + zeros[0].astype(numbers.dtype)
        if codes.min(initial=0) < -ZERO_SHIFT or codes.max(initial=0) >= ZERO_SHIFT:
            raise Refusal(RefusalCode.STORAGE, "TOSA's weights are of 8 bits")
        placed = codes.transpose(order).reshape(shape).astype(np.int8)
        return placed, int(zeros[0]), _on_channels(rhs.scales, rhs.shape, channels)

    def _convolution(self, layer: Layer) -> Product:
        contraction, windows = layer.contraction, layer.windows
        if len(windows) != 2:
            raise Refusal(RefusalCode.UNKNOWN_OP, f"it has windows along {len(windows)} axes")
        lhs, rhs = layer.padded(self.builder).lhs, layer.rhs
        numbers = cast("NDArray[Any]", rhs.numbers)
        left, right, roles = contraction.lhs, contraction.rhs, contraction.roles(windows)
        slid, kernel = ([window.axes[at] for window in windows] for at in (0, 1))
        image_channels = [*map(left.index, (*roles.both, *roles.summed))]
        shared, inner, outer = (
            [*map(right.index, labels)] for labels in (roles.both, roles.summed, roles.right)
        )
        count = math.prod(lhs.shape[at] for at in image_channels)
        per_group = math.prod(numbers.shape[at] for at in inner)
        groups = contraction.groups
        is_by_channel = bool(shared) or groups == count
        if (is_by_channel and per_group > 1) or (groups > 1 and groups != count):
            raise Refusal(RefusalCode.UNKNOWN_OP, "TOSA has no groups of several channels")
        batch = [*map(left.index, roles.left)]
        value = cast(SSAValue, lhs.value)
        image = self._merged(value, [batch, *([at] for at in slid), image_channels])
        sizes = [numbers.shape[at] for at in kernel]
        channels = [*shared, *outer]
        total = math.prod(numbers.shape[at] for at in channels)
        if is_by_channel:
            order = [*kernel, *shared, *inner, *outer]
            shape = (*sizes, count, total // count)
        else:
            order, shape = [*outer, *kernel, *inner], (total, *sizes, per_group)
        weights, zero, scales = self._weights(rhs, order, shape, channels)
        bound, terms = _bound(numbers, channels, lhs.magnitude)
        added = _added(layer, channels)
        check_sums(bound + np.abs(added), 32)
        images = shape_of_integers(image)
        plain = [window.of_size(size) for window, size in zip(windows, sizes, strict=True)]
        reach = [window.count(n) for window, n in zip(plain, images[1:3], strict=True)]
        value = self.writer.convolution(
            image,
            self.writer.integers(weights, i8),
            self.writer.integers(np.broadcast_to(added, [total]).astype(np.int32), i32),
            (int(lhs.zeros.item()), zero),
            [(window.stride, window.dilation) for window in windows],
            (images[0], *reach, total),
            is_by_channel=is_by_channel,
        )
        names = [*(left[at] for at in batch), "*0", "*1", *(right[at] for at in channels)]
        lengths = [*(lhs.shape[at] for at in batch), *reach]
        lengths += [numbers.shape[at] for at in channels]
        labels = list(contraction.result)
        for number, window in enumerate(windows):
            labels[window.axes[2]] = f"*{number}"

        def finish(codes: SSAValue) -> SSAValue:
            return self._placed(codes, names, lengths, labels)

        return _product(value, scales * lhs.scales.item(), bound, np.abs(added), terms, finish)

    def _matrices(self, layer: Layer) -> Product:
        contraction = layer.contraction
        lhs, rhs, left, right = layer.lhs, layer.rhs, contraction.lhs, contraction.rhs
        rows, batch, summed, columns = contraction.roles()
        lengths = dict(zip((*left, *right), (*lhs.shape, *rhs.shape), strict=True))
        one = self._merged(
            cast(SSAValue, lhs.value),
            [[left.index(label) for label in labels] for labels in (batch, rows, summed)],
        )
        order = [right.index(label) for label in (*batch, *summed, *columns)]
        shape = tuple(
            math.prod(lengths[label] for label in labels) for labels in (batch, summed, columns)
        )
        channels = [*map(right.index, columns)]
        added = _added(layer, channels)
        if rhs.numbers is None:
            groups = [[right.index(label) for label in part] for part in (batch, summed, columns)]
            other = self._merged(cast(SSAValue, rhs.value), groups)
            zero, scales = int(rhs.zeros.item()), rhs.scales.reshape(-1)
            terms = shape[1]
            bound = np.array([terms * lhs.magnitude * rhs.magnitude])
        else:
            weights, zero, scales = self._weights(rhs, order, shape, channels)
            other = self.writer.integers(weights, i8)
            bound, terms = _bound(rhs.numbers, channels, lhs.magnitude)
        check_sums(bound + np.abs(added), 32)
        value = self.writer.matrices(one, other, (int(lhs.zeros.item()), zero))
        if added.any():
            line = added.reshape(1, 1, -1).astype(np.int32)
            value = self.writer.add(value, self.writer.integers(line, i32))
        names = [*batch, *rows, *columns]

        def finish(codes: SSAValue) -> SSAValue:
            sizes = [lengths[name] for name in names]
            return self._placed(codes, names, sizes, contraction.result)

        return _product(value, scales * lhs.scales.item(), bound, np.abs(added), terms, finish)

    # Pools

    @override
    def largest(
        self,
        value: SSAValue,
        windows: Mapping[int, PoolWindow],
        code: int,
        goal: Goal,
        *,
        is_least: bool,
    ) -> SSAValue:
        plain, _ = self.plain(Codes(goal.type, value))
        shift = ZERO_SHIFT if goal.is_unsigned else 0
        name = "min" if is_least else "max"
        pooled = self._pooled(plain, windows, code - shift, name)
        return self._from_signed(pooled, goal, (-ZERO_SHIFT, ZERO_SHIFT - 1))

    @override
    def total(
        self, codes: Codes, windows: Mapping[int, PoolWindow], count: int
    ) -> tuple[SSAValue, int]:
        value, zero = self.plain(codes)
        shape = shape_of_integers(value)
        if all(window.is_all_of(shape[axis]) for axis, window in windows.items()):
            value = self.writer.rescale(value, *_ONE, (zero, 0), i32)
            zero = 0
        return self._pooled(value, windows, zero, "sum"), 0

    def _pooled(
        self, value: SSAValue, windows: Mapping[int, PoolWindow], code: int, name: str
    ) -> SSAValue:
        """Integers combined in windows, or along whole axes, which are dropped."""
        shape = shape_of_integers(value)
        whole = [axis for axis, window in windows.items() if window.is_all_of(shape[axis])]
        if len(whole) == len(windows):
            for axis in whole:
                value = self.writer.reduced(name, value, axis)
            kept = tuple(n for axis, n in enumerate(shape) if axis not in whole)
            return self._moved(value, Reshape(kept))
        slid = [*windows]
        if len(slid) != 2 or name == "min":
            raise Refusal(RefusalCode.UNKNOWN_OP, "TOSA has no such pool")
        value = padded_for(self.builder, value, windows, code)
        others = [axis for axis in range(len(shape)) if axis not in windows]
        image = self._merged(value, [others[:1], *([axis] for axis in slid), others[1:]])
        images = shape_of_integers(image)
        used = [*windows.values()]
        reach = [window.count(n) for window, n in zip(used, images[1:3], strict=True)]
        pooled_shape = (images[0], *reach, images[3])
        sizes = [window.size for window in used]
        if name == "max":
            if any(window.dilation > 1 for window in used):
                raise Refusal(RefusalCode.UNKNOWN_OP, "TOSA has no such pool")
            strides = [window.stride for window in used]
            pooled = self.writer.largest(image, sizes, strides, pooled_shape)
        else:
            ones = self.writer.integers(np.ones((*sizes, images[3], 1), np.int8), i8)
            nothing = self.writer.integers(np.zeros(images[3], np.int32), i32)
            pairs = [(window.stride, window.dilation) for window in used]
            pooled = self.writer.convolution(
                image, ones, nothing, (code, 0), pairs, pooled_shape, is_by_channel=True
            )
        axes = [*others[:1], *slid, *others[1:]]
        counts = dict(zip(slid, reach, strict=True))
        # A window that is all of an axis has one position, which is dropped.
        names = [str(axis) for axis in axes if axis not in whole]
        lengths = [counts.get(axis, shape[axis]) for axis in axes if axis not in whole]
        return self._placed(pooled, names, lengths, sorted(names, key=int))

    def _moved(self, value: SSAValue, *movements: Reshape | Transpose) -> SSAValue:
        for movement in movements:
            element = cast("TensorType[Any]", value.type).element_type
            shape = movement.result_shape(shape_of_integers(value))
            value = move_elements(self.builder, movement, [value], TensorType(element, shape))
        return value

    def _merged(self, value: SSAValue, groups: Sequence[Sequence[int]]) -> SSAValue:
        """The value with each group of its axes merged into one."""
        order = tuple(axis for group in groups for axis in group)
        shape = shape_of_integers(value)
        merged = tuple(math.prod(shape[axis] for axis in group) for group in groups)
        return self._moved(value, Transpose(order), Reshape(merged))

    def _placed(
        self, value: SSAValue, names: Sequence[str], lengths: Sequence[int], labels: Sequence[str]
    ) -> SSAValue:
        """A value with axes of these names, on those of labels, which may be several names."""
        groups = [[label] if label in names else list(label.strip("()")) for label in labels]
        order = tuple(names.index(name) for group in groups for name in group)
        sizes = dict(zip(names, lengths, strict=True))
        merged = tuple(math.prod(sizes[name] for name in group) for group in groups)
        return self._moved(value, Reshape(tuple(lengths)), Transpose(order), Reshape(merged))


def _bound(
    numbers: NDArray[Any], channels: Sequence[int], magnitude: int
) -> tuple[NDArray[np.int64], int]:
    """The magnitude that the sums of each channel do not exceed, and the number of products."""
    summed = tuple(axis for axis in range(numbers.ndim) if axis not in channels)
    totals = np.abs(numbers).sum(summed, np.int64, keepdims=True)
    placed = _on_channels(totals, numbers.shape, channels)
    return placed * magnitude, math.prod(numbers.shape[axis] for axis in summed)


def _on_channels(array: NDArray[Any], shape: Shape, channels: Sequence[int]) -> NDArray[Any]:
    """Numbers on the axes of weights, along their channels; one number if all are equal."""
    if array.size == 1:
        return array.reshape(1)
    if any(n > 1 for axis, n in enumerate(array.shape) if axis not in channels):
        raise Refusal(RefusalCode.GRANULARITY, "scales differ along an axis that is no channel")
    others = [axis for axis in range(array.ndim) if axis not in channels]
    placed = array.transpose([*channels, *others]).reshape([array.shape[at] for at in channels])
    return np.broadcast_to(placed, [shape[at] for at in channels]).reshape(-1)


def _added(layer: Layer, channels: Sequence[int]) -> NDArray[np.int64]:
    """The bias along the channels of the weights."""
    if layer.bias is None:
        return np.zeros(1, np.int64)
    return _on_channels(layer.bias, layer.rhs.shape, channels)


def _product(
    value: SSAValue,
    scales: NDArray[np.float64],
    bound: NDArray[np.int64],
    bias: NDArray[np.int64],
    terms: int,
    finish: Callable[[SSAValue], SSAValue],
) -> Product:
    ones = [1] * (len(shape_of_integers(value)) - 1)
    magnitudes, added = ((part.reshape([*ones, -1])) for part in (bound + bias, bias))
    return Product(value, scales.reshape([*ones, -1]), magnitudes, terms, added, finish)
