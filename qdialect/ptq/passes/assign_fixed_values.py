"""A step of `quantize-with-ranges`: fixed values."""

from __future__ import annotations

from dataclasses import dataclass

from qdialect.ptq.passes.quantize_with_ranges import AssignmentPass


@dataclass(frozen=True)
class AssignFixedValuesPass(AssignmentPass):
    """
    Assign parameters to results with a known range, and round some scales to whole numbers.

    The assignment is written as attributes, for the steps after this one.

    Example: `qdialect-opt --attach-ranges=profile=profile.json --assign-activations
    --assign-fixed-values model.mlir`.
    """

    name = "assign-fixed-values"
    STEPS = ("fixed-values",)
