"""Ranges from histograms are those of the systems that they come from, for the same histograms."""

from __future__ import annotations

import math
import warnings
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from qdialect.ptq.schemes.histogram_ranges import (
    entropy_ends,
    least_error_ends,
    percentile_ends,
    symmetric_entropy_ends,
)
from qdialect.ptq.schemes.ranges import (
    OF_HISTOGRAMS,
    FloatHistogram,
    Reduction,
    ReductionKind,
    Statistics,
    merged,
)

seeds = st.integers(0, 2**32 - 1)

KINDS = ("normal", "laplace", "relu", "student", "integers", "constant")


def numbers(kind: str, seed: int) -> NDArray[np.float32]:
    random = np.random.default_rng(seed)
    match kind:
        case "laplace":
            found = random.laplace(size=5000)
        case "relu":
            found = np.maximum(random.normal(size=4000), 0)
        case "student":
            found = random.standard_t(2, size=4000)
        case "integers":
            found = random.integers(-3, 9, size=500)
        case "constant":
            found = np.full(100, 3.0)
        case _:
            found = random.normal(size=3000)
    return np.asarray(found, "f4")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bins", [128, 129, 200, 513])
def test_entropy_is_that_of_onnxruntime(kind: str, bins: int) -> None:
    calibrate: Any = pytest.importorskip("onnxruntime.quantization.calibrate")
    collector = object.__new__(calibrate.HistogramCollector)
    for seed in range(3):
        array = numbers(kind, seed)
        most = abs(array).max()
        counts, edges = np.histogram(array, bins, range=(-most, most))
        whole = np.array(-np.inf), np.array(np.inf)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = collector.get_entropy_threshold((counts, edges, *whole), 128)
        assert symmetric_entropy_ends(counts, edges) == (*map(float, expected),), seed


def divergence(counts: list[float], start: int, stop: int, codes: int) -> float:
    """What the text of Glow computes, one number at a time, in double."""
    kept = counts[start:stop]
    target = [*kept]
    target[0] += sum(counts[:start])
    target[-1] += sum(counts[stop:])
    size = len(kept) // codes
    model = [0.0] * len(kept)
    for code in range(codes):
        group = range(code * size, len(kept) if code == codes - 1 else (code + 1) * size)
        present = [at for at in group if kept[at]]
        for at in group:
            if present and target[at]:
                model[at] = sum(kept[at] for at in group) / len(present)
    sides = list[list[float]]()
    for side in (target, model):
        empty = side.count(0)
        share = 1e-4 * empty / (len(side) - empty)
        sides.append([1e-4 if not n else n - share for n in side] if share < 1 else side)
    totals = [sum(side) for side in sides]
    pairs = [(one / totals[0], other / totals[1]) for one, other in zip(*sides, strict=True)]
    return sum(one * math.log(one / other) for one, other in pairs if one > 0 and other > 0)


@pytest.mark.parametrize("kind", ["normal", "laplace", "relu", "student"])
@pytest.mark.parametrize("is_symmetric", [False, True])
def test_entropy_is_that_of_glow(kind: str, is_symmetric: bool) -> None:
    """The chosen window has the least divergence of those that Glow tries, up to rounding."""
    for seed in range(3):
        array = numbers(kind, seed)
        low, high = float(array.min()), float(array.max())
        if is_symmetric:
            low, high = -max(-low, high), max(-low, high)
        counts = np.histogram(array, 160, range=(low, high))[0].astype("f4")
        listed = counts.astype("f8").tolist()
        tried = dict[tuple[int, int], float]()
        start, stop = 0, 160
        while stop - start >= 51:
            tried[start, stop] = divergence(listed, start, stop, 51)
            steps = [(1, 1)] if is_symmetric else [(1, 1), (2, 0), (0, 2)]
            dropped = [
                listed[start] * bool(left)
                + listed[start + 1] * (left == 2)
                + listed[stop - 1] * bool(right)
                + listed[stop - 2] * (right == 2)
                for left, right in steps
            ]
            left, right = steps[dropped.index(min(dropped))]
            start, stop = start + left, stop - right
        ends = entropy_ends(counts, low, high, 51, is_symmetric=is_symmetric)
        width = (high - low) / 160
        chosen = round((ends.low - low) / width), round((ends.high - low) / width)
        assert tried[chosen] <= min(tried.values()) * (1 + 1e-4) + 1e-6, seed


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "constant"])
def test_least_error_is_that_of_torch(kind: str) -> None:
    torch: Any = pytest.importorskip("torch")
    observer_type = import_module("torch.ao.quantization.observer").HistogramObserver
    for seed in range(3):
        observer = observer_type(bins=2048)
        observer(torch.from_numpy(numbers(kind, seed)))
        expected = [float(end) for end in observer._non_linear_param_search()]
        ends = float(observer.min_val), float(observer.max_val)
        found = least_error_ends(observer.histogram.numpy(), *ends)
        assert np.allclose(found, expected, rtol=1e-6, atol=1e-6), seed


def test_moving_average_is_that_of_torch() -> None:
    torch: Any = pytest.importorskip("torch")
    observer_type = import_module("torch.ao.quantization.observer").MovingAverageMinMaxObserver
    observer, random = observer_type(), np.random.default_rng(0)
    records = [random.normal(size=50).astype("f4") for _ in range(20)]
    for record in records:
        observer(torch.from_numpy(record))
    statistics = merged([Statistics.observe(at, record) for at, record in enumerate(records)])
    found = Reduction.of(ReductionKind.TORCH_MOVING_AVERAGE)(statistics)
    assert [float(end) for end in found] == [float(observer.min_val), float(observer.max_val)]


def test_moving_average_of_infinities() -> None:
    """A difference of infinities would be NaN, which is no range."""
    records = [np.array(ends, "f4") for ends in ([-np.inf, 1], [-np.inf, np.inf], [2, 3])]
    statistics = merged([Statistics.observe(at, record) for at, record in enumerate(records)])
    found = Reduction.of(ReductionKind.TORCH_MOVING_AVERAGE)(statistics)
    assert [float(end) for end in found] == [-np.inf, np.inf]


@given(seeds, st.floats(0, 100), st.floats(0, 100))
def test_percentiles_of_elements(seed: int, one: float, other: float) -> None:
    """So many elements are below; those of a bin are spread evenly in it."""
    random = np.random.default_rng(seed)
    counts = random.integers(0, 9, 7) * (random.random(7) < 0.7)
    counts[3] += 1
    edges = np.cumsum(random.random(8) + 0.01)
    low, high = sorted((one, other))
    ends = percentile_ends(counts, edges, low, high)
    sums = np.concatenate([[0], np.cumsum(counts)])
    for share, end in zip((low, high), ends, strict=True):
        assert np.isclose(np.interp(end, edges, sums), share / 100 * counts.sum(), atol=1e-6)
    filled = np.flatnonzero(counts)
    assert edges[filled[0]] <= ends.low <= ends.high <= edges[filled[-1] + 1]


@given(seeds, st.sampled_from(OF_HISTOGRAMS), st.integers(1, 5))
def test_ranges_are_within_those_of_all_records(seed: int, kind: ReductionKind, parts: int) -> None:
    """Any partition gives the same; infinities and constants have a range, too."""
    random = np.random.default_rng(seed)
    special = np.array([0.0, -0.0, 1e-40, 3e38, -3e38, np.inf, -np.inf, np.nan], "f4")
    records = [
        np.where(random.random(64) < 0.1, random.choice(special, 64), random.normal(size=64))
        for _ in range(6)
    ] + [np.zeros(3)]
    observed = [
        Statistics.observe(at, record.astype("f4"), histogram=True)
        for at, record in enumerate(records)
    ]
    whole, reduction = merged(observed), Reduction.of(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = reduction(whole)
    assert whole.minima.min() <= found.minimum <= found.maximum <= whole.maxima.max()
    order = random.permutation(len(observed))
    split: list[list[int]] = [part.tolist() for part in np.array_split(order, parts)]
    groups = [merged([observed[at] for at in part]) for part in split]
    again = reduction(merged(groups))
    assert [end.tobytes() for end in again] == [end.tobytes() for end in found]


@pytest.mark.parametrize("kind", OF_HISTOGRAMS)
def test_an_outlier_is_clamped(kind: ReductionKind) -> None:
    array = np.append(np.random.default_rng(0).normal(size=1_000_000), 100.0).astype("f4")
    found = Reduction.of(kind)(Statistics.observe(0, array, histogram=True))
    assert 2 < found.maximum < 50
    assert array.min() <= found.minimum < -2


def test_channels_are_cut_at_the_ends_of_all() -> None:
    array = np.stack([np.full(1000, 0.5), np.linspace(-1, 1, 1000), np.linspace(0, 4, 1000)])
    statistics = Statistics.observe(0, array.astype("f4"), (0,), histogram=True)
    found = Reduction.of(ReductionKind.ELEMENTS, 10, 90)(statistics)
    assert found.minimum[0] == found.maximum[0] == 0.5
    assert found.minimum[1] > -1
    assert found.maximum[1] == 1
    assert found.maximum[2] < 4


def test_even_bins_keep_the_total() -> None:
    histogram = FloatHistogram.of(np.random.default_rng(1).normal(size=777).astype("f4"))
    assert histogram.even(-5.0, 5.0, 100).sum() == 777


def test_without_a_histogram_there_is_an_error() -> None:
    with pytest.raises(ValueError, match="there is no histogram"):
        Reduction.of(ReductionKind.MSE)(Statistics.observe(0, np.arange(3, dtype="f4")))
