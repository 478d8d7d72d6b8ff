"""Views of arrays that reshape without a copy."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from qdialect.algebra.blocked_copy import SMALL_SIZE, write
from qdialect.algebra.joins import Concat
from qdialect.algebra.movement import BroadcastInDim
from qdialect.algebra.padding import Pad
from qdialect.algebra.views import ArrayView
from qdialect.testing.movements import numpy_moves, unary_movements
from qdialect.testing.tensors import shapes


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


def test_elements_are_copied_once(monkeypatch: pytest.MonkeyPatch):
    copied: list[int] = []

    def counted(source: NDArray[Any], target: NDArray[Any]) -> None:
        copied.append(source.size)
        write(source, target)

    for module in ("blocked_copy", "views"):
        monkeypatch.setattr(f"qdialect.algebra.{module}.write", counted)
    # More than what numpy copies alone.
    array = np.arange(40 * 60 * 100).reshape(40, 60, 100)
    assert array.size > SMALL_SIZE
    view = ArrayView.of(array).transpose((2, 0, 1)).reshape((4000, 60)).transpose((1, 0))
    expected = array.transpose(2, 0, 1).reshape(4000, 60).T
    assert view.to_bytes(array.dtype) == expected.tobytes()
    assert copied == [array.size]
    copied.clear()
    both = Concat(1)(view, view)
    assert np.array_equal(both.array(), np.concatenate((expected, expected), axis=1))
    assert copied == [array.size, array.size]


def test_repeated_and_taken_positions_leave_other_axes_moved():
    array = np.arange(4 * 6 * 10).reshape(4, 6, 10)
    view = ArrayView.of(array).transpose((2, 0, 1)).reshape((40, 1, 6))
    repeated = BroadcastInDim((1, 2, 3), (2, 40, 3, 6))(view)
    expected = array.transpose(2, 0, 1).reshape(40, 1, 6)
    assert np.shares_memory(repeated.factors, array)
    assert np.array_equal(repeated.array(), np.broadcast_to(expected, (2, 40, 3, 6)))
    indices = np.array([5, 0, 5])
    taken = view.take(indices, 2)
    assert taken.groups == view.groups
    assert np.array_equal(taken.array(), expected.take(indices, 2))


def test_writes_to_a_region_of_its_shape():
    array = np.arange(24).reshape(2, 3, 4)
    view = ArrayView.of(array).transpose((2, 0, 1)).reshape((8, 3))
    region = np.zeros((10, 7), dtype=array.dtype)
    view.write(region[1:-1, ::3])
    assert np.array_equal(region[1:-1, ::3], view.array())
    assert np.count_nonzero(region) == 23
    with pytest.raises(ValueError, match="differ"):
        view.write(region)
