"""
The shapes that graphs of ONNX compute, and the `If`s that depend on them.

Exporters write them for lengths that are then known, such as an `If` around a squeeze. They are
computed by the reference evaluator of `onnx`: https://onnx.ai/onnx/api/reference.html.
"""

from __future__ import annotations

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
_MOST_OF_SHAPE: Final = 64
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
    """The values of a graph that are the same in each run."""

    def __init__(self, onnx: Any, proto: Any, large: Container[str]) -> None:
        self._onnx, self._large, graph = onnx, large, proto.graph
        reference: Any = import_module(".reference", onnx.__name__)
        opsets = {opset.domain: opset.version for opset in proto.opset_import}
        self._evaluator: Any = partial(reference.ReferenceEvaluator, opsets=opsets)
        self._initializers = {tensor.name: tensor for tensor in graph.initializer}
        self._producers = {name: node for node in graph.node for name in node.output}
        types = {value.name: value.type.tensor_type for value in (*graph.input, *graph.value_info)}
        self._shapes = {
            name: type.shape.dim for name, type in types.items() if type.HasField("shape")
        }
        plain = {onnx.TensorProto.DataType.Value(name) for name in _OF_SHAPES}
        self._of_shapes = {name for name, type in types.items() if type.elem_type in plain}
        self._known: dict[str, NDArray[Any] | None] = {}

    def replaced(self, node: Any) -> Any:
        """The node, or a constant for the shape that it computes, which types follow from then."""
        if node.op_type == "Constant" or len(node.output) != 1:
            return node
        (name,) = node.output
        value = self.get(name) if name in self._of_shapes else None
        if value is None or value.size > _MOST_OF_SHAPE:
            return node
        tensor = self._onnx.numpy_helper.from_array(value)
        return self._onnx.helper.make_node("Constant", [], [name], value=tensor)

    def get(self, wanted: str) -> NDArray[Any] | None:
        """A value; None if it differs between runs, or is not computed."""
        # Chains of nodes can be longer than Python's stack.
        pending = [wanted]
        while pending:
            name = pending[-1]
            if name in self._known:
                pending.pop()
                continue
            node = self._producers.get(name)
            inputs = () if node is None or node.op_type in _READS_SHAPES else node.input
            missing = [other for other in inputs if other and other not in self._known]
            if missing and name not in missing:
                pending += missing
                continue
            self._known[name] = self._computed(name, node)
        return self._known[wanted]

    def _computed(self, name: str, node: Any) -> NDArray[Any] | None:
        if name in self._initializers:
            tensor = self._initializers[name]
            return None if name in self._large else self._onnx.numpy_helper.to_array(tensor)
        if node is None or node.op_type in _RANDOM or any(map(_graphs_of, node.attribute)):
            return None
        if node.op_type in _READS_SHAPES:
            inputs = [self._of_shape(operand) for operand in node.input]
        else:
            inputs = [self._known[operand] if operand else None for operand in node.input]
        pairs = [*zip(node.input, inputs, strict=True)]
        if any(operand and value is None for operand, value in pairs):
            return None
        try:
            given = {name: value for name, value in pairs if name}
            results = self._evaluator(node).run(None, given)
        except Exception:
            # The evaluator does not know all ops. Those that never run may have no result.
            return None
        return np.asarray(results[[*node.output].index(name)])

    def _of_shape(self, name: str) -> NDArray[Any] | None:
        """Zeros of the shape of a value, without memory."""
        dims = self._shapes.get(name)
        if name in self._initializers:
            return np.broadcast_to(np.float32(0), [*self._initializers[name].dims])
        if dims is None or not all(dim.HasField("dim_value") for dim in dims):
            return None
        return np.broadcast_to(np.float32(0), [dim.dim_value for dim in dims])


def _inlined(onnx: Any, graph: Any, constants: _Constants) -> Iterator[Any]:
    """The nodes of a graph, with those of branches."""
    names = {*_given_to(graph), *(name for node in graph.node for name in node.output)}
    for node in graph.node:
        condition = constants.get(node.input[0]) if node.op_type == "If" else None
        if condition is None or condition.size != 1:
            yield constants.replaced(node)
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
