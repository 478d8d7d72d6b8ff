"""Movements as functions of shapes, and their composition."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from qdialect.algebra.joins import Concat, InsertSlice
from qdialect.algebra.movement import (
    DYNAMIC,
    BroadcastInDim,
    Chain,
    Movement,
    MovementError,
    Reshape,
    Reverse,
    Shape,
    Slice,
    Take,
    Transpose,
    ValueSet,
)
from qdialect.algebra.padding import Pad
from qdialect.algebra.views import Splat, as_view
from qdialect.testing.movements import joins, movements_by_class, numpy_moves, unary_movements
from qdialect.testing.tensors import shapes


@given(shapes(), st.data())
def test_result_shape_is_that_of_the_result(shape: Shape, data: st.DataObject):
    movement = data.draw(unary_movements(shape))
    moved = numpy_moves(movement, np.zeros(shape))
    assert movement.result_shape(shape) == moved.shape
    assert movement(Splat(np.int8(7), shape)) == Splat(np.int8(7), moved.shape)


@given(shapes(), st.data())
def test_values_of_a_chain_are_those_of_an_array(shape: Shape, data: st.DataObject):
    """What is said of its values holds of different numbers."""
    first = data.draw(unary_movements(shape))
    array = np.arange(math.prod(shape)).reshape(shape)
    between = numpy_moves(first, array)
    second = data.draw(unary_movements(between.shape))
    moved = {*numpy_moves(second, between).reshape(-1).tolist()}
    before = {*array.reshape(-1).tolist()}
    match Chain.of([first, second]).values:
        case ValueSet.SAME:
            assert moved == before
        case ValueSet.PART:
            assert moved <= before
        case _:
            assert len(moved - before) <= 1


@given(shapes(), st.data())
def test_identity_moves_nothing(shape: Shape, data: st.DataObject):
    movement = data.draw(unary_movements(shape))
    array = np.arange(math.prod(shape)).reshape(shape)
    if movement.is_identity(shape):
        assert np.array_equal(numpy_moves(movement, array), array)


@pytest.mark.parametrize(
    ("movement", "operands", "is_identity"),
    [
        (Take(1, (0, 1, 2)), [(4, 3)], True),
        (Take(1, (0, 1)), [(4, 3)], False),
        (Take(1, (0, 2, 1)), [(4, 3)], False),
        (Take(0, (0, 1)), [(DYNAMIC, 3)], False),
        (Take(1, (0, 1, 2)), [(DYNAMIC, 3)], True),
        (Reshape((DYNAMIC, 4)), [(DYNAMIC, 4)], True),
        (Reshape((DYNAMIC, 0)), [(DYNAMIC, 0)], False),
        (Reshape((DYNAMIC, DYNAMIC)), [(DYNAMIC, DYNAMIC)], False),
        (Reshape((2, 0)), [(2, 0)], True),
        (Slice((0,), (4,), (2,)), [(4,)], False),
        (Slice((0,), (1,), (2,)), [(1,)], True),
        (BroadcastInDim((0,), (DYNAMIC,)), [(DYNAMIC,)], False),
        (Chain(Transpose((1, 0)), (Transpose((1, 0)),)), [(2, 3)], False),
        (Chain(Transpose((0, 1)), (Take(0, (0, 1)),)), [(2, 3)], True),
        (Chain(Transpose((0, 1)), (Take(0, (1, 0)),)), [(2, 3)], False),
        (InsertSlice((0,), (2,), (1,)), [(2,), (2,)], False),
        (Concat(0), [(2,)], True),
        (Concat(0), [(2,), (0,)], False),
    ],
)
def test_identities(movement: Movement, operands: list[Shape], *, is_identity: bool):
    assert movement.is_identity(*operands) is is_identity


@given(joins())
def test_a_movement_of_several_operands(join: tuple[Movement, list[Shape]]):
    movement, operands = join
    arrays = list[Any]()
    for number, shape in enumerate(operands):
        arrays.append(np.arange(math.prod(shape)).reshape(shape) + 1000 * number)
    expected = numpy_moves(movement, *arrays)
    assert movement.result_shape(*operands) == expected.shape
    assert np.array_equal(movement(*arrays), expected)
    assert np.array_equal(as_view(movement.move_values(arrays, None)).array(), expected)


@given(shapes(), st.data())
def test_two_movements_as_one(shape: Shape, data: st.DataObject):
    first = data.draw(unary_movements(shape))
    array = numpy_moves(first, np.arange(math.prod(shape)).reshape(shape))
    like_first = movements_by_class(array.shape).get(type(first))
    if like_first is None:
        reject()
    second = data.draw(like_first)
    both = second.after(first)
    if both is not None:
        start = np.arange(math.prod(shape)).reshape(shape)
        assert both.result_shape(shape) == numpy_moves(second, array).shape
        assert np.array_equal(numpy_moves(both, start), numpy_moves(second, array))


@pytest.mark.parametrize(
    ("second", "first", "both"),
    [
        (Transpose((1, 2, 0)), Transpose((1, 2, 0)), Transpose((2, 0, 1))),
        (Reshape((6,)), Reshape((2, 3)), Reshape((6,))),
        (Slice((1,), (2,), (2,)), Slice((3,), (9,), (4,)), Slice((7,), (2,), (8,))),
        (Slice((1,), (0,), (1,)), Slice((3,), (1,), (9,)), Slice((3,), (0,), (9,))),
        (Reverse((0, 1)), Reverse((1, 2)), Reverse((0, 2))),
        (Pad((1,), (0,)), Pad((2,), (3,)), Pad((3,), (3,))),
        (BroadcastInDim((2, 0), (4, 1, 3)), BroadcastInDim((1,), (1, 4)), None),
        (Reshape((6,)), Transpose((1, 0)), None),
        (Take(1, (2, 0, 0)), Take(1, (5, 6, 7)), Take(1, (7, 5, 5))),
        (Take(1, ()), Take(1, (5, 6)), Take(1, ())),
        (Take(0, (0,)), Take(1, (5,)), None),
        (
            Chain(Slice((1,), (1,), (1,)), (Reshape(()),)),
            Slice((1,), (2,), (1,)),
            Chain(Slice((2,), (1,), (1,)), (Reshape(()),)),
        ),
    ],
)
def test_composition(second: Movement, first: Movement, both: Movement | None):
    if isinstance(second, BroadcastInDim):
        both = BroadcastInDim((0,), (4, 1, 3))
    assert second.after(first) == both


@pytest.mark.parametrize(
    ("movement", "operands", "message"),
    [
        (Transpose((0,)), [(2, 3)], "does not name each of 2 axes once"),
        (Reshape((5,)), [(2, 3)], "6 elements cannot be reshaped to 5"),
        (Slice((0,), (2,), (1,)), [(2, 3)], "do not match the rank 2 of the operand"),
        (Slice((2,), (2,), (1,)), [(3,)], "leave axis 0 of length 3"),
        (Slice((0,), (3,), (2,)), [(4,)], "leave axis 0 of length 4"),
        (Slice((4,), (0,), (1,)), [(3,)], "leave axis 0 of length 3"),
        (Concat(2), [(2, 3), (2, 3)], "axis 2 is out of range for rank 2"),
        (Concat(0), [(2, 3), (2, 4)], "differ in length on axis 1"),
        (Concat(0), [(2, 3), (2,)], "differ in rank"),
        (Concat(0), [], "needs at least one operand"),
        (BroadcastInDim((0,), (4, 4)), [(2,)], "cannot be broadcast to 4"),
        (BroadcastInDim((0,), (4,)), [(4, 1)], "1 dims do not match the rank 2 of the operand"),
        (Reverse((1,)), [(4,)], "are not different axes of 1"),
        (Pad((1,), (1,)), [(4, 4)], "do not match the rank 2 of the operand"),
        (Take(1, (0,)), [(4,)], "axis 1 is out of range for rank 1"),
        (Take(0, (4,)), [(4,)], "index 4 is out of range for axis 0 of length 4"),
    ],
)
def test_movements_that_do_not_exist(movement: Movement, operands: list[Shape], message: str):
    with pytest.raises(MovementError, match=message):
        movement.result_shape(*operands)


@pytest.mark.parametrize(
    ("movement", "operands", "result"),
    [
        (Transpose((1, 0)), [(2, DYNAMIC)], (DYNAMIC, 2)),
        (Reshape((DYNAMIC, 2)), [(6,)], (DYNAMIC, 2)),
        (Slice((7,), (2,), (1,)), [(DYNAMIC,)], (2,)),
        (Concat(0), [(2, 3), (DYNAMIC, DYNAMIC)], (DYNAMIC, 3)),
        (Concat(1), [(2, 3), (DYNAMIC, 4)], (2, 7)),
        (Reverse((0,)), [(DYNAMIC,)], (DYNAMIC,)),
        (Pad((1,), (1,)), [(DYNAMIC,)], (DYNAMIC,)),
        (Take(0, (9, 9)), [(DYNAMIC, 3)], (2, 3)),
    ],
)
def test_dynamic_lengths(movement: Movement, operands: list[Shape], result: Shape):
    assert movement.result_shape(*operands) == result
    assert not movement.is_identity(*operands) or isinstance(movement, Reshape)
