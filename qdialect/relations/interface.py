"""
Relations between the quantization parameters of the operands and results of an op.

Relations are the rules of models of ops: here are those of qdialect, in one file per dialect.
Shape ops need no relation, since their movements determine the parameters. Nor do
sums of products (`qdialect.ops.products`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation, SSAValue

from qdialect.ir.value_types import element_type_or_self
from qdialect.ops.model import add_to_models, model_named
from qdialect.shape_ops.interface import name_of


class Relation(StrEnum):
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
class OpRelation:
    """The relation of one op."""

    relation: Relation

    operands: tuple[int, ...] | None = None
    """The numbers of the operands that are quantized; None for all float tensors."""

    functions: frozenset[str] = frozenset()
    """
    The functions that it computes, by op names of MLIR's `math` and `arith` without a type, such as
    `exp`.
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

    limits: tuple[Limit, Limit] | None = None
    """The lowest and the highest number of the results of a clamp, if they are known."""


ReadRelation = Callable[[Any], OpRelation | None]
"""Reads an op by its name; None if it has no relation."""


def relation(*names: str) -> Callable[[ReadRelation], ReadRelation]:
    """Register a function that reads ops of these names."""

    def register(read: ReadRelation) -> ReadRelation:
        add_to_models(*names, rule=read)
        return read

    return register


def register_relations(
    prefix: str,
    names: str,
    relation: Relation,
    operands: tuple[int, ...] | None = None,
    *,
    fixed: str = "",
    is_homogeneous: bool = False,
    keeps_places: bool = False,
    mixed_axes: tuple[int, ...] = (),
) -> None:
    """
    Register ops that always have one relation: their names without a prefix, as one text.

    `exponential=exp` is an op whose function has a different name.
    """
    for each in names.split():
        name, _, function = each.partition("=")
        functions = frozenset({function or name})
        rule = OpRelation(
            relation,
            operands,
            functions,
            fixed,
            is_homogeneous,
            keeps_places,
            mixed_axes=mixed_axes,
        )
        add_to_models(f"{prefix}.{name}", rule=rule)


def register_left(prefix: str, names: str, reason: str) -> None:
    """Register known ops that stay float: their names, and the reason."""
    add_to_models(*(f"{prefix}.{name}" for name in names.split()), stays_float=reason)


def reason_to_leave(op: Operation) -> str | None:
    """The reason why a known op without a relation stays float; None for any other op."""
    return model_named(name_of(op)).stays_float


def conversion(op: Operation) -> OpRelation:
    """
    The relation of a cast between types that are not quantized.

    Between float types, the result has the elements of the operand, rounded.
    """
    is_of_floats = all(
        isinstance(element_type_or_self(value.type), AnyFloat)
        for value in (*op.operands, *op.results)
    )
    relation = Relation.SHARED if is_of_floats else Relation.OWN
    return OpRelation(relation, (0,), is_homogeneous=is_of_floats, keeps_places=True)


def function_of(name: str) -> str:
    """The function of an op of `arith` or `math`, from its name: `arith.addf` is `add`."""
    dialect, _, function = name.partition(".")
    if dialect != "arith":
        return function
    for suffix in ("imumf", "numf", "f"):
        if function.endswith(suffix):
            return function.removesuffix(suffix)
    return function


def is_known(name: str) -> bool:
    """Whether a relation is registered for ops of a name, or a reason to leave them float."""
    model = model_named(name)
    return model.rule is not None or model.stays_float is not None


def relation_of(op: Operation) -> OpRelation | None:
    """The relation that is registered for `op`, if any. Raises NotFoldable."""
    rule = model_named(name_of(op)).rule
    return rule(op) if callable(rule) else rule
