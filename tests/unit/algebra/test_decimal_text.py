"""The texts of many floats at once are those of one after the other."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from qdialect.support.decimal_text import decimal_texts
from qdialect.support.float_format import FLOAT_FORMATS, FloatFormat, Specials

FORMATS = [format for format in FLOAT_FORMATS.values() if format.precision <= 53]


def numbers(format: FloatFormat) -> NDArray[np.float64]:
    """Numbers of the format: of all sizes, with few digits, at powers, and special ones."""
    generator = np.random.default_rng(13)
    values = np.concatenate(
        [
            generator.uniform(0, 1, 4000),
            np.exp(generator.uniform(-12, 20, 4000)),
            np.exp(generator.uniform(-100, 85, 2000)),
            generator.integers(1, 10**7, 4000) / 10.0 ** generator.integers(0, 14, 4000),
            1 / np.arange(1, 1000),
            np.ldexp(1.0, np.arange(-149, 80)),
            10.0 ** np.arange(-25, 25),
            [0.0, -0.0, -1.5, -0.1, math.inf, -math.inf, math.nan],
        ]
    )
    rounded = format.round(values)
    has_all = format.specials is Specials.INFINITIES_AND_NANS
    return rounded if has_all else rounded[np.isfinite(rounded)]


@pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
def test_texts(format: FloatFormat) -> None:
    values = numbers(format)
    rows = decimal_texts(values, format)
    texts = [bytes(row).replace(b"\0", b"").decode() for row in rows]
    assert texts == [format.to_text(value) for value in values.tolist()]


def test_usual_scales_are_not_written_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    format = FLOAT_FORMATS["f32"]
    values = format.round(np.random.default_rng(13).uniform(1e-6, 1.0, 10_000))
    written: list[float] = []
    one = FloatFormat.to_text

    def to_text(self: FloatFormat, value: float) -> str:
        written.append(value)
        return one(self, value)

    monkeypatch.setattr(FloatFormat, "to_text", to_text)
    decimal_texts(values, format)
    assert len(written) < 10
