"""The pass that moves scale between the inputs of layers and their weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from qdialect.folding import FoldReportListener, WarningListener
from qdialect.ops.refusals import RefusalCode
from qdialect.ptq.equalization.equalizing import Chosen, Resolution, equalize_inputs
from qdialect.ptq.equalization.planning import EqualizationPolicy
from qdialect.ptq.schemes.equalization import STRENGTH, ScaleRule
from qdialect.ptq.schemes.noise import worst_keys


@dataclass(frozen=True)
class EqualizeInputsPass(ModulePass):
    """
    Multiply the inputs of layers by scales, and divide their weights by them, before quantization.

    Scales are computed from `quant.stats` per channel, and from the weights. They are multiplied
    into the rows of the layer before if possible, and otherwise a multiplication is inserted.
    Recorded ranges are updated. Layers that cannot be equalized are reported as remarks.

    Example: `qdialect-opt --equalize-inputs=weights-only model.mlir`.
    """

    name = "equalize-inputs"

    layers: tuple[str, ...] = ()
    """The keys of the layers; all layers by default."""

    worst: int | None = None
    """
    The number of layers to equalize: those with the lowest signal-to-noise ratio in `evaluation`.
    """

    evaluation: str | None = None
    """A file of `qdialect-evaluate --json`."""

    strength: int | float = STRENGTH
    """The exponent of scales, from 0 to 1: `(weight range / input range) ** strength`."""

    power_of_two: bool = False
    """Whether scales are powers of two, so that results are the same bit for bit."""

    weights_only: bool = False
    """
    Whether weights of connected layers are equalized with each other, without recorded ranges.
    """

    sweeps: int = 20
    """The maximum number of times that scales are recomputed with weights-only."""

    forks: str = "separate"
    """Whether layers that read the same value have `separate` or `joined` scales."""

    report: str | None = None
    """The file to write the scales and the expected gains to: JSON."""

    bits: int = 8
    """The bits of inputs for which the expected gain is computed."""

    weight_bits: int = 8
    """The bits of weights for which the expected gain is computed."""

    granularity: str = "channel"
    """The granularity of weights for the expected gain: `channel` or `tensor`."""

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid value, or combination of values, of options."""
        self.policy()
        self.resolution()
        if (self.worst is None) != (self.evaluation is None):
            raise ValueError("worst and evaluation must be given together")
        if self.worst is not None and self.worst < 0:
            raise ValueError(f"worst must not be negative, but is {self.worst}")

    def policy(self) -> EqualizationPolicy:
        """The policy that the options of this pass describe. Raises ValueError."""
        if self.forks not in ("separate", "joined"):
            raise ValueError(f"forks must be separate or joined, not '{self.forks}'")
        if self.sweeps < 1:
            raise ValueError(f"sweeps must be at least 1, not {self.sweeps}")
        rule = ScaleRule(self.strength, self.power_of_two)
        return EqualizationPolicy(rule, self.weights_only, self.forks == "joined", self.sweeps)

    def resolution(self) -> Resolution:
        """The quantization for which the gain is estimated. Raises ValueError."""
        return Resolution(self.bits, self.weight_bits, self.granularity)

    def choose(self, layers: Sequence[Sequence[str]]) -> Chosen:
        """The layers that the options select. Raises OSError and ValueError."""
        if self.worst is None or self.evaluation is None:
            return Chosen(self.layers or None)
        named = [keys for keys in layers if not self.layers or set(keys) & set(self.layers)]
        unknown = [key for key in self.layers if not any(key in keys for keys in layers)]
        chosen, missing = worst_keys(self.evaluation, named, self.worst)
        return Chosen([*chosen, *unknown], missing)

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        try:
            found = equalize_inputs(op, ctx, self.policy(), self.resolution(), self.choose)
        except OSError as error:
            reason = f"cannot open '{self.evaluation}': {error.strerror}"
            raise PassFailedException(reason) from None
        except ValueError as error:
            raise PassFailedException(str(error)) from None
        if self.report is not None:
            try:
                with open(self.report, "w", encoding="utf-8") as file:
                    file.write(found.report.to_json())
            except OSError as error:
                reason = f"cannot write '{self.report}': {error.strerror}"
                raise PassFailedException(reason) from None
        if isinstance(ctx, WarningListener):
            for record in found.outcomes.refused(RefusalCode.NO_VALUE):
                ctx.take_warning(op, record.reason)
        if isinstance(ctx, FoldReportListener):
            ctx.take_fold_report(found.outcomes)
