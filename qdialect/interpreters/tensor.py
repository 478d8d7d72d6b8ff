"""
The ops of tensor and linalg that do more, or less, than to move elements.

https://mlir.llvm.org/docs/Dialects/TensorOps/, https://mlir.llvm.org/docs/Dialects/Linalg/.
The body of `linalg.generic` is run once, for all positions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import tensor
from xdsl.dialects.builtin import AffineMapAttr, IntegerAttr, TensorType
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
from xdsl.ir.affine import AffineDimExpr
from xdsl.utils.exceptions import InterpretationError

from qdialect.interpreters.movements import MAX_ELEMENTS
from qdialect.interpreters.values import (
    TypedArray,
    at_all_positions,
    dtype_of,
    operands_of,
    value_of,
)
from qdialect.movement import DYNAMIC, Shape

_Indices = tuple[NDArray[np.int64], ...]


def _shape_of(type: Attribute, lengths: Sequence[TypedArray]) -> Shape:
    """The shape of a tensor type, with `lengths` for those that it does not tell."""
    missing = iter(lengths)
    shape = cast(TensorType[Attribute], type).get_shape()
    known = tuple(next(missing).__index__() if n == DYNAMIC else n for n in shape)
    if any(length < 0 for length in known) or math.prod(known) > MAX_ELEMENTS:
        raise InterpretationError(f"there is no tensor of shape {list(known)}")
    return known


def _within(indices: _Indices, shape: Shape) -> _Indices:
    """`indices`, if they are of positions of a tensor. Raises InterpretationError."""
    for index, length in zip(indices, shape, strict=True):
        if ((index < 0) | (index >= length)).any():
            raise InterpretationError(f"an index is not one of {length} positions")
    return indices


@register_impls
@dataclass
class TensorFunctions(InterpreterFunctions):
    """The ops, on values that are `TypedArray`s. They raise InterpretationError."""

    _positions: list[_Indices] = field(default_factory=list[_Indices])
    """The positions that the ops of `linalg.generic` are run for, the innermost last."""

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
        (at,) = _within((axis.numbers,), (len(value.shape),))
        lengths = np.array(value.shape, dtype=np.int64)[at]
        return (TypedArray.of_numbers(np.asarray(lengths), op.results[0].type),)

    @impl(tensor.EmptyOp)
    def run_empty(
        self, interpreter: Interpreter, op: tensor.EmptyOp, args: PythonValues
    ) -> PythonValues:
        """Zeros, though any elements would do."""
        type = cast(TensorType[Attribute], op.results[0].type)
        shape = _shape_of(type, operands_of(op, args))
        return (TypedArray.of(np.zeros(shape, dtype_of(type.element_type)), type),)

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
        at = _within(tuple(index.numbers for index in indices), value.shape)
        element = np.asarray(value.elements[at])
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
        if any(kind.data is not IteratorType.PARALLEL for kind in op.iterator_types):
            raise InterpretationError("only parallel loops are run")
        values = operands_of(op, args)
        maps = op.indexing_maps.data
        grid = np.indices(_lengths_of_loops(maps, [value.shape for value in values]), sparse=True)
        loops = np.broadcast_shapes(*(axis.shape for axis in grid)) if grid else ()
        read: list[TypedArray] = []
        positions: list[_Indices] = []
        for value, map in zip(values, maps, strict=True):
            at = tuple(
                np.broadcast_to(np.asarray(of.eval(cast(Any, grid), ())), loops)
                for of in map.data.results
            )
            positions.append(_within(at, value.shape))
            elements = np.broadcast_to(value.elements[at], loops)
            type = TensorType(value.element_type, loops) if loops else value.element_type
            read.append(TypedArray.of(elements, type))
        self._positions.append(tuple(np.broadcast_to(axis, loops) for axis in grid))
        try:
            yielded = interpreter.run_ssacfg_region(op.body, tuple(read), op.name)
        finally:
            self._positions.pop()
        first = len(values) - len(op.results)
        results: list[TypedArray] = []
        for number, element in enumerate(yielded):
            written = values[first + number].elements.copy()
            body_type = op.body.block.args[first + number].type
            written[positions[first + number]] = value_of(element, body_type).elements
            results.append(TypedArray.of(written, op.results[number].type))
        return tuple(results)

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


def _lengths_of_loops(maps: Sequence[AffineMapAttr], shapes: Sequence[Shape]) -> Shape:
    """How often each loop is run, as the operands that are read at its index tell."""
    lengths: dict[int, int] = {}
    for map, shape in zip(maps, shapes, strict=True):
        for expression, length in zip(map.data.results, shape, strict=True):
            if not isinstance(expression, AffineDimExpr):
                continue
            if lengths.setdefault(expression.position, length) != length:
                raise InterpretationError("its operands do not fit each other")
    count = maps[0].data.num_dims
    if set(range(count)) - lengths.keys():
        raise InterpretationError("nothing tells the length of a loop")
    return tuple(lengths[loop] for loop in range(count))
