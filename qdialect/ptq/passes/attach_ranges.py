"""The pass that attaches the ranges of a profile to values."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from qdialect.folding import FoldReportListener, WarningListener
from qdialect.folding.inlining import inline_calls
from qdialect.folding.report import Outcome
from qdialect.ptq.calibration.attaching import attach_ranges
from qdialect.ptq.schemes.profile import Profile
from qdialect.ptq.schemes.ranges import PERCENTILES, Reduction, ReductionKind


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
    """`whole`, `percentile` or `moving-average`, in place of the reduction in the profile."""

    low: int | float = PERCENTILES[0]
    """The percentile of the minima."""

    high: int | float = PERCENTILES[1]
    """The percentile of the maxima."""

    strict: bool = False
    """Whether missing records, unused records and a profile of another module are errors."""

    trust_numbers: bool = False
    """
    Whether keys that number values bind records in another module, too. A record may then get to
    another value.
    """

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown reduction or an invalid percentile."""
        self._reduction()
        percentiles = self.low, self.high
        if percentiles != PERCENTILES and self.reduction != ReductionKind.PERCENTILE:
            raise ValueError("low and high need reduction=percentile")

    def _reduction(self) -> Reduction | None:
        if self.reduction is None:
            return None
        if self.reduction not in tuple(ReductionKind):
            words = ", ".join(ReductionKind)
            raise ValueError(f"reduction must be one of {words}, not '{self.reduction}'")
        return Reduction(ReductionKind(self.reduction), self.low, self.high)

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        try:
            profile = Profile.read(self.profile)
        except OSError as error:
            raise PassFailedException(f"cannot open '{self.profile}': {error.strerror}") from None
        except ValueError as error:
            raise PassFailedException(str(error)) from None
        # As for calibration, whose keys and fingerprint are those of the module without calls.
        records = inline_calls(op)
        reduction = self._reduction() or profile.reduction
        report, differences, doubtful = attach_ranges(
            op, ctx, profile, reduction, trust_numbers=self.trust_numbers
        )
        report.records[:0] = records
        told = list[str]()
        if differences:
            told.append(
                f"'{self.profile}' was recorded on another module: {'; '.join(differences)}"
            )
        if doubtful:
            told.append(
                f"{doubtful} of its records may be of other values, and are not attached: "
                "--remarks names them, and trust-numbers attaches them"
            )
        refused = [each.reason for each in report.records if each.outcome is Outcome.REFUSED]
        if self.strict and (differences or refused):
            raise PassFailedException("; ".join([*told[: len(differences) > 0], *refused]))
        if told and isinstance(ctx, WarningListener):
            ctx.take_warning(op, "; ".join(told))
        if isinstance(ctx, FoldReportListener):
            ctx.take_fold_report(report)
