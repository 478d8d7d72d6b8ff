"""The ops of torch-mlir's TMTensor."""

from __future__ import annotations

from functools import partial

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation

from qdialect.dialects import run_in
from qdialect.ops.fields import PoolWindow, Reduction
from qdialect.ops.interface import Refusal, RefusalCode, attribute_of, axis_of, static_shape_of
from qdialect.ops.model import Bits, OpModel, OpModels
from qdialect.ops.readers import reduction_by_region

_run = partial(run_in, "tm_tensor")


def is_inclusive(op: Operation) -> bool:
    """Whether a scan has each element in its own result. Raises Refusal."""
    inclusive = attribute_of(op, "inclusive")
    if not isinstance(inclusive, IntegerAttr):
        raise Refusal(RefusalCode.UNKNOWN_OP, "attribute 'inclusive' is not a truth value")
    return bool(inclusive.value.data)


def _read_scan(op: Operation) -> Reduction:
    """A scan, as a reduction of the elements up to each one. Raises Refusal."""
    if not is_inclusive(op):
        raise Refusal(RefusalCode.UNKNOWN_OP, "it starts from an accumulator")
    shape = static_shape_of(op.operands[0])
    axis = axis_of(op, "dimension", len(shape))
    window = PoolWindow(shape[axis], low=shape[axis] - 1)
    return reduction_by_region(op)._replace(windows={axis: window}, initial=None)


MODELS = OpModels(
    "tm_tensor",
    {
        "scan": OpModel(bits=Bits.ROUNDED, reduction=_read_scan, run=_run("scan")),
        "scatter": OpModel(bits=Bits.ROUNDED, run=_run("scatter")),
        "sort": OpModel(bits=Bits.EXACT, run=_run("sort")),
        "yield": OpModel(bits=Bits.EXACT, yields=True),
    },
)
