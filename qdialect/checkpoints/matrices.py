"""
Quantized matrices apart from any layout, read from tensors of files in bands of rows.

Codes are moved and never computed anew, but for the complement of blocks whose scale is negative.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from qdialect.algebra.parameters import StorageFormat
from qdialect.checkpoints.bit_fields import in_rows, unpacked, whole
from qdialect.checkpoints.layouts import (
    EXPONENT_BIAS,
    Layout,
    Meaning,
    Numbers,
    Plane,
    Planes,
    Turn,
)
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.weights.copying import Descriptors, array_of
from qdialect.weights.strided_views import StridedView
from qdialect.weights.tensor_files import DTYPES, TensorInFile, numbers_of_bits

_ROWS: Final = 128
"""Bands have a multiple of so many rows: those of a block, and of a whole number of words."""


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
        if not (turned | none).any():
            return self
        if self.storage.codebook is not None and turned.any():
            raise RefusedError("scale", "there are negative scales, and codes are of a table")
        top = np.int16(-1 if self.storage.signed else (1 << self.storage.width) - 1)
        zeros = np.where(turned, top - self.zeros, self.zeros).astype(np.int16)
        codes = np.where(self.spread(turned), top.astype(np.uint8) - self.codes, self.codes)
        codes = np.where(self.spread(none), self.spread(zeros).astype(np.uint8), codes)
        scales = np.where(none, np.float32(1), abs(self.scales))
        return replace(self, codes=codes, scales=scales, zeros=zeros)

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

        def turned(array: NDArray[Any]) -> NDArray[Any]:
            heads = array.reshape(-1, *head, array.shape[1])
            return heads.swapaxes(1, 2).reshape(array.shape)

        if self.block[0] > 1 and self.block[0] % count:
            raise RefusedError("block", f"heads of {count} rows have parts of blocks")
        own = self if self.block[0] > 1 else self.of_blocks(turned)
        return replace(own, codes=turned(self.codes))

    def divided(self, shape: tuple[int, int]) -> Matrix:
        """The same with blocks that divide the axes of the whole matrix, of `shape`."""
        block = whole_blocks(self.block, shape)
        if block == self.block:
            return self
        rows, columns = (own // new for own, new in zip(self.block, block, strict=True))
        counts = -(-len(self.codes) // block[0]), shape[1] // block[1]

        def cut(array: NDArray[Any]) -> NDArray[Any]:
            return array.repeat(rows, 0).repeat(columns, 1)[: counts[0], : counts[1]]

        return replace(self.of_blocks(cut), block=block)


def whole_blocks(block: tuple[int, int], shape: tuple[int, int]) -> tuple[int, int]:
    """The largest blocks that divide both a block and the axes of a matrix."""
    return math.gcd(block[0], shape[0]), math.gcd(block[1], shape[1])


class MatrixReader:
    """A matrix of a checkpoint, read in bands of rows."""

    def __init__(
        self,
        layout: Layout,
        tensors: Mapping[str, TensorInFile],
        files: Descriptors,
        shape: tuple[int, int],
        block: tuple[int, int],
        state: Mapping[str, float],
        order: NDArray[np.intp] | None = None,
        *,
        is_symmetric: bool = False,
    ) -> None:
        """
        `tensors` are by the ends of their names; `block` is the rows and columns of one.

        Columns are read in `order`. With `is_symmetric`, all zero points must be the middle code.
        """
        self._state, self._order, self._is_symmetric = state, order, is_symmetric
        self._layout, self._tensors, self._files = layout, tensors, files
        self.shape, self.block = shape, block

    @cached_property
    def storage(self) -> StorageFormat:
        """What the codes are. Raises RefusedError."""
        layout = self._layout
        if layout.storage:
            return StorageFormat.of_floats(layout.storage)
        if layout.table:
            numbers = self._numbers(layout.table).reshape(-1)
            if numbers.size != 1 << layout.bits or not np.isfinite(numbers).all():
                raise RefusedError("table", f"'{layout.table}' has other numbers than codes")
            return StorageFormat.of_table(layout.bits, numbers)
        return StorageFormat(layout.bits, layout.is_signed)

    def bands(self, most: int, multiple: int = 1, taken: int = 8) -> list[range]:
        """The rows of bands that take about `most` bytes, `taken` for each code."""
        unit = math.lcm(_ROWS, multiple)
        if self.block[0] < self.shape[0]:
            unit = math.lcm(unit, self.block[0])
        count = max(1, most // (taken * unit * max(1, self.shape[1]))) * unit
        rows = range(self.shape[0])
        return [rows[start : start + count] for start in range(0, len(rows), count)]

    def read(self, rows: range, *, with_codes: bool = True) -> Matrix:
        """The rows of a band. Raises RefusedError, OSError and WeightsError."""
        fields = self._fields(rows)
        codes = self._codes(rows, fields) if with_codes else np.empty((len(rows), 0), np.uint8)
        if with_codes and self._order is not None:
            codes = codes[:, self._order]
        if self._layout.record:
            matrix = self._of_blocks(rows, fields)
        else:
            part = slice(rows.start // self.block[0], -(-rows.stop // self.block[0]))
            matrix = self._all_blocks.of_blocks(lambda array: array[part])
        return replace(matrix, codes=codes)

    @cached_property
    def _all_blocks(self) -> Matrix:
        return self._of_blocks(range(self.shape[0]), {})

    def _of_blocks(self, rows: range, fields: Mapping[str, NDArray[np.uint8]]) -> Matrix:
        """The scales, zero points and offsets of some rows, without codes."""
        layout, none = self._layout, np.empty((0, 0), np.uint8)
        scales = self._products(layout.scale, rows, fields)
        offsets = self._products(layout.offset, rows, fields) if layout.offset else None
        zeros = self._zeros(scales.shape)
        return Matrix(self.storage, none, scales, zeros, self.block, offsets)

    def _fields(self, rows: range) -> Mapping[str, NDArray[np.uint8]]:
        """The fields of the records of some rows: bytes, a row for each row."""
        if not self._layout.record:
            return {}
        data = self._part("", (slice(rows.start, rows.stop), slice(None)))
        size = sum(nbytes for _, nbytes in self._layout.record)
        records = data.reshape(len(rows), -1, size)
        fields: dict[str, NDArray[np.uint8]] = {}
        start = 0
        for name, nbytes in self._layout.record:
            part = records[:, :, start : start + nbytes]
            fields[name] = in_rows(part).reshape(len(rows), -1)
            start += nbytes
        return fields

    def _part(self, name: str, slices: tuple[slice, ...] | None = None) -> NDArray[Any]:
        """The bits of a tensor, or of a part of it."""
        tensor = self._tensors[name]
        view = StridedView.of(tensor, tensor.entry.shape)
        if slices is not None:
            view = view[(*slices, *(slice(None) for _ in view.shape[len(slices) :]))]
        assert isinstance(view, StridedView)
        return array_of(view, self._files)

    def _numbers(self, name: str) -> NDArray[Any]:
        dtype, bits = self._tensors[name].entry.dtype, self._part(name)
        numbers = numbers_of_bits(in_rows(bits), dtype)
        return numbers if dtype[0] in "IU" else numbers.astype(np.float32)

    @property
    def is_stream(self) -> bool:
        """Whether codes follow each other along rows, which end with a byte."""
        (plane, *others), layout = self._layout.codes, self._layout
        is_plain = plane.is_stream and plane.bits == layout.bits and self._order is None
        return is_plain and not (others or layout.record or self.shape[1] * layout.bits % 8)

    def stream(self, rows: range) -> NDArray[np.uint8]:
        """The bytes of the codes of some rows, low bits first, if `is_stream`."""
        (plane,) = self._layout.codes
        return self._bytes(plane, rows)[:, : self.shape[1] * plane.bits // 8]

    def _bytes(self, plane: Plane, rows: range) -> NDArray[np.uint8]:
        """The bytes that have the fields of some rows, a row for each."""
        if plane.turn is Turn.BEFORE:
            words = self._part(plane.name, (slice(None), slice(rows.start, rows.stop))).T
        elif self._layout.is_flat:
            words = self._rows(plane, rows, self.shape[1] * plane.bits // 8)
        else:
            count = self.shape[0] // plane.fan
            size = math.prod(self._tensors[plane.name].entry.shape) // count
            words = self._rows(plane, range(rows.start // plane.fan, rows.stop // plane.fan), size)
        return in_rows(words).view(np.uint8)

    def _codes(self, rows: range, fields: Mapping[str, NDArray[np.uint8]]) -> NDArray[np.uint8]:
        planes, columns = self._layout.codes, self.shape[1]
        if self._layout.record:
            return _integers(planes, fields)[:, :columns]
        (plane,) = planes
        if plane.turn is not Turn.AFTER:
            codes = _ordered(self._bytes(plane, rows), plane)
            if plane.fan > 1 and plane.order is not None:
                # A period has columns of each of the rows.
                width = plane.order.period // plane.fan
                split = codes.reshape(len(codes), -1, plane.fan, width)
                codes = split.transpose(0, 2, 1, 3).reshape(len(rows), -1)
            return codes[:, :columns]
        # Bands are of whole words.
        per = DTYPES[plane.dtype].bits
        words = slice(rows.start * plane.bits // per, -(-rows.stop * plane.bits // per))
        codes = _ordered(self._part(plane.name, (slice(None), words)), plane)
        return in_rows(codes[:, : len(rows)].T)

    def _rows(self, plane: Plane, rows: range, size: int) -> NDArray[Any]:
        """Some rows of a tensor, as which it has `size` words in each."""
        view = StridedView.of(self._tensors[plane.name], (self.shape[0] // plane.fan, size))
        part = view[(slice(rows.start, rows.stop), slice(None))]
        assert isinstance(part, StridedView)
        return array_of(part, self._files)

    def _products(
        self,
        parts: Sequence[Numbers | Planes],
        rows: range,
        fields: Mapping[str, NDArray[np.uint8]],
    ) -> NDArray[np.float32]:
        """The products of what is stored, one for each block."""
        count, groups = -(-len(rows) // self.block[0]), -(-self.shape[1] // self.block[1])
        if self._layout.is_flat:
            count, groups = 1, count * groups
        total: NDArray[np.float32] | None = None
        for part in parts:
            if isinstance(part, Numbers) and part.meaning is Meaning.SUMMAND:
                if total is None or part.name not in self._state:
                    raise RefusedError("missing", f"there is no number '{part.name}'")
                total = total + np.float32(self._state[part.name])
                continue
            array = self._factor(part, fields, count)
            if total is not None:
                size = max(total.shape[1], array.shape[1])
                total, array = (
                    own.repeat(-(-size // own.shape[1]), 1)[:, :size] for own in (total, array)
                )
            meaning = part.meaning if isinstance(part, Numbers) else Meaning.FACTOR
            if total is None:
                total = array
            elif meaning is Meaning.DIVISOR:
                total = total / array
            else:
                total = total * array
        assert total is not None
        if total.shape[1] < groups:
            raise RefusedError("block", f"{total.shape[1]} scales are too few for {groups} blocks")
        scales = np.broadcast_to(total, (count, total.shape[1]))[:, :groups]
        return scales.reshape(len(rows), -1) if self._layout.is_flat else scales

    def _factor(
        self, part: Numbers | Planes, fields: Mapping[str, NDArray[np.uint8]], count: int
    ) -> NDArray[np.float32]:
        if isinstance(part, Planes):
            return _integers(part.planes, fields).astype(np.float32) + np.float32(part.bias)
        if self._layout.record:
            (dtype,) = part.dtypes
            bits = fields[part.name].view(f"u{DTYPES[dtype].itemsize}")
            array = numbers_of_bits(bits, dtype)
        else:
            array = self._numbers(part.name)
            if part.is_turned:
                array = array.T
            else:
                array = array.reshape(1 if array.size % count else count, -1)
        if part.meaning is Meaning.EXPONENT:
            return np.ldexp(np.float32(1), array.astype(np.int32) - EXPONENT_BIAS)
        if part.meaning is Meaning.INDEX:
            return self._numbers(part.table).reshape(-1)[array]
        numbers = array.astype(np.float32)
        return -numbers if part.meaning is Meaning.NEGATIVE else numbers

    def _zeros(self, shape: Sequence[int]) -> NDArray[np.int16]:
        """The zero points, of the shape of the scales."""
        zero, bits = self._layout.zero, self._layout.bits
        if isinstance(zero, Numbers):
            stored = (
                self._numbers(zero.name)
                if zero.name in self._tensors
                else np.zeros((1, 1), np.int8)
            )
            stored = stored.reshape(1 if stored.size == 1 else shape[0], -1)
        elif isinstance(zero, Planes):
            (plane,) = zero.planes
            data = self._part(plane.name)
            if plane.turn is Turn.BOTH:
                data = data.T
            fields = _ordered(data.reshape(data.shape[0], -1), plane)
            stored = fields if plane.turn is Turn.NONE else fields.T
            stored = stored[: shape[0], : shape[1]].astype(np.int16) + np.int16(zero.bias)
            if (stored >> bits).any():
                raise RefusedError(
                    "zero",
                    f"a stored {(1 << bits) - 1} is {1 << bits} to some readers, and 0 to others",
                )
            if self._is_symmetric and (stored != 1 << (bits - 1)).any():
                raise RefusedError(
                    "ambiguous",
                    f"the configuration says symmetric, but zero points are {stored.min()} to "
                    f"{stored.max()}: choose a layout with --layout",
                )
        else:
            stored = np.full((1, 1), zero or 0)
        return np.broadcast_to(stored, tuple(shape)).astype(np.int16)


def _integers(
    planes: Sequence[Plane], fields: Mapping[str, NDArray[np.uint8]]
) -> NDArray[np.uint8]:
    """Whole numbers whose bits are in planes of records."""
    total: NDArray[np.uint8] | None = None
    for plane in planes:
        stream = _ordered(fields[plane.name], plane)
        if plane.place is None:
            return stream
        if total is None:
            rows, size = stream.shape
            total = np.zeros((rows, size // plane.place.taken * plane.place.period), np.uint8)
        target = plane.place.view(total)
        target |= stream.reshape(target.shape) << np.uint8(plane.shift)
    assert total is not None
    return total


def _ordered(data: NDArray[Any], plane: Plane) -> NDArray[np.uint8]:
    """The fields of rows of words, in the order of elements."""
    fields = unpacked(in_rows(data).view(np.uint8), plane.bits)
    if plane.order is None:
        return fields
    ordered = plane.order.view(whole(fields, plane.order.period))
    return ordered.reshape(fields.shape[0], -1)
