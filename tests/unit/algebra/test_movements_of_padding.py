"""Padding, insertion and chains of movements: on arrays, views, splats and parameters."""

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from qdialect.algebra.joins import InsertSlice
from qdialect.algebra.movement import DYNAMIC, Chain, Movement, MovementError, Shape, Slice
from qdialect.algebra.padding import Pad, Padding, PaddingError, PadWith, Real, Stored, ZeroPoint
from qdialect.algebra.parameters import QuantizationParameters
from qdialect.algebra.views import ArrayView, Splat
from qdialect.testing.movements import numpy_moves, slices, unary_movements
from qdialect.testing.tensors import F32, I8, expanded, parameters, shapes


@st.composite
def pads(draw: st.DrawFn, shape: Shape, padding: Padding) -> PadWith:
    """Pads at the edges and between positions."""
    widths = st.tuples(*(st.integers(0, 2) for _ in shape))
    return PadWith(draw(widths), draw(widths), draw(widths), padding)


def inside(pad: PadWith, shape: Shape) -> tuple[slice, ...]:
    """Where the operand is in the result."""
    return tuple(
        slice(low, low + (n - 1) * (gap + 1) + 1, gap + 1)
        for n, low, gap in zip(shape, pad.low, pad.interior, strict=True)
    )


def padded(pad: PadWith, array: NDArray[Any], new: Any) -> NDArray[Any]:
    """What numpy makes of it: `new`, which broadcasts to the result, and `array` in it."""
    lengths = zip(array.shape, pad.low, pad.high, pad.interior, strict=True)
    result = np.empty(
        [low + n + (n - 1) * gap + high for n, low, high, gap in lengths], array.dtype
    )
    result[...] = new
    result[inside(pad, array.shape)] = array
    return result


def distinct(shape: Shape) -> NDArray[np.int8]:
    return np.arange(math.prod(shape), dtype=np.int64).astype(np.int8).reshape(shape)


@given(shapes(max_rank=4), st.data())
def test_stored_padding_of_plain_elements(shape: Shape, data: st.DataObject):
    value = np.int8(data.draw(st.integers(-128, 127)))
    pad = data.draw(pads(shape, Stored(value)))
    array = distinct(shape)
    expected = padded(pad, array, value)
    assert pad.result_shape(shape) == expected.shape
    moved = pad.move_views([ArrayView.of(array)], None)
    assert np.array_equal(moved.array(), expected)
    assert pad.is_identity(shape) == (expected.shape == shape)


@given(shapes(max_rank=4), st.data())
def test_zero_is_the_zero_point_that_is_nearest(shape: Shape, data: st.DataObject):
    operand = data.draw(parameters(shape))
    pad = data.draw(pads(shape, data.draw(st.sampled_from([ZeroPoint(), Real(0.0)]))))
    _, zero_points = expanded(operand)
    moved_parameters = pad(operand)
    expected_scales, expected_zeros = (numpy_moves(pad, of) for of in expanded(operand))
    scales, zeros = expanded(moved_parameters)
    assert np.array_equal(scales, expected_scales)
    assert np.array_equal(zeros, expected_zeros)
    array = distinct(shape)
    moved = pad.move_views([ArrayView.of(array)], moved_parameters)
    assert np.array_equal(moved.array(), padded(pad, array, expected_zeros))
    splat = Splat(np.int8(zero_points.flat[0]), shape)
    is_still_one = bool(
        (padded(pad, np.full(shape, splat.value), expected_zeros) == splat.value).all()
    )
    assert pad.keeps_splats([splat], moved_parameters) == is_still_one
    assert pad(splat) == Splat(splat.value, expected_zeros.shape)


def slots(scales: list[float], zero_points: list[int]) -> QuantizationParameters:
    return QuantizationParameters.from_blocks(
        (len(scales),), np.array(scales), np.array(zero_points), F32, I8
    )


@pytest.mark.parametrize(
    ("value", "codes"),
    [(1.0, [5, 4]), (-3.0, [-3, -12]), (0.0, [3, 0])],
)
def test_codes_of_a_number(value: float, codes: list[int]):
    assert Real(value).codes(slots([0.5, 0.25], [3, 0])).tolist() == codes


@pytest.mark.parametrize("value", [-0.0, 0.3, 0.5, 1e9, math.inf, math.nan])
def test_numbers_that_no_integer_is_read_as(value: float):
    with pytest.raises(PaddingError):
        Real(value).codes(slots([1.0, 0.25], [3, 0]))


def test_padding_of_what_has_no_parameters():
    with pytest.raises(PaddingError, match="no zero point"):
        ZeroPoint().codes(None)
    with pytest.raises(PaddingError, match="not quantized"):
        Real(1.0).codes(None)


@given(shapes(max_rank=4), st.data())
def test_insert_slice(shape: Shape, data: st.DataObject):
    cut = data.draw(slices(shape))
    insert = InsertSlice(cut.offsets, cut.sizes, cut.strides)
    source_shape = tuple(n for n in cut.sizes if n != 1 or data.draw(st.booleans()))
    source, destination = 100 + distinct(source_shape), distinct(shape)
    where = tuple(
        slice(offset, offset + (size - 1) * stride + 1, stride)
        for offset, size, stride in zip(cut.offsets, cut.sizes, cut.strides, strict=True)
    )

    def inserted(source: NDArray[Any], destination: NDArray[Any]) -> NDArray[Any]:
        result = destination.copy()
        result[where] = source.reshape(cut.sizes)
        return result

    assert insert.result_shape(source_shape, shape) == shape
    expected = inserted(source, destination)
    moved = cast(Callable[..., Any], insert)(source, destination)
    assert np.array_equal(moved, expected)
    views = [ArrayView.of(source), ArrayView.of(destination)]
    assert np.array_equal(insert.move_views(views, None).array(), expected)

    of_source = data.draw(parameters(source_shape, distinct=True))
    of_destination = data.draw(parameters(shape, distinct=True))
    moved = expanded(insert(of_source, of_destination))
    for mine, a, b in zip(moved, expanded(of_source), expanded(of_destination), strict=True):
        assert np.array_equal(mine, inserted(a, b))

    splats = Splat(np.int8(1), source_shape), Splat(np.int8(1), shape)
    assert insert.keeps_splats(splats, None)
    assert insert(*splats) == splats[1]
    assert not insert.keeps_splats((splats[0], Splat(np.int8(2), shape)), None)


@given(shapes(max_rank=4), st.data())
def test_chain_is_what_its_movements_are(shape: Shape, data: st.DataObject):
    movements: list[Movement] = []
    operand = data.draw(parameters(shape, distinct=True))
    arrays = list(expanded(operand))
    for _ in range(data.draw(st.integers(1, 3))):
        if arrays[0].size > 2000:
            break
        movements.append(data.draw(unary_movements(arrays[0].shape)))
        arrays = [numpy_moves(movements[-1], array) for array in arrays]
    if not movements:
        return
    chain = Chain.of(movements)
    assert chain.result_shape(shape) == arrays[0].shape
    for mine, expected in zip(expanded(chain(operand)), arrays, strict=True):
        assert np.array_equal(mine, expected)
    assert chain(Splat(np.int8(1), shape)) == Splat(np.int8(1), arrays[0].shape)


def test_chain_of_one_is_that():
    assert Chain.of([Pad((1,), (0,))]) == Pad((1,), (0,))


@pytest.mark.parametrize(
    ("movement", "operands", "message"),
    [
        (
            PadWith((1,), (1,), (0,), ZeroPoint()),
            [(4, 4)],
            "do not match the rank 2 of the operand",
        ),
        (InsertSlice((3,), (2,), (1,)), [(2,), (4,)], "leave axis 0 of length 4"),
        (InsertSlice((0,), (2,), (1,)), [(3,), (4,)], "3 elements cannot be reshaped to 2"),
        (Chain.of([Pad((1,), (0,)), Slice((4,), (2,), (1,))]), [(4,)], "leave axis 0 of length 5"),
    ],
)
def test_movements_that_do_not_exist(movement: Movement, operands: list[Shape], message: str):
    with pytest.raises(MovementError, match=message):
        movement.result_shape(*operands)


@pytest.mark.parametrize(
    ("movement", "operands", "result"),
    [
        (PadWith((1,), (1,), (1,), ZeroPoint()), [(DYNAMIC,)], (DYNAMIC,)),
        (InsertSlice((0,), (2,), (1,)), [(DYNAMIC,), (4,)], (4,)),
        (PadWith((0,), (0,), (2,), ZeroPoint()), [(0,)], (0,)),
        (PadWith((0,), (0,), (2,), ZeroPoint()), [(1,)], (1,)),
    ],
)
def test_lengths_at_the_edge(movement: Movement, operands: list[Shape], result: Shape):
    assert movement.result_shape(*operands) == result


def test_pads_with_something_else_are_not_joined():
    pad = PadWith((1,), (0,), (0,), Stored(np.int8(1)))
    assert pad.after(Pad((1,), (0,))) is None
    assert Pad((1,), (0,)).after(pad) is None
