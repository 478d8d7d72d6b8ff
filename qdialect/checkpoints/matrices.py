"""
Quantized matrices apart from any layout.

Codes are moved and never computed anew, but for the complement of blocks whose scale is negative.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from qdialect.algebra.parameters import StorageFormat
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.weights.tensor_files import DTYPES, PACKED


class RefusedError(ValueError):
    """A matrix cannot be held exactly; the word says why, and the reason more of it."""

    def __init__(self, word: str, reason: str) -> None:
        super().__init__(f"{word}: {reason}")
        self.word = word


@dataclass(frozen=True, eq=False)
class Matrix:
    """Rows of a quantized matrix."""

    storage: StorageFormat
    codes: NDArray[np.uint8]
    """Bits of codes."""
    scales: NDArray[np.float32]
    """One for each block."""
    zeros: NDArray[np.int16]
    block: tuple[int, int]
    """The rows and columns of a block."""
    offsets: NDArray[np.float32] | None = None
    """What is added to values, one for each block; None for nothing."""

    def spread(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Numbers of blocks at each code."""
        rows, columns = self.block
        spread = numbers.repeat(columns, 1)[:, : self.codes.shape[1]]
        return spread.repeat(rows, 0)[: len(self.codes)] if rows > 1 else spread

    def positive(self) -> Matrix:
        """
        The same values with positive scales, but for the sign of zeros.

        In blocks with a negative scale, codes and zero points are complemented; those of a scale of
        zero get the code of zero and scale 1. Raises RefusedError if codes are no integers.
        """
        self.check_finite()
        turned, none = self.scales < 0, self.scales == 0
        if self.storage.codebook is not None and turned.any():
            raise RefusedError("scale", "there are negative scales, and codes are of a table")
        own = self._complemented(turned)
        if not none.any():
            return own
        zeros = (own.zeros & own._bits).astype(np.uint8)
        codes = np.where(own.spread(none), own.spread(zeros), own.codes)
        return replace(own, codes=codes, scales=np.where(none, np.float32(1), own.scales))

    def with_zero(self, zero: int) -> Matrix:
        """The same values, complemented in blocks that have the zero point then."""
        if self.storage.codebook is not None:
            return self
        return self._complemented((self.zeros != zero) & (self._top - self.zeros == zero))

    @property
    def _top(self) -> np.int16:
        """The sum of an integer and its complement."""
        return np.int16(-1 if self.storage.signed else (1 << self.storage.width) - 1)

    @property
    def _bits(self) -> np.int16:
        """The bits that codes have: those with a sign fill a byte, unless two are in one."""
        fills_byte = self.storage.signed and self.storage.width != DTYPES[PACKED].bits
        return np.int16(255 if fills_byte else (1 << self.storage.width) - 1)

    def _complemented(self, blocks: NDArray[np.bool_]) -> Matrix:
        """The same values with complements in some blocks, whose scales get the other sign."""
        if not blocks.any():
            return self
        codes = np.where(self.spread(blocks), self.codes ^ self._bits.astype(np.uint8), self.codes)
        zeros = np.where(blocks, self._top - self.zeros, self.zeros).astype(np.int16)
        scales = np.where(blocks, -self.scales, self.scales)
        return replace(self, codes=codes, scales=scales, zeros=zeros)

    @property
    def are_zero(self) -> NDArray[np.bool_]:
        """The blocks all of whose codes are the zero point."""
        are = self.codes == self.spread(self.zeros) & self._bits
        for axis, size in enumerate(self.block):
            are = np.logical_and.reduceat(are, range(0, are.shape[axis], size), axis=axis)
        return are

    def with_sign(self, *, is_signed: bool) -> Matrix:
        """The same values, of integers with or without a sign."""
        storage = self.storage
        if storage.codebook is not None or storage.signed == is_signed:
            return self
        half = 1 << (storage.width - 1)
        codes = (self.codes & np.uint8(2 * half - 1)) ^ np.uint8(half)
        zeros = self.zeros + np.int16(-half if is_signed else half)
        return replace(
            self, storage=StorageFormat(storage.width, is_signed), codes=codes, zeros=zeros
        )

    def check_finite(self) -> None:
        """Raise RefusedError for scales or offsets that are not finite."""
        for name, numbers in (("scale", self.scales), ("offset", self.offsets)):
            if numbers is not None and not np.isfinite(numbers).all():
                raise RefusedError(name, f"there are {name}s that are not finite")

    def of_blocks(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Matrix:
        """The same with other arrays of scales, zero points and offsets."""
        offsets = None if self.offsets is None else change(self.offsets)
        own = replace(self, scales=change(self.scales), zeros=change(self.zeros))
        return replace(own, offsets=offsets)

    def part(self, rows: range, columns: range) -> Matrix:
        """Some rows and columns, which cut no block."""
        (high, wide), inside = self.block, slice(columns.start, columns.stop)
        blocks = slice(columns.start // wide, columns.stop // wide)
        slots = slice(rows.start // high, -(-rows.stop // high))
        codes = self.codes[rows.start : rows.stop, inside]
        return replace(self.of_blocks(lambda array: array[slots, blocks]), codes=codes)

    def turned(self, head: tuple[int, int]) -> Matrix:
        """The same with the rows of each head, an array of shape `head`, transposed."""
        count = math.prod(head)
        if count == 1:
            return self

        def turned(array: NDArray[Any]) -> NDArray[Any]:
            heads = array.reshape(-1, *head, array.shape[1])
            return heads.swapaxes(1, 2).reshape(array.shape)

        if self.block[0] > 1 and self.block[0] % count:
            raise RefusedError("block", f"heads of {count} rows have parts of blocks")
        own = self if self.block[0] > 1 else self.of_blocks(turned)
        return replace(own, codes=turned(self.codes))

    def reblocked(self, block: tuple[int, int], shape: tuple[int, int]) -> Matrix:
        """
        The same with other blocks, of a whole matrix of `shape`.

        Raises RefusedError for a block that would have different numbers.
        """

        lengths = len(self.codes), shape[1]

        def cut(array: NDArray[Any]) -> NDArray[Any]:
            for axis, (own, new) in enumerate(zip(self.block, block, strict=True)):
                if own == new:
                    continue
                taken = array.take(np.arange(0, lengths[axis], new) // own, axis)
                if not np.array_equal(
                    taken.take(np.arange(0, lengths[axis], own) // new, axis), array
                ):
                    reason = f"blocks of {own} that differ would be in blocks of {new}"
                    raise RefusedError("block", reason)
                array = taken
            return array

        return replace(self.of_blocks(cut), block=block)


def whole_blocks(block: tuple[int, int], shape: tuple[int, int]) -> tuple[int, int]:
    """The largest blocks that divide both a block and the axes of a matrix."""
    return math.gcd(block[0], shape[0]), math.gcd(block[1], shape[1])
