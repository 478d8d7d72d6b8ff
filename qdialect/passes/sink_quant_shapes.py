"""The passes that move shape ops below casts, and above arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from qdialect.folding import send_report
from qdialect.sinking.hoisting import hoist_shapes
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
        send_report(ctx, sink_shapes(op, ctx))


@dataclass(frozen=True)
class HoistQuantShapesPass(ModulePass):
    """
    Move shape ops above arithmetic on constants, behind which they are not folded, exactly.

    `f(x + y)` becomes `f(x) + f(y)`, where `x` and `y` are computed from constants, and likewise
    for other element-wise arithmetic that is no dequantization. `--fold-quant-shapes` then folds
    the moved ops. Arithmetic with other uses stays.

    Example: `qdialect-opt --hoist-quant-shapes --fold-quant-shapes offsets.mlir`.
    """

    name = "hoist-quant-shapes"

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        send_report(ctx, hoist_shapes(op, ctx))
