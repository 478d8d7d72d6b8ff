"""
The conversions between tensors of torch-mlir's torch dialect and builtin ones.

https://github.com/llvm/torch-mlir, `TorchConversionOps.td`. They keep the elements.
"""

from __future__ import annotations

from xdsl.ir import Operation

from qdialect.ir.value_types import element_type_or_self
from qdialect.ops.elementwise import unbroadcast
from qdialect.ops.fields import Elementwise, Input, Operands
from qdialect.ops.interface import shape_of
from qdialect.ops.model import OpModel, OpModels


def _convert(op: Operation, operands: Operands) -> Elementwise:
    (operand,) = op.operands
    axes = tuple(range(len(shape_of(operand))))
    return Elementwise((operand,), (axes,), Input(0, element_type_or_self(operand.type)))


MODELS = OpModels(
    "torch_c", {"to_builtin_tensor from_builtin_tensor": OpModel(term=unbroadcast(_convert))}
)
