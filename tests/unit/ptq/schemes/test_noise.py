"""
Signal-to-noise ratios and top answers, against their definitions, and with NaNs and infinities.
"""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from qdialect.ptq.schemes.noise import Answers, Noise

INF, NAN = math.inf, math.nan


def test_decibels_are_those_of_the_definition():
    rng = np.random.default_rng(random.randrange(1 << 32))
    expected = rng.normal(size=(5, 7)).astype("f4")
    found = (expected + rng.normal(size=(5, 7)) / 100).astype("f4")
    x, y = expected.astype("f8"), found.astype("f8")
    decibels = 10 * np.log10((x * x).sum() / ((x - y) ** 2).sum())
    noise = Noise.between(expected, found)
    assert noise.decibels == pytest.approx(decibels, rel=1e-12)
    assert noise.count == 35


def test_records_are_added_in_any_order_to_the_same_sum():
    rng = np.random.default_rng(random.randrange(1 << 32))
    parts = [
        Noise.between(*(rng.normal(size=9) * 10.0 ** rng.integers(-9, 9) for _ in range(2)))
        for _ in range(50)
    ]
    shuffled = random.sample(parts, len(parts))
    assert Noise.total(parts) == Noise.total(shuffled)
    assert Noise.total(parts).count == 450


@pytest.mark.parametrize(
    ("expected", "found", "decibels"),
    [
        ([1.0, 2.0], [1.0, 2.0], INF),
        ([0.0, -0.0], [0.0, 0.0], INF),
        ([0.0, 0.0], [0.0, 1.0], -INF),
        ([10.0, 0.0], [9.0, 0.0], 20.0),
        ([INF, 10.0], [INF, 9.0], 20.0),
        ([NAN, 10.0], [NAN, 9.0], 20.0),
        ([NAN, 10.0], [3.0, 9.0], 20.0),
        ([INF, 10.0], [-INF, 9.0], 20.0),
        # Nothing is finite.
        ([INF, NAN], [INF, NAN], INF),
        ([INF], [1.0], None),
        ([], [], None),
        # Squares of f64 have no room.
        ([1e200], [1e199], None),
        ([1e-300], [2e-300], 0.0),
    ],
)
def test_what_is_no_number(expected: list[float], found: list[float], decibels: float | None):
    assert Noise.between(np.array(expected), np.array(found)).decibels == decibels


def test_what_is_left_out_is_counted():
    expected = np.array([NAN, NAN, INF, INF, -INF, 1.0, 1.0], "f4")
    found = np.array([NAN, 1.0, INF, -INF, NAN, NAN, 1.0], "f4")
    noise = Noise.between(expected, found)
    assert (noise.count, noise.nans_before, noise.nans_after) == (1, 2, 3)
    assert (noise.infinite, noise.differing) == (2, 4)
    assert Noise.total([noise, noise]).differing == 8


def test_shapes_must_be_the_same():
    with pytest.raises(ValueError, match=r"shapes \[2\] and \[1\] differ"):
        Noise.between(np.zeros(2), np.zeros(1))
    with pytest.raises(ValueError, match=r"shapes \[2\] and \[3\] differ"):
        Answers.between(np.zeros(2), np.zeros(3))


def test_answers():
    before = np.array([[1, 2, 0], [5, 4, 3], [0, 0, 0], [1, NAN, 0]], "f4")
    after = np.array([[0, 9, 1], [4, 5, 3], [0, 0, 0], [1, NAN, 0]], "f4")
    labels = np.array([1, 1, 0, 0])
    assert Answers.between(before, after, labels) == Answers(4, 2, 2, 3, 1, 1)
    assert Answers.between(before, after) == Answers(4, 2, 0, 0, 1, 1)
    assert Answers.total([Answers.between(before, after, labels)] * 2) == Answers(8, 4, 4, 6, 2, 2)
    assert Answers.between(np.zeros((0, 3)), np.zeros((0, 3))) == Answers()


def test_labels_that_do_not_fit():
    logits = np.zeros((2, 3))
    with pytest.raises(ValueError, match="there are 3 labels, but 2 answers"):
        Answers.between(logits, logits, np.array([0, 1, 2]))
    for label in (-1, 3):
        with pytest.raises(
            ValueError, match=f"label {label} is not the index of one of the 3 classes"
        ):
            Answers.between(logits, logits, np.array([0, label]))
