"""The pass that quantizes a model from the ranges that were recorded for it."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from qdialect.folding.report_listener import FoldReportListener
from qdialect.passes.drop_ranges import DropRangesPass
from qdialect.quantization.precision import Settings, precision_of
from qdialect.quantization.weights import WeightGranularity
from qdialect.quantization.whole_model import quantize_model


@dataclass(frozen=True)
class QuantizeWithRangesPass(ModulePass):
    """
    Quantize the values that `quant.stats` knows, constants and weights.

    What is quantized is read behind `quant.dcast` of `quant.qcast`. What stays in floats has a
    remark.
    """

    name = "quantize-with-ranges"

    scheme: str = "one-u8"
    """The system whose rules are followed, and the storage."""

    granularity: str = "channel"
    """That of weights: `layer` (or `tensor`), `channel` or `block`."""

    block_size: int = 32
    """How many positions of the axis that is summed over share a scale."""

    save_ranges: bool = False
    """Whether `quant.stats` stays."""

    def __post_init__(self) -> None:
        """Raise ValueError for a word or a number that there is not."""
        self._settings()

    def _settings(self) -> Settings:
        if self.block_size < 1:
            raise ValueError(f"block-size must be positive, not {self.block_size}")
        word = "tensor" if self.granularity == "layer" else self.granularity
        if word not in tuple(WeightGranularity):
            words = ", ".join(("layer", *WeightGranularity))
            raise ValueError(f"granularity must be one of {words}, not '{self.granularity}'")
        precision = precision_of(self.scheme)
        return Settings(precision.with_granularity(WeightGranularity(word), self.block_size))

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        report = quantize_model(op, ctx, self._settings())
        if not self.save_ranges:
            DropRangesPass().apply(ctx, op)
        if isinstance(ctx, FoldReportListener):
            ctx.take_fold_report(report)
