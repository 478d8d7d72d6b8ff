"""
Homogeneous ops: a positive factor of the operand becomes a factor of the result.

Shape ops move factors with the elements. An op on elements has a degree d: a factor f of the
operand becomes f**d. `relu`, absolute values and products with constants have degree 1; a logistic
function has no degree. A pool has degree 1 in the elements that it combines, so factors must not
vary within a window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr

from qdialect.algebra.movement import Shape
from qdialect.check.index_maps import NotCertifiableError
from qdialect.ir.value_types import shape_of
from qdialect.ops.attributes import attribute_of, integers_of
from qdialect.ops.interface import (
    Refusal,
    elements_attribute_of,
    find_attribute,
    model_of,
    name_of,
    read_movements,
)
from qdialect.ops.model import model_named
from qdialect.ops.rules import RuleKind, function_of, rule_of
from qdialect.ptq.equalization.factors import Factors, Places, common, places_of
from qdialect.ptq.float_graph.flow_graph import FlowGraph, Node, Use, number_of
from qdialect.support.lazy_numpy import np
from qdialect.support.memory import MemoryLimitError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Degrees = frozenset[int]
"""The degrees of a number; zeros and infinities have all of them."""

_ANY: Final = frozenset({-1, 0, 1, 2})
_NONE: Final = frozenset[int]()
_FIXED: Final = frozenset({0})
_SCALED: Final = frozenset({1})

_WITH_BODY: Final = ("linalg.generic", "linalg.map", "linalg.reduce")
"""The ops whose regions define their function."""


class Passage(Protocol):
    """How factors pass an op."""

    @property
    def uses(self) -> Sequence[Use]:
        """The operands whose factors become those of the result."""
        ...

    def pulled(self, factors: Factors) -> Sequence[Factors] | None:
        """The operand factors that give the result these factors; None if there are none."""
        ...

    def moved(self, operands: Sequence[NDArray[Any]], new: object) -> NDArray[Any] | None:
        """
        Labels of the operands' elements, moved to the elements of the result.

        `new` is the label of padding. None if the op combines elements with different labels.
        """
        ...

    def keeps(self, groups: Sequence[NDArray[np.int64]]) -> bool:
        """Whether the result has all or none of the elements of each group of the operands."""
        ...


def passage_of(graph: FlowGraph, node: Node) -> Passage | None:
    """How factors pass a node; None if they do not, or it has too many elements to follow."""
    if node.weight is not None or len(node.ops) != 1 or len(node.results) != 1:
        return None
    try:
        # A shape op that is an identity has no movements.
        is_moving = node.movements or node.rule is RuleKind.MOVED
        return _movement(graph, node) if is_moving else _computation(graph, node)
    except (Refusal, NotCertifiableError, MemoryLimitError):
        return None


@dataclass(frozen=True, eq=False)
class _Moving:
    """The passage of a shape op."""

    uses: Sequence[Use]
    places: Sequence[Places]
    shapes: Sequence[Shape]
    result: Shape

    def pulled(self, factors: Factors) -> Sequence[Factors] | None:
        found = [each.pulled(factors) for each in self.places]
        operands = list[Factors]()
        for number, shape in enumerate(self.shapes):
            one = common([None if of is None else of[number] for of in found], shape)
            if one is None:
                return None
            operands.append(one)
        return operands

    def moved(self, operands: Sequence[NDArray[Any]], new: object) -> NDArray[Any] | None:
        return common([each.moved(operands, new) for each in self.places], self.result)

    def keeps(self, groups: Sequence[NDArray[np.int64]]) -> bool:
        return all(each.keeps(groups) for each in self.places)


def _movement(graph: FlowGraph, node: Node) -> Passage | None:
    """How factors pass a shape op, which may pad with zero or an infinity."""
    op = node.op
    model = model_of(op)
    if model is None:
        return None
    operands, movements, padding = read_movements(op, model, graph.folding.operands)
    uses = list(node.uses)
    if padding is not None and uses and uses[-1].value is padding:
        uses.pop()
    if [use.value for use in uses] != list(operands):
        return None
    shapes = [_shape(value) for value in operands]
    places = places_of(movements, shapes)
    if any(each.pads for each in places) and (padding is None or not has_any(graph, padding)):
        return None
    return _Moving(uses, places, shapes, _shape(op.results[0]))


def _shape(value: SSAValue) -> Shape:
    shape = shape_of(value.type)
    assert shape is not None
    return shape


@dataclass(frozen=True, eq=False)
class _Along:
    """The passage of an op that keeps some axes, and combines elements along the others."""

    use: Use
    kept: Sequence[int | None]
    """
    For each axis of the operand, that of the result, or None if elements are combined along it.
    """
    rank: int
    """The rank of the result."""

    @property
    def uses(self) -> Sequence[Use]:
        """The operand."""
        return (self.use,)

    def pulled(self, factors: Factors) -> Sequence[Factors] | None:
        if any(n > 1 and axis not in self.kept for axis, n in enumerate(factors.shape)):
            return None
        axes = [axis for axis in self.kept if axis is not None]
        others = [axis for axis in range(self.rank) if axis not in axes]
        rows = factors.transpose([*axes, *others]).reshape([factors.shape[axis] for axis in axes])
        lengths = [1 if axis is None else factors.shape[axis] for axis in self.kept]
        return [rows.reshape(lengths)]

    def moved(self, operands: Sequence[NDArray[Any]], new: object) -> NDArray[Any] | None:
        (operand,) = operands
        if any(n > 1 and self.kept[axis] is None for axis, n in enumerate(operand.shape)):
            return None
        lengths = [1] * self.rank
        pairs = [(axis, at) for at, axis in enumerate(self.kept) if axis is not None]
        for axis, at in pairs:
            lengths[axis] = operand.shape[at]
        mixed = [at for at, axis in enumerate(self.kept) if axis is None]
        return operand.transpose([*(at for _, at in sorted(pairs)), *mixed]).reshape(lengths)

    def keeps(self, groups: Sequence[NDArray[np.int64]]) -> bool:
        return False


def _computation(graph: FlowGraph, node: Node) -> Passage | None:
    """How factors pass an op that computes elements."""
    op = node.op
    if name_of(op) in _WITH_BODY:
        return _with_body(graph, op)
    found = rule_of(op)
    uses = [use for use in node.uses if not graph.is_constant(use.value)]
    if len(uses) > 1:
        uses = [use for use in uses if not has_any(graph, use.value)]
    if found is None or len(uses) != 1:
        return None
    (use,) = uses
    if found.is_homogeneous:
        if not all(has_any(graph, each) for each in _starts(op, use)):
            return None
        return _pool(use, found.mixed_axes)
    operands = range(len(op.operands)) if found.operands is None else found.operands
    if len(found.functions) != 1 or _shape(use.value) != _shape(op.results[0]):
        return None
    if find_attribute(op, "indexing_maps") is not None:
        return None
    degrees = [
        _SCALED if at == use.number else _degrees_of(graph, op.operands[at]) for at in operands
    ]
    (function,) = found.functions
    if limits := [each for each in found.limits or () if isinstance(each, SSAValue)]:
        degrees = [_SCALED, *(_degrees_of(graph, each) for each in limits)]
        function = "max"
    if 1 not in _degrees(function, degrees):
        return None
    return _Along(use, range(len(_shape(use.value))), len(_shape(op.results[0])))


def _starts(op: Operation, use: Use) -> list[SSAValue]:
    """The initial values of a pool or a reduction: operands in StableHLO, `outs` in linalg."""
    name = name_of(op)
    if name.startswith("stablehlo.reduce"):
        return list(op.operands[1:])
    return [op.operands[-1]] if name.startswith("linalg.pooling") else []


def _pool(use: Use, mixed: Sequence[int]) -> Passage | None:
    before, after = _shape(use.value), _shape(use.op.results[0])
    kept = [None if axis in mixed else axis for axis in range(len(before))]
    if len(after) == len(before) - len(mixed):
        # Reduced axes are dropped.
        numbers = iter(range(len(after)))
        kept = [None if axis is None else next(numbers) for axis in kept]
    elif len(after) != len(before):
        return None
    if any(axis is not None and before[at] != after[axis] for at, axis in enumerate(kept)):
        return None
    return _Along(use, kept, len(after))


def _degrees_of(graph: FlowGraph, value: SSAValue) -> Degrees:
    """The degrees of a constant operand."""
    if has_any(graph, value):
        return _ANY
    return _FIXED if graph.is_constant(value) else _NONE


def has_any(graph: FlowGraph, value: SSAValue) -> bool:
    """Whether all elements of a value are zero or infinite, so that no factor changes it."""
    if (number := number_of(value)) is not None:
        return _is_unchanged(np.asarray(number))
    owner = graph.value(value).owner
    if isinstance(owner, Operation) and model_named(name_of(owner)).repeats:
        return has_any(graph, owner.operands[0])
    held = graph.stored(value)
    return held is not None and _is_unchanged(graph.numbers(value))


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
    """How factors pass an op of linalg that computes each element by ops of arith and math."""
    block = op.regions[0].block
    count = len(op.operands) - len(op.results)
    inputs = list(op.operands)[:count]
    active = [at for at, value in enumerate(inputs) if not graph.is_constant(value)]
    active = [at for at in active if number_of(inputs[at]) is None and block.args[at].first_use]
    if len(active) != 1 or len(op.results) != 1:
        return None
    degrees = dict[SSAValue, Degrees]()
    for at, argument in enumerate(block.args):
        value = op.operands[at]
        if at < count:
            degrees[argument] = _SCALED if at in active else _degrees_of(graph, value)
        else:
            # The accumulator has the degree of the elements that are combined into it.
            degrees[argument] = _SCALED if has_any(graph, value) else _NONE
    if 1 not in _degrees_of_body(block, degrees):
        return None
    kept = _kept_axes(op, active[0])
    if kept is None:
        return None
    return _Along(Use(op, active[0]), kept, len(_shape(op.results[0])))


def _degrees_of_body(block: Block, degrees: Mapping[SSAValue, Degrees]) -> Degrees:
    """The degrees of the yielded values of a body, from the degrees of its arguments."""
    known = dict(degrees)

    def of(value: SSAValue) -> Degrees:
        if value in known:
            return known[value]
        number = number_of(value)
        if number is None:
            return _NONE
        return _ANY if _is_unchanged(np.asarray(number)) else _FIXED

    for inner in block.ops:
        if inner is block.last_op:
            return of(inner.operands[0]) if len(inner.operands) == 1 else _NONE
        if len(inner.results) == 1:
            function = function_of(name_of(inner))
            if elements_attribute_of(inner) is None:
                known[inner.results[0]] = _degrees(function, [of(each) for each in inner.operands])
    return _NONE


def _kept_axes(op: Operation, number: int) -> Sequence[int | None] | None:
    """For each axis of an operand, that of the result; None for combined axes."""
    rank = len(_shape(op.operands[number]))
    if name_of(op) == "linalg.map":
        return range(rank)
    if name_of(op) == "linalg.reduce":
        gone = integers_of(op, "dimensions")
        left = iter(range(rank))
        return [None if axis in gone else next(left) for axis in range(rank)]
    maps = cast("ArrayAttr[Attribute]", attribute_of(op, "indexing_maps")).data
    own, result = (_loops(maps[at]) for at in (number, -1))
    if own is None or result is None:
        return None
    return [result.index(loop) if loop in result else None for loop in own]


def _loops(map: Attribute) -> Sequence[int] | None:
    """The loop that indexes each axis of an operand; None if a loop indexes two."""
    if not isinstance(map, AffineMapAttr):
        return None
    loops = [each.position for each in map.data.results if isinstance(each, AffineDimExpr)]
    is_plain = len(loops) == len(map.data.results) and len(set(loops)) == len(loops)
    return loops if is_plain else None
