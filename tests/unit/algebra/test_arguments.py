"""The constructors of the algebra accept any integers and sequences, and reject everything else."""

# Arguments of wrong types are the subject.
# pyright: reportArgumentType=false

from collections.abc import Callable

import numpy as np
import pytest

from qdialect.algebra.joins import Concat, InsertSlice
from qdialect.algebra.movement import (
    BroadcastInDim,
    Chain,
    Movement,
    MovementError,
    Reshape,
    Reverse,
    Slice,
    Take,
    Transpose,
)
from qdialect.algebra.padding import Pad, PadWith, Real, Stored, ZeroPoint
from qdialect.algebra.parameters import QuantizationParameters, StorageFormat
from qdialect.algebra.views import Splat
from qdialect.support.float_format import FLOAT_FORMATS

F32 = FLOAT_FORMATS["f32"]
I8 = StorageFormat(8, signed=True)


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        (lambda: Transpose([1, 0]), Transpose((1, 0))),
        (lambda: Transpose(range(2)), Transpose((0, 1))),
        (lambda: Transpose(np.array([1, 0], dtype=np.uint8)), Transpose((1, 0))),
        (lambda: Transpose((np.int64(1), np.uint8(0))), Transpose((1, 0))),
        (lambda: Reshape([np.int32(2), 3]), Reshape((2, 3))),
        (lambda: Concat(np.int64(1)), Concat(1)),
        (lambda: Slice([0], range(2, 3), np.array([1])), Slice((0,), (2,), (1,))),
        (lambda: BroadcastInDim([0], [2, 3]), BroadcastInDim((0,), (2, 3))),
        (lambda: Reverse([1]), Reverse((1,))),
        (lambda: Pad([1], [2]), Pad((1,), (2,))),
        (lambda: Take(np.int8(0), np.array([2, 0])), Take(0, (2, 0))),
        (lambda: Splat(3, [2]), Splat(np.int64(3), (2,))),
        (lambda: Splat(2**63, ()), Splat(np.uint64(2**63), ())),
    ],
)
def test_integers_of_any_kind_are_taken(given: Callable[[], object], plain: object):
    made = given()
    assert made == plain
    assert hash(made) == hash(plain)
    assert repr(made) == repr(plain)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda: Transpose((0, 0)), r"permutation \[0, 0\] does not name each of 2 axes once"),
        (lambda: Transpose((-1, 0)), "does not name each of 2 axes once"),
        (lambda: Reshape((-1,)), r"\[-1\] is not a shape"),
        (lambda: Slice((0,), (1,), (0,)), "on axis 0 must be at least 0, 0 and 1"),
        (lambda: Slice((0,), (-1,), (1,)), "on axis 0 must be at least 0, 0 and 1"),
        (lambda: Slice((-1,), (1,), (1,)), "on axis 0 must be at least 0, 0 and 1"),
        (lambda: Slice((0,), (1,), (1, 1)), "1 offsets, 1 sizes and 2 strides differ in length"),
        (lambda: InsertSlice((0,), (1,), (0,)), "on axis 0 must be at least 0, 0 and 1"),
        (lambda: Concat(-1), "axis -1 is negative"),
        (lambda: BroadcastInDim((0, 0), (4, 4)), r"dims \[0, 0\] are not different axes of 2"),
        (lambda: BroadcastInDim((2,), (4, 4)), r"dims \[2\] are not different axes of 2"),
        (lambda: BroadcastInDim((0,), (-4,)), r"\[-4\] is not a shape"),
        (lambda: Reverse((0, 0)), r"dims \[0, 0\] are not different axes"),
        (lambda: Reverse((-1,)), r"dims \[-1\] are not different axes"),
        (lambda: Pad((-1,), (1,)), "padding widths must not be negative"),
        (lambda: Pad((1,), (1, 2)), r"low, high and interior widths differ in length: \[1, 2, 1\]"),
        (lambda: PadWith((1,), (1,), (-1,), ZeroPoint()), "must not be negative"),
        (lambda: PadWith((1,), (1,), (1, 1), ZeroPoint()), "differ in length"),
        (lambda: Take(-1, (0,)), "axis -1 is negative"),
        (lambda: Take(0, (2, -1)), "index -1 is negative"),
    ],
)
def test_movements_of_no_operand_are_not_made(given: Callable[[], Movement], message: str):
    with pytest.raises(MovementError, match=message):
        given()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda: Transpose(1), "permutation must be a sequence of integers, but is 1"),
        (lambda: Transpose("10"), "permutation must be a sequence of integers, but is '10'"),
        (lambda: Transpose([1.0, 0]), r"permutation\[0\] must be an integer, but is 1.0"),
        (lambda: Transpose([True, False]), r"permutation\[0\] must be an integer, but is True"),
        (lambda: Transpose(np.array([1.0, 0.0])), "permutation must be a sequence of integers"),
        (lambda: Transpose(np.array([[1, 0]])), "permutation must be a sequence of integers"),
        (lambda: Transpose({0, 1}), "permutation must be a sequence of integers"),
        (lambda: Concat(1.0), "dim must be an integer, but is 1.0"),
        (lambda: Concat([0]), r"dim must be an integer, but is \[0\]"),
        (lambda: Take(0, 3), "indices must be a sequence of integers, but is 3"),
        (lambda: PadWith((1,), (1,), (0,), 0.0), "padded_with must be of class Padding"),
        (lambda: Chain.of([3]), "a part of a chain must be of class Movement"),
        (lambda: Chain(Transpose((0,)), (3,)), "a part of a chain must be of class Movement"),
        (lambda: Chain(Transpose((0,)), Transpose((0,))), "must be of class tuple"),
        (lambda: Stored(3), "the stored element must be of class generic"),
        (lambda: Real("0"), "the padded value must be a number, but is '0'"),
        (lambda: Splat(np.float32(1), (2,)), "must be an integer.*a float is given as its bits"),
        (lambda: Splat(1.5, (2,)), "the value of a splat must be an integer, but is 1.5"),
        (lambda: Splat(True, (2,)), "the value of a splat must be an integer, but is True"),
        (lambda: Splat(np.True_, (2,)), "the value of a splat must be an integer"),
        (lambda: Splat(np.array([1, 2]), (2,)), "the value of a splat must be an integer"),
        (lambda: Splat(1, 2), "shape must be a sequence of integers, but is 2"),
    ],
)
def test_arguments_of_another_kind_are_refused(given: Callable[[], object], message: str):
    with pytest.raises(TypeError, match=message):
        given()


def test_splats_that_cannot_be():
    with pytest.raises(ValueError, match=r"\[-2\] is not a shape"):
        Splat(1, (-2,))
    with pytest.raises(ValueError, match="must fit 64 bits"):
        Splat(2**64, ())
    with pytest.raises(ValueError, match="at least one movement"):
        Chain.of([])


def test_parameters_take_sequences():
    given = QuantizationParameters.from_blocks([4], [1, 0.25], range(2), F32, I8)
    scales, zero_points = np.array([1, 0.25]), np.array([0, 1])
    same = QuantizationParameters.from_blocks((4,), scales, zero_points, F32, I8)
    assert given.first_difference(same) is None
    assert given.read([1, 2, 3, 4]).tolist() == [1.0, 2.0, 0.5, 0.75]
    assert given.store([1, 2, 0.5, 0.75], -128, 127).tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((4, [1.0], [0], F32, I8), TypeError, "shape must be a sequence of integers, but is 4"),
        (([4.0], [1.0], [0], F32, I8), TypeError, r"shape\[0\] must be an integer, but is 4.0"),
        (([-4], [1.0], [0], F32, I8), ValueError, r"\[-4\] is not a static shape"),
        (([4], ["1"], [0], F32, I8), TypeError, "scales must be numbers, but are of dtype <U1"),
        (([4], [True], [0], F32, I8), TypeError, "scales must be numbers, but are of dtype bool"),
        (([4], [1.0, [2.0]], [0], F32, I8), ValueError, "scales must not be ragged"),
        (([4], [1.0], [0.5], F32, I8), ValueError, "zero_points must be integers, but 0.5 is not"),
        (([4], [1.0], [np.nan], F32, I8), ValueError, "zero_points must be integers, but nan"),
        (([4], [1.0], [np.inf], F32, I8), ValueError, "zero_points must fit 64 bits"),
        (([4], [1.0], [2**63], F32, I8), ValueError, "zero_points must fit 64 bits"),
        (([4], [1.0], [2**70], F32, I8), ValueError, "zero_points must fit 64 bits"),
        (([4], [1.0], [None], F32, I8), TypeError, "zero_points must be numbers, but are of dtype"),
        (([4], [1.0], [0], "f32", I8), TypeError, "expressed must be of class FloatFormat"),
        (([4], [1.0], [0], F32, (8, True)), TypeError, "storage must be of class StorageFormat"),
        (([4], [1.0], [0], F32, StorageFormat(0, True)), ValueError, "storage has 0 bits"),
        (([4], [1.0], [0], F32, StorageFormat(64, False)), ValueError, "storage has 64 bits"),
    ],
)
def test_parameters_that_cannot_be(
    arguments: tuple[object, ...], error: type[Exception], message: str
):
    with pytest.raises(error, match=message):
        QuantizationParameters.from_blocks(*arguments)


def test_elements_that_are_not_there():
    some = QuantizationParameters.from_blocks([2, 3], [[0.5]], [[3]], F32, I8)
    assert some.slot((1, 2)) == (0.5, 3)
    for index in ((0, 3), (0, -1), (2, 0), (0,), (0, 0, 0)):
        with pytest.raises(IndexError, match=r"is not an index of a tensor of shape \[2, 3\]"):
            some.slot(index)
    for positions in ([3], [-1]):
        with pytest.raises(IndexError, match="a position is out of range for axis 1 of length 3"):
            some.take(np.array(positions), axis=1)
    with pytest.raises(ValueError, match=r"codes must be integers, but 1\.5 is not"):
        some.read(np.array([1.5]))
