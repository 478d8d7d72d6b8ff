"""
Scales by the largest magnitude of a block, for storage whose numbers are no integers.

Sources: the OCP Microscaling specification 1.0,
https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf;
`mx_tensor.py`, `nvfp4_tensor.py` and `float8_utils.py` of https://github.com/pytorch/ao; and
`helpers.py` of https://github.com/vllm-project/compressed-tensors.
"""

from __future__ import annotations

import math
from enum import Enum
from functools import cache
from typing import Final, NamedTuple, cast

from qdialect.algebra.codebooks import Codebook
from qdialect.algebra.parameters import StorageFormat
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.support.memory import registered_cache


class MagnitudeRule(Enum):
    """The scale of a block of numbers whose largest magnitude is given."""

    QUOTIENT = "quotient"
    """Over the largest number of the storage, in float32. Blocks of zeros have scale 1."""

    FLOOR = "floor"
    """
    The power of two of the magnitude, rounded down, over that of the largest number.

    Like all powers of two, at least 2^-127, the least exponent of `f8E8M0FNU`.
    """

    CEIL = "ceil"
    """The same, rounded up."""

    EVEN = "even"
    """The same, rounded down after the magnitude is rounded to the digits of the storage."""

    RCEIL = "rceil"
    """The least power of two that is not below the quotient."""

    ROUNDED_QUOTIENT = "rounded-quotient"
    """The quotient, rounded to f8E4M3FN."""

    TWO_LEVELS = "two-levels"
    """The quotients as f8E4M3FN, relative to one float32 scale of the whole tensor."""

    DIVIDED_LEVELS = "divided-levels"
    """The same, where the quotients are divided by the reciprocal scale of the whole tensor."""

    @property
    def reads_all(self) -> bool:
        """Whether a scale depends on the magnitudes of other blocks."""
        return self in (MagnitudeRule.TWO_LEVELS, MagnitudeRule.DIVIDED_LEVELS)

    @property
    def multiplies(self) -> bool:
        """Whether values are multiplied by a number that is not the reciprocal of the scale."""
        return self is MagnitudeRule.TWO_LEVELS

    @property
    def is_power_of_two(self) -> bool:
        """Whether scales are powers of two, of magnitudes that may be infinite."""
        return self in _POWERS


_POWERS: Final = (
    MagnitudeRule.FLOOR,
    MagnitudeRule.CEIL,
    MagnitudeRule.EVEN,
    MagnitudeRule.RCEIL,
)

_LEAST_EXPONENT: Final = -127
_GREATEST_EXPONENT: Final = 127
"""Those of `f8E8M0FNU`, whose exponent 128 is NaN."""

_FRACTION: Final = 23
"""The bits of the fraction of a float32."""

_LEAST_NORMAL: Final = 2.0**-6
"""The least normal number of f8E4M3FN."""
_LEAST_DIVIDED: Final = 0.125
"""What compressed-tensors has in place of a block scale of zero."""


class _Element(NamedTuple):
    """The numbers of a storage."""

    largest: float
    exponent: int
    """That of the largest number."""
    digits: int
    """The bits of the fraction of a normal number."""
    unit: float
    """What a code is multiplied by to be that number."""

    @classmethod
    def of_storage(cls, storage: StorageFormat) -> _Element:
        book = storage.codebook
        if book is None:
            # As in MX: integers are fractions, of numbers below 2.
            digits = storage.width - 2
            return cls(2.0 - 2.0**-digits, 0, digits, 2.0**-digits)
        return cls(book.largest, math.frexp(book.largest)[1] - 1, book.digits, 1.0)


def scales_of(
    rule: MagnitudeRule,
    magnitudes: NDArray[np.float32],
    largest_of_all: np.float32,
    storage: StorageFormat,
) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
    """
    The scale for each of `magnitudes`, the largest of the blocks of a tensor: float32.

    `largest_of_all` is the largest magnitude of the tensor. Also, what values are multiplied by, if
    they are not divided by the scales.
    """
    element = _Element.of_storage(storage)
    largest = np.float32(element.largest)
    if rule.is_power_of_two:
        exponents = _exponents(rule, magnitudes, element)
        np.clip(exponents, _LEAST_EXPONENT, _GREATEST_EXPONENT, out=exponents)
        exponents -= _LEAST_EXPONENT
        exponents <<= _FRACTION
        # The least power, 2^-127, is no normal number.
        scales = np.maximum(exponents, 1 << (_FRACTION - 1), out=exponents).view(np.float32)
        scales *= np.float32(element.unit)
        return scales, None
    with np.errstate(all="ignore"):
        quotients = magnitudes / largest
        if rule is MagnitudeRule.QUOTIENT:
            quotients[quotients == 0] = 1
            return quotients, None
        if rule is MagnitudeRule.ROUNDED_QUOTIENT:
            return _rounded(quotients, _LEAST_NORMAL), None
        if not largest_of_all:
            ones = np.ones_like(quotients)
            return ones, ones if rule.multiplies else None
        both = largest * np.float32(_levels().largest)
        if rule is MagnitudeRule.TWO_LEVELS:
            of_all = largest_of_all / both
            quotients /= of_all
            levels = _rounded(quotients, _LEAST_NORMAL)
            return of_all * levels, np.divide(np.float32(1) / of_all, levels, out=levels)
        divisor = both / largest_of_all
        quotients *= divisor
        levels = _rounded(quotients, 0.0)
        levels[levels == 0] = _LEAST_DIVIDED
        levels /= divisor
        return levels, None


@registered_cache
@cache
def _levels() -> Codebook:
    """The numbers of scales of 8 bits."""
    return cast(Codebook, StorageFormat.of_floats("f8E4M3FN").codebook)


def _rounded(numbers: NDArray[np.float32], least: float) -> NDArray[np.float32]:
    """As f8E4M3FN, at least `least`, and at most the largest number. Overwrites the numbers."""
    np.maximum(numbers, np.float32(least), out=numbers)
    _levels().round(numbers.reshape(-1))
    return numbers


def _exponents(
    rule: MagnitudeRule, magnitudes: NDArray[np.float32], element: _Element
) -> NDArray[np.int32]:
    """The exponents of powers of two."""
    bits = magnitudes.view(np.int32)
    if rule is MagnitudeRule.EVEN:
        bits = bits + np.int32(1 << (_FRACTION - element.digits - 1))
    if rule is MagnitudeRule.RCEIL:
        with np.errstate(all="ignore"):
            bits = (magnitudes / np.float32(element.largest)).view(np.int32)
    exponents = (bits >> _FRACTION) - 127
    if rule in (MagnitudeRule.CEIL, MagnitudeRule.RCEIL):
        exponents = exponents + ((bits & ((1 << _FRACTION) - 1)) != 0)
    return exponents if rule is MagnitudeRule.RCEIL else exponents - element.exponent
