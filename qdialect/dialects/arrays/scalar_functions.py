"""Functions of arrays of numbers that numpy lacks, or defines differently from MLIR."""

from __future__ import annotations

import math
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from xdsl.utils.exceptions import InterpretationError

from qdialect.support.memory import registered_cache

Numbers = NDArray[Any]
"""float64, int64, or bool for i1."""


def larger(one: Numbers, other: Numbers) -> Numbers:
    """The larger of two numbers, with -0.0 < 0.0; NaN if either is NaN."""
    largest, is_equal = np.maximum(one, other), one == other
    if one.dtype.kind != "f" or not is_equal.any():
        return largest
    return np.where(is_equal, np.where(np.signbit(one), other, one), largest)


def smaller(one: Numbers, other: Numbers) -> Numbers:
    """The smaller of two numbers, with -0.0 < 0.0; NaN if either is NaN."""
    least, is_equal = np.minimum(one, other), one == other
    if one.dtype.kind != "f" or not is_equal.any():
        return least
    return np.where(is_equal, np.where(np.signbit(one), one, other), least)


def larger_number(one: Numbers, other: Numbers) -> Numbers:
    """The larger of two numbers; if one is NaN, the other one."""
    return _unless_nan(one, other, larger(one, other))


def smaller_number(one: Numbers, other: Numbers) -> Numbers:
    """The smaller of two numbers; if one is NaN, the other one."""
    return _unless_nan(one, other, smaller(one, other))


def _unless_nan(one: Numbers, other: Numbers, result: Numbers) -> Numbers:
    if one.dtype.kind != "f":
        return result
    return np.where(np.isnan(one), other, np.where(np.isnan(other), one, result))


def clamped(least: Numbers, numbers: Numbers, greatest: Numbers) -> Numbers:
    """`numbers` within bounds; NaN stays NaN."""
    return smaller(larger(numbers, least), greatest)


def quotient(one: Numbers, other: Numbers) -> Numbers:
    """
    The quotient of integers, truncated toward zero. Raises InterpretationError for a division by 0.
    """
    return (one - remainder(one, other)) // other


def remainder(one: Numbers, other: Numbers) -> Numbers:
    """The remainder of integers, with the sign of `one`. Raises InterpretationError as above."""
    return np.fmod(one, _nonzero(other))


def _nonzero(numbers: Numbers) -> Numbers:
    if not np.all(numbers):
        raise InterpretationError("the result is undefined: division by zero")
    return numbers


def truncated(numbers: Numbers, least: int, greatest: int) -> Numbers:
    """
    Floats as integers, truncated toward zero: uint64 if `least` is 0, else int64.

    Raises InterpretationError for a number outside of the range.
    """
    cut = np.trunc(numbers)
    # The greatest 64-bit integer is not a double, but the number after it is.
    if not np.all((cut >= least) & (cut < float(greatest + 1))):
        raise InterpretationError(
            "the result is undefined: a float is outside the range of the integers"
        )
    return cut.astype(np.int64 if least else np.uint64)


def floor_quotient(one: Numbers, other: Numbers) -> Numbers:
    """The quotient of integers, rounded down. Raises InterpretationError as above."""
    return one // _nonzero(other)


def ceiling_quotient(one: Numbers, other: Numbers) -> Numbers:
    """The quotient of integers, rounded up. Raises InterpretationError as above."""
    down = one // _nonzero(other)
    return down + (down * other != one)


def reciprocal(numbers: Numbers) -> Numbers:
    """1 / x."""
    return 1.0 / numbers


def reciprocal_root(numbers: Numbers) -> Numbers:
    """1 / sqrt(x)."""
    return 1.0 / np.sqrt(numbers)


def logistic(numbers: Numbers) -> Numbers:
    """1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + np.exp(-numbers))


def sign(numbers: Numbers) -> Numbers:
    """-1, 1, or the number itself if it is a zero or NaN."""
    return np.where(numbers == 0, numbers, np.sign(numbers))


_ERF_IS_ONE: Final = 6
"""From this number on, the error function is 1 in double."""


_ERF_STEPS: Final = 256
"""Numbers that the error function is expanded at, between two integers."""


def erf(numbers: Numbers) -> Numbers:
    """
    The error function, by its Taylor series at the nearest of `_ERF_STEPS` numbers.

    Derivatives are Hermite polynomials times the first one: https://dlmf.nist.gov/7.10.E1. So each
    term is made of the two before it: https://dlmf.nist.gov/18.9.
    """
    x = np.minimum(np.abs(numbers), _ERF_IS_ONE)
    places = np.rint(x * _ERF_STEPS)
    near = places / _ERF_STEPS
    step = x - near
    doubled, square, term, before = step * near * 2, step * step * 2, step, np.zeros_like(step)
    total = term
    for n in range(4 if x.itemsize > 4 else 2):
        term, before = -(doubled * term + n / (n + 1) * square * before) / (n + 2), term
        total = total + term
    values, slopes = (
        table.astype(x.dtype).take(places.astype(np.intp), mode="clip") for table in _erf_tables()
    )
    return np.copysign(values + slopes * total, numbers)


@registered_cache
@cache
def _erf_tables() -> tuple[Numbers, Numbers]:
    """The error function and its derivative at the numbers that it is expanded at, from 0 on."""
    x = np.arange(_ERF_IS_ONE * _ERF_STEPS + 1) / _ERF_STEPS
    values = np.array([math.erf(number) for number in x.tolist()])
    return values, 2.0 / math.sqrt(math.pi) * np.exp(-x * x)


def erfc(numbers: Numbers) -> Numbers:
    """1 - erf(x), without its cancellation."""
    return np.asarray(np.frompyfunc(math.erfc, 1, 1)(numbers), np.float64)


def same(numbers: Numbers) -> Numbers:
    """The number itself."""
    return numbers


def power(base: Numbers, exponent: Numbers) -> Numbers:
    """The power of a float; the exponent may be an integer."""
    return np.power(base, exponent if exponent.dtype.kind == "f" else exponent.astype(np.float64))


def multiply_add(one: Numbers, other: Numbers, added: Numbers) -> Numbers:
    """The sum of a product, which is rounded as well."""
    return one * other + added


def total_order(numbers: Numbers) -> Numbers:
    """Integers in the order of floats: -0.0 before 0.0, and NaN at the ends, by its sign."""
    bits = np.ascontiguousarray(numbers).view(np.int64).reshape(numbers.shape)
    return np.where(bits < 0, bits ^ np.iinfo(np.int64).max, bits)
