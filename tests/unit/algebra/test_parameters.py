"""Scales and zero points move exactly as the elements that read them."""

from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qdialect.algebra.joins import Concat
from qdialect.algebra.movement import Movement, Reshape, Reverse, Slice, Transpose
from qdialect.algebra.parameters import QuantizationParameters, Slot, StorageFormat
from qdialect.algebra.run_map import MAX_SLOTS, TooManySlotsError
from qdialect.support.float_format import FLOAT_FORMATS, Rounding
from qdialect.testing.movements import numpy_moves, unary_movements
from qdialect.testing.tensors import (
    F32,
    I8,
    cut,
    divisors,
    expanded,
    first_index,
    parameters,
    shapes,
)


def blocks(shape: tuple[int, ...], scales: object, zero_points: object = 0):
    scales = np.array(scales, dtype=np.float64)
    zero_points = np.broadcast_to(np.array(zero_points, dtype=np.int64), scales.shape)
    return QuantizationParameters.from_blocks(shape, scales, zero_points, F32, I8)


@given(shapes(), st.data())
def test_every_element_keeps_its_slot(shape: tuple[int, ...], data: st.DataObject):
    """`p' = p . f` for chains of movements, with another operand to join here and there."""
    moved = data.draw(parameters(shape, distinct=data.draw(st.booleans())))
    scales, zero_points = expanded(moved)
    for _ in range(4):
        movement: Movement
        if moved.shape and data.draw(st.integers(0, 3)) == 0:
            axis = data.draw(st.integers(0, moved.ndim - 1))
            shape = (*moved.shape[:axis], data.draw(st.integers(0, 4)), *moved.shape[axis + 1 :])
            movement, other = Concat(axis), data.draw(parameters(shape))
            operands, others = (moved, other), expanded(other)
        else:
            movement = data.draw(unary_movements(moved.shape))
            operands, others = (moved,), ()
        moved = movement(*operands)
        scales = numpy_moves(movement, scales, *others[:1])
        zero_points = numpy_moves(movement, zero_points, *others[1:])
        assert moved.shape == scales.shape
        moved_scales, moved_zero_points = expanded(moved)
        assert np.array_equal(moved_scales, scales)
        assert np.array_equal(moved_zero_points, zero_points)
        if scales.size > 5000:
            break
    assert_coarsest(moved.coarsen(), scales, zero_points)


def assert_coarsest(
    coarse: QuantizationParameters, scales: np.ndarray, zero_points: np.ndarray
) -> None:
    """The blocks are equal, mean the same, and no larger ones would."""
    for values, wanted in zip(expanded(coarse), (scales, zero_points), strict=True):
        assert np.array_equal(values, wanted)
    if 0 in coarse.shape:
        assert coarse.scales.size == 1
        return
    for axis, (block, length) in enumerate(zip(coarse.block_sizes, coarse.shape, strict=True)):
        assert set(np.diff(coarse.ends[axis], prepend=0)) == {block}
        for larger in divisors(length):
            if larger > block:
                first = np.arange(length) // larger * larger
                assert not all(
                    np.array_equal(values.take(first, axis), values)
                    for values in (scales, zero_points)
                )


@given(shapes(), st.data())
def test_first_difference_is_the_first(shape: tuple[int, ...], data: st.DataObject):
    one, other = data.draw(parameters(shape)), data.draw(parameters(shape))
    differs = np.zeros(shape, dtype=bool)
    for mine, theirs in zip(expanded(one), expanded(other), strict=True):
        differs |= mine != theirs
    assert one.first_difference(other) == first_index(differs)
    assert one.first_difference(one.coarsen()) is None


@given(shapes(min_rank=1), st.data())
def test_slot_of_an_element(shape: tuple[int, ...], data: st.DataObject):
    some = data.draw(parameters(shape))
    index = tuple(data.draw(st.integers(0, length - 1)) for length in shape)
    scales, zero_points = expanded(some)
    assert some.slot(index) == Slot(float(scales[index]), int(zero_points[index]))
    slots = tuple(int(some.axis_slots(axis)[at]) for axis, at in enumerate(index))
    assert some.scales[slots] == scales[index]


@given(st.data())
def test_single_precision_reads_and_stores_the_same(data: st.DataObject):
    """Each step is rounded to f32 once, whether double computes it or float32."""
    width, scale = (
        data.draw(st.integers(1, 32)),
        data.draw(st.floats(2.0**-149, 2.0**127, width=32)),
    )
    storage = StorageFormat(width, data.draw(st.booleans()))
    low = -(1 << (width - 1)) if storage.signed else 0
    high = low + (1 << width) - 1
    codes = np.array(data.draw(st.lists(st.integers(low, high), min_size=1)), np.int64)
    slots = QuantizationParameters.from_blocks(
        codes.shape,
        np.array([scale]),
        np.array([data.draw(st.integers(low, high))]),
        F32,
        storage,
    )
    read = slots.read(codes, in_single=True)
    assert read.astype("f8").tobytes() == np.asarray(slots.read(codes)).tobytes()
    near = st.floats(width=32) | st.sampled_from(read.tolist())
    numbers = np.array(data.draw(st.lists(near, min_size=len(codes), max_size=len(codes))), "f4")
    for rounding in Rounding:
        single = slots.store(numbers, low, high, rounding, in_single=True)
        assert (single == slots.store(numbers.astype("f8"), low, high, rounding)).all()


def test_scales_mean_their_rounded_value():
    one = blocks((2,), [0.1, 0.1])
    other = blocks((2,), [0.1, float(np.float32(0.1))])
    assert one.first_difference(other) is None
    # As written is what is kept, of the first where several mean the same.
    assert other.coarsen().scales.item() == 0.1
    assert one.first_difference(blocks((2,), [0.1, 0.1000001])) == (1,)


def test_zero_points_mean_what_is_left_of_them_in_the_storage_width():
    assert blocks((1,), [1.0], [300]).first_difference(blocks((1,), [1.0], [44])) is None
    assert blocks((1,), [1.0], [300]).first_difference(blocks((1,), [1.0], [45])) == (0,)


@given(
    st.builds(StorageFormat, st.integers(1, 32), st.booleans()),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1),
)
def test_wrap(storage: StorageFormat, values: list[int]):
    wrapped = storage.wrap(np.array(values, dtype=np.int64))
    exact = [value % (1 << storage.width) for value in values]
    wanted = cut(np.array(exact, dtype=np.int64), storage)
    assert np.array_equal(wrapped, wanted)


def test_negative_zero_is_not_zero():
    f80 = FLOAT_FORMATS["f80"]
    zero, negative = (
        QuantizationParameters.from_blocks(
            (1,), np.array([value]), np.zeros(1, dtype=np.int64), f80, I8
        )
        for value in (0.0, -0.0)
    )
    assert zero.first_difference(negative) == (0,)


def test_split_of_the_quantized_axis_needs_two_axes():
    moved = blocks((6,), [1.0, 2.0, 3.0]).reshape((3, 2))
    assert moved.scales.tolist() == [[1.0], [2.0], [3.0]]
    moved = blocks((6,), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).reshape((2, 3))
    assert moved.coarsen().scales.tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


def test_merge_repeats_slots_where_it_must():
    moved = blocks((2, 2), [[1.0, 2.0]]).reshape((4,))
    assert moved.coarsen().scales.tolist() == [1.0, 2.0, 1.0, 2.0]
    moved = blocks((2, 2), [[1.0], [2.0]]).reshape((4,))
    assert moved.coarsen().scales.tolist() == [1.0, 2.0]


def test_slice_inside_a_block_halves_it():
    moved = blocks((64,), [1.0, 2.0])[(slice(16, 48),)].coarsen()
    assert moved.scales.tolist() == [1.0, 2.0]
    moved = blocks((128,), [1.0, 2.0, 3.0, 4.0])[(slice(16, 112),)].coarsen()
    assert moved.block_sizes == (16,)
    assert moved.scales.tolist() == [1.0, 2.0, 2.0, 3.0, 3.0, 4.0]


def test_concat_of_mixed_granularities():
    moved = Concat(0)(blocks((8,), [1.0]), blocks((8,), [2.0, 3.0])).coarsen()
    assert moved.block_sizes == (4,)
    assert moved.scales.tolist() == [1.0, 1.0, 2.0, 3.0]


def test_cost_does_not_depend_on_the_number_of_elements():
    """Each of these would take terabytes if it were written per element or position."""
    big = blocks((1 << 20, 1 << 40), [[1.0, 2.0], [3.0, 4.0]])
    moved = Transpose((1, 0))(big)
    moved = Reverse((0, 1))(moved)
    moved = Slice((3, 0), (1 << 38, 1 << 19), (2, 2))(moved)
    moved = Reshape((1 << 19, 1 << 19, 1 << 19))(moved)
    moved = Concat(1)(moved, moved)
    assert moved.shape == (1 << 19, 1 << 20, 1 << 19)
    assert moved.scales.size < 100
    assert moved.slot((0, 0, 0)) == Slot(4.0, 0)
    assert moved.slot(((1 << 19) - 1, (1 << 20) - 1, (1 << 19) - 1)) == Slot(1.0, 0)


def test_reshape_of_factors_that_do_not_divide():
    moved = blocks((3 << 30, 2), [[1.0], [2.0], [3.0]]).reshape((1 << 31, 3))
    assert moved.scales.size < 20
    for element in (0, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, (3 << 31) - 1):
        assert moved.slot(divmod(element, 3)).scale == 1 + (element >> 31)


def test_too_many_slots_are_refused_not_written():
    big = blocks((1 << 30, 2), [[1.0, 2.0]])
    with pytest.raises(TooManySlotsError, match=f"needs {1 << 31} slots"):
        big.reshape((1 << 31,))
    uneven = Concat(0)(blocks((1,), [1.0]), blocks((MAX_SLOTS,), [2.0]))
    with pytest.raises(TooManySlotsError):
        uneven.coarsen()


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="3 blocks do not divide an axis of 4"):
        blocks((4,), [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="cannot reshape"):
        blocks((4,), [1.0]).reshape((5,))
    with pytest.raises(ValueError, match="cannot broadcast"):
        np.broadcast_to(cast(Any, blocks((4,), [1.0])), (5,))
    with pytest.raises(ValueError, match="mode='edge'"):
        np.pad(cast(Any, blocks((4,), [1.0])), ((1, 1),))
    with pytest.raises(TypeError):
        np.sort(cast(Any, blocks((4,), [1.0])))
    with pytest.raises(ValueError, match="are different shapes"):
        blocks((4,), [1.0]).first_difference(blocks((5,), [1.0]))
