"""
How the quantization parameters of the operands and results of an op hang together.

Relations are registered for the names of ops, one file per dialect. Shape ops need none: their
movements say it. Neither do sums of products, which have models in `qdialect.contractions`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeVar

from xdsl.ir import Operation

from qdialect.ir.dialect_files import import_dialect_file
from qdialect.shape_ops.interface import name_of


class Relation(StrEnum):
    """What the parameters of a value follow from."""

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
    """What it computes: names of `math` and `arith` in MLIR without a type, such as `exp`."""

    fixed: str = ""
    """The range that its results have: `logistic`, `tanh` or `softmax`."""

    is_homogeneous: bool = False
    """Whether a positive factor of a channel of the operand is one of the result."""

    mixed_axes: tuple[int, ...] = ()
    """The axes of the operand along which it combines elements, such as those of a pool."""


ReadRelation = Callable[[Any], OpRelation | None]
"""Reads an op of one name; None if nothing is known of it."""

_RELATIONS: Final[dict[str, ReadRelation]] = {}

ReadT = TypeVar("ReadT", bound=ReadRelation)


def relation(*names: str) -> Callable[[ReadT], ReadT]:
    """Register a function that reads ops of these names."""

    def register(read: ReadT) -> ReadT:
        _RELATIONS.update(dict.fromkeys(names, read))
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
    mixed_axes: tuple[int, ...] = (),
) -> None:
    """
    Register ops that always have one relation: their names without a prefix, as one text.

    `exponential=exp` is an op whose function has another name than it.
    """
    for each in names.split():
        name, _, function = each.partition("=")
        functions = frozenset({function or name})
        read = OpRelation(relation, operands, functions, fixed, is_homogeneous, mixed_axes)
        _RELATIONS[f"{prefix}.{name}"] = lambda op, read=read: read


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
    name = name_of(op)
    import_dialect_file(__package__, name.partition(".")[0])
    read = _RELATIONS.get(name)
    return None if read is None else read(op)
