"""Functions that numpy lacks, judged by Python's math."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from qdialect.dialects.arrays.scalar_functions import erf, power


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_the_error_function(dtype: str) -> None:
    """Within two units of the last digit, in the precision of its numbers, with the sign of 0."""
    tiny = np.logspace(-300 if dtype == "f8" else -40, 1, 4001)
    numbers: NDArray[Any] = np.concatenate([np.linspace(-7, 7, 40001), tiny, -tiny]).astype(dtype)
    exact = np.array([math.erf(number) for number in numbers.tolist()])
    computed = erf(numbers)
    assert computed.dtype == numbers.dtype
    units = np.spacing(np.abs(exact).astype(dtype))
    assert (np.abs(computed - exact) <= 2 * units).all()
    with np.errstate(all="ignore"):
        ends = erf(np.array([0.0, -0.0, np.inf, -np.inf, np.nan], dtype))
    assert [*map(str, ends)] == ["0.0", "-0.0", "1.0", "-1.0", "nan"]


def test_powers_keep_the_precision_of_floats() -> None:
    base = np.array([4.0, 9.0], np.float32)
    assert power(base, np.array([0.5, 2.0], np.float32)).dtype == np.float32
    assert power(base.astype("f8"), np.array([2, 1])).tolist() == [16.0, 9.0]
