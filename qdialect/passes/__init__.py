"""The passes: one module each, named after its flag."""

from __future__ import annotations

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

PASSES: Final = {
    "assign-activations": "AssignActivationsPass",
    "assign-biases": "AssignBiasesPass",
    "assign-constant-inputs": "AssignConstantInputsPass",
    "assign-fixed-values": "AssignFixedValuesPass",
    "assign-input-types": "AssignInputTypesPass",
    "assign-mixed-precision": "AssignMixedPrecisionPass",
    "assign-output-types": "AssignOutputTypesPass",
    "assign-weights": "AssignWeightsPass",
    "attach-keys": "AttachKeysPass",
    "attach-ranges": "AttachRangesPass",
    "canonicalize": "CanonicalizePass",
    "convert-ranges": "ConvertRangesPass",
    "drop-ranges": "DropRangesPass",
    "elide-round-trips": "ElideRoundTripsPass",
    "equalize-inputs": "EqualizeInputsPass",
    "fake-quantize": "FakeQuantizePass",
    "fold-constant-shapes": "FoldConstantShapesPass",
    "fold-quant-shapes": "FoldQuantShapesPass",
    "inline": "InlinePass",
    "lower-dequantization": "LowerDequantizationPass",
    "lower-quant-ops": "LowerQuantOpsPass",
    "lower-quant-shapes": "LowerQuantShapesPass",
    "normalize-quant-types": "NormalizeQuantTypesPass",
    "propagate-parameters-backward": "PropagateParametersBackwardPass",
    "propagate-parameters-forward": "PropagateParametersForwardPass",
    "quantize-dequantize-weights": "QuantizeDequantizeWeightsPass",
    "quantize-weights": "QuantizeWeightsPass",
    "quantize-with-ranges": "QuantizeWithRangesPass",
    "raise-dequantization": "RaiseDequantizationPass",
    "remove-redundant-quantize": "RemoveRedundantQuantizePass",
    "shift-storage": "ShiftStoragePass",
    "sink-quant-shapes": "SinkQuantShapesPass",
    "strip-func-quant-types": "StripFuncQuantTypesPass",
    "verify-quant-shapes": "VerifyQuantShapesPass",
    "verify-quantization": "VerifyQuantizationPass",
    "write-quantized": "WriteQuantizedPass",
}
"""The class of each pass, by flag. The module of a pass is named after its flag."""

__getattr__ = lazy_exports(
    __name__, {name: flag.replace("-", "_") for flag, name in PASSES.items()}
)
