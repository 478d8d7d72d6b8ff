"""
The constants, the casts and the shape ops of TFLite's dialect.

https://www.tensorflow.org/mlir/tfl_ops. Most ops are parametrized by constant operands.
"""

from __future__ import annotations

from typing import Any

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
from qdialect.ops.readers import broadcast_trailing, reshaped, taken
from qdialect.support.lazy_numpy import NDArray, np


def _transpose(op: Operation, operands: Operands) -> Movements:
    return Movements(op.operands[:1], [Transpose(_list(operands.integers(op.operands[1])))])


def _slice(op: Operation, operands: Operands) -> Movements:
    offsets, sizes = _list(operands.integers(op.operands[1])), static_shape_of(op.results[0])
    return Movements(op.operands[:1], [Slice(offsets, sizes, (1,) * len(sizes))])


def _concatenation(op: Operation, operands: Operands) -> Movements:
    function = str(attribute_of(op, "fused_activation_function"))
    if function != '"NONE"':
        raise Refusal(RefusalCode.UNKNOWN_OP, f"it also computes {function}")
    return Movements(op.operands, [Concat(axis_of(op, "axis", len(shape_of(op.results[0]))))])


def _reverse(op: Operation, operands: Operands) -> Movements:
    return Movements(op.operands[:1], [Reverse(_axes(op, operands))])


def _gather(op: Operation, operands: Operands) -> Movements:
    shape = static_shape_of(op.operands[0])
    axis = axis_of(op, "axis", len(shape))
    if find_attribute(op, "batch_dims") is not None and integer_of(op, "batch_dims"):
        raise Refusal(RefusalCode.UNKNOWN_OP, "it takes different positions of each batch")
    indices = operands.integers(op.operands[1])
    return Movements(op.operands[:1], taken(op, axis, indices, from_end=False))


def _pad(op: Operation, operands: Operands) -> Movements:
    """Read a pad with real zero."""
    widths = operands.integers(op.operands[1]).reshape(-1, 2)
    return Movements(op.operands[:1], [Pad(_list(widths[:, 0]), _list(widths[:, 1]))])


def _axes(op: Operation, operands: Operands) -> tuple[int, ...]:
    rank = len(shape_of(op.operands[0]))
    return _list(np.mod(operands.integers(op.operands[1]), max(rank, 1)))


def _list(numbers: NDArray[np.integer[Any]]) -> tuple[int, ...]:
    return tuple(map(int, numbers.reshape(-1).tolist()))


MODELS = OpModels(
    "tfl",
    {
        "pseudo_const pseudo_qconst": OpModel(constant="value"),
        "quantize": OpModel(cast=CastReads.CODES),
        "dequantize": OpModel(cast=CastReads.NUMBERS),
        "transpose": OpModel(movement=_transpose),
        "reshape expand_dims squeeze": OpModel(movement=reshaped),
        "slice": OpModel(movement=_slice),
        "concatenation": OpModel(movement=_concatenation),
        "reverse_v2": OpModel(movement=_reverse),
        "broadcast_to": OpModel(movement=broadcast_trailing),
        "gather": OpModel(movement=_gather),
        "pad": OpModel(movement=_pad),
    },
)
