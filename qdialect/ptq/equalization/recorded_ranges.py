"""The ranges that ops of statistics hold for a value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from xdsl.ir import Operation, SSAValue

from qdialect.ir.value_types import shape_of
from qdialect.ops.statistics import is_statistics, statistics_of
from qdialect.ptq.equalization.factors import GroupedRanges
from qdialect.ptq.float_graph.flow_graph import FlowGraph
from qdialect.support.lazy_numpy import np

if TYPE_CHECKING:
    pass


def statistics_behind(graph: FlowGraph, value: SSAValue) -> Iterator[Operation]:
    """The ops that hold ranges of a value."""
    pending = [value]
    while pending:
        for use in pending.pop().uses:
            op = use.operation
            if len(op.results) == 1 and graph.same.get(op.results[0]) is value:
                pending.append(op.results[0])
                if is_statistics(op):
                    yield op
            elif any(graph.same.get(behind) is value for behind in _behind(op)):
                pending += op.results


def _behind(op: Operation) -> Iterator[SSAValue]:
    """The results of the readers of an op, such as the second cast of a pair."""
    for result in op.results:
        for use in result.uses:
            yield from use.operation.results


def grouped_ranges(op: Operation) -> GroupedRanges:
    """The ranges that an op of statistics holds."""
    shape = shape_of(op.operands[0].type)
    assert shape is not None
    layer, axis, by_axis = statistics_of(op, shape)
    rows = layer.reshape(1, 2) if by_axis is None else by_axis
    lengths = [len(rows) if at == axis else 1 for at in range(len(shape))]
    groups = np.arange(len(rows)).reshape(lengths)
    low, high = (np.asarray(rows[:, end], "f4") for end in (0, 1))
    return GroupedRanges(groups, low, high)
