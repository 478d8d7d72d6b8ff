"""Reading modules that other libraries print."""

from __future__ import annotations

from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from qdialect.ir.names import rename_as_identifiers
from qdialect.ir.resources import ResourceBlobs, take_in_resources
from qdialect.opt.registry import ToolContext
from qdialect.text import parse_module


def read_operation(operation: Any, name: str, context: Context | None) -> ModuleOp:
    """
    Read a module of MLIR's Python bindings, from its generic form: see `read_printed`.

    Elements of constants are printed as hexadecimal digits, which are decoded once.
    """
    text: bytes = operation.get_asm(binary=True, print_generic_op_form=True, assume_verified=True)
    return read_printed(text, name, context)


def read_printed(text: bytes, name: str, context: Context | None) -> ModuleOp:
    """
    Read a module from text; `name` is its file name in errors. Its symbols become identifiers.

    Resources are kept in `context`. Without one, they become elements in the module. Raises
    ParseError, and ValueError for a resource that cannot.
    """
    used = ToolContext(allow_unregistered=True) if context is None else context
    module = parse_module(used, text, name)
    rename_as_identifiers(module)
    if context is None:
        take_in_resources(module, ResourceBlobs.of(used))
    return module
