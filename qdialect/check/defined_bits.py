"""The functions whose results have the same bits with every compiler."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, cast

from xdsl.dialects.builtin import AnyFloat, ComplexType
from xdsl.ir import Attribute, Operation

from qdialect.ir.value_types import element_type_or_self
from qdialect.ops.interface import name_of, op_model
from qdialect.ops.model import Bits, bits_of, model_named
from qdialect.ops.models import CastReads
from qdialect.ops.rules import function_of
from qdialect.support.float_format import FLOAT_FORMATS

_CONTROL: Final = frozenset({"builtin", "cf", "func", "scf", "shape", "ub"})
"""Dialects without arithmetic of their own."""

_WHOLE: Final = frozenset({"ceil", "floor", "round", "roundeven", "sign", "trunc"})
"""The functions whose results are whole floats."""


@dataclass(frozen=True)
class DefinedBits:
    """Reasons why the bits of results may differ between compilers, or between two runs."""

    unordered: str | None
    """An op whose floats depend on the compiler, such as a sum; None if there is none."""

    undefined: str | None
    """An op that is undefined for some operands; None if there is none."""

    is_discrete: bool
    """
    Whether floats are compared, or rounded to whole numbers.

    Then a small difference before may become a large one after.
    """

    precision: int
    """The significant bits of the narrowest floats that unordered ops have."""

    @property
    def tolerance(self) -> float:
        """
        The relative tolerance of results, to the largest: two thirds of the bits must agree.

        Rounding errors of `n` terms grow as the square root of `n`, so 40,000 terms of f32 stay
        within it.
        """
        return 2.0 ** (-2 * (self.precision - 1) / 3)


def defined_bits(ops: Iterable[Operation]) -> DefinedBits:
    """The reasons for functions that consist of `ops`, which include those in regions."""
    unordered = undefined = None
    is_discrete, precision = False, 53
    for op in ops:
        name = name_of(op)
        precisions = list(filter(None, map(_precision_of, _element_types(op))))
        bits = bits_of(op, name)
        is_division = bits is Bits.UNDEFINED_ON_INTEGERS and not precisions
        if is_division or bits is Bits.UNDEFINED or _is_conversion(op):
            undefined = undefined or name
        is_discrete |= _is_discrete(op, name)
        if precisions and not _is_exact(op, name, bits):
            unordered = unordered or name
            precision = min(precision, *precisions)
    return DefinedBits(unordered, undefined, is_discrete, precision)


def _is_exact(op: Operation, name: str, bits: Bits) -> bool:
    if any(isinstance(type, ComplexType) for type in _element_types(op)):
        return _is_moved(op)
    flags = op.properties.get("fastmath") or op.attributes.get("fastmath")
    if flags is not None and getattr(flags, "data", ()):
        return False
    if bits is not Bits.UNKNOWN:
        return bits is not Bits.ROUNDED
    return name.partition(".")[0] in _CONTROL or _is_moved(op)


def _is_moved(op: Operation) -> bool:
    """Whether it is a constant, a shape op, or a cast."""
    model = op_model(op)
    return not (model.cast is model.movement is model.constant is None)


def _is_conversion(op: Operation) -> bool:
    """Whether it converts floats to integers."""
    if CastReads.CONVERTED not in (op_model(op).cast or CastReads.UNKNOWN):
        return False
    before, after = (
        [isinstance(element_type_or_self(value.type), AnyFloat) for value in values]
        for values in (op.operands, op.results)
    )
    return any(before) and not any(after)


def _is_discrete(op: Operation, name: str) -> bool:
    """Whether it maps floats to whole numbers, or to something other than floats."""
    before, after = (
        [_precision_of(element_type_or_self(value.type)) is not None for value in values]
        for values in (op.operands, op.results)
    )
    return any(before) and (not all(after) or not _WHOLE.isdisjoint(_functions_of(name)))


def _functions_of(name: str) -> Collection[str]:
    rule = model_named(name).rule
    return () if rule is None or callable(rule) else (rule.functions or {function_of(name)})


def _element_types(op: Operation) -> Iterator[Attribute]:
    for value in (*op.operands, *op.results):
        yield element_type_or_self(value.type)


def _precision_of(type: Attribute) -> int | None:
    """The significant bits of a float, or of the parts of a complex number; None for others."""
    part = (
        cast("ComplexType[AnyFloat]", type).element_type if isinstance(type, ComplexType) else type
    )
    return FLOAT_FORMATS[part.name].precision if isinstance(part, AnyFloat) else None
