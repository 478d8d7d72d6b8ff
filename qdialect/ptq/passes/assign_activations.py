"""A step of `quantize-with-ranges`: activations."""

from __future__ import annotations

from dataclasses import dataclass

from qdialect.ptq.passes.quantize_with_ranges import AssignmentPass


@dataclass(frozen=True)
class AssignActivationsPass(AssignmentPass):
    """
    Assign parameters to the values that have recorded ranges.

    The assignment is written as attributes, for the steps after this one.

    Example: `qdialect-opt --attach-ranges=profile=profile.json --assign-activations model.mlir`.
    """

    name = "assign-activations"
    STEPS = ("activations",)
