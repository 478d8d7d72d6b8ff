"""
The shapes that graphs of ONNX compute, and the `If`s that depend on them.

Exporters write them for lengths that are then known, such as an `If` around a squeeze. They are
computed by the reference evaluator of `onnx`: https://onnx.ai/onnx/api/reference.html.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Container, Iterator
from functools import partial
from importlib import import_module
from typing import Any, Final

from qdialect.support.lazy_numpy import NDArray, np

_READS_SHAPES: Final = ("Shape", "Size")
"""The ops that read only the shape of their operand."""

_RANDOM: Final = (
    *("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike"),
    *("RandomUniform", "RandomUniformLike"),
)

_OF_SHAPES: Final = ("INT64", "INT32", "BOOL")
_MOST_ELEMENTS: Final = 256
"""The types of values that shapes are computed with, and the most elements that they have."""


def with_known_shapes(onnx: Any, proto: Any, large: Container[str]) -> Any:
    """
    The model with the shapes of all values, as far as they follow from those of inputs.

    Shapes that nodes compute are constants, and an `If` that always takes one branch is that. What
    no result needs is removed. The initializers that are `large` have no data here. Raises errors
    of `onnx`.
    """
    while True:
        proto = onnx.shape_inference.infer_shapes(proto, data_prop=True)
        graph, constants = proto.graph, _Constants(onnx, proto, large)
        nodes = [*_inlined(onnx, graph, constants)]
        if len(nodes) == len(graph.node) and all(map(operator.is_, nodes, graph.node)):
            return proto
        del graph.node[:], graph.value_info[:]
        graph.node.extend(nodes)
        _remove_unused(graph)


class _Constants:
    """The small values of a graph that are the same in each run."""

    def __init__(self, onnx: Any, proto: Any, large: Container[str]) -> None:
        self._onnx, graph = onnx, proto.graph
        reference: Any = import_module(".reference", onnx.__name__)
        opsets = {opset.domain: opset.version for opset in proto.opset_import}
        self._evaluator: Any = partial(reference.ReferenceEvaluator, opsets=opsets)
        values = (*graph.input, *graph.output, *graph.value_info)
        types = {value.name: value.type.tensor_type for value in values}
        self._shapes = {
            name: [dim.dim_value for dim in type.shape.dim]
            for name, type in types.items()
            if type.HasField("shape") and all(dim.HasField("dim_value") for dim in type.shape.dim)
        }
        self._shapes |= {tensor.name: [*tensor.dims] for tensor in graph.initializer}
        plain = {onnx.TensorProto.DataType.Value(name) for name in _OF_SHAPES}
        self._of_shapes = {name for name, type in types.items() if type.elem_type in plain}
        self.known: dict[str, NDArray[Any]] = {
            tensor.name: onnx.numpy_helper.to_array(tensor)
            for tensor in graph.initializer
            if tensor.name not in large and self._is_small(tensor.name)
        }

    def _is_small(self, name: str) -> bool:
        shape = self._shapes.get(name)
        return shape is not None and math.prod(shape) <= _MOST_ELEMENTS

    def visited(self, node: Any) -> Any:
        """
        The node, or a constant for the shape that it computes, which types follow from then.

        Nodes are visited in their order, in which each follows those that it reads.
        """
        if (value := self._computed(node)) is None:
            return node
        (name,) = node.output
        self.known[name] = value
        if node.op_type == "Constant" or name not in self._of_shapes:
            return node
        tensor = self._onnx.numpy_helper.from_array(value)
        return self._onnx.helper.make_node("Constant", [], [name], value=tensor)

    def _computed(self, node: Any) -> NDArray[Any] | None:
        """The only result of a node; None if it differs between runs, or is not computed."""
        if len(node.output) != 1 or not self._is_small(node.output[0]):
            return None
        if node.op_type in _RANDOM or any(map(_graphs_of, node.attribute)):
            return None
        read = [name for name in node.input if name]
        if node.op_type in _READS_SHAPES:
            # Zeros, without memory.
            shapes = {name: self._shapes[name] for name in read if name in self._shapes}
            given = {name: np.broadcast_to(np.float32(0), shape) for name, shape in shapes.items()}
        else:
            given = {name: self.known[name] for name in read if name in self.known}
        if len(given) < len({*read}):
            return None
        try:
            return np.asarray(self._evaluator(node).run(None, given)[0])
        except Exception:
            # The evaluator does not know all ops. Those that never run may have no result.
            return None


def _inlined(onnx: Any, graph: Any, constants: _Constants) -> Iterator[Any]:
    """The nodes of a graph, with those of branches."""
    names = {*_given_to(graph), *(name for node in graph.node for name in node.output)}
    for node in graph.node:
        condition = constants.known.get(node.input[0]) if node.op_type == "If" else None
        if condition is None or condition.size != 1:
            yield constants.visited(node)
            continue
        taken = "then_branch" if condition.reshape(-1)[0] else "else_branch"
        (branch,) = (attribute.g for attribute in node.attribute if attribute.name == taken)
        yield from _renamed(onnx, branch, node, names)


def _graphs_of(attribute: Any) -> list[Any]:
    """The graphs of an attribute, such as a branch."""
    return [*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs]


def _given_to(graph: Any) -> Iterator[str]:
    """The names of the inputs and the initializers of a graph."""
    yield from (value.name for value in (*graph.input, *graph.initializer))


def _renamed(onnx: Any, branch: Any, node: Any, names: set[str]) -> Iterator[Any]:
    """The nodes of a branch, whose values have names that nothing else has."""
    new = dict[str, str]()
    for name in (*_given_to(branch), *(name for inner in branch.node for name in inner.output)):
        free, number = name, 0
        while free and free in names:
            number += 1
            free = f"{name}_{number}"
        names.add(free)
        new[name] = free
    for tensor in branch.initializer:
        yield onnx.helper.make_node("Constant", [], [new[tensor.name]], value=tensor)
    for inner in branch.node:
        _rename(inner, new)
        yield inner
    for value, name in zip(branch.output, node.output, strict=True):
        yield onnx.helper.make_node("Identity", [new.get(value.name, value.name)], [name])


def _rename(node: Any, new: dict[str, str]) -> None:
    """Give the values that a node and its branches read and write their new names."""
    for values in (node.input, node.output):
        values[:] = [new.get(name, name) for name in values]
    for attribute in node.attribute:
        for graph in _graphs_of(attribute):
            inside = {name: other for name, other in new.items() if name not in {*_given_to(graph)}}
            for inner in graph.node:
                _rename(inner, inside)
            for value in graph.output:
                value.name = inside.get(value.name, value.name)


def _remove_unused(graph: Any) -> None:
    """Remove what no result needs, such as what other branches read."""
    needed = {value.name for value in graph.output}
    kept = list[Any]()
    for node in reversed(graph.node):
        if needed.intersection(node.output):
            kept.append(node)
            needed.update(_read_by(node))
    nodes = kept[::-1]
    initializers = [tensor for tensor in graph.initializer if tensor.name in needed]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(nodes)
    graph.initializer.extend(initializers)


def _read_by(node: Any) -> Iterator[str]:
    """What a node and its branches read."""
    yield from node.input
    for attribute in node.attribute:
        for graph in _graphs_of(attribute):
            yield from (value.name for value in graph.output)
            for inner in graph.node:
                yield from _read_by(inner)
