"""The pass that leaves a relu6 to the clamp of the quantization behind it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerType, ModuleOp
from xdsl.ir import Attribute
from xdsl.passes import ModulePass

from npu.dialect import Relu6Op
from qdialect.dialects.quant import Granularity, QuantizeCastOp, UniformQuantizedType
from qdialect.ir.value_types import element_type_or_self


@dataclass(frozen=True)
class FuseRelu6Pass(ModulePass):
    """
    Drop an `npu.relu6` where quantization clamps to 0 and 6 anyway.

    This is so if 0 is stored as the least code, and 6 as the greatest one. Codes stay the same,
    since rounding is monotonic.

    Example: `qdialect-opt --npu-fuse-relu6 quantized.mlir`.
    """

    name = "npu-fuse-relu6"

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for cast in list(op.walk()):
            if not isinstance(cast, QuantizeCastOp):
                continue
            relu = cast.input.owner
            if isinstance(relu, Relu6Op) and clamps(cast.result.type):
                cast.operands[0] = relu.input
                if not relu.result.uses:
                    relu.detach()
                    relu.erase()


def clamps(type: Attribute) -> bool:
    """Whether values of a type are between 0 and 6, however large what is quantized to it is."""
    element = element_type_or_self(type)
    if not isinstance(element, UniformQuantizedType):
        return False
    if element.granularity is not Granularity.PER_TENSOR:
        return False
    if not isinstance(element.storage_type, IntegerType):
        return False
    least, greatest = element.storage_type_min, element.storage_type_max
    codes = element.parameters_on([2]).store(np.array([0.0, 6.0]), least, greatest)
    return codes.tolist() == [least, greatest]
