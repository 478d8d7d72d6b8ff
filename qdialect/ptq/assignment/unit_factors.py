"""Multiplications by one between a layer and its bias: alpha and beta of torch's `addmm`."""

from __future__ import annotations

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from qdialect.ops.interface import Refusal
from qdialect.ops.products import Contraction, layer_of
from qdialect.ops.rules import rule_of
from qdialect.ops.unused_ops import erase_unused
from qdialect.ptq.float_graph.flow_graph import FlowGraph
from qdialect.ptq.float_graph.flow_reading import splat_number


def drop_unit_factors(graph: FlowGraph) -> bool:
    """Drop multiplications of a constant or of sums by one. Returns whether there is any."""
    gone = list[SSAValue]()
    for op in graph.ops:
        if not _is_product(op):
            continue
        for ones, other in (op.operands[:2], op.operands[1::-1]):
            is_kept = graph.is_constant(other) or _is_sum(graph, other)
            if (
                is_kept
                and other.type == op.results[0].type
                and graph.is_constant(ones)
                and splat_number(graph, ones) == 1
            ):
                gone.append(ones)
                Rewriter.replace_op(op, [], [other])
                break
    erase_unused([value.owner for value in gone if not isinstance(value.owner, Block)])
    return bool(gone)


def _is_product(op: Operation) -> bool:
    try:
        found = rule_of(op)
    except Refusal:
        return False
    return found is not None and found.functions == frozenset({"mul"}) and len(op.results) == 1


def _is_sum(graph: FlowGraph, value: SSAValue) -> bool:
    """Whether a value is the result of a layer."""
    maker = graph.value(value).owner
    try:
        return isinstance(maker, Operation) and isinstance(layer_of(maker), Contraction)
    except Refusal:
        return False
