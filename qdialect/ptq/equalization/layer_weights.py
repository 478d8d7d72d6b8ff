"""The layers of a module that have constant weights: their keys, indices, and numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import SSAValue

from qdialect.algebra.views import as_view
from qdialect.folding.moved_constant import MovedConstant
from qdialect.ir.value_types import shape_of
from qdialect.ops.interface import Refusal, RefusalCode, cast_reads
from qdialect.ops.models import CastReads
from qdialect.ops.products import Contraction, layer_of
from qdialect.ops.statistics import is_statistics
from qdialect.ptq.equalization.layer_indices import LayerIndices
from qdialect.ptq.float_graph.flow_graph import FlowGraph, Node
from qdialect.ptq.weights import float_elements
from qdialect.support.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def layer_nodes(graph: FlowGraph) -> Iterator[Node]:
    """The layers of a module that have constant weights."""
    for node in graph.nodes:
        if node.weight is not None and node.side is not None and node.table is None:
            yield node


def is_layer_node(node: Node) -> bool:
    """Whether a node is a sum of products."""
    try:
        return isinstance(layer_of(node.ops[0]), Contraction)
    except Refusal:
        return False


def indices_of(node: Node) -> LayerIndices | None:
    """The indices of a layer; None if it has no weights, or its window slides over them."""
    assert node.side is not None
    assert node.weight is not None
    layer, shape = layer_of(node.ops[0]), shape_of(node.weight.value.type)
    assert isinstance(layer, Contraction)
    assert shape is not None
    is_other = layer.groups > 1 and node.side.operand != layer.operands[1]
    if "*" in node.side.labels or is_other or 0 in shape:
        return None
    return LayerIndices(layer, node.side, tuple(shape))


def keys_of_node(graph: FlowGraph, node: Node) -> list[str]:
    """The names of a layer: the keys of the results of its ops, the last one first."""
    found = [graph.keys.get(each, "") for op in reversed(node.ops) for each in op.results]
    return list(dict.fromkeys(found))


def constant_numbers(graph: FlowGraph, value: SSAValue) -> tuple[NDArray[Any], bool]:
    """
    The elements of a constant, and whether they are dequantized.

    Raises Refusal unless they are stored as floats, or quantized and cast once.
    """
    moved = graph.constant(value)
    if moved is None:
        raise Refusal(RefusalCode.NOT_CONSTANT, "its weights are not constant")
    values = graph.folding.values_of(moved)
    at = quantized_layer(moved)
    if at is None:
        type = moved.layers[0].element_type
        if not isinstance(type, AnyFloat):
            raise Refusal(RefusalCode.UNKNOWN_OP, "its weights are not floats")
        return np.broadcast_to(float_elements(values, type), moved.shape), False
    parameters = moved.layers[at].parameters
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
    quantized = [at for at, layer in enumerate(layers) if layer.parameters is not None]
    if any(layer.sides is not None for layer in layers):
        raise Refusal(
            RefusalCode.ARITHMETIC,
            "arithmetic computes its weights, and is not an exact dequantization: see the remarks "
            "of --raise-dequantization",
        )
    if not quantized:
        if all(map(is_statistics, moved.casts)):
            return None
        raise Refusal(RefusalCode.CASTS, "its weights are cast to another type")
    (at, *others) = quantized
    reads = CastReads.NUMBERS
    if others or at != len(casts) - 1 or reads not in cast_reads(casts[at]):
        raise Refusal(RefusalCode.CASTS, "its weights are cast several times")
    return at
