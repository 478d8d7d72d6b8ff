"""The last step of `quantize-with-ranges`: the assignment is written as casts."""

from __future__ import annotations

from dataclasses import dataclass

from qdialect.passes.quantize_with_ranges import AssignmentPass


@dataclass(frozen=True)
class WriteQuantizedPass(AssignmentPass):
    """Read values behind `quant.dcast` of `quant.qcast`, as attributes say, and drop these."""

    name = "write-quantized"
    STEPS = ()
    IS_WRITTEN = True
