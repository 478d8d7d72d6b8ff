"""A step of `quantize-with-ranges`: backward."""

from __future__ import annotations

from dataclasses import dataclass

from qdialect.ptq.passes.quantize_with_ranges import AssignmentPass


@dataclass(frozen=True)
class PropagateParametersBackwardPass(AssignmentPass):
    """
    Give operands the parameters of results that hold the same elements.

    The assignment is written as attributes, for the steps after this one.

    Example: `qdialect-opt --attach-ranges=profile=profile.json --assign-activations
    --propagate-parameters-backward model.mlir`.
    """

    name = "propagate-parameters-backward"
    STEPS = ("backward",)
