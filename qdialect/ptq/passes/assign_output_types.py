"""A step of `quantize-with-ranges`: output types."""

from __future__ import annotations

from dataclasses import dataclass

from qdialect.ptq.passes.quantize_with_ranges import AssignmentPass


@dataclass(frozen=True)
class AssignOutputTypesPass(AssignmentPass):
    """
    Give results of functions quantized types.

    The assignment is written as attributes, for the steps after this one.

    Example: `qdialect-opt --attach-ranges=profile=profile.json --assign-activations
    --propagate-parameters-forward --assign-output-types=output-types=i16 model.mlir`.
    """

    name = "assign-output-types"
    STEPS = ("output-types",)
