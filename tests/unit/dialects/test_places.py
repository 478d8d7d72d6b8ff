"""Elements at positions that are computed at run time, compared with numpy's own indexing."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.utils.exceptions import InterpretationError

from qdialect.dialects.arrays.places import elements_at


def drawn_index(random: np.random.Generator, length: int) -> NDArray[np.int64]:
    """Positions along an axis of `length`, that vary along some of the axes of a grid."""
    grid = np.array([4, 3, 5])[random.integers(0, 4) :]
    varies = random.random(len(grid)) < 0.4
    small = random.integers(0, length, np.where(varies, grid, 1))
    return np.broadcast_to(small, grid) if random.random() < 0.5 else small


@pytest.mark.parametrize("seed", range(300))
def test_elements_are_those_that_numpy_indexes(seed: int) -> None:
    random = np.random.default_rng(seed)
    shape = tuple(random.integers(1, 6, random.integers(1, 4)).tolist())
    elements = random.permutation(int(np.prod(shape))).reshape(shape)
    indices = tuple(drawn_index(random, length) for length in shape)
    np.testing.assert_array_equal(elements_at(elements, indices), elements[indices])


def test_no_positions_and_no_elements() -> None:
    nothing = np.zeros((0, 3), int)
    none, first = np.zeros((0, 1), int), np.arange(3)
    assert elements_at(nothing, (none, first)).shape == (0, 3)
    assert elements_at(np.array(7), ()) == 7


def test_a_position_out_of_range() -> None:
    with pytest.raises(InterpretationError, match="out of range for an axis of length 2"):
        elements_at(np.zeros((3, 2)), (np.arange(3)[:, None], np.arange(3)))
