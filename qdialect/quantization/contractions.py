"""
Sums of products, as einsum writes them: convolutions, matrix products, and their like.

`"n**i,ohwi->n**o"` is a convolution: `i` is summed over, `o` comes from the weights alone, `*` is
an axis that a window slides over, and `h` and `w` are positions in the window. `(cm)` is an axis of
the result that two axes of the operands make together. What the axes of an operand are for follows
from which parts have their letters. Models are registered for the names of ops, one file per
dialect.

https://numpy.org/doc/stable/reference/generated/numpy.einsum.html.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, TypeVar

from xdsl.ir import Operation

from qdialect.shape_ops.interface import name_of

Labels = tuple[str, ...]
"""A letter for each axis; several where axes are one axis of the result; `*` for a window."""

_WINDOW: Final = "*"


@dataclass(frozen=True)
class Contraction:
    """Which axes of two operands, and of the result, go together."""

    lhs: Labels
    rhs: Labels
    result: Labels

    bias: int | None = None
    """The number of the operand that is added along the channels of the result."""

    groups: int = 1
    """The groups of channels, of which each reads its own part of the activation."""

    operands: tuple[int, int] = (0, 1)
    """The numbers of the two operands."""

    @classmethod
    def of(cls, equation: str, bias: int | None = None, groups: int = 1) -> Contraction:
        """Read `lhs,rhs->result`. Raises ValueError for other text."""
        read = re.fullmatch(rf"({_LABEL}*),({_LABEL}*)->({_LABEL}*)", equation)
        if read is None:
            raise ValueError(f"'{equation}' is not of the form 'mk,kn->mn'")
        lhs, rhs, result = (tuple(re.findall(_LABEL, part)) for part in read.groups())
        return cls(lhs, rhs, result, bias, groups)

    def side(self, number: int) -> Side:
        """The part of one operand: 0 for the left one, 1 for the right one."""
        own, other = (self.lhs, self.rhs)[:: 1 if number == 0 else -1]
        return Side(self.operands[number], self.operands[1 - number], own, other, self.result)


_LABEL = r"(?:[A-Za-z*]|\([A-Za-z]+\))"


@dataclass(frozen=True)
class Side:
    """One operand of a sum of products, seen as the weights."""

    operand: int
    """Its number."""

    other: int
    """The number of the other one."""

    labels: Labels
    other_labels: Labels
    result_labels: Labels

    @cached_property
    def channel_axes(self) -> tuple[int, ...]:
        """The axes of which each position is used for its own part of the result."""
        made = "".join(self.result_labels)
        return tuple(axis for axis, label in enumerate(self.labels) if _is_in(label, made))

    @cached_property
    def contracted_axes(self) -> tuple[int, ...]:
        """The axes that are summed over together with one of the other operand."""
        made, other = "".join(self.result_labels), "".join(self.other_labels)
        return tuple(
            axis
            for axis, label in enumerate(self.labels)
            if _is_in(label, other) and not _is_in(label, made)
        )


def _is_in(label: str, labels: str) -> bool:
    return label != _WINDOW and label in labels


@dataclass(frozen=True)
class Lookup:
    """Rows of a table that an op takes by their numbers, as an embedding."""

    operand: int
    """The number of the operand that is the table."""

    axis: int
    """The axis of the table that the numbers are positions of."""


Model = Callable[[Any], Contraction | Lookup]
"""Reads an op of one name. Raises NotFoldable."""

_MODELS: Final[dict[str, Model]] = {}

ModelT = TypeVar("ModelT", bound=Model)


def layer(*names: str) -> Callable[[ModelT], ModelT]:
    """Register a function that reads ops of these names as sums of products, or look-ups."""

    def register(model: ModelT) -> ModelT:
        _MODELS.update(dict.fromkeys(names, model))
        return model

    return register


def register_layers(equations: Sequence[tuple[str, str]], prefix: str, bias: int | None) -> None:
    """Register ops whose axes are always the same: names without a prefix, and equations."""
    for names, equation in equations:
        read = Contraction.of(equation, bias)
        for name in names.split():
            _MODELS[f"{prefix}.{name}"] = lambda op, read=read: read


def layer_of(op: Operation) -> Contraction | Lookup | None:
    """What `op` is, if it is known to be a sum of products or a look-up. Raises NotFoldable."""
    name = name_of(op)
    module = f"qdialect.quantization.layers.{name.partition('.')[0]}"
    if name.partition(".")[0].isidentifier() and find_spec(module) is not None:
        import_module(module)
    model = _MODELS.get(name)
    return None if model is None else model(op)
