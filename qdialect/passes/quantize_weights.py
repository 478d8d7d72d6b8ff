"""The pass that quantizes constant weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from qdialect.folding.report_listener import FoldReportListener, warn_of
from qdialect.post_training.assignment.precision import storage_named, weight_policy
from qdialect.post_training.weights import WeightPolicy, quantize_weights
from qdialect.quantization.presets import scheme_of
from qdialect.shape_ops.refusals import Code


@dataclass(frozen=True)
class QuantizeWeightsPass(ModulePass):
    """
    Quantize the constant weights of layers: `quant.dcast` of a `quant.constant`.

    Scales and zero points are computed from the weights, by the scheme of the chosen system. Shape
    ops between a constant and its layer are folded. Weights that stay float are reported as
    remarks. Weights that cannot have these parameters are a warning.
    """

    name = "quantize-weights"
    IS_DEQUANTIZED: ClassVar[bool] = False

    granularity: str = "channel"
    """`tensor`, `channel` or `block`."""

    block_size: int = 32
    """The length of a block along the axis that is summed over."""

    scheme: str = "torch-per-channel-symmetric"
    """The name of a scheme, which begins with the name of its system."""

    storage: str = "i8"
    """The storage type: `i8`, `u8`, `i4`, `i16`, ..."""

    otherwise: str = "leave"
    """The fallback for a weight: `leave` it float, or use a `coarser` granularity."""

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid value of an option."""
        self._policy()

    def _policy(self) -> WeightPolicy:
        scheme = scheme_of(self.scheme, storage_named(self.storage))
        return weight_policy(scheme, self.granularity, self.block_size, self.otherwise)

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        report = quantize_weights(
            op,
            ctx,
            self._policy(),
            is_dequantized=self.IS_DEQUANTIZED,
            is_explained=isinstance(ctx, FoldReportListener) and ctx.wants_values,
        )
        warn_of(ctx, report.refused(Code.GRANULARITY, Code.ILLEGAL_TYPE))
        if isinstance(ctx, FoldReportListener):
            ctx.take_fold_report(report)
