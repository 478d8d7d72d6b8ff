"""A step of `quantize-with-ranges`: weights."""

from __future__ import annotations

from dataclasses import dataclass

from qdialect.ptq.passes.quantize_with_ranges import AssignmentPass


@dataclass(frozen=True)
class AssignWeightsPass(AssignmentPass):
    """
    Assign parameters to constant weights by their own values.

    The assignment is written as attributes, for the steps after this one.

    Example: `qdialect-opt --attach-ranges=profile=profile.json --assign-weights=granularity=tensor
    model.mlir`.
    """

    name = "assign-weights"
    STEPS = ("weights",)
