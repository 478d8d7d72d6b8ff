"""
Functions of shape ops of the quant dialect, with the values that numpy says they have.

They are what is lowered, run and verified by several tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from io import StringIO
from typing import Any, cast

import numpy as np
from hypothesis import HealthCheck
from hypothesis import strategies as st
from numpy.typing import NDArray
from own_ops import OWN_OPS, own_movements
from xdsl.context import Context
from xdsl.dialects import arith, tensor
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import (
    Builtin,
    IntegerType,
    ModuleOp,
    TensorType,
)
from xdsl.dialects.func import Func, FuncOp, ReturnOp
from xdsl.dialects.linalg import Linalg
from xdsl.dialects.tensor import Tensor
from xdsl.dialects.test import Test
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.parser import Parser

from qdialect.algebra.joins import Concat
from qdialect.algebra.movement import DYNAMIC, BroadcastInDim, Movement, Reshape, Shape
from qdialect.algebra.parameters import StorageFormat
from qdialect.dialects.quant import (
    ConstantOp,
    Quant,
    QuantizedTensor,
    ShapeOp,
    Storage,
    StorageCastOp,
    infer_result_type,
)
from qdialect.ir.elements import dense_elements
from qdialect.passes.lower_quant_shapes import LowerQuantShapesPass
from qdialect.testing.movements import numpy_moves
from qdialect.testing.tensors import INTEGERS, constants, cut, expanded, shapes
from qdialect.text.printer import MLIRPrinter

# An example is a module of several functions, which a tool reads at once.
LARGE_EXAMPLES = [HealthCheck.too_slow, HealthCheck.data_too_large]


def context() -> Context:
    made = Context()
    for dialect in (Builtin, Quant, Func, Test, Arith, Tensor, Linalg):
        made.load_dialect(dialect)
    return made


def text_of(module: ModuleOp, *, generic: bool = False) -> str:
    stream = StringIO()
    MLIRPrinter(stream=stream, print_generic_format=generic).print_op(module)
    return stream.getvalue()


def lower(module: ModuleOp) -> ModuleOp:
    """Verify, lower and verify again: nothing of what MLIR lacks is left."""
    module.verify()
    LowerQuantShapesPass().apply(context(), module)
    module.verify()
    assert not any(isinstance(op, ConstantOp | ShapeOp) for op in module.walk())
    return module


def parse(text: str) -> ModuleOp:
    return Parser(context(), text).parse_module()


@dataclass
class Value:
    """A value of a function, and what numpy says of it."""

    value: SSAValue
    integers: NDArray[Any]
    zero_points: NDArray[np.int64]


@dataclass
class Function:
    """A function under construction."""

    block: Block = field(default_factory=Block)

    def add(self, op: Operation) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]

    def storage(self, type: QuantizedTensor, integers: NDArray[np.int64], shape: Shape) -> SSAValue:
        """A quantized value of `shape`, with some lengths made dynamic by casts."""
        storage = IntegerType(type.element_type.storage_type.bitwidth)
        bits = cut(integers, StorageFormat(storage.bitwidth, signed=True))
        value = self.add(arith.ConstantOp(dense_elements(bits, storage)))
        value = self.add(tensor.CastOp(value, TensorType(storage, shape)))
        return self.add(StorageCastOp(value, TensorType(type.element_type, shape)))

    def move(
        self, movement: Movement, operands: Sequence[Value], hidden: Iterable[int] = ()
    ) -> Value:
        """`movement` to a result whose axes `hidden` have a length that is not known."""
        static = [
            TensorType(cast(QuantizedTensor, of.value.type).element_type, of.integers.shape)
            for of in operands
        ]
        inferred = infer_result_type(movement, Block(arg_types=static).args)
        shape = hide(inferred.get_shape(), hidden)
        op = OWN_OPS[type(movement)].of_movement(
            movement, [of.value for of in operands], TensorType(inferred.element_type, shape)
        )
        zero_points = numpy_moves(movement, *(of.zero_points for of in operands))
        moved = numpy_moves(movement, *(of.integers for of in operands), padding=zero_points)
        return Value(self.add(op), moved, zero_points)

    def finish(self, name: str, results: Sequence[SSAValue]) -> FuncOp:
        self.block.add_op(ReturnOp(*results))
        types = self.block.arg_types, [result.type for result in results]
        return FuncOp(name, types, Region(self.block))

    def finish_with_storage(self, name: str, value: Value) -> FuncOp:
        """Return the storage integers, so that no quantized type is left when lowered."""
        type = cast(QuantizedTensor, value.value.type)
        storage = TensorType(IntegerType(type.element_type.storage_type.bitwidth), type.get_shape())
        return self.finish(name, [self.add(StorageCastOp(value.value, storage))])


def hide(shape: Shape, axes: Iterable[int]) -> Shape:
    hidden = set(axes)
    return tuple(DYNAMIC if axis in hidden else length for axis, length in enumerate(shape))


@st.composite
def hidden_axes(draw: st.DrawFn, movement: Movement, operands: Sequence[Value]) -> list[int]:
    """Axes of a result whose lengths can be computed though the type does not tell them."""
    shape = numpy_moves(movement, *(of.integers for of in operands)).shape
    axes = draw(st.lists(st.sampled_from(range(len(shape))), unique=True)) if shape else []
    if isinstance(movement, Reshape):
        return axes[:1] if 0 not in shape else []
    if isinstance(movement, BroadcastInDim):
        declared = cast(QuantizedTensor, operands[0].value.type).get_shape()
        lengths = zip(movement.dims, operands[0].integers.shape, declared, strict=True)
        kept = {dim for dim, length, of in lengths if of != 1 and length == shape[dim]}
        return [axis for axis in axes if axis in kept]
    return axes


@st.composite
def sources(
    draw: st.DrawFn, function: Function, shape: Shape, storage: Storage, *, arguments: bool
) -> Value:
    """A constant, an argument if `arguments`, or what is not known to be a constant."""
    constant = draw(constants(shape, [storage]))
    type, integers = constant.type, constant.codes
    hidden = hide(shape, draw(st.lists(st.sampled_from(range(len(shape))))) if shape else [])
    match draw(st.sampled_from(["constant", "storage", "argument"][: 2 + arguments])):
        case "constant":
            value = function.add(constant.op())
        case "storage":
            value = function.storage(type, integers, hidden)
        case _:
            block, position = function.block, len(function.block.args)
            value = block.insert_arg(TensorType(type.element_type, hidden), position)
    return Value(value, integers, expanded(constant.parameters)[1])


@st.composite
def chains(draw: st.DrawFn, function: Function, *, arguments: bool) -> list[Value]:
    """Values, each but the first moved from the one before."""
    storage = Storage.of_format(draw(st.sampled_from(INTEGERS)))
    shape = draw(shapes(max_rank=4))
    values = [draw(sources(function, shape, storage, arguments=arguments))]
    for _ in range(draw(st.integers(1, 3))):
        last = values[-1]
        shape = last.integers.shape
        if last.integers.size > 500:
            break
        operands = [last]
        if shape and draw(st.integers(0, 4)) == 0:
            axis = draw(st.integers(0, len(shape) - 1))
            other_shape = (*shape[:axis], draw(st.integers(1, 3)), *shape[axis + 1 :])
            operands.append(draw(sources(function, other_shape, storage, arguments=arguments)))
            movement: Movement = Concat(axis)
        else:
            movement = draw(own_movements(shape))
        values.append(function.move(movement, operands, draw(hidden_axes(movement, operands))))
    return values
