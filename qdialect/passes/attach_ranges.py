"""The pass that attaches the ranges of a profile to values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from qdialect.folding.report import Outcome
from qdialect.folding.report_listener import FoldReportListener, WarningListener
from qdialect.quantization.attaching import attach_ranges, differences_of
from qdialect.quantization.profile import Profile
from qdialect.quantization.ranges import Range, Statistics


class ProfileReduction(StrEnum):
    """What is taken of the ranges of several records."""

    WHOLE = "whole"
    """The least minimum and the greatest maximum."""
    PERCENTILE = "percentile"
    """Percentiles of the minima and of the maxima, as ONE's `record-minmax` takes them."""
    MOVING_AVERAGE = "moving-average"
    """The moving average of batches of records, as ONE's `record-minmax` takes it."""


@dataclass(frozen=True)
class AttachRangesPass(ModulePass):
    """
    Put `quant.stats` behind each value that a profile has a record of.

    Values without a record, and records without a value, have remarks. A profile of another module
    is a warning.
    """

    name = "attach-ranges"

    profile: str
    """The file of the profile: JSON."""

    reduction: str = "whole"
    """`whole`, `percentile` or `moving-average`: what is taken of several records."""

    low: int | float = 1.0
    """The percentile of the minima."""

    high: int | float = 99.0
    """The percentile of the maxima."""

    strict: bool = False
    """Whether a value without a record, a record without a value and another module are errors."""

    def __post_init__(self) -> None:
        """Raise ValueError for a reduction that there is not, and a percentile that is none."""
        if self.reduction not in tuple(ProfileReduction):
            words = ", ".join(ProfileReduction)
            raise ValueError(f"reduction must be one of {words}, not '{self.reduction}'")
        for name, number in (("low", self.low), ("high", self.high)):
            if not 0 <= number <= 100:
                raise ValueError(f"{name} must be from 0 to 100, not {number}")

    def _reduction(self) -> Callable[[Statistics], Range]:
        match self.reduction:
            case ProfileReduction.PERCENTILE:
                return lambda statistics: statistics.percentile(self.low, self.high)
            case ProfileReduction.MOVING_AVERAGE:
                return Statistics.moving_average
            case _:
                return Statistics.whole

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        try:
            profile = Profile.read(self.profile)
        except OSError as error:
            raise PassFailedException(f"cannot open '{self.profile}': {error.strerror}") from None
        except ValueError as error:
            raise PassFailedException(str(error)) from None
        differences = differences_of(op, ctx, profile)
        told = f"'{self.profile}' was recorded on another module: {'; '.join(differences)}"
        report = attach_ranges(op, profile, self._reduction())
        refused = [each.reason for each in report.records if each.outcome is Outcome.REFUSED]
        if self.strict and (differences or refused):
            raise PassFailedException("; ".join([told] * bool(differences) + refused))
        if differences and isinstance(ctx, WarningListener):
            ctx.take_warning(op, told)
        if isinstance(ctx, FoldReportListener):
            ctx.take_fold_report(report)
