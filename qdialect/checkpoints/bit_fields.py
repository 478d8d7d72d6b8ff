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


def unpacked(words: NDArray[Any], bits: int) -> NDArray[Any]:
    """All fields of `bits` bits along the last axis: 1 to 8, or 16 or 32."""
    data = in_rows(words).view(np.uint8)
    if bits >= 8:
        return data.view(f"u{bits // 8}")
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


def packed(fields: NDArray[Any], bits: int, word: int) -> NDArray[Any]:
    """The words of `word` bytes that `unpacked` reads, the last one padded with zeros."""
    return whole(_bytes_of(in_rows(fields), bits), word).view(f"u{word}")


def _bytes_of(fields: NDArray[Any], bits: int) -> _Bytes:
    if bits >= 8:
        return fields.view(np.uint8)
    per = 8 // bits if not 8 % bits else 8
    padded = whole(fields, per)
    groups = padded.reshape(*padded.shape[:-1], padded.shape[-1] // per, per)
    if bits == 4:
        # Both halves of a word of 16 bits move together.
        pairs = padded.view("<u2")
        return (pairs >> np.uint16(4) | pairs).astype(np.uint8)
    if not 8 % bits:
        data = groups[..., 0].copy()
        for number in range(1, per):
            data |= groups[..., number] << np.uint8(number * bits)
        return data
    shifts = np.arange(0, 8 * bits, bits, dtype=np.uint64)
    wide = np.bitwise_or.reduce(groups.astype("<u8") << shifts, axis=-1)
    data = wide[..., None].view(np.uint8)[..., :bits].reshape(*fields.shape[:-1], -1)
    return data[..., : -(-fields.shape[-1] * bits // 8)]


def unpacked_down(words: NDArray[Any], bits: int, order: Order | None) -> _Bytes:
    """All fields of the columns of an array of words, whose columns are in no order of memory."""
    word = 8 * words.itemsize
    if word % bits:
        return unpacked(words.T, bits).T
    places, mask = _places(word // bits, order), words.dtype.type((1 << bits) - 1)
    count = len(places) * bits // word
    split = in_rows(whole(words.T, count).T).reshape(-1, count, words.shape[1])
    fields = np.empty((len(split), len(places), words.shape[1]), np.uint8)
    for number, place in enumerate(places):
        at, shift = divmod(place * bits, word)
        fields[:, number] = split[:, at] >> words.dtype.type(shift) & mask
    return fields.reshape(-1, words.shape[1])


def packed_down(fields: _Bytes, bits: int, word: int, order: Order | None) -> NDArray[Any]:
    """The words of `word` bytes that `unpacked_down` reads."""
    if 8 * word % bits:
        return packed(fields.T, bits, word).T
    places, dtype = _places(8 * word // bits, order), np.dtype(f"u{word}")
    count = len(places) * bits // (8 * word)
    padded = whole(fields.T, len(places)).T
    split = in_rows(padded).reshape(-1, len(places), fields.shape[1])
    words = np.zeros((len(split), count, fields.shape[1]), dtype)
    for number, place in enumerate(places):
        at, shift = divmod(place * bits, 8 * word)
        words[:, at] |= split[:, number].astype(dtype) << dtype.type(shift)
    return words.reshape(-1, fields.shape[1])[: -(-len(fields) * bits // (8 * word))]


def _places(per: int, order: Order | None) -> list[int]:
    """The places of fields in whole words of `per`, in the order of elements."""
    if order is None:
        return [*range(per)]
    return order.view(np.arange(math.lcm(per, order.period))).reshape(-1).tolist()


def whole(array: NDArray[Any], count: int) -> NDArray[Any]:
    """An array whose last axis is padded with zeros to a multiple of `count`."""
    if not (missing := -array.shape[-1] % count):
        return array
    return np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, missing)])
