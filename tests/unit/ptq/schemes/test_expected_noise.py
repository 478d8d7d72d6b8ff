"""The expected noise of a value, compared with numbers that are quantized one by one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qdialect.ptq.schemes.noise import Spread, expected_noise
from qdialect.ptq.schemes.ranges import FloatHistogram

POINTS = 200_003


def measured(
    numbers: np.ndarray, scale: float, zero_point: int, low: int, high: int
) -> tuple[float, float]:
    """The signal to noise ratio of numbers that are quantized, and the share beyond the codes."""
    steps = np.floor(numbers / scale + 0.5) + zero_point
    read = (np.clip(steps, low, high) - zero_point) * scale
    noise, signal = float(((numbers - read) ** 2).sum()), float((numbers**2).sum())
    beyond = float(((steps < low) | (steps > high)).mean())
    return 10 * math.log10(signal / noise), beyond


@given(
    st.floats(-10, 10),
    st.floats(0.01, 20),
    st.floats(0.01, 0.7),
    st.sampled_from([(0, 255), (-128, 127), (-7, 7), (0, 15)]),
    st.floats(0, 1),
)
def test_even_numbers(low: float, width: float, scale: float, ends: tuple[int, int], zero: float):
    zero_point = round(ends[0] + zero * (ends[1] - ends[0]))
    # Points of a spread whose length is prime are not in step with the codes.
    numbers = low + (np.arange(POINTS) + 0.5) / POINTS * width
    found = expected_noise(
        Spread.even(low, low + width), np.array([scale]), np.array([zero_point]), *ends
    )
    decibels, beyond = measured(numbers, scale, zero_point, *ends)
    assert found.decibels == pytest.approx(decibels, abs=0.05)
    assert found.saturated == pytest.approx(beyond, abs=1e-4)


def test_sixteen_bits():
    numbers = -1 + (np.arange(POINTS) + 0.5) / POINTS * 2
    ends = (-32767, 32767)
    found = expected_noise(Spread.even(-1, 1), np.array([1 / 32767]), np.array([0]), *ends)
    assert found.decibels == pytest.approx(measured(numbers, 1 / 32767, 0, *ends)[0], abs=0.05)
    assert found.saturated == 0


def test_a_single_number():
    found = expected_noise(Spread.even(0.3, 0.3), np.array([0.25]), np.array([0]), -128, 127)
    assert found.decibels == pytest.approx(10 * math.log10(0.09 / 0.0025))
    exact = expected_noise(Spread.even(0.5, 0.5), np.array([0.25]), np.array([0]), -128, 127)
    assert exact == (math.inf, 0)
    far = expected_noise(Spread.even(100, 100), np.array([0.25]), np.array([0]), -128, 127)
    assert far.saturated == 1


@given(st.integers(0, 2**16), st.floats(0.005, 0.05))
def test_numbers_that_were_counted(seed: int, scale: float):
    numbers = np.random.default_rng(seed).normal(size=POINTS).astype("f4")
    low, high = float(numbers.min()), float(numbers.max())
    spread = Spread.of_histogram(FloatHistogram.of(numbers), low, high)
    found = expected_noise(spread, np.array([scale]), np.array([3]), -128, 127)
    decibels, beyond = measured(numbers.astype("f8"), scale, 3, -128, 127)
    assert found.decibels == pytest.approx(decibels, abs=0.6)
    assert found.saturated == pytest.approx(beyond, abs=5e-3)


def test_slots_count_alike():
    one, other, both = (
        expected_noise(Spread.even(-1, 1), np.array(scales), np.zeros(len(scales), int), -7, 7)
        for scales in ([0.125], [0.25], [0.125, 0.25])
    )
    noises = [10 ** (-(each.decibels or math.nan) / 10) for each in (one, other)]
    assert both.decibels == pytest.approx(-10 * math.log10(sum(noises) / 2))


def test_nothing_counted():
    spread = Spread.of_histogram(FloatHistogram.of(np.zeros(0, "f4")), 0, 0)
    assert expected_noise(spread, np.array([1.0]), np.array([0]), -7, 7) == (None, 0)
