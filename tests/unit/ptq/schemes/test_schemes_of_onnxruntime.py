"""The schemes of ONNX Runtime have its parameters and its codes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qdialect.algebra.parameters import StorageFormat
from qdialect.ptq.schemes.arrays import quantize_array
from qdialect.ptq.schemes.presets import onnxruntime_affine, onnxruntime_symmetric

TYPES = {(8, True): 3, (8, False): 2, (16, True): 5, (16, False): 4}
"""The numbers of the ONNX types int8, uint8, int16 and uint16."""


@pytest.mark.parametrize(("width", "signed"), TYPES)
@pytest.mark.parametrize("is_symmetric", [False, True])
def test_parameters_and_codes(width: int, signed: bool, is_symmetric: bool) -> None:
    utils: Any = pytest.importorskip("onnxruntime.quantization.quant_utils")
    make = onnxruntime_symmetric if is_symmetric else onnxruntime_affine
    scheme = make(StorageFormat(width, signed))
    codes = [np.array(end, scheme.code_dtype) for end in (scheme.minimum, scheme.maximum)]
    random = np.random.default_rng(width)
    for _ in range(300):
        values = (random.normal(size=9) * 10.0 ** random.integers(-12, 12)).astype("f4")
        low, high = values.min(), values.max()
        point, scale = utils.compute_scale_zp(np.array(low), np.array(high), *codes, is_symmetric)
        quantized = quantize_array(values, scheme)
        choice = quantized.choice
        assert choice.scales.item() == float(np.float32(scale))
        assert choice.zero_points.item() == int(point)
        ends = scheme.minimum, scheme.maximum
        args = TYPES[width, signed], values, np.float32(scale), point, *ends
        expected = utils.quantize_nparray(*args)
        assert quantized.codes.tolist() == expected.tolist()


def test_a_range_without_extent_has_the_scale_one() -> None:
    """Its zero point is the lowest code if it is affine; that of ONNX Runtime is 0 for i8."""
    choice = onnxruntime_affine(StorageFormat(8, signed=False)).choose(0, 0)
    assert (float(choice.scales), int(choice.zero_points)) == (1.0, 0)
