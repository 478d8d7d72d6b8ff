"""Arguments of the builders of ops: values and types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.arguments import check_instance, shown


def operand(given: object) -> SSAValue:
    """The value that `given` is, or that it has as its only result. Raises TypeError."""
    if isinstance(given, Operation):
        if len(given.results) != 1:
            raise TypeError(f"an operand is one value, but '{given.name}' has {len(given.results)}")
        return given.results[0]
    check_instance("an operand", given, SSAValue, "the result of an op")
    return cast(SSAValue, given)


def operands(given: object) -> list[SSAValue]:
    """As `operand`, of each of a sequence. Raises TypeError."""
    if isinstance(given, Sequence) and not isinstance(given, str):
        return [operand(each) for each in cast("Sequence[object]", given)]
    raise TypeError(f"operands must be a sequence of values, not {shown(cast(object, given))}")


def result_type(given: object) -> Attribute:
    """The type that `given` is. Raises TypeError."""
    check_instance("result_type", given, Attribute, "TensorType(element_type, [2, 3])")
    return cast(Attribute, given)
