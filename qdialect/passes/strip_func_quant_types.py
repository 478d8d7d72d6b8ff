"""The pass that replaces quantized values by storage integers in the signatures of functions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass

from qdialect.dialects.quant.casts import CastOp, StorageCastOp
from qdialect.dialects.quant.storage import QuantizedType, StoredType
from qdialect.folding import warn_of_roundings
from qdialect.ir.errors import OpErrors
from qdialect.ir.rewriting import insert_after
from qdialect.ir.value_types import element_type_or_self, with_element_type
from qdialect.lowering.dialect_conversion import (
    TypeConversion,
    converted_ops,
    drop_folded_casts,
    refuse_function_constants,
)
from qdialect.lowering.lowered_casts import store_as_integers
from qdialect.support.memory import memory_budget


def _stored(type: Attribute) -> Attribute | None:
    """The storage integers of a quantized scalar or tensor."""
    element = element_type_or_self(type)
    if not isinstance(element, QuantizedType):
        return type
    if not isinstance(element, StoredType) or element.non_integers is not None:
        return None
    return with_element_type(type, element.storage_type)


class FunctionStripping:
    """
    Strips the functions, calls and returns of a module in one walk.

    Their values become storage integers. Where other ops use or define quantized values, a
    `quant.scast` is inserted after the definition, as in MLIR.
    """

    def __init__(self) -> None:
        self.types = TypeConversion(_stored)
        self.ops: dict[Operation, None] = {}
        """The functions, calls and returns to convert."""
        self.quantized: dict[SSAValue, SSAValue] = {}
        """For each value that became storage integers, the quantized value for other ops."""
        self.stored: dict[SSAValue, SSAValue] = {}
        """For each other quantized value, its storage integers."""

    def strip(self, module: ModuleOp) -> int:
        """
        Convert all functions in `module`. Raises OpErrors; the module is unchanged then.

        Returns the number of values that are no longer rounded.
        """
        reached = dict.fromkeys(converted_ops(module))
        for op in module.walk():
            self._check(op, is_reached=op in reached)
        count = drop_folded_casts([op for op in reached if isinstance(op, CastOp)])
        self.ops = {op: None for op in reached if isinstance(op, FuncOp | CallOp | ReturnOp)}
        for op in self.ops:
            types = (*op.operand_types, *op.result_types)
            if isinstance(op, CallOp) and any(map(self.types.converts, types)):
                # As in MLIR, which creates a new call.
                op.attributes.clear()
        for op in self.ops:
            if isinstance(op, FuncOp):
                self._strip_function(op)
            else:
                self._store(op.results)
        self._replace_uses()
        for op in self.ops:
            op.operands = [self._stored(operand) for operand in op.operands]
        return count

    def _check(self, op: Operation, *, is_reached: bool) -> None:
        """Raise OpErrors for ops that, as in MLIR, cannot be converted."""
        refuse_function_constants(op, self.types)
        types = [*op.operand_types, *op.result_types]
        if isinstance(op, FuncOp):
            types += [*op.function_type.inputs, *op.function_type.outputs]
            others = [type for block in [*op.body.blocks][1:] for type in block.arg_types]
        elif isinstance(op, CallOp | ReturnOp):
            others = [] if is_reached else types
        else:
            return
        reason = next(filter(None, map(self._without_storage, types)), None)
        if reason is None and any(self.types.converts(type) for type in others):
            is_function = isinstance(op, FuncOp)
            later = "a block that is not the first one has quantized arguments"
            reason = later if is_function else "its block is unreachable"
        if reason is not None:
            failed = f"failed to legalize operation '{op.name}' that was explicitly marked illegal"
            raise OpErrors([(op, f"{failed}: {reason}")])

    def _without_storage(self, type: Attribute) -> str | None:
        if self.types.of(type) is not None:
            return None
        element = element_type_or_self(type)
        reason = element.non_integers if isinstance(element, StoredType) else None
        return reason or f"'{element}' has no storage type"

    def _strip_function(self, op: FuncOp) -> None:
        self.types.convert_function(op)
        if (entry := op.body.first_block) is not None:
            self._store(entry.args)

    def _store(self, values: Iterable[SSAValue]) -> None:
        """Convert quantized values to storage integers, with a cast where other ops use them."""
        for value in values:
            type = value.type
            if not self.types.converts(type):
                continue
            self.types.convert_value(value)
            if any(use.operation not in self.ops for use in value.uses):
                self.quantized[value] = _insert_cast(value, type)

    def _replace_uses(self) -> None:
        users = dict.fromkeys(use.operation for value in self.quantized for use in value.uses)
        casts = {value.owner for value in self.quantized.values()}
        for user in users:
            if user not in self.ops and user not in casts:
                operands = user.operands
                user.operands = [self.quantized.get(operand, operand) for operand in operands]

    def _stored(self, value: SSAValue) -> SSAValue:
        if not self.types.converts(value.type):
            return value
        if value not in self.stored:
            type = cast(Attribute, self.types.of(value.type))
            self.stored[value] = _insert_cast(value, type)
        return self.stored[value]


def _insert_cast(value: SSAValue, type: Attribute) -> SSAValue:
    """Insert a cast of `value` directly after its definition, so before casts inserted earlier."""
    op = StorageCastOp(value, type)
    insert_after(op, value)
    return op.result


@dataclass(frozen=True)
class StripFuncQuantTypesPass(ModulePass):
    """
    Replace quantized values by storage integers in the signatures of functions.

    Signatures, declarations, calls and returns are converted; types nested in tuples or
    function types, and attributes, are not. The result is that of MLIR's pass of this name. Casts
    that undo each other are dropped, and a warning counts the values that they rounded. Codes of
    floats and tables are stored as integers, and so their casts are lowered.

    Example: `qdialect-opt --strip-func-quant-types quantized.mlir`.
    """

    name = "strip-func-quant-types"

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Raises OpErrors."""
        with memory_budget():
            store_as_integers(op, FuncOp, CallOp, ReturnOp)
        warn_of_roundings(ctx, op, FunctionStripping().strip(op))
