"""The scales of `quant.dequantize_bias`: one, or one for each position of an axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, cast

from xdsl.dialects.builtin import AnyFloat, DenseIntOrFPElementsAttr
from xdsl.ir import Operation

from qdialect.algebra.movement import DYNAMIC, Shape
from qdialect.algebra.views import as_view
from qdialect.ir.elements import DenseElementsAttr, elements_of
from qdialect.ops.along_axis import AXIS, AlongAxis
from qdialect.ops.attributes import attribute_of, integer_of
from qdialect.ops.interface import Refusal, RefusalCode, find_attribute
from qdialect.support.float_format import FLOAT_FORMATS
from qdialect.support.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SCALES: Final = "scales"


class BiasScales(NamedTuple):
    """The scales of the integers of a bias."""

    scales: NDArray[np.float64]
    """Of shape (1,), or one for each position of the axis."""

    axis: int | None = None


def bias_scales_of(op: Operation, shape: Shape) -> BiasScales:
    """The scales of a bias of `shape`. Raises Refusal, with the reason, if they are invalid."""
    scales = _numbers(op)
    if find_attribute(op, AXIS) is None:
        if scales.shape != (1,):
            raise _malformed(
                f"'{SCALES}' must have shape [1] without an '{AXIS}', not {list(scales.shape)}"
            )
        return BiasScales(scales)
    axis = integer_of(op, AXIS)
    if not 0 <= axis < len(shape):
        raise _malformed(f"'{AXIS}' is {axis}, which a tensor of rank {len(shape)} does not have")
    length = "N" if shape[axis] == DYNAMIC else shape[axis]
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


def _numbers(op: Operation) -> NDArray[np.float64]:
    attribute = attribute_of(op, SCALES)
    unlike = _malformed(f"'{SCALES}' must be a dense tensor of floats of at most 64 bits")
    if not isinstance(attribute, DenseIntOrFPElementsAttr):
        raise unlike
    elements = cast(DenseElementsAttr, attribute)
    type = elements.type.element_type
    if not isinstance(type, AnyFloat) or FLOAT_FORMATS[type.name].precision > _MOST_DIGITS:
        raise unlike
    scales = FLOAT_FORMATS[type.name].decode(as_view(elements_of(elements)).array())
    wrong = scales[~((scales > 0) & np.isfinite(scales))]
    if wrong.size:
        raise _malformed(f"'{SCALES}' must be positive and finite, but one is {wrong[0]}")
    return scales


_MOST_DIGITS: Final = 53
"""The number of significant bits that are exact in float64."""


def _malformed(reason: str) -> Refusal:
    return Refusal(RefusalCode.UNKNOWN_OP, reason)
