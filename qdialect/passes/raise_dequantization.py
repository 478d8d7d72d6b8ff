"""The pass that makes casts of quant of dequantization in other words."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from qdialect.folding.policy import FoldPolicy
from qdialect.folding.raising import raise_dequantization
from qdialect.folding.report_listener import FoldReportListener


@dataclass(frozen=True)
class RaiseDequantizationPass(ModulePass):
    """
    Turn dequantization by arithmetic, or by casts of other dialects, into casts of quant.

    `(C - z) * s` of constants becomes `quant.dcast(quant.scast(C))` of the type that means the
    same, bit for bit. What is no exact dequantization stays, and the report says why.
    """

    name = "raise-dequantization"

    max_parameter_growth: int | None = None
    """As for `fold-quant-shapes`: how many more slots a type may have than what it is made of."""

    def __post_init__(self) -> None:
        """Raise ValueError for a negative number."""
        FoldPolicy(max_parameter_growth=self.max_parameter_growth)

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        policy = FoldPolicy(max_parameter_growth=self.max_parameter_growth)
        report = raise_dequantization(op, ctx, policy)
        if isinstance(ctx, FoldReportListener):
            ctx.take_fold_report(report)
