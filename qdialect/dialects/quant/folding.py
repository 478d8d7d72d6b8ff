"""What the canonicalization and the pass share: how one shape op is simplified."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, cast

from xdsl.ir import SSAValue

from qdialect.array_view import ArrayView
from qdialect.dialects.quant.constants import ConstantOp, element_type_of
from qdialect.dialects.quant.shape_ops import ConcatOp, ShapeOp, compose
from qdialect.dialects.quant.types import uniform_tensor
from qdialect.elements import element_dtype
from qdialect.movement import Splat, Values, as_view

DEFAULT_MAX_GROWTH: Final = 1 << 28
"""How many bytes a folded constant may have more than its operands: 256 MiB."""


def move_constants(
    op: ShapeOp, operands: Sequence[Values], max_growth: int
) -> ArrayView | Splat | None:
    """
    The elements of the result of `op`, if those of its operands are `operands`: `C . f`.

    None if the shape is dynamic, or the elements take more than `max_growth` bytes more
    than those of the operands. Arrays are only viewed where that is possible.
    """
    type = uniform_tensor(op.result.type)
    if not type.has_static_shape():
        return None
    movement = op.movement
    parameters = type.element_type.parameters_on(type.get_shape())
    splats = [values for values in operands if isinstance(values, Splat)]
    if len(splats) == len(operands) and movement.keeps_splats(splats, parameters):
        return movement(*splats)
    held = sum(math.prod(values.shape) for values in operands if not isinstance(values, Splat))
    element = element_dtype(element_type_of(type.element_type)).itemsize
    if (math.prod(type.get_shape()) - held) * element > max_growth:
        return None
    return movement.move_views([as_view(values) for values in operands], parameters)


def simplified(op: ShapeOp, operands: Sequence[SSAValue]) -> ShapeOp | None:
    """
    One op that does what `op` and the op that makes its operands do, if there is one.

    `g(f(x)) = (g . f)(x)`, and operands of a concat that are concats on the same axis,
    and used nowhere else, give it their own.
    """
    if not isinstance(op, ConcatOp):
        movement, inputs = compose(op.movement, operands)
    elif _is_inlined(op):
        # Its user takes all operands at once; step by step, they would be copied each time.
        return None
    else:
        movement, inputs = op.movement, _inline_concats(op, operands)
    if list(inputs) == list(operands) or op.result in inputs:
        return None
    new_op = cast(type[ShapeOp], type(op)).of_movement(movement, inputs, op.result.type)
    new_op.attributes |= op.attributes
    new_op.location = op.location
    return new_op


def _is_inlined(op: ConcatOp) -> bool:
    """Whether the only user is a concat on the same axis, which takes all operands."""
    user = op.result.get_user_of_unique_use()
    return isinstance(user, ConcatOp) and user.dim == op.dim and user is not op


def _inline_concats(op: ConcatOp, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
    inputs: list[SSAValue] = []
    pending = list(reversed(operands))
    while pending:
        operand = pending.pop()
        inner = operand.owner
        if isinstance(inner, ConcatOp) and inner.dim == op.dim and _is_inlined(inner):
            pending += reversed(inner.operands)
        else:
            inputs.append(operand)
    return inputs


def folded_constant(op: ShapeOp, values: Values, sources: Sequence[ConstantOp]) -> ConstantOp:
    """
    The constant that `op` is: `values`, of the type that the op declares.

    It has the name, the attributes and the location of the constants that it is made of;
    where several have one, that of the first.
    """
    constant = ConstantOp(values, uniform_tensor(op.result.type))
    constant.location = sources[0].location
    for source in reversed(sources):
        constant.attributes |= source.attributes
    names = (value.name_hint for value in (*(s.result for s in sources), op.result))
    constant.result.name_hint = next(filter(None, names), None)
    return constant
