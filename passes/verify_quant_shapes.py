"""The pass that finds quantized types which do not mean what shape ops make of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from qdialect.dialects.quant.shape_ops import ShapeOp
from qdialect.dialects.quant.types import QuantizedTensor, UniformQuantizedType, uniform_tensor
from qdialect.dialects.quant.verification import verify_movement
from qdialect.movement import Chain, Movement, MovementError, Transpose
from qdialect.op_errors import OpErrors
from qdialect.resources import ResourceBlobs
from qdialect.shape_folding.constants import ConstantOperands, Constants
from qdialect.shape_op_interface import (
    Movements,
    NotFoldable,
    elements_attribute_of,
    model_of,
    name_of,
)
from qdialect.slot_map import TooManySlotsError

_MAX_TYPE_TEXT = 200
"""A type of more slots is not spelled in a message."""


def quant_shape_errors(module: ModuleOp, context: Context) -> Iterator[tuple[Operation, str]]:
    """
    The ops of a module whose quantized result type lies, each with what is wrong.

    Ops that are not known, and what is only known at run time, are not judged.
    """
    operands = ConstantOperands(Constants(ResourceBlobs.of(context)))
    for op in module.walk():
        if elements_attribute_of(op) is not None and (message := _misfit(op)) is not None:
            yield op, f"'{name_of(op)}' op {message}"
        model = model_of(op)
        if model is None or isinstance(op, ShapeOp) or not _is_quantized(op):
            continue
        try:
            movements = operands.read(op, model)
        except NotFoldable:
            continue
        if (message := _lie(op, movements)) is not None:
            yield op, f"'{name_of(op)}' op {message}"


def _misfit(op: Operation) -> str | None:
    """Why no tensor of the shape of a constant can have its type, if that is so."""
    type = _element_type(op.results[0])
    if not isinstance(type, UniformQuantizedType):
        return None
    try:
        type.verify_fits(_tensor(op.results[0]).get_shape())
    except VerifyException as error:
        return f"has a type that does not fit its shape: {error}"
    return None


def _is_quantized(op: Operation) -> bool:
    return any(
        isinstance(_element_type(value), UniformQuantizedType)
        for value in (*op.operands, *op.results)
    )


def _element_type(value: SSAValue) -> Attribute:
    type = value.type
    return cast(TensorType[Attribute], type).element_type if isinstance(type, TensorType) else type


def _lie(op: Operation, movements: Movements) -> str | None:
    """What is wrong with the result type of `op`, if something is."""
    result = op.results[0]
    types = [_element_type(value) for value in (*movements.operands, result)]
    if not any(isinstance(type, UniformQuantizedType) for type in types):
        return None
    try:
        *operands, declared = map(_tensor, (*movements.operands, result))
    except VerifyException:
        return f"moves elements of type '{types[0]}' to a result of type '{types[-1]}'"
    rank = declared.get_num_dims()
    movement = Chain.of(movements.movements or [Transpose(tuple(range(rank)))])
    try:
        verify_movement(movement.to, operands, declared)
    except VerifyException as error:
        return f"{error}{_hint(movement, operands)}"
    return None


def _tensor(value: SSAValue) -> QuantizedTensor:
    return uniform_tensor(value.type)


def _hint(movement: Movement, operands: Sequence[QuantizedTensor]) -> str:
    """The type that would be right, if there is one and it is short."""
    if not all(operand.has_static_shape() for operand in operands):
        return ""
    try:
        of_operands = [o.element_type.parameters_on(o.get_shape()) for o in operands]
        right = operands[0].element_type.with_parameters(movement(*of_operands))
    except (MovementError, TooManySlotsError, VerifyException, ValueError):
        return ""
    if right.scales.size > _MAX_TYPE_TEXT // 10 or len(text := str(right)) > _MAX_TYPE_TEXT:
        return ""
    return f"; what the operands give it is '{text}'"


@dataclass(frozen=True)
class VerifyQuantShapesPass(ModulePass):
    """
    Find shape ops whose quantized result type does not mean what they do.

    Verifiers of other dialects accept a per-axis type that is only copied: after a
    transpose or a reshape it speaks of another axis, after a slice it has too many scales.
    Fails with one error for each op, which says which element reads which slot.
    """

    name = "verify-quant-shapes"

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Raises OpErrors."""
        errors = list(quant_shape_errors(op, ctx))
        if errors:
            raise OpErrors(errors)
