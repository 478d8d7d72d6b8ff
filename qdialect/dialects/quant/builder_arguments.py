"""Checks of the arguments of op builders: values and types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.support.arguments import check_instance, shown


def operand(given: object) -> SSAValue:
    """`given` as a value: itself, or the only result of an op. Raises TypeError."""
    if isinstance(given, Operation):
        if len(given.results) != 1:
            raise TypeError(f"an operand is one value, but '{given.name}' has {len(given.results)}")
        return given.results[0]
    check_instance("an operand", given, SSAValue, "the result of an op")
    return cast(SSAValue, given)


def operands(given: object) -> list[SSAValue]:
    """A sequence of values or ops as values: see `operand`. Raises TypeError."""
    if isinstance(given, Sequence) and not isinstance(given, str):
        return [operand(value) for value in cast("Sequence[object]", given)]
    raise TypeError(f"operands must be a sequence of values, not {shown(cast(object, given))}")


def result_type(given: object) -> Attribute:
    """`given` if it is a type. Raises TypeError."""
    check_instance("result_type", given, Attribute, "TensorType(element_type, [2, 3])")
    return cast(Attribute, given)
