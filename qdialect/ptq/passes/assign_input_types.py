"""A step of `quantize-with-ranges`: input types."""

from __future__ import annotations

from dataclasses import dataclass

from qdialect.ptq.passes.quantize_with_ranges import AssignmentPass


@dataclass(frozen=True)
class AssignInputTypesPass(AssignmentPass):
    """
    Give arguments of functions quantized types.

    The assignment is written as attributes, for the steps after this one.

    Example: `qdialect-opt --attach-ranges=profile=profile.json --assign-activations
    --assign-input-types=input-types=u8 model.mlir`.
    """

    name = "assign-input-types"
    STEPS = ("input-types",)
