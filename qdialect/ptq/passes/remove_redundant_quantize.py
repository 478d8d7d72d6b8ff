"""A step of `quantize-with-ranges`: redundant quantize."""

from __future__ import annotations

from dataclasses import dataclass

from qdialect.ptq.passes.quantize_with_ranges import AssignmentPass


@dataclass(frozen=True)
class RemoveRedundantQuantizePass(AssignmentPass):
    """
    Keep only the last of consecutive requantizations, if it changes the type.

    The assignment is written as attributes, for the steps after this one.

    Example: `qdialect-opt --attach-ranges=profile=profile.json --assign-activations
    --remove-redundant-quantize model.mlir`.
    """

    name = "remove-redundant-quantize"
    STEPS = ("redundant-quantize",)
