"""The pass that quantizes a model from the ranges that were recorded for it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import ClassVar

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from qdialect.folding import FoldReportListener, WarningListener, warn_of
from qdialect.folding.report import Outcome, PassReport
from qdialect.ops.refusals import RefusalCode
from qdialect.passes.drop_ranges import DropRangesPass
from qdialect.ptq.assignment.assignment_steps import SEQUENCE
from qdialect.ptq.assignment.settings import (
    Configuration,
    SettingError,
    Settings,
    check_precision,
    declared_scheme,
    storage_named,
    weight_policy,
)
from qdialect.ptq.assignment.whole_model import quantize_model
from qdialect.ptq.schemes.presets import SCHEME_NAMES, scheme_of
from qdialect.ptq.schemes.profile import Profile


@dataclass(frozen=True)
class AssignmentPass(ModulePass):
    """A pass that runs steps of `quantize-with-ranges`, with its options."""

    STEPS: ClassVar[tuple[str, ...]]
    IS_WRITTEN: ClassVar[bool] = False

    config: str | None = None
    """A file with the layers of other precisions: JSON, in ONE's format."""

    scheme: str | None = field(default=None, metadata={"values": SCHEME_NAMES})
    """The name of a system, or of one of its schemes; `one-u8` unless `config` names another."""

    granularity: str | None = None
    """The granularity of weights: `layer` (or `tensor`), `channel`, `block`; default `channel`."""

    block_size: int = 32
    """The length of a block along the axis that is summed over."""

    weight_scheme: str | None = None
    """The scheme of weights: a name as for `scheme`, whose scheme of weights is the default."""

    weight_storage: str | None = None
    """The storage of weights, such as `i8` or `i4`; default that of the scheme."""

    otherwise: str = "leave"
    """The fallback for weights: `leave` them float, or use a `coarser` granularity."""

    tf_style_maxpool: bool | None = None
    """
    Whether the result of a max pool has the parameters of the operand, not those of its own range;
    by default not in ONE's schemes, and in the others.
    """

    input_types: tuple[str, ...] = ()
    """The types of arguments: `f32`, `u8`, `i8` or `i16`; one for each, or one for all."""

    output_types: tuple[str, ...] = ()
    """The types of results, in the same way."""

    profile: str | None = None
    """A profile with histograms, to estimate the noise in reports."""

    save_ranges: bool = False
    """Whether `quant.stats` stays."""

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid value of an option."""
        self._settings(Configuration(), ())
        for word in (*self.input_types, *self.output_types):
            declared_scheme(word)

    def _settings(self, configuration: Configuration, keys: Collection[str]) -> Settings:
        precision = configuration.default_precision(self.scheme)
        weights = precision.weights.scheme
        if self.weight_scheme is not None or self.weight_storage is not None:
            storage = storage_named(self.weight_storage) if self.weight_storage else None
            weights = scheme_of(self.weight_scheme or precision.name, storage)
        granularity = configuration.granularity_of_weights(self.granularity)
        policy = weight_policy(weights, granularity, self.block_size, self.otherwise)
        shares_pools = self.tf_style_maxpool
        if shares_pools is None:
            shares_pools = precision.shares_pools
        default = replace(precision, weights=policy, shares_pools=shares_pools)
        check_precision(default)
        return Settings(
            default,
            configuration.of_layers(keys, default),
            configuration.parameters,
            configuration.copies,
            self.input_types,
            self.output_types,
        )

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        configuration = Configuration()
        try:
            if self.config is not None:
                configuration = Configuration.read(self.config)
            profile = None if self.profile is None else Profile.read(self.profile)
            report = quantize_model(
                op,
                ctx,
                lambda keys: self._settings(configuration, keys),
                steps=self.STEPS,
                is_written=self.IS_WRITTEN,
                profile=profile,
                is_explained=isinstance(ctx, FoldReportListener) and ctx.wants_values,
            )
        except OSError as error:
            raise PassFailedException(f"cannot open '{error.filename}': {error.strerror}") from None
        except SettingError as error:
            raise PassFailedException(str(configuration.located(error))) from None
        except ValueError as error:
            raise PassFailedException(str(error)) from None
        if self.IS_WRITTEN:
            self._warn(ctx, op, report)
        if self.IS_WRITTEN and not self.save_ranges:
            DropRangesPass().apply(ctx, op)
        if isinstance(ctx, FoldReportListener):
            ctx.take_fold_report(report)

    def _warn(self, ctx: Context, op: ModuleOp, report: PassReport) -> None:
        """Warn of what cannot be quantized as asked, and of a module without ranges."""
        warn_of(ctx, report.refused(RefusalCode.GRANULARITY, RefusalCode.ILLEGAL_TYPE))
        unrecorded = report.refused(RefusalCode.NO_RECORD)
        is_quantized = any(each.outcome is Outcome.QUANTIZED for each in report.records)
        if unrecorded and not is_quantized and isinstance(ctx, WarningListener):
            message = f"nothing is quantized: {unrecorded[0].reason}; run '--attach-ranges' before"
            ctx.take_warning(op, message)


@dataclass(frozen=True)
class QuantizeWithRangesPass(AssignmentPass):
    """
    Quantize values with `quant.stats`, constants, weights and biases.

    Users read quantized values through `quant.dcast` of `quant.qcast`. Ops that stay float are
    reported as remarks.

    Example: `qdialect-opt --attach-ranges=profile=profile.json
    --quantize-with-ranges=scheme=one-u8 model.mlir`.
    """

    name = "quantize-with-ranges"
    STEPS = SEQUENCE
    IS_WRITTEN = True
