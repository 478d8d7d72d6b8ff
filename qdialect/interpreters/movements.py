"""Shape ops, casts and constants of any dialect, run as the shape-op interface reads them."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
    i64,
)
from xdsl.interpreter import Interpreter
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import InterpretationError

from qdialect.array_view import MAX_RANK, ArrayView
from qdialect.dialects.quant.shape_ops import ShapeOp
from qdialect.dialects.quant.types import StoredType, UniformQuantizedType, uniform_tensor
from qdialect.dialects.quant.verification import verify_movement, with_lengths_of_slots
from qdialect.dialects.value_types import element_type_or_self, shape_of
from qdialect.elements import element_dtype, in_width
from qdialect.interpreters.values import (
    TypedArray,
    dequantized,
    operands_of,
    quantized,
    reinterpreted,
    unsigned,
    value_of,
)
from qdialect.movement import (
    DYNAMIC,
    BroadcastInDim,
    Chain,
    Movement,
    Pad,
    Padding,
    PadWith,
    Real,
    Reshape,
    Shape,
    Stored,
)
from qdialect.resources import ResourceBlobs
from qdialect.shape_folding.constants import Constants
from qdialect.shape_op_interface import (
    Code,
    Movements,
    NotFoldable,
    ShapeOpModel,
    elements_attribute_of,
    find_attribute,
    is_cast,
    model_of,
    name_of,
)

MAX_ELEMENTS: Final = 1 << 30
"""The most elements that a tensor has while a module is run."""


def run_known_op(
    interpreter: Interpreter, op: Operation, args: Sequence[Any], resources: ResourceBlobs
) -> TypedArray | None:
    """
    The result of an op that the shape-op interface knows, None if it knows none of its name.

    Raises InterpretationError, NotFoldable, MovementError and VerifyException.
    """
    if (model := model_of(op)) is not None:
        return run_shape_op(interpreter, op, model, args)
    if is_cast(op):
        return run_cast(op, args)
    if (name := elements_attribute_of(op)) is not None:
        return run_constant(op, name, resources)
    return None


def run_constant(op: Operation, name: str, resources: ResourceBlobs) -> TypedArray:
    """
    The value of a constant op, whose elements are in the attribute `name`.

    Raises InterpretationError and NotFoldable.
    """
    attribute, declared = find_attribute(op, name), op.results[0].type
    if isinstance(attribute, IntegerAttr | FloatAttr):
        type = cast(Any, attribute.type)
        packed = type.pack([attribute.value.data])
        element = in_width(np.frombuffer(packed, dtype=element_dtype(type)), type)
        return reinterpreted(TypedArray.of(element.reshape(()), type), declared)
    if not isinstance(attribute, DenseIntOrFPElementsAttr | DenseResourceAttr):
        raise InterpretationError("its value is not made of numbers")
    elements = Constants(resources).elements(op, name)
    if not isinstance(elements, np.ndarray):
        elements = np.broadcast_to(np.asarray(elements.value), elements.shape)
    value = TypedArray.of(elements, cast(Attribute, cast(Any, attribute).type))
    # A shape of tosa is no tensor.
    is_tensor = isinstance(declared, TensorType)
    return reinterpreted(value, cast(Attribute, declared)) if is_tensor else value


def run_cast(op: Operation, args: Sequence[Any]) -> TypedArray:
    """
    What a cast of any dialect makes of its operand.

    Raises InterpretationError where the types do not tell it.
    """
    operand, declared = value_of(args[0], op.operands[0].type), op.results[0].type
    source, result = operand.element_type, element_type_or_self(declared)
    match source, result:
        case UniformQuantizedType(), UniformQuantizedType():
            real = TensorType(source.expressed_type, operand.shape)
            return quantized(dequantized(operand, real), declared)
        case (StoredType(), IntegerType()) | (IntegerType(), StoredType()):
            return reinterpreted(operand, declared)
        case StoredType(), _ if isinstance(result, AnyFloat):
            return dequantized(operand, declared)
        case _, StoredType() if isinstance(source, AnyFloat):
            return quantized(operand, declared)
        case IntegerType(), IntegerType() if result.bitwidth == 1:
            return TypedArray.of_numbers(operand.numbers != 0, declared)
        case IntegerType(), _ if isinstance(result, IntegerType | AnyFloat):
            is_truth = source.bitwidth == 1
            numbers = unsigned(operand) if is_truth else operand.numbers
            return TypedArray.of_numbers(numbers, declared)
        case _ if isinstance(source, AnyFloat) and isinstance(result, AnyFloat):
            return TypedArray.of_numbers(operand.numbers, declared)
        case _:
            raise InterpretationError(f"nothing says how '{source}' is cast to '{result}'")


def run_shape_op(
    interpreter: Interpreter, op: Operation, model: ShapeOpModel, args: Sequence[Any]
) -> TypedArray:
    """
    What a shape op makes of its operands: the movements that its model reads.

    Lengths that the types do not tell are those of the operands. Raises
    InterpretationError, NotFoldable, MovementError and VerifyException.
    """
    operands = operands_of(op, args)
    declared = op.results[0].type
    with _at_run_time(op, operands) as known:
        values = _OperandValues(dict(zip(known.operands, operands, strict=True)))
        read = model(known, values)
        moved = [values.values[operand] for operand in read.operands]
        padding = _padding(interpreter, op, read, values)
    arrays = [operand.elements for operand in moved]
    movements: list[Movement] = []
    for movement in read.movements:
        shapes = [array.shape for array in arrays]
        movement = _with_lengths(movement, shapes)
        shape = movement.result_shape(*shapes)
        if len(shape) > MAX_RANK or math.prod(shape) > MAX_ELEMENTS:
            raise InterpretationError(f"a tensor of shape {list(shape)} is too large")
        if isinstance(movement, PadWith) and padding is not None:
            movement = replace(movement, padded_with=_padded_with(padding, moved[0]))
        movements.append(movement)
        parameters = None
        if isinstance(movement, Pad) and not isinstance(movement.padding, Stored):
            parameters = Chain.of(movements)(*(operand.parameters for operand in moved))
        views = [ArrayView.of(array) for array in arrays]
        # Of an array without axes, numpy's indexing makes a scalar.
        arrays = [np.asarray(movement.move_views(views, parameters).array())]
    result = TypedArray.of(arrays[0], declared)
    if isinstance(op, ShapeOp) and known is not op:
        # What the verifier could not decide.
        types = [uniform_tensor(value.type) for value in (*operands, result)]
        verify_movement(op.movement_to(result.shape), types[:-1], types[-1])
    return result


@dataclass(frozen=True)
class _OperandValues:
    """What is known of the operands of an op that is run: everything."""

    values: Mapping[SSAValue, TypedArray]

    def integers(self, value: SSAValue) -> NDArray[np.int64]:
        """The elements of an operand. Raises NotFoldable if it is something else."""
        if value not in self.values:
            raise NotFoldable(Code.UNKNOWN_OP, "it is read with what is no operand")
        return self.values[value].numbers


def _padding(
    interpreter: Interpreter, op: Operation, read: Movements, values: _OperandValues
) -> TypedArray | None:
    """The element that `op` pads with, if it does: an operand, or what its region yields."""
    if read.padding is None:
        return None
    if read.padding in values.values:
        return values.values[read.padding]
    (region,) = op.regions
    if any(argument.uses.get_length() for argument in region.block.args):
        raise InterpretationError("it pads with an element for each position")
    indices = [TypedArray.of_numbers(np.array(0), arg.type) for arg in region.block.args]
    (yielded,) = interpreter.run_ssacfg_region(region, tuple(indices), op.name)
    assert region.block.last_op is not None
    return value_of(yielded, region.block.last_op.operands[0].type)


def _padded_with(element: TypedArray, operand: TypedArray) -> Padding:
    """What is stored at new positions of `operand`."""
    if element.elements.size != 1:
        raise InterpretationError(f"it pads with {element.elements.size} elements")
    types = element.element_type, operand.element_type
    if types[0] != types[1] and all(isinstance(type, UniformQuantizedType) for type in types):
        return Real(element.parameters.read(element.numbers).item())
    stored = reinterpreted(element, TensorType(types[1], element.shape))
    return Stored(stored.elements.reshape(-1)[0])


def _with_lengths(movement: Movement, operands: Sequence[Shape]) -> Movement:
    """
    `movement` with the lengths of its result that follow from those of its operand.

    Raises InterpretationError if one does not.
    """
    if not isinstance(movement, Reshape | BroadcastInDim) or DYNAMIC not in movement.shape:
        return movement
    (operand,), shape = operands, list(movement.shape)
    if isinstance(movement, BroadcastInDim):
        for length, dim in zip(operand, movement.dims, strict=True):
            if shape[dim] == DYNAMIC and length != 1:
                shape[dim] = length
    elif shape.count(DYNAMIC) == 1:
        known = math.prod(length for length in shape if length != DYNAMIC)
        if known and math.prod(operand) % known == 0:
            shape[shape.index(DYNAMIC)] = math.prod(operand) // known
    if DYNAMIC in shape:
        raise InterpretationError("nothing tells the lengths of its result")
    return movement.to(tuple(shape))


# Lengths that types do not tell: models read them of types and attributes.

_STATIC_LISTS = (
    "static_offsets",
    "static_sizes",
    "static_strides",
    "static_low",
    "static_high",
    "static_output_shape",
)
"""Attributes of integers, of which the last operands are those that are not known."""

_Lists = Mapping[str, tuple[int, ...]]

_ResultShape = Callable[[_Lists, Sequence[TypedArray]], Sequence[int]]


def _shape_in(number: int) -> _ResultShape:
    """The shape that an operand holds."""
    return lambda lists, operands: [
        DYNAMIC if length < 0 else length
        for length in operands[number].numbers.reshape(-1).tolist()
    ]


_RESULT_SHAPES: Mapping[str, _ResultShape] = {
    "tensor.reshape": _shape_in(1),
    "tensor.expand_shape": lambda lists, operands: lists["static_output_shape"],
    "tensor.extract_slice": lambda lists, operands: lists["static_sizes"],
    "tosa.reshape": _shape_in(1),
    "tosa.slice": _shape_in(2),
    "tosa.tile": lambda lists, operands: list(
        map(int, operands[1].numbers * np.array(operands[0].shape, dtype=np.int64))
    ),
    # These write to their last operand.
    "linalg.transpose": lambda lists, operands: operands[-1].shape,
    "linalg.broadcast": lambda lists, operands: operands[-1].shape,
    "linalg.generic": lambda lists, operands: operands[-1].shape,
}
"""Where the lengths of a result are, of the ops that do not have them from what they move."""


@contextmanager
def _at_run_time(op: Operation, operands: Sequence[TypedArray]) -> Generator[Operation]:
    """`op` itself if its types tell all lengths, or one like it whose types do."""
    ends = (*op.operand_types, *op.result_types)
    if not any(DYNAMIC in shape for shape in map(shape_of, ends) if shape is not None):
        yield op
        return
    lists = _filled_lists(op, operands)
    result, shape_in = op.result_types[0], _RESULT_SHAPES.get(name_of(op))
    if isinstance(op, ShapeOp):
        result = _with_shape(result, with_lengths_of_slots(uniform_tensor(result)))
    elif shape_in is not None:
        result = _with_shape(result, shape_in(lists, operands))
    arrays = {name: DenseArrayBase.from_list(i64, values) for name, values in lists.items()}
    known = type(op).create(
        operands=Block(arg_types=[operand.type for operand in operands]).args,
        result_types=[result],
        properties={name: arrays.get(name, held) for name, held in op.properties.items()},
        attributes={name: arrays.get(name, held) for name, held in op.attributes.items()},
        regions=[region.clone() for region in op.regions],
    )
    try:
        yield known
    finally:
        known.drop_all_references()


def _filled_lists(op: Operation, operands: Sequence[TypedArray]) -> _Lists:
    """The lists of integers, with the last operands for what is not known in them."""
    lists: dict[str, tuple[int, ...]] = {}
    for name in _STATIC_LISTS:
        if isinstance(attribute := find_attribute(op, name), DenseArrayBase):
            lists[name] = tuple(cast(DenseArrayBase[Any], attribute).get_values())
    unknown = sum(values.count(DYNAMIC) for values in lists.values())
    indices = iter(operands[len(operands) - unknown :])
    return {
        name: tuple(next(indices).__index__() if value == DYNAMIC else value for value in values)
        for name, values in lists.items()
    }


def _with_shape(type: Attribute, shape: Sequence[int]) -> Attribute:
    """`type` with a shape, unless it is of another rank."""
    tensor = cast(TensorType[Attribute], type)
    if not isinstance(type, TensorType) or len(shape) != tensor.get_num_dims():
        return cast(Attribute, type)
    return TensorType(tensor.element_type, shape, tensor.encoding)
