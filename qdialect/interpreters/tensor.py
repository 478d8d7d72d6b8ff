"""
The ops of tensor and linalg that are not shape ops.

https://mlir.llvm.org/docs/Dialects/TensorOps/, https://mlir.llvm.org/docs/Dialects/Linalg/.
The body of `linalg.generic` is run once, vectorized over all positions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
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
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.utils.exceptions import InterpretationError

from qdialect.algebra.movement import DYNAMIC, Shape
from qdialect.dialects.quant.slot_arrays import Granularity
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.interpreters.memory import allocated, require_possible, temporary_memory
from qdialect.interpreters.movements import run_shape_op
from qdialect.interpreters.values import (
    TypedArray,
    at_all_positions,
    dtype_of,
    operands_of,
    value_of,
)
from qdialect.shape_ops.interface import ShapeOpModel, model_of

_Indices = tuple[NDArray[np.int64], ...]


def _shape_of(type: Attribute, lengths: Sequence[TypedArray]) -> Shape:
    """The shape of a tensor type, with its dynamic lengths given by `lengths`."""
    missing = iter(lengths)
    shape = cast(TensorType[Attribute], type).get_shape()
    known = tuple(next(missing).__index__() if n == DYNAMIC else n for n in shape)
    require_possible(known)
    return known


def _within(indices: _Indices, shape: Shape) -> _Indices:
    """`indices` after a bounds check against `shape`. Raises InterpretationError."""
    for index, length in zip(indices, shape, strict=True):
        if ((index < 0) | (index >= length)).any():
            raise InterpretationError(f"an index is not one of {length} positions")
    return indices


@register_impls
@dataclass
class TensorFunctions(InterpreterFunctions):
    """The ops of tensor and linalg on `TypedArray`s. They raise InterpretationError."""

    _positions: list[_Indices] = field(default_factory=list[_Indices])
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
        (at,) = _within((axis.numbers,), (len(value.shape),))
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
            at = _within(tuple(index.numbers for index in indices), value.shape)
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
        if any(kind.data is not IteratorType.PARALLEL for kind in op.iterator_types):
            raise InterpretationError("only parallel loops are run")
        values = operands_of(op, args)
        if any(_reads_several_slots(value.element_type) for value in values):
            # Elements in loop order have no quantized type, as that names axes of the operand.
            model = cast(ShapeOpModel, model_of(op))
            return (run_shape_op(interpreter, op, model, args),)
        maps = [map.data for map in op.indexing_maps.data]
        loops = _lengths_of_loops(maps, [value.shape for value in values])
        require_possible(loops)
        grid = tuple(np.indices(loops, sparse=True))
        accesses = [_Access(map, grid, loops) for map in maps]
        read: list[TypedArray] = []
        for value, access in zip(values, accesses, strict=True):
            elements = access.read(value.elements)
            type = TensorType(value.element_type, loops) if loops else value.element_type
            read.append(TypedArray.of(elements, type))
        self._positions.append(tuple(np.broadcast_to(axis, loops) for axis in grid))
        try:
            yielded = interpreter.run_ssacfg_region(op.body, tuple(read), op.name)
        finally:
            self._positions.pop()
        first = len(values) - len(op.results)
        results: list[TypedArray] = []
        for number, element in enumerate(yielded, start=first):
            elements = value_of(element, op.body.block.args[number].type).elements
            written = accesses[number].write(elements, values[number].elements)
            results.append(TypedArray.of(written, op.results[number - first].type))
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


def _reads_several_slots(element: Attribute) -> bool:
    """Whether elements of this type may have different slots."""
    is_uniform = isinstance(element, UniformQuantizedType)
    return is_uniform and element.granularity is not Granularity.PER_TENSOR


class _Access:
    """The mapping from the loops of `linalg.generic` to the elements of an operand."""

    def __init__(self, map: AffineMap, grid: _Indices, loops: Shape) -> None:
        self._map, self._grid, self._loops = map, grid, loops
        results = map.results
        self._dims = [of.position for of in results if isinstance(of, AffineDimExpr)]
        self._is_plain = len(set(self._dims)) == len(results)
        """Whether the map is a projected permutation: each axis of the operand is another loop."""

    def read(self, elements: NDArray[Any]) -> NDArray[Any]:
        """The element that each iteration reads: an array of the shape of the loops."""
        if self._is_plain:
            order = sorted(range(len(self._dims)), key=self._dims.__getitem__)
            lengths = [n if at in self._dims else 1 for at, n in enumerate(self._loops)]
            return np.broadcast_to(elements.transpose(order).reshape(lengths), self._loops)
        with temporary_memory(self._size_of_positions):
            at = self._positions(elements.shape)
            nbytes = math.prod(self._loops) * elements.dtype.itemsize
            return allocated(lambda: np.asarray(elements[at]), nbytes)

    def write(self, elements: NDArray[Any], target: NDArray[Any]) -> NDArray[Any]:
        """`target` with the elements that the iterations have computed."""
        elements = np.broadcast_to(elements, self._loops)
        if self._is_plain and len(self._dims) == len(self._loops):
            return elements.transpose(self._dims)
        written = allocated(target.copy, target.nbytes)
        with temporary_memory(self._size_of_positions):
            written[self._positions(target.shape)] = elements
        return written

    @property
    def _size_of_positions(self) -> int:
        """The bytes of the index arrays and of their temporary arrays."""
        return math.prod(self._loops) * 8 * (len(self._map.results) + 2)

    def _positions(self, shape: Shape) -> _Indices:
        indices = tuple(
            np.broadcast_to(np.asarray(of.eval(cast(Any, self._grid), ())), self._loops)
            for of in self._map.results
        )
        return _within(indices, shape)


def _lengths_of_loops(maps: Sequence[AffineMap], shapes: Sequence[Shape]) -> Shape:
    """
    The trip count of each loop, from the shapes of the operands indexed by it. Raises
    InterpretationError.
    """
    lengths: dict[int, int] = {}
    for map, shape in zip(maps, shapes, strict=True):
        for expression, length in zip(map.results, shape, strict=True):
            if not isinstance(expression, AffineDimExpr):
                continue
            if lengths.setdefault(expression.position, length) != length:
                raise InterpretationError("its operands do not fit each other")
    count = maps[0].num_dims
    if set(range(count)) - lengths.keys():
        raise InterpretationError("the length of a loop cannot be determined")
    return tuple(lengths[loop] for loop in range(count))
