"""
Sums of products in the notation of einsum: convolutions, matrix products, and similar ops.

`"n**i,ohwi->n**o"` is a convolution: `i` is summed over, `o` is an axis of the weights alone, `*`
is an axis that a window slides over, and `h` and `w` are positions in the window. `(cm)` is an axis
of the result that combines two axes of the operands. The roles of the axes of an operand follow
from the letters that it shares with the other operand and with the result.

https://numpy.org/doc/stable/reference/generated/numpy.einsum.html.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from xdsl.ir import Operation

from qdialect.ops.attributes import integers_of
from qdialect.ops.interface import Refusal, RefusalCode, find_attribute, name_of
from qdialect.ops.model import model_named

Labels = tuple[str, ...]
"""One label per axis: a letter, several letters for a combined axis, or `*` for a window."""

_WINDOW: Final = "*"


@dataclass(frozen=True)
class Contraction:
    """A sum of products of two operands, by the labels of their axes and of the result's."""

    lhs: Labels
    rhs: Labels
    result: Labels

    bias: int | None = None
    """The number of the operand that is added along the channels of the result."""

    groups: int = 1
    """The number of groups of channels; each reads its own part of the activation."""

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
        """The view from one operand: 0 for the left one, 1 for the right one."""
        own, other = (self.lhs, self.rhs)[:: 1 if number == 0 else -1]
        return Side(self.operands[number], self.operands[1 - number], own, other, self.result)


_LABEL = r"(?:[A-Za-z*]|\([A-Za-z]+\))"


@dataclass(frozen=True)
class Side:
    """One operand of a sum of products, seen as the weights."""

    operand: int
    """The number of the operand."""

    other: int
    """The number of the other operand."""

    labels: Labels
    other_labels: Labels
    result_labels: Labels

    @cached_property
    def channel_axes(self) -> tuple[int, ...]:
        """The axes whose positions contribute to different parts of the result."""
        made = "".join(self.result_labels)
        return tuple(axis for axis, label in enumerate(self.labels) if _is_in(label, made))

    @cached_property
    def contracted_axes(self) -> tuple[int, ...]:
        """The axes that are summed over jointly with one of the other operand."""
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
    """A look-up of rows of a table by index, such as an embedding."""

    operand: int
    """The number of the operand that is the table."""

    axis: int
    """The axis of the table that is indexed."""


@dataclass(frozen=True)
class Window:
    """How one axis of the weights slides over one axis of the other operand."""

    axes: tuple[int, int, int]
    """The axes of the left operand, of the right one, and of the result."""

    stride: int = 1
    dilation: int = 1
    """The distance of adjacent positions in the window."""

    base_dilation: int = 1
    """The distance of adjacent elements of the operand, after zeros are inserted between them."""

    low: int = 0
    high: int = 0
    """The number of zeros before and after the operand; a negative number crops it."""

    is_reversed: bool = False
    """Whether the weights are reversed along the window."""


ReadProduct = Callable[[Any], Contraction | Lookup | None]
"""Reads an op by its name; None if the op is not a layer. Raises Refusal."""

ReadWindows = Callable[[Any, Contraction], Sequence[Window]]
"""Reads the windows of an op that is a contraction. Raises Refusal."""


def windows_of(op: Operation, contraction: Contraction) -> Sequence[Window]:
    """The windows of `op`, which was read as `contraction`. Raises Refusal."""
    if _WINDOW not in contraction.lhs:
        return ()
    if (read := model_named(name_of(op)).windows) is None:
        raise Refusal(RefusalCode.UNKNOWN_OP, "no reader of its windows is registered")
    return read(op, contraction)


def sliding_axes(contraction: Contraction) -> list[tuple[int, int, int]]:
    """
    The axes of each window, which operands and result must have in the same order.

    Raises Refusal if their numbers differ.
    """
    others = "".join((*contraction.lhs, *contraction.result))
    axes = (
        [axis for axis, label in enumerate(contraction.lhs) if label == _WINDOW],
        [axis for axis, label in enumerate(contraction.rhs) if label not in others],
        [axis for axis, label in enumerate(contraction.result) if label == _WINDOW],
    )
    if len({len(of) for of in axes}) != 1:
        reason = "its windows and its result differ in their number of axes"
        raise Refusal(RefusalCode.UNKNOWN_OP, reason)
    return list(zip(*axes, strict=True))


def per_window(op: Operation, name: str, count: int, default: int | None = None) -> Sequence[int]:
    """
    The integers in an attribute, one per window, or `default` each where it is missing.

    Raises Refusal.
    """
    if default is not None and find_attribute(op, name) is None:
        return (default,) * count
    values = integers_of(op, name)
    if len(values) != count:
        raise Refusal(RefusalCode.UNKNOWN_OP, f"'{name}' has {len(values)} integers, not {count}")
    return values


def positive(op: Operation, name: str, count: int, default: int | None = None) -> Sequence[int]:
    """Like `per_window`, for positive integers such as strides. Raises Refusal."""
    values = per_window(op, name, count, default)
    if any(value < 1 for value in values):
        raise Refusal(RefusalCode.UNKNOWN_OP, f"'{name}' is not positive")
    return values


def is_layer(name: str) -> bool:
    """Whether ops of a name may be sums of products, or look-ups."""
    return model_named(name).product is not None


def layer_of(op: Operation) -> Contraction | Lookup | None:
    """The sum of products or look-up that `op` computes; None for other ops. Raises Refusal."""
    product = model_named(name_of(op)).product
    return product(op) if callable(product) else product
