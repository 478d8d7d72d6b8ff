"""
The axes along which equalization needs ranges: those of the channels that layers sum over.

The input of a layer shares an axis with its weights. So do the values before it, as far as factors
propagate, and the result of the layer before. Of several axes, as before a reshape that merges
them, the channel axis of that layer is chosen, whose rows can have factors, or else the longest.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from qdialect.ir.value_types import shape_of
from qdialect.ops.interface import models_of
from qdialect.ptq.equalization.homogeneous import Passage, passage_of
from qdialect.ptq.equalization.layer_weights import indices_of, layer_nodes
from qdialect.ptq.equalization.raised_weights import raised_copy
from qdialect.ptq.float_graph.flow_graph import FlowGraph, Node
from qdialect.ptq.float_graph.flow_reading import flow_graph
from qdialect.support.lazy_numpy import np
from qdialect.support.memory import memory_budget

if TYPE_CHECKING:
    from numpy.typing import NDArray


def channel_axes(module: ModuleOp, context: Context) -> Mapping[SSAValue, int]:
    """The axis of each value whose indices equalization needs ranges of."""
    with models_of(context), memory_budget() as budget:
        copy = raised_copy(module, context)
        graph = flow_graph(module if copy is None else copy.module, context, budget)
        axes = dict(_Finder(graph).find())
        if copy is None:
            return axes
        pairs = ((copy.original(value), axis) for value, axis in axes.items())
        return {value: axis for value, axis in pairs if value is not None}


class _Finder:
    def __init__(self, graph: FlowGraph) -> None:
        self._graph = graph
        self._layers = {node: indices_of(node) for node in layer_nodes(graph)}
        found = ((node, passage_of(graph, node)) for node in graph.nodes)
        self._passages: Mapping[Node, Passage] = {
            node: passage for node, passage in found if passage is not None
        }
        self._made: dict[SSAValue, NDArray[Any]] = {}
        """For a value, arrays with distinct numbers for the rows that compute it."""
        self._axes = dict[SSAValue, int]()

    def find(self) -> Iterator[tuple[SSAValue, int]]:
        """Each value, and its axis."""
        for node in self._graph.nodes:
            self._made_by(node)
        for node in reversed(self._graph.nodes):
            self._read_by(node)
        for value, axis in self._axes.items():
            yield value, axis
            maker = self._graph.makers.get(value)
            if maker in self._layers:
                # A bias has the axes of its sums.
                yield from ((each, axis) for op in maker.ops[:-1] for each in op.results)

    def _read_by(self, node: Node) -> None:
        """Note the axes of the operands of a node."""
        indices, passage = self._layers.get(node), self._passages.get(node)
        if indices is not None and node.side is not None:
            use = next(each for each in node.uses if each.number == node.side.other)
            rank = len(shape_of(use.value.type) or ())
            lengths = [indices.lengths().get(axis, 1) for axis in range(rank)]
            self._note(self._graph.value(use.value), np.ones(lengths, "f4"))
        elif passage is not None and (axis := self._axes.get(node.results[0])) is not None:
            shape = shape_of(node.results[0].type) or ()
            lengths = [length if at == axis else 1 for at, length in enumerate(shape)]
            numbers = np.arange(1, 1 + shape[axis], dtype="f4").reshape(lengths)
            pulled = passage.pulled(numbers)
            for use, of_operand in zip(passage.uses, pulled or (), strict=pulled is not None):
                self._note(self._graph.value(use.value), of_operand)

    def _note(self, value: SSAValue, numbers: NDArray[Any]) -> None:
        """Choose one of the axes along which numbers vary, unless another reader has chosen."""
        axes = [axis for axis, length in enumerate(numbers.shape) if length > 1]
        shape = shape_of(value.type) or ()
        axes = [axis for axis in axes if shape[axis] == numbers.shape[axis]]
        if not axes:
            return
        made = self._made.get(value)
        rows = [] if made is None else [axis for axis in axes if made.shape[axis] > 1]
        self._axes.setdefault(value, max(rows or axes, key=lambda axis: (shape[axis], axis)))

    def _made_by(self, node: Node) -> None:
        """Note the row of weights that each element of a result is computed with."""
        indices, passage = self._layers.get(node), self._passages.get(node)
        if indices is not None:
            assert node.weight is not None
            shape = tuple(shape_of(node.weight.value.type) or ())
            numbers = np.arange(math.prod(shape)).reshape(shape)
            self._made[node.results[0]] = indices.rows(numbers, np.max)
        elif passage is not None:
            reads = [self._made.get(self._graph.value(use.value)) for use in passage.uses]
            known = [each for each in reads if each is not None]
            if known and len(known) == len(reads):
                moved = passage.moved(known, -1)
                if moved is not None:
                    self._made[node.results[0]] = moved
