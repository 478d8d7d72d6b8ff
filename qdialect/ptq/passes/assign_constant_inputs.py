"""A step of `quantize-with-ranges`: constant inputs."""

from __future__ import annotations

from dataclasses import dataclass

from qdialect.ptq.passes.quantize_with_ranges import AssignmentPass


@dataclass(frozen=True)
class AssignConstantInputsPass(AssignmentPass):
    """
    Assign parameters to constant operands by their own values.

    The assignment is written as attributes, for the steps after this one.

    Example: `qdialect-opt --attach-ranges=profile=profile.json --assign-constant-inputs
    model.mlir`.
    """

    name = "assign-constant-inputs"
    STEPS = ("constant-inputs",)
