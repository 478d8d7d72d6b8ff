"""Rounding to MLIR's float types, and the text that MLIR writes for their numbers."""

import math
import random
import re
import shutil
import struct
import subprocess
from fractions import Fraction
from typing import NamedTuple, get_args

import numpy as np
import pytest
from example_counts import examples
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import AnyFloat

from qdialect.support.float_format import FLOAT_FORMATS, FloatFormat

MLIR_OPT = shutil.which("mlir-opt-22")


class Expected(NamedTuple):
    """What the tests know of a format that no double is too precise for."""

    precision: int
    smallest: Fraction
    largest: Fraction
    beyond: float
    """The result of rounding a positive number beyond the range."""


def power(exponent: int) -> Fraction:
    return Fraction(2) ** exponent


INF, NAN = math.inf, math.nan
NARROW = {
    "f16": Expected(11, power(-24), 2 * power(15) - power(5), INF),
    "bf16": Expected(8, power(-133), 2 * power(127) - power(120), INF),
    "f32": Expected(24, power(-149), 2 * power(127) - power(104), INF),
    "tf32": Expected(11, power(-136), 2 * power(127) - power(117), INF),
    "f8E5M2": Expected(3, power(-16), Fraction(57344), INF),
    "f8E4M3": Expected(4, power(-9), Fraction(240), INF),
    "f8E4M3FN": Expected(4, power(-9), Fraction(448), NAN),
    "f8E3M4": Expected(5, power(-6), Fraction(31, 2), INF),
    "f8E5M2FNUZ": Expected(3, power(-17), Fraction(57344), NAN),
    "f8E4M3FNUZ": Expected(4, power(-10), Fraction(240), NAN),
    "f8E4M3B11FNUZ": Expected(4, power(-13), Fraction(30), NAN),
    "f8E8M0FNU": Expected(1, power(-127), power(127), NAN),
    "f6E2M3FN": Expected(4, power(-3), Fraction(15, 2), 7.5),
    "f6E3M2FN": Expected(3, power(-4), Fraction(28), 28.0),
    "f4E2M1FN": Expected(2, power(-1), Fraction(6), 6.0),
}
WIDE = ("f64", "f80", "f128")


def round_one(name: str, value: float) -> float:
    return FLOAT_FORMATS[name].round(np.array(value)).item()


def double(bits: int) -> float:
    (value,) = struct.unpack("<d", struct.pack("<Q", bits))
    return value


def double_bits(value: float) -> int:
    (bits,) = struct.unpack("<Q", struct.pack("<d", value))
    return bits


def is_same(left: float, right: float) -> bool:
    return double_bits(left) == double_bits(right)


def test_formats():
    assert set(FLOAT_FORMATS) == {*NARROW, *WIDE}
    assert all(name == known.name for name, known in FLOAT_FORMATS.items())


@pytest.mark.parametrize("name", NARROW)
def test_bounds(name: str):
    assert Fraction(FLOAT_FORMATS[name].smallest) == NARROW[name].smallest
    assert Fraction(FLOAT_FORMATS[name].largest) == NARROW[name].largest


@pytest.mark.parametrize(
    ("name", "smallest", "largest"),
    [
        ("f64", 5e-324, double(0x7FEFFFFFFFFFFFFF)),
        ("f80", 0.0, INF),
        ("f128", 0.0, INF),
    ],
)
def test_bounds_of_wide_formats(name: str, smallest: float, largest: float):
    assert FLOAT_FORMATS[name].smallest == smallest
    assert FLOAT_FORMATS[name].largest == largest


# Rounding


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("f16", 0.1, 0.0999755859375),
        ("f16", 2049.0, 2048.0),
        ("f16", 2051.0, 2052.0),
        ("f16", 65519.9, 65504.0),
        ("f16", 65520.0, INF),
        ("f16", -65520.0, -INF),
        ("f16", 2.0**-25, 0.0),
        ("f16", -(2.0**-25), -0.0),
        ("f16", 1.5 * 2.0**-24, 2.0**-23),
        ("f32", 0.1, 0.10000000149011612),
        ("f32", 1e300, INF),
        # Rounding to the 24 digits of f32 first would make these ties.
        ("bf16", 1.00390625 + 2.0**-40, 1.0078125),
        ("tf32", 1.00048828125 + 2.0**-40, 1.0009765625),
        ("bf16", 1.00390625, 1.0),
        ("f8E5M2", 61439.0, 57344.0),
        ("f8E5M2", 61440.0, INF),
        ("f8E4M3FN", 464.0, 448.0),
        ("f8E4M3FN", 464.0000001, NAN),
        ("f8E4M3FN", -480.0, -NAN),
        ("f8E4M3FN", INF, NAN),
        ("f8E4M3FNUZ", 247.99, 240.0),
        ("f8E4M3FNUZ", -248.0, NAN),
        ("f8E4M3FNUZ", -0.0, 0.0),
        ("f8E4M3FNUZ", -1e-9, 0.0),
        ("f8E4M3FNUZ", -NAN, NAN),
        ("f8E8M0FNU", 1.4999, 1.0),
        ("f8E8M0FNU", 1.5, 2.0),
        ("f8E8M0FNU", 3.0, 4.0),
        ("f8E8M0FNU", -3.0, -4.0),
        ("f8E8M0FNU", 0.0, 2.0**-127),
        ("f8E8M0FNU", -0.0, 2.0**-127),
        ("f8E8M0FNU", -(2.0**-128), 2.0**-127),
        ("f8E8M0FNU", -1.1 * 2.0**-128, -(2.0**-127)),
        ("f8E8M0FNU", 1.4 * 2.0**127, 2.0**127),
        ("f8E8M0FNU", 1.5 * 2.0**127, NAN),
        ("f8E8M0FNU", -INF, NAN),
        ("f4E2M1FN", 0.25, 0.0),
        ("f4E2M1FN", 2.5, 2.0),
        ("f4E2M1FN", 3.5, 4.0),
        ("f4E2M1FN", 1e300, 6.0),
        ("f4E2M1FN", -INF, -6.0),
        ("f4E2M1FN", NAN, 0.0),
        ("f4E2M1FN", -NAN, -0.0),
    ],
)
def test_round(name: str, value: float, expected: float):
    assert is_same(round_one(name, value), expected)


@pytest.mark.parametrize("name", FLOAT_FORMATS)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (2, 3, 4)])
def test_round_keeps_shape_and_dtype(name: str, shape: tuple[int, ...]):
    values = np.full(shape, 0.7)
    rounded = FLOAT_FORMATS[name].round(values)
    assert isinstance(rounded, np.ndarray)
    assert rounded.shape == shape
    assert rounded.dtype == np.float64
    assert (rounded == round_one(name, 0.7)).all()
    assert (values == 0.7).all()


@pytest.mark.parametrize("name", FLOAT_FORMATS)
def test_round_is_elementwise(name: str):
    values = np.array([[0.3, NAN, -INF, 1e-300], [1e300, -0.0, -NAN, -5.3]]).T[::-1]
    rounded = FLOAT_FORMATS[name].round(values)
    for one, value in zip(rounded.flat, values.flat, strict=True):
        assert is_same(one, round_one(name, value))


def test_round_keeps_all_values_of_wide_formats():
    values = np.array([0.1, -0.0, NAN, INF, 5e-324])
    assert all(FLOAT_FORMATS[name].round(values) is values for name in WIDE)


def nearest(expected: Expected, value: float) -> float:
    """The number nearest to `value`, found among its two neighbors."""
    exact = abs(Fraction(value))
    place = expected.smallest
    while exact >= place * 2**expected.precision:
        place *= 2
    below = exact // place
    to_below = exact - below * place
    to_above = place - to_below
    above_is_nearer = to_above < to_below or (to_above == to_below and below % 2 == 1)
    found = (below + above_is_nearer) * place
    if found > expected.largest:
        return math.copysign(expected.beyond, value)
    return math.copysign(float(found), value)


def doubles(expected: Expected) -> st.SearchStrategy[float]:
    """Numbers of the format, its midpoints, their neighbors, and any other double."""
    digits = 2 ** (expected.precision + 2)
    lowest = math.frexp(expected.smallest)[1] - 4
    highest = math.frexp(expected.largest)[1] - expected.precision

    def build(significand: int, exponent: int, target: float, negative: bool) -> float:
        value = math.ldexp(significand, exponent)
        if not math.isnan(target):
            value = math.nextafter(value, target)
        return -value if negative else value

    near = st.builds(
        build,
        st.integers(0, digits),
        st.integers(lowest, highest),
        st.sampled_from([NAN, 0.0, INF]),
        st.booleans(),
    )
    return near | st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize("name", NARROW)
def test_round_is_nearest_and_idempotent(name: str):
    expected = NARROW[name]

    @examples(150)
    @given(doubles(expected))
    @example(float(expected.smallest) / 2)
    @example(float(expected.largest))
    def check(value: float):
        rounded = round_one(name, value)
        exact = nearest(expected, value)
        if name == "f8E8M0FNU" and exact == 0.0:
            exact = float(expected.smallest)
        assert rounded == exact or (math.isnan(rounded) and math.isnan(exact))
        assert is_same(round_one(name, rounded), rounded)

    check()


# Bit patterns


@pytest.mark.parametrize(
    ("name", "value", "bits"),
    [
        ("f16", 1.0, 0x3C00),
        ("f16", -INF, 0xFC00),
        ("bf16", -1.0, 0xBF80),
        ("tf32", 1.0, 0x1FC00),
        ("tf32", NAN, 0x3FE00),
        ("f32", NAN, 0x7FC00000),
        ("f32", -NAN, 0xFFC00000),
        ("f64", 1234567.0, 0x4132D68700000000),
        ("f64", 5e-324, 1),
        ("f80", 0.0, 0),
        ("f80", -0.0, 0x80000000000000000000),
        ("f80", 1.0, 0x3FFF8000000000000000),
        ("f80", 1234567.0, 0x401396B4380000000000),
        ("f80", -INF, 0xFFFF8000000000000000),
        ("f80", NAN, 0x7FFFC000000000000000),
        ("f80", 5e-324, 0x3BCD8000000000000000),
        ("f128", 1234567.0, 0x40132D68700000000000000000000000),
        ("f128", NAN, 0x7FFF8000000000000000000000000000),
        ("f8E5M2", NAN, 0x7E),
        ("f8E4M3FN", -NAN, 0xFF),
        ("f8E4M3FNUZ", NAN, 0x80),
        ("f8E4M3FNUZ", -0.0, 0x00),
        ("f8E8M0FNU", 2.0**-127, 0x00),
        ("f8E8M0FNU", 1.0, 0x7F),
        ("f8E8M0FNU", -NAN, 0xFF),
        ("f6E2M3FN", -7.5, 0x3F),
        ("f6E3M2FN", 0.0625, 0x01),
        ("f4E2M1FN", 6.0, 0x7),
    ],
)
def test_to_bits(name: str, value: float, bits: int):
    assert FLOAT_FORMATS[name].to_bits(value) == bits


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("f16", 0.1),
        ("f32", 1e300),
        ("f8E4M3FN", INF),
        ("f8E8M0FNU", 0.0),
        ("f8E8M0FNU", -1.0),
        ("f6E2M3FN", NAN),
        ("f4E2M1FN", 8.0),
    ],
)
def test_to_bits_of_what_the_format_does_not_hold(name: str, value: float):
    with pytest.raises(ValueError, match=re.escape(f"{name} does not hold {value}")):
        FLOAT_FORMATS[name].to_bits(value)


XDSL_TYPES = [type() for type in get_args(AnyFloat) if type.name not in ("f80", "f128")]


@pytest.mark.parametrize("type", XDSL_TYPES, ids=str)
def test_from_bits(type: AnyFloat):
    """Of every bit pattern of narrow formats, and of some of the others, as xDSL has it."""
    width = type.bitwidth
    random = np.random.default_rng(0).integers(0, 1 << width, 5000, dtype=np.uint64).tolist()
    patterns = range(1 << width) if width <= 16 else [0, 1 << (width - 1), 1, 2, 3, *random]
    size = type.compile_time_size
    expected = type.unpack(
        b"".join(bits.to_bytes(size, "little") for bits in patterns), len(patterns)
    )
    read = [FLOAT_FORMATS[type.name].from_bits(bits) for bits in patterns]
    for number, wanted in zip(read, expected, strict=True):
        assert number == wanted or (math.isnan(number) and math.isnan(wanted))
        assert math.isnan(number) or math.copysign(1.0, number) == math.copysign(1.0, wanted)


@pytest.mark.parametrize("type", XDSL_TYPES, ids=str)
def test_decode_and_encode(type: AnyFloat):
    """Arrays of bit patterns, as one by one; a NaN is encoded without sign and payload."""
    known, width = FLOAT_FORMATS[type.name], type.bitwidth
    step = max(1, (1 << width) // 3001)
    patterns = range(0, 1 << width, step)
    bits = np.array(patterns, dtype=np.uint64).reshape(1, -1)
    numbers = known.decode(bits)
    expected = [known.from_bits(pattern) for pattern in patterns]
    assert numbers.shape == bits.shape
    for found, number in zip(numbers.reshape(-1).tolist(), expected, strict=True):
        assert math.isnan(number) if math.isnan(found) else is_same(found, number)
    encoded = known.encode(numbers).reshape(-1).tolist()
    for pattern, number, found in zip(patterns, expected, encoded, strict=True):
        assert found == (known.to_bits(math.nan) if math.isnan(number) else pattern)
    assert known.encode(known.round(np.array(2.0))).item() == known.to_bits(2.0)
    finite = np.unique(numbers[np.isfinite(numbers)])
    edges = [*finite, *(finite[1:] / 2 + finite[:-1] / 2), 1.5 * known.largest, -1e300, 1e-300]
    between = np.array([*np.nextafter(edges, -np.inf), *np.nextafter(edges, np.inf), *edges])
    with np.errstate(all="raise"):
        nearest = known.nearest_bits(np.array([*between, np.nan, -np.inf]))
    assert (nearest == known.encode(known.round(np.array([*between, np.nan, -np.inf])))).all()


@pytest.mark.parametrize("name", ["f80", "f128"])
def test_decode_and_encode_of_wide_formats(name: str):
    with pytest.raises(ValueError, match=f"not every number of {name} is a double"):
        FLOAT_FORMATS[name].decode(np.zeros(1, dtype=np.uint64))
    with pytest.raises(ValueError, match=f"not every number of {name} is a double"):
        FLOAT_FORMATS[name].encode(np.zeros(1))


@pytest.mark.parametrize("name", ["f4E2M1FN", "f8E8M0FNU", "f16", "tf32"])
def test_from_bits_of_too_many_bits(name: str):
    width = next(type.bitwidth for type in XDSL_TYPES if type.name == name)
    with pytest.raises(ValueError, match=f"{name} has no bit pattern"):
        FLOAT_FORMATS[name].from_bits(1 << width)
    with pytest.raises(ValueError, match="not every number of f80 is a double"):
        FLOAT_FORMATS["f80"].from_bits(0)


def numbers(width: int, precision: int, bias: int) -> NDArray[np.float64]:
    """The meaning of each bit pattern, were all of them finite numbers."""
    bits = np.arange(2**width, dtype=np.int64)
    fraction = bits % 2 ** (precision - 1)
    exponent = (bits % 2 ** (width - 1)) >> (precision - 1)
    significand = fraction + np.where(exponent > 0, 2 ** (precision - 1), 0)
    place = np.maximum(exponent, 1) - bias - (precision - 1)
    sign = np.where(bits >> (width - 1), -1.0, 1.0)
    return sign * np.ldexp(significand.astype(np.float64), place)


@pytest.mark.parametrize(
    ("name", "width", "bias", "specials"),
    [
        ("f16", 16, 15, {*range(0x7C00, 0x8000), *range(0xFC00, 0x10000)}),
        ("f8E5M2", 8, 15, {*range(0x7C, 0x80), *range(0xFC, 0x100)}),
        ("f8E4M3", 8, 7, {*range(0x78, 0x80), *range(0xF8, 0x100)}),
        ("f8E4M3FN", 8, 7, {0x7F, 0xFF}),
        ("f8E3M4", 8, 3, {*range(0x70, 0x80), *range(0xF0, 0x100)}),
        ("f8E5M2FNUZ", 8, 16, {0x80}),
        ("f8E4M3FNUZ", 8, 8, {0x80}),
        ("f8E4M3B11FNUZ", 8, 11, {0x80}),
        ("f6E2M3FN", 6, 1, set[int]()),
        ("f6E3M2FN", 6, 3, set[int]()),
        ("f4E2M1FN", 4, 1, set[int]()),
    ],
)
def test_every_pattern(name: str, width: int, bias: int, specials: set[int]):
    known = FLOAT_FORMATS[name]
    values = numbers(width, known.precision, bias)
    patterns = [bits for bits in range(0, 2**width, width // 4) if bits not in specials]
    held = values[patterns]
    assert (known.round(held).view(np.int64) == held.view(np.int64)).all()
    assert [known.to_bits(value) for value in held.tolist()] == patterns
    finite = np.delete(values, list(specials))
    assert known.largest == finite.max()
    assert known.smallest == finite[finite > 0].min()


@pytest.mark.parametrize(
    ("name", "nan", "bits"),
    [
        # Signaling.
        ("f16", 0xFFF0000000000001, 0xFE00),
        ("f32", 0x7FF7FFFFFFFFFFFF, 0x7FFFFFFF),
        ("f64", 0x7FF0000000000001, 0x7FF0000000000001),
        ("f80", 0xFFF0000000000001, 0xFFFFC000000000000800),
        ("f128", 0x7FF0000000000001, 0x7FFF8000000000001000000000000000),
        # Quiet.
        ("f16", 0x7FF9234567891234, 0x7E48),
        ("bf16", 0x7FF9234567891234, 0x7FC9),
        ("f32", 0x7FF9234567891234, 0x7FC91A2B),
        ("f64", 0x7FF9234567891234, 0x7FF9234567891234),
        ("f80", 0x7FF9234567891234, 0x7FFFC91A2B3C4891A000),
        ("f8E4M3", 0x7FFA000000000000, 0x7D),
        ("f8E4M3FN", 0xFFFA000000000000, 0xFF),
        ("f8E4M3FNUZ", 0xFFFA000000000000, 0x80),
    ],
)
def test_nan_keeps_what_fits_of_its_payload(name: str, nan: int, bits: int):
    rounded = round_one(name, double(nan))
    assert FLOAT_FORMATS[name].to_bits(rounded) == bits


# Text


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        # Six digits.
        ("f64", 0.1, "1.000000e-01"),
        ("f64", -1.0, "-1.000000e+00"),
        ("f64", 1e6, "1.000000e+06"),
        ("f64", 1e-10, "1.000000e-10"),
        ("f64", 1e300, "1.000000e+300"),
        ("f64", 5e-324, "4.940660e-324"),
        ("f64", 0.0, "0.000000e+00"),
        ("f64", -0.0, "-0.000000e+00"),
        ("f32", float(np.float32(0.1)), "1.000000e-01"),
        ("f16", 0.0999755859375, "9.997550e-02"),
        ("f16", 2.0**-24, "5.960460e-08"),
        ("f8E8M0FNU", 2.0**-127, "5.877470e-39"),
        ("f8E8M0FNU", -4.0, "-4.000000e+00"),
        ("f4E2M1FN", 0.5, "5.000000e-01"),
        # More digits.
        ("f64", 1 / 3, "0.33333333333333331"),
        ("f64", -1 / 3, "-0.33333333333333331"),
        ("f64", 9.9999999, "9.9999999000000006"),
        ("f64", 123456.789, "123456.789"),
        ("f64", 0.001234567, "0.001234567"),
        ("f32", float(np.float32(1 / 3)), "0.333333343"),
        ("f80", 0.1, "0.100000000000000005551"),
        ("f128", 0.1, "0.100000000000000005551115123125782702"),
        # With an exponent.
        ("f64", 0.0001234567, "1.234567E-4"),
        ("f64", 1.2345678e11, "1.2345678E+11"),
        ("f64", double(0x7FEFFFFFFFFFFFFF), "1.7976931348623157E+308"),
        ("f32", float(np.float32(3.4028235e38)), "3.40282347E+38"),
        ("f80", 1e-60, "9.99999999999999970433E-61"),
        # Integers that need more than six digits.
        ("f64", 1000001.0, "0x412E848200000000"),
        ("f64", -4294967296.0, "0xC1F0000000000000"),
        ("f32", 1234567.0, "0x4996B438"),
        # Not finite.
        ("f64", INF, "0x7FF0000000000000"),
        ("f64", double(0x7FF0000000000001), "0x7FF0000000000001"),
        ("f16", -INF, "0xFC00"),
        ("f8E5M2FNUZ", NAN, "0x80"),
    ],
)
def test_to_text(name: str, value: float, text: str):
    assert FLOAT_FORMATS[name].to_text(value) == text


def test_no_text_for_what_the_format_does_not_have():
    with pytest.raises(ValueError, match="f4E2M1FN does not hold inf"):
        FLOAT_FORMATS["f4E2M1FN"].to_text(INF)


@examples(300)
@given(st.floats(allow_nan=False) | st.floats(0.0, 1.0))
def test_text_of_doubles_reads_back(value: float):
    text = FLOAT_FORMATS["f64"].to_text(value)
    read = double(int(text, 16)) if "x" in text else float(text)
    assert is_same(read, value)


# mlir-opt


def mlir_opt(text: str) -> str:
    assert MLIR_OPT is not None
    return subprocess.run([MLIR_OPT], input=text, capture_output=True, text=True, check=True).stdout


def samples(known: FloatFormat, count: int) -> list[float]:
    """Positive doubles within the bounds of a format, many of them hard cases."""
    rng = random.Random(known.name)
    smallest = max(known.smallest, 5e-324)
    largest = min(known.largest, double(0x7FEFFFFFFFFFFFFF))
    low, high = double_bits(smallest), double_bits(largest)
    places = range(math.frexp(smallest)[1], math.frexp(largest)[1])
    values = [smallest, largest]
    for _ in range(count):
        at_random = double(rng.randint(low, high))
        power_of_two = math.ldexp(1.0, rng.choice(places))
        power_of_ten = 10.0 ** math.floor(math.log10(at_random))
        midpoint = math.ldexp(
            2 * rng.randrange(2 ** min(known.precision, 52)) + 1,
            rng.choice(places) - min(known.precision, 52) - 1,
        )
        values += [
            at_random,
            power_of_two,
            1.5 * power_of_two,
            midpoint,
            power_of_ten * rng.randrange(1, 10**6),
            power_of_ten * (rng.randrange(10**6, 10**7) // 10 + 0.5),
            float(rng.randrange(1, 10 ** rng.randrange(1, 17))),
            rng.uniform(smallest, min(largest, 1.0)),
        ]
    values += [math.nextafter(value, rng.choice([0.0, INF])) for value in values]
    return [value for value in values if smallest <= value <= largest]


def texts(known: FloatFormat, values: list[float]) -> list[str]:
    return [known.to_text(value) for value in known.round(np.array(values)).tolist()]


needs_mlir_opt = pytest.mark.skipif(MLIR_OPT is None, reason="mlir-opt-22 is not installed")


@needs_mlir_opt
@pytest.mark.parametrize("name", FLOAT_FORMATS)
def test_scales_are_those_of_mlir_opt(name: str):
    known = FLOAT_FORMATS[name]
    nans = [double(bits << 48 | 0x123) for bits in (0x7FF8, 0xFFF8, 0x7FF1, 0xFFFA)]
    values = samples(known, 25) + nans
    scales = ", ".join(f"0x{double_bits(value):016X}" for value in values)
    printed = mlir_opt(f"func.func private @f(!quant.uniform<i8:{name}:{{}}, {{{scales}}}>)")
    start, end = printed.index("{}, {") + len("{}, {"), printed.rindex("}>)")
    assert texts(known, values) == printed[start:end].split(", ")


@needs_mlir_opt
@pytest.mark.parametrize("name", FLOAT_FORMATS)
def test_numbers_of_any_sign_and_size_are_those_of_mlir_opt(name: str):
    known = FLOAT_FORMATS[name]
    values = [-value for value in samples(known, 5)] + samples(FLOAT_FORMATS["f64"], 5)
    if math.isfinite(2 * known.largest):
        # About the last number that does not become one that is too large.
        values += [known.largest * (1 + step / 64) for step in range(-4, 65)]
    values += [known.smallest * step / 8 for step in range(-16, 16)] + [-0.0]
    literals = ", ".join(f"{value:.17e} : {name}" for value in values)
    printed = mlir_opt(f"func.func private @f() attributes {{a = [{literals}]}}")
    start, end = printed.index("a = [") + len("a = ["), printed.rindex("]}")
    found = [number.split(" : ")[0] for number in printed[start:end].split(", ")]
    assert texts(known, values) == found


@needs_mlir_opt
def test_calibrated_bounds_are_those_of_mlir_opt():
    values = samples(FLOAT_FORMATS["f64"], 25)
    values += [-value for value in values] + [0.0, -0.0, INF, -INF, NAN, -NAN]
    bounds = [f"0x{double_bits(value):016X}" for value in values]
    # No minimum is too large for a maximum that is NaN.
    types = ", ".join(f"!quant.calibrated<f32<{bound}:0x7FF8000000000000>>" for bound in bounds)
    printed = mlir_opt(f"func.func private @f({types})")
    found = re.findall("<f32<(.*?):", printed)
    assert texts(FLOAT_FORMATS["f64"], values) == found
