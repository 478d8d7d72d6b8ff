"""The listener for reports and plans of folds; importing it does not import the fold."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from qdialect.folding.fold_plan import FoldPlan
    from qdialect.folding.report import FoldReport


class FoldReportListener(ABC):
    """A base class of contexts to which passes send their reports."""

    wants_fold_plans: bool = False
    """Whether `take_fold_plan` is called."""

    wants_values: bool = False
    """Whether reports of quantization have the parameters of each value."""

    @abstractmethod
    def take_fold_report(self, report: FoldReport) -> None:
        """Take the report of a pass on one module."""

    def take_fold_plan(self, plan: FoldPlan) -> None:
        """Take the plan of a fold that is about to be carried out."""
        raise NotImplementedError


class WarningListener(ABC):
    """A base class of contexts to which passes send warnings."""

    @abstractmethod
    def take_warning(self, op: Operation, message: str) -> None:
        """Take a warning about an op."""
