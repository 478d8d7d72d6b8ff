"""
The fold of shape ops into constants: one engine for all dialects.

The passes call `fold_shapes`. `graph` reads a module, `plan` decides what to fold within the
limits of `policy`, and `apply` carries that out. `moved_constant` is a constant after
movements, and `report` the outcome.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdialect.support.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from qdialect.folding.folder import fold_shapes
    from qdialect.folding.policy import FoldPolicy
    from qdialect.folding.report import PassReport
    from qdialect.folding.report_listener import FoldReportListener

__all__ = ["FoldPolicy", "FoldReportListener", "PassReport", "fold_shapes"]

# Deferred: a tool that only prints reports does not need the fold.
__getattr__ = lazy_exports(
    __name__,
    {
        "FoldPolicy": "policy",
        "PassReport": "report",
        "FoldReportListener": "report_listener",
        "fold_shapes": "folder",
    },
)
