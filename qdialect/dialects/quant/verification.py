"""
Verifying that the result type of a shape op means `p . f`, given the operands' types.

Types are compared by meaning, not by spelling: two types are the same if every element reads
the same scale and zero point.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.movement import DYNAMIC, Movement, MovementError, Shape
from qdialect.algebra.parameters import QuantizationParameters
from qdialect.algebra.run_map import TooManySlotsError
from qdialect.algebra.views import MAX_RANK
from qdialect.dialects.quant.slots import Granularity
from qdialect.dialects.quant.types import QuantizedTensor, UniformQuantizedType
from qdialect.ir.errors import VerifiedPart
from qdialect.support.memory import BoundedCache

_MAX_TYPE_TEXT: Final = 200
"""The maximum length of a type's text in a message."""

MAX_SPELLED_SLOTS: Final = _MAX_TYPE_TEXT // 10
"""The text of a type with more slots exceeds `_MAX_TYPE_TEXT`."""

_UNBOUNDED = 1 << 40
"""The length assumed for a dynamic axis when the verdict does not depend on it."""


def verify_movement(
    movement: Movement,
    operands: Sequence[QuantizedTensor],
    result: QuantizedTensor,
) -> None:
    """
    Raise VerifyException if `result` does not mean `p . f` of `operands`.

    Accepts the result if dynamic dimensions leave the question undecided.
    """
    tensors = (*operands, result)
    if _KNOWN_TO_MEAN_IT.get((movement, tensors)) is None:
        _verify_movement(movement, operands, result)
        weight = movement.size + sum(1 + tensor.element_type.scales.size for tensor in tensors)
        _KNOWN_TO_MEAN_IT.add((movement, tensors), True, weight)


def verify_result(
    movement: Movement, operands: Sequence[QuantizedTensor], result: QuantizedTensor
) -> None:
    """
    As `verify_movement`, but the message also suggests the right result type.

    It does so if there is one, its text is short, and the operands have static shapes.
    """
    try:
        verify_movement(movement, operands, result)
    except VerifyException as error:
        raise VerifyException(f"{error}{_hint(movement, operands, result)}") from None


def _hint(movement: Movement, operands: Sequence[QuantizedTensor], result: QuantizedTensor) -> str:
    if not all(operand.has_static_shape() for operand in operands):
        return ""
    try:
        shape = movement.result_shape(*(operand.get_shape() for operand in operands))
        of_operands = [o.element_type.parameters_on(o.get_shape()) for o in operands]
        right = operands[0].element_type.with_parameters(movement(*of_operands))
    except (ValueError, VerifyException):
        return ""
    if right.scales.size > MAX_SPELLED_SLOTS or len(text := str(right)) > _MAX_TYPE_TEXT:
        return ""
    if _are_compatible(shape, result.get_shape()):
        return f"; the element type of the result should be '{text}'"
    return f"; the result type should be '{TensorType(right, shape)}'"


def verified_parts(type: Attribute) -> Sequence[VerifiedPart]:
    """
    The parts of a valid type that verifiers of ops read.

    Slots were verified with the type, and may differ; the storage and the expressed type may not.
    """
    whole = (type,)
    if isinstance(type, TensorType):
        tensor = cast("TensorType[Attribute]", type)
        element = tensor.element_type
        if isinstance(element, UniformQuantizedType):
            slots = element.slots.data
            places = slots.granularity, slots.dimensions, slots.block_sizes, slots.shape
            return (tensor.shape, *element.storage, element.expressed_type, places)
    return whole


def verify_fits(tensor: QuantizedTensor, end: str) -> None:
    """
    Raise VerifyException, with axis and numbers, if the slots of `tensor` do not fit its shape.
    `end` names the tensor in the message.
    """
    type, shape = tensor.element_type, tensor.get_shape()
    try:
        type.verify_fits(shape)
    except VerifyException as error:
        message = f"{end} type does not fit its shape: {error}"
        if type.granularity is Granularity.PER_AXIS:
            (axis,) = type.quantized_dimensions
            length = f"length {shape[axis]}" if axis < len(shape) else f"rank {len(shape)}"
            message += f" (axis {axis} of {length}, {type.scales.size} scales)"
        raise VerifyException(message) from None


_KNOWN_TO_MEAN_IT = BoundedCache[tuple[Movement, tuple[QuantizedTensor, ...]], bool]()
"""Movements and types of operands and results that have passed verification."""


def _verify_movement(
    movement: Movement, operands: Sequence[QuantizedTensor], result: QuantizedTensor
) -> None:
    shapes = [operand.get_shape() for operand in operands]
    declared = result.get_shape()
    for tensor in (*operands, result):
        if tensor.get_num_dims() > MAX_RANK:
            raise VerifyException(f"rank {tensor.get_num_dims()} is more than {MAX_RANK}")
    try:
        moved = movement.to(declared).result_shape(*shapes)
    except MovementError as error:
        raise VerifyException(str(error)) from None
    if not _are_compatible(moved, declared):
        raise VerifyException(
            f"result shape {_shape_text(declared)} should be {_shape_text(moved)}"
        )
    for operand in operands:
        verify_same_values(operand.element_type, result.element_type)
    for number, operand in enumerate(operands):
        verify_fits(operand, f"operand #{number}")
    verify_fits(result, "result")
    _verify_slots(movement, operands, result)


def verify_same_values(
    operand: UniformQuantizedType, result: UniformQuantizedType, ends: str = "operand and result"
) -> None:
    """
    Raise VerifyException if two types differ in storage type, storage range or expressed type.
    """
    if not operand.has_same_values_as(result):
        # Without the slots, which may be thousands, and are not compared here.
        stored, declared = (
            f"{type.storage_text}:{type.expressed_type.name}" for type in (operand, result)
        )
        raise VerifyException(
            f"{ends} must store the same integers for the same expressed "
            f"type, but are of '{stored}' and '{declared}'"
        )


def _verify_slots(
    movement: Movement,
    operands: Sequence[QuantizedTensor],
    result: QuantizedTensor,
) -> None:
    tensors = (*operands, result)
    types = {tensor.element_type for tensor in tensors}
    if len(types) == 1 and not result.element_type.quantized_dimensions:
        return
    shapes: Sequence[Shape] | None = [tensor.get_shape() for tensor in tensors]
    if any(DYNAMIC in shape for shape in shapes):
        if all(type.scales.size == 1 for type in types):
            _verify_single_slots(operands, result)
            return
        shapes = _assume_lengths(movement, tensors)
    if shapes is None:
        return
    try:
        *parameters, declared = (
            tensor.element_type.parameters_on(shape)
            for tensor, shape in zip(tensors, shapes, strict=True)
        )
        derived = movement.to(shapes[-1])(*parameters)
    except TooManySlotsError as error:
        raise VerifyException(
            f"result type cannot mean the moved scales and zero points: {error}"
        ) from None
    verify_same_slots(derived, declared)


def verify_same_slots(derived: QuantizationParameters, declared: QuantizationParameters) -> None:
    """
    Raise VerifyException for the first element that reads the wrong slot.

    `declared` are the parameters of the result type, `derived` those that follow from the
    operands' types.
    """
    index = derived.first_difference(declared)
    if index is not None:
        raise VerifyException(
            f"result element {list(index)} reads {_reading(declared, index)} in its "
            f"type, but {_reading(derived.simplify(), index)} in the type that the operands give it"
        )


def _reading(parameters: QuantizationParameters, index: Shape) -> str:
    slot = parameters.slot(index)
    return (
        f"slot {list(parameters.slot_index(index))} "
        f"(scale {slot.scale:.6e}, zero point {slot.zero_point})"
    )


def _verify_single_slots(operands: Sequence[QuantizedTensor], result: QuantizedTensor) -> None:
    declared = result.element_type.single_slot
    for number, operand in enumerate(operands):
        slot = operand.element_type.single_slot
        if slot != declared:
            raise VerifyException(
                f"every element of the result reads scale {declared.scale:.6e}, zero "
                f"point {declared.zero_point} in its type, but scale {slot.scale:.6e}, "
                f"zero point {slot.zero_point} in that of operand #{number}"
            )


def _are_compatible(one: Shape, other: Shape) -> bool:
    return len(one) == len(other) and all(
        length == other_length or DYNAMIC in (length, other_length)
        for length, other_length in zip(one, other, strict=True)
    )


def _shape_text(shape: Shape) -> str:
    lengths = ", ".join("?" if length == DYNAMIC else str(length) for length in shape)
    return f"[{lengths}]"


def _assume_lengths(movement: Movement, tensors: Sequence[QuantizedTensor]) -> list[Shape] | None:
    """
    Static shapes that represent all possible shapes of tensors with dynamic dimensions.

    The slots of a type determine the length of each axis along which they vary, and one length
    may follow from others. An axis without variation may have any length. Returns None if the
    verdict depends on a length. Raises VerifyException if no lengths fit.
    """
    shapes = [with_lengths_of_slots(tensor) for tensor in tensors]
    if not _fit(movement, shapes):
        of_operands, of_result = map(_shape_text, shapes[:-1]), _shape_text(shapes[-1])
        raise VerifyException(
            f"the slots of its types determine shapes that do not fit: {', '.join(of_operands)} of "
            f"the operands, and {of_result} of the result"
        )
    coupled = movement.to(shapes[-1]).coupled_axes
    if sum(shape[axis] == DYNAMIC for shape in shapes for axis in coupled(len(shape))) > 1:
        return None
    for number, shape in enumerate(shapes):
        for axis, length in enumerate(shape):
            if length == DYNAMIC:
                for candidate in _candidate_lengths(shapes, number, axis):
                    assumed = _with_length(shapes, number, axis, candidate)
                    if _fit(movement, assumed):
                        shapes = assumed
                        break
                else:
                    return None
    return shapes


def with_lengths_of_slots(tensor: QuantizedTensor) -> Shape:
    """
    The shape of `tensor`, with dynamic lengths replaced where the slots determine them.

    A type of slots on axes that the tensor does not have determines none of them.
    """
    type, shape = tensor.element_type, list(tensor.get_shape())
    slots, blocks = type.scales.shape, type.block_sizes
    for at, axis in enumerate(type.quantized_dimensions):
        if axis < len(shape) and shape[axis] == DYNAMIC:
            shape[axis] = slots[axis] * blocks[at] if blocks else slots[0]
    return tuple(shape)


def _candidate_lengths(shapes: Sequence[Shape], number: int, axis: int) -> Iterator[int]:
    """Candidates for a dynamic length of shape `number`: lengths in the other shapes come first."""
    others = [shape for at, shape in enumerate(shapes) if at != number]
    yield from dict.fromkeys(
        length for shape in reversed(others) for length in shape if length != DYNAMIC
    )
    # The quotient of the element counts, or the rest of the concatenated axis.
    known = math.prod(length for length in shapes[number] if length != DYNAMIC)
    for shape in others:
        if DYNAMIC not in shape and known:
            yield math.prod(shape) // known
    along = [shape[axis] for shape in others if axis < len(shape)]
    if along and DYNAMIC not in along:
        yield max(sum(along) if number == len(others) else along[-1] - sum(along[:-1]), 0)
    yield _UNBOUNDED
    yield 1


def _with_length(shapes: Sequence[Shape], number: int, axis: int, length: int) -> list[Shape]:
    changed = list(shapes)
    changed[number] = (*shapes[number][:axis], length, *shapes[number][axis + 1 :])
    return changed


def _fit(movement: Movement, shapes: Sequence[Shape]) -> bool:
    *operands, result = shapes
    try:
        moved = movement.to(result).result_shape(*operands)
    except MovementError:
        return False
    return _are_compatible(moved, result)
