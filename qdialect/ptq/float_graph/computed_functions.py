"""How values are computed: by which functions, and what function of one number that is."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineMap

from qdialect.algebra.movement import BroadcastInDim, Reshape, Reverse
from qdialect.dialects.linalg.models import gathering_op
from qdialect.ir.value_types import shape_of
from qdialect.ops.along_axis import is_recordable
from qdialect.ops.fields import Contraction, RuleKind
from qdialect.ops.interface import (
    Refusal,
    RefusalCode,
    find_attribute,
    known_layer,
    known_rule,
    number_of,
    op_model,
)
from qdialect.ops.model import imported
from qdialect.support.lazy_numpy import NDArray, np

if TYPE_CHECKING:
    from qdialect.ptq.float_graph.flow_graph import FlowGraph

REDUCE: Final = "reduce"
DOT: Final = "dot"
"""The function of a reduction that multiplies the sum by a number, which it reads last."""
PRODUCTS: Final = frozenset({"mul", "div"})
SUMS: Final = frozenset({"add", "sub"})
LINES: Final = PRODUCTS | SUMS | {"neg"}
EXPONENTIALS: Final = frozenset({"exp", "exp2", "pow"})
CLAMPS: Final = frozenset({"clamp", "max", "min"})
COMPARISONS: Final = frozenset(
    {"cmp", "compare", "equal", "greater", "greater_equal", "is_finite", "isfinite", "isnan"}
)


class Reading(NamedTuple):
    """The functions that an op computes, and their operands; a shape op computes none."""

    functions: frozenset[str]
    operands: Sequence[SSAValue]
    axes: Sequence[int] = ()
    """The axes that a reduction combines, if they are known."""
    is_whole: bool = True
    """Whether a shape op drops no element, and exchanges no axes."""


class Term(NamedTuple):
    """A value as a function of others; the function of what only passes elements on is empty."""

    function: str
    operands: Sequence[SSAValue]
    op: Operation


class Computations:
    """How the values of a graph are computed, each read once."""

    def __init__(self, graph: FlowGraph) -> None:
        self.graph = graph
        self._depth = 0
        self.reading = cache(self._read)
        """What an op computes; None if it is not known."""
        self.term = cache(self._read_term)
        """How a value, or an element in a body, is computed; None if it is not known."""
        self.number = cache(self._read_number)
        """The number of a constant, NaN if its elements differ; None for other values."""
        self.is_nan = cache(self._is_nan)
        """Whether all elements of a constant are NaN."""
        self.weights = cache(self._read_weights)
        """What equal constants with no negative elements have in common; None for other values."""
        self.keeps_places = cache(self._keeps_places)
        """Whether an op reads each operand at the position of the result, or everywhere."""

    def _read_number(self, value: SSAValue) -> float | None:
        number = number_of(value)
        if number is None and self.graph.is_computed(value):
            number = self.graph.splat_number(value)
            if number is None and self._depth < _MOST_DEPTH:
                self._depth += 1
                number = Curve(self, value).number(value)
                self._depth -= 1
            return math.nan if number is None else number
        return number

    def _is_nan(self, value: SSAValue) -> bool:
        number = number_of(value)
        number = self.graph.splat_number(value) if number is None else number
        return number is not None and math.isnan(number)

    def _read_weights(self, value: SSAValue) -> int | None:
        if self.graph.stored(value) is None:
            return None
        numbers = self.graph.numbers(value)
        return hash((numbers.shape, numbers.tobytes())) if (numbers >= 0).all() else None

    def _keeps_places(self, op: Operation) -> bool:
        if (maps := find_attribute(op, "indexing_maps")) is None:
            return True
        *operands, result = [map.data for map in cast("ArrayAttr[AffineMapAttr]", maps).data]
        return result == AffineMap.identity(result.num_dims) and all(
            operand == result or self.graph.splat_number(value) is not None
            for operand, value in zip(operands, op.operands, strict=False)
        )

    def repeated_axes(
        self, value: SSAValue, operand: SSAValue, op: Operation
    ) -> frozenset[tuple[int, int]]:
        """The axes of a value along which it repeats an operand, each with the rank."""
        after, before = shape_of(value.type) or (), shape_of(operand.type)
        if isinstance(value, BlockArgument):
            if (maps := find_attribute(op, "indexing_maps")) is None:
                return frozenset()
            read = cast("ArrayAttr[AffineMapAttr]", maps).data[value.index].data
            rank, kept = read.num_dims, read.used_dims()
        elif before is None:
            # The result of a body.
            return frozenset()
        else:
            rank = len(after)
            dims: Sequence[int] = range(rank - len(before), rank)
            if (moved := self.graph.movements(op)) is not None and moved.movements:
                *others, last = moved.movements
                for movement in others:
                    before = movement.result_shape(before)
                dims = last.dims if isinstance(last, BroadcastInDim) else ()
            if len(dims) != len(before) or min(dims, default=0) < 0:
                return frozenset()
            kept = {axis for axis, n in zip(dims, before, strict=True) if n == after[axis]}
            kept |= {axis for axis, length in enumerate(after) if length == 1}
        return frozenset((rank, axis) for axis in range(rank) if axis not in kept)

    def source(self, value: SSAValue) -> SSAValue:
        """The value, or element of a body, before what only passes elements on."""
        value = self.graph.value(value)
        while not isinstance(value, BlockArgument):
            term = self.term(value)
            if term is None or term.function:
                break
            value = self.graph.value(term.operands[0])
        return value

    def function_of(self, value: SSAValue) -> str:
        """The function that is computed last."""
        term = self.term(self.source(value))
        return "" if term is None else term.function

    def _read(self, op: Operation) -> Reading | None:
        if isinstance(layer := known_layer(op), Contraction):
            return self._sum(op, layer)
        if (moved := self.graph.movements(op)) is not None:
            is_whole = all(isinstance(movement, _WHOLE) for movement in moved.movements)
            return Reading(frozenset(), moved.operands, is_whole=is_whole)
        if (inner := gathering_op(op)) is not None:
            return Reading(frozenset(), inner.operands[:1], is_whole=False)
        if (rule := known_rule(op)) is None:
            return None
        read = op.operands if rule.operands is None else [op.operands[at] for at in rule.operands]
        # It converts elements, or moves them to positions that are known at run time only.
        passes_on = rule.kind is RuleKind.SHARED and len(read) == 1 and not rule.mixed_axes
        if passes_on and REDUCE not in rule.functions:
            return Reading(frozenset(), read, is_whole=rule.keeps_places)
        return Reading(rule.functions, read, rule.mixed_axes)

    def _sum(self, op: Operation, layer: Contraction) -> Reading | None:
        """A sum of squares, or of the products with one number, which is the last operand."""
        one, other = (op.operands[at] for at in layer.operands)
        if one is other and layer.lhs == layer.rhs:
            return Reading(frozenset({REDUCE, "square"}), (one,))
        added = () if layer.bias is None else op.operands[layer.bias : layer.bias + 1]
        starts = [start for start in added if is_recordable(start)]
        if any(0 not in (self.number(start), self.graph.filled_with(start)) for start in starts):
            return None
        for side in (layer.side(1), layer.side(0)):
            factor = op.operands[side.operand]
            axes = side.summed_axes(shape_of(factor.type) or ())
            if axes and math.isfinite(self.number(factor) or math.nan):
                return Reading(frozenset({REDUCE, DOT}), (op.operands[side.other], factor), axes)
        return None

    def _read_term(self, value: SSAValue) -> Term | None:
        if isinstance(value, BlockArgument):
            outer = value.block.parent_op()
            is_element = outer is not None and self.reading(outer) is not None
            read = outer.operands[value.index : value.index + 1] if outer and is_element else ()
            return Term("", read, outer) if outer and read else None
        op = cast(Operation, value.owner)
        if (reading := self.reading(op)) is None:
            return None
        functions, read = reading.functions, reading.operands
        if not functions or not read:
            return Term("", read, op) if len(read) == 1 else None
        if REDUCE in functions:
            return self._reduction(op, *functions - {REDUCE}) or Term(REDUCE, read, op)
        if op_model(op).maps_elements and (end := op.regions[0].block.last_op) is not None:
            return Term("", end.operands[:1], op)
        if len(functions) > 1:
            return None
        (function,) = functions
        if function == "select":
            read = (op.operands[0], *read)
        return Term(_direction(op) or function, read, op)

    def _reduction(self, op: Operation, *functions: str) -> Term | None:
        """A reduction, with the combiner after the function's name, and what it combines."""
        read = cast(Reading, self.reading(op)).operands
        if len(functions) == 1 and (len(read) == 1 or DOT in functions):
            return Term(f"{REDUCE} {functions[0]}", read, op)
        body = op.regions[0].block if op.regions else None
        end = None if body is None else body.last_op
        at = len(op.operands) - len(op.results)
        if body is None or end is None or len(body.args) <= at:
            return None
        combined = self.term(self.source(end.operands[0]))
        read = () if combined is None else combined.operands
        others = [value for value in read if self.source(value) is not body.args[at]]
        if combined is None or len(read) != 2 or len(others) != 1:
            return None
        return Term(f"{REDUCE} {combined.function}", others, op)


_WHOLE: Final = (BroadcastInDim, Reshape, Reverse)


def _direction(op: Operation) -> str:
    """The direction of a comparison; empty for other ops."""
    word = re.search("[A-Z]{2}", str(find_attribute(op, "comparison_direction")))
    number = re.search("[0-9]+", str(find_attribute(op, "predicate")))
    if word is not None:
        return word[0]
    return "" if number is None else _PREDICATES.get(int(number[0]), "")


_DIRECTIONS: Final = ("EQ", "GT", "GE", "LT", "LE", "NE")
_PREDICATES: Final = dict(enumerate(("", *_DIRECTIONS, "", *_DIRECTIONS)))
"""The directions of the predicates of `arith.cmpf`, ordered ones and others, by number."""


# Functions of one number

Numbers: TypeAlias = "NDArray[np.float64]"

_OF_NUMPY: Final = {
    "EQ": "equal",
    "GE": "greater_equal",
    "GT": "greater",
    "LE": "less_equal",
    "LT": "less",
    "NE": "not_equal",
    "div": "divide",
    "is_finite": "isfinite",
    "max": "maximum",
    "min": "minimum",
    "mul": "multiply",
    "neg": "negative",
    "pow": "power",
    "sub": "subtract",
}
"""Functions of numpy, by the names that rules have for them where these differ."""

_OF_NUMBERS: Final = {
    "erf": "erf",
    "logistic": "logistic",
    "sigmoid": "logistic",
    "reciprocal": "reciprocal",
    "rsqrt": "reciprocal_root",
}
"""Functions of `scalar_functions`, by the names that rules have for them."""


def _scalar_function(name: str) -> Any:
    """A function of `scalar_functions`, whose import needs numpy."""
    return imported(f"qdialect.dialects.arrays.scalar_functions:{name}")


_PIECES: Final = frozenset({"", "select", *_DIRECTIONS}) | CLAMPS | COMPARISONS
"""Functions whose results are operands, constants or truth values."""

_MOST_VALUES: Final = 256
_MOST_DEPTH: Final = 32
"""The most ops, one after another, that a number is computed by."""
_OTHER_NUMBER: Final = 0.375
"""In the place of a constant whose elements differ."""


class Curve:
    """The function of one number that ops compute. Raises Refusal for ops that compute none."""

    def __init__(self, computations: Computations, entry: SSAValue) -> None:
        self.constants = set[float]()
        """The constants read so far; `is_exact` says whether no elements of one differ."""
        self.is_exact = True
        self.is_piecewise = True
        """Whether each result is an operand at the same position, or a constant."""
        self._computations = computations
        self._entry = entry
        self._known = dict[SSAValue, Any]()

    def at(self, result: SSAValue, numbers: Numbers) -> Numbers:
        """The results for numbers in the place of the entry."""
        self._known = {self._entry: numbers}
        with np.errstate(all="ignore"):
            return np.broadcast_to(self._numbers(result), numbers.shape)

    def number(self, value: SSAValue) -> float:
        """The number that all elements of a value equal that constants compute; NaN for others."""
        try:
            with np.errstate(all="ignore"):
                number = float(self._applied(value))
        except (Refusal, TypeError):
            return math.nan
        return number if self.is_exact else math.nan

    def operands_of(self, result: SSAValue) -> Sequence[Numbers]:
        """The numbers of the operands of the last function, after the results were computed."""
        term = self._computations.term(self._computations.source(result))
        operands = () if term is None else term.operands
        shape = self._known[self._entry].shape
        return [np.broadcast_to(self._numbers(value), shape) for value in operands]

    def _numbers(self, value: SSAValue) -> Any:
        value = self._computations.graph.value(value)
        if value not in self._known:
            known = self._computed(value) if len(self._known) < _MOST_VALUES else None
            if known is None:
                raise Refusal(RefusalCode.UNKNOWN_OP, "it is no known function of one number")
            self._known[value] = known
        return self._known[value]

    def _computed(self, value: SSAValue) -> Any:
        if (number := self._computations.number(value)) is not None:
            self.is_exact &= not math.isnan(number)
            self.constants.add(number)
            return np.float64(_OTHER_NUMBER if math.isnan(number) else number)
        return self._applied(value)

    def _applied(self, value: SSAValue) -> Any:
        """The function of a value applied to the numbers of its operands."""
        if (term := self._computations.term(value)) is None:
            return None
        function, read, op = term
        self.is_piecewise &= function in _PIECES and self._computations.keeps_places(op)
        if function == "clamp":
            rule = known_rule(op)
            limits = (math.nan,) if rule is None or rule.limits is None else rule.limits
            ends = [self._numbers(end) if isinstance(end, SSAValue) else end for end in limits]
            self.constants.update(filter(math.isfinite, ends))
            return None if any(map(math.isnan, ends)) else self._numbers(read[0]).clip(*ends)
        operands = [self._numbers(operand) for operand in read]
        if not function:
            return operands[0]
        if function == "select":
            return cast(Any, np.where(*operands))
        if (name := _OF_NUMBERS.get(function)) is not None:
            return _scalar_function(name)(*operands)
        known: Any = getattr(np, _OF_NUMPY.get(function, function), None)
        if not isinstance(known, np.ufunc) or known.nin != len(operands):
            return None
        return known(*operands)


def is_clamp(computations: Computations, result: SSAValue, entry: SSAValue) -> bool:
    """
    Whether `result` is `entry` between two numbers, and outside of them the number that is nearer.
    """
    curve = Curve(computations, entry)
    try:
        curve.at(result, np.zeros(1))
        ends = sorted(curve.constants)
        if not (ends and curve.is_piecewise and curve.is_exact and all(map(math.isfinite, ends))):
            return False
        between = [(low + high) / 2 for low, high in pairwise(ends)]
        numbers = np.array(sorted({ends[0] - 1, *ends, *between, ends[-1] + 1}))
        results = curve.at(result, numbers)
    except Refusal:
        return False
    low = -math.inf if results[0] == numbers[0] else results[0]
    high = math.inf if results[-1] == numbers[-1] else results[-1]
    return bool(low <= high and (results == numbers.clip(low, high)).all())


def name_of_function(computations: Computations, result: SSAValue, entry: SSAValue) -> str:
    """The name of a function of one number with known constants; empty if it is not known."""
    curve, numbers = Curve(computations, entry), _numbers()
    try:
        results = curve.at(result, numbers)
    except Refusal:
        return ""
    if not curve.is_exact:
        return ""
    named = ("sigmoid", _scalar_function("logistic")(numbers)), ("tanh", np.tanh(numbers))
    for name, expected in (*named, ("softplus", np.logaddexp(numbers, 0))):
        if np.allclose(results, expected, rtol=1e-6, atol=1e-9):
            return name
    inside = (results > _SMALL) & (results < 1 - _SMALL)
    if inside.sum() < 2 or not inside[len(numbers) // 2]:
        return ""
    line = np.polyval(np.polyfit(numbers[inside], results[inside], 1), numbers)
    is_clipped = np.allclose(results, line.clip(0, 1), atol=_SMALL)
    return "hard sigmoid" if is_clipped and not inside[[0, -1]].any() else ""


def is_one_function(
    computations: Computations, result: SSAValue, entry: SSAValue, functions: frozenset[str]
) -> bool:
    """
    Whether ops compute one function of one number, of which the last op is no layer of its own.

    A product is one unless it is a polynomial, and so is a choice by a comparison. A sum, such as
    of a value and a function of it, is one if its parts take turns, or if codes would lose one of
    them and it bends.
    """
    function, numbers = computations.function_of(result), _numbers()
    if function == "select":
        return bool(functions & COMPARISONS)
    curve = Curve(computations, entry)
    try:
        results = curve.at(result, numbers)
    except Refusal:
        return function in PRODUCTS
    if function in PRODUCTS:
        differences = np.diff(results[2:-2], _MOST_DEGREE + 1)
        return bool(np.abs(differences).max() > 1e-9 * np.abs(results[2:-2]).max())
    changes = [np.diff(part) != 0 for part in curve.operands_of(result)]
    if function in SUMS and all(map(np.any, changes)) and not np.all(changes, axis=0).any():
        return True
    slopes = np.diff(results) / np.diff(numbers)
    if abs(slopes[-1] - slopes[0]) <= 0.1 * max(abs(slopes[0]), abs(slopes[-1])):
        return False
    # A leaky relu has one slope below zero, and another one above.
    is_leaky = all(np.allclose(half, half[0]) for half in np.split(slopes, 2))
    return bool(functions & _POLES) or (is_leaky and bool(functions & PRODUCTS))


def avoids_pole(
    computations: Computations, result: SSAValue, entry: SSAValue, functions: frozenset[str]
) -> bool:
    """Whether a function with a pole ends ops, such as a logarithm, and reads no number at it."""
    if computations.function_of(result) not in _POLES or functions <= _POLES | LINES:
        return False
    try:
        return bool(np.isfinite(Curve(computations, entry).at(result, _numbers())).all())
    except Refusal:
        return False


def _numbers() -> Numbers:
    """Numbers from -4 to 4, and two on each side where most functions are straight."""
    return np.array([-30, -29, *np.linspace(-4, 4, 17), 29, 30])


_SMALL: Final = 1e-3
_MOST_DEGREE: Final = 5
_POLES: Final = frozenset({"log", "log1p", "sqrt", "rsqrt", "reciprocal", "pow"})
"""Functions that codes lose: near a number, their slope is infinite."""
