"""Functions that compute ops of tensor on arrays: https://mlir.llvm.org/docs/Dialects/TensorOps/."""

from __future__ import annotations

import numpy as np
from xdsl.interpreter import Interpreter
from xdsl.ir import Attribute, Operation

from qdialect.algebra.movement import DYNAMIC, Shape
from qdialect.dialects.arrays.places import elements_at, within
from qdialect.dialects.arrays.values import (
    TypedArray,
    TypedArrays,
    at_all_positions,
    dtype_of,
    require_possible,
)
from qdialect.ir.value_types import element_type_or_self, shape_of


def _shape_of(type: Attribute, lengths: TypedArrays) -> Shape:
    """The shape of a tensor type, with its dynamic lengths given by `lengths`."""
    missing = iter(lengths)
    shape = shape_of(type) or ()
    known = tuple(next(missing).__index__() if n == DYNAMIC else n for n in shape)
    require_possible(known)
    return known


def cast(_: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    return [TypedArray.of(operands[0].elements, op.results[0].type)]


def dim(_: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    value, axis = operands
    (at,) = within((axis.numbers,), (len(value.shape),))
    lengths = np.array(value.shape, dtype=np.int64)[at]
    return [TypedArray.of_numbers(np.asarray(lengths), op.results[0].type)]


def empty(_: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    """Zeros; any elements would be correct."""
    type = op.results[0].type
    zero = np.zeros((), dtype_of(element_type_or_self(type)))
    return [TypedArray.of(np.broadcast_to(zero, _shape_of(type, operands)), type)]


def splat(_: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    (element, *lengths), type = operands, op.results[0].type
    return [TypedArray.of(np.broadcast_to(element.elements, _shape_of(type, lengths)), type)]


def from_elements(_: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    type = op.results[0].type
    elements = [value.elements for value in operands]
    array = np.array(elements, dtype=dtype_of(element_type_or_self(type)))
    return [TypedArray.of(array.reshape(shape_of(type) or ()), type)]


def extract(_: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    value, *indices = operands
    element = elements_at(value.elements, tuple(index.numbers for index in indices))
    return [TypedArray.of(element, at_all_positions(op.results[0].type, element.shape))]
