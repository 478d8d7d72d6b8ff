"""Codebooks: the numbers of codes, and the nearest code, judged by ml_dtypes and by trying all."""

from fractions import Fraction
from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from qdialect.algebra.codebooks import Codebook
from qdialect.support.float_format import FLOAT_FORMATS

FORMATS = {
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f4E2M1FN": ml_dtypes.float4_e2m1fn,
    "f6E2M3FN": ml_dtypes.float6_e2m3fn,
    "f6E3M2FN": ml_dtypes.float6_e3m2fn,
}
INF = float("inf")

pytestmark = pytest.mark.without_xdsl


def floats(name: str) -> Codebook:
    format = FLOAT_FORMATS[name]
    codes = np.arange(1 << (format.exponent_bits + format.precision), dtype=np.uint8)
    return Codebook.of_floats(name, format.decode(codes), format.precision - 1)


def table(entries: list[float], first: int = 0) -> Codebook:
    return Codebook("a table", first, np.array(entries, "<f8").tobytes(), is_float=False)


@pytest.mark.parametrize("name", FORMATS)
def test_all_codes_of_a_float_format(name: str):
    book = floats(name)
    bits = book.codes.astype(np.uint8)
    wanted = bits.view(FORMATS[name]).astype("f4").astype("f8")
    read = book.decode(book.codes)
    is_nan = np.isnan(wanted)
    assert np.array_equal(is_nan, np.isnan(read))
    assert np.array_equal(wanted[~is_nan].view("i8"), read[~is_nan].view("i8"))
    finite = np.isfinite(read)
    assert np.array_equal(book.nearest(read[finite], -INF, INF), book.codes[finite])


@given(st.sampled_from([*FORMATS]), st.lists(st.floats(width=32, allow_nan=False), min_size=1))
def test_the_nearest_code_of_a_float_format(name: str, numbers: list[float]):
    """As ml_dtypes rounds, after a clamp; ties between neighbours are among the numbers."""
    format = FLOAT_FORMATS[name]
    book = floats(name)
    finite = np.sort(book.numbers[np.isfinite(book.numbers)])
    x = np.array([*numbers, *(finite[1:] + finite[:-1]) / 2, -0.0, INF, -INF], "f4")
    wanted = np.clip(x, -format.largest, format.largest).astype(FORMATS[name]).view(np.uint8)
    assert np.array_equal(book.nearest(x.astype("f8"), -INF, INF), wanted)


def float32_numbers() -> NDArray[np.float32]:
    """All upper halves of bits with six lower ones, without NaN: ties, and what is beside them."""
    upper = np.arange(1 << 16, dtype=np.uint32) << 16
    lower = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    numbers = (upper[:, None] | lower).reshape(-1).view(np.float32)
    return numbers[~np.isnan(numbers)]


@pytest.mark.parametrize("name", FORMATS)
def test_float32_is_rounded_as_by_ml_dtypes(name: str):
    largest = np.float32(FLOAT_FORMATS[name].largest)
    numbers = float32_numbers()
    wanted = np.clip(numbers, -largest, largest).astype(FORMATS[name]).view(np.uint8)
    assert np.array_equal(floats(name).nearest(numbers, -INF, INF), wanted)


@pytest.mark.parametrize(
    "entries",
    [
        [sign * number for sign in (1, -1) for number in (0, 1 / 192, 8, 12, 4, 6, 2, 3)],
        [0, 1, 4, 2, 0, -1, -4, -2],
        [1, 3, 2, 5, -1, -3, -2, -5],
        [-1, -0.5, 0, 0.25, 1, 2, 2, -0.0],
        [3.5],
    ],
)
def test_float32_has_the_nearest_entry(entries: list[float]):
    """Of a table with and without signs, zero, and order; the lower code on ties."""
    numbers = float32_numbers()[::5]
    rounded = np.array(entries, np.float32).astype("f8")
    # Smaller numbers are as near to all entries, in a double; greater ones to the same end.
    magnitudes = np.where(numbers == 0, 0, np.clip(np.abs(numbers), 2.0**-30, 100)).astype("f8")
    far = np.abs(np.copysign(magnitudes, numbers)[:, None] - rounded)
    codes = table(list(rounded)).nearest(numbers, -INF, INF)
    assert np.array_equal(codes, far.argmin(axis=1))


@pytest.mark.parametrize("ends", [(0, 6), (-1, 6), (-6, 2), (-6, 6)])
def test_float32_in_a_range(ends: tuple[float, float]):
    """As float64, with the sign of zero."""
    numbers = float32_numbers()
    f4 = floats("f4E2M1FN")
    assert np.array_equal(f4.nearest(numbers, *ends), f4.nearest(numbers.astype("f8"), *ends))


@given(
    st.lists(st.floats(-100, 100), min_size=1, max_size=20),
    st.lists(st.floats(-200, 200), max_size=20),
)
def test_the_nearest_entry_of_a_table(entries: list[float], numbers: list[float]):
    """The lower code on ties, exactly; entries and middles are tried too."""
    book = table(entries, first=-3)
    x = [*numbers, *entries, *((a + b) / 2 for a, b in pairwise(entries))]
    codes = book.nearest(np.array(x), -INF, INF)
    for number, code in zip(x, codes, strict=True):
        far = [abs(Fraction(entry) - Fraction(number)) for entry in entries]
        assert code == far.index(min(far)) - 3


def test_ranges():
    f8, entries = floats("f8E4M3FN"), table([1.0, -2.0, 4.0, 4.0])
    # 17 and 19 are no numbers of the format; 18 is the only one between them.
    codes = f8.nearest(np.array([-INF, 17.0, 100.0]), 17, 19).astype(np.int64)
    assert f8.decode(codes).tolist() == [18.0] * 3
    # The end of a range is no negative zero.
    assert f8.nearest(np.array([-0.0, -1e-9, 1e-9]), 0, 6).tolist() == [0x80, 0, 0]
    assert f8.nearest(np.array([-1e-9]), -1, 6).tolist() == [0x80]
    assert entries.nearest(np.array([-9.0, 4.0]), 0, 0).tolist() == [0, 0]
    assert entries.nearest(np.array([-9.0, 4.0]), 1, 3).tolist() == [1, 2]
    assert f8.are_in_range(np.array([0x7F, 0xFF, 0x38, 0x80]), 0, 1).tolist() == [True] * 4
    with pytest.raises(ValueError, match="no number in the storage range"):
        f8.nearest(np.array([1.0]), 33, 35)


def test_nan():
    nan = np.array([np.nan, -np.nan])
    assert floats("f8E4M3FN").nearest(nan, 0, 1).tolist() == [127] * 2
    assert floats("f8E5M2").nearest(nan, 0, 1).tolist() == [126] * 2
    for book in (floats("f4E2M1FN"), table([0.0, 1.0])):
        with pytest.raises(ValueError, match="no code of NaN"):
            book.nearest(nan, 0, 1)


def test_real_zero():
    f8 = floats("f8E4M3FN")
    assert f8.zeros(np.array([0, 1, -448])).tolist() == [0, 0x38, 0xFE]
    entries = table([-0.0, 5.0, 0.0, 0.0], first=-1)
    assert entries.zeros(np.array([[0], [5]])).tolist() == [[1], [0]]
    with pytest.raises(ValueError, match="none of its numbers is the zero point 2"):
        entries.zeros(np.array([0, 2]))
    with pytest.raises(ValueError, match="none of its numbers is the zero point 0"):
        table([-0.0, 1.0]).zeros(np.array(0))


def test_codes_without_a_number():
    with pytest.raises(ValueError, match="code 3 is not in a table"):
        table([0.0, 1.0]).decode(np.array([1, 3]))
