"""Dense attributes made without the checks that what makes them has done already."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import (
    AnyDenseElement,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    RankedStructure,
)


def dense_of_bytes(
    type: RankedStructure[AnyDenseElement], data: bytes
) -> DenseIntOrFPElementsAttr[Any]:
    """
    The attribute of `type` that holds `data`: see `qdialect.ir.elements.element_bytes`.

    `type` is of integers, index, floats or complex numbers that xDSL can hold, and `data`
    of as many as there are in its shape, or of one.
    """
    # xDSL checks each against constraints on classes. That says no more than this does, and
    # takes nine times as long as all the rest.
    attribute = object.__new__(DenseIntOrFPElementsAttr)
    object.__setattr__(attribute, "type", type)
    object.__setattr__(attribute, "data", BytesAttr(data))
    return attribute
