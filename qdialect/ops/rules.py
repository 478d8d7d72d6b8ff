"""
Rules for the quantization parameters of the operands and results of an op.

They are the rules of models of ops. Shape ops need none, since their movements determine the
parameters. Nor do sums of products (`qdialect.ops.products`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, TypeAlias

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation, SSAValue

from qdialect.ir.value_types import element_type_or_self
from qdialect.ops.interface import name_of
from qdialect.ops.model import model_named
from qdialect.support.memory import registered_cache


class RuleKind(StrEnum):
    """The source of the parameters of a value."""

    MOVED = "moved"
    """From those of the operand, element by element."""

    SHARED = "shared"
    """Operands and results have the same parameters."""

    OWN = "own"
    """From the recorded range of the result."""

    FIXED = "fixed"
    """From the op: its results are in a known range."""

    WHOLE_NUMBER = "whole-number"
    """From the recorded range of the result, with a scale that is a whole number."""

    DERIVED = "derived"
    """From the parameters of other operands: the scale of a bias is the product of theirs."""

    GIVEN = "given"
    """From the value itself, which is constant, or from an existing cast."""


Limit: TypeAlias = float | SSAValue
"""A limit of a clamp: a number, NaN if it is unknown, or the operand that has the numbers."""


@dataclass(frozen=True)
class QuantizationRule:
    """The rule by which the parameters of one op follow from others."""

    kind: RuleKind

    operands: tuple[int, ...] | None = None
    """The numbers of the operands that are quantized; None for all float tensors."""

    functions: frozenset[str] = frozenset()
    """
    The functions that it computes, by op names of MLIR's `math` and `arith` without a type, such as
    `exp`. In a model, the default is the name of the op.
    """

    fixed: str = ""
    """The name of the known range of its results: `logistic`, `tanh` or `softmax`."""

    is_homogeneous: bool = False
    """Whether a positive factor of a channel of the operand becomes a factor of the result."""

    keeps_places: bool = False
    """Whether each result element equals an operand element at the same position."""

    singles: tuple[int, ...] = ()
    """The operands that have one number for each channel, such as the slope of a PReLU."""

    mixed_axes: tuple[int, ...] = ()
    """The axes of the operand along which it combines elements, such as those of a pool."""

    starts: tuple[int, ...] = ()
    """The operands with the initial values of a pool or a reduction."""

    limits: tuple[Limit, Limit] | None = None
    """The lowest and the highest number of the results of a clamp, if they are known."""


ReadRule = Callable[[Any], QuantizationRule | None]
"""Reads an op by its name; None if it has no rule."""


def own(*operands: int, function: str = "") -> QuantizationRule:
    """The result has its own range. Without numbers, all float tensors are quantized."""
    return _rule(RuleKind.OWN, operands, function)


def shared(*operands: int, function: str = "", keeps_places: bool = False) -> QuantizationRule:
    """The result has the parameters of operands, of all float tensors if none is named."""
    return replace(_rule(RuleKind.SHARED, operands, function), keeps_places=keeps_places)


def fixed(function: str, *operands: int) -> QuantizationRule:
    """The result is in the known range of a function."""
    return replace(_rule(RuleKind.FIXED, operands, function), fixed=function)


def whole_number(*operands: int, function: str = "") -> QuantizationRule:
    """The results are whole numbers."""
    return _rule(RuleKind.WHOLE_NUMBER, operands, function)


def homogeneous(
    kind: RuleKind, *mixed_axes: int, function: str = "", starts: tuple[int, ...] = ()
) -> QuantizationRule:
    """The op keeps a positive factor of a channel of its first operand."""
    rule = _rule(kind, (0,), function)
    return replace(rule, is_homogeneous=True, mixed_axes=mixed_axes, starts=starts)


def _rule(kind: RuleKind, operands: tuple[int, ...], function: str) -> QuantizationRule:
    functions = frozenset({function}) if function else frozenset[str]()
    return QuantizationRule(kind, operands or None, functions)


def reason_to_leave(op: Operation) -> str | None:
    """The reason why a known op without a rule stays float; None for any other op."""
    return model_named(name_of(op)).stays_float


def conversion(op: Operation) -> QuantizationRule:
    """
    The rule of a cast between types that are not quantized.

    Between float types, the result has the elements of the operand, rounded.
    """
    is_of_floats = all(
        isinstance(element_type_or_self(value.type), AnyFloat)
        for value in (*op.operands, *op.results)
    )
    kind = RuleKind.SHARED if is_of_floats else RuleKind.OWN
    return QuantizationRule(kind, (0,), is_homogeneous=is_of_floats, keeps_places=True)


def function_of(name: str) -> str:
    """The function of an op, from its name: `arith.addf` is `add`."""
    dialect, _, function = name.partition(".")
    if dialect != "arith":
        return function
    for suffix in ("imumf", "numf", "f"):
        if function.endswith(suffix):
            return function.removesuffix(suffix)
    return function


def is_known(name: str) -> bool:
    """Whether a rule is registered for ops of a name, or a reason to leave them float."""
    model = model_named(name)
    return model.rule is not None or model.stays_float is not None


def rule_of(op: Operation) -> QuantizationRule | None:
    """The rule of the model of `op`, if any. Raises Refusal."""
    name = name_of(op)
    rule = model_named(name).rule
    return rule(op) if callable(rule) else rule and _named(rule, name)


# Models have few different rules.
@registered_cache
@lru_cache(maxsize=1024)
def _named(rule: QuantizationRule, name: str) -> QuantizationRule:
    return rule if rule.functions else replace(rule, functions=frozenset({function_of(name)}))
