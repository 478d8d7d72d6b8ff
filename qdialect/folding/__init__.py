"""
The fold of shape ops into constants: one engine for all dialects.

`fold_shapes` is what the passes call. `moved_constant` is what a constant becomes on the way,
`policy` what may be done, `report` what is told afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdialect.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from qdialect.folding.folder import fold_shapes
    from qdialect.folding.policy import FoldPolicy
    from qdialect.folding.report import FoldReport
    from qdialect.folding.report_listener import FoldReportListener

__all__ = ["FoldPolicy", "FoldReport", "FoldReportListener", "fold_shapes"]

# A tool that prints reports does not import what folds.
__getattr__ = lazy_exports(
    __name__,
    {
        "FoldPolicy": "policy",
        "FoldReport": "report",
        "FoldReportListener": "report_listener",
        "fold_shapes": "folder",
    },
)
