"""Reading modules that other libraries print."""

from __future__ import annotations

from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import AnyDenseElement, DenseResourceAttr, ModuleOp, TensorType

from qdialect.ir.elements import dense_elements
from qdialect.ir.resources import ResourceBlobs
from qdialect.text import parse_module
from qdialect.tools.registry import ToolContext


def read_operation(operation: Any, name: str, context: Context | None) -> ModuleOp:
    """
    Read a module of MLIR's Python bindings, from its generic form: see `read_printed`.

    Elements of constants are printed as hexadecimal digits, which are decoded once.
    """
    text: bytes = operation.get_asm(binary=True, print_generic_op_form=True, assume_verified=True)
    return read_printed(text, name, context)


def read_printed(text: bytes, name: str, context: Context | None) -> ModuleOp:
    """
    Read a module from text; `name` is its file name in errors.

    Resources are kept in `context`. Without one, they become elements in the module. Raises
    ParseError, and ValueError for a resource that cannot.
    """
    if context is not None:
        return parse_module(context, text, name)
    own = ToolContext(allow_unregistered=True)
    module = parse_module(own, text, name)
    _take_in_resources(module, own)
    return module


def _take_in_resources(module: ModuleOp, context: Context) -> None:
    blobs = ResourceBlobs.of(context)
    for op in module.walk():
        for held in (op.properties, op.attributes):
            for key, attribute in held.items():
                if not isinstance(attribute, DenseResourceAttr):
                    continue
                values, type = blobs.read(attribute), attribute.type
                if values is None or not isinstance(type, TensorType):
                    reason = blobs.why_unreadable(attribute) or "there is no blob for it"
                    raise ValueError(
                        f"{attribute} cannot be an attribute of elements: {reason}; "
                        "with a context, it is kept as a resource"
                    )
                held[key] = dense_elements(
                    values, cast("TensorType[AnyDenseElement]", type).element_type
                )
