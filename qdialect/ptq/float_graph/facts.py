"""
Facts about values that are computed from one value with reductions.

The degree of a value says how it follows a factor of the entry; a value that follows a shift of it
once is a mean, and one that does not is a difference from one. A value is also a product of powers:
there a softmax is an exponential divided by a sum of exponentials, however it is written, since
what is divided out again, such as the exponential of a maximum, is gone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias, cast

from xdsl.ir import Operation, SSAValue

from qdialect.algebra.movement import DYNAMIC
from qdialect.ir.value_types import shape_of
from qdialect.ptq.float_graph.computed_functions import (
    DOT,
    EXPONENTIALS,
    PRODUCTS,
    REDUCE,
    SUMS,
    Computations,
    Term,
)

Atom: TypeAlias = "SSAValue | tuple[str, object, object]"
"""
A factor: a value, the exponential of one, whether a predicate chooses, positive constants, a sum
along axes, or what is repeated along axes that it was not reduced along.
"""

Powers: TypeAlias = "Mapping[Atom, float]"
"""A product of powers of atoms."""

Axes: TypeAlias = "frozenset[tuple[object, int]]"
"""Axes, each with the rank of the tensor that was reduced, or with the op if it is not known."""

_EXP: Final = "exp"
_SUM: Final = "sum"
_CHOSEN: Final = "chosen"
_ELSEWHERE: Final = "elsewhere"
_WEIGHTS: Final = "weights"
_E: Final = ("number", "e", None)
_MINUS: Final = ("number", "-", None)
_LOWEST: Final = -9999.0
"""The exponential of numbers up to this one is 0."""

SMALL: Final = 1e-3
"""More than the rounding of the numbers by which means and logarithms are scaled."""

_SHIFT: Final = 4e-3
"""More than the shift of a mean whose length is rounded to bfloat16."""

_POWERS: Final = {"reciprocal": -1.0, "square": 2.0, "sqrt": 0.5, "rsqrt": -0.5, "cbrt": 1 / 3}
_SCALES: Final = {"exp": 1.0, "exp2": math.log(2), "log": 1.0, "log2": 1 / math.log(2)}
_ALIKE: Final = {*_POWERS, *_SCALES, *PRODUCTS, *SUMS, "abs", "max", "min", "neg", "pow"}
"""Functions that have no attributes."""


class Degrees(NamedTuple):
    """How a value follows the entry; None is not known."""

    scale: float | None = None
    """The power of a factor of the entry that is a factor of the value, up to an epsilon."""
    shift: float | None = None
    """The multiple of what is added to the entry that is added to the value."""
    along: Axes | None = frozenset()
    """The reduced axes, along which all elements are equal; None for a constant."""
    is_reduced: bool = False
    """Whether it is computed with a reduction."""


_UNKNOWN: Final = Degrees()


class Facts(NamedTuple):
    """A value and its exponential, both as products."""

    product: Powers
    exponential: Powers


class FactReader:
    """The facts of values that are computed from an entry."""

    def __init__(self, computations: Computations, entry: SSAValue) -> None:
        self._computations = computations
        self._entry = entry
        constant = Degrees(0.0, 0.0, None)
        self._atoms: dict[Atom, Degrees] = {_E: constant, _MINUS: constant}
        self._alike = dict[object, Facts]()
        """The facts of values that are computed alike."""
        self._known = {entry: self._atom(entry, Degrees(1.0, 1.0))}

    def name_of(self, value: SSAValue, *, is_join: bool) -> str:
        """The name of the function that ends with a value; empty for no known one."""
        facts, function = self._of(value), self._computations.function_of(value)
        if _is_share(facts.product):
            return "softmax"
        if function in EXPONENTIALS and _is_share(facts.product, is_weighted=True):
            return "weighted softmax"
        if _is_share(facts.exponential, is_weighted=True):
            return "log-softmax"
        match [item for item in facts.exponential.items() if item[0] != _E]:
            case [(atom, 1.0)] if _is_positive(atom, _SUM):
                return "log-sum-exp"
            case _:
                pass
        scale, _, _, is_reduced = self.degrees(value)
        if not is_reduced or function not in PRODUCTS | SUMS | {"select"}:
            return ""
        is_divided = function in PRODUCTS and any(
            (is_join and _is_positive(atom, _EXP))
            or (power < 0 and self._atoms[atom].is_reduced and scale is not None)
            for atom, power in facts.product.items()
        )
        return "normalization" if is_divided or is_near(scale, 0) else ""

    def sums_exponentials(self, value: SSAValue) -> bool:
        """Whether all that is summed in a softmax are exponentials of the entry."""
        sums = [atom for powers in self._of(value) for atom in powers if _is_positive(atom, _SUM)]
        return all((_EXP, self._entry, None) in _summed(atom) for atom in sums)

    def is_centered(self, value: SSAValue) -> bool:
        """Whether a value is a difference from a mean or an extreme of the entry."""
        scale, shift, _, is_reduced = self.degrees(value)
        return is_reduced and is_near(scale, 1) and shift is not None and abs(shift) < _SHIFT

    def degrees(self, value: SSAValue) -> Degrees:
        return self._degrees(self._of(value))

    def _degrees(self, facts: Facts) -> Degrees:
        parts = [self._atoms[atom] for atom in facts.product]
        return Degrees(
            self._total(0, facts.product),
            self._total(1, facts.exponential),
            _common(part.along for part in parts),
            any(part.is_reduced for part in parts),
        )

    def _total(self, field: int, powers: Powers) -> float | None:
        total = 0.0
        for atom, power in powers.items():
            if not isinstance(own := self._atoms[atom][field], float):
                return None
            total += own * power
        return total

    def _of(self, value: SSAValue) -> Facts:
        value = self._computations.graph.value(value)
        if value not in self._known:
            self._known[value] = self._computed(value)
        return self._known[value]

    def _computed(self, value: SSAValue) -> Facts:
        if (number := self._computations.number(value)) is not None:
            return self._of_constant(value, number)
        if (term := self._computations.term(value)) is None:
            return self._atom(value, _UNKNOWN)
        function, operands, op = term
        reading = self._computations.reading(op)
        read = operands[function == "select" :]
        facts = [self._repeated(value, operand, op) for operand in read]
        if not function and (reading is None or reading.is_whole):
            return facts[0]
        attributes: tuple[object, ...] = () if function in _ALIKE else (op, *operands)
        if function.startswith(REDUCE):
            attributes = (self._reduced_axes(op),)
        key = function, *map(id, facts), *attributes
        if key not in self._alike:
            self._alike[key] = self._applied(value, term, facts)
        return self._alike[key]

    def _repeated(self, value: SSAValue, operand: SSAValue, op: Operation) -> Facts:
        """The facts of an operand; not those of a sum that is repeated along other axes."""
        facts = self._of(operand)
        repeated = self._computations.repeated_axes(value, operand, op)
        ranks = {rank for rank, _ in repeated}
        along = [self._atoms[atom].along for atom in (*facts.product, *facts.exponential)]
        # Axes of other ranks are not compared.
        if all(repeated <= axes for axes in along if axes and {rank for rank, _ in axes} == ranks):
            return facts
        return self._atom((_ELSEWHERE, operand, repeated), self._degrees(facts))

    def _of_constant(self, value: SSAValue, number: float) -> Facts:
        if math.isnan(number):
            facts = self._atom(value, Degrees(0.0, 0.0))
            if (weights := self._computations.weights(value)) is None:
                return facts
            atom: Atom = (_WEIGHTS, weights, None)
            self._atoms[atom] = Degrees(0.0, 0.0)
            return facts._replace(product={atom: 1.0})
        if number not in self._alike:
            facts = self._atom(value, Degrees(0.0, 0.0, None))
            if number and math.isfinite(number):
                sign = {_MINUS: 1.0} if number < 0 else {}
                facts = Facts({_E: math.log(abs(number)), **sign}, {_E: number})
            self._alike[number] = facts
        return self._alike[number]

    def _applied(self, value: SSAValue, term: Term, facts: Sequence[Facts]) -> Facts:
        degrees = [self._degrees(operand) for operand in facts]
        # A constant that is added is an epsilon.
        scales = [own.scale for own in degrees if own.scale is not None]
        largest = max(scales) if len(scales) == len(degrees) else None
        shifts = {own.shift for own in degrees}
        same = shifts.pop() if len(shifts) == 1 else None
        numbers = [_number_of(operand) for operand in facts]
        match term.function.split(), facts:
            case [], _:
                # A part of the elements, or on other axes.
                return self._made(value, degrees, Degrees(largest, same))
            case ["add" | "sub"], [one, other]:
                sign = 1.0 if term.function == "add" else -1.0
                exponential = _times(one.exponential, other.exponential, sign)
                return self._made(value, degrees, Degrees(largest), exponential=exponential)
            case ["neg"], [only]:
                product = _times(only.product, {_MINUS: 1.0})
                exponential = _times({}, only.exponential, -1.0)
                return self._made(value, degrees, product=product, exponential=exponential)
            case ["mul" | "div"], [one, other]:
                power = 1.0 if term.function == "mul" else -1.0
                product, exponential = _times(one.product, other.product, power), None
                if numbers[1]:
                    exponential = _times({}, one.exponential, numbers[1] ** power)
                elif numbers[0] and power == 1:
                    exponential = _times({}, other.exponential, numbers[0])
                return self._made(value, degrees, product=product, exponential=exponential)
            case ["abs"], [only] if all(map(_is_positive, only.product)):
                return only
            case ["max" | "min" | "clamp" | "abs"], _:
                return self._made(value, degrees, Degrees(largest, same))
            case ["exp" | "exp2"], [only]:
                product = _times({}, only.exponential, _SCALES[term.function])
                return self._made(value, degrees, product=product)
            case ["log" | "log2"], [only]:
                exponential = _times({}, only.product, _SCALES[term.function])
                return self._made(value, degrees, exponential=exponential)
            case ["pow"], [one, _] if (power := numbers[1]) is not None:
                return self._made(value, degrees, product=_times({}, one.product, power))
            case [name], [only] if name in _POWERS:
                return self._made(value, degrees, product=_times({}, only.product, _POWERS[name]))
            case ["select"], [one, other]:
                for at, own in enumerate((one, other)):
                    if self._computations.is_nan(rejected := term.operands[2 - at]):
                        return own
                    number = self._computations.number(rejected)
                    chosen: Atom = (_CHOSEN, term.operands[0], at)
                    self._atoms[chosen] = Degrees(0.0, 0.0)
                    if number == 0:
                        product = _times(own.product, {chosen: 1.0})
                        return self._made(value, degrees, Degrees(largest), product=product)
                    if number is not None and number <= _LOWEST:
                        exponential = _times(own.exponential, {chosen: 1.0})
                        return self._made(value, degrees, Degrees(largest), exponential=exponential)
                return self._made(value, degrees, Degrees(largest, same))
            case [_, name], [one, factor] if name == DOT:
                sums = self._reduced(value, term.op, one, "add")
                exponential = _times({}, sums.exponential, numbers[1] or 0.0)
                return Facts(_times(sums.product, factor.product), exponential)
            case [name, *combiner], _ if name == REDUCE:
                return self._reduced(value, term.op, facts[0], *combiner)
            case _:
                return self._made(value, degrees)

    def _made(
        self,
        value: SSAValue,
        operands: Sequence[Degrees],
        given: Degrees = _UNKNOWN,
        *,
        product: Powers | None = None,
        exponential: Powers | None = None,
    ) -> Facts:
        """The facts of a function of operands, which does not change if none of them does."""
        scale, shift, reduced, is_reduced = given
        is_still = [all(degrees[field] == 0 for degrees in operands) for field in (0, 1)]
        along = _common(degrees.along for degrees in operands)
        facts = self._atom(
            value,
            Degrees(
                0.0 if is_still[0] else scale,
                0.0 if is_still[1] else shift,
                along if along is None or reduced is None else along | reduced,
                is_reduced or any(degrees.is_reduced for degrees in operands),
            ),
        )
        return Facts(product or facts.product, exponential or facts.exponential)

    def _atom(self, value: Atom, degrees: Degrees) -> Facts:
        power: Atom = (_EXP, value, None)
        self._atoms[value] = degrees
        self._atoms[power] = degrees._replace(scale=None if degrees.scale else degrees.scale)
        return Facts({value: 1.0}, {power: 1.0})

    def _reduced(self, value: SSAValue, op: Operation, facts: Facts, combiner: str = "") -> Facts:
        axes, count = self._reduced_axes(op)
        product, degrees = facts.product, self._degrees(facts)
        scale, shift, *_ = degrees
        if combiner == "square":
            product, scale, shift = _times({}, product, 2.0), scale and 2 * scale, None
        is_sum = combiner in ("add", "square")
        if is_sum and shift:
            shift = count and shift * count
        if not is_sum and combiner not in ("max", "min"):
            scale = shift = None
        of_value = self._made(value, [degrees], Degrees(scale, shift, axes, is_reduced=True))
        outside = {
            atom: power
            for atom, power in product.items()
            if (along := self._atoms[atom].along) is None or (axes and axes <= along)
        }
        inside = frozenset(product.items() - outside.items())
        if not is_sum or not inside:
            return of_value
        total: Atom = (_SUM, inside, axes)
        self._atoms[total] = self._atoms[value]._replace(scale=self._total(0, dict(inside)))
        return of_value._replace(product=_times({total: 1.0}, outside))

    def _reduced_axes(self, op: Operation) -> tuple[Axes, float | None]:
        """
        The axes along which the elements of the result are equal, if it is broadcast again, and the
        number of elements that are combined to each, if it is known.
        """
        axes: Axes = frozenset({(op, 0)})
        reading = self._computations.reading(op)
        before, after = (shape_of(end.type) or () for end in (op.operands[0], op.results[0]))
        if reading is not None and reading.axes:
            before = shape_of(reading.operands[0].type) or ()
            is_window = len(before) == len(after) and any(after[axis] != 1 for axis in reading.axes)
            axes = frozenset((len(before), axis) for axis in reading.axes)
            if DOT in reading.functions or not is_window:
                before, after = [before[axis] for axis in reading.axes], ()
            else:
                axes = frozenset()
        is_known = DYNAMIC not in (*before, *after)
        return axes, math.prod(before) / math.prod(after) if is_known else None


def _times(one: Powers, other: Powers, power: float = 1.0) -> Powers:
    """The product of a product and a power of another one."""
    powers = dict(one)
    for atom, own in other.items():
        powers[atom] = round(powers.get(atom, 0.0) + own * power, 6)
        if _is_positive(atom, _CHOSEN):
            # It is 0 or 1, as its powers are.
            powers[atom] = min(powers[atom], 1.0)
    return {atom: own for atom, own in powers.items() if own}


def _is_share(powers: Powers, *, is_weighted: bool = False) -> bool:
    """
    Whether a product is an exponential divided by a sum of such: it is between 0 and 1.

    If it is weighted, it may have another range by masks and positive constants.
    """
    if (abs(powers.get(_E, 0.0)) > SMALL and not is_weighted) or _MINUS in powers:
        return False
    for total in [atom for atom, own in powers.items() if own == -1 and _is_positive(atom, _SUM)]:
        rest = _times(_times(powers, {total: 1.0}), _summed(total), -1.0)
        # A mask makes some numbers 0.
        if all(
            atom == _E
            or (_is_positive(atom, _CHOSEN) and (own > 0 or is_weighted))
            or (_is_positive(atom, _WEIGHTS) and is_weighted)
            for atom, own in rest.items()
        ):
            return True
    return False


def _is_positive(atom: Atom, kind: str = "") -> bool:
    """Whether an atom, perhaps of a kind, is an exponential, a mask, or a sum of such."""
    if not isinstance(atom, tuple) or (kind and atom[0] != kind):
        return False
    if atom[0] == _SUM:
        return all(map(_is_positive, _summed(atom)))
    return atom is not _MINUS and atom[0] != _ELSEWHERE


def _summed(atom: Atom) -> Powers:
    """What a sum adds, perhaps along one axis after the other."""
    powers: Powers = {atom: 1.0}
    while isinstance(atom, tuple) and atom[0] == _SUM and powers == {atom: 1.0}:
        powers = dict(cast("frozenset[tuple[Atom, float]]", atom[1]))
        atom = next(iter(powers))
    return powers


def _number_of(facts: Facts) -> float | None:
    """The number of a finite constant; None for 0."""
    return facts.exponential[_E] if {*facts.exponential} == {_E} else None


def _common(axes: Iterable[Axes | None]) -> Axes | None:
    common: Axes | None = None
    for part in axes:
        if part is not None:
            common = part if common is None else common & part
    return common


def is_near(degree: float | None, number: float) -> bool:
    """Whether a degree is a number, but for rounding."""
    return degree is not None and abs(degree - number) < SMALL
