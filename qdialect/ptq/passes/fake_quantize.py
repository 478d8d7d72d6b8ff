"""The pass that makes ops on quantized values compute on floats, between casts."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from qdialect.folding import FoldReportListener
from qdialect.ptq.fake_quantization import fake_quantize


@dataclass(frozen=True)
class FakeQuantizePass(ModulePass):
    """
    Make ops that compute on quantized values compute on floats, between `dcast` and `qcast`.

    Ops that only move values, casts and constants stay on quantized types. Ops that cannot compute
    on floats are kept, and reported as remarks.

    Example: `qdialect-opt --fake-quantize quantized.mlir`.
    """

    name = "fake-quantize"

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        report = fake_quantize(op, ctx)
        if isinstance(ctx, FoldReportListener):
            ctx.take_fold_report(report)
