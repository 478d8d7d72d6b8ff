"""Random modules of constants and shape ops, with the results that numpy finds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, TensorType, UnknownLoc, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.rewriter import InsertPoint

from qdialect.algebra.joins import Concat
from qdialect.algebra.movement import BroadcastInDim, Movement, Reshape, Slice, Transpose
from qdialect.dialects.quant import DequantizeCastOp, Storage
from qdialect.lowering.storage_ops import StorageBuilder, move_elements
from qdialect.testing.movements import numpy_moves, unary_movements
from qdialect.testing.tensors import STORAGES, constants, shapes

_MOVES: Final = (BroadcastInDim, Reshape, Slice, Transpose)
"""Movements for which `tensor` and `linalg` have ops."""

_NARROW: Final = [storage for storage in STORAGES if storage.format.width <= 16]
"""With more bits, a run rounds a number once, and numpy twice."""

_MOST: Final = 1 << 12
"""The most elements of a value."""


class RandomModule(NamedTuple):
    """A module with a function `main` without arguments."""

    module: ModuleOp

    results: Sequence[NDArray[Any]]
    """The float32 results of the function, by numpy."""


@st.composite
def modules(
    draw: st.DrawFn, storages: Sequence[Storage] = _NARROW, max_ops: int = 8
) -> RandomModule:
    """
    Modules of up to `max_ops` shape ops of `tensor` and `linalg` behind quantized constants.

    Constants are of any granularity, and all of one storage type, by default of up to 16 bits.
    Values may have several users, and an op may join two values. The function returns one or two.
    """
    storage, block = [draw(st.sampled_from(storages))], Block()
    builder = StorageBuilder(InsertPoint.at_end(block), UnknownLoc())
    numbers: dict[SSAValue, NDArray[Any]] = {}

    def dequantized(shape: tuple[int, ...]) -> SSAValue:
        constant = draw(constants(shape, storage))
        source = builder.insert(constant.op())
        cast = builder.insert(DequantizeCastOp(source.result, TensorType(f32, shape)))
        numbers[cast.result] = constant.numbers
        return cast.result

    def moved(movement: Movement, *operands: SSAValue) -> None:
        result = numpy_moves(movement, *(numbers[operand] for operand in operands))
        if result.size <= _MOST:
            type = TensorType(f32, result.shape)
            numbers[move_elements(builder, movement, operands, type)] = result

    dequantized(draw(shapes(max_rank=4)))
    for _ in range(draw(st.integers(0, max_ops))):
        value = draw(st.sampled_from([*numbers]))
        shape = numbers[value].shape
        if shape and draw(st.integers(0, 3)) == 0:
            other = draw(st.sampled_from([value, dequantized(shape)]))
            moved(Concat(draw(st.integers(0, len(shape) - 1))), value, other)
        else:
            moves = unary_movements(shape).filter(lambda movement: isinstance(movement, _MOVES))
            moved(draw(moves), value)
    returned = draw(st.lists(st.sampled_from([*numbers]), min_size=1, max_size=2))
    builder.insert(ReturnOp(*returned))
    types = [value.type for value in returned]
    function = FuncOp("main", ([], types), Region(block))
    return RandomModule(ModuleOp([function]), [numbers[value] for value in returned])
