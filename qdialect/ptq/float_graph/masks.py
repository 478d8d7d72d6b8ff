"""Masks: numbers far outside of the range of a value that are added to it, or selected with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.ir import Operation, SSAValue

from qdialect.ops.interface import Refusal, model_of, read_movements
from qdialect.ops.rules import rule_of
from qdialect.ptq.calibration.keys import is_recordable
from qdialect.ptq.float_graph.flow_graph import FlowGraph, Range
from qdialect.support.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MASKING: Final = frozenset({"add", "select", "sub"})
"""Functions that mask: they set elements to a number, or add a very low one."""

FAR: Final = 4.0
"""A number is far outside of a range if it exceeds all numbers in it by this factor."""

LOWEST: Final = -9999.0
"""Numbers up to this one have no weight in a softmax: they are masks."""


def functions_of(op: Operation) -> frozenset[str]:
    """The functions that an op computes, as far as they are known."""
    try:
        rule = rule_of(op)
    except Refusal:
        return frozenset()
    return frozenset() if rule is None else rule.functions


def range_of(graph: FlowGraph, value: SSAValue) -> Range | None:
    """The recorded range of a value, or of the value that a shape op reads its elements from."""
    path, found, before = list[SSAValue](), None, value
    while before is not None and found is None:
        before = graph.value(before)
        found = graph.ranges.get(before) or graph.moved_ranges.get(before)
        if before in graph.moved_ranges:
            break
        path.append(before)
        before = _moved_operand(graph, before)
    graph.moved_ranges |= dict.fromkeys(path, found)
    return found


def _moved_operand(graph: FlowGraph, value: SSAValue) -> SSAValue | None:
    """The operand whose elements a shape op moves to a value; None for other ops."""
    if not isinstance(op := value.owner, Operation) or (model := model_of(op)) is None:
        return None
    try:
        operands, _, padding = read_movements(op, model, graph.folding.operands)
    except Refusal:
        return None
    return operands[0] if len(operands) == 1 and padding is None else None


def is_mask(graph: FlowGraph, op: Operation) -> bool:
    """Whether an op masks elements by a constant, which determines the range of its result."""
    functions = functions_of(op)
    if not functions & MASKING:
        return False
    operands = [value for value in op.operands if is_recordable(value)]
    if any(_is_far(graph, value, operands, functions) for value in operands):
        return True
    if "select" not in functions:
        return False
    # The number may be in the body of the op, or a scalar.
    found = [range_of(graph, value) for value in op.results if is_recordable(value)]
    largest = _largest(graph, operands)
    return any(each is not None and each.minimum < min(LOWEST, -FAR * largest) for each in found)


def is_softmax_mask(graph: FlowGraph, op: Operation) -> bool:
    """Whether an op masks elements before a softmax, perhaps by numbers that are computed."""
    if not functions_of(op) & MASKING:
        return False
    found = [range_of(graph, each) for each in (*op.operands, *op.results) if is_recordable(each)]
    is_low = any(each is not None and each.minimum <= LOWEST for each in found)
    return (
        is_low
        or is_mask(graph, op)
        or any(
            graph.stored(each) is not None and (graph.numbers(each) <= LOWEST).any()
            for each in op.operands
            if is_recordable(each)
        )
    )


def _is_far(
    graph: FlowGraph, mask: SSAValue, operands: list[SSAValue], functions: frozenset[str]
) -> bool:
    """Whether a constant is a mask for the other operands."""
    largest = _largest(graph, [value for value in operands if value is not mask])
    if graph.stored(mask) is None:
        found = range_of(graph, mask) if mask in graph.derived else None
        return found is not None and found.minimum <= LOWEST < -FAR * largest
    numbers = graph.numbers(mask)
    if not largest:
        # The range is unknown, or holds zeros alone.
        return bool((numbers <= LOWEST).any())
    magnitudes = np.abs(numbers)
    is_beyond: NDArray[np.bool_] = magnitudes > FAR * largest
    if "select" in functions:
        return bool(is_beyond.any())
    beyond, kept = magnitudes[is_beyond], magnitudes[~is_beyond]
    if not beyond.size or not kept.size:
        return False
    if beyond.min() >= -LOWEST:
        return bool(kept.max() <= largest)
    # A table of positions has other numbers than zero, and a bias differs along one axis.
    axes = [axis for axis in range(numbers.ndim) if (numbers != numbers.take([0], axis)).any()]
    return not kept.any() and len(axes) > 1


def largest(graph: FlowGraph, op: Operation) -> float:
    """The largest finite magnitude that an op reads, constants excepted; 0 if none is known."""
    return _largest(graph, [each for each in op.operands if not graph.is_computed(each)])


def _largest(graph: FlowGraph, values: list[SSAValue]) -> float:
    """The largest finite magnitude in the ranges of values; 0 if none is known."""
    ranges = (range_of(graph, value) for value in values if is_recordable(value))
    ends = [abs(end) for found in ranges if found is not None for end in found]
    return max((end for end in ends if np.isfinite(end)), default=0.0)
