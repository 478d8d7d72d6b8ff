"""The passes, found by their flags; those of `qdialect.ptq.passes` too, by name."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, Final

from qdialect.support.lazy_exports import lazy_exports

if __name__ != "qdialect.passes":
    raise ImportError("this package is imported as qdialect.passes")

if TYPE_CHECKING:
    from qdialect.passes.canonicalize import CanonicalizePass
    from qdialect.passes.dequantization import LowerDequantizationPass, RaiseDequantizationPass
    from qdialect.passes.elide_round_trips import ElideRoundTripsPass
    from qdialect.passes.fold_quant_shapes import FoldConstantShapesPass, FoldQuantShapesPass
    from qdialect.passes.inline import InlinePass
    from qdialect.passes.lower_quant_ops import LowerQuantOpsPass
    from qdialect.passes.lower_quant_shapes import LowerQuantShapesPass
    from qdialect.passes.normalize_quant_types import NormalizeQuantTypesPass
    from qdialect.passes.sink_quant_shapes import HoistQuantShapesPass, SinkQuantShapesPass
    from qdialect.passes.strip_func_quant_types import StripFuncQuantTypesPass
    from qdialect.passes.verify_quant_shapes import VerifyQuantShapesPass

__all__ = [
    "GROUPS",
    "PASSES",
    "CanonicalizePass",
    "ElideRoundTripsPass",
    "FoldConstantShapesPass",
    "FoldQuantShapesPass",
    "HoistQuantShapesPass",
    "InlinePass",
    "LowerDequantizationPass",
    "LowerQuantOpsPass",
    "LowerQuantShapesPass",
    "NormalizeQuantTypesPass",
    "RaiseDequantizationPass",
    "SinkQuantShapesPass",
    "StripFuncQuantTypesPass",
    "VerifyQuantShapesPass",
]

GROUPS: Final[Mapping[str, Mapping[str, str]]] = {
    "Folding": {
        "fold-quant-shapes": "passes.fold_quant_shapes",
        "fold-constant-shapes": "passes.fold_quant_shapes",
        "sink-quant-shapes": "passes.sink_quant_shapes",
        "hoist-quant-shapes": "passes.sink_quant_shapes",
        "elide-round-trips": "passes.elide_round_trips",
        "canonicalize": "passes.canonicalize",
        "inline": "passes.inline",
    },
    "Raising and lowering": {
        "raise-dequantization": "passes.dequantization",
        "lower-dequantization": "passes.dequantization",
        "lower-quant-shapes": "passes.lower_quant_shapes",
        "lower-quant-ops": "passes.lower_quant_ops",
        "lower-to-integers": "integers.passes",
    },
    "Weights in files": {
        "weights-to-parameters": "weights.parameters",
    },
    "Types and storage": {
        "normalize-quant-types": "passes.normalize_quant_types",
        "strip-func-quant-types": "passes.strip_func_quant_types",
        "shift-storage": "ptq.passes.storage",
        "fake-quantize": "ptq.passes.storage",
    },
    "Recorded ranges": {
        "attach-keys": "ptq.passes.ranges",
        "attach-ranges": "ptq.passes.ranges",
        "convert-ranges": "ptq.passes.ranges",
        "drop-ranges": "ptq.passes.ranges",
    },
    "Quantization": {
        "fold-batch-normalization": "ptq.passes.weights",
        "equalize-inputs": "ptq.passes.weights",
        "quantize-weights": "ptq.passes.weights",
        "quantize-dequantize-weights": "ptq.passes.weights",
        "quantize-with-ranges": "ptq.passes.models",
    },
    "Steps of --quantize-with-ranges, in order": {
        "assign-activations": "ptq.passes.models",
        "assign-mixed-precision": "ptq.passes.models",
        "remove-redundant-quantize": "ptq.passes.models",
        "propagate-parameters-backward": "ptq.passes.models",
        "assign-constant-inputs": "ptq.passes.models",
        "assign-fixed-values": "ptq.passes.models",
        "propagate-parameters-forward": "ptq.passes.models",
        "assign-weights": "ptq.passes.models",
        "assign-biases": "ptq.passes.models",
        "assign-input-types": "ptq.passes.models",
        "assign-output-types": "ptq.passes.models",
        "write-quantized": "ptq.passes.models",
    },
    "Verification": {
        "verify-quant-shapes": "passes.verify_quant_shapes",
        "verify-quantization": "ptq.passes.models",
    },
}
"""The module of each pass, by flag, in the groups of `--help`."""


def _class_of(flag: str) -> str:
    return "".join(word.capitalize() for word in flag.split("-")) + "Pass"


PASSES: Final = {flag: _class_of(flag) for flag in sorted(chain(*GROUPS.values()))}
"""The class of each pass, by flag."""

__dir__ = __all__.copy
__getattr__ = lazy_exports(
    "qdialect",
    {_class_of(flag): module for passes in GROUPS.values() for flag, module in passes.items()},
)
