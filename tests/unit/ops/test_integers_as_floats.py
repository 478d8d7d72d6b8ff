"""Integers that are converted to floats are rounded once, to nearest, ties to even."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from xdsl.dialects.builtin import BFloat16Type, Float32Type, Float64Type, Float80Type, i64
from xdsl.ir import Attribute

from qdialect.ops.elementwise import values_of
from qdialect.ops.fields import Apply, Arithmetic, Input
from qdialect.ops.interface import Refusal

PRECISIONS: dict[Attribute, int] = {BFloat16Type(): 8, Float32Type(): 24, Float64Type(): 53}

# Near ties of each type, and near the ends of the range.
INTEGERS = st.one_of(
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.tuples(st.integers(-255, 255), st.integers(0, 54), st.integers(-2, 2)).map(
        lambda parts: (parts[0] << parts[1]) + parts[2]
    ),
)


def nearest(integer: int, precision: int) -> int:
    """In Python's integers, which have any number of digits."""
    shift = max(abs(integer).bit_length() - precision, 0)
    kept, rest = divmod(abs(integer), 1 << shift)
    half = (1 << shift) >> 1
    kept += rest > half or (bool(shift) and rest == half and kept % 2 == 1)
    return (kept << shift) * (-1 if integer < 0 else 1)


def converted(integers: list[int], to: Attribute) -> list[int]:
    term = Apply(Arithmetic.SIGNED_TO_FLOAT, (Input(0, i64),), to)
    return [int(value) for value in values_of(term, [np.array(integers, np.int64)])]


@pytest.mark.parametrize("to", PRECISIONS, ids=str)
@given(integers=st.lists(INTEGERS, min_size=1, max_size=20))
@example(integers=[(1 << 24) + 1 + (1 << 60), -(1 << 63), (1 << 63) - 1, (1 << 53) + 1])
def test_a_conversion_rounds_once(to: Attribute, integers: list[int]) -> None:
    assert converted(integers, to) == [nearest(value, PRECISIONS[to]) for value in integers]


def test_what_a_double_cannot_hold_is_refused() -> None:
    assert converted([1 << 53], Float80Type()) == [1 << 53]
    with pytest.raises(Refusal, match="integers that are too large"):
        converted([(1 << 53) + 1], Float80Type())
