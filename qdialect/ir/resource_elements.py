"""Converts resources to elements in the module."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import AnyDenseElement, DenseResourceAttr, ModuleOp, TensorType
from xdsl.ir import Attribute

from qdialect.ir.elements import dense_elements
from qdialect.ir.resources import ResourceBlobs
from qdialect.ir.value_types import element_type_or_self


def take_in_resources(
    module: ModuleOp,
    blobs: ResourceBlobs,
    types: type[Attribute] | tuple[type[Attribute], ...] = Attribute,
) -> None:
    """
    Replace resource attributes by dense elements attributes, for element types of `types`.

    Raises ValueError for a resource that cannot be read.
    """
    for op in module.walk():
        for held in (op.properties, op.attributes):
            for key, attribute in held.items():
                if not isinstance(attribute, DenseResourceAttr):
                    continue
                type = cast(Attribute, attribute.type)
                element_type = element_type_or_self(type)
                if not isinstance(element_type, types):
                    continue
                values = blobs.read(attribute)
                if values is None or not isinstance(type, TensorType):
                    reason = blobs.why_unreadable(attribute) or "it has no blob"
                    raise ValueError(
                        f"{attribute} cannot become a dense elements attribute: {reason}; pass a "
                        "context to keep it as a resource"
                    )
                held[key] = dense_elements(values, cast(AnyDenseElement, element_type))
