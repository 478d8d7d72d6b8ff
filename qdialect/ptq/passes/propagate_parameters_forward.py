"""A step of `quantize-with-ranges`: forward."""

from __future__ import annotations

from dataclasses import dataclass

from qdialect.ptq.passes.quantize_with_ranges import AssignmentPass


@dataclass(frozen=True)
class PropagateParametersForwardPass(AssignmentPass):
    """
    Give results the parameters of operands whose elements they hold.

    The assignment is written as attributes, for the steps after this one.

    Example: `qdialect-opt --attach-ranges=profile=profile.json --assign-activations
    --propagate-parameters-forward model.mlir`.
    """

    name = "propagate-parameters-forward"
    STEPS = ("forward",)
