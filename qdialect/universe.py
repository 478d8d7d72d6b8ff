"""
What qdialect adds to xDSL, and the plug-in that makes it known to `xdsl-opt`.

Importing this module imports neither the dialect nor the passes, and little of xDSL.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.ir import Dialect
    from xdsl.passes import ModulePass
    from xdsl.universe import Universe
    from xdsl.utils.target import Target

    QDIALECT_UNIVERSE: Universe
    """What the entry point of the plug-in names."""


def get_all_dialects() -> dict[str, Callable[[], Dialect]]:
    """The dialects by name, each made when it is called for."""

    def get_quant() -> Dialect:
        from qdialect.dialects.quant import Quant

        return Quant

    return {"quant": get_quant}


def get_all_passes() -> dict[str, Callable[[], type[ModulePass]]]:
    """The passes by name, each made when it is called for."""

    def get_elide_round_trips() -> type[ModulePass]:
        from qdialect.passes.elide_round_trips import ElideRoundTripsPass

        return ElideRoundTripsPass

    def get_fold_constant_shapes() -> type[ModulePass]:
        from qdialect.passes.fold_constant_shapes import FoldConstantShapesPass

        return FoldConstantShapesPass

    def get_fold_quant_shapes() -> type[ModulePass]:
        from qdialect.passes.fold_quant_shapes import FoldQuantShapesPass

        return FoldQuantShapesPass

    def get_inline() -> type[ModulePass]:
        from qdialect.passes.inline import InlinePass

        return InlinePass

    def get_lower_quant_ops() -> type[ModulePass]:
        from qdialect.passes.lower_quant_ops import LowerQuantOpsPass

        return LowerQuantOpsPass

    def get_lower_quant_shapes() -> type[ModulePass]:
        from qdialect.passes.lower_quant_shapes import LowerQuantShapesPass

        return LowerQuantShapesPass

    def get_normalize_quant_types() -> type[ModulePass]:
        from qdialect.passes.normalize_quant_types import NormalizeQuantTypesPass

        return NormalizeQuantTypesPass

    def get_sink_quant_shapes() -> type[ModulePass]:
        from qdialect.passes.sink_quant_shapes import SinkQuantShapesPass

        return SinkQuantShapesPass

    def get_strip_func_quant_types() -> type[ModulePass]:
        from qdialect.passes.strip_func_quant_types import StripFuncQuantTypesPass

        return StripFuncQuantTypesPass

    def get_verify_quant_shapes() -> type[ModulePass]:
        from qdialect.passes.verify_quant_shapes import VerifyQuantShapesPass

        return VerifyQuantShapesPass

    return {
        "elide-round-trips": get_elide_round_trips,
        "fold-constant-shapes": get_fold_constant_shapes,
        "fold-quant-shapes": get_fold_quant_shapes,
        "inline": get_inline,
        "lower-quant-ops": get_lower_quant_ops,
        "lower-quant-shapes": get_lower_quant_shapes,
        "normalize-quant-types": get_normalize_quant_types,
        "sink-quant-shapes": get_sink_quant_shapes,
        "strip-func-quant-types": get_strip_func_quant_types,
        "verify-quant-shapes": get_verify_quant_shapes,
    }


def get_all_targets() -> dict[str, Callable[[], type[Target]]]:
    """The targets by name, each made when it is called for."""

    def get_mlir_text() -> type[Target]:
        from qdialect.text.target import MLIRTextTarget

        return MLIRTextTarget

    return {"qdialect-mlir": get_mlir_text}


@cache
def _make_universe() -> Universe:
    from xdsl import dialects, transforms
    from xdsl.universe import Universe

    # xDSL refuses to start if two plug-ins have a name in common, so what it may itself
    # have one day is left to it.
    return Universe(
        all_dialects={
            name: factory
            for name, factory in get_all_dialects().items()
            if name not in dialects.get_all_dialects()
        },
        all_passes={
            name: factory
            for name, factory in get_all_passes().items()
            if name not in transforms.get_all_passes()
        },
        all_targets=get_all_targets(),
    )


def __getattr__(name: str) -> object:
    # Most runs of qdialect-opt have no use for it, nor for what it takes of xDSL.
    if name == "QDIALECT_UNIVERSE":
        return _make_universe()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
