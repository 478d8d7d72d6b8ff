"""The ops of onnx-mlir's dialect with a number for each channel: https://onnx.ai/onnx/operators/."""

from __future__ import annotations

from qdialect.relations.interface import OpRelation, Relation, relation


@relation("onnx.PRelu")
def _prelu(op: object) -> OpRelation:
    return OpRelation(Relation.OWN, (0,), frozenset({"prelu"}), singles=(1,))


@relation("onnx.InstanceNormalization")
def _instance_normalization(op: object) -> OpRelation:
    return OpRelation(Relation.OWN, (0,), frozenset({"instance_norm"}), singles=(1, 2))
