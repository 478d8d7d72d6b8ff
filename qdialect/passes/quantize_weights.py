"""The pass that quantizes constant weights."""

from __future__ import annotations

import re
from dataclasses import dataclass

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from qdialect.algebra.parameters import StorageFormat
from qdialect.folding.report_listener import FoldReportListener
from qdialect.post_training.weights import (
    Otherwise,
    WeightGranularity,
    WeightPolicy,
    quantize_weights,
)
from qdialect.quantization.presets import scheme_of


@dataclass(frozen=True)
class QuantizeWeightsPass(ModulePass):
    """
    Quantize the constant weights of layers: `quant.dcast` of a `quant.constant`.

    Scales and zero points follow from the weights, by the scheme of the chosen system. Shape ops
    between a constant and its layer are folded. Weights that stay floats are reported as remarks.
    """

    name = "quantize-weights"

    granularity: str = "channel"
    """`tensor`, `channel` or `block`."""

    block_size: int = 32
    """The length of a block along the axis that is summed over."""

    scheme: str = "torch-per-channel-symmetric"
    """The name of a scheme, which begins with that of its system."""

    storage: str = "i8"
    """The integers: `i8`, `u8`, `i4`, `i16`, ..."""

    otherwise: str = "leave"
    """The fallback of a weight: `leave` it in floats, or a `coarser` granularity."""

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown word or an invalid number."""
        self._policy()

    def _policy(self) -> WeightPolicy:
        found = re.fullmatch("([iu])([0-9]{1,2})", self.storage)
        if found is None:
            raise ValueError(f"storage must be a type such as i8 or u4, not '{self.storage}'")
        if self.block_size < 1:
            raise ValueError(f"block-size must be positive, not {self.block_size}")
        for name, kind in (("granularity", WeightGranularity), ("otherwise", Otherwise)):
            word = getattr(self, name)
            if word not in tuple(kind):
                raise ValueError(f"{name} must be one of {', '.join(kind)}, not '{word}'")
        return WeightPolicy(
            scheme_of(self.scheme, StorageFormat(int(found[2]), signed=found[1] == "i")),
            WeightGranularity(self.granularity),
            self.block_size,
            Otherwise(self.otherwise),
        )

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        report = quantize_weights(op, ctx, self._policy())
        if isinstance(ctx, FoldReportListener):
            ctx.take_fold_report(report)
