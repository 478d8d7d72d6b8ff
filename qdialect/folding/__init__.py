"""
The fold of shape ops into constants: one engine for all dialects.

The passes call `fold_shapes`. `graph` reads a module, `plan` decides what to fold within the
limits of `policy`, and `apply` carries that out. `moved_constant` is a constant after
movements, and `report` the outcome, which contexts that listen receive.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from qdialect.support.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.ir import Operation

    from qdialect.folding.apply import fold_shapes
    from qdialect.folding.fold_plan import FoldPlan
    from qdialect.folding.policy import FoldPolicy
    from qdialect.folding.report import PassRecord, PassReport

__all__ = ["FoldPolicy", "FoldReportListener", "PassReport", "fold_shapes"]

# Deferred: a tool that only prints reports does not need the fold.
__dir__ = __all__.copy
__getattr__ = lazy_exports(
    __name__,
    {"FoldPolicy": "policy", "PassReport": "report", "fold_shapes": "apply"},
)


class FoldReportListener(ABC):
    """A base class of contexts to which passes send their reports."""

    wants_fold_plans: bool = False
    """Whether `take_fold_plan` is called."""

    wants_values: bool = False
    """Whether reports of quantization have the parameters of each value."""

    @abstractmethod
    def take_fold_report(self, report: PassReport) -> None:
        """Take the report of a pass on one module."""

    def take_fold_plan(self, plan: FoldPlan) -> None:
        """Take the plan of a fold that is about to be carried out."""
        raise NotImplementedError


class WarningListener(ABC):
    """A base class of contexts to which passes send warnings."""

    @abstractmethod
    def take_warning(self, op: Operation, message: str) -> None:
        """Take a warning about an op."""


def send_report(ctx: Context, report: PassReport) -> None:
    """Send a report to a context that takes reports."""
    if isinstance(ctx, FoldReportListener):
        ctx.take_fold_report(report)


def wants_values(ctx: Context) -> bool:
    """Whether reports of quantization should have the parameters of each value."""
    return isinstance(ctx, FoldReportListener) and ctx.wants_values


def warn(ctx: Context, op: Operation, message: str) -> None:
    """Send a warning to a context that takes warnings."""
    if isinstance(ctx, WarningListener):
        ctx.take_warning(op, message)


def warn_of(ctx: Context, records: Sequence[PassRecord]) -> None:
    """Warn of the first of some refusals, and of the number of the others."""
    if not records:
        return
    first = records[0]
    more = f"; {len(records) - 1} more, see --remarks" if len(records) > 1 else ""
    warn(ctx, first.op, f"'{first.op_name}' op stays float: {first.reason}{more}")


def warn_of_roundings(ctx: Context, op: Operation, count: int) -> None:
    """Warn that a pass dropped casts of a module that rounded floats."""
    if count:
        values = "1 value" if count == 1 else f"{count} values"
        message = (
            f"the rounding of {values} is lost: a 'quant.dcast' of a 'quant.qcast' is dropped, as "
            "in MLIR; to keep it, run '--lower-quant-ops=keep-round-trips=true' before"
        )
        warn(ctx, op, message)
