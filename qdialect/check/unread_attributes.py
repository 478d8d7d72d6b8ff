"""Attributes that affect the meaning of an op, but not the interpreter's runs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from xdsl.dialects.arith import FastMathFlagsAttr, IntegerOverflowAttr
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute, Operation

from qdialect.check.attribute_keys import AttributeKeys
from qdialect.ops.interface import elements_attribute_of, is_cast, model_of

_UNREAD: Final = frozenset(
    {
        "acc_type",
        "algorithm",
        "exact",
        "fastmath",
        "indices_are_sorted",
        "isExact",
        "local_bound",
        "nneg",
        "nonNeg",
        "overflowFlags",
        "precision_config",
        "result_accuracy",
        "unique_indices",
    }
)
"""Properties of arith, stablehlo and tosa that permit other results, or make some undefined."""


class UnreadAttribute(NamedTuple):
    """An attribute of an op in one of two functions, and in no op of the other one."""

    op: Operation
    name: str
    is_before: bool


def first_other_attribute(
    keys: Sequence[AttributeKeys], ops: Sequence[Iterable[Operation]]
) -> UnreadAttribute | None:
    """
    The first unread attribute of the ops of two functions that only one of them has.

    A discardable attribute counts only if both functions have one of that name, since passes may
    add and drop their own.
    """
    found = [_found_in(of, each) for of, each in zip(keys, ops, strict=True)]
    names = [{name for name, _ in each} for each in found]
    for at in (1, 0):
        for key, op in found[at].items():
            name = key[0]
            if key not in found[1 - at] and (name in _UNREAD or name in names[1 - at]):
                return UnreadAttribute(op, name, is_before=not at)
    return None


_Found = Mapping[tuple[str, Hashable], Operation]


def _found_in(keys: AttributeKeys, ops: Iterable[Operation]) -> _Found:
    found = dict[tuple[str, Hashable], Operation]()
    for op in ops:
        attributes = {**op.attributes, **op.properties}
        unread = [name for name in attributes if name in _UNREAD or "." in name]
        # Shape ops, casts and constants are compared by their elements.
        if not unread or is_cast(op) or model_of(op) or elements_attribute_of(op):
            continue
        for name in unread:
            value = attributes[name]
            # The key is empty if the name is ignored.
            if not _says_nothing(value) and (key := keys.of_names({name: value})):
                found.setdefault((name, key), op)
    return found


def _says_nothing(value: Attribute) -> bool:
    """Whether an attribute is false, or has no flags."""
    match value:
        case IntegerAttr():
            return not value.value.data
        case FastMathFlagsAttr() | IntegerOverflowAttr():
            return not value.data
        case _:
            return False
