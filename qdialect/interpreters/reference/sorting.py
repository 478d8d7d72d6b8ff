"""Sorting by any comparison, of all rows at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from qdialect.interpreters.memory import temporary_memory

Order = NDArray[np.int64]

IsBefore = Callable[[Order, Order], NDArray[np.bool_]]
"""Whether the elements at some positions in rows come before those at others: (rows, count)."""

_ARRAYS = 12
"""How many arrays of the size of the order are needed meanwhile."""


def sorted_order(rows: int, count: int, is_before: IsBefore) -> Order:
    """
    The positions of the elements of each row in their order: (rows, count).

    Equal ones keep theirs. Runs are merged in pairs: where an element goes is found in the other
    run by bisection, for all elements at once.
    """
    with temporary_memory(_ARRAYS * 8 * rows * count):
        order = np.broadcast_to(np.arange(count), (rows, count)).copy()
        width = 1
        while width < count:
            order = _merged(order, width, is_before)
            width *= 2
    return order


def _merged(order: Order, width: int, is_before: IsBefore) -> Order:
    count = order.shape[1]
    own = np.arange(count, dtype=np.int64)
    within = np.remainder(own, 2 * width)
    start, is_left = np.subtract(own, within), np.less(within, width)
    first = np.minimum(np.where(is_left, start + width, start), count)
    last = np.where(is_left, np.minimum(first + width, count), start + width)
    low, high = (np.broadcast_to(of, order.shape) for of in (first, last))
    while (is_open := low < high).any():
        middle = (low + high) // 2
        other = np.take_along_axis(order, np.minimum(middle, count - 1), 1)
        # Of equal ones, those of the left run come first.
        goes_on = np.where(is_left, is_before(other, order), ~is_before(order, other))
        low = np.where(is_open & goes_on, middle + 1, low)
        high = np.where(is_open & ~goes_on, middle, high)
    place = own - np.where(is_left, 0, width) + low - first
    merged = np.empty_like(order)
    np.put_along_axis(merged, place, order, 1)
    return merged
