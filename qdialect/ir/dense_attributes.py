"""Dense attributes made without xDSL's checks, which the callers have already done."""

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

    Elements of `type` must be integers, index, floats or complex numbers that xDSL can hold,
    and `data` the bytes of all elements or of one.
    """
    # xDSL would check the classes of both fields against constraints. They always hold here,
    # and take nine times as long as the rest.
    attribute = object.__new__(DenseIntOrFPElementsAttr)
    object.__setattr__(attribute, "type", type)
    object.__setattr__(attribute, "data", BytesAttr(data))
    return attribute
