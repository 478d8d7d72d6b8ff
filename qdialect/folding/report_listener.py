"""Who is told of folds: apart from plans and reports, for tools that may fold nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qdialect.folding.fold_plan import FoldPlan
    from qdialect.folding.report import FoldReport


class FoldReportListener(ABC):
    """A context that passes give their reports to: its class derives from this."""

    wants_fold_plans: bool = False
    """Whether `take_fold_plan` is called."""

    @abstractmethod
    def take_fold_report(self, report: FoldReport) -> None:
        """Take the report of a pass on one module."""

    def take_fold_plan(self, plan: FoldPlan) -> None:
        """Take the plan of a fold that is about to be carried out."""
        raise NotImplementedError
