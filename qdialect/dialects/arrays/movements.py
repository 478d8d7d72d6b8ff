"""Running shape ops, casts and constants of any dialect by their models."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
    UnregisteredAttr,
    i64,
)
from xdsl.interpreter import Interpreter
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import InterpretationError

from qdialect.algebra.movement import (
    DYNAMIC,
    BroadcastInDim,
    Chain,
    Movement,
    Reshape,
    Reverse,
    Shape,
    Slice,
    Transpose,
)
from qdialect.algebra.padding import (
    Pad,
    Padding,
    PadWith,
    StorageRange,
    Stored,
    ZeroPoint,
    check_padding,
    padding_of_codes,
)
from qdialect.algebra.parameters import QuantizationParameters
from qdialect.algebra.views import ArrayView, Splat
from qdialect.dialects.arrays.values import (
    MIN_COUNTED,
    TypedArray,
    TypedArrays,
    allocated,
    computed,
    reinterpreted,
    require_possible,
    temporary_memory,
    value_of,
    without_repeats,
)
from qdialect.dialects.quant.shape_ops import ShapeOp
from qdialect.dialects.quant.storage import StoredType
from qdialect.dialects.quant.types import UniformQuantizedType, uniform_tensor
from qdialect.dialects.quant.verification import verify_movement, with_lengths_of_slots
from qdialect.ir.elements import element_dtype, in_width
from qdialect.ir.resources import ResourceBlobs
from qdialect.ir.value_types import shape_of
from qdialect.ops.elementwise import operand_movements, read_elementwise, values_of
from qdialect.ops.fields import Movements, RunTimeOperands, ShapeOpModel
from qdialect.ops.interface import (
    Refusal,
    RefusalCode,
    as_integers,
    find_attribute,
    held_elements,
    integers_in_list,
    is_list,
    items_of,
    op_model,
)
from qdialect.ops.reading import Constants


def run_arithmetic(op: Operation, args: Sequence[Any]) -> TypedArray:
    """
    The result of arithmetic that the shape-op interface reads as a term.

    Raises InterpretationError, Refusal and MovementError.
    """
    values, result = _held_by(op, args), op.results[0].type
    read = read_elementwise(op, _OperandValues(values))
    shape = shape_of(result)
    if shape is None or DYNAMIC in shape:
        raise InterpretationError("the shape of its result is not static")
    operands: list[TypedArray] = []
    for number, operand in enumerate(read.operands):
        value = values[operand]
        array = value.elements
        for movement in operand_movements(read, number, array.shape, shape):
            moved_shape = movement.result_shape(array.shape)
            require_possible(moved_shape)
            array = _moved(movement, [array], moved_shape, None)
        operands.append(TypedArray(array, value.element_type))

    def compute(*values: TypedArray) -> NDArray[Any]:
        return values_of(read.term, [value.numbers for value in values])

    return computed(compute, operands, result)


def run_constant(op: Operation, resources: ResourceBlobs) -> TypedArray:
    """The value of a constant op. Raises InterpretationError and Refusal."""
    attribute, declared = held_elements(op), op.results[0].type
    if isinstance(attribute, IntegerAttr | FloatAttr):
        type = cast(Any, attribute.type)
        packed = type.pack([attribute.value.data])
        element = in_width(np.frombuffer(packed, dtype=element_dtype(type)), type)
        scalar = TypedArray.of(element.reshape(()), type)
        # An integer of torch has no width in its type.
        return scalar if isinstance(declared, UnregisteredAttr) else reinterpreted(scalar, declared)
    if not isinstance(attribute, DenseIntOrFPElementsAttr | DenseResourceAttr):
        raise InterpretationError("its value does not consist of numbers")
    elements = Constants(resources).elements(op)
    if not isinstance(elements, np.ndarray):
        require_possible(elements.shape)
        elements = np.broadcast_to(np.asarray(elements.value), elements.shape)
    value = TypedArray.of(elements, cast(Attribute, cast(Any, attribute).type))
    # A `!tosa.shape` is not a tensor.
    is_tensor = isinstance(declared, TensorType)
    return reinterpreted(value, cast(Attribute, declared)) if is_tensor else value


def run_shape_op(
    interpreter: Interpreter,
    op: Operation,
    model: ShapeOpModel,
    args: Sequence[Any],
    steps: list[Callable[[Sequence[NDArray[Any]]], NDArray[Any]]] | None = None,
) -> TypedArray:
    """
    The result of a shape op: its operands, moved by the movements that its model reads.

    Dynamic lengths are taken from the operands. If there is a list for them, the movements of the
    first operand are added to it, unless the op moves others too. Raises
    InterpretationError, Refusal, MovementError and VerifyException.
    """
    by_operand = _held_by(op, args)
    operands = [by_operand[operand] for operand in op.operands if operand in by_operand]
    declared = op.results[0].type
    with _at_run_time(op, operands) as known:
        if known is not op:
            by_operand = dict(zip(known.operands, operands, strict=True))
        values = _OperandValues(by_operand)
        read = model(known, values)
        moved = [values.values[operand] for operand in read.operands]
        types = dict(zip(known.operands, op.operand_types, strict=True))
        types_moved = [types.get(operand, operand.type) for operand in read.operands]
        padding = _padding(interpreter, op, read, values)
    arrays = [operand.elements for operand in moved]
    movements: list[Movement] = []
    declared_shapes = [shape_of(type) or () for type in types_moved]
    for movement in read.movements:
        shapes = [array.shape for array in arrays]
        movement = _with_lengths(movement, shapes, shapes if movements else declared_shapes)
        shape = movement.result_shape(*shapes)
        require_possible(shape)
        if isinstance(movement, PadWith) and padding is not None:
            movement = replace(movement, padded_with=_padded_with(padding, moved[0]))
        elif isinstance(movement, Pad) and isinstance(movement.padding, ZeroPoint):
            movement = _with_zero(movement, moved[0])
        movements.append(movement)
        parameters = None
        if isinstance(movement, Pad) and not isinstance(movement.padding, Stored):
            parameters = Chain.of(movements)(*(operand.parameters for operand in moved))
            check_padding(movement, parameters, [_storage_range(moved[0])])
        arrays = [_moved(movement, arrays, shape, parameters)]
        if steps is not None and [*moved] == [args[0]]:
            steps.append(partial(_moved, movement, shape=shape, parameters=parameters))
    result = TypedArray.of(arrays[0], declared)
    if isinstance(op, ShapeOp) and known is not op:
        # The verifier could not check this without the lengths.
        types = [uniform_tensor(value.type) for value in (*operands, result)]
        verify_movement(op.movement_to(result.shape), types[:-1], types[-1])
    return result


def _held_by(op: Operation, args: Sequence[Any]) -> dict[SSAValue, TypedArray]:
    """The operands of `op`, with the elements of lists in place of these."""
    values: dict[SSAValue, TypedArray] = {}
    for operand, arg in zip(op.operands, args, strict=True):
        if isinstance(arg, tuple):
            values |= zip(items_of(operand), cast("tuple[TypedArray, ...]", arg), strict=True)
        else:
            values[operand] = value_of(arg, operand.type)
    return values


def _moved(
    movement: Movement,
    arrays: Sequence[NDArray[Any]],
    shape: Shape,
    parameters: QuantizationParameters | None,
) -> NDArray[Any]:
    """The elements of the result, of `shape`: a view if the movement is one."""
    splats = [splat for splat in map(_as_splat, arrays) if splat is not None]
    if len(splats) == len(arrays) and movement.keeps_splats(splats, parameters):
        return np.broadcast_to(np.asarray(splats[0].value), shape)
    views = [ArrayView.of(array) for array in arrays]

    def move() -> NDArray[Any]:
        # Indexing an array of rank 0 returns a scalar.
        return np.asarray(movement.move_views(views, parameters).array())

    if isinstance(movement, _VIEWS):
        return move()
    return allocated(move, math.prod(shape) * arrays[0].dtype.itemsize, arrays)


_VIEWS: Final = (Transpose, Slice, BroadcastInDim, Reverse)
"""The movements whose result is a view of the operand."""


def _as_splat(array: NDArray[Any]) -> Splat | None:
    """A splat, if all positions of a large array share one element in memory."""
    if array.nbytes < MIN_COUNTED or without_repeats(array).size != 1:
        return None
    return Splat(without_repeats(array).reshape(-1)[0], array.shape)


@dataclass(frozen=True)
class _OperandValues:
    """The operands of an op that is run, as its model reads them: all elements are known."""

    values: Mapping[SSAValue, TypedArray]

    def integers(self, value: SSAValue) -> NDArray[np.integer[Any]]:
        """The elements of an operand. Raises Refusal if `value` is not an operand."""
        if value not in self.values:
            if isinstance(owner := value.owner, Operation) and is_list(owner):
                return integers_in_list(owner, self)
            raise Refusal(RefusalCode.UNKNOWN_OP, "it is read with a value that is not an operand")
        operand = self.values[value]
        with temporary_memory(operand.elements.size * _INTEGER_BYTES):
            return _integers(operand)


_INTEGER_BYTES: Final = 8
"""The bytes of an integer in the arrays that models read."""


def _integers(value: TypedArray) -> NDArray[np.integer[Any]]:
    """The elements of a value: see `integers_in`. Raises Refusal."""
    return as_integers(value.numbers, value.element_type)


def _padding(
    interpreter: Interpreter, op: Operation, read: Movements, values: _OperandValues
) -> TypedArray | None:
    """The padding element of `op`: an operand, or the value that its region yields."""
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


def _storage_range(value: TypedArray) -> StorageRange:
    """The storage range of a quantized value."""
    type = cast(StoredType, value.element_type)
    return StorageRange(type.storage_format, type.storage_type_min, type.storage_type_max)


def _with_zero(movement: Pad, operand: TypedArray) -> Pad:
    """Padding with real zero, which is the number 0 unless `operand` is quantized."""
    if isinstance(operand.element_type, StoredType):
        return movement
    zero = Stored(operand.elements.dtype.type(0))
    return PadWith(movement.low, movement.high, movement.gaps, zero)


def _padded_with(element: TypedArray, operand: TypedArray) -> Padding:
    """The padding value given by `element`, for new positions of `operand`."""
    if element.elements.size != 1:
        raise InterpretationError(f"it pads with {element.elements.size} elements")
    types = element.element_type, operand.element_type
    if all(isinstance(type, UniformQuantizedType) for type in types):
        given, wanted = cast(tuple[UniformQuantizedType, UniformQuantizedType], types)
        code = element.elements.reshape(-1)[0]
        same = given.has_same_values_as(wanted)
        parameters = element.parameters, operand.parameters
        return padding_of_codes(code, *parameters, is_same_storage=same)
    stored = [isinstance(type, StoredType | IntegerType) for type in types]
    if types[0] != types[1] and not all(stored):
        raise InterpretationError(f"'{types[1]}' is padded with an element of type '{types[0]}'")
    same = reinterpreted(element, TensorType(types[1], element.shape))
    return Stored(same.elements.reshape(-1)[0])


def _with_lengths(
    movement: Movement, operands: Sequence[Shape], declared: Sequence[Shape]
) -> Movement:
    """
    `movement` with the dynamic lengths of its result filled in from its operand.

    An axis that is dynamic in the types of both keeps its length, even if that is 1. Raises
    InterpretationError if a length stays unknown.
    """
    if not isinstance(movement, Reshape | BroadcastInDim) or DYNAMIC not in movement.shape:
        return movement
    (operand,), shape = operands, list(movement.shape)
    if isinstance(movement, BroadcastInDim):
        for axis, (length, dim) in enumerate(zip(operand, movement.dims, strict=True)):
            if shape[dim] == DYNAMIC and (length != 1 or declared[0][axis] == DYNAMIC):
                shape[dim] = length
    elif shape.count(DYNAMIC) == 1:
        known = math.prod(length for length in shape if length != DYNAMIC)
        if known and math.prod(operand) % known == 0:
            shape[shape.index(DYNAMIC)] = math.prod(operand) // known
    if DYNAMIC in shape:
        raise InterpretationError("the lengths of its result cannot be determined")
    return movement.to(tuple(shape))


# Models read lengths from types and attributes, whose dynamic lengths are filled in here.


@contextmanager
def _at_run_time(op: Operation, operands: TypedArrays) -> Generator[Operation]:
    """`op` itself if its types are static, or else a copy whose types are."""
    ends = (*op.operand_types, *op.result_types)
    if not any(DYNAMIC in shape for shape in map(shape_of, ends) if shape is not None):
        yield op
        return
    if len(operands) != len(op.operands):
        raise InterpretationError("it has lists, and lengths that depend on its operands")
    model, result = op_model(op), op.result_types[0]
    lists = _filled_lists(op, operands, model.static_lists)
    if isinstance(op, ShapeOp):
        result = _with_shape(result, with_lengths_of_slots(uniform_tensor(result)))
    elif model.run_time_shape is not None:
        read = RunTimeOperands(
            op, lists, lambda at: operands[at].shape, lambda at: _integers(operands[at])
        )
        result = _with_shape(result, model.run_time_shape(read))
    arrays = {name: DenseArrayBase.from_list(i64, values) for name, values in lists.items()}
    known = type(op).create(
        operands=Block(arg_types=[operand.type for operand in operands]).args,
        result_types=[result],
        properties={name: arrays.get(name, attribute) for name, attribute in op.properties.items()},
        attributes={name: arrays.get(name, attribute) for name, attribute in op.attributes.items()},
        regions=[region.clone() for region in op.regions],
    )
    try:
        yield known
    finally:
        known.drop_all_references()


def _filled_lists(
    op: Operation, operands: TypedArrays, names: Sequence[str]
) -> Mapping[str, tuple[int, ...]]:
    """
    The lists of integers in the attributes `names`, with DYNAMIC entries replaced by the last
    operands.
    """
    lists: dict[str, tuple[int, ...]] = {}
    for name in names:
        if isinstance(attribute := find_attribute(op, name), DenseArrayBase):
            lists[name] = tuple(cast(DenseArrayBase[Any], attribute).get_values())
    unknown = sum(values.count(DYNAMIC) for values in lists.values())
    indices = iter(operands[len(operands) - unknown :])
    return {
        name: tuple(next(indices).__index__() if value == DYNAMIC else value for value in values)
        for name, values in lists.items()
    }


def _with_shape(type: Attribute, shape: Sequence[int]) -> Attribute:
    """`type` with another shape; `type` itself if it is not a tensor of that rank."""
    tensor = cast(TensorType[Attribute], type)
    if not isinstance(type, TensorType) or len(shape) != tensor.get_num_dims():
        return cast(Attribute, type)
    return TensorType(tensor.element_type, shape, tensor.encoding)
