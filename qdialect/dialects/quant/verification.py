"""
Whether the result type of a shape op means what the op makes of its operands' types.

Nothing is compared by spelling: two types are the same here if every element reads the
same scale and zero point.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from xdsl.utils.exceptions import VerifyException

from qdialect.array_view import MAX_RANK
from qdialect.dialects.quant.types import QuantizedTensor
from qdialect.memo import Memo
from qdialect.movement import DYNAMIC, Movement, MovementError, Shape
from qdialect.parameters import QuantizationParameters
from qdialect.slot_map import TooManySlotsError

_UNBOUNDED = 1 << 40
"""The length of an axis that may be of any: what moves it does not depend on it."""


def verify_movement(
    movement: Movement,
    operands: Sequence[QuantizedTensor],
    result: QuantizedTensor,
) -> None:
    """
    Raise VerifyException if `result` does not mean what the movement makes of `operands`.

    What dynamic dimensions leave undecided is accepted.
    """
    tensors = (*operands, result)
    if _KNOWN_TO_MEAN_IT.get((movement, tensors)) is None:
        _verify_movement(movement, operands, result)
        weight = movement.size + sum(1 + tensor.element_type.scales.size for tensor in tensors)
        _KNOWN_TO_MEAN_IT.add((movement, tensors), True, weight)


_KNOWN_TO_MEAN_IT = Memo[tuple[Movement, tuple[QuantizedTensor, ...]], bool]()
"""Types of operands and a result that have been verified."""


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
        if not operand.element_type.has_same_values_as(result.element_type):
            # A type may have thousands of slots, and they are not what differs.
            stored, declared_stored = (
                f"{type.storage_text}:{type.expressed_type.name}"
                for type in (operand.element_type, result.element_type)
            )
            raise VerifyException(
                "operand and result must store the same integers for the same expressed "
                f"type, but are of '{stored}' and '{declared_stored}'"
            )
    for tensor in (*operands, result):
        tensor.element_type.verify_fits(tensor.get_shape())
    _verify_slots(movement, operands, result)


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
    Raise VerifyException if an element of the result reads another slot than it is given.

    `declared` is what the result type says, `derived` what the operands' types give it.
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
    Static shapes that stand for all that tensors with dynamic dimensions may have.

    The slots of a type tell the length of an axis that it cuts, and one length may follow
    from others. An axis that is not cut may have any: what its elements read is the same.
    None if there is nothing to decide by. Raises VerifyException if there is no such shape.
    """
    shapes = [with_lengths_of_slots(tensor) for tensor in tensors]
    if not _fit(movement, shapes):
        of_operands, of_result = map(_shape_text, shapes[:-1]), _shape_text(shapes[-1])
        raise VerifyException(
            f"the slots of its types tell shapes that do not fit: {', '.join(of_operands)} of "
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
    """The shape of `tensor`, with the dynamic lengths that its slots tell."""
    type, shape = tensor.element_type, list(tensor.get_shape())
    slots, blocks = type.scales.shape, type.block_sizes
    for at, axis in enumerate(type.quantized_dimensions):
        if shape[axis] == DYNAMIC:
            shape[axis] = slots[axis] * blocks[at] if blocks else slots[0]
    return tuple(shape)


def _candidate_lengths(shapes: Sequence[Shape], number: int, axis: int) -> Iterator[int]:
    """Lengths to try for a dynamic dimension of a shape: those that others may tell first."""
    others = [shape for at, shape in enumerate(shapes) if at != number]
    yield from dict.fromkeys(
        length for shape in reversed(others) for length in shape if length != DYNAMIC
    )
    # What the others leave of the elements, or of the axis.
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
