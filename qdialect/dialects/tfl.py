"""
The constants, the casts and the shape ops of TFLite's dialect.

https://www.tensorflow.org/mlir/tfl_ops. Most ops are parametrized by constant operands.
"""

from __future__ import annotations

from xdsl.ir import Operation

from qdialect.algebra.joins import Concat
from qdialect.algebra.movement import (
    Reverse,
    Slice,
    Transpose,
)
from qdialect.algebra.padding import Pad
from qdialect.ops.fields import CastReads, Movements, Operands
from qdialect.ops.interface import (
    Refusal,
    RefusalCode,
    attribute_of,
    axis_of,
    find_attribute,
    integer_of,
    shape_of,
    static_shape_of,
)
from qdialect.ops.model import OpModel, OpModels
from qdialect.ops.readers import broadcast_trailing, listed, moved, reshaped, taken


def _slice(op: Operation, operands: Operands) -> Movements:
    offsets, sizes = listed(operands, op.operands[1]), static_shape_of(op.results[0])
    return moved(op, Slice(offsets, sizes, (1,) * len(sizes)))


def _concatenation(op: Operation, operands: Operands) -> Movements:
    function = str(attribute_of(op, "fused_activation_function"))
    if function != '"NONE"':
        raise Refusal(RefusalCode.UNKNOWN_OP, f"it also computes {function}")
    return Movements(op.operands, [Concat(axis_of(op, "axis", len(shape_of(op.results[0]))))])


def _reverse(op: Operation, operands: Operands) -> Movements:
    rank = len(shape_of(op.operands[0]))
    axes = tuple(axis % max(rank, 1) for axis in listed(operands, op.operands[1]))
    return moved(op, Reverse(axes))


def _gather(op: Operation, operands: Operands) -> Movements:
    shape = static_shape_of(op.operands[0])
    axis = axis_of(op, "axis", len(shape))
    if find_attribute(op, "batch_dims") is not None and integer_of(op, "batch_dims"):
        raise Refusal(RefusalCode.UNKNOWN_OP, "it takes different positions of each batch")
    indices = operands.integers(op.operands[1])
    return moved(op, *taken(op, axis, indices, from_end=False))


def _pad(op: Operation, operands: Operands) -> Movements:
    """Read a pad with real zero."""
    widths = listed(operands, op.operands[1])
    return moved(op, Pad(widths[::2], widths[1::2]))


MODELS = OpModels(
    "tfl",
    {
        "pseudo_const pseudo_qconst": OpModel(constant="value"),
        "quantize": OpModel(cast=CastReads.CODES),
        "dequantize": OpModel(cast=CastReads.NUMBERS),
        "transpose": OpModel(
            movement=lambda op, operands: moved(op, Transpose(listed(operands, op.operands[1])))
        ),
        "reshape expand_dims squeeze": OpModel(movement=reshaped),
        "slice": OpModel(movement=_slice),
        "concatenation": OpModel(movement=_concatenation),
        "reverse_v2": OpModel(movement=_reverse),
        "broadcast_to": OpModel(movement=broadcast_trailing),
        "gather": OpModel(movement=_gather),
        "pad": OpModel(movement=_pad),
    },
)
