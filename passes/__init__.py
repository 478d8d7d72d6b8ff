"""The passes: one module each, named after its flag."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if __name__ != "qdialect.passes":
    raise ImportError("this package is imported as qdialect.passes")

if TYPE_CHECKING:
    from qdialect.passes.fold_constant_shapes import FoldConstantShapesPass
    from qdialect.passes.fold_quant_shapes import FoldQuantShapesPass
    from qdialect.passes.inline import InlinePass
    from qdialect.passes.lower_quant_shapes import LowerQuantShapesPass
    from qdialect.passes.verify_quant_shapes import VerifyQuantShapesPass

__all__ = [
    "FoldConstantShapesPass",
    "FoldQuantShapesPass",
    "InlinePass",
    "LowerQuantShapesPass",
    "VerifyQuantShapesPass",
]

_MODULES = {
    "FoldConstantShapesPass": "fold_constant_shapes",
    "FoldQuantShapesPass": "fold_quant_shapes",
    "InlinePass": "inline",
    "LowerQuantShapesPass": "lower_quant_shapes",
    "VerifyQuantShapesPass": "verify_quant_shapes",
}


def __getattr__(name: str) -> object:
    # A tool that runs one pass does not import what the others need.
    if name in _MODULES:
        return getattr(import_module(f"qdialect.passes.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
