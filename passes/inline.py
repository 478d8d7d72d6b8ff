"""The pass that inlines calls, which xDSL lacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import cast

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, SymbolRefAttr
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from qdialect.ordering import dependencies_first


def _called_functions(function: FuncOp, functions: dict[str, FuncOp]) -> Iterator[FuncOp]:
    for op in function.walk():
        if isinstance(op, CallOp) and (callee := _callee(op, functions)) is not None:
            yield callee


def _callee(call: CallOp, functions: dict[str, FuncOp]) -> FuncOp | None:
    """The function that is called, if it is in the same module."""
    module = call.parent_op()
    while module is not None and not isinstance(module, ModuleOp):
        module = module.parent_op()
    callee = functions.get(call.callee.string_value())
    return callee if callee is not None and callee.parent_op() is module else None


def _inline(call: CallOp, callee: FuncOp) -> None:
    block = callee.body.block
    values: dict[SSAValue, SSAValue] = dict(zip(block.args, call.arguments, strict=True))
    for op in block.ops:
        if isinstance(op, ReturnOp):
            for result, value in zip(call.results, op.arguments, strict=True):
                result.replace_all_uses_with(values.get(value, value))
        else:
            Rewriter.insert_op(op.clone(values), InsertPoint.before(call))
    Rewriter.erase_op(call)


def _is_inlinable(function: FuncOp) -> bool:
    body = function.body.blocks
    return len(body) == 1 and isinstance(function.body.block.last_op, ReturnOp)


def _symbols_in(attributes: Iterable[Attribute]) -> Iterator[str]:
    pending = list(attributes)
    while pending:
        attribute = pending.pop()
        if isinstance(attribute, SymbolRefAttr):
            yield attribute.root_reference.data
        elif isinstance(attribute, ArrayAttr):
            pending += cast(ArrayAttr[Attribute], attribute).data
        elif isinstance(attribute, DictionaryAttr):
            pending += attribute.data.values()


def _symbols_used_by(op: Operation) -> Iterator[str]:
    for inner in op.walk():
        yield from _symbols_in(inner.attributes.values())
        yield from _symbols_in(inner.properties.values())


@dataclass(frozen=True)
class InlinePass(ModulePass):
    """
    Inline calls of functions of one block, and erase private functions that nothing uses.

    A function that calls itself keeps that call.
    """

    name = "inline"

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = {
            function.sym_name.data: function
            for function in op.body.ops
            if isinstance(function, FuncOp)
        }
        finished: set[FuncOp] = set()
        for function in dependencies_first(
            functions.values(), lambda function: _called_functions(function, functions)
        ):
            for call in [call for call in function.walk() if isinstance(call, CallOp)]:
                callee = _callee(call, functions)
                if callee is not None and callee in finished and _is_inlinable(callee):
                    _inline(call, callee)
            finished.add(function)
        used = set(_symbols_used_by(op))
        for name, function in functions.items():
            visibility = function.sym_visibility
            is_private = visibility is not None and visibility.data == "private"
            if is_private and function.body.blocks and name not in used:
                Rewriter.erase_op(function)
