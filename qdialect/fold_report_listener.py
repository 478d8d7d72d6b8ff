"""Who is told what was folded: apart from the report, for tools that may fold nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qdialect.fold_report import FoldReport


class FoldReportListener(ABC):
    """A context that wants to know what a pass has folded: its class derives from this."""

    @abstractmethod
    def take_fold_report(self, report: FoldReport) -> None:
        """Take what a pass has to tell of one module."""
