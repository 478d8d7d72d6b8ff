"""Views of arrays that reshape without a copy."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from random_tensors import numpy_moves, shapes, unary_movements

from qdialect.array_view import ArrayView
from qdialect.movement import Pad


@given(shapes(), st.data())
def test_moves_as_numpy_does(shape: tuple[int, ...], data: st.DataObject):
    array = np.arange(math.prod(shape), dtype=np.int16).reshape(shape)
    view = ArrayView.of(array)
    for _ in range(4):
        movement = data.draw(unary_movements(array.shape))
        if array.size > 5000 or isinstance(movement, Pad):
            break
        view, array = movement(view), numpy_moves(movement, array)
        assert view.shape == array.shape
        assert np.array_equal(view.array(), array)


def test_chain_of_transposes_and_reshapes_is_a_view():
    array = np.arange(4 * 6 * 10).reshape(4, 6, 10)
    view = ArrayView.of(array).transpose((2, 0, 1)).reshape((5, 2, 24))
    view = (
        view.transpose((1, 2, 0))
        .reshape((48, 5))
        .reshape((2, 4, 30))[(slice(1, 2), slice(None, None, -1), slice(None))]
    )
    assert np.shares_memory(view.factors, array)
    expected = array.transpose(2, 0, 1).reshape(5, 2, 24).transpose(1, 2, 0)
    assert np.array_equal(view.array(), expected.reshape(2, 4, 30)[1:2, ::-1])


def test_knot_of_factors_is_copied():
    array = np.arange(6).reshape(2, 3).T
    view = ArrayView.of(array).reshape((2, 3))
    assert not np.shares_memory(view.factors, array)
    assert np.array_equal(view.array(), array.reshape(2, 3))
