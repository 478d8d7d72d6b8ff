"""Inserting ops of dialects that the context may lack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import UnregisteredOp
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import InsertPoint

from qdialect.lowering.storage_ops import StorageBuilder


class ContextBuilder(StorageBuilder):
    """Inserts ops at one insertion point: as their class where the context has it."""

    def __init__(self, point: InsertPoint, location: Any, context: Context) -> None:
        super().__init__(point, location)
        self._context = context

    def make(
        self,
        name: str,
        operands: Sequence[SSAValue],
        type: Attribute,
        properties: Mapping[str, Attribute] | None = None,
    ) -> SSAValue:
        """Insert an op, which may be unregistered, and return its result."""
        found = self._context.get_optional_op(name) or UnregisteredOp.with_name(name)
        op = found.create(operands=operands, result_types=[type], properties=dict(properties or {}))
        return self.insert(op).results[0]
