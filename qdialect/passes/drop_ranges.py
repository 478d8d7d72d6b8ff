"""The pass that drops recorded ranges."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from qdialect.ir.rewriting import Replacements
from qdialect.ops.statistics import is_statistics


@dataclass(frozen=True)
class DropRangesPass(ModulePass):
    """
    Replace each `quant.stats`, and each op of TensorFlow like it, by its operand.

    Example: `qdialect-opt --drop-ranges ranges.mlir`.
    """

    name = "drop-ranges"

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        gone = [each for each in op.walk() if is_statistics(each)]
        replaced = Replacements()
        for each in gone:
            # In a graph region, an op may be its own operand.
            if each.operands[0] is not each.results[0]:
                replaced.add(each.results[0], each.operands[0])
        replaced.apply()
        for each in gone:
            each.operands = ()
        # Their operands are kept, even if unused.
        for each in gone:
            Rewriter.erase_op(each)
