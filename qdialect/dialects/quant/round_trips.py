"""Whether dequantizing and requantizing preserves all integers of a type."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from qdialect.algebra.parameters import QuantizationParameters, Slot
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.support.float_format import Rounding
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.support.memory import BoundedCache

MAX_WIDTH: Final = 16
"""The maximum storage width, in bits, for which all integers are tried."""

MAX_TRIED: Final = 1 << 24
"""The maximum number of pairs of an integer and a slot that are tried for a type."""

_AT_ONCE: Final = 1 << 20


class UnprovableError(ValueError):
    """Trying all integers is too expensive or not exact, so the question stays undecided."""


@dataclass(frozen=True)
class Change:
    """An integer that a round trip changes, with its slot."""

    code: int
    stored: int
    slot: Slot

    def __str__(self) -> str:
        return (
            f"{self.code} becomes {self.stored} with scale {self.slot.scale:.6e}, zero point "
            f"{self.slot.zero_point}"
        )


def first_change(
    type: UniformQuantizedType, rounding: Rounding = Rounding.NEAREST_EVEN, *, is_in_range: bool
) -> Change | None:
    """
    An integer `q` with `qcast(dcast(q)) != q` under some slot of `type`; None if there is none.

    Tries all codes of the storage range, or of the storage type if values may be outside the
    range (`is_in_range` is false). The casts are `QuantizationParameters.read` and `store`.
    Raises UnprovableError if this takes too long or is not exact.
    """
    key = type, rounding, is_in_range
    if (known := _KNOWN_CHANGES.get(key)) is None:
        change = _first_change(type, rounding, is_in_range=is_in_range)
        known = _KNOWN_CHANGES.add(key, (change,), type.scales.size)
    return known[0]


_KNOWN_CHANGES = BoundedCache[tuple[UniformQuantizedType, Rounding, bool], tuple[Change | None]]()


def _first_change(
    type: UniformQuantizedType, rounding: Rounding, *, is_in_range: bool
) -> Change | None:
    low, high = type.storage_type_min, type.storage_type_max
    width = type.storage_format.width
    if width > MAX_WIDTH:
        raise UnprovableError(f"integers of more than {MAX_WIDTH} bits are not tried one by one")
    if type.expressed_format.precision > sys.float_info.mant_dig:
        raise UnprovableError(f"{type.expressed_type.name} has more digits than float64")
    codes = type.storage_format.codes(*((low, high) if is_in_range else ()))
    scales, zero_points = _distinct_slots(type)
    if scales.size * codes.size > MAX_TRIED:
        raise UnprovableError(f"{scales.size} scales are too many to try all integers with each")
    for part in _parts(scales.size, codes.size):
        parameters = QuantizationParameters.from_blocks(
            (len(scales[part]), codes.size),
            scales[part, np.newaxis],
            zero_points[part, np.newaxis],
            type.expressed_format,
            type.storage_format,
        )
        try:
            stored = parameters.store(parameters.read(codes[np.newaxis]), low, high, rounding)
        except ValueError as error:
            raise UnprovableError(str(error)) from None
        changed = np.argwhere(stored != codes)
        if len(changed):
            at = tuple(map(int, changed[0]))
            return Change(int(codes[at[1]]), int(stored[at]), parameters.slot(at))
    return None


def _parts(count: int, size: int) -> Iterator[slice]:
    """Slices of `count` slots, such that trying `size` integers with a slice fits in memory."""
    step = max(_AT_ONCE // size, 1)
    return (slice(start, start + step) for start in range(0, count, step))


def _distinct_slots(type: UniformQuantizedType) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """
    The distinct slots of a type: scales (float64) and zero points (int64), both
    one-dimensional.
    """
    scales = type.expressed_format.round(type.scales).reshape(-1)
    zero_points = type.storage_format.zero_points(type.zero_points).reshape(-1)
    pairs = np.stack([np.ascontiguousarray(scales).view(np.int64), zero_points], axis=1)
    different = np.unique(pairs, axis=0)
    return np.ascontiguousarray(different[:, 0]).view(np.float64), different[:, 1]
