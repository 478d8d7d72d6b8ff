"""The last step of `quantize-with-ranges`: the assignment is written as casts."""

from __future__ import annotations

from dataclasses import dataclass

from qdialect.ptq.passes.quantize_with_ranges import AssignmentPass


@dataclass(frozen=True)
class WriteQuantizedPass(AssignmentPass):
    """
    Write the assignment in attributes as `quant.qcast` and `quant.dcast`, and drop the attributes.

    Requantizations that change nothing are left out.

    Example: `qdialect-opt --attach-ranges=profile=profile.json --assign-activations
    --write-quantized model.mlir`.
    """

    name = "write-quantized"
    STEPS = ("redundant-quantize",)
    IS_WRITTEN = True
