"""
The ops of StableHLO that have weights.

Their dimension numbers are parsed from printed text, which is the same for registered and
unregistered attributes. https://openxla.org/stablehlo/spec.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from string import ascii_letters
from typing import Any, Final, cast

from xdsl.dialects.builtin import DenseArrayBase, DenseIntOrFPElementsAttr
from xdsl.ir import Operation

from qdialect.algebra.bounded_cache import registered_cache
from qdialect.ops.model import OpModel, OpModels
from qdialect.ops.products import (
    Contraction,
    Lookup,
    Window,
    per_window,
    positive,
)
from qdialect.shape_ops.attributes import attribute_of, integer_of, integers_of, shape_of
from qdialect.shape_ops.interface import Code, NotFoldable, find_attribute


def _dot(op: Operation) -> Contraction:
    ranks = len(shape_of(op.operands[0])), len(shape_of(op.operands[1]))
    equations = {(1, 1): "k,k->", (2, 1): "mk,k->m", (1, 2): "k,kn->n", (2, 2): "mk,kn->mn"}
    if ranks not in equations:
        raise NotFoldable(Code.UNKNOWN_OP, f"its operands have ranks {ranks[0]} and {ranks[1]}")
    return Contraction.of(equations[ranks])


def _dot_general(op: Operation) -> Contraction:
    lists = _axes_of_dot(str(attribute_of(op, "dot_dimension_numbers")))
    batch, contracted = list(zip(*lists[:2], strict=True)), list(zip(*lists[2:], strict=True))
    letters = iter(ascii_letters)
    sides: list[list[str]] = []
    for operand in op.operands[:2]:
        sides.append([""] * len(shape_of(operand)))
    lhs, rhs = sides
    result: list[str] = []
    for pairs, is_in_result in ((batch, True), (contracted, False)):
        for left, right in pairs:
            lhs[left] = rhs[right] = next(letters)
            result += [lhs[left]] if is_in_result else []
    for side in sides:
        for axis, label in enumerate(side):
            if not label:
                side[axis] = next(letters)
                result.append(side[axis])
    return Contraction(tuple(lhs), tuple(rhs), tuple(result))


@registered_cache
@lru_cache(maxsize=256)
def _axes_of_dot(text: str) -> Sequence[tuple[int, ...]]:
    """The batch axes of both operands, then the contracted axes of both."""
    names = ("lhs_batching", "rhs_batching", "lhs_contracting", "rhs_contracting")
    return [list_in(text, f"{name}_dimensions") for name in names]


def list_in(text: str, name: str) -> tuple[int, ...]:
    """The numbers of `name = [...]`; empty if it is missing."""
    found = re.search(rf"\b{name} = \[([0-9, ]*)\]", text)
    return () if found is None else tuple(map(int, re.findall("[0-9]+", found[1])))


def _convolution(op: Operation) -> Contraction:
    lists = _axes_of_convolution(op)
    counts = [
        1 if find_attribute(op, name) is None else integer_of(op, name)
        for name in ("feature_group_count", "batch_group_count")
    ]
    if counts[1] != 1:
        raise NotFoldable(Code.UNKNOWN_OP, "its 'batch_group_count' is not 1")
    if counts[0] < 1:
        raise NotFoldable(Code.UNKNOWN_OP, f"its 'feature_group_count' is {counts[0]}")
    data = {"b": "n", "f": "i"}
    lhs = tuple(data.get(each, "*") for each in lists[0])
    letters = iter("hwdxyz")
    rhs = tuple(each if each in "io" else next(letters) for each in lists[1])
    result = tuple({"b": "n", "f": "o"}.get(each, "*") for each in lists[2])
    return Contraction(lhs, rhs, result, groups=counts[0])


def _axes_of_convolution(op: Operation) -> list[list[str]]:
    """
    The role of each axis of the operands and of the result: a letter, or the number of a window.
    """
    text = str(attribute_of(op, "dimension_numbers"))
    found = _CONVOLUTION.fullmatch(text)
    if found is None:
        raise NotFoldable(Code.UNKNOWN_OP, "its dimension numbers cannot be parsed")
    lists = [part.replace(" ", "").split(",") for part in found.groups()]
    spatial = list(map(str, range(len(lists[0]) - 2)))
    for axes, letters in zip(lists, ("bf", "io", "bf"), strict=True):
        if sorted(axes) != sorted([*spatial, *letters]) or len(spatial) > _MAX_WINDOWS:
            raise NotFoldable(Code.UNKNOWN_OP, "its dimension numbers cannot be parsed")
    return lists


def _windows(op: Operation, contraction: Contraction) -> Sequence[Window]:
    lists = _axes_of_convolution(op)
    count = len(lists[0]) - 2
    pads = per_window(op, "padding", 2 * count, default=0)
    reversals = _truths_in(op, "window_reversal", count)
    return [
        Window(
            (lists[0].index(str(at)), lists[1].index(str(at)), lists[2].index(str(at))),
            positive(op, "window_strides", count, default=1)[at],
            positive(op, "rhs_dilation", count, default=1)[at],
            positive(op, "lhs_dilation", count, default=1)[at],
            pads[2 * at],
            pads[2 * at + 1],
            reversals[at],
        )
        for at in range(count)
    ]


def _truths_in(op: Operation, name: str, count: int) -> Sequence[bool]:
    """The truth values in an attribute, false where it is missing. Raises NotFoldable."""
    attribute = find_attribute(op, name)
    if attribute is None:
        return (False,) * count
    values: Sequence[Any] = ()
    if isinstance(attribute, DenseArrayBase | DenseIntOrFPElementsAttr):
        values = cast(Any, attribute).get_values()
    if len(values) != count:
        raise NotFoldable(Code.UNKNOWN_OP, f"'{name}' does not have {count} elements")
    return tuple(bool(value) for value in values)


_MAX_WINDOWS: Final = 6

_CONVOLUTION: Final = re.compile(
    r"#stablehlo\.conv<(?:raw\s*)?\[([^\[\]]*+)\]\s*x\s*\[([^\[\]]*+)\]\s*->\s*\[([^\[\]]*+)\]>"
)


def _gather(op: Operation) -> Lookup:
    """A gather of whole rows of a table, such as an embedding."""
    text, shape = str(attribute_of(op, "dimension_numbers")), shape_of(op.operands[0])
    axes = list_in(text, "start_index_map")
    sizes = integers_of(op, "slice_sizes")
    if len(axes) != 1 or any(
        size != (1 if axis in axes else length)
        for axis, (size, length) in enumerate(zip(sizes, shape, strict=True))
    ):
        raise NotFoldable(Code.UNKNOWN_OP, "it does not gather whole rows of a table")
    return Lookup(0, axes[0])


MODELS = OpModels(
    "stablehlo",
    {
        "dot": OpModel(product=_dot),
        "dot_general": OpModel(product=_dot_general),
        "convolution": OpModel(product=_convolution, windows=_windows),
        "gather": OpModel(product=_gather),
    },
)
