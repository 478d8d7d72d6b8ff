"""
The layers of a module that have constant weights: their keys, numbers, and shared indices.

The input and the weights share the axis that is summed over, or the channels of a depthwise
convolution. With grouped channels, the input has one axis for all of them. The weights have an axis
for the channels within a group; the group follows from the channel of the result.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.movement import Shape
from qdialect.algebra.views import as_view
from qdialect.folding.moved_constant import MovedConstant
from qdialect.ir.elements import float_elements
from qdialect.ir.value_types import tensor_parts
from qdialect.ops.along_axis import is_statistics
from qdialect.ops.fields import CastReads, Contraction, Side
from qdialect.ops.interface import Refusal, RefusalCode, cast_reads, shape_of
from qdialect.ptq.float_graph.flow_graph import FlowGraph, Node
from qdialect.support.lazy_numpy import NDArray, np


class Positions:
    """The positions along the axes of a tensor that the elements of the weights meet."""

    def __init__(self, rank: int) -> None:
        """`rank` is that of the weights."""
        self._nowhere = np.zeros((1,) * rank, np.int64)
        self._axes = list["NDArray[np.int64] | None"]()
        self.lengths = list[int]()

    def add(self, positions: NDArray[np.int64] | None, length: int) -> None:
        """Add an axis whose positions broadcast to the weights; None if these do not have it."""
        self._axes.append(positions)
        self.lengths.append(length)

    def read(self, numbers: NDArray[Any]) -> NDArray[Any] | None:
        """
        Numbers of the positions, broadcast to the weights.

        None if they vary along an axis that the weights do not have.
        """
        positions = [self._nowhere]
        for length, axis in zip(numbers.shape, self._axes, strict=True):
            if length > 1 and axis is None:
                return None
            positions.append(self._nowhere if length == 1 or axis is None else axis)
        return numbers[np.newaxis][tuple(positions)]

    def reduced(
        self, weights: NDArray[Any], function: np.ufunc, axes: Collection[int] | None = None
    ) -> NDArray[Any]:
        """
        The weights reduced to a number for each position along some of the axes, or along all.

        `function` is `np.minimum`, `np.maximum` or `np.add`.
        """
        kept = [
            places is not None and (axes is None or axis in axes)
            for axis, places in enumerate(self._axes)
        ]
        lengths = [n if is_kept else 1 for n, is_kept in zip(self.lengths, kept, strict=True)]
        positions = [self._nowhere]
        for places, is_kept in zip(self._axes, kept, strict=True):
            positions.append(places if is_kept and places is not None else self._nowhere)
        common = np.broadcast_shapes(*(places.shape for places in positions))
        gone = tuple(axis for axis, length in enumerate(common) if length == 1)
        parts = function.reduce(weights, axis=gone, keepdims=True)
        numbers = np.full([1, *lengths], function.identity or 0, parts.dtype)
        if function.identity is None:
            # Any of the parts at a position may be the first one.
            numbers[tuple(positions)] = parts
        function.at(numbers, tuple(positions), parts)
        return numbers[0]


class LayerIndices:
    """Moves numbers between the axes of the input, of the weights, and of the result."""

    def __init__(self, layer: Contraction, side: Side, weights: Shape) -> None:
        """`weights` is a static shape."""
        grid = np.meshgrid(*map(np.arange, weights), indexing="ij", sparse=True)
        places = dict(zip(side.labels, grid, strict=True))
        lengths = dict(zip(side.labels, weights, strict=True))
        result = "".join(side.result_labels)
        own = [label for label in side.labels if label not in side.other_labels and label in result]
        self.columns = Positions(len(weights))
        """The positions in the input."""
        self.rows = Positions(len(weights))
        """The positions in the result."""
        for label in side.other_labels:
            position, length = places.get(label), lengths.get(label, 1)
            if position is not None and layer.groups > 1 and label not in result:
                # The channels of the result are in groups, each of which reads its own input.
                group = places[own[0]] // (lengths[own[0]] // layer.groups)
                position, length = position + group * length, length * layer.groups
            self.columns.add(position, length)
        for labels in (label.strip("()") for label in side.result_labels):
            position, length = None, 1
            if all(label in places for label in labels):
                position = np.zeros((1,) * len(weights), np.int64)
                for label in labels:
                    position = position * lengths[label] + places[label]
                    length *= lengths[label]
            self.rows.add(position, length)
        self.lengths: Mapping[int, int] = {
            axis: self.columns.lengths[axis]
            for axis, label in enumerate(side.other_labels)
            if label in places
        }
        """The length of each axis of the input that the weights share."""

    def on_weights(self, inputs: NDArray[Any]) -> NDArray[Any]:
        """Numbers per index of the input, broadcast to the elements of the weights."""
        numbers = self.columns.read(inputs)
        assert numbers is not None, "the numbers vary along an axis that is not shared"
        return numbers


# Weights


def layer_nodes(graph: FlowGraph) -> Iterator[Node]:
    """The layers of a module that have constant weights."""
    for node in graph.nodes:
        if node.weight is not None and node.side is not None and node.table is None:
            yield node


def side_indices(op: Operation, layer: Contraction, side: Side) -> LayerIndices:
    """The indices of a layer whose weights are the operand of `side`. Raises Refusal."""
    if tensor_parts(op.operands[side.other].type) is None:
        raise Refusal(RefusalCode.UNKNOWN_OP, "its input has no rank")
    shape = shape_of(op.operands[side.operand])
    is_other = layer.groups > 1 and side.operand != layer.operands[1]
    if "*" in side.labels or is_other or 0 in shape:
        raise Refusal(RefusalCode.UNKNOWN_OP, "its window slides over a constant input")
    return LayerIndices(layer, side, shape)


def constant_numbers(graph: FlowGraph, value: SSAValue) -> tuple[NDArray[Any], bool]:
    """
    The elements of a constant, and whether they are dequantized.

    Raises Refusal unless they are stored as floats, or quantized and cast once.
    """
    moved = graph.constant(value)
    if moved is None:
        raise Refusal(RefusalCode.NOT_CONSTANT, "its weights are not constant")
    values = graph.folding.values_of(moved)
    number = quantized_layer(moved)
    if number is None:
        type = moved.layers[0].element_type
        if not isinstance(type, AnyFloat):
            raise Refusal(RefusalCode.UNKNOWN_OP, "its weights are not floats")
        return np.broadcast_to(float_elements(values, type), moved.shape), False
    parameters = moved.layers[number].parameters
    assert parameters is not None
    codes = as_view(values).array()
    numbers = np.broadcast_to(parameters.read(codes), moved.shape)
    return numbers.astype("f8" if parameters.expressed.name == "f64" else "f4"), True


def quantized_layer(moved: MovedConstant) -> int | None:
    """
    The number of the quantized layer of a constant, before casts to floats; None if none is.

    Raises Refusal for unknown casts.
    """
    layers, casts = moved.layers, list(moved.casts)
    while casts and is_statistics(casts[-1]):
        casts.pop()
    quantized = [number for number, layer in enumerate(layers) if layer.parameters is not None]
    if any(layer.sides is not None for layer in layers):
        raise Refusal(RefusalCode.ARITHMETIC, f"arithmetic computes its weights: {RAISE_FIRST}")
    if not quantized:
        if all(map(is_statistics, moved.casts)):
            return None
        raise Refusal(RefusalCode.CASTS, "its weights are cast to another type")
    (number, *others) = quantized
    reads = CastReads.NUMBERS
    if others or number != len(casts) - 1 or reads not in cast_reads(casts[number]):
        raise Refusal(RefusalCode.CASTS, "its weights are cast several times")
    return number


RAISE_FIRST = "--raise-dequantization before equalization replaces an exact dequantization by casts"
"""What to do about weights that arithmetic dequantizes."""
