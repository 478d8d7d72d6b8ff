"""Sums of products, and reductions, as nodes of ONNX."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from xdsl.dialects.builtin import i1, i32
from xdsl.ir import Attribute

from qdialect.algebra.movement import (
    BroadcastInDim,
    Reshape,
    Reverse,
    Shape,
    Slice,
    Transpose,
    inverse,
)
from qdialect.dialects import LARGER, SMALLER, scalar
from qdialect.export.onnx_tensors import Tensor, Tensors, in_graph, name_of_type
from qdialect.ops.fields import Contraction, PoolWindow, Reduction, Window
from qdialect.ops.interface import Refusal, RefusalCode

Labels = list[str]


_CHANNELS: Final = 1
"""The axis of channels in the graph, of results of layers."""


@dataclass
class Layers:
    """Adds the nodes of layers to a graph."""

    tensors: Tensors
    without_bias: dict[str, str] = field(default_factory=dict[str, str])
    """By the name of the result of a layer without a bias, the type of the node with one."""
    means: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])
    """By the name of a sum, how many elements it has, and the name of their mean."""

    def product(
        self,
        lhs: Tensor,
        rhs: Tensor,
        contraction: Contraction,
        windows: Sequence[Window],
        shape: Shape,
    ) -> Tensor:
        """A sum of products, of `shape`, without its bias. Raises Refusal."""
        result = list(contraction.result)
        if windows:
            product, labels = self._convolution(lhs, rhs, contraction, windows)
            for number, window in enumerate(windows):
                result[window.axes[2]] = f"*{number}"
        else:
            if contraction.groups != 1:
                raise Refusal(RefusalCode.UNKNOWN_OP, "it has groups without windows")
            product, labels = self._matrices(lhs, rhs, contraction)
        turned = self._move(product, Transpose(tuple(map(labels.index, result))))
        return self._move(turned, Reshape(shape))

    def _move(self, tensor: Tensor, *movements: Transpose | Reshape | Slice | Reverse) -> Tensor:
        for movement in movements:
            tensor = self.tensors.moved([tensor], movement)
        return tensor

    def _merged(self, tensor: Tensor, groups: Sequence[Sequence[int]]) -> Tensor:
        """The tensor with each group of its axes merged into one."""
        order = tuple(axis for group in groups for axis in group)
        shape = tuple(math.prod(tensor.shape[axis] for axis in group) for group in groups)
        return self._move(tensor, Transpose(order), Reshape(shape))

    def _split(
        self, tensor: Tensor, groups: Sequence[tuple[Sequence[str], Sequence[int]]]
    ) -> tuple[Tensor, Labels]:
        """A tensor whose axes are split into the axes of these labels and lengths."""
        labels = [label for names, _ in groups for label in names]
        lengths = tuple(length for _, many in groups for length in many)
        return self._move(tensor, Reshape(lengths)), labels

    # Convolutions

    def _convolution(
        self,
        lhs: Tensor,
        rhs: Tensor,
        contraction: Contraction,
        windows: Sequence[Window],
    ) -> tuple[Tensor, Labels]:
        left, right = contraction.lhs, contraction.rhs
        roles = contraction.roles(windows)
        slid = [window.axes[0] for window in windows]
        kernel = [window.axes[1] for window in windows]
        batch, grouped, summed = (
            [left.index(label) for label in labels]
            for labels in (roles.left, roles.both, roles.summed)
        )
        groups, inner, outer = (
            [right.index(label) for label in labels]
            for labels in (roles.both, roles.summed, roles.right)
        )
        image = self._merged(lhs, [batch, [*grouped, *summed], *([axis] for axis in slid)])
        sizes = [rhs.shape[axis] for axis in kernel]
        image, windows = self._unpadded(image, windows, sizes, has_groups=contraction.groups != 1)
        is_upsampled = any(window.base_dilation != 1 for window in windows)
        weights = rhs
        flipped = tuple(window.axes[1] for window in windows if window.is_reversed != is_upsampled)
        if flipped:
            weights = self._move(weights, Reverse(flipped))
        if is_upsampled:
            if contraction.groups != 1:
                raise Refusal(RefusalCode.UNKNOWN_OP, "it is transposed, and has groups")
            axes = [[*groups, *inner], outer]
        else:
            axes = [[*groups, *outer], inner]
        weights = self._merged(weights, [*axes, *([axis] for axis in kernel)])
        lengths = [rhs.shape[axis] for axis in (*groups, *outer)]
        count = math.prod(rhs.shape[axis] for axis in groups) * contraction.groups
        product = (
            self._transposed_node(image, weights, windows, count)
            if is_upsampled
            else self._node(image, weights, windows, count)
        )
        names = [right[axis] for axis in (*groups, *outer)]
        joined = f"({''.join(names)})"
        if joined in contraction.result:
            names, lengths = [joined], [math.prod(lengths)]
        return self._split(
            product,
            [
                ([left[at] for at in batch], [lhs.shape[at] for at in batch]),
                (names, lengths),
                *(([f"*{number}"], [length]) for number, length in enumerate(product.shape[2:])),
            ],
        )

    def _node(
        self, image: Tensor, weights: Tensor, windows: Sequence[Window], groups: int
    ) -> Tensor:
        low, high = ([window.low for window in windows], [window.high for window in windows])
        if any(pad < 0 for pad in (*low, *high)):
            raise Refusal(RefusalCode.UNKNOWN_OP, "its padding is negative")
        sizes = weights.shape[2:]
        lists = zip(image.shape[2:], sizes, windows, low, high, strict=True)
        lengths = [
            window.of_size(size).count(n + first + last) for n, size, window, first, last in lists
        ]
        attributes: dict[str, Any] = {
            "strides": [window.stride for window in windows],
            "dilations": [window.dilation for window in windows],
            "pads": [*low, *high],
        }
        shape = (image.shape[0], weights.shape[0], *lengths)
        return self._layer("Conv", image, weights, shape, groups, attributes)

    def _transposed_node(
        self, image: Tensor, weights: Tensor, windows: Sequence[Window], groups: int
    ) -> Tensor:
        """
        A convolution of an image between whose elements there are zeros.

        `weights` are reversed along the windows.
        """
        if not all(map(_is_reached, windows, weights.shape[2:])):
            raise Refusal(
                RefusalCode.UNKNOWN_OP,
                "it has gaps in its operand, and strides, or more padding than its kernel",
            )
        reach = [
            window.dilation * (size - 1)
            for window, size in zip(windows, weights.shape[2:], strict=True)
        ]
        low = [most - window.low for most, window in zip(reach, windows, strict=True)]
        high = [most - window.high for most, window in zip(reach, windows, strict=True)]
        lists = zip(image.shape[2:], windows, reach, low, high, strict=True)
        lengths = [
            (n - 1) * window.base_dilation + 1 + most - first - last
            for n, window, most, first, last in lists
        ]
        # Padding beyond the whole kernel adds zeros after the strided image.
        added = [max(-pad, 0) for pad in high]
        attributes: dict[str, Any] = {
            "strides": [window.base_dilation for window in windows],
            "dilations": [window.dilation for window in windows],
            "pads": [*low, *(max(pad, 0) for pad in high)],
            "output_padding": added,
        }
        shape = (image.shape[0], weights.shape[1] * groups, *lengths)
        return self._layer("ConvTranspose", image, weights, shape, groups, attributes)

    def _layer(
        self,
        type: str,
        image: Tensor,
        weights: Tensor,
        shape: Shape,
        groups: int,
        attributes: dict[str, Any],
    ) -> Tensor:
        zeros = () if weights.codes is None else weights.codes.parameters.cut_zero_points
        if groups > 1 and len(np.unique(zeros)) > 1:
            # ONNX Runtime takes up to 50 times the time of floats for such codes.
            weights = self.tensors.computed(weights)
        names = [
            self.tensors.named(self.tensors.number(image)),
            self.tensors.named(self.tensors.number(weights, is_weight=True)),
        ]
        name = self.tensors.graph.node(
            type, names, group=groups, kernel_shape=list(weights.shape[2:]), **attributes
        )
        self.without_bias[name] = type
        return in_graph(name, shape, image.type)

    def _unpadded(
        self, image: Tensor, windows: Sequence[Window], sizes: Sequence[int], *, has_groups: bool
    ) -> tuple[Tensor, Sequence[Window]]:
        """
        An image without zeros around and between its elements, which windows have instead.

        It is the image itself if no node has such windows.
        """
        padded = self.tensors.without_padding(image)
        if padded is None:
            return image, windows
        lists = [*zip(padded.pad.low, padded.pad.high, padded.pad.gaps, strict=True)]
        if any(map(any, lists[:2])):
            return image, windows
        wider: list[Window] = []
        for window, size, (low, high, gap) in zip(windows, sizes, lists[2:], strict=True):
            low, high = window.low + low, window.high + high
            wide = replace(window, base_dilation=1 + gap, low=low, high=high)
            if window.base_dilation != 1 or (gap and (has_groups or not _is_reached(wide, size))):
                return image, windows
            wider.append(wide)
        return padded.inner, wider

    # Products of matrices

    def _matrices(
        self, lhs: Tensor, rhs: Tensor, contraction: Contraction
    ) -> tuple[Tensor, Labels]:
        if lhs.elements is not None and lhs.codes is not None and rhs.elements is None:
            # Engines have kernels for weights that are the second operand.
            lhs, rhs = rhs, lhs
            contraction = replace(contraction, lhs=contraction.rhs, rhs=contraction.lhs)
        shared = contraction.roles().both
        lhs, left = self._once(lhs, contraction.lhs, shared)
        rhs, right = self._once(rhs, contraction.rhs, shared)
        rows, batch, summed, columns = replace(contraction, lhs=left, rhs=right).roles()
        lengths = dict(zip((*left, *right), (*lhs.shape, *rhs.shape), strict=True))

        sizes = [[lengths[name] for name in names] for names in (batch, rows, columns)]
        is_shared = all(lengths[name] == 1 for name in batch)
        apart, among = ([], batch) if is_shared else (batch, [])

        def matrix(tensor: Tensor, side: Sequence[str], first: Labels, last: Labels) -> Tensor:
            groups = [*([label] for label in apart), among + first, last]
            return self._merged(tensor, [[*map(side.index, group)] for group in groups])

        one = matrix(lhs, left, rows, summed)
        other = matrix(rhs, right, summed, columns)
        names = [
            self.tensors.named(self.tensors.number(one)),
            self.tensors.named(self.tensors.number(other, is_weight=True)),
        ]
        name = self.tensors.graph.node("MatMul", names)
        shape = (*one.shape[:-1], other.shape[-1])
        if is_shared:
            self.without_bias[name] = "Gemm"
        product = in_graph(name, shape, lhs.type)
        return self._split(product, list(zip((batch, rows, columns), sizes, strict=True)))

    def _once(
        self, tensor: Tensor, labels: Sequence[str], shared: Labels
    ) -> tuple[Tensor, tuple[str, ...]]:
        """An operand without the shared axes that it only repeats its elements along."""
        small = self.tensors.without_repeats(tensor)
        lengths = [*zip(labels, tensor.shape, small.shape, strict=True)]
        kept = [
            at for at, (label, n, once) in enumerate(lengths) if label not in shared or n == once
        ]
        sizes = tuple(n if at in kept else 1 for at, n in enumerate(tensor.shape))
        if small.shape != sizes:
            small = self._move(tensor, Slice((0,) * len(sizes), sizes, (1,) * len(sizes)))
        shape = tuple(sizes[at] for at in kept)
        return self._move(small, Reshape(shape)), tuple(labels[at] for at in kept)

    # Biases

    def with_bias(self, product: Tensor, bias: Tensor) -> Tensor | None:
        """
        The result of a layer with a bias, which its node adds.

        None unless the bias is known, and the same for all positions of a channel.
        """
        inner = product if product.base is None else product.base
        type = self.without_bias.get(inner.name)
        if type is None or bias.elements is None or len(bias.shape) > len(product.shape):
            return None
        rank, axis = len(inner.shape), inner.order.index(_CHANNELS)
        sizes = tuple(n if at == axis else 1 for at, n in enumerate(inner.shape))
        whole = BroadcastInDim.trailing(bias.shape, product.shape)
        spread = self._move(self.tensors.moved([bias], whole), Reshape(inner.shape))
        assert spread.elements is not None
        steps = zip(spread.elements.strides, sizes, inner.shape, strict=True)
        if any(step for step, size, n in steps if size < n):
            return None
        first = Slice((0,) * rank, sizes, (1,) * rank)
        line = self._move(spread, first, Reshape((inner.shape[axis],)))
        if line.codes is not None and line.codes.parameters.storage.width < 32:
            line = self.tensors.computed(line)
        added = self.tensors.named(self.tensors.number(line))
        self.tensors.graph.add_input(inner.name, type, added)
        del self.without_bias[inner.name]
        return product

    # Reductions

    def reduced(self, tensor: Tensor, reduction: Reduction, shape: Shape) -> Tensor:
        """Elements combined along axes or in windows, without the initial element."""
        function = _OF_TRUTHS.get(reduction.function) if tensor.type == i1 else None
        if function is not None:
            numbers = self._cast(tensor, i32)
            total = self.reduced(numbers, reduction._replace(function=function), shape)
            return self._cast(total, i1)
        kind = REDUCTIONS.get(reduction.function)
        if kind is None:
            raise Refusal(
                RefusalCode.UNKNOWN_OP, f"ONNX has no reduction by '{reduction.function}'"
            )
        windows = reduction.windows
        if not windows:
            # Without axes, ONNX would reduce all.
            return tensor
        is_whole = all(window.is_all_of(tensor.shape[axis]) for axis, window in windows.items())
        if is_whole:
            kind = "ReduceMean" if reduction.is_mean else kind
            drawn = self.tensors.drawn(self.tensors.number(tensor))
            graph = self.tensors.graph
            axes = graph.integers([drawn.order[axis] for axis in windows])
            name = graph.node(kind, [drawn.name, axes], keepdims=1)
            if kind == "ReduceSum":
                count = math.prod(tensor.shape[axis] for axis in windows)
                self.means[name] = count, graph.node("ReduceMean", [drawn.name, axes], keepdims=1)
            kept = tuple(1 if axis in windows else n for axis, n in enumerate(tensor.shape))
            drawn = Tensor(kept, drawn.type, name=name, order=drawn.order)
            return self._move(drawn, Reshape(shape))
        if kind == "ReduceSum" and (running := self._running(tensor, reduction)) is not None:
            return running
        return self._pool(tensor, reduction, shape)

    def _running(self, tensor: Tensor, reduction: Reduction) -> Tensor | None:
        """The sums of windows that reach from each element to an end; None for other windows."""
        windows = [(axis, one) for axis, one in reduction.windows.items() if one != PoolWindow()]
        if len(windows) != 1 or reduction.is_mean:
            return None
        ((axis, window),) = windows
        size = tensor.shape[axis]
        ends = [PoolWindow(size, low=size - 1), PoolWindow(size, high=size - 1)]
        if window not in ends:
            return None
        drawn, graph = self.tensors.drawn(self.tensors.number(tensor)), self.tensors.graph
        if name_of_type(drawn.type) not in _SUMMED:
            raise Refusal(RefusalCode.ILLEGAL_TYPE, f"it has running sums of '{drawn.type}'")
        place = graph.constant(np.array(drawn.order[axis]), "INT64")
        name = graph.node("CumSum", [drawn.name, place], reverse=ends.index(window))
        return replace(drawn, name=name)

    def _cast(self, tensor: Tensor, type: Attribute) -> Tensor:
        graph, drawn = self.tensors.graph, self.tensors.drawn(tensor)
        number = graph.number_of(name_of_type(type))
        return replace(drawn, name=graph.node("Cast", [drawn.name], to=number), type=type)

    def _pool(self, tensor: Tensor, reduction: Reduction, shape: Shape) -> Tensor:
        windows = reduction.windows
        if any(window.base_dilation != 1 for window in windows.values()):
            raise Refusal(RefusalCode.UNKNOWN_OP, "it has gaps in its operand")
        if REDUCTIONS.get(reduction.function) == "ReduceMax":
            tensor, windows = self._with_pads(tensor, windows)
        cut = tuple(
            n + min(0, windows[axis].high if axis in windows else 0)
            for axis, n in enumerate(tensor.shape)
        )
        tensor = self._move(tensor, Slice((0,) * len(cut), cut, (1,) * len(cut)))
        others = [axis for axis in range(len(tensor.shape)) if axis not in windows]
        image = self._merged(tensor, [others[:1], others[1:], *([axis] for axis in windows)])
        used = [*windows.values()]
        attributes: dict[str, Any] = {
            "kernel_shape": [window.size for window in used],
            "strides": [window.stride for window in used],
            "pads": [*(window.low for window in used), *(max(0, window.high) for window in used)],
        }
        if any(window.dilation > 1 for window in used):
            # Kernels of integers have no such attribute.
            attributes["dilations"] = [window.dilation for window in used]
        lengths = [shape[axis] for axis in windows]
        count = math.prod(window.size for window in used)
        graph = self.tensors.graph
        pooled = (*image.shape[:2], *lengths)
        if REDUCTIONS[reduction.function] == "ReduceMax":
            codes = image.codes
            if codes is not None and codes.is_single() and codes.parameters.storage.width <= 8:
                name = graph.node("MaxPool", [self.tensors.named(image)], **attributes)
                result = in_graph(name, pooled, tensor.type, codes.spread(pooled))
            else:
                number = self.tensors.named(self.tensors.number(image))
                result = in_graph(
                    graph.node("MaxPool", [number], **attributes), pooled, tensor.type
                )
        elif REDUCTIONS[reduction.function] == "ReduceSum":
            number = self.tensors.named(self.tensors.number(image))
            counts_pads = int(not reduction.is_mean)
            name = graph.node("AveragePool", [number], count_include_pad=counts_pads, **attributes)
            if not reduction.is_mean:
                kind = {"f32": "FLOAT", "f64": "DOUBLE"}.get(str(tensor.type))
                if kind is None:
                    raise Refusal(RefusalCode.ILLEGAL_TYPE, f"it pools '{tensor.type}'")
                dtype = np.float32 if kind == "FLOAT" else np.float64
                mean = name
                name = graph.node("Mul", [name, graph.constant(np.array(count, dtype), kind)])
                self.means[name] = count, mean
            result = in_graph(name, pooled, tensor.type)
        else:
            raise Refusal(RefusalCode.UNKNOWN_OP, "ONNX has no such pool")
        axes = (*others, *windows)
        return self._move(
            result, Reshape(tuple(shape[axis] for axis in axes)), Transpose(inverse(axes))
        )

    def _with_pads(
        self, tensor: Tensor, windows: Mapping[int, PoolWindow]
    ) -> tuple[Tensor, Mapping[int, PoolWindow]]:
        """What a maximum is of, with the least numbers around it as padding of its windows."""
        padded = self.tensors.without_padding(tensor, is_lowest=True)
        if padded is None or any(padded.pad.gaps):
            return tensor, windows
        wider = {
            axis: replace(
                window,
                low=window.low + padded.pad.low[axis],
                high=window.high + padded.pad.high[axis],
            )
            for axis, window in windows.items()
        }
        widths = zip(padded.pad.low, padded.pad.high, strict=True)
        others = [
            width for axis, pair in enumerate(widths) if axis not in windows for width in pair
        ]
        if any(others) or any(max(one.low, one.high) >= one.size for one in wider.values()):
            return tensor, windows
        return padded.inner, wider


SUM: Final = "numpy:add"
MAXIMUM: Final = scalar("larger")

REDUCTIONS: Final = {
    SUM: "ReduceSum",
    "numpy:multiply": "ReduceProd",
    **dict.fromkeys(LARGER, "ReduceMax"),
    **dict.fromkeys(SMALLER, "ReduceMin"),
}
"""The reductions of ONNX, by the function of two elements."""

_SUMMED: Final = frozenset({"FLOAT", "DOUBLE", "INT32", "INT64"})
"""The types of running sums."""

_OF_TRUTHS: Final = {
    "numpy:bitwise_and": "numpy:minimum",
    "numpy:bitwise_or": "numpy:maximum",
    "numpy:logical_and": "numpy:minimum",
    "numpy:logical_or": "numpy:maximum",
}
"""Functions of truth values as those of 0 and 1."""


def _is_reached(window: Window, size: int) -> bool:
    """Whether a kernel of that size, with gaps in its operand, is a transposed one."""
    reach = window.dilation * (size - 1)
    is_padded = window.low <= reach and window.high - reach < window.base_dilation
    return window.stride == 1 and is_padded
