"""
The shape ops, the constant and the casts of StableHLO.

https://openxla.org/stablehlo/spec. Its types are per-tensor and per-axis only.
"""

from __future__ import annotations

import re

from xdsl.ir import Operation

from qdialect.movement import (
    BroadcastInDim,
    Concat,
    Reshape,
    Reverse,
    Slice,
    Take,
    Transpose,
)
from qdialect.shape_op_interface import (
    Code,
    Movements,
    NotFoldable,
    Operands,
    attribute_of,
    integer_of,
    integers_of,
    padded,
    register_cast,
    register_constant,
    shape_of,
    shape_op,
    static_shape_of,
)

register_constant("stablehlo.constant", "value")
register_cast("stablehlo.uniform_quantize")
register_cast("stablehlo.uniform_dequantize")
register_cast("stablehlo.convert")


@shape_op("stablehlo.transpose")
def _transpose(op: Operation, operands: Operands) -> Movements:
    return Movements(op.operands, [Transpose(integers_of(op, "permutation"))])


@shape_op("stablehlo.reshape")
def _reshape(op: Operation, operands: Operands) -> Movements:
    return Movements(op.operands, [Reshape(shape_of(op.results[0]))])


@shape_op("stablehlo.slice")
def _slice(op: Operation, operands: Operands) -> Movements:
    starts, limits = integers_of(op, "start_indices"), integers_of(op, "limit_indices")
    strides = integers_of(op, "strides")
    sizes = tuple(
        -((start - limit) // max(stride, 1))
        for start, limit, stride in zip(starts, limits, strides, strict=True)
    )
    return Movements(op.operands, [Slice(starts, sizes, strides)])


@shape_op("stablehlo.concatenate")
def _concatenate(op: Operation, operands: Operands) -> Movements:
    return Movements(op.operands, [Concat(integer_of(op, "dimension"))])


@shape_op("stablehlo.broadcast_in_dim")
def _broadcast_in_dim(op: Operation, operands: Operands) -> Movements:
    dims = integers_of(op, "broadcast_dimensions")
    return Movements(op.operands, [BroadcastInDim(dims, shape_of(op.results[0]))])


@shape_op("stablehlo.reverse")
def _reverse(op: Operation, operands: Operands) -> Movements:
    return Movements(op.operands, [Reverse(integers_of(op, "dimensions"))])


@shape_op("stablehlo.pad")
def _pad(op: Operation, operands: Operands) -> Movements:
    movements = padded(
        shape_of(op.operands[0]),
        integers_of(op, "edge_padding_low"),
        integers_of(op, "edge_padding_high"),
        integers_of(op, "interior_padding"),
    )
    return Movements(op.operands[:1], movements, op.operands[1])


@shape_op("stablehlo.gather")
def _gather(op: Operation, operands: Operands) -> Movements:
    """One that takes whole slices at some positions of one axis."""
    shape = static_shape_of(op.operands[0])
    numbers = _dimension_numbers(op)
    sizes, starts = integers_of(op, "slice_sizes"), numbers["start_index_map"]
    axis = starts[0] if len(starts) == 1 else len(shape)
    if sizes != (*shape[:axis], 1, *shape[axis + 1 :]) or numbers["operand_batching_dims"]:
        raise NotFoldable(Code.UNKNOWN_OP, "it is not a take along one axis")
    batch = list(static_shape_of(op.operands[1]))
    (index_axis,) = numbers["index_vector_dim"]
    del batch[index_axis : index_axis + 1]
    indices = operands.integers(op.operands[1]).clip(0, shape[axis] - 1)
    kept = [] if axis in numbers["collapsed_slice_dims"] else [1]
    # Axes of the operand go to `offset_dims`, those of the indices to what is left.
    rank = len(batch) + len(kept) + len(shape) - 1
    order = list(numbers["offset_dims"])
    order[axis:axis] = [at for at in range(rank) if at not in order]
    movements = [
        Take(axis, tuple(indices.reshape(-1).tolist())),
        Reshape((*shape[:axis], *batch, *kept, *shape[axis + 1 :])),
        Transpose(tuple(sorted(range(rank), key=order.__getitem__))),
    ]
    return Movements(op.operands[:1], movements)


def _dimension_numbers(op: Operation) -> dict[str, list[int]]:
    """The fields of the attribute, whose text is the same in all its forms."""
    text = str(attribute_of(op, "dimension_numbers"))
    fields = re.findall(r"(\w+) = \[?([-0-9, ]*)", text)
    numbers = {name: [int(number) for number in re.findall(r"[0-9]+", of)] for name, of in fields}
    missing: list[int] = []
    return {
        "offset_dims": missing,
        "collapsed_slice_dims": missing,
        "operand_batching_dims": missing,
        "start_index_map": missing,
        "index_vector_dim": [0],
    } | numbers
