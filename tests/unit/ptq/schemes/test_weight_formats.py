"""Codes and scales of formats of weights: those of torchao, and of the formulas of others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from qdialect.algebra.parameters import StorageFormat
from qdialect.opt.opt import main as opt
from qdialect.ptq.schemes.arrays import QuantizedArray, quantize_array
from qdialect.ptq.schemes.presets import EXPONENTS, FORMATS, FP4, NF4, scheme_of_format
from qdialect.ptq.schemes.schemes import Blocks, Scheme

needs_torchao = [
    pytest.mark.exporters,
    pytest.mark.skipif(find_spec("torchao") is None, reason="torchao is not installed"),
]

MX_FORMATS = "torchao.prototype.mx_formats"

FLOATS: Mapping[str, Any] = {
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f6E2M3FN": ml_dtypes.float6_e2m3fn,
    "f6E3M2FN": ml_dtypes.float6_e3m2fn,
    "f4E2M1FN": ml_dtypes.float4_e2m1fn,
}


def weights(seed: int, rows: int = 8, columns: int = 256) -> NDArray[np.float32]:
    """Normal numbers, rows of other magnitudes, ties, zeros of both signs, and a block of them."""
    rng = np.random.default_rng(seed)
    array = rng.normal(size=(rows, columns)) * np.exp(3 * rng.normal(size=(rows, 1)))
    array[0] = rng.integers(-40, 40, columns) / 8
    array[1, ::7] = 0.0
    array[1, 1::7] = -0.0
    array[2, :64] = 0.0
    array[3] = np.exp(8 * rng.normal(size=columns))
    return array.astype(np.float32)


def quantized(
    array: NDArray[np.float32], name: str, *options: str | None, block: int | None = None
) -> QuantizedArray:
    scheme = scheme_of_format(name, *options)
    size = block or FORMATS[name].block
    return quantize_array(array, scheme, Blocks.of_sizes({0: 1} | ({1: size} if size else {})))


def unpacked(array: Any, width: int) -> NDArray[np.uint8]:
    """Codes of four bits, the first of two in the lower bits."""
    codes = array.numpy() if width == 4 else array
    return np.stack([codes & 15, codes >> 4], axis=-1).reshape(len(codes), -1)


@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.parametrize("storage", FLOATS)
class TestMX:
    pytestmark = needs_torchao

    def test_codes_and_scales_are_those_of_torchao(self, storage: str, exponent: str) -> None:
        torch, mx_tensor = import_module("torch"), import_module(f"{MX_FORMATS}.mx_tensor")
        types: dict[str, Any] = {
            "f8E4M3FN": torch.float8_e4m3fn,
            "f8E5M2": torch.float8_e5m2,
            "f6E2M3FN": "fp6_e2m3",
            "f6E3M2FN": "fp6_e3m2",
            "f4E2M1FN": torch.float4_e2m1fn_x2,
        }
        for seed in range(5):
            array = weights(seed)
            mode = mx_tensor.ScaleCalculationMode(exponent)
            scales, data = mx_tensor.to_mx(torch.from_numpy(array), types[storage], 32, mode)
            found = quantized(array, f"mxfp{storage[1]}", storage, exponent)
            bits = data.view(torch.uint8).numpy()
            codes = unpacked(data.view(torch.uint8), 4) if storage[1] == "4" else bits
            assert np.array_equal(found.codes, codes)
            powers = scales.view(torch.uint8).numpy().astype(int) - 127
            assert np.array_equal(found.choice.scales, np.ldexp(np.float32(1), powers))


@pytest.mark.exporters
@pytest.mark.skipif(find_spec("torchao") is None, reason="torchao is not installed")
def test_nvfp4_is_that_of_torchao() -> None:
    torch, nvfp4_tensor = import_module("torch"), import_module(f"{MX_FORMATS}.nvfp4_tensor")
    for seed in range(20):
        array = weights(seed)
        tensor = torch.from_numpy(array)
        of_all = nvfp4_tensor.per_tensor_amax_to_scale(tensor.abs().max())
        for name, scale in (("nvfp4", of_all), ("nvfp4-one-level", None)):
            levels, data = nvfp4_tensor.nvfp4_quantize(tensor, 16, scale)
            found = quantized(array, name)
            assert np.array_equal(found.codes, unpacked(data, 4))
            wide = levels.to(torch.float32).numpy()
            wide = wide if scale is None else wide * scale.numpy()
            assert np.array_equal(found.choice.scales, wide)


@pytest.mark.parametrize("storage", ["f8E4M3FN", "f8E5M2"])
@pytest.mark.parametrize("block", [None, 4, 128])
def test_scales_are_quotients(storage: str, block: int | None) -> None:
    array = weights(4)
    array[5] = 0.0
    found = quantized(array, storage.lower(), block=block)
    finfo: Any = ml_dtypes.finfo
    largest = np.float32(finfo(FLOATS[storage]).max)
    parts = array.reshape(8, -1, block or array.shape[1])
    quotients = np.abs(parts).max(axis=2) / largest
    scales = np.where(quotients == 0, np.float32(1), quotients)
    assert np.array_equal(found.choice.scales, scales)
    with np.errstate(all="ignore"):
        numbers = np.clip(parts / scales[..., None], -largest, largest)
    codes = numbers.astype(FLOATS[storage]).view(np.uint8).reshape(array.shape)
    assert np.array_equal(found.codes, codes)


def test_two_axes_of_blocks() -> None:
    """As in DeepSeek's weights: blocks of 128 x 128."""
    array = np.random.default_rng(0).normal(size=(256, 384)).astype("f4")
    scheme = scheme_of_format("f8e4m3fn")
    found = quantize_array(array, scheme, Blocks.of_sizes({0: 128, 1: 128}))
    parts = np.abs(array).reshape(2, 128, 3, 128).max(axis=(1, 3))
    assert np.array_equal(found.choice.scales, parts / np.float32(448))


@pytest.mark.parametrize(("name", "table"), [("nf4", NF4), ("fp4", FP4)])
def test_tables_have_the_nearest_entry(name: str, table: Any) -> None:
    array = weights(7)
    found = quantized(array, name)
    entries = np.array(table, np.float32)
    parts = array.reshape(8, -1, 64)
    scales = np.abs(parts).max(axis=2)
    scales = np.where(scales == 0, np.float32(1), scales)
    assert np.array_equal(found.choice.scales, scales)
    numbers = (parts / scales[..., None]).reshape(array.shape).astype("f8")
    distances = np.abs(numbers[..., None] - entries.astype("f8"))
    # The first of equals is the lower code.
    assert np.array_equal(found.codes, distances.argmin(axis=-1))


def test_integers_of_mx_are_64ths() -> None:
    array = weights(2)
    found = quantized(array, "mxint8")
    for row, blocks in enumerate(array.reshape(8, -1, 32)):
        for at, block in enumerate(blocks):
            largest = max(map(abs, map(Fraction, block.tolist())))
            exponent = -127
            while largest and Fraction(2) ** (exponent + 1) <= largest:
                exponent += 1
            step = Fraction(2) ** exponent / 64
            assert Fraction(float(found.choice.scales[row, at])) == step
            codes = [
                max(-127, min(127, round(Fraction(number) / step))) for number in block.tolist()
            ]
            assert found.codes[row, 32 * at : 32 * at + 32].tolist() == codes


def test_divided_levels() -> None:
    """The figures of compressed-tensors: a divisor of the whole tensor, and no scale of zero."""
    array = weights(9)
    found = quantized(array, "nvfp4-compressed-tensors")
    largest = np.abs(array).reshape(8, -1, 16).max(axis=2)
    divisor = np.float32(448 * 6) / largest.max()
    levels = np.clip(divisor * (largest / np.float32(6)), 0, 448)
    levels = levels.astype(ml_dtypes.float8_e4m3fn).astype("f4")
    scales = np.where(levels == 0, np.float32(0.125), levels) / divisor
    assert np.array_equal(found.choice.scales, scales)


@pytest.mark.parametrize("name", FORMATS)
def test_read_again_it_is_near(name: str) -> None:
    """Rounding is by at most half a step of the largest number of a block, or it saturates."""
    array = np.random.default_rng(1).normal(size=(8, 256)).astype("f4")
    found = quantized(array, name)
    read = found.parameters.read(found.codes).astype("f4")
    size = FORMATS[name].block or array.shape[1]
    largest = np.repeat(np.abs(array).reshape(8, -1, size).max(axis=2), size, axis=1)
    assert (np.abs(read - array) <= largest / 4 + 1e-30).all()


@pytest.mark.parametrize("name", FORMATS)
def test_many_numbers_have_the_codes_of_few(name: str) -> None:
    """Float32 takes another way than float64."""
    scheme: Scheme = scheme_of_format(name)
    book = scheme.storage.codebook
    if book is None:
        return
    bits = np.random.default_rng(3).integers(0, 1 << 32, 1 << 17, dtype=np.uint32)
    numbers = bits.view("f4")[~np.isnan(bits.view("f4"))]
    bounds = book.candidates(scheme.minimum, scheme.maximum).bounds.astype("f4")
    ends = [np.nextafter(bounds, np.float32(end)) for end in (-np.inf, np.inf)]
    numbers = np.concatenate([numbers, bounds, *ends, [0.0, -0.0, np.inf, -np.inf]]).astype("f4")
    found = book.nearest(numbers, scheme.minimum, scheme.maximum)
    wide = book.nearest(numbers.astype("f8"), scheme.minimum, scheme.maximum)
    assert np.array_equal(found, wide)


def test_whole_zeros() -> None:
    for name in FORMATS:
        array = np.zeros((2, 128), np.float32)
        found = quantized(array, name)
        assert (found.choice.scales > 0).all()
        assert not found.parameters.read(found.codes).any()


@pytest.mark.parametrize("name", FORMATS)
def test_nan_has_no_scale(name: str) -> None:
    array = weights(0)
    array[4, 100] = np.nan
    with pytest.raises(ValueError, match=r"element \[4, 100\] is NaN, which has no code"):
        quantized(array, name)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mxfp4", "i8"), "scheme 'mxfp4' stores f4E2M1FN, not 'i8'"),
        (("nf4", None, "floor"), "scheme 'nf4' has no rule of exponents"),
        (("mxfp4", None, "up"), "exponent must be floor, ceil, even, rceil, but is 'up'"),
    ],
)
def test_what_a_format_lacks(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        scheme_of_format(*arguments)


def test_storage_has_its_numbers() -> None:
    for name, dtype in FLOATS.items():
        storage = StorageFormat.of_floats(name)
        codes = np.arange(1 << storage.width, dtype=np.uint8)
        with np.errstate(invalid="ignore"):
            expected = codes.view(dtype).astype("f8")
        assert np.array_equal(storage.numbers(codes), expected, equal_nan=True)


def test_the_report_counts_what_saturates(tmp_path: Path) -> None:
    """With exponents rounded down, numbers from 6 to 8 times a scale are beyond f4."""
    array = np.random.default_rng(0).normal(size=(64, 32)).astype("f4")
    text = f"""
func.func @main(%x: tensor<4x64xf32>) -> tensor<4x32xf32> {{
  %w = stablehlo.constant dense<"0x{array.tobytes().hex()}"> : tensor<64x32xf32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<4x64xf32>, tensor<64x32xf32>) -> tensor<4x32xf32>
  return %y : tensor<4x32xf32>
}}"""
    (tmp_path / "m.mlir").write_text(text)
    report = tmp_path / "report.json"
    options = "--quantize-weights=scheme=mxfp4", f"--quantization-report={report}"
    assert opt([*options, str(tmp_path / "m.mlir"), "-o", str(tmp_path / "q.mlir")]) == 0
    largest = np.abs(array).reshape(2, 32, 32).max(axis=1, keepdims=True)
    limits = 6 * 2 ** (np.floor(np.log2(largest)) - 2)
    (value,) = json.loads(report.read_text())["values"]
    count = int((np.abs(array).reshape(2, 32, 32) > limits).sum())
    assert value["saturated_elements"] == count > 0
    assert value["scheme"] == "mxfp4"
