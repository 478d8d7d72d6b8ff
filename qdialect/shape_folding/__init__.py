"""
The fold of shape ops into constants: one engine for all dialects.

`fold_shapes` is what the passes call. `moved` is what a constant becomes on the way,
`policy` what may be done, `report` what is told afterwards.
"""

from qdialect.fold_report import FoldReport
from qdialect.fold_report_listener import FoldReportListener
from qdialect.shape_folding.folder import fold_shapes
from qdialect.shape_folding.policy import FoldPolicy

__all__ = ["FoldPolicy", "FoldReport", "FoldReportListener", "fold_shapes"]
