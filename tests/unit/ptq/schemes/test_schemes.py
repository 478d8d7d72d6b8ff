"""Scales, zero points and codes are those of the systems that schemes are named after."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qdialect.algebra.parameters import StorageFormat
from qdialect.ptq.schemes.arrays import quantize_array, quantize_values
from qdialect.ptq.schemes.presets import (
    I8,
    I16,
    SCHEMES,
    U8,
    glow_asymmetric,
    glow_symmetric,
    glow_symmetric_with_power2_scale,
    glow_symmetric_with_uint8,
    luci,
    luci_integer_scale,
    luci_predefined,
    luci_single_values,
    scheme_of,
    torch_per_channel_symmetric,
    torch_per_tensor_affine,
)
from qdialect.ptq.schemes.schemes import BIAS_RULES, Blocks, Scheme, bias_in_steps

pytestmark = pytest.mark.without_xdsl

I32 = StorageFormat(32, signed=True)
I64 = StorageFormat(64, signed=True)

FIGURES = Path(__file__).parent / "figures"
LUCI_STORAGE = {"u8_asymmetric": U8, "s16_symmetric": I16, "s8_symmetric": I8}
GLOW_STORAGE = {"i8": I8, "i16": I16, "u8": U8}

Case = dict[str, Any]


def cases(system: str, kind: str | None = None) -> list[Any]:
    """The figures of a system, as parameters of a test."""
    found: list[Case] = json.loads((FIGURES / f"{system}_parameters.json").read_text())["cases"]
    return [
        pytest.param(case, id=case.get("name"))
        for case in found
        if kind is None or case["kind"] == kind
    ]


@pytest.mark.parametrize("case", cases("glow"))
def test_figures_of_glow(case: Case):
    scheme = scheme_of("glow-" + case["schema"].replace("_", "-"), GLOW_STORAGE[case["precision"]])
    choice = scheme.choose(case["min"], case["max"])
    assert (choice.scales.item(), choice.zero_points.item()) == (case["scale"], case["offset"])


@pytest.mark.parametrize("case", cases("luci", "min_max_to_qparam"))
def test_ranges_of_luci(case: Case):
    choice = luci(LUCI_STORAGE[case["scheme"]]).choose(case["min"], case["max"])
    assert {
        "scale": choice.scales.item(),
        "zero_point": choice.zero_points.item(),
        "nudged_min": choice.minimum.item(),
        "nudged_max": choice.maximum.item(),
    } == case["result"]


@pytest.mark.parametrize("case", cases("luci", "weights_per_channel"))
def test_weights_of_luci(case: Case):
    weights = np.array(case["weights"], "f4")
    scheme = luci(LUCI_STORAGE[case["scheme"]])
    quantized = quantize_array(weights, scheme, Blocks.per_axis(case["axis"]))
    assert quantized.codes.tolist() == case["result"]["quantized"]
    assert quantized.choice.scales.ravel().tolist() == case["result"]["scale"]
    assert quantized.choice.zero_points.ravel().tolist() == case["result"]["zero_point"]
    assert quantized.parameters.scales.ravel().tolist() == case["result"]["scale"]
    read = quantized.parameters.read(quantized.codes)
    assert np.all(
        abs(read - weights) <= 0.51 * np.broadcast_to(quantized.choice.scales, read.shape)
    )


def quantize_bias(
    bias: Any, input_scale: float, weight_scales: Any, rule: str, storage: StorageFormat
) -> tuple[Any, Any, int]:
    """The products of scales, which are float32, a bias in such steps, and how many saturate."""
    scales = np.float32(input_scale) * np.asarray(weight_scales, "f4")
    return scales, *bias_in_steps(np.asarray(bias, "f4"), scales, BIAS_RULES[rule], storage)


@pytest.mark.parametrize("case", cases("luci", "bias"))
def test_biases_of_luci(case: Case):
    scales, codes, saturated = quantize_bias(
        case["bias"], case["input_scale"], case["weight_scale"], "one", I32
    )
    assert scales.tolist() == case["result"]["scale"]
    assert codes.tolist() == case["result"]["quantized"]
    assert codes.dtype == np.int32
    assert saturated == 0


@pytest.mark.parametrize("case", cases("luci", "constant_with_given_qparam"))
def test_constants_with_parameters_of_another(case: Case):
    choice = luci(U8).given(case["scale"], case["zero_point"])
    codes = quantize_values(np.array(case["values"], "f4"), choice)
    assert codes.tolist() == case["result"]["u8"]


@pytest.mark.parametrize("case", cases("luci", "predefined"))
def test_predefined_parameters(case: Case):
    for name, of_storage in case["result"].items():
        for storage, (scale, zero_point) in of_storage.items():
            choice = luci_predefined(name, {"u8": U8, "s16": I16}[storage])
            assert (choice.scales.item(), choice.zero_points.item()) == (scale, zero_point)


@pytest.mark.parametrize("case", cases("luci", "int_scale"))
def test_whole_scales(case: Case):
    for scale, whole in case["pairs"]:
        assert luci_integer_scale(luci(U8).given(scale, 7)).scales.item() == whole
    example = case["floor_example"]
    choice = luci_integer_scale(luci(U8).choose(example["min"], example["max"]))
    after = {"scale": choice.scales.item(), "zero_point": choice.zero_points.item()}
    assert after == example["after"]


@pytest.mark.parametrize("case", cases("luci", "mixed_precision"))
def test_mixed_precision(case: Case):
    storage = {"u8": U8, "s16": I16}
    for name, wanted in case["result"].items():
        low, high = case[f"{'input' if name.startswith('in') else 'output'}_min_max"]
        choice = luci(storage[name.rpartition("_")[2]]).choose(low, high)
        found = (choice.scales, choice.zero_points, choice.minimum, choice.maximum)
        assert [of.item() for of in found] == [*wanted.values()]


@pytest.mark.parametrize("case", cases("luci", "requantize"))
def test_signed_codes_as_unsigned_ones(case: Case):
    """i8 codes and zero point, 128 higher, stand for the same numbers."""
    signed = luci(I8).given(0.5, case["zero_point"])
    unsigned = luci(U8).given(0.5, case["result"]["zero_point"])
    codes, others = np.array(case["values"]), np.array(case["result"]["values"])
    assert np.array_equal(
        signed.parameters(codes.shape).read(codes), unsigned.parameters(others.shape).read(others)
    )


def test_every_figure_is_tested():
    kinds = {case.values[0]["kind"] for case in cases("luci")}
    text = Path(__file__).read_text()
    assert all(f'cases("luci", "{kind}")' in text for kind in kinds)


@pytest.mark.parametrize(
    ("minimum", "maximum", "scale", "zero_point"),
    [
        (-50.0, 100.0, 150 / 255, 85),
        (-2.5, 3.5355336666107178, 0.023668760433793068, 106),
        (-8.25, 20.0, 0.11078431457281113, 74),
    ],
)
def test_figures_of_torch(minimum: float, maximum: float, scale: float, zero_point: int):
    choice = torch_per_tensor_affine(U8).choose(minimum, maximum)
    assert choice.scales.item() == np.float32(scale)
    assert choice.zero_points.item() == zero_point


# The formulas once more, one number at a time, and rounded by fractions.

floats = st.floats(width=32, allow_nan=False, allow_infinity=False)
small = st.floats(-1e4, 1e4, width=32)
zero_or_small = st.one_of(small, st.just(0.0), st.floats(-(2.0**-10), 2.0**-10, width=32))


@st.composite
def ranges(draw: st.DrawFn) -> tuple[float, float]:
    low, high = sorted((draw(zero_or_small), draw(zero_or_small)))
    return low, high


def half_away(number: float) -> int:
    exact = Fraction(float(number))
    return int(math.copysign(1, exact) * ((abs(exact) + Fraction(1, 2)) // 1))


def half_even(number: float) -> int:
    return round(Fraction(float(number)))


def clamp(code: int, low: int, high: int) -> int:
    return max(low, min(high, code))


def f32(number: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(number))


def luci_u8(low: float, high: float) -> tuple[float, int, float]:
    """Scale, zero point and nudged minimum."""
    at_least, at_most = min(0.0, low), max(0.0, high)
    scale = (at_most - at_least) / 255
    if low >= 0:
        zero_point, scale = 0, high / 255
    elif high < 0:
        zero_point, scale = 255, -low / 255
    else:
        zero_point = half_away(-at_least / scale)
    if scale < 1e-5:
        scale, zero_point = 1e-5, half_away(-at_least / 1e-5)
    return f32(scale), zero_point, f32((0 - zero_point) * scale)


@given(ranges(), st.lists(small, min_size=1, max_size=20))
def test_luci_u8_is_its_formula(of: tuple[float, float], values: list[float]):
    scale, zero_point, low = luci_u8(*of)
    choice = luci(U8).choose(*of)
    assert (choice.scales.item(), choice.zero_points.item()) == (scale, zero_point)
    assert choice.minimum.item() == low
    reciprocal = f32(1 / scale)
    codes = [clamp(half_away(f32(f32(value - low) * reciprocal)), 0, 255) for value in values]
    assert quantize_values(np.array(values, "f4"), choice).tolist() == codes


@given(ranges(), st.lists(small, min_size=1, max_size=20), st.sampled_from([I8, I16]))
def test_symmetric_luci_is_its_formula(
    of: tuple[float, float], values: list[float], storage: StorageFormat
):
    highest, floor = {I8: (127, 1e-5), I16: (32767, 1e-8)}[storage]
    scale = f32(max(min(0.0, of[0]) / -highest, max(0.0, of[1]) / highest))
    scale = f32(floor) if scale < floor else scale
    choice = luci(storage).choose(*of)
    assert (choice.scales.item(), choice.zero_points.item()) == (scale, 0)
    reciprocal = f32(1 / scale)
    codes = [clamp(half_away(f32(value * reciprocal)), -highest, highest) for value in values]
    assert quantize_values(np.array(values, "f4"), choice).tolist() == codes


def glow_formula(
    low: float, high: float, codes: tuple[int, int], schema: Callable[..., Scheme]
) -> tuple[float, int]:
    """Scale and offset."""
    lowest, highest = codes
    low, high = min(low, 0.0), max(high, 0.0)
    is_symmetric = schema in (glow_symmetric, glow_symmetric_with_power2_scale)
    if is_symmetric or (schema is glow_symmetric_with_uint8 and low < 0):
        of_low, of_high = low / lowest, high / highest
        if of_low > of_high:
            high = f32(of_low * highest)
        else:
            low = f32(of_high * lowest)
    scale = (high - low) / (highest - lowest) or 0.1
    from_low, from_high = lowest - low / scale, highest - high / scale
    is_low = abs(lowest) + abs(low / scale) < abs(highest) + abs(high / scale)
    offset = from_low if is_low else from_high
    if abs(f32(high + low)) <= 2.0**-23:
        offset = 0.0
    offset = clamp(half_away(offset), lowest, highest)
    if schema is glow_symmetric_with_power2_scale:
        scale = 2.0 ** math.ceil(math.log2(scale))
    return f32(scale), offset


@given(
    ranges(),
    st.lists(small, min_size=1, max_size=20),
    st.sampled_from([I8, I16]),
    st.sampled_from(
        [
            glow_asymmetric,
            glow_symmetric,
            glow_symmetric_with_uint8,
            glow_symmetric_with_power2_scale,
        ]
    ),
)
def test_glow_is_its_formula(
    of: tuple[float, float],
    values: list[float],
    storage: StorageFormat,
    schema: Callable[[StorageFormat], Scheme],
):
    codes = {I8: (-128, 127), I16: (-32768, 32767)}[storage]
    scale, offset = glow_formula(*of, codes, schema)
    if not scale:
        with pytest.raises(ValueError, match=r"scale is 0\.0"):
            schema(storage).choose(*of)
        return
    choice = schema(storage).choose(*of)
    assert (choice.scales.item(), choice.zero_points.item()) == (scale, offset)
    with np.errstate(over="ignore"):
        numbers = [np.float32(value) / np.float32(scale) + np.float32(offset) for value in values]
    limits = [
        clamp(2**40 if n > 2**40 else -(2**40) if n < -(2**40) else half_even(n), *codes)
        for n in map(float, numbers)
    ]
    assert quantize_values(np.array(values, "f4"), choice).tolist() == limits


@given(st.integers(-100, 100), st.sampled_from([-1, 0, 1]))
def test_powers_of_two_are_those_of_a_rounded_logarithm(exponent: int, ulps: int):
    """A scale just above a power of two is that power where `log2` cannot tell."""
    span = math.ldexp(1.0, exponent)
    scale = span + ulps * math.ulp(span)
    low, high = 0.0, f32(scale * 127)
    expected = glow_formula(low, high, (-128, 127), glow_symmetric_with_power2_scale)
    choice = glow_symmetric_with_power2_scale(I8).choose(low, high)
    assert (choice.scales.item(), choice.zero_points.item()) == expected


# What is not a range, and what has no scale.


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize(("low", "high"), [(math.nan, 1), (0, math.nan), (1, -1), (2, 1)])
def test_what_is_no_range_is_refused(name: str, low: float, high: float):
    with pytest.raises(ValueError, match="is not a range"):
        scheme_of(name, I8).choose(low, high)


@pytest.mark.parametrize("name", ["one", *(name for name in SCHEMES if name.startswith("torch"))])
@pytest.mark.parametrize(("low", "high"), [(-math.inf, 1), (0, math.inf), (-math.inf, math.inf)])
def test_infinite_ranges_are_refused(name: str, low: float, high: float):
    with pytest.raises(ValueError, match="is infinite"):
        scheme_of(name, I8).choose(low, high)


def test_refusals_name_the_slot():
    with pytest.raises(ValueError, match=r"of slot \[1\]"):
        luci(U8).choose([0, 3], [1, 2])


@pytest.mark.parametrize(
    ("schema", "low", "high", "scale", "offset"),
    [
        (glow_asymmetric, -math.inf, math.inf, 2 / 255, 0),
        (glow_asymmetric, -math.inf, 1, 1 / 255, 127),
        (glow_asymmetric, -5, math.inf, 1 / 255, -128),
        (glow_symmetric, -math.inf, 1, 2 / 255, 0),
        (glow_symmetric, -1, math.inf, 2 / 255, 0),
    ],
)
def test_glow_clamps_infinite_ranges(
    schema: Callable[[StorageFormat], Scheme], low: float, high: float, scale: float, offset: int
):
    choice = schema(I8).choose(low, high)
    assert choice.scales.item() == f32(float(np.finfo("f4").max) * scale)
    assert choice.zero_points.item() == offset


@pytest.mark.parametrize("name", ["one", *(name for name in SCHEMES if name.startswith("torch"))])
@pytest.mark.parametrize("storage", [I8, U8])
def test_tiny_ranges_have_the_least_scale(name: str, storage: StorageFormat):
    least = 1e-5 if name == "one" else 2.0**-23
    for low, high in ((0, 0), (0, 1e-45), (-1e-45, 1e-45), (-1e-39, 0)):
        choice = scheme_of(name, storage).choose(low, high)
        assert choice.scales.item() == f32(least)


def test_a_scale_that_vanishes_in_float32_is_refused():
    with pytest.raises(ValueError, match=r"scale is 0\.0 in float32"):
        glow_asymmetric(I8).choose(0, 1e-45)
    choice = glow_asymmetric(I8).choose(0, 1e-40)
    assert choice.scales.item() == f32(f32(1e-40) / 255)


def test_a_scale_that_overflows_float32_is_refused():
    """Where torch subtracts in float32."""
    with pytest.raises(ValueError, match="scale is inf"):
        torch_per_tensor_affine(I8).choose(-3e38, 3e38)
    assert math.isfinite(luci(U8).choose(-3e38, 3e38).scales.item())


def test_centered_range_of_unsigned_glow():
    """Glow's zero point of zero would have no code for the negative half."""
    choice = glow_asymmetric(U8).choose(-1, 1)
    assert choice.zero_points.item() == 128
    assert glow_asymmetric(I8).choose(-1, 1).zero_points.item() == 0


def test_tiny_range_of_glow():
    """Glow takes it for centered, and the upper half of the numbers has the highest code."""
    choice = glow_asymmetric(I8).choose(0, 1e-8)
    assert choice.zero_points.item() == 0
    assert quantize_values(np.array([0.4e-8, 0.9e-8], "f4"), choice).tolist() == [102, 127]


def test_given_parameters_are_checked():
    with pytest.raises(ValueError, match=r"scale is 0\.0"):
        luci(U8).given(0.0, 0)
    with pytest.raises(ValueError, match="zero points must be codes"):
        luci(U8).given(1.0, 256)
    with pytest.raises(ValueError, match="reciprocal"):
        torch_per_tensor_affine(I8).given(1e-40, 0)
    assert glow_asymmetric(I8).given(1e-40, 0).scales.item() == f32(1e-40)
    with pytest.raises(TypeError, match="must be numbers"):
        luci(U8).given("1", 0)


@pytest.mark.parametrize(
    ("name", "storage", "reason"),
    [
        ("nothing", I8, "no scheme 'nothing'; the schemes are one-u8, one-s16, torch-i8"),
        (
            "one",
            StorageFormat(4, signed=True),
            "'one': ONE supports only the storage types u8, i8 and i16",
        ),
        ("glow-symmetric", U8, "cannot be symmetric"),
        ("torch-per-tensor-affine", I32, "at most 16 bits"),
        ("glow-asymmetric", StorageFormat(33, signed=True), "may have 2 to 32"),
        ("glow-asymmetric", StorageFormat(1, signed=True), "may have 2 to 32"),
    ],
)
def test_schemes_that_do_not_exist(name: str, storage: StorageFormat, reason: str):
    with pytest.raises(ValueError, match=reason):
        scheme_of(name, storage)


def test_fewer_codes():
    narrow = torch_per_channel_symmetric(I8).with_codes(-127, 127)
    assert narrow.choose(-1, 0.5).scales.item() == f32(f32(1) / f32(127))
    with pytest.raises(ValueError, match="are not within -128 to 127"):
        torch_per_channel_symmetric(I8).with_codes(-129, 127)


@given(st.lists(zero_or_small, min_size=1, max_size=10), st.sampled_from([U8, I16]))
def test_single_values_are_exact(values: list[float], storage: StorageFormat):
    numbers = np.array(values, "f4")
    numbers[abs(numbers) < 1e-37] = 0
    choice, codes = luci_single_values(numbers, storage)
    assert np.array_equal(choice.parameters(numbers.shape).read(codes), numbers)
    is_zero = numbers == 0
    assert np.all(choice.scales[is_zero] == 1)
    assert not codes[is_zero].any()


def test_many_slots_are_chosen_as_few_are():
    shape = (3, 50_000)
    low, high = np.sort(np.random.default_rng(0).standard_normal((2, *shape), "f4"), axis=0)
    low[2, 7] = high[2, 7] = 0
    for name in SCHEMES:
        scheme = scheme_of(name, I8)
        choice = scheme.choose(low, high)
        for at in ((0, 0), (1, 15_535), (1, 15_536), (2, 7), (2, 49_999)):
            one = scheme.choose(low[at], high[at])
            for many, single in (
                (choice.scales, one.scales),
                (choice.zero_points, one.zero_points),
                (choice.minimum, one.minimum),
                (choice.maximum, one.maximum),
            ):
                assert many.shape == shape
                assert many[at] == single


# Biases.


@given(st.lists(st.tuples(small, st.floats(2.0**-20, 10, width=32)), min_size=1, max_size=8))
def test_biases_are_their_formulas(pairs: list[tuple[float, float]]):
    bias, weights = (np.array(column, "f4") for column in zip(*pairs, strict=True))
    source = f32(0.037)
    products = [f32(source * weight) for weight in weights.tolist()]
    for storage, (low, high) in {I32: (-(2**31), 2**31 - 1), I64: (-(2**63), 2**63 - 1)}.items():
        scales, codes, saturated = quantize_bias(bias, source, weights, "one", storage)
        assert scales.tolist() == products
        wanted = [
            half_away(f32(b * f32(1 / s))) for b, s in zip(bias.tolist(), products, strict=True)
        ]
        assert codes.tolist() == [clamp(code, low, high) for code in wanted]
        assert saturated == sum(not low <= code <= high for code in wanted)
        _, codes, _ = quantize_bias(bias, source, weights, "tico", storage)
        wanted = [half_even(f32(b / s)) for b, s in zip(bias.tolist(), products, strict=True)]
        assert codes.tolist() == [clamp(code, low, high) for code in wanted]


@pytest.mark.parametrize("rule", BIAS_RULES)
def test_biases_saturate(rule: str):
    for storage, bits in ((I32, 31), (I64, 63)):
        _, codes, saturated = quantize_bias([3e38, -3e38, 1.0], 1.0, 1e-3, rule, storage)
        assert codes.tolist()[:2] == [2**bits - 1, -(2**bits)]
        assert saturated == 2
        assert codes.dtype == f"i{(bits + 1) // 8}"
    with pytest.raises(ValueError, match="NaN"):
        quantize_bias([math.nan], 1.0, [1.0], rule, I32)
