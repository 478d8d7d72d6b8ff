"""
Numbers that an op has for each position of an axis: recorded ranges, and the scales of a bias.

`quant.stats` is modelled on the op of TensorFlow: https://github.com/tensorflow/tensorflow,
`quantization/common/ir/QuantOps.td`, `StatisticsOp`.
"""

from __future__ import annotations

from collections.abc import Container
from functools import lru_cache
from typing import Final, NamedTuple, cast

from xdsl.dialects.builtin import AnyFloat, DenseIntOrFPElementsAttr, ModuleOp
from xdsl.ir import Attribute, Operation, OpResult, SSAValue
from xdsl.rewriter import Rewriter

from qdialect.algebra.movement import DYNAMIC, Shape
from qdialect.algebra.views import as_view
from qdialect.ir.elements import DenseElementsAttr, elements_of
from qdialect.ir.rewriting import Replacements
from qdialect.ir.value_types import element_type_or_self, is_tensor
from qdialect.ops.fields import AlongAxis, CastReads
from qdialect.ops.interface import (
    Refusal,
    RefusalCode,
    attribute_of,
    find_attribute,
    integer_of,
    op_model,
)
from qdialect.ops.model import OpModel
from qdialect.support.float_format import FLOAT_FORMATS
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.support.memory import registered_cache

AXIS: Final = "axis"
"""The attribute with the axis."""

LAYER_STATS: Final = "layerStats"
AXIS_STATS: Final = "axisStats"
SCALES: Final = "scales"


class Statistics(NamedTuple):
    """The range of a tensor, and perhaps one for each position of an axis."""

    layer: NDArray[np.float64]
    """The minimum and the maximum of all elements: shape (2,)."""

    axis: int | None = None

    by_axis: NDArray[np.float64] | None = None
    """The minimum and the maximum at each position of `axis`: shape (length, 2)."""


def statistics_of(op: Operation, shape: Shape | None) -> Statistics:
    """
    The ranges that an op carries for a tensor of `shape`, None for one without a rank.

    Raises Refusal, with the reason, if they are not ranges of such a tensor.
    """
    layer = _ranges(op, LAYER_STATS)
    if layer.shape != (2,):
        raise _malformed(f"'{LAYER_STATS}' must have shape [2], not {list(layer.shape)}")
    if find_attribute(op, AXIS_STATS) is None:
        if find_attribute(op, AXIS) is not None:
            raise _malformed(f"'{AXIS}' requires '{AXIS_STATS}'")
        return Statistics(layer)
    by_axis = _ranges(op, AXIS_STATS)
    if find_attribute(op, AXIS) is None:
        raise _malformed(f"'{AXIS_STATS}' requires '{AXIS}'")
    axis, length = _axis_of(op, shape)
    if by_axis.ndim != 2 or by_axis.shape[1] != 2 or length not in ("N", len(by_axis)):
        raise _malformed(
            f"'{AXIS_STATS}' must have shape [{length}, 2], a range for each position of axis "
            f"{axis}, not {list(by_axis.shape)}"
        )
    return Statistics(layer, axis, by_axis)


def _ranges(op: Operation, name: str) -> NDArray[np.float64]:
    """Minima and maxima, in this order along the last axis."""
    ranges = _numbers(op, name)
    if ranges.ndim and ranges.shape[-1] == 2 and not (ranges[..., 0] <= ranges[..., 1]).all():
        raise _malformed(f"'{name}' has a minimum that is not at most its maximum")
    return ranges


def _ranges_along_axis(op: Operation, shape: Shape) -> AlongAxis | None:
    _, axis, ranges = statistics_of(op, shape)
    return None if axis is None or ranges is None else AlongAxis(axis, ranges, AXIS_STATS, "ranges")


STATISTICS: Final = OpModel(cast=CastReads.CONVERTED, along_axis=_ranges_along_axis)
"""The model of an op that returns its operand, and has the attributes of `quant.stats`."""


def is_statistics(op: Operation) -> bool:
    """Whether `op` returns its operand, and carries ranges."""
    return op_model(op).along_axis is _ranges_along_axis


def is_recordable(value: SSAValue) -> bool:
    """Whether ranges can be recorded for a value: it is a float tensor with defined elements."""
    type: Attribute = value.type
    if not _is_float(element_type_or_self(type).__class__) or not is_tensor(type):
        return False
    return not (isinstance(value, OpResult) and op_model(value.op).is_undefined)


# Cached, since the type checks dominate the time of reading keys.
@registered_cache
@lru_cache(maxsize=64)
def _is_float(cls: type[Attribute]) -> bool:
    return issubclass(cls, AnyFloat)


def drop_ranges(module: ModuleOp, values: Container[SSAValue] | None = None) -> None:
    """
    Replace each op that carries ranges by its operand, which is kept even if it is unused.

    If there are `values`, only the ranges of these are dropped.
    """
    ops = filter(is_statistics, module.walk())
    dropped = [op for op in ops if values is None or op.operands[0] in values]
    replacements = Replacements()
    for op in dropped:
        # In a graph region, an op may be its own operand.
        if op.operands[0] is not op.results[0]:
            replacements.add(op.results[0], op.operands[0])
    replacements.apply()
    for op in dropped:
        op.operands = ()
    for op in dropped:
        Rewriter.erase_op(op)


class BiasScales(NamedTuple):
    """The scales of the integers of a bias."""

    scales: NDArray[np.float64]
    """Of shape (1,), or one for each position of the axis."""

    axis: int | None = None


def bias_scales_of(op: Operation, shape: Shape) -> BiasScales:
    """
    The scales of `quant.dequantize_bias` for a bias of `shape`.

    Raises Refusal, with the reason, if they are invalid.
    """
    scales = _numbers(op, SCALES, " of at most 64 bits", most_digits=53)
    wrong = scales[~((scales > 0) & np.isfinite(scales))]
    if wrong.size:
        raise _malformed(f"'{SCALES}' must be positive and finite, but one is {wrong[0]}")
    if find_attribute(op, AXIS) is None:
        if scales.shape != (1,):
            raise _malformed(
                f"'{SCALES}' must have shape [1] without an '{AXIS}', not {list(scales.shape)}"
            )
        return BiasScales(scales)
    axis, length = _axis_of(op, shape)
    if scales.ndim != 1 or length not in ("N", len(scales)):
        raise _malformed(
            f"'{SCALES}' must have shape [{length}], a scale for each position of axis {axis}, "
            f"not {list(scales.shape)}"
        )
    return BiasScales(scales, axis)


def scales_along_axis(op: Operation, shape: Shape) -> AlongAxis | None:
    """The scales along an axis. Raises Refusal."""
    scales, axis = bias_scales_of(op, shape)
    return None if axis is None else AlongAxis(axis, scales, SCALES, "scales")


def _axis_of(op: Operation, shape: Shape | None) -> tuple[int, int | str]:
    """The axis, and its length in a tensor of `shape`: N if it is known only at run time."""
    axis = integer_of(op, AXIS)
    if shape is None or not 0 <= axis < len(shape):
        rank = "without a rank" if shape is None else f"of rank {len(shape)}"
        raise _malformed(f"'{AXIS}' is {axis}, which a tensor {rank} does not have")
    return axis, "N" if shape[axis] == DYNAMIC else shape[axis]


def _numbers(
    op: Operation, name: str, limit: str = "", most_digits: int | None = None
) -> NDArray[np.float64]:
    """The floats in an attribute, of at most so many significant bits."""
    attribute = attribute_of(op, name)
    wrong = _malformed(f"'{name}' must be a dense tensor of floats{limit}")
    if not isinstance(attribute, DenseIntOrFPElementsAttr):
        raise wrong
    elements = cast(DenseElementsAttr, attribute)
    type = elements.type.element_type
    if not isinstance(type, AnyFloat):
        raise wrong
    format = FLOAT_FORMATS[type.name]
    if most_digits is not None and format.precision > most_digits:
        raise wrong
    return format.decode(as_view(elements_of(elements)).array())


def _malformed(reason: str) -> Refusal:
    return Refusal(RefusalCode.UNKNOWN_OP, reason)
