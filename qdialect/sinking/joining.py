"""Replacing the casts of all operands of a concat by one cast of its result."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, SSAValue

from qdialect.algebra.movement import DYNAMIC
from qdialect.algebra.run_map import TooManySlotsError
from qdialect.dialects.quant.casts import CastOp
from qdialect.dialects.quant.slots import Granularity
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.folding.policy import FoldPolicy, spell
from qdialect.ir.value_types import tensor_element_type
from qdialect.ops.interface import Refusal, RefusalCode
from qdialect.sinking.moving_ops import Form, MovingOp


def join_casts(moving: MovingOp, operands: Sequence[SSAValue]) -> tuple[list[CastOp], Form]:
    """
    The equal casts that define the operands of a shape op, and the op's form above a single cast.

    Raises Refusal if the operands are not defined by equal casts, or the op has no such form.
    """
    owners = [operand.owner for operand in operands]
    casts = [owner for owner in owners if isinstance(owner, CastOp)]
    if len(operands) < 2 or len(casts) < len(operands):
        raise Refusal(RefusalCode.CASTS, "not all operands are results of casts")
    first = casts[0]
    if any(type(each) is not type(first) or each.properties != first.properties for each in casts):
        raise Refusal(RefusalCode.CASTS, "its operands are results of different casts")
    if any(each.parent is not moving.op.parent for each in casts):
        raise Refusal(RefusalCode.CASTS, "an operand is cast in another block")
    elements = [tensor_element_type(each.input.type) for each in casts]
    joined = _joined(moving, elements)
    return casts, moving.form(elements, [joined])


def _joined(moving: MovingOp, elements: Sequence[Attribute]) -> Attribute:
    """The element type of the result for operands with these element types. Raises Refusal."""
    if len(moving.movements) > 1:
        raise Refusal(RefusalCode.UNKNOWN_OP, "it does more than join its operands")
    movement, first = next(iter(moving.movements)), elements[0]
    types = [element for element in elements if isinstance(element, UniformQuantizedType)]
    is_one = len(set(elements)) == 1
    if not types and is_one:
        return first
    if len(types) < len(elements) or not all(map(types[0].has_same_values_as, types)):
        raise Refusal(
            RefusalCode.MIXED_CONSTANTS, "its operands differ in storage or expressed type"
        )
    if is_one and types[0].granularity is Granularity.PER_TENSOR:
        return first
    shapes = moving.operand_shapes
    if any(DYNAMIC in shape for shape in shapes):
        raise Refusal(RefusalCode.DYNAMIC_SHAPE, "a length is only known at run time")
    parameters = [type.parameters_on(shape) for type, shape in zip(types, shapes, strict=True)]
    try:
        joined = spell(types[0], movement(*parameters), Granularity.SUB_CHANNEL)
    except TooManySlotsError as error:
        raise Refusal(RefusalCode.PARAMETER_GROWTH, str(error)) from None
    slots = sum(type.scales.size for type in types)
    FoldPolicy().check_parameters(joined, moving.shapes[-1], slots)
    return joined
