"""The pass that inlines calls, which xDSL lacks."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from qdialect.folding import send_report
from qdialect.folding.inlining import inline_calls
from qdialect.folding.report import PassReport


@dataclass(frozen=True)
class InlinePass(ModulePass):
    """
    Inline calls of functions with one block, and erase unreachable private functions.

    Calls of functions that call themselves, directly or through others, are kept. So are calls
    whose inlining would exceed the memory budget.

    Example: `qdialect-opt --inline model.mlir`.
    """

    name = "inline"

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        records = inline_calls(op, erases_unused=True)
        if records:
            send_report(ctx, PassReport(records, "inlined"))
