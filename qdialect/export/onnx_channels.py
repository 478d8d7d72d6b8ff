"""
Channels as ONNX Runtime has fast convolutions of integers for.

These take channels by eights, and by sixteens if each has weights of its own; for others, it takes
up to three times as long, and up to fourteen times if several read one channel of the image: that
is repeated then. Where only layers write and read channels, there are more of them: copies
of the last one, with weights of zero where they are read. It computes with channels last: there,
reductions are faster axis by axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from qdialect.export.onnx_functions import NODES
from qdialect.export.onnx_graph import Graph

_REDUCTIONS: Final = frozenset({"ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"})

_BY_CHANNEL: Final = {
    *NODES.values(),
    *("AveragePool", "Clip", "DequantizeLinear", "HardSigmoid", "HardSwish", "MaxPool"),
    *("QuantizeLinear", "Relu"),
}
"""Nodes that compute each channel of their result from that of their inputs, and single numbers."""


_SMALL_WINDOW: Final = 16
"""The most positions of windows for which all images get channels: 0.6 to 0.9 of the time."""


class _Layer(NamedTuple):
    """A convolution of codes."""

    node: Any
    image: Any
    weights: Any
    """The casts that it reads."""
    axis: int
    """That of the image's channels in its cast, behind which there may be a transpose."""
    shape: Sequence[int]
    """Of the weights."""
    lines: Sequence[tuple[Any, int]]
    """The inputs of nodes that have elements for each channel of the result."""
    groups: int

    @property
    def is_apart(self) -> bool:
        """Whether each channel has weights of its own."""
        return self.groups > 1


class _Group(NamedTuple):
    """The names of values that have the same channels, and the nodes that write and read them."""

    names: list[Any]
    writers: list[Any]
    readers: list[Any]
    reductions: list[Any]
    others: list[Any]
    """Nodes that need as many channels as there are."""

    def lacking(self) -> int:
        """How many channels there are too few for kernels; 0 if the number cannot change."""
        counts = {layer.shape[0] for layer in self.writers}
        counts |= {layer.shape[1] for layer in self.readers}
        ranks = {len(layer.shape) for layer in (*self.writers, *self.readers)}
        if self.others or len(counts) != 1 or len(ranks) != 1:
            return 0
        (count,) = counts
        is_apart = any(layer.is_apart for layer in self.writers)
        return -count % (16 if is_apart or count < 16 else 8)


def fit_channels(graph: Graph) -> None:
    """Have a graph compute channels that fast kernels take, in an order that is fast for them."""
    for group in _groups(graph):
        count = group.lacking()
        for layer in group.writers:
            for node, at in layer.lines if count else ():
                line = graph.array(node.input[at])
                widths = [(0, count), *[(0, 0)] * (line.ndim - 1)]
                node.input[at] = graph.like(node.input[at], np.pad(line, widths, "edge"))
            if layer.is_apart:
                _repeat(graph, layer, count)
        for layer in group.readers:
            if not (added := count or _padded(graph, layer)):
                continue
            weights, zeros = (graph.array(layer.weights.input[at]) for at in (0, 2))
            shape = (len(weights), added, *weights.shape[2:])
            fill = np.broadcast_to(zeros.reshape(-1, *[1] * (weights.ndim - 1)), shape)
            whole = np.concatenate([weights, fill], 1)
            layer.weights.input[0] = graph.like(layer.weights.input[0], whole)
        for node in group.reductions if group.writers else ():
            *others, last = graph.array(node.input[1])
            while others:
                inputs = [node.input[0], graph.integers([last])]
                node.input[0] = graph.before(node, node.op_type, inputs, keepdims=1)
                node.input[1] = graph.integers(others)
                *others, last = others


def _repeat(graph: Graph, layer: _Layer, added: int) -> None:
    """Have a channel of the image for each of the result."""
    count, image = layer.shape[0], layer.image
    if layer.groups < count:
        places = np.pad(np.arange(count) // (count // layer.groups), (0, added), "edge")
        inputs = [image.input[0], graph.integers([*places])]
        image.input[0] = graph.before(image, "Gather", inputs, axis=layer.axis)
    _groups_of(layer.node).i = count + added


def _padded(graph: Graph, layer: _Layer) -> int:
    """How many channels an image gets that has none to spare, if they are worth a node."""
    count, image, window = layer.shape[1], layer.image, math.prod(layer.shape[2:])
    added = -count % 4
    is_dear = added >= count or layer.axis != 1
    if window == 1 or not added or (is_dear and window > _SMALL_WINDOW):
        return 0
    widths = np.zeros((2, len(layer.shape)), int)
    widths[1, layer.axis] = added
    inputs = [image.input[0], graph.integers([*widths.reshape(-1)]), image.input[2]]
    image.input[0] = graph.before(image, "Pad", inputs)
    return added


def _groups(graph: Graph) -> Sequence[_Group]:
    """The values of a graph that are not constant, by their channels."""
    groups, known, single = dict[str, _Group](), set[str](), {""}
    for node in graph.needed():
        result, *_ = node.output
        read = graph.read_by(node)
        lists = [name for name in read if name not in single and graph.dims(name) != ()]
        values = [name for name in lists if name not in known and graph.dims(name) is None]
        if not values:
            (known if lists else single).add(result)
            continue
        for name in (*values, result):
            others = [] if name == result or name in groups else [node]
            groups.setdefault(name, _Group([name], [], [], [], others))
        layer, kind = _layer(graph, node), node.op_type
        if layer is not None:
            groups[result].writers.append(layer)
            if not layer.is_apart:
                groups[values[0]].readers.append(layer)
            if not layer.is_apart or layer.groups < layer.shape[0]:
                continue
        elif kind in _REDUCTIONS and 1 not in graph.array(node.input[1]):
            groups[result].reductions.append(node)
        elif kind not in _BY_CHANNEL or lists != values:
            for name in (*values, result):
                groups[name].others.append(node)
            continue
        joined = {id(groups[name]): groups[name] for name in (*values, result)}.values()
        # The largest one stays, so that a chain takes linear time.
        first = max(joined, key=lambda group: len(group.names))
        for other in joined:
            if other is not first:
                for mine, added in zip(first, other, strict=True):
                    mine += added
                groups.update(dict.fromkeys(other.names, first))
    return [*{id(group): group for group in groups.values()}.values()]


def _groups_of(node: Any) -> Any:
    """The attribute of a convolution."""
    (groups,) = (known for known in node.attribute if known.name == "group")
    return groups


def _layer(graph: Graph, node: Any) -> _Layer | None:
    """A node as a convolution of codes with known parameters; None for another one."""
    if node.op_type != "Conv":
        return None
    casts, axis = [graph.maker(name) for name in node.input], 1
    if casts[0] is not None and casts[0].op_type == "Transpose":
        axis = casts[0].attribute[0].ints[1]
        casts[0] = graph.maker(casts[0].input[0])
    if any(
        cast is None or cast.op_type != "DequantizeLinear" or len(cast.input) != 3
        for cast in casts[:2]
    ):
        return None
    image, weights = casts[:2]
    shape = graph.dims(weights.input[0])
    if shape is None or graph.numbers(image.input[1:]) is None:
        return None
    lines: list[tuple[Any, int]] = []
    for at, cast in enumerate(casts[1:], 1):
        owner, slots = (node, [at]) if cast is None else (cast, range(len(cast.input)))
        lines += [(owner, slot) for slot in slots if graph.dims(owner.input[slot]) != ()]
    counts = {(graph.dims(owner.input[slot]) or (None,))[0] for owner, slot in lines}
    axes = {known.i for owner, _ in lines for known in owner.attribute if known.name in _PLACES}
    groups = _groups_of(node).i
    if counts != {shape[0]} or axes - {0} or 1 not in (groups, shape[1]):
        return None
    return _Layer(node, image, weights, axis, shape, lines, groups)


_PLACES: Final = ("axis", "block_size")
"""The attributes of casts with several scales."""
