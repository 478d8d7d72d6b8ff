"""The text of lists of slots, short and long, is read and written alike."""

from __future__ import annotations

import numpy as np
import pytest

from qdialect.dialects.quant.slots import read_slot_list, slot_list_text
from qdialect.support.float_format import FLOAT_FORMATS


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 1, 4), (1, 1), (2, 3, 2, 3)])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_lists(
    name: str, shape: tuple[int, ...], share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator, format = np.random.default_rng(7), FLOAT_FORMATS[name]
    scales = format.round(np.exp(generator.uniform(-9, 3, shape)))
    zero_points = generator.integers(-100, 100, shape) * (generator.random(shape) < share)
    short = slot_list_text(scales, zero_points, ", ", format)
    monkeypatch.setattr("qdialect.dialects.quant.slots._MAX_SINGLE_SLOTS", 0)
    monkeypatch.setattr("qdialect.dialects.quant.slots._CHUNK", 5)
    assert slot_list_text(scales, zero_points, ", ", format) == short
    read = read_slot_list(short)
    assert read is not None
    assert (format.round(read[0]) == scales).all()
    assert (read[1] == zero_points).all()


def test_hexadecimal_digits_are_those_of_f64(monkeypatch: pytest.MonkeyPatch) -> None:
    """MLIR prints 0x497AF7E0 for this f32, and reads that as a number of 64 bits."""
    scales, zero_points = np.array([[1027966.0, 0.5]]), np.zeros((1, 2), np.int64)
    for most in (100, 0):
        monkeypatch.setattr("qdialect.dialects.quant.slots._MAX_SINGLE_SLOTS", most)
        text = slot_list_text(scales, zero_points, ", ", FLOAT_FORMATS["f32"])
        assert text == "{{0x412F5EFC00000000, 5.000000e-01}}"


def test_spaces_and_spellings() -> None:
    read = read_slot_list("{ {00.5 : -3 , 1.e2},\n{-1.5E-3,1.0e999:2} }")
    assert read is not None
    assert read[0].tolist() == [[0.5, 100.0], [-0.0015, float("inf")]]
    assert read[1].tolist() == [[-3, 0], [0, 2]]


@pytest.mark.parametrize(
    "text",
    [
        *["0.5", "0.5}", "{0.5", "{0.5}}", "{{0.5}", "{}", "{0.5,}", "{,0.5}", "{0.5 0.25}"],
        *["{0.5,{0.25}}", "{{0.5},0.25}", "{{0.5},{0.25,0.5}}", "{{},{0.5}}", "{0.5}{0.5}"],
        *[
            "{{0.5,0.25},}",
            "{{0.5,}0.25}",
            "{0.5{,0.25}}",
            "{{0.5:1,}0.25}",
            "{0.5:}",
            "{0.5:1:2}",
            "{1e5}",
            "{.5}",
            "{1}",
            "{0.5:1.0}",
        ],
        *["{0.5:9007199254740993}", "{0.5:-9223372036854775808}"],
    ],
)
def test_other_texts_are_left_to_the_parser(text: str) -> None:
    assert read_slot_list(text) is None
