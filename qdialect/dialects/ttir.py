"""
The constant, the casts and the shape ops of one operand of TT-MLIR's ttir dialect.

https://docs.tenstorrent.com/tt-mlir. Ops that write to their last operand are read too.
"""

from __future__ import annotations

from xdsl.ir import Operation

from qdialect.algebra.movement import Reverse, Slice, Transpose
from qdialect.ops.fields import CastReads, Movements, Operands
from qdialect.ops.interface import integer_of, integers_of, shape_of
from qdialect.ops.model import OpModel, OpModels
from qdialect.ops.readers import moved, reshaped
from qdialect.text.syntax import DialectSyntax


def _transpose(op: Operation, operands: Operands) -> Movements:
    order = list(range(len(shape_of(op.operands[0]))))
    one, other = integer_of(op, "dim0"), integer_of(op, "dim1")
    order[one], order[other] = order[other], order[one]
    return moved(op, Transpose(tuple(order)))


def _slice(op: Operation, operands: Operands) -> Movements:
    lists = (integers_of(op, name) for name in ("begins", "ends", "step"))
    return moved(op, Slice.between(*lists))


MODELS = OpModels(
    "ttir",
    {
        "constant": OpModel(constant="value"),
        "quantize": OpModel(cast=CastReads.CODES),
        "dequantize": OpModel(cast=CastReads.NUMBERS),
        "permute": OpModel(
            movement=lambda op, operands: moved(op, Transpose(integers_of(op, "permutation")))
        ),
        "transpose": OpModel(movement=_transpose),
        "reshape squeeze unsqueeze": OpModel(movement=reshaped),
        "reverse": OpModel(
            movement=lambda op, operands: moved(op, Reverse(integers_of(op, "dimensions")))
        ),
        "slice_static": OpModel(movement=_slice),
    },
)

SYNTAX = DialectSyntax(
    dialect="ttir",
    forms={
        "empty": "( ) attr-dict : type(result)",
    },
    is_unregistered=True,
)
