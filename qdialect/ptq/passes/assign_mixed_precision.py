"""A step of `quantize-with-ranges`: mixed precision."""

from __future__ import annotations

from dataclasses import dataclass

from qdialect.ptq.passes.quantize_with_ranges import AssignmentPass


@dataclass(frozen=True)
class AssignMixedPrecisionPass(AssignmentPass):
    """
    Requantize the operands and results of layers of another precision.

    The assignment is written as attributes, for the steps after this one.

    Example: `qdialect-opt --attach-ranges=profile=profile.json --assign-activations
    --assign-mixed-precision=config=config.json model.mlir`.
    """

    name = "assign-mixed-precision"
    STEPS = ("mixed-precision",)
