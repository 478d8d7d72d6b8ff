"""The passes: one module each, named after its flag."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdialect.lazy_exports import lazy_exports

if __name__ != "qdialect.passes":
    raise ImportError("this package is imported as qdialect.passes")

if TYPE_CHECKING:
    from qdialect.passes.attach_keys import AttachKeysPass
    from qdialect.passes.attach_ranges import AttachRangesPass
    from qdialect.passes.canonicalize import CanonicalizePass
    from qdialect.passes.convert_ranges import ConvertRangesPass
    from qdialect.passes.drop_ranges import DropRangesPass
    from qdialect.passes.elide_round_trips import ElideRoundTripsPass
    from qdialect.passes.fake_quantize import FakeQuantizePass
    from qdialect.passes.fold_constant_shapes import FoldConstantShapesPass
    from qdialect.passes.fold_quant_shapes import FoldQuantShapesPass
    from qdialect.passes.inline import InlinePass
    from qdialect.passes.lower_dequantization import LowerDequantizationPass
    from qdialect.passes.lower_quant_ops import LowerQuantOpsPass
    from qdialect.passes.lower_quant_shapes import LowerQuantShapesPass
    from qdialect.passes.normalize_quant_types import NormalizeQuantTypesPass
    from qdialect.passes.quantize_weights import QuantizeWeightsPass
    from qdialect.passes.raise_dequantization import RaiseDequantizationPass
    from qdialect.passes.shift_storage import ShiftStoragePass
    from qdialect.passes.sink_quant_shapes import SinkQuantShapesPass
    from qdialect.passes.strip_func_quant_types import StripFuncQuantTypesPass
    from qdialect.passes.verify_quant_shapes import VerifyQuantShapesPass

__all__ = [
    "PASSES",
    "AttachKeysPass",
    "AttachRangesPass",
    "CanonicalizePass",
    "ConvertRangesPass",
    "DropRangesPass",
    "ElideRoundTripsPass",
    "FakeQuantizePass",
    "FoldConstantShapesPass",
    "FoldQuantShapesPass",
    "InlinePass",
    "LowerDequantizationPass",
    "LowerQuantOpsPass",
    "LowerQuantShapesPass",
    "NormalizeQuantTypesPass",
    "QuantizeWeightsPass",
    "RaiseDequantizationPass",
    "ShiftStoragePass",
    "SinkQuantShapesPass",
    "StripFuncQuantTypesPass",
    "VerifyQuantShapesPass",
]

PASSES: Final = {
    "attach-keys": "AttachKeysPass",
    "attach-ranges": "AttachRangesPass",
    "canonicalize": "CanonicalizePass",
    "convert-ranges": "ConvertRangesPass",
    "drop-ranges": "DropRangesPass",
    "elide-round-trips": "ElideRoundTripsPass",
    "fake-quantize": "FakeQuantizePass",
    "fold-constant-shapes": "FoldConstantShapesPass",
    "fold-quant-shapes": "FoldQuantShapesPass",
    "inline": "InlinePass",
    "lower-dequantization": "LowerDequantizationPass",
    "lower-quant-ops": "LowerQuantOpsPass",
    "lower-quant-shapes": "LowerQuantShapesPass",
    "normalize-quant-types": "NormalizeQuantTypesPass",
    "quantize-weights": "QuantizeWeightsPass",
    "raise-dequantization": "RaiseDequantizationPass",
    "shift-storage": "ShiftStoragePass",
    "sink-quant-shapes": "SinkQuantShapesPass",
    "strip-func-quant-types": "StripFuncQuantTypesPass",
    "verify-quant-shapes": "VerifyQuantShapesPass",
}
"""The class of each pass, by flag. The module of a pass is named after its flag."""

__getattr__ = lazy_exports(
    __name__, {name: flag.replace("-", "_") for flag, name in PASSES.items()}
)
