"""Ranges and codes of arrays are those of one element at a time, whatever the blocks of work."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays as random_arrays

from qdialect.algebra.parameters import StorageFormat
from qdialect.algebra.run_map import TooManySlotsError
from qdialect.ptq.schemes import arrays
from qdialect.ptq.schemes.arrays import array_range, quantize_array, quantize_values
from qdialect.ptq.schemes.presets import I8, SCHEMES, U8, luci, scheme_of
from qdialect.ptq.schemes.schemes import Blocks, Choice, Rounding, ZeroPointPlace

pytestmark = pytest.mark.without_xdsl

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

I32 = StorageFormat(32, signed=True)


@pytest.fixture(params=["as it is", "small"], autouse=True)
def _sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    """Small arrays are worked on in several blocks and pieces, too."""
    if request.param == "small":
        monkeypatch.setattr(arrays, "_BLOCK", 8)
        monkeypatch.setattr(arrays, "_PIECE", 12)
        monkeypatch.setattr(arrays, "_FEW", 3)
        monkeypatch.setattr(arrays, "_SHORT", 7)
        monkeypatch.setattr(arrays, "_LONG", 4)


@st.composite
def tensors(draw: st.DrawFn, *, nans: bool = False) -> tuple[Array, Blocks]:
    """An array in any order of memory, and blocks that divide it."""
    shape = tuple(draw(st.lists(st.integers(1, 12), max_size=4)))
    while math.prod(shape) > 300:
        shape = shape[1:]
    dtype = draw(st.sampled_from(["f4", "f4", "f2", "f8", ">f4"]))
    numbers = st.one_of(
        st.floats(-100, 100, width=16),
        st.sampled_from([0.0, -0.0, 0.5, -0.5, 1.5, *([math.nan] if nans else [])]),
    )
    values = draw(random_arrays(np.float16, shape, elements=numbers)).astype(dtype)
    values = values * values.dtype.type(draw(st.sampled_from([1, 0.1, 0.003])))
    if shape and draw(st.booleans()):
        axes = draw(st.permutations(range(len(shape))))
        values = np.ascontiguousarray(values.transpose(axes)).transpose(np.argsort(axes))
    if shape and draw(st.booleans()):
        values = values[::-1]
    divided = draw(st.lists(st.sampled_from(range(len(shape))), unique=True)) if shape else []
    sizes = {
        axis: draw(st.sampled_from([n for n in range(1, shape[axis] + 1) if not shape[axis] % n]))
        for axis in divided
    }
    return values, Blocks.of_sizes(sizes)


def slots_of(values: Array, blocks: Blocks) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """The index of each slot, and the elements that read it."""
    lengths, slots = blocks.lengths(values.shape), blocks.slots(values.shape)
    for index in product(*map(range, slots)):
        yield (
            index,
            tuple(
                slice(i * length, (i + 1) * length)
                for i, length in zip(index, lengths, strict=True)
            ),
        )


@given(tensors(nans=True), st.sampled_from([1, 2, 3]))
def test_ranges(of: tuple[Array, Blocks], threads: int):
    values, blocks = of
    wanted: dict[tuple[int, ...], tuple[float, float]] = {}
    for index, elements in slots_of(values, blocks):
        numbers = [n for n in map(float, values[elements].ravel()) if not math.isnan(n)]
        if not numbers:
            with pytest.raises(ValueError, match=r"all elements.* are NaN"):
                array_range(values, blocks, threads=threads)
            return
        wanted[index] = float(np.float32(min(numbers))), float(np.float32(max(numbers)))
    found = array_range(values, blocks, threads=threads)
    assert found.minimum.shape == found.maximum.shape == blocks.slots(values.shape)
    assert found.minimum.dtype == found.maximum.dtype == np.float32
    for index, ends in wanted.items():
        assert (found.minimum[index], found.maximum[index]) == ends
    assert found.nans == np.count_nonzero(np.isnan(values))
    assert not np.signbit(found.minimum[found.minimum == 0]).any()
    assert not np.signbit(found.maximum[found.maximum == 0]).any()


def test_the_range_of_repeated_positions_is_that_of_one():
    ends = np.array([[-1.5], [np.nan], [0.25]], "f4")
    values = np.broadcast_to(ends[:, None], (3, 1 << 20, 1 << 20))
    found = array_range(values[::2])
    assert (found.minimum.item(), found.maximum.item(), found.nans) == (-1.5, 0.25, 0)
    found = array_range(np.broadcast_to(ends[:, 0], (1 << 40, 3)))
    assert (found.minimum.item(), found.maximum.item(), found.nans) == (-1.5, 0.25, 1 << 40)
    found = array_range(values[::2], Blocks.of_sizes({0: 1, 2: 1 << 18}))
    assert found.minimum.shape == found.maximum.shape == (2, 1, 4)
    assert found.minimum[:, 0].tolist() == [[-1.5] * 4, [0.25] * 4]


def test_ranges_of_too_many_slots_are_refused():
    values = np.broadcast_to(np.float32(0.5), (1 << 20, 1 << 20))
    with pytest.raises(TooManySlotsError, match="1073741824 slots"):
        array_range(values, Blocks.of_sizes({0: 1, 1: 1 << 10}))


def rounded(number: Fraction, to: Rounding) -> int:
    if to is Rounding.HALF_EVEN:
        return round(number)
    return int(math.copysign(1, number)) * int(abs(number) + Fraction(1, 2))


def float32(number: Fraction) -> float:
    """The nearest float32: by its digits, without a float64 on the way."""
    if not number:
        return 0.0
    exponent = math.frexp(float(abs(number)))[1]
    unit = Fraction(2) ** max(exponent - 24, -149)
    return float(round(number / unit) * unit)


def code_of(value: float, choice: Choice, slot: tuple[int, ...]) -> int:
    """One code, of exact steps that are rounded one by one."""
    arithmetic, scheme = choice.arithmetic, choice.scheme

    def of(number: Fraction) -> Fraction:
        return number if arithmetic.precision == "f8" else Fraction(float32(number))

    scale, zero = Fraction(float(choice.scales[slot])), int(choice.zero_points[slot])
    number = Fraction(float(np.float32(value)))
    if arithmetic.place is ZeroPointPlace.AS_MINIMUM:
        number = of(number - Fraction(float(choice.minimum[slot])))
    factor = Fraction(float32(1 / scale)) if arithmetic.multiplies else 1 / scale
    number = number * factor if arithmetic.fused else of(number * factor)
    match arithmetic.place:
        case ZeroPointPlace.BEFORE_ROUNDING:
            code = rounded(of(number + zero), arithmetic.rounding)
        case ZeroPointPlace.AFTER_ROUNDING:
            code = rounded(number, arithmetic.rounding) + zero
        case ZeroPointPlace.AS_MINIMUM:
            code = rounded(number, arithmetic.rounding) + scheme.minimum
    return max(scheme.minimum, min(scheme.maximum, code))


@given(tensors(), st.data(), st.sampled_from([1, 2, 3]))
def test_codes(of: tuple[Array, Blocks], data: st.DataObject, threads: int):
    values, blocks = of
    name = data.draw(st.sampled_from([*SCHEMES]))
    storage = I8 if "symmetric" in name else data.draw(st.sampled_from([I8, U8]))
    scheme = scheme_of(name, storage)
    quantized = quantize_array(values, scheme, blocks, threads=threads)
    assert quantized.codes.dtype == ("i1" if storage.signed else "u1")
    assert quantized.codes.shape == values.shape
    given_choice = scheme.given(
        np.full(
            blocks.slots(values.shape), np.float32(data.draw(st.sampled_from([0.1, 0.5, 3.0])))
        ),
        data.draw(st.integers(scheme.minimum, scheme.maximum)),
    )
    given_codes = quantize_values(values, given_choice, threads=threads)
    for choice, codes in ((quantized.choice, quantized.codes), (given_choice, given_codes)):
        for slot, elements in slots_of(values, blocks):
            wanted = [code_of(float(n), choice, slot) for n in values[elements].ravel()]
            assert codes[elements].ravel().tolist() == wanted
    slot_of = quantized.parameters
    for slot, elements in slots_of(values, blocks):
        first = tuple(of.start for of in elements)
        assert slot_of.slot(first) == (
            quantized.choice.scales[slot],
            quantized.choice.zero_points[slot],
        )


@given(st.data())
def test_fused_sums_are_rounded_once(data: st.DataObject):
    """Also those that float64 cannot hold, and that are halfway between two float32."""
    scheme = scheme_of("torch-per-tensor-affine", I8)
    scale = np.float32(data.draw(st.floats(0.25, 4, width=32)))
    zero_point = data.draw(st.integers(-128, 127))
    choice = scheme.given(scale, zero_point)
    values = data.draw(random_arrays(np.float32, 20, elements=st.floats(-0.75, 0.75, width=32)))
    assert quantize_values(values, choice).tolist() == [
        code_of(float(value), choice, ()) for value in values
    ]


def test_a_sum_halfway_between_two_float32():
    """`halfway` is the float64 of a sum that is a little less, or more, or just that."""
    halfway = 128 + 2.0**-17
    for lost, sign in ((2.0**-60, 1), (-(2.0**-60), -1), (0.0, 0)):
        values = np.array([2.0**-17 + lost], "f8")
        sums = np.array([halfway])
        arrays._round_to_float32(sums, values, np.array([1.0]), np.array([128.0]))  # pyright: ignore[reportPrivateUsage]
        assert sums[0] == (128 + 2.0**-16 if sign > 0 else 128)


@pytest.mark.parametrize("name", SCHEMES)
def test_infinities_have_the_last_codes(name: str):
    scheme = scheme_of(name, I8)
    values = np.array([-math.inf, -3e38, 0, 3e38, math.inf], "f4")
    codes = quantize_values(values, scheme.given(0.5, 0)).tolist()
    low, high = scheme.minimum, scheme.maximum
    assert codes == [low, low, 0, high, high]


@pytest.mark.parametrize("name", SCHEMES)
def test_nan_has_no_code(name: str):
    scheme = scheme_of(name, I8)
    values = np.ones((5, 7), "f4")
    values[3, 2] = math.nan
    with pytest.raises(ValueError, match=r"element \[3, 2\] is NaN, which has no code"):
        quantize_values(values, scheme.given(0.5, 0))
    with pytest.raises(ValueError, match=r"element \[3, 2\] is NaN, which has no code"):
        quantize_array(values.T.copy().T, scheme, Blocks.per_axis(0))
    found = array_range(values, Blocks.per_axis(0))
    assert found.nans == 1


def test_codes_of_32_bits_are_not_rounded_to_float32():
    scheme = scheme_of("glow-symmetric", I32)
    codes = quantize_values(np.array([3e9, -3e9, 2.0**30], "f4"), scheme.given(1.0, 0))
    assert codes.tolist() == [2**31 - 1, -(2**31), 2**30]


def test_what_has_no_range():
    with pytest.raises(ValueError, match=r"of shape \[0, 3\] has no range"):
        array_range(np.zeros((0, 3), "f4"))
    with pytest.raises(ValueError, match=r"slot \[1, 0\] are NaN"):
        array_range(np.array([[0.0], [math.nan]], "f4"), Blocks.per_axis(0))
    with pytest.raises(ValueError, match="all elements are NaN"):
        array_range(np.array([math.nan], "f4"))
    with pytest.raises(TypeError, match="not int8"):
        array_range(np.zeros(3, "i1"))
    assert quantize_values(np.zeros((0, 3), "f4"), luci(U8).given(1.0, 0)).shape == (0, 3)


def test_blocks():
    shape = (6, 4, 10)
    blocks = Blocks.of_sizes({2: 5, 0: 1})
    assert blocks.lengths(shape) == (1, 4, 5)
    assert blocks.slots(shape) == (6, 1, 2)
    with pytest.raises(ValueError, match="blocks of 4 do not divide axis 0 of 6 positions"):
        Blocks.of_sizes({0: 4}).lengths(shape)
    with pytest.raises(ValueError, match=r"no axis 3 in shape \[6, 4, 10\]"):
        Blocks.per_axis(3).slots(shape)
    with pytest.raises(ValueError, match="positive size"):
        Blocks.of_sizes({0: 0})
    with pytest.raises(ValueError, match="not negative"):
        Blocks.per_axis(-1)
    with pytest.raises(ValueError, match=r"slots of shape \[2\] do not divide \[3\]"):
        quantize_values(np.zeros(3, "f4"), luci(U8).given([1.0, 1.0], 0))


def test_one_choice_for_any_shape():
    choice = luci(I8).choose(-1, 1)
    for shape in ((), (3,), (2, 1, 4)):
        assert (
            quantize_values(np.ones(shape, "f4"), choice).tolist() == np.full(shape, 127).tolist()
        )
        assert choice.parameters(shape).slot((0,) * len(shape)).zero_point == 0
