"""Statistics are the same in whatever order records are merged, and reduce as ONE and Glow do."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from qdialect.ptq.schemes.ranges import FloatHistogram, Statistics, merged
from qdialect.ptq.schemes.schemes import Range

pytestmark = pytest.mark.without_xdsl

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

numbers = st.one_of(
    st.floats(-100, 100, width=32),
    st.sampled_from([0.0, -0.0, math.inf, -math.inf, 1e-45, 3e38, -3e38]),
)


@st.composite
def records(draw: st.DrawFn) -> list[Array]:
    """Tensors with the same number of channels on axis 1, none of them all NaN."""
    channels = draw(st.integers(1, 3))
    tensors: list[Array] = []
    for _ in range(draw(st.integers(1, 6))):
        shape = (draw(st.integers(1, 3)), channels, draw(st.integers(1, 3)))
        tensor = draw(arrays(np.float32, shape, elements=numbers))
        if draw(st.booleans()):
            tensor = np.concatenate((tensor, np.full((1, *shape[1:]), np.nan, "f4")))
        tensors.append(tensor)
    return tensors


def contents(statistics: Statistics) -> tuple[Any, ...]:
    """All that is in it, so that it can be compared; zeros by their signs, too."""
    histogram = statistics.histogram
    return (
        statistics.axes,
        statistics.records.tolist(),
        statistics.minima.tobytes(),
        statistics.maxima.tobytes(),
        statistics.count,
        statistics.nans,
        None if histogram is None else (histogram.bins.tolist(), histogram.counts.tolist()),
    )


def ranges(*found: Range) -> list[tuple[bytes, bytes]]:
    return [(of.minimum.tobytes(), of.maximum.tobytes()) for of in found]


@given(records(), st.data(), st.booleans(), st.sampled_from([(), (1,)]))
def test_merging_is_associative_and_in_any_order(
    tensors: list[Array], data: st.DataObject, histogram: bool, axes: tuple[int, ...]
):
    indices = data.draw(st.permutations(range(0, 3 * len(tensors), 3)))
    seen = [
        Statistics.observe(index, tensor, axes, histogram=histogram)
        for index, tensor in zip(indices, tensors, strict=True)
    ]
    whole = merged(seen)
    parts = data.draw(st.permutations(seen))
    while len(parts) > 1:
        at = data.draw(st.integers(0, len(parts) - 2))
        parts[at : at + 2] = [parts[at].merge(parts[at + 1])]
    assert contents(parts[0]) == contents(whole)
    reductions = [
        ranges(of.whole(), of.percentile(), of.percentile(10, 50), of.moving_average(2))
        for of in (parts[0], whole)
    ]
    assert reductions[0] == reductions[1]
    finite = np.concatenate(tensors, axis=0 if len(tensors) == 1 else None) if not axes else None
    if finite is not None:
        assert whole.whole().minimum == np.nanmin(finite)
        assert whole.whole().maximum == np.nanmax(finite)
    assert whole.count == sum(np.count_nonzero(~np.isnan(tensor)) for tensor in tensors)
    assert whole.nans == sum(np.count_nonzero(np.isnan(tensor)) for tensor in tensors)
    if whole.histogram is not None:
        assert whole.histogram.counts.sum() == whole.count


def of_ends(minima: list[float], maxima: list[float]) -> Statistics:
    records = np.arange(len(minima))
    return Statistics((), records, np.array(minima, "f4"), np.array(maxima, "f4"), len(minima))


ends = st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=80)


@given(ends, st.floats(0, 100))
def test_percentiles_are_those_of_numpy(minima: list[float], percentile: float):
    """Of the records' ends, sorted: the number at `(n - 1) * percentile / 100`."""
    maxima = [low + 1 for low in minima]
    found = of_ends(minima, maxima).percentile(percentile, percentile)
    for values, end in ((minima, found.minimum), (maxima, found.maximum)):
        at_least = sorted(map(float, np.array(values, "f4")))
        place = (len(at_least) - 1) * percentile / 100
        below = min(math.floor(place), len(at_least) - 1)
        above = min(below + 1, len(at_least) - 1)
        wanted = at_least[below] + (place - below) * (at_least[above] - at_least[below])
        assert end == pytest.approx(wanted, rel=1e-6, abs=1e-6)
        assert at_least[below] <= end <= at_least[above]


def test_percentiles_at_the_edges():
    one = of_ends([-3.0], [4.0])
    assert ranges(one.percentile(1, 99)) == ranges(one.whole())
    many = of_ends([-3.0, -1.0, -2.0], [4.0, 9.0, 5.0])
    assert ranges(many.percentile(0, 100)) == ranges(many.whole())
    assert many.percentile(50, 50).minimum == -2
    infinite = of_ends([-math.inf, -1.0, 0.0], [1.0, 2.0, math.inf])
    assert [*infinite.percentile(1, 99)] == [-math.inf, math.inf]
    assert [*infinite.percentile(50, 50)] == [-1, 2]
    for bad in (-1, 101, math.nan):
        with pytest.raises(ValueError, match="from 0 to 100"):
            one.percentile(bad, 50)
    with pytest.raises(ValueError, match="low must not exceed high, as 51 exceeds 50"):
        many.percentile(51, 50)


@given(ends, st.integers(1, 20))
def test_moving_average_is_its_formula(minima: list[float], batch: int):
    found = of_ends(minima, [low + 1 for low in minima]).moving_average(batch)
    kept = np.float32(1) - np.float32(0.1)
    average = np.float32(min(minima[:batch]))
    for start in range(batch, len(minima), batch):
        low = min(minima[start : start + batch])
        average = np.float32(float(average * kept) + low * (1.0 - float(kept)))
    assert found.minimum == average


def test_moving_average_has_batches_of_sixteen():
    lows = [0.0] * 16 + [-10.0] * 15 + [-20.0, -30.0]
    found = of_ends(lows, [0.0] * 33).moving_average()
    assert found.minimum == pytest.approx((0.9 * 0 - 0.1 * 20) * 0.9 - 0.1 * 30, rel=1e-6)
    for batch, share in ((0, 0.1), (16, 2.0)):
        with pytest.raises(ValueError, match="must"):
            of_ends(lows, [0.0] * 33).moving_average(batch, share)


def test_what_cannot_be_merged():
    one, two = Statistics.observe(4, np.ones((2, 3), "f4")), of_ends([0.0] * 9, [1.0] * 9)
    with pytest.raises(ValueError, match="both have record 4"):
        one.merge(two)
    per_axis = Statistics.observe(10, np.ones((2, 3), "f4"), (1,))
    with pytest.raises(
        ValueError, match=r"the whole tensor do not match those of axes \[1\] of lengths \[3\]"
    ):
        one.merge(per_axis)
    with pytest.raises(ValueError, match="only one of the two has a histogram"):
        one.merge(Statistics.observe(5, np.ones(3, "f4"), histogram=True))
    with pytest.raises(ValueError, match="all elements are NaN"):
        Statistics.observe(0, np.full(3, np.nan, "f4"))
    with pytest.raises(ValueError, match=r"slot \[0, 1\] are NaN"):
        Statistics.observe(0, np.array([[1, np.nan]], "f4"), (1,))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"records": [1, 1]}, "must be ascending"),
        ({"records": [1]}, "1 records do not match 2 ranges"),
        ({"minima": [5.0, 0.0]}, "exceeds its maximum"),
        ({"minima": [math.nan, 0.0]}, "or is NaN"),
        ({"maxima": [1.0]}, "do not match each other"),
    ],
)
def test_statistics_fit(fields: dict[str, list[float]], reason: str):
    given_fields = {"records": [0, 1], "minima": [0.0, 0.0], "maxima": [1.0, 1.0], **fields}
    records, minima, maxima = (
        np.array(given_fields[name], dtype)
        for name, dtype in (("records", "i8"), ("minima", "f4"), ("maxima", "f4"))
    )
    with pytest.raises(ValueError, match=reason):
        Statistics((), records, minima, maxima, 2)


@given(st.lists(st.floats(width=32), min_size=1, max_size=50))
def test_numbers_are_in_their_bins(values: list[float]):
    tensor = np.array(values, "f4")
    histogram = FloatHistogram.of(tensor)
    near, far = histogram.edges
    for at, count in enumerate(histogram.counts):
        low, high = sorted((near[at], far[at]))
        inside = (
            (tensor >= low) & (tensor < high)
            if near[at] >= 0 and not np.signbit(near[at])
            else (tensor > low) & (tensor <= high) & (tensor != 0)
        )
        inside |= (tensor == near[at]) & (tensor != 0)
        assert np.count_nonzero(inside) == count
    assert histogram.bins.tolist() == sorted(set(histogram.bins.tolist()))
