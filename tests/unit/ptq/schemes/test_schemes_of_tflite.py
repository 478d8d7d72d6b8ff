"""The schemes of TFLite have the parameters and the codes of AI Edge Quantizer 0.10."""

from __future__ import annotations

import numpy as np
import pytest

from qdialect.algebra.parameters import StorageFormat
from qdialect.ptq.schemes.arrays import quantize_array
from qdialect.ptq.schemes.presets import tflite_affine, tflite_symmetric

RANGES = [
    (4, False, "0x0.0p+0", "0x0.0p+0", "0x1.2533fep-34", -8),
    (4, False, "-0x1.62c584p+24", "0x1.3e265cp+23", "0x1.120d2ap+21", 2),
    (4, False, "-0x1.86ap+16", "-0x1.86ap+16", "0x1.a0aaaap+12", 7),
    (4, True, "-0x1.be7614p+30", "0x1.9854b4p+30", "0x1.fe3dcep+27", 0),
    (8, False, "0x0.0p+0", "0x0.0p+0", "0x1.13f4b2p-38", -128),
    (8, False, "-0x1.c8ec58p-4", "0x1.18daep-4", "0x1.7255f2p-11", 30),
    (8, False, "-0x1.da2b22p+0", "0x1.195318p-1", "0x1.349ef6p-7", 69),
    (8, False, "-0x1.367648p+22", "0x1.0ae3a4p+24", "0x1.59db12p+16", -71),
    (8, True, "0x0.0p+0", "0x0.0p+0", "0x1.150ad4p-37", 0),
    (8, True, "-0x1.8382p-3", "0x1.944b3ap-3", "0x1.977a2ep-10", 0),
    (8, True, "-0x1.64dd24p-36", "0x1.06138cp-36", "0x1.150ad4p-37", 0),
    (8, True, "0x1.f37370p+10", "0x1.f48aeap+10", "0x1.f87be2p+3", 0),
    (16, False, "-0x1.c327c4p+7", "0x1.b7e9dcp+6", "0x1.4f8fa8p-8", 11288),
    (16, False, "-0x1.9aa5fep+20", "0x1.d33e18p+20", "0x1.b6f3c2p+5", -2113),
    (16, True, "-0x1.1e7c0cp+12", "0x1.e57f22p+13", "0x1.e582eep-2", 0),
]
"""The width, whether it is symmetric, the ends of a range, its scale, and its zero point."""

CODES = [
    (
        *(8, False, [0.004, 0.896, -0.822, 0.1, -1.364, -2.975, 0.18, 4.021]),
        [-20, 13, -50, -16, -70, -128, -13, 127],
    ),
    (
        *(8, True, [-1.477, -1.861, 1.47, 0.1, 0.316, -2.791, -0.088, 2.086]),
        [-67, -85, 67, 5, 14, -127, -4, 95],
    ),
    (
        *(16, True, [-4.033, -1.373, -5.704, 0.1, -5.525, -0.705, -3.802, 0.814]),
        [-23168, -7887, -32767, 574, -31739, -4050, -21841, 4676],
    ),
    (
        *(4, False, [0.47, -0.561, -7.55, 0.1, -0.146, 0.34, -4.59, -1.433]),
        [7, 5, -8, 6, 6, 7, -3, 3],
    ),
]


@pytest.mark.parametrize(("width", "is_symmetric", "low", "high", "scale", "zero_point"), RANGES)
def test_parameters(
    width: int, is_symmetric: bool, low: str, high: str, scale: str, zero_point: int
) -> None:
    make = tflite_symmetric if is_symmetric else tflite_affine
    ends = np.float32(float.fromhex(low)), np.float32(float.fromhex(high))
    choice = make(StorageFormat(width, signed=True)).choose(*ends)
    assert float(choice.scales).hex() == float.fromhex(scale).hex()
    assert int(choice.zero_points) == zero_point


@pytest.mark.parametrize(("width", "is_symmetric", "values", "codes"), CODES)
def test_codes(width: int, is_symmetric: bool, values: list[float], codes: list[int]) -> None:
    make = tflite_symmetric if is_symmetric else tflite_affine
    quantized = quantize_array(np.array(values, "f4"), make(StorageFormat(width, signed=True)))
    assert quantized.codes.tolist() == codes


def test_symmetric_codes_are_signed() -> None:
    with pytest.raises(ValueError, match="symmetric codes are signed"):
        tflite_symmetric(StorageFormat(8, signed=False))
