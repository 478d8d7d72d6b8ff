"""The pass that writes the keys of values as attributes."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from qdialect.folding import FoldReportListener
from qdialect.folding.inlining import inline_calls
from qdialect.folding.report import PassReport
from qdialect.ptq.calibration.keys import attach_keys


@dataclass(frozen=True)
class AttachKeysPass(ModulePass):
    """
    Write the key of each float tensor as the attribute `quant.key` of its op or argument.

    Calls are inlined first, so that values of a function have a key for each call of it. Passes of
    MLIR drop SSA names, and some drop locations; most keep attributes.

    Example: `qdialect-opt --attach-keys model.mlir`.
    """

    name = "attach-keys"

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        records = inline_calls(op)
        attach_keys(op)
        if records and isinstance(ctx, FoldReportListener):
            ctx.take_fold_report(PassReport(records, "inlined"))
