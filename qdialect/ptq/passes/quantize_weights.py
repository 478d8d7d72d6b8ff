"""The pass that quantizes constant weights."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from qdialect.folding import FoldReportListener, warn_of
from qdialect.ops.refusals import RefusalCode
from qdialect.ptq.assignment.settings import storage_named, weight_policy
from qdialect.ptq.schemes.presets import SCHEME_NAMES, scheme_of
from qdialect.ptq.weights import WeightPolicy, quantize_weights


@dataclass(frozen=True)
class QuantizeWeightsPass(ModulePass):
    """
    Quantize the constant weights of layers: `quant.dcast` of a `quant.constant`.

    Scales and zero points are computed from the weights, by the scheme of the chosen system. Shape
    ops between a constant and its layer are folded. Weights that stay float are reported as
    remarks. Weights that cannot have these parameters are a warning.

    Example: `qdialect-opt --quantize-weights="granularity=tensor scheme=one-u8" model.mlir`.
    """

    name = "quantize-weights"
    IS_DEQUANTIZED: ClassVar[bool] = False

    granularity: str = "channel"
    """`tensor`, `channel` or `block`."""

    block_size: int = 32
    """The length of a block along the axis that is summed over."""

    scheme: str = field(default="torch-per-channel-symmetric", metadata={"values": SCHEME_NAMES})
    """The name of a scheme, or of a system, whose scheme of weights is used."""

    storage: str | None = None
    """The storage type, such as `u8`, `i4` or `i16`; default that of the system, or `i8`."""

    otherwise: str = "leave"
    """The fallback for a weight: `leave` it float, or use a `coarser` granularity."""

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid value of an option."""
        self._policy()

    def _policy(self) -> WeightPolicy:
        storage = None if self.storage is None else storage_named(self.storage)
        scheme = scheme_of(self.scheme, storage)
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
        warn_of(ctx, report.refused(RefusalCode.GRANULARITY, RefusalCode.ILLEGAL_TYPE))
        if isinstance(ctx, FoldReportListener):
            ctx.take_fold_report(report)
