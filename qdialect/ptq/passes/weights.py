"""The passes that change constant weights: quantization, and equalization of inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from qdialect.folding import send_report, wants_values, warn, warn_of
from qdialect.ir.errors import pass_failures
from qdialect.ops.refusals import RefusalCode
from qdialect.ptq.assignment.settings import policy_of_weights
from qdialect.ptq.equalization.equalizing import Chosen, Resolution, equalize_inputs
from qdialect.ptq.equalization.normalizations import fold_batch_normalization
from qdialect.ptq.equalization.planning import EqualizationPolicy
from qdialect.ptq.schemes.equalization import STRENGTH, ScaleRule
from qdialect.ptq.schemes.noise import worst_keys
from qdialect.ptq.schemes.presets import (
    EXPONENTS,
    FORMATS,
    SCHEME_NAMES,
)
from qdialect.ptq.schemes.schemes import WeightPolicy
from qdialect.ptq.weights import quantize_weights


@dataclass(frozen=True)
class QuantizeWeightsPass(ModulePass):
    """
    Quantize the constant weights of layers: `quant.dcast` of a `quant.constant`.

    Scales and zero points are computed from the weights, by the scheme of the chosen system. Shape
    ops between a constant and its layer are folded. Weights that stay float are reported as
    remarks. Weights that cannot have these parameters are a warning. Formats store floats or codes
    of a table, with scales for each channel or block: f8, MX, NVFP4, NF4 and FP4.

    Example: `qdialect-opt --quantize-weights="granularity=tensor scheme=one-u8" model.mlir`.
    """

    name = "quantize-weights"
    IS_DEQUANTIZED: ClassVar[bool] = False

    granularity: str | None = None
    """`tensor`, `channel` or `block`; default that of the format, or `channel`."""

    block_size: int | None = None
    """The length of a block along the axis that is summed over; default the format's, or 32."""

    scheme: str = field(
        default="torch-per-channel-symmetric", metadata={"values": (*SCHEME_NAMES, *FORMATS)}
    )
    """The name of a scheme, of a system, whose scheme of weights is used, or of a format."""

    storage: str | None = None
    """
    The storage type, such as `u8`, `i4`, `i16` or `f8E5M2`; default that of the format or of the
    system, or `i8`.
    """

    exponent: str | None = field(default=None, metadata={"values": EXPONENTS})
    """The rule of the exponents of a format of MX (floor)."""

    otherwise: str = "leave"
    """The fallback for a weight: `leave` it float, or use a `coarser` granularity."""

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid value of an option."""
        self._policy()

    def _policy(self) -> WeightPolicy:
        own = self.granularity, self.block_size, self.otherwise
        return policy_of_weights(self.scheme, self.storage, self.exponent, *own)

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        report = quantize_weights(
            op,
            ctx,
            self._policy(),
            is_dequantized=self.IS_DEQUANTIZED,
            is_explained=wants_values(ctx),
        )
        warn_of(ctx, report.refused(RefusalCode.GRANULARITY, RefusalCode.ILLEGAL_TYPE))
        send_report(ctx, report)


@dataclass(frozen=True)
class QuantizeDequantizeWeightsPass(QuantizeWeightsPass):
    """
    Replace the constant weights of layers by quantized and dequantized ones, which are floats.

    They equal the results of the casts that `quantize-weights` inserts with the same options.

    Example: `qdialect-opt --quantize-dequantize-weights=scheme=one-u8 model.mlir`.
    """

    name = "quantize-dequantize-weights"
    IS_DEQUANTIZED = True


@dataclass(frozen=True)
class FoldBatchNormalizationPass(ModulePass):
    """
    Merge batch normalization after or before layers into their weights and biases.

    So is any arithmetic with constants for each channel, in all spellings: additions, subtractions,
    multiplications and divisions. A matrix that is repeated for a batch is multiplied once. The
    pass comes before calibration. Normalizations that stay are reported as remarks.

    Example: `qdialect-opt --fold-batch-normalization model.mlir`.
    """

    name = "fold-batch-normalization"

    of_codes: bool = False
    """
    Write weights that are computed from integers as floats, if only weights are integers, and keep
    factors before a layer that differ much between channels.
    """

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        send_report(ctx, fold_batch_normalization(op, ctx, of_codes=self.of_codes))


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
        with pass_failures():
            equalized = equalize_inputs(op, ctx, self.policy(), self.resolution(), self.choose)
        if self.report is not None:
            try:
                with open(self.report, "w", encoding="utf-8") as file:
                    file.write(equalized.report.to_json())
            except OSError as error:
                reason = f"cannot write '{self.report}': {error.strerror}"
                raise PassFailedException(reason) from None
        for record in equalized.outcomes.refused(RefusalCode.NO_VALUE):
            warn(ctx, op, record.reason)
        unrecorded = equalized.outcomes.refused(RefusalCode.NO_RECORD)
        if unrecorded and not equalized.report.layers:
            warn(ctx, op, f"nothing is equalized: {unrecorded[0].reason}")
        send_report(ctx, equalized.outcomes)
