"""
How the quantization parameters of the operands and results of an op hang together.

Relations are registered for the names of ops, in one file per dialect: for all contexts, or in the
`Relations` of a dialect. Shape ops need none: their
movements say it. Neither do sums of products, which have models in `qdialect.contractions`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from xdsl.ir import Operation

from qdialect.ir.op_models import OpModels
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
    """From the parameters of other operands: a bias counts in steps of their products."""

    GIVEN = "given"
    """From the value itself, which is constant, or from a cast that the module has."""


@dataclass(frozen=True)
class OpRelation:
    """The relation of one op."""

    relation: Relation

    operands: tuple[int, ...] | None = None
    """The numbers of the operands that are quantized; None for all tensors of floats."""

    functions: frozenset[str] = frozenset()
    """Its functions: names of `math` and `arith` in MLIR without a type, such as `exp`."""

    fixed: str = ""
    """The range that its results have: `logistic`, `tanh` or `softmax`."""

    is_homogeneous: bool = False
    """Whether a positive factor of a channel of the operand is one of the result."""


ReadRelation = Callable[[Any], OpRelation | None]
"""Reads an op of one name; None if nothing is known of it."""


class Relations(OpModels[ReadRelation]):
    """The relations of the ops of a dialect."""

    package = "qdialect.relations"


_RELATIONS: Final = Relations()


def relation(*names: str) -> Callable[[ReadRelation], ReadRelation]:
    """Register a function that reads ops of these names."""
    return _RELATIONS.register(*names)


def register_relations(
    prefix: str,
    names: str,
    relation: Relation,
    operands: tuple[int, ...] | None = None,
    *,
    fixed: str = "",
    is_homogeneous: bool = False,
) -> None:
    """
    Register ops that always have one relation: their names without a prefix, as one text.

    `exponential=exp` is an op whose function has another name than it.
    """
    for each in names.split():
        name, _, function = each.partition("=")
        read = OpRelation(relation, operands, frozenset({function or name}), fixed, is_homogeneous)
        _RELATIONS.add([f"{prefix}.{name}"], lambda op, read=read: read)


def function_of(name: str) -> str:
    """The function of an op of `arith` or `math`, from its name: `arith.addf` is `add`."""
    dialect, _, function = name.partition(".")
    if dialect != "arith":
        return function
    for suffix in ("imumf", "numf", "f"):
        if function.endswith(suffix):
            return function.removesuffix(suffix)
    return function


def relation_of(op: Operation) -> OpRelation | None:
    """The relation that is registered for `op`, if any. Raises NotFoldable."""
    read = _RELATIONS.find(name_of(op))
    return None if read is None else read(op)
