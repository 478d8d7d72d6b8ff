"""The passes that attach, convert and drop recorded ranges, and the keys of values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import PassFailedException

from qdialect.dialects.quant import (
    CalibratedQuantizedType,
    DequantizeCastOp,
    QuantizeCastOp,
    StatisticsOp,
)
from qdialect.folding import send_report, warn
from qdialect.folding.inlining import inline_calls
from qdialect.folding.report import Outcome, PassReport
from qdialect.ir.elements import floats_attribute
from qdialect.ir.errors import pass_failures
from qdialect.ir.rewriting import Replacements
from qdialect.ir.value_types import element_type_or_self, is_tensor, shape_of, with_element_type
from qdialect.ir.xdsl_private import NAME_OF_UNREGISTERED
from qdialect.ops.along_axis import LAYER_STATS, drop_ranges, is_statistics, statistics_of
from qdialect.ops.interface import Refusal, RefusalCode
from qdialect.ops.unused_ops import erase_with_unused
from qdialect.ptq.calibration.attaching import attach_ranges
from qdialect.ptq.calibration.keys import attach_keys
from qdialect.ptq.schemes.profile import Profile
from qdialect.ptq.schemes.ranges import OF_HISTOGRAMS, Reduction, ReductionKind
from qdialect.support.arguments import named_member
from qdialect.support.lazy_numpy import np


@dataclass(frozen=True)
class AttachKeysPass(ModulePass):
    """
    Write the key of each float tensor as the attribute `quant.key` of its op or argument.

    Calls are inlined first, so that values of a function have a key for each call of it. Passes of
    MLIR drop SSA names, and some drop locations; most keep attributes.

    Example: `qdialect-opt --attach-keys model.mlir`.
    """

    name = "attach-keys"

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        records = inline_calls(op)
        attach_keys(op)
        if records:
            send_report(ctx, PassReport(records, "inlined"))


@dataclass(frozen=True)
class AttachRangesPass(ModulePass):
    """
    Insert `quant.stats` after each value that has a record in a profile.

    Calls are inlined first. Values without a record, and records without a value, are reported as
    remarks. A profile of another module is a warning. There, keys that number values, such as
    `@main#0`, bind no record: values that are computed as before get theirs, whatever their keys.

    Example: `qdialect-opt --attach-ranges=profile=profile.json model.mlir`.
    """

    name = "attach-ranges"

    profile: str
    """The file of the profile: JSON."""

    reduction: str | None = None
    """
    `whole`, `percentile`, `moving-average`, `torch-moving-average`, or, from histograms,
    `elements`, `mse`, `entropy` or `glow-entropy`; in place of the reduction in the profile.
    """

    low: int | float | None = None
    """The percentile of the minima, 1 by default; of the elements, 0.0005."""

    high: int | float | None = None
    """The percentile of the maxima, 99 by default; of the elements, 99.9995."""

    strict: bool = False
    """Whether missing records, unused records and a profile of another module are errors."""

    trust_numbers: bool = False
    """
    Whether keys that number values bind records in another module, too. A record may then get to
    another value.
    """

    finite: bool = False
    """Whether values with an infinite range get none, and so stay float."""

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown reduction or an invalid percentile."""
        self._reduction()
        has_percentiles = self.reduction in (ReductionKind.PERCENTILE, ReductionKind.ELEMENTS)
        if (self.low, self.high) != (None, None) and not has_percentiles:
            raise ValueError("low and high need reduction=percentile or reduction=elements")

    def _reduction(self) -> Reduction | None:
        if self.reduction is None:
            return None
        kind = named_member("reduction", ReductionKind, self.reduction)
        return Reduction.of(kind, self.low, self.high)

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        with pass_failures():
            profile = Profile.read(self.profile)
        # As for calibration, whose keys and fingerprint are those of the module without calls.
        records = inline_calls(op)
        reduction = self._reduction() or profile.reduction
        if reduction.kind in OF_HISTOGRAMS and not profile.has_histograms:
            raise PassFailedException(
                f"reduction={reduction.kind} needs histograms: record the profile again, with "
                "'qdialect-calibrate --histogram'"
            )
        report, differences, doubtful = attach_ranges(
            op, ctx, profile, reduction, trust_numbers=self.trust_numbers, finite=self.finite
        )
        report.records[:0] = records
        warnings = list[str]()
        if differences:
            warnings.append(
                f"'{self.profile}' was recorded on another module: {'; '.join(differences)}"
            )
        if doubtful:
            warnings.append(
                f"{doubtful} of its records may be of other values, and are not attached: "
                "--remarks names them, and trust-numbers attaches them"
            )
        refused = [record.reason for record in report.records if record.outcome is Outcome.REFUSED]
        if self.strict and (differences or refused):
            raise PassFailedException("; ".join([*warnings[: len(differences) > 0], *refused]))
        if warnings:
            warn(ctx, op, "; ".join(warnings))
        send_report(ctx, report)


class RangeForm(StrEnum):
    """The forms of a recorded range."""

    CALIBRATED = "calibrated"
    """Upstream's type, in `dcast(qcast(x))`: a minimum that is less than the maximum."""

    STATS = "stats"
    """`quant.stats`."""


@dataclass(frozen=True)
class ConvertRangesPass(ModulePass):
    """
    Convert `quant.stats` to casts to `!quant.calibrated` and back, or such casts to `quant.stats`.

    Ranges along an axis, and ranges of length 0, are kept and reported, since upstream's type
    cannot express them. `canonicalize` drops such casts.

    Example: `qdialect-opt --attach-ranges=profile=profile.json --convert-ranges=to=calibrated
    model.mlir`.
    """

    name = "convert-ranges"

    to: str
    """`calibrated` or `stats`."""

    def __post_init__(self) -> None:
        """Raise ValueError for another form."""
        named_member("to", RangeForm, self.to)

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        convert = _to_stats if self.to == RangeForm.STATS else _to_calibrated
        report = PassReport(verb="converted")
        replacements, converted = Replacements(), list[Operation]()
        for old in list(op.walk()):
            try:
                new = convert(old)
            except Refusal as error:
                report.refuse(old, error)
                continue
            if not new:
                continue
            Rewriter.insert_op(new, InsertPoint.before(old))
            result = new[-1].results[0]
            result.name_hint = old.results[0].name_hint
            replacements.add(old.results[0], result)
            converted.append(old)
            report.tell(Outcome.CONVERTED, old, f"its range is in '{new[-1].name}'", result)
        replacements.apply()
        erase_with_unused(converted)
        send_report(ctx, report)


def _to_calibrated(op: Operation) -> Sequence[Operation]:
    """The casts that replace an op that carries ranges. Raises Refusal."""
    if not is_statistics(op):
        return ()
    (value,) = op.operands
    statistics = statistics_of(op, shape_of(value.type))
    if statistics.axis is not None:
        raise Refusal(
            RefusalCode.GRANULARITY, "'!quant.calibrated' has a single range for all elements"
        )
    least, greatest = statistics.layer.tolist()
    if least >= greatest:
        raise Refusal(
            RefusalCode.ILLEGAL_TYPE,
            f"'!quant.calibrated' needs a minimum that is less than the maximum, not {least}",
        )
    expressed = cast(AnyFloat, element_type_or_self(value.type))
    calibrated = CalibratedQuantizedType.of(expressed, least, greatest)
    quantized = QuantizeCastOp(value, with_element_type(value.type, calibrated))
    quantized.attributes |= {
        name: attribute
        for name, attribute in ({**op.properties, **op.attributes}).items()
        if name not in (LAYER_STATS, NAME_OF_UNREGISTERED)
    }
    return quantized, DequantizeCastOp(quantized, value.type)


def _to_stats(op: Operation) -> Sequence[Operation]:
    """The op that replaces a cast back from `!quant.calibrated`."""
    first = op.operands[0].owner if isinstance(op, DequantizeCastOp) else None
    if not isinstance(first, QuantizeCastOp) or first.input.type != op.results[0].type:
        return ()
    calibrated = element_type_or_self(first.result.type)
    if not isinstance(calibrated, CalibratedQuantizedType) or not is_tensor(first.input.type):
        return ()
    new = StatisticsOp(first.input, floats_attribute(np.array([calibrated.min, calibrated.max])))
    for name, attribute in first.attributes.items():
        target = new.properties if name in ("key", "count") else new.attributes
        target[name] = attribute
    return (new,)


@dataclass(frozen=True)
class DropRangesPass(ModulePass):
    """
    Replace each `quant.stats`, and each op of TensorFlow like it, by its operand.

    Example: `qdialect-opt --drop-ranges ranges.mlir`.
    """

    name = "drop-ranges"

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        drop_ranges(op)
