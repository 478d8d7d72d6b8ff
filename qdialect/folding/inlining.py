"""Inlining of calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from qdialect.folding.report import Outcome, PassRecord
from qdialect.ir.names import (
    kept_name,
    names_in,
    numbered_name,
    symbol_table_of,
    symbols_in,
    symbols_used_by,
    visibility_of,
)
from qdialect.ir.rewriting import circular, dependencies_first
from qdialect.ops.interface import RefusalCode
from qdialect.support.memory import MemoryBudget, MemoryLimitError, memory_budget

_OP_BYTES: Final = 8192
"""A rough estimate of the memory of one op, with what later passes keep of it."""


def inline_calls(module: ModuleOp, *, erases_unused: bool = False) -> list[PassRecord]:
    """
    Inline calls of functions with one block, and erase private functions that nothing calls then.

    Calls of functions that call themselves, directly or through others, stay. So do calls whose
    inlining would exceed the memory budget. If `erases_unused`, private functions that were
    unreachable before are erased, too. The result has a record for each call.
    """
    if not erases_unused and not any(isinstance(op, CallOp) for op in module.walk()):
        return []
    with memory_budget() as budget:
        inliner = _Inliner(module, budget)
        inliner.inline()
    inliner.erase(inlined_only=not erases_unused)
    return inliner.records


class _Inliner:
    """Inlines calls of functions of a module, callees first."""

    def __init__(self, module: ModuleOp, budget: MemoryBudget) -> None:
        self._budget = budget
        self._module = module
        self._functions = {op.sym_name.data: op for op in module.body.ops if isinstance(op, FuncOp)}
        self._sizes: dict[FuncOp, int] = {}
        """The number of ops of each function that has been processed."""
        self._inlined = set[FuncOp]()
        self._taken = dict[str, int]()
        """The names in the function that is processed, and the next number for each."""
        self.records = list[PassRecord]()

    def inline(self) -> None:
        """Inline all calls that can be inlined."""
        order = list(dependencies_first(self._functions.values(), self._callees))
        on_circle = circular(order, self._callees)
        for function in order:
            self._taken = dict.fromkeys(names_in(function), 1)
            for call in [op for op in function.walk() if isinstance(op, CallOp)]:
                callee = self._callee(call)
                if callee is None or not callee.body.blocks:
                    self._refuse(call, "its function has no body in this module")
                elif callee in on_circle:
                    self._refuse(call, "its function calls itself")
                elif not _fits(call, callee):
                    self._refuse(call, "its function has several blocks, or other types")
                else:
                    self._inline(call, callee)
            self._sizes[function] = sum(1 for _ in function.walk())

    def erase(self, *, inlined_only: bool) -> None:
        """Erase private functions that are unreachable from the rest of the module."""
        private = {
            name: op
            for name, op in self._functions.items()
            if visibility_of(op) == "private" and op.body.blocks
        }
        if inlined_only:
            private = {name: op for name, op in private.items() if op in self._inlined}
        erasable = set[Operation](private.values())
        module = self._module
        used = set(symbols_in((*module.attributes.values(), *module.properties.values())))
        for op in module.body.ops:
            used.update(() if op in erasable else symbols_used_by(op))

        def named_in(name: str) -> Iterator[str]:
            return symbols_used_by(private[name]) if name in private else iter(())

        kept = set(dependencies_first(used, named_in))
        for name, function in private.items():
            if name not in kept:
                Rewriter.erase_op(function, safe_erase=False)

    def _callees(self, function: FuncOp) -> Iterator[FuncOp]:
        for op in function.walk():
            if isinstance(op, CallOp) and (callee := self._callee(op)) is not None:
                yield callee

    def _callee(self, call: CallOp) -> FuncOp | None:
        """The called function, if it is in the same module."""
        is_here = symbol_table_of(call) is self._module
        return self._functions.get(call.callee.string_value()) if is_here else None

    def _inline(self, call: CallOp, callee: FuncOp) -> None:
        try:
            self._budget.reserve(self._sizes[callee] * _OP_BYTES)
        except MemoryLimitError as error:
            self._refuse(call, str(error), RefusalCode.MEMORY)
            return
        block = callee.body.block
        values: dict[SSAValue, SSAValue] = dict(zip(block.args, call.arguments, strict=True))
        for op in block.ops:
            if isinstance(op, ReturnOp):
                for result, value in zip(call.results, op.arguments, strict=True):
                    new = values.get(value, value)
                    if value.owner is not block and result.name_hint is not None:
                        # Names of callers differ from call to call.
                        new.name_hint = result.name_hint
                    result.replace_all_uses_with(new)
            else:
                Rewriter.insert_op(clone := op.clone(values), InsertPoint.before(call))
                self._name_apart(clone)
        Rewriter.erase_op(call)
        self._inlined.add(callee)
        reason = f"its function is '@{callee.sym_name.data}'"
        self.records.append(PassRecord(Outcome.INLINED, call, call.name, reason=reason))

    def _name_apart(self, clone: Operation) -> None:
        """Number names that are taken in the caller, since keys of values are their names."""
        for value in (value for op in clone.walk() for value in op.results):
            if (name := value.name_hint) is None:
                continue
            if name in self._taken:
                stem = name
                while (name := kept_name(numbered_name(stem, self._taken[stem]))) in self._taken:
                    self._taken[stem] += 1
                value.name_hint = name
            self._taken[name] = 1

    def _refuse(
        self, call: CallOp, reason: str, code: RefusalCode = RefusalCode.UNKNOWN_OP
    ) -> None:
        reason = f"the call stays: {reason}"
        self.records.append(PassRecord(Outcome.REFUSED, call, call.name, code=code, reason=reason))


def _fits(call: CallOp, callee: FuncOp) -> bool:
    """Whether a call can be replaced by the body of the callee."""
    blocks, type = callee.body.blocks, callee.function_type
    return (
        len(blocks) == 1
        and isinstance(last := callee.body.block.last_op, ReturnOp)
        and call.operand_types == type.inputs.data == callee.body.block.arg_types
        and call.result_types == type.outputs.data == last.operand_types
    )
