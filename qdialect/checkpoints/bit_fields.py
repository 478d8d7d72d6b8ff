"""
Fields of bits in streams of bytes, and the orders in which they are elements.

A tensor of words is a stream of bytes that is read from the lowest bit up. So the width of a word
matters for its padding only.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

from qdialect.algebra.blocked_copy import contiguous
from qdialect.support.lazy_numpy import NDArray, np

_Bytes: TypeAlias = "NDArray[np.uint8]"


class Order(NamedTuple):
    """The order of the elements of a period of the last axis."""

    shape: tuple[int, ...]
    """The period as an array."""

    axes: tuple[int, ...]
    """The axes of the array, transposed."""

    pick: slice = slice(None)
    """What is taken of the first axis then."""

    @property
    def period(self) -> int:
        """The number of elements of a period."""
        return math.prod(self.shape)

    @property
    def taken(self) -> int:
        """The number of elements of a period that are taken."""
        first, *others = (self.shape[axis] for axis in self.axes)
        return len(range(first)[self.pick]) * math.prod(others)

    def view(self, array: NDArray[Any]) -> NDArray[Any]:
        """The elements in this order: a view of `array`, whose last axis has whole periods."""
        count = array.shape[-1] // self.period
        split = array.reshape(*array.shape[:-1], count, *self.shape)
        outer = array.ndim
        moved = split.transpose(*range(outer), *(outer + axis for axis in self.axes))
        return moved[(*(slice(None) for _ in range(outer)), self.pick)]


def in_rows(array: NDArray[Any]) -> NDArray[Any]:
    """An array in row-major order, which is copied if it is in another one."""
    return array if array.flags.c_contiguous else contiguous(array)


def unpacked(data: _Bytes, bits: int) -> _Bytes:
    """All fields of `bits` bits, 1 to 8, along the last axis."""
    if bits == 8:
        return data
    mask = np.uint8((1 << bits) - 1)
    if not 8 % bits:
        # All fields of a byte are looked up at once.
        shifts = np.arange(0, 8, bits, dtype=np.uint8)
        table = np.arange(256, dtype=np.uint8)[:, None] >> shifts & mask
        return table.view(f"u{len(shifts)}")[:, 0][data].view(np.uint8)
    # Eight fields are in as many bytes as a field has bits.
    padded = whole(data, bits)
    wide = np.zeros((*padded.shape[:-1], padded.shape[-1] // bits, 8), np.uint8)
    wide[..., :bits] = padded.reshape(*wide.shape[:-1], bits)
    shifts = np.arange(0, 8 * bits, bits, dtype=np.uint64)
    fields = (wide.view("<u8") >> shifts).astype(np.uint8) & mask
    return fields.reshape(*data.shape[:-1], -1)


def packed(fields: _Bytes, bits: int, word: int) -> _Bytes:
    """The bytes that `unpacked` reads, padded with zeros to words of `word` bytes."""
    nbytes = -(-fields.shape[-1] * bits // (8 * word)) * word
    if bits == 8:
        return whole(fields, word)
    per = 8 // bits if not 8 % bits else 8
    padded = whole(fields, per)
    groups = padded.reshape(*padded.shape[:-1], padded.shape[-1] // per, per)
    if bits == 4:
        # Both halves of a word of 16 bits move together.
        words = padded.view("<u2")
        data = (words >> np.uint16(4) | words).astype(np.uint8)
    elif not 8 % bits:
        data = groups[..., 0].copy()
        for number in range(1, per):
            data |= groups[..., number] << np.uint8(number * bits)
    else:
        shifts = np.arange(0, 8 * bits, bits, dtype=np.uint64)
        wide = np.bitwise_or.reduce(groups.astype("<u8") << shifts, axis=-1)
        data = wide[..., None].view(np.uint8)[..., :bits].reshape(*fields.shape[:-1], -1)
    return whole(data, word)[..., :nbytes]


def whole(array: NDArray[Any], count: int) -> NDArray[Any]:
    """An array whose last axis is padded with zeros to a multiple of `count`."""
    if not (missing := -array.shape[-1] % count):
        return array
    return np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, missing)])
