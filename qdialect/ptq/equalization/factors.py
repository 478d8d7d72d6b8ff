"""
Factors of the elements of a tensor, ranges of its channels, and the ops that factors pass.

Factors and ranges are arrays of the rank of the tensor. An axis of length 1 has one number for all
positions; so has each axis whose length is only known at run time. Shape ops move factors as they
move scales. An op on elements has a degree d: a factor f of the operand becomes f**d. `relu`,
absolute values and products with constants have degree 1; a logistic function has no degree. A pool
has degree 1 in the elements that it combines, so factors must not vary within a window.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Any, Final, NamedTuple, TypeAlias, cast

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr

from qdialect.algebra.joins import Concat
from qdialect.algebra.movement import (
    DYNAMIC,
    BroadcastInDim,
    Movement,
    MovementError,
    Reshape,
    Shape,
    ValueSet,
    pulled_back,
)
from qdialect.algebra.parameters import QuantizationParameters, StorageFormat
from qdialect.algebra.run_map import TooManySlotsError
from qdialect.ops.along_axis import is_statistics, statistics_of
from qdialect.ops.fields import RuleKind
from qdialect.ops.interface import (
    Refusal,
    find_attribute,
    function_of,
    name_of,
    number_of,
    op_model,
    rule_of,
    shape_of,
)
from qdialect.ops.readers import yielded
from qdialect.ptq.float_graph.flow_graph import FlowGraph, Node, Use
from qdialect.ptq.schemes.schemes import Range
from qdialect.support.float_format import FLOAT_FORMATS
from qdialect.support.lazy_numpy import NDArray, np

Factors: TypeAlias = "NDArray[np.float32]"


def ones(rank: int) -> Factors:
    """Factors of one."""
    return np.ones((1,) * rank, "f4")


def are_equal(factors: Factors, others: Factors | float) -> bool:
    """Whether all elements have equal factors in both."""
    return bool((factors == others).all())


# Ranges


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
            elif any(graph.same.get(result) is value for result in _results_behind(op)):
                pending += op.results


def _results_behind(op: Operation) -> Iterator[SSAValue]:
    """The results of the readers of an op, such as the second cast of a pair."""
    for result in op.results:
        for use in result.uses:
            yield from use.operation.results


def recorded_range(op: Operation) -> Range:
    """The range of each channel that an op of statistics holds, or that of all elements."""
    shape = shape_of(op.operands[0])
    layer, axis, by_axis = statistics_of(op, shape)
    rows = layer.reshape(1, 2) if by_axis is None else by_axis
    lengths = [len(rows) if at == axis else 1 for at in range(len(shape))]
    return Range(*(np.asarray(rows[:, end], "f4").reshape(lengths) for end in (0, 1)))


def scaled_range(ranges: Range, factors: Factors) -> Range | None:
    """The ranges after a multiplication; None if a range has several factors."""
    shape = ranges.minimum.shape
    if np.broadcast_shapes(shape, factors.shape) != shape:
        return None
    return Range(ranges.minimum * factors, ranges.maximum * factors)


def range_along(ranges: Range, axes: Sequence[int]) -> Range:
    """The ranges at the positions of some axes, with length 1 along all other axes."""
    others = tuple(axis for axis in range(ranges.minimum.ndim) if axis not in axes)
    low, high = ranges
    return Range(low.min(axis=others, keepdims=True), high.max(axis=others, keepdims=True))


# Passages


class Passage(NamedTuple):
    """How factors pass an op."""

    uses: Sequence[Use]
    """The operands whose factors become those of the result."""

    moves: Moves

    keeps_elements: bool = False
    """Whether the result has all elements of its only operand, and no others."""


def passages_of(graph: FlowGraph) -> Mapping[Node, Passage]:
    """How factors pass the nodes of a graph, for those that they pass."""
    passages = ((node, _passage_of(graph, node)) for node in graph.nodes)
    return {node: passage for node, passage in passages if passage is not None}


def _passage_of(graph: FlowGraph, node: Node) -> Passage | None:
    if node.weight is not None or len(node.ops) != 1 or len(node.results) != 1:
        return None
    try:
        # A shape op that is an identity has no movements.
        is_moving = node.movements or node.kind is RuleKind.MOVED
        return _movement(graph, node) if is_moving else _computation(graph, node)
    except (Refusal, MovementError):
        return None


_STAND_IN: Final = 1 << 20
"""The length that replaces unknown ones, along which numbers do not vary."""


class Moves:
    """The numbers that movements move, one movement after another."""

    def __init__(self, movements: Sequence[Movement], operands: Sequence[Shape]) -> None:
        """The first movement has these operands. Raises MovementError."""
        self._steps = list[tuple[Movement, Sequence[Shape]]]()
        """Each movement with the shapes of its operands, all lengths of which are known."""
        shapes = list(operands)
        self.keeps_elements = len(operands) == 1
        """Whether the result has all elements of the only operand, and no others."""
        for movement in movements:
            result = movement.result_shape(*shapes)
            if not movement.is_identity(*shapes):
                self._steps.append(_with_lengths(movement, shapes))
                self.keeps_elements &= movement.values is ValueSet.SAME
            shapes = [result]

    def pulled(self, factors: NDArray[Any]) -> list[NDArray[Any]] | None:
        """The operand factors that give the result these factors; None if there are none."""
        arrays = [factors]
        try:
            for movement, shapes in reversed(self._steps):
                result = _as_parameters(arrays[0], movement.result_shape(*shapes))
                operands = _undone(movement, result, shapes)
                if operands is None:
                    return None
                arrays = [_as_array(operand, factors) for operand in operands]
        except (MovementError, TooManySlotsError, ValueError):
            return None
        return arrays

    def moved(self, numbers: Sequence[NDArray[Any]]) -> NDArray[Any] | None:
        """Numbers of the elements of the operands, moved to the elements of the result."""
        arrays = list(numbers)
        try:
            for movement, shapes in self._steps:
                operands = [_as_parameters(*pair) for pair in zip(arrays, shapes, strict=True)]
                arrays = [_as_array(movement(*operands), numbers[0])]
        except (MovementError, TooManySlotsError, ValueError):
            return None
        return arrays[0]


def _with_lengths(
    movement: Movement, operands: Sequence[Shape]
) -> tuple[Movement, Sequence[Shape]]:
    """A movement and the shapes of its operands, with stand-ins for unknown lengths."""
    if isinstance(movement, Reshape):
        operand, result = _regrouped(operands[0], movement.shape)
        return movement.to(result), [operand]
    if isinstance(movement, BroadcastInDim):
        movement = movement.to(_static(movement.shape))
    return movement, [_static(shape) for shape in operands]


def _static(shape: Shape) -> Shape:
    return tuple(_STAND_IN if length == DYNAMIC else length for length in shape)


def _regrouped(operand: Shape, result: Shape) -> tuple[Shape, Shape]:
    """
    The shapes of a reshape, in which one axis replaces all axes around unknown lengths.

    Raises MovementError if only one of them has an unknown length.
    """
    shapes = operand, result
    unknown = [[axis for axis, n in enumerate(shape) if n == DYNAMIC] for shape in shapes]
    if not any(unknown):
        return shapes
    if not all(unknown):
        raise MovementError("a length is only known at run time")
    starts, ends = [axes[0] for axes in unknown], [axes[-1] + 1 for axes in unknown]
    # What is before and behind the unknown lengths is regrouped on its own, if it can be.
    before = [math.prod(shape[:start]) for shape, start in zip(shapes, starts, strict=True)]
    behind = [math.prod(shape[end:]) for shape, end in zip(shapes, ends, strict=True)]
    starts = starts if before[0] == before[1] else [0, 0]
    ends = ends if behind[0] == behind[1] else [len(shape) for shape in shapes]
    operand, result = (
        (*shape[:start], _STAND_IN, *[1] * (end - start - 1), *shape[end:])
        for shape, start, end in zip(shapes, starts, ends, strict=True)
    )
    return operand, result


def _undone(
    movement: Movement, moved: QuantizationParameters, operands: Sequence[Shape]
) -> Sequence[QuantizationParameters] | None:
    """The operands that move to `moved`; None if there are none."""
    if isinstance(movement, Concat):
        starts = accumulate((shape[movement.dim] for shape in operands), initial=0)
        pairs = zip(starts, operands, strict=False)
        return [movement.part(moved, start, shape) for start, shape in pairs]
    before = pulled_back(movement, moved, operands[0]) if len(operands) == 1 else None
    return None if before is None else [before]


def _as_parameters(numbers: NDArray[Any], shape: Shape) -> QuantizationParameters:
    """Numbers as the scales of a tensor, which all movements move. Raises ValueError."""
    formats = FLOAT_FORMATS["f64"], StorageFormat(8, signed=True)
    zeros = np.zeros(numbers.shape, np.int64)
    return QuantizationParameters.from_blocks(shape, numbers.astype("f8"), zeros, *formats)


def _as_array(parameters: QuantizationParameters, like: NDArray[Any]) -> NDArray[Any]:
    """
    The scales of a tensor, with length 1 along each axis along which they do not vary.

    Raises MovementError if they vary along an axis of unknown length.
    """
    parameters = parameters.simplify()
    runs = zip(parameters.shape, parameters.ends, strict=True)
    if any(length >= _STAND_IN and len(ends) > 1 for length, ends in runs):
        raise MovementError("a length is only known at run time")
    return parameters.expand()[0].astype(like.dtype)


def _movement(graph: FlowGraph, node: Node) -> Passage | None:
    """How factors pass a shape op, which may pad with zero or an infinity."""
    if (read := graph.movements(node.op)) is None:
        return None
    operands, movements, padding = read
    uses = list(node.uses)
    if padding is not None and uses and uses[-1].value is padding:
        uses.pop()
    if [use.value for use in uses] != list(operands):
        return None
    pads = any(movement.values is ValueSet.MORE for movement in movements)
    if pads and (padding is None or not has_any(graph, padding)):
        return None
    moves = Moves(movements, [shape_of(value) for value in operands])
    return Passage(uses, moves, moves.keeps_elements)


def _along(use: Use, kept: Sequence[int | None]) -> Passage:
    """
    The passage of an op that keeps some axes, and combines elements along the others.

    `kept` has the axis of the result for each axis of the operand, or None if elements are combined
    along it.
    """
    operand, result = (_static(shape_of(end)) for end in (use.value, use.op.results[0]))
    single = [1 if axis is None else n for n, axis in zip(operand, kept, strict=True)]
    axes = tuple(axis for axis in kept if axis is not None)
    lengths = tuple(n for n, axis in zip(operand, kept, strict=True) if axis is not None)
    return Passage([use], Moves([Reshape(lengths), BroadcastInDim(axes, result)], [tuple(single)]))


# Computations

Degrees = frozenset[int]
"""The degrees of a number; zeros and infinities have all of them."""

_ANY: Final = frozenset({-1, 0, 1, 2})
_NONE: Final = frozenset[int]()
_FIXED: Final = frozenset({0})
_SCALED: Final = frozenset({1})


def _computation(graph: FlowGraph, node: Node) -> Passage | None:
    """How factors pass an op that computes elements."""
    op = node.op
    if op_model(op).maps_elements:
        return _with_body(graph, op)
    rule = rule_of(op)
    uses = [use for use in node.uses if not graph.is_constant(use.value)]
    if len(uses) > 1:
        uses = [use for use in uses if not has_any(graph, use.value)]
    if rule is None or len(uses) != 1:
        return None
    (use,) = uses
    shape, result = shape_of(use.value), shape_of(op.results[0])
    if rule.is_homogeneous:
        starts = (op.operands[number] for number in rule.starts)
        is_free = all(has_any(graph, start) for start in starts)
        return _pool(use, rule.mixed_axes) if is_free else None
    if len(rule.functions) != 1 or shape != result:
        return None
    if find_attribute(op, "indexing_maps") is not None:
        return None
    numbers = range(len(op.operands)) if rule.operands is None else rule.operands
    (function,) = rule.functions
    if limits := [limit for limit in rule.limits or () if isinstance(limit, SSAValue)]:
        degrees = [_SCALED, *(_degrees_of(graph, limit) for limit in limits)]
        function = "max"
    else:
        degrees = [
            _SCALED if number == use.number else _degrees_of(graph, op.operands[number])
            for number in numbers
        ]
    if 1 not in _degrees(function, degrees):
        return None
    return _along(use, range(len(shape)))


def _pool(use: Use, mixed: Sequence[int]) -> Passage | None:
    before, after = shape_of(use.value), shape_of(use.op.results[0])
    kept = [None if axis in mixed else axis for axis in range(len(before))]
    if len(after) == len(before) - len(mixed):
        # Reduced axes are dropped.
        axes = iter(range(len(after)))
        kept = [None if axis is None else next(axes) for axis in kept]
    elif len(after) != len(before):
        return None
    if any(axis is not None and before[at] != after[axis] for at, axis in enumerate(kept)):
        return None
    return _along(use, kept)


def _degrees_of(graph: FlowGraph, value: SSAValue) -> Degrees:
    """The degrees of a constant operand."""
    if has_any(graph, value):
        return _ANY
    is_known = number_of(value) is not None or graph.is_constant(value)
    return _FIXED if is_known else _NONE


def has_any(graph: FlowGraph, value: SSAValue) -> bool:
    """Whether all elements of a value are zero or infinite, so that no factor changes it."""
    if (number := number_of(value)) is not None:
        return _is_unchanged(np.asarray(number))
    owner = graph.value(value).owner
    if isinstance(owner, Operation) and op_model(owner).repeats:
        return has_any(graph, owner.operands[0])
    return graph.stored(value) is not None and _is_unchanged(graph.numbers(value))


def _is_unchanged(numbers: NDArray[Any]) -> bool:
    """Whether all numbers are zero, or at an end of the range of their type."""
    return bool(((numbers == 0) | (np.abs(numbers) >= np.finfo("f4").max)).all())


def _degrees(function: str, operands: Sequence[Degrees]) -> Degrees:
    """The degrees of the result of a function."""
    if not operands or _NONE in operands:
        return _NONE
    first, *others = operands
    match function:
        case "add" | "sub" | "max" | "min" | "maxnum" | "minnum":
            return first.intersection(*others)
        case "mul" if len(others) == 1:
            return frozenset(one + other for one in first for other in others[0])
        case "div" if len(others) == 1:
            return frozenset(one - other for one in first for other in others[0])
        case "neg" | "abs" | "identity":
            return first
        case "cmp" if first.intersection(*others):
            return _FIXED
        case "select" if len(others) == 2 and 0 in first:
            return others[0] & others[1]
        case _:
            return _NONE


def _with_body(graph: FlowGraph, op: Operation) -> Passage | None:
    """How factors pass an op whose body computes each element by ops of arith and math."""
    block = op.regions[0].block
    count = len(op.operands) - len(op.results)
    inputs = list(op.operands)[:count]
    active = [at for at, value in enumerate(inputs) if not graph.is_constant(value)]
    active = [at for at in active if number_of(inputs[at]) is None and block.args[at].first_use]
    if len(active) != 1 or len(op.results) != 1:
        return None
    read = [_SCALED if at in active else _degrees_of(graph, inputs[at]) for at in range(count)]
    # The accumulator has the degree of the elements that are combined into it.
    read += [_SCALED if has_any(graph, start) else _NONE for start in op.operands[count:]]

    def degrees_of(inner: Operation, operands: Sequence[Degrees]) -> Degrees:
        if not operands:
            return _degrees_of(graph, inner.results[0])
        return _degrees(function_of(name_of(inner)), operands)

    ends = yielded(block, read, degrees_of, partial(_degrees_of, graph))
    kept = _kept_axes(op, active[0])
    if kept is None or [1 in degrees for degrees in ends] != [True]:
        return None
    return _along(Use(op, active[0]), kept)


def _kept_axes(op: Operation, number: int) -> Sequence[int | None] | None:
    """For each axis of an operand, that of the result; None for combined axes."""
    maps = find_attribute(op, "indexing_maps")
    if maps is None:
        return range(len(shape_of(op.operands[number])))
    loops = cast("ArrayAttr[Attribute]", maps).data
    own, result = (_loops(loops[at]) for at in (number, -1))
    if own is None or result is None:
        return None
    return [result.index(loop) if loop in result else None for loop in own]


def _loops(map: Attribute) -> Sequence[int] | None:
    """The loop that indexes each axis of an operand; None if a loop indexes two."""
    if not isinstance(map, AffineMapAttr):
        return None
    results = map.data.results
    loops = [result.position for result in results if isinstance(result, AffineDimExpr)]
    is_plain = len(loops) == len(results) and len(set(loops)) == len(loops)
    return loops if is_plain else None
