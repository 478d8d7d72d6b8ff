"""The pass that moves shape ops below quantizing casts."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from qdialect.folding import send_report
from qdialect.sinking.sinker import sink_shapes


@dataclass(frozen=True)
class SinkQuantShapesPass(ModulePass):
    """
    Move shape ops below the casts of the quant dialect, exactly.

    `qcast(f(x))` becomes `f(qcast(x))`, and likewise for `dcast` and `scast`, so that casts
    become adjacent. A per-axis or sub-channel type is derived anew for the operand of `f`.
    Casts of all operands of a concat become one cast of the concat. The number of casts never
    increases.

    Example: `qdialect-opt --sink-quant-shapes examples/tiny.mlir`.
    """

    name = "sink-quant-shapes"

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        report = sink_shapes(op, ctx)
        send_report(ctx, report)
