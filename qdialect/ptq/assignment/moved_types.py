"""
The quantized types on one side of an op that moves or joins elements, from the other side's types.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.joins import Concat
from qdialect.algebra.movement import (
    DYNAMIC,
    Movement,
    MovementError,
    Shape,
    Slice,
    ValueSet,
    pulled_back,
)
from qdialect.algebra.parameters import Granularity, QuantizationParameters, StorageFormat
from qdialect.algebra.run_map import TooManySlotsError
from qdialect.dialects.quant import UniformQuantizedType
from qdialect.ir.value_types import element_type_or_self, shape_of
from qdialect.ops.rules import RuleKind
from qdialect.ptq.float_graph.flow_graph import Node
from qdialect.ptq.weights import type_of_slots
from qdialect.support.float_format import FLOAT_FORMATS
from qdialect.support.lazy_numpy import np
from qdialect.support.memory import registered_cache

if TYPE_CHECKING:
    pass


def joins(node: Node) -> bool:
    """Whether several operands must have the parameters of the result."""
    return node.rule is RuleKind.SHARED and len(node.uses) > 1 and len(node.results) == 1


def passes_on(node: Node) -> bool:
    """Whether the result only holds elements of one operand."""
    if len(node.uses) != 1 or len(node.results) != 1:
        return False
    return node.rule is RuleKind.MOVED or node.rule is RuleKind.SHARED


def types_before(node: Node, type: UniformQuantizedType) -> Sequence[UniformQuantizedType | None]:
    """The type of each operand for a result of `type`; None where no type exists."""
    is_whole = all(movement.values is ValueSet.SAME for movement in node.movements)
    if type.granularity is Granularity.PER_TENSOR:
        return [type if joins(node) or is_whole else None] * len(node.uses)
    shapes = [shape_of(use.value.type) for use in node.uses]
    shape = shape_of(node.results[0].type)
    if shape is None or DYNAMIC in shape:
        return [None] * len(shapes)
    if not node.movements:
        return [type if node.keeps_places and each == shape else None for each in shapes]
    return [
        _type_before(node.movements, type, shape, each, at, shapes)
        for at, each in enumerate(shapes)
    ]


def type_before_shape(node: Node, type: UniformQuantizedType) -> UniformQuantizedType | None:
    """The operand type of a unary shape op with result `type`, even if the op repeats elements."""
    if type.granularity is Granularity.PER_TENSOR:
        return type
    return types_before(node, type)[0]


def _type_before(
    movements: Sequence[Movement],
    type: UniformQuantizedType,
    shape: Shape,
    operand: Shape | None,
    at: int,
    shapes: Sequence[Shape | None],
) -> UniformQuantizedType | None:
    """The type of one operand, by the inverse of the movement."""
    if operand is None or DYNAMIC in operand:
        return None
    try:
        match movements:
            case [Concat() as concat]:
                parameters = type.parameters_on(shape)
                axis = concat.dim
                lengths = [each[axis] for each in shapes if each is not None]
                start = sum(lengths[:at])
                starts = [start if each == axis else 0 for each in range(len(shape))]
                ends = [low + length for low, length in zip(starts, operand, strict=True)]
                piece = Slice.between(starts, ends, [1] * len(shape))
                return type.with_parameters(piece(parameters))
            case [movement] if len(shapes) == 1:
                if type.granularity is Granularity.PER_AXIS:
                    found = _axis_before(movement, type.quantized_dimensions[0], shape, operand)
                    if found is not None:
                        return _along_axis(type, *found, operand)
                parameters = type.parameters_on(shape)
                before = pulled_back(movement, parameters, operand)
                return None if before is None else type.with_parameters(before)
            case _:
                return None
    except (MovementError, TooManySlotsError):
        return None


# Cached, since most layers broadcast their biases in the same way.
@registered_cache
@lru_cache(maxsize=256)
def _axis_before(
    movement: Movement, axis: int, shape: Shape, operand: Shape
) -> tuple[int, tuple[int, ...]] | None:
    """
    The axis of the operand that an axis of the result comes from, and its positions, in order.

    None unless it comes from exactly one axis.
    """
    length = shape[axis]
    lengths = tuple(length if each == axis else 1 for each in range(len(shape)))
    numbers = np.arange(1, length + 1, dtype="f8").reshape(lengths)
    formats = FLOAT_FORMATS["f64"], StorageFormat(8, signed=True)
    zeros = np.zeros(lengths, np.int64)
    numbered = QuantizationParameters.from_blocks(shape, numbers, zeros, *formats)
    before = pulled_back(movement, numbered, operand)
    coarse = None if before is None else before.coarsen()
    if coarse is None:
        return None
    axes = [each for each, count in enumerate(coarse.scales.shape) if count > 1]
    if len(axes) != 1 or coarse.block_sizes[axes[0]] != 1:
        return None
    return axes[0], tuple(int(number) - 1 for number in coarse.scales.reshape(-1).tolist())


def _along_axis(
    type: UniformQuantizedType, axis: int, positions: Sequence[int], shape: Shape
) -> UniformQuantizedType:
    """A per-axis type with the slots of these positions, along another axis."""
    lengths = tuple(len(positions) if each == axis else 1 for each in range(len(shape)))
    scales = type.scales.take(positions).reshape(lengths)
    zero_points = type.zero_points.take(positions).reshape(lengths)
    return type_of_slots(type.storage, type.expressed_type, scales, zero_points, shape)


def type_expressing(type: UniformQuantizedType, value: SSAValue) -> UniformQuantizedType | None:
    """The type with the float type of a value as expressed type; None if its range is too small."""
    expressed = cast(AnyFloat, element_type_or_self(value.type))
    if type.expressed_type == expressed:
        return type
    try:
        return UniformQuantizedType.of_slots(type.storage, expressed, type.slots.data)
    except VerifyException:
        return None


def type_behind(node: Node, type: UniformQuantizedType) -> UniformQuantizedType | None:
    """The type of the result of an op that moves an operand of `type`."""
    if type.granularity is Granularity.PER_TENSOR:
        return type
    operand = shape_of(node.uses[0].value.type)
    if not node.movements:
        is_alike = node.keeps_places and operand == shape_of(node.results[0].type)
        return type if is_alike else None
    if operand is None or DYNAMIC in operand:
        return None
    parameters = type.parameters_on(operand)
    try:
        for movement in node.movements:
            parameters = movement(parameters)
        return type.with_parameters(parameters)
    except (MovementError, TooManySlotsError):
        return None
