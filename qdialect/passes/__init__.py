"""The passes: one module each, named after its flag."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from qdialect.algebra.lazy_exports import lazy_exports

if __name__ != "qdialect.passes":
    raise ImportError("this package is imported as qdialect.passes")

if TYPE_CHECKING:
    from qdialect.passes.assign_activations import AssignActivationsPass
    from qdialect.passes.assign_biases import AssignBiasesPass
    from qdialect.passes.assign_constant_inputs import AssignConstantInputsPass
    from qdialect.passes.assign_fixed_values import AssignFixedValuesPass
    from qdialect.passes.assign_input_types import AssignInputTypesPass
    from qdialect.passes.assign_mixed_precision import AssignMixedPrecisionPass
    from qdialect.passes.assign_output_types import AssignOutputTypesPass
    from qdialect.passes.assign_weights import AssignWeightsPass
    from qdialect.passes.attach_keys import AttachKeysPass
    from qdialect.passes.attach_ranges import AttachRangesPass
    from qdialect.passes.canonicalize import CanonicalizePass
    from qdialect.passes.convert_ranges import ConvertRangesPass
    from qdialect.passes.drop_ranges import DropRangesPass
    from qdialect.passes.elide_round_trips import ElideRoundTripsPass
    from qdialect.passes.equalize_inputs import EqualizeInputsPass
    from qdialect.passes.fake_quantize import FakeQuantizePass
    from qdialect.passes.fold_constant_shapes import FoldConstantShapesPass
    from qdialect.passes.fold_quant_shapes import FoldQuantShapesPass
    from qdialect.passes.inline import InlinePass
    from qdialect.passes.lower_dequantization import LowerDequantizationPass
    from qdialect.passes.lower_quant_ops import LowerQuantOpsPass
    from qdialect.passes.lower_quant_shapes import LowerQuantShapesPass
    from qdialect.passes.normalize_quant_types import NormalizeQuantTypesPass
    from qdialect.passes.propagate_parameters_backward import PropagateParametersBackwardPass
    from qdialect.passes.propagate_parameters_forward import PropagateParametersForwardPass
    from qdialect.passes.quantize_dequantize_weights import QuantizeDequantizeWeightsPass
    from qdialect.passes.quantize_weights import QuantizeWeightsPass
    from qdialect.passes.quantize_with_ranges import QuantizeWithRangesPass
    from qdialect.passes.raise_dequantization import RaiseDequantizationPass
    from qdialect.passes.remove_redundant_quantize import RemoveRedundantQuantizePass
    from qdialect.passes.shift_storage import ShiftStoragePass
    from qdialect.passes.sink_quant_shapes import SinkQuantShapesPass
    from qdialect.passes.strip_func_quant_types import StripFuncQuantTypesPass
    from qdialect.passes.verify_quant_shapes import VerifyQuantShapesPass
    from qdialect.passes.verify_quantization import VerifyQuantizationPass
    from qdialect.passes.write_quantized import WriteQuantizedPass

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
        "fold-quant-shapes": "FoldQuantShapesPass",
        "fold-constant-shapes": "FoldConstantShapesPass",
        "sink-quant-shapes": "SinkQuantShapesPass",
        "elide-round-trips": "ElideRoundTripsPass",
        "canonicalize": "CanonicalizePass",
        "inline": "InlinePass",
    },
    "Raising and lowering": {
        "raise-dequantization": "RaiseDequantizationPass",
        "lower-dequantization": "LowerDequantizationPass",
        "lower-quant-shapes": "LowerQuantShapesPass",
        "lower-quant-ops": "LowerQuantOpsPass",
    },
    "Types and storage": {
        "normalize-quant-types": "NormalizeQuantTypesPass",
        "strip-func-quant-types": "StripFuncQuantTypesPass",
        "shift-storage": "ShiftStoragePass",
        "fake-quantize": "FakeQuantizePass",
    },
    "Recorded ranges": {
        "attach-keys": "AttachKeysPass",
        "attach-ranges": "AttachRangesPass",
        "convert-ranges": "ConvertRangesPass",
        "drop-ranges": "DropRangesPass",
    },
    "Quantization": {
        "equalize-inputs": "EqualizeInputsPass",
        "quantize-weights": "QuantizeWeightsPass",
        "quantize-dequantize-weights": "QuantizeDequantizeWeightsPass",
        "quantize-with-ranges": "QuantizeWithRangesPass",
    },
    "Steps of --quantize-with-ranges, in order": {
        "assign-activations": "AssignActivationsPass",
        "assign-mixed-precision": "AssignMixedPrecisionPass",
        "remove-redundant-quantize": "RemoveRedundantQuantizePass",
        "propagate-parameters-backward": "PropagateParametersBackwardPass",
        "assign-constant-inputs": "AssignConstantInputsPass",
        "assign-fixed-values": "AssignFixedValuesPass",
        "propagate-parameters-forward": "PropagateParametersForwardPass",
        "assign-weights": "AssignWeightsPass",
        "assign-biases": "AssignBiasesPass",
        "assign-input-types": "AssignInputTypesPass",
        "assign-output-types": "AssignOutputTypesPass",
        "write-quantized": "WriteQuantizedPass",
    },
    "Verification": {
        "verify-quant-shapes": "VerifyQuantShapesPass",
        "verify-quantization": "VerifyQuantizationPass",
    },
}
"""
The class of each pass, by flag, in the groups of `--help`. The module of a pass is named after its
flag.
"""

PASSES: Final = dict(sorted(pair for passes in GROUPS.values() for pair in passes.items()))
"""The class of each pass, by flag."""

__getattr__ = lazy_exports(
    __name__, {name: flag.replace("-", "_") for flag, name in PASSES.items()}
)
