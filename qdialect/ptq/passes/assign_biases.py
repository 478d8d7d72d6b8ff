"""A step of `quantize-with-ranges`: biases."""

from __future__ import annotations

from dataclasses import dataclass

from qdialect.ptq.passes.quantize_with_ranges import AssignmentPass


@dataclass(frozen=True)
class AssignBiasesPass(AssignmentPass):
    """
    Assign to biases the product of the scales of the input and of the weights.

    The assignment is written as attributes, for the steps after this one.

    Example: `qdialect-opt --attach-ranges=profile=profile.json --assign-activations
    --assign-weights --assign-biases model.mlir`.
    """

    name = "assign-biases"
    STEPS = ("biases",)
