"""The pass that raises dequantization by other ops to casts of quant."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from qdialect.folding import FoldReportListener
from qdialect.folding.policy import FoldPolicy
from qdialect.folding.raising import raise_dequantization


@dataclass(frozen=True)
class RaiseDequantizationPass(ModulePass):
    """
    Raise dequantization by arithmetic, or by casts of other dialects, to casts of quant.

    `(C - z) * s` on constants becomes `quant.dcast(quant.scast(C))` of a type with the same
    meaning, bit for bit. Arithmetic that is not an exact dequantization is kept, and reported
    with the reason.

    Example: `qdialect-opt --raise-dequantization examples/tosa_convolution.mlir`.
    """

    name = "raise-dequantization"

    max_parameter_growth: int | None = None
    """The maximum number of scales in excess of the sources, as for `fold-quant-shapes`."""

    def __post_init__(self) -> None:
        """Raise ValueError for a negative number."""
        FoldPolicy(max_parameter_growth=self.max_parameter_growth)

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        policy = FoldPolicy(max_parameter_growth=self.max_parameter_growth)
        report = raise_dequantization(op, ctx, policy)
        if isinstance(ctx, FoldReportListener):
            ctx.take_fold_report(report)
