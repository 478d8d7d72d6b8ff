"""The passes, found by their flags."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, Final

from qdialect.support.lazy_exports import lazy_exports

if __name__ != "qdialect.passes":
    raise ImportError("this package is imported as qdialect.passes")

if TYPE_CHECKING:
    from qdialect.passes.canonicalize import CanonicalizePass
    from qdialect.passes.drop_ranges import DropRangesPass
    from qdialect.passes.elide_round_trips import ElideRoundTripsPass
    from qdialect.passes.fold_constant_shapes import FoldConstantShapesPass
    from qdialect.passes.fold_quant_shapes import FoldQuantShapesPass
    from qdialect.passes.inline import InlinePass
    from qdialect.passes.lower_dequantization import LowerDequantizationPass
    from qdialect.passes.lower_quant_ops import LowerQuantOpsPass
    from qdialect.passes.lower_quant_shapes import LowerQuantShapesPass
    from qdialect.passes.normalize_quant_types import NormalizeQuantTypesPass
    from qdialect.passes.raise_dequantization import RaiseDequantizationPass
    from qdialect.passes.sink_quant_shapes import SinkQuantShapesPass
    from qdialect.passes.strip_func_quant_types import StripFuncQuantTypesPass
    from qdialect.passes.verify_quant_shapes import VerifyQuantShapesPass
    from qdialect.ptq.passes.attach_keys import AttachKeysPass
    from qdialect.ptq.passes.attach_ranges import AttachRangesPass
    from qdialect.ptq.passes.convert_ranges import ConvertRangesPass
    from qdialect.ptq.passes.equalize_inputs import EqualizeInputsPass
    from qdialect.ptq.passes.fake_quantize import FakeQuantizePass
    from qdialect.ptq.passes.quantize_dequantize_weights import QuantizeDequantizeWeightsPass
    from qdialect.ptq.passes.quantize_weights import QuantizeWeightsPass
    from qdialect.ptq.passes.quantize_with_ranges import QuantizeWithRangesPass
    from qdialect.ptq.passes.shift_storage import ShiftStoragePass
    from qdialect.ptq.passes.steps import (
        AssignActivationsPass,
        AssignBiasesPass,
        AssignConstantInputsPass,
        AssignFixedValuesPass,
        AssignInputTypesPass,
        AssignMixedPrecisionPass,
        AssignOutputTypesPass,
        AssignWeightsPass,
        PropagateParametersBackwardPass,
        PropagateParametersForwardPass,
        RemoveRedundantQuantizePass,
        WriteQuantizedPass,
    )
    from qdialect.ptq.passes.verify_quantization import VerifyQuantizationPass

__all__ = [
    "GROUPS",
    "PASSES",
    "AssignActivationsPass",
    "AssignBiasesPass",
    "AssignConstantInputsPass",
    "AssignFixedValuesPass",
    "AssignInputTypesPass",
    "AssignMixedPrecisionPass",
    "AssignOutputTypesPass",
    "AssignWeightsPass",
    "AttachKeysPass",
    "AttachRangesPass",
    "CanonicalizePass",
    "ConvertRangesPass",
    "DropRangesPass",
    "ElideRoundTripsPass",
    "EqualizeInputsPass",
    "FakeQuantizePass",
    "FoldConstantShapesPass",
    "FoldQuantShapesPass",
    "InlinePass",
    "LowerDequantizationPass",
    "LowerQuantOpsPass",
    "LowerQuantShapesPass",
    "NormalizeQuantTypesPass",
    "PropagateParametersBackwardPass",
    "PropagateParametersForwardPass",
    "QuantizeDequantizeWeightsPass",
    "QuantizeWeightsPass",
    "QuantizeWithRangesPass",
    "RaiseDequantizationPass",
    "RemoveRedundantQuantizePass",
    "ShiftStoragePass",
    "SinkQuantShapesPass",
    "StripFuncQuantTypesPass",
    "VerifyQuantShapesPass",
    "VerifyQuantizationPass",
    "WriteQuantizedPass",
]

GROUPS: Final[Mapping[str, Mapping[str, str]]] = {
    "Folding": {
        "fold-quant-shapes": "passes.fold_quant_shapes",
        "fold-constant-shapes": "passes.fold_constant_shapes",
        "sink-quant-shapes": "passes.sink_quant_shapes",
        "elide-round-trips": "passes.elide_round_trips",
        "canonicalize": "passes.canonicalize",
        "inline": "passes.inline",
    },
    "Raising and lowering": {
        "raise-dequantization": "passes.raise_dequantization",
        "lower-dequantization": "passes.lower_dequantization",
        "lower-quant-shapes": "passes.lower_quant_shapes",
        "lower-quant-ops": "passes.lower_quant_ops",
    },
    "Types and storage": {
        "normalize-quant-types": "passes.normalize_quant_types",
        "strip-func-quant-types": "passes.strip_func_quant_types",
        "shift-storage": "ptq.passes.shift_storage",
        "fake-quantize": "ptq.passes.fake_quantize",
    },
    "Recorded ranges": {
        "attach-keys": "ptq.passes.attach_keys",
        "attach-ranges": "ptq.passes.attach_ranges",
        "convert-ranges": "ptq.passes.convert_ranges",
        "drop-ranges": "passes.drop_ranges",
    },
    "Quantization": {
        "equalize-inputs": "ptq.passes.equalize_inputs",
        "quantize-weights": "ptq.passes.quantize_weights",
        "quantize-dequantize-weights": "ptq.passes.quantize_dequantize_weights",
        "quantize-with-ranges": "ptq.passes.quantize_with_ranges",
    },
    "Steps of --quantize-with-ranges, in order": {
        "assign-activations": "ptq.passes.steps",
        "assign-mixed-precision": "ptq.passes.steps",
        "remove-redundant-quantize": "ptq.passes.steps",
        "propagate-parameters-backward": "ptq.passes.steps",
        "assign-constant-inputs": "ptq.passes.steps",
        "assign-fixed-values": "ptq.passes.steps",
        "propagate-parameters-forward": "ptq.passes.steps",
        "assign-weights": "ptq.passes.steps",
        "assign-biases": "ptq.passes.steps",
        "assign-input-types": "ptq.passes.steps",
        "assign-output-types": "ptq.passes.steps",
        "write-quantized": "ptq.passes.steps",
    },
    "Verification": {
        "verify-quant-shapes": "passes.verify_quant_shapes",
        "verify-quantization": "ptq.passes.verify_quantization",
    },
}
"""The module of each pass, by flag, in the groups of `--help`."""


def _class_of(flag: str) -> str:
    return "".join(word.capitalize() for word in flag.split("-")) + "Pass"


PASSES: Final = {flag: _class_of(flag) for flag in sorted(chain(*GROUPS.values()))}
"""The class of each pass, by flag."""

__getattr__ = lazy_exports(
    "qdialect",
    {_class_of(flag): module for passes in GROUPS.values() for flag, module in passes.items()},
)
