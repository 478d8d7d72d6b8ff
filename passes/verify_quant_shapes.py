"""The pass that finds quantized types which do not mean what shape ops make of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from qdialect.dialects.quant.constants import verify_in_range
from qdialect.dialects.quant.shape_ops import ShapeOp
from qdialect.dialects.quant.slots import Granularity
from qdialect.dialects.quant.types import QuantizedTensor, UniformQuantizedType, uniform_tensor
from qdialect.dialects.quant.verification import verify_movement
from qdialect.dialects.value_types import element_type_or_self
from qdialect.errors import OpErrors
from qdialect.movement import Chain, Movement, MovementError, Transpose
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

_MAX_TYPE_TEXT: Final = 200
"""A longer type is not spelled in a message."""

_MAX_SPELLED_SLOTS: Final = _MAX_TYPE_TEXT // 10
"""What has more slots has a longer text."""


def quant_shape_errors(module: ModuleOp, context: Context) -> Iterator[tuple[Operation, str]]:
    """
    The ops of a module whose quantized result type lies, each with what is wrong.

    Ops that are not known, and what is only known at run time, are not judged.
    """
    operands = ConstantOperands(Constants(ResourceBlobs.of(context)))
    for op in module.walk():
        message = _error_of_constant(op, operands.constants)
        model = model_of(op)
        if model is not None and not isinstance(op, ShapeOp) and _is_quantized(op):
            try:
                message = _lie(op, operands.read(op, model))
            except NotFoldable:
                continue
        if message is not None:
            yield op, f"'{name_of(op)}' op {message}"


def _error_of_constant(op: Operation, constants: Constants) -> str | None:
    """Why a constant cannot be of its type, if that is so."""
    elements = elements_attribute_of(op)
    if elements is None or not _is_quantized(op) or not isinstance(op.results[0].type, TensorType):
        return None
    try:
        tensor = _tensor(op.results[0])
        _verify_fits(tensor, "result")
        verify_in_range(constants.elements(op, elements), tensor.element_type)
    except VerifyException as error:
        return str(error)
    except NotFoldable:
        # Its data is not here.
        return None
    return None


def _is_quantized(op: Operation) -> bool:
    return any(
        isinstance(element_type_or_self(value.type), UniformQuantizedType)
        for value in (*op.operands, *op.results)
    )


def _lie(op: Operation, movements: Movements) -> str | None:
    """What is wrong with the result type of `op`, if something is."""
    values = (*movements.operands, op.results[0])
    if not all(isinstance(value.type, TensorType) for value in values):
        return None
    types = [element_type_or_self(value.type) for value in values]
    quantized = [isinstance(type, UniformQuantizedType) for type in types]
    if not any(quantized):
        return None
    if not all(quantized):
        moved = _type_text(types[quantized.index(not quantized[-1])])
        return f"moves elements of {moved} to a result of {_type_text(types[-1])}: it is no cast"
    *operands, declared = map(_tensor, values)
    movement = _movement_to(declared, movements)
    try:
        for number, operand in enumerate(operands):
            _verify_fits(operand, f"operand #{number}")
    except VerifyException as error:
        return str(error)
    try:
        _verify_fits(declared, "result")
        verify_movement(movement, operands, declared)
    except VerifyException as error:
        return f"{error}{_hint(movement, operands)}"
    return None


def _movement_to(declared: QuantizedTensor, movements: Movements) -> Movement:
    nothing = Transpose(tuple(range(declared.get_num_dims())))
    return Chain.of(movements.movements or [nothing])


def _tensor(value: SSAValue) -> QuantizedTensor:
    return uniform_tensor(value.type)


def _verify_fits(tensor: QuantizedTensor, end: str) -> None:
    """Raise VerifyException, with the numbers, if the slots do not fit the shape."""
    type, shape = tensor.element_type, tensor.get_shape()
    try:
        type.verify_fits(shape)
    except VerifyException as error:
        message = f"{end} type does not fit its shape: {error}"
        if type.granularity is Granularity.PER_AXIS:
            (axis,) = type.quantized_dimensions
            of = f"length {shape[axis]}" if axis < len(shape) else f"rank {len(shape)}"
            message += f" (axis {axis} of {of}, {type.scales.size} scales)"
        raise VerifyException(message) from None


def _type_text(type: Attribute) -> str:
    if isinstance(type, UniformQuantizedType) and type.scales.size > _MAX_SPELLED_SLOTS:
        return f"a type of {type.scales.size} scales"
    return f"type '{type}'"


def _hint(movement: Movement, operands: Sequence[QuantizedTensor]) -> str:
    """The type that would be right, if there is one and it is short."""
    if not all(operand.has_static_shape() for operand in operands):
        return ""
    try:
        movement.result_shape(*(operand.get_shape() for operand in operands))
        of_operands = [o.element_type.parameters_on(o.get_shape()) for o in operands]
        right = operands[0].element_type.with_parameters(movement(*of_operands))
    except (MovementError, TooManySlotsError, VerifyException, ValueError):
        return ""
    if right.scales.size > _MAX_SPELLED_SLOTS or len(text := str(right)) > _MAX_TYPE_TEXT:
        return ""
    return f"; the element type of the result should be '{text}'"


@dataclass(frozen=True)
class VerifyQuantShapesPass(ModulePass):
    """
    Find shape ops whose quantized result type does not mean what they do.

    Verifiers of other dialects accept a per-axis type that is only copied: after a
    transpose or a reshape it speaks of another axis, after a slice it has too many scales.
    Constants are looked at too: whether their type fits their shape, and their elements the
    storage range. Fails with one error for each op, which says which element reads which
    slot.
    """

    name = "verify-quant-shapes"

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Raises OpErrors."""
        errors = list(quant_shape_errors(op, ctx))
        if errors:
            raise OpErrors(errors)
