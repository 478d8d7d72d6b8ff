"""
The ops of tensor: https://mlir.llvm.org/docs/Dialects/TensorOps/.

Most are shape ops. The rules apply where offsets or indices are known only at run time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, i64
from xdsl.dialects.tensor import CollapseShapeOp
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.joins import Concat, InsertSlice
from qdialect.algebra.movement import DYNAMIC, Reshape, Slice
from qdialect.dialects import run_in
from qdialect.ops.elementwise import shape_of_type
from qdialect.ops.fields import (
    Movements,
    Operands,
    QuantizationRule,
    RuleKind,
    RunTimeOperands,
    shared,
)
from qdialect.ops.interface import (
    Refusal,
    RefusalCode,
    find_attribute,
    integer_of,
    integers_of,
    lists_of,
    shape_of,
    static_shape_of,
)
from qdialect.ops.model import Bits, OpModel, OpModels
from qdialect.ops.readers import moved, moves, padded, positions_of_elements, reshaped, shape_in
from qdialect.support.lazy_numpy import np

_SLICE_LISTS = ("static_offsets", "static_sizes", "static_strides")
_PAD_LISTS = ("static_low", "static_high")


def _expand_shape(op: Operation, operands: Operands) -> Movements:
    # Older texts do not have it.
    if find_attribute(op, "static_output_shape") is not None:
        stated = integers_of(op, "static_output_shape")
        if any(
            n not in (own, DYNAMIC) for n, own in zip(stated, shape_of(op.results[0]), strict=True)
        ):
            raise Refusal(RefusalCode.UNKNOWN_OP, "its output_shape is not the shape of its type")
    return reshaped(op, operands)


def _collapsed_shape(operands: RunTimeOperands) -> Sequence[int]:
    groups: Any = find_attribute(operands.op, "reassociation")
    shape = operands.shape(0)
    grouped: list[list[int]] = [[shape[axis.value.data] for axis in group] for group in groups]
    return [DYNAMIC if DYNAMIC in lengths else math.prod(lengths) for lengths in grouped]


def _reshape_again(op: Operation, operand: SSAValue, type: Attribute) -> list[Operation]:
    """Write a reshape that merges neighbouring axes."""
    lengths, groups = list(shape_of(operand)), list[list[int]]()
    for length in shape_of_type(type):
        group = [sum(map(len, groups))]
        while math.prod(lengths[axis] for axis in group) < length:
            group.append(group[-1] + 1)
        groups.append(group)
    reassociation = ArrayAttr(
        [ArrayAttr([IntegerAttr(axis, i64) for axis in group]) for group in groups]
    )
    new = CollapseShapeOp.create(
        operands=[operand],
        result_types=[type],
        properties={"reassociation": reassociation},
        attributes=op.attributes,
        location=op.location,
    )
    return [new]


def _extract_slice(op: Operation, operands: Operands) -> Movements:
    movement, shape = Slice(*lists_of(op, _SLICE_LISTS, operands)), shape_of(op.results[0])
    return moved(op, movement, *([Reshape(shape)] if shape != movement.sizes else ()))


def _insert_slice(op: Operation, operands: Operands) -> Movements:
    return Movements(op.operands[:2], [InsertSlice(*lists_of(op, _SLICE_LISTS, operands))])


def _pad(op: Operation, operands: Operands) -> Movements:
    low, high = lists_of(op, _PAD_LISTS, operands)
    return moved(op, *padded(shape_of(op.operands[0]), low, high), padding=_padding_of(op))


def _padding_of(op: Operation) -> SSAValue:
    last = op.regions[0].block.last_op if len(op.regions[0].blocks) == 1 else None
    if last is None or len(last.operands) != 1:
        raise Refusal(RefusalCode.UNKNOWN_OP, "its region does not yield one element")
    return last.operands[0]


_exact = partial(OpModel, bits=Bits.EXACT)
_undefined = partial(OpModel, bits=Bits.UNDEFINED)
_SCALARS = "it reads or makes scalars, not only tensors"


_on_codes = partial(_exact, runs_on_codes=True)

_run = partial(run_in, "tensor")

MODELS = OpModels(
    "tensor",
    {
        "reshape": _exact(movement=reshaped, run_time_shape=shape_in(1), rule=shared(0)),
        "expand_shape": _exact(
            movement=_expand_shape,
            run_time_shape=lambda operands: operands.lists["static_output_shape"],
            static_lists=("static_output_shape",),
            write_reshape=_reshape_again,
            rule=shared(0),
        ),
        "collapse_shape": _exact(
            movement=reshaped,
            run_time_shape=_collapsed_shape,
            write_reshape=_reshape_again,
            rule=shared(0),
        ),
        "extract_slice": _exact(
            movement=_extract_slice,
            run_time_shape=lambda operands: operands.lists["static_sizes"],
            static_lists=_SLICE_LISTS,
            rule=shared(0),
        ),
        "pad": _exact(movement=_pad, static_lists=_PAD_LISTS, rule=shared(0)),
        "gather": OpModel(rule=shared(0)),
        "cast": _on_codes(
            run=_run("cast"),
            rule=QuantizationRule(RuleKind.SHARED, (0,), is_homogeneous=True, keeps_places=True),
        ),
        "concat": _exact(movement=moves(lambda op: Concat(integer_of(op, "dim"))), rule=shared()),
        "insert_slice": _exact(
            movement=_insert_slice, static_lists=_SLICE_LISTS, rule=shared(0, 1)
        ),
        "scatter": OpModel(rule=shared(0, 1)),
        "bitcast": _exact(stays_float="it reads bits, not numbers", reads_bits=True),
        "extract": _undefined(
            extracts=True,
            run=_run("extract"),
            runs_on_codes=True,
            positions=positions_of_elements(1),
            stays_float=_SCALARS,
        ),
        "insert": _undefined(positions=positions_of_elements(2), stays_float=_SCALARS),
        "from_elements": _on_codes(run=_run("from_elements"), stays_float=_SCALARS),
        "splat": _on_codes(run=_run("splat"), repeats=True, stays_float=_SCALARS),
        "generate": OpModel(stays_float=_SCALARS),
        "dim": _on_codes(run=_run("dim"), reads_lengths=True),
        # Its elements are not specified; ops only write to it.
        "empty": _on_codes(
            is_undefined=True,
            run=_run("empty"),
            integers=lambda op, values: np.zeros(static_shape_of(op.results[0]), dtype=np.int64),
        ),
        "yield": _exact(yields=True),
        "parallel_insert_slice": OpModel(stays_float="it is part of a parallel loop"),
    },
)
