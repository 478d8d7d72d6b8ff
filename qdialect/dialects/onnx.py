"""The ops of onnx-mlir's dialect: https://onnx.ai/onnx/operators/."""

from __future__ import annotations

from qdialect.ops.model import OpModel, OpModels
from qdialect.ops.rules import QuantizationRule, RuleKind

MODELS = OpModels(
    "onnx",
    {
        "PRelu": OpModel(
            rule=QuantizationRule(RuleKind.OWN, (0,), frozenset({"prelu"}), singles=(1,))
        ),
        "InstanceNormalization": OpModel(
            rule=QuantizationRule(RuleKind.OWN, (0,), frozenset({"instance_norm"}), singles=(1, 2))
        ),
        "Dim Shape": OpModel(reads_lengths=True),
    },
)
