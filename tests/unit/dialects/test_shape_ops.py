"""Shape ops accept the types with the right meaning, and no others."""

import re

import numpy as np
import pytest
from example_counts import examples
from hypothesis import given
from hypothesis import strategies as st
from own_ops import OWN_OPS, own_movements
from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerType, TensorType, f32
from xdsl.dialects.test import TestOp as SourceOp
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.joins import Concat
from qdialect.algebra.movement import DYNAMIC, MovementError, Shape
from qdialect.algebra.parameters import QuantizationParameters
from qdialect.algebra.run_map import TooManySlotsError
from qdialect.dialects.quant import (
    BroadcastInDimOp,
    ConcatOp,
    GatherOp,
    PadOp,
    QuantizedTensor,
    ReshapeOp,
    ReverseOp,
    SliceOp,
    Storage,
    TransposeOp,
    UniformQuantizedType,
)
from qdialect.support.float_format import FLOAT_FORMATS
from qdialect.testing.movements import numpy_moves
from qdialect.testing.tensors import I8, expanded, first_index, parameters, shapes, slot_counts

LIKE = UniformQuantizedType.per_tensor(Storage.of(IntegerType(8)), f32, 1.0)


def tensor(of: QuantizationParameters) -> QuantizedTensor:
    return TensorType(LIKE.with_parameters(of), of.shape)


def per_axis(shape: Shape, axis: int, scales: list[float]) -> QuantizedTensor:
    slots = np.array(scales), np.zeros(len(scales), dtype=np.int64)
    type = UniformQuantizedType.per_axis(LIKE.storage, f32, axis, *slots)
    return TensorType(type, shape)


@examples(300)
@given(shapes(min_rank=1, max_rank=4), st.data())
def test_declared_types_are_compared_element_by_element(shape: Shape, data: st.DataObject):
    """Any types may be declared; the first element that reads something else is named."""
    operand = data.draw(parameters(shape))
    movement = data.draw(own_movements(shape))
    result_shape = movement.result_shape(shape)
    derived = [numpy_moves(movement, values) for values in expanded(operand)]
    if data.draw(st.booleans()):
        declared = data.draw(parameters(result_shape))
    else:
        # The right slots but for one, spelled finer than need be.
        scales, zero_points = (values.copy() for values in derived)
        at = tuple(data.draw(st.integers(0, length - 1)) for length in result_shape)
        scales[at] *= data.draw(st.sampled_from([1, 2]))
        declared = QuantizationParameters.from_blocks(
            result_shape, scales.astype(np.float64), zero_points, FLOAT_FORMATS["f32"], I8
        )
    differs = np.zeros(result_shape, dtype=bool)
    for mine, theirs in zip(expanded(declared), derived, strict=True):
        differs |= mine != theirs
    index = first_index(differs)
    op_class = OWN_OPS[type(movement)]
    source = SourceOp(result_types=[tensor(operand)])
    op = op_class.of_movement(movement, source.results, tensor(declared))
    if index is None:
        op.verify_()
        return
    with pytest.raises(VerifyException) as raised:
        op.verify_()
    message = str(raised.value)
    assert f"result element {list(index)} reads slot " in message
    readings = re.findall(r"scale (\S+), zero point (-?\d+)\)", message)
    wanted = [
        (f"{scales[index]:.6e}", str(zero_points[index]))
        for scales, zero_points in (expanded(declared), derived)
    ]
    assert readings == wanted


@examples(500)
@given(shapes(min_rank=1, max_rank=4), st.data())
def test_dynamic_dimensions_never_refuse_what_is_right(shape: Shape, data: st.DataObject):
    """Types that are right for some lengths are accepted where these are not known."""
    operand = data.draw(parameters(shape))
    movement = data.draw(own_movements(shape))
    op_class = OWN_OPS[type(movement)]
    types = [tensor(operand), tensor(movement(operand))]
    dynamic = [
        TensorType(
            type.element_type,
            [data.draw(st.sampled_from([length, DYNAMIC])) for length in type.get_shape()],
        )
        for type in types
    ]
    source = SourceOp(result_types=dynamic[:1])
    op_class.of_movement(movement, source.results, dynamic[1]).verify_()


@examples(300)
@given(shapes(min_rank=1, max_rank=3), st.data())
def test_dynamic_dimensions_of_concats(shape: Shape, data: st.DataObject):
    dim = data.draw(st.integers(0, len(shape) - 1))
    parts = [
        data.draw(parameters((*shape[:dim], data.draw(st.integers(1, 4)), *shape[dim + 1 :])))
        for _ in range(data.draw(st.integers(1, 3)))
    ]
    types = [tensor(part) for part in (*parts, Concat(dim)(*parts))]
    dynamic = [
        TensorType(
            type.element_type,
            [data.draw(st.sampled_from([length, DYNAMIC])) for length in type.get_shape()],
        )
        for type in types
    ]
    ConcatOp(SourceOp(result_types=dynamic[:-1]).results, dim, dynamic[-1]).verify_()


def test_dynamic_is_that_of_xdsl():
    assert DYNAMIC == DYNAMIC_INDEX


@given(shapes(min_rank=1, max_rank=3), st.data())
def test_slot_counts_divide(shape: Shape, data: st.DataObject):
    counts = data.draw(slot_counts(shape))
    assert all(length % count == 0 for length, count in zip(shape, counts, strict=True))


def test_builders_refuse_what_cannot_be():
    (value,) = SourceOp(result_types=[per_axis((2, 3), 0, [1.0, 2.0])]).results
    with pytest.raises(MovementError, match="does not name each of 2 axes once"):
        TransposeOp(value, [0, 0])
    with pytest.raises(MovementError, match="needs at least one operand"):
        ConcatOp([], 0)
    (float_value,) = SourceOp(result_types=[TensorType(f32, [2])]).results
    with pytest.raises(VerifyException, match="must be ranked tensor of uniform quantized type"):
        ReverseOp(float_value, [0])
    (misfit,) = SourceOp(result_types=[per_axis((3, 3), 0, [1.0, 2.0])]).results
    with pytest.raises(VerifyException, match="does not match number of scales"):
        ReverseOp(misfit, [0])
    (large,) = SourceOp(result_types=[per_axis((1 << 30, 2), 1, [1.0, 2.0])]).results
    with pytest.raises(TooManySlotsError):
        ReshapeOp(large, [1 << 31])


def test_properties_are_the_fields_of_the_movement():
    (value,) = SourceOp(result_types=[per_axis((2, 3), 0, [1.0, 2.0])]).results
    for op in (
        TransposeOp(value, [1, 0]),
        ReshapeOp(value, [3, 2]),
        SliceOp(value, [0, 1], [2, 1], [1, 1]),
        ConcatOp([value, value], 1),
        BroadcastInDimOp(value, [2, 0], [3, 4, 2]),
        ReverseOp(value, [1]),
        GatherOp(value, [2, 0, 0, 1], 1),
        PadOp(value, [0, 1], [2, 0]),
    ):
        op.verify_()
        again = type(op).of_movement(op.movement, list(op.operands), op.result.type)
        assert again.properties == op.properties
        assert again.movement == op.movement
