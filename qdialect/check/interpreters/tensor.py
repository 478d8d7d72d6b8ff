"""
The ops of tensor and linalg that are not shape ops.

https://mlir.llvm.org/docs/Dialects/TensorOps/, https://mlir.llvm.org/docs/Dialects/Linalg/.
The body of `linalg.generic` is run once, vectorized over all positions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import tensor
from xdsl.dialects.builtin import IntegerAttr, TensorType
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.dialects.linalg.ops import FillOp, GenericOp, IndexOp, YieldOp
from xdsl.interpreter import (
    Interpreter,
    InterpreterFunctions,
    PythonValues,
    ReturnedValues,
    TerminatorValue,
    impl,
    impl_terminator,
    register_impls,
)
from xdsl.ir import Attribute

from qdialect.algebra.movement import DYNAMIC, Shape
from qdialect.check.interpreters.generic import GenericRun, run_generic
from qdialect.check.interpreters.loops import Access, Indices, lengths_of_loops, within
from qdialect.check.interpreters.memory import allocated, require_possible, temporary_memory
from qdialect.check.interpreters.movements import run_shape_op
from qdialect.check.interpreters.values import (
    TypedArray,
    at_all_positions,
    dtype_of,
    operands_of,
    value_of,
)
from qdialect.dialects.quant.slots import Granularity
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.ops.interface import model_of
from qdialect.ops.models import ShapeOpModel


def _shape_of(type: Attribute, lengths: Sequence[TypedArray]) -> Shape:
    """The shape of a tensor type, with its dynamic lengths given by `lengths`."""
    missing = iter(lengths)
    shape = cast(TensorType[Attribute], type).get_shape()
    known = tuple(next(missing).__index__() if n == DYNAMIC else n for n in shape)
    require_possible(known)
    return known


@register_impls
@dataclass
class TensorFunctions(InterpreterFunctions):
    """The ops of tensor and linalg on `TypedArray`s. They raise InterpretationError."""

    _positions: list[Indices] = field(default_factory=list[Indices])
    """
    A stack of the positions for which enclosing `linalg.generic` bodies are run, innermost
    last.
    """

    @impl(tensor.CastOp)
    def run_cast(
        self, interpreter: Interpreter, op: tensor.CastOp, args: PythonValues
    ) -> PythonValues:
        (value,) = operands_of(op, args)
        return (TypedArray.of(value.elements, op.results[0].type),)

    @impl(tensor.DimOp)
    def run_dim(
        self, interpreter: Interpreter, op: tensor.DimOp, args: PythonValues
    ) -> PythonValues:
        value, axis = operands_of(op, args)
        (at,) = within((axis.numbers,), (len(value.shape),))
        lengths = np.array(value.shape, dtype=np.int64)[at]
        return (TypedArray.of_numbers(np.asarray(lengths), op.results[0].type),)

    @impl(tensor.EmptyOp)
    def run_empty(
        self, interpreter: Interpreter, op: tensor.EmptyOp, args: PythonValues
    ) -> PythonValues:
        """Zeros; any elements would be correct."""
        type = cast(TensorType[Attribute], op.results[0].type)
        shape = _shape_of(type, operands_of(op, args))
        zeros = np.broadcast_to(np.zeros((), dtype_of(type.element_type)), shape)
        return (TypedArray.of(zeros, type),)

    @impl(tensor.SplatOp)
    def run_splat(
        self, interpreter: Interpreter, op: tensor.SplatOp, args: PythonValues
    ) -> PythonValues:
        element, *lengths = operands_of(op, args)
        shape = _shape_of(op.results[0].type, lengths)
        return (TypedArray.of(np.broadcast_to(element.elements, shape), op.results[0].type),)

    @impl(tensor.FromElementsOp)
    def run_from_elements(
        self, interpreter: Interpreter, op: tensor.FromElementsOp, args: PythonValues
    ) -> PythonValues:
        type = cast(TensorType[Attribute], op.results[0].type)
        elements = [value.elements for value in operands_of(op, args)]
        array = np.array(elements, dtype=dtype_of(type.element_type)).reshape(type.get_shape())
        return (TypedArray.of(array, type),)

    @impl(tensor.ExtractOp)
    def run_extract(
        self, interpreter: Interpreter, op: tensor.ExtractOp, args: PythonValues
    ) -> PythonValues:
        value, *indices = operands_of(op, args)
        count = math.prod(np.broadcast_shapes(*(index.shape for index in indices)))
        with temporary_memory(count * 8 * len(indices)):
            at = within(tuple(index.numbers for index in indices), value.shape)
            nbytes = count * value.elements.dtype.itemsize
            element = allocated(lambda: np.asarray(value.elements[at]), nbytes)
        return (TypedArray.of(element, at_all_positions(op.results[0].type, element.shape)),)

    @impl(FillOp)
    def run_fill(self, interpreter: Interpreter, op: FillOp, args: PythonValues) -> PythonValues:
        (element, *_, destination) = operands_of(op, args)
        return tuple(
            TypedArray.of(np.broadcast_to(element.elements, destination.shape), result.type)
            for result in op.results
        )

    @impl(GenericOp)
    def run_generic(
        self, interpreter: Interpreter, op: GenericOp, args: PythonValues
    ) -> PythonValues:
        values = operands_of(op, args)
        if any(_reads_several_slots(value.element_type) for value in values):
            # Elements in loop order have no quantized type, as that names axes of the operand.
            model = cast(ShapeOpModel, model_of(op))
            return (run_shape_op(interpreter, op, model, args),)
        maps = [map.data for map in op.indexing_maps.data]
        loops = lengths_of_loops(maps, [value.shape for value in values])
        require_possible(loops)
        grid = tuple(np.indices(loops, sparse=True))
        accesses = [Access(map, grid, loops) for map in maps]
        run = GenericRun(
            values,
            accesses,
            [access.read(value.elements) for value, access in zip(values, accesses, strict=True)],
            tuple(np.broadcast_to(axis, loops) for axis in grid),
            [
                at
                for at, kind in enumerate(op.iterator_types)
                if kind.data is not IteratorType.PARALLEL
            ],
            partial(self._run_body, interpreter, op),
        )
        return run_generic(op, run)

    def _run_body(
        self, interpreter: Interpreter, op: GenericOp, arrays: Sequence[NDArray[Any]], at: Indices
    ) -> list[NDArray[Any]]:
        """The elements that the body yields for those of `arrays`, at the positions `at`."""
        arguments = op.body.block.args
        given = [
            TypedArray.of(array, at_all_positions(argument.type, array.shape))
            for array, argument in zip(arrays, arguments, strict=True)
        ]
        self._positions.append(at)
        try:
            yielded = interpreter.run_ssacfg_region(op.body, tuple(given), op.name)
        finally:
            self._positions.pop()
        types = [argument.type for argument in arguments[len(arguments) - len(yielded) :]]
        return [value_of(value, type).elements for value, type in zip(yielded, types, strict=True)]

    @impl(IndexOp)
    def run_index(self, interpreter: Interpreter, op: IndexOp, args: PythonValues) -> PythonValues:
        axis = cast("IntegerAttr[Any]", op.dim).value.data
        indices = self._positions[-1][axis]
        return (TypedArray.of(indices, at_all_positions(op.results[0].type, indices.shape)),)

    @impl_terminator(YieldOp)
    def run_yield(
        self, interpreter: Interpreter, op: YieldOp, args: PythonValues
    ) -> tuple[TerminatorValue, PythonValues]:
        return ReturnedValues(args), ()

    @impl_terminator(tensor.YieldOp)
    def run_tensor_yield(
        self, interpreter: Interpreter, op: tensor.YieldOp, args: PythonValues
    ) -> tuple[TerminatorValue, PythonValues]:
        return ReturnedValues(args), ()


def _reads_several_slots(element: Attribute) -> bool:
    """Whether elements of this type may have different slots."""
    is_uniform = isinstance(element, UniformQuantizedType)
    return is_uniform and element.granularity is not Granularity.PER_TENSOR
