"""
Matrices in tensors of a layout, which are read and written in bands of rows.

What reads and what writes are one walk: fields of bits, whole numbers of planes, numbers of dtypes,
and products of these.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, TypeAlias

from qdialect.algebra.parameters import StorageFormat
from qdialect.checkpoints.bit_fields import (
    in_rows,
    packed,
    packed_down,
    unpacked,
    unpacked_down,
    whole,
)
from qdialect.checkpoints.layouts import PLAIN, STATE, Layout, Meaning, Numbers, Plane
from qdialect.checkpoints.matrices import Matrix, RefusedError
from qdialect.support.files import JsonError, JsonValue
from qdialect.support.float_format import FLOAT_FORMATS
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.weights.copying import Descriptors, array_of, bits_of
from qdialect.weights.strided_views import StridedView
from qdialect.weights.tensor_files import DTYPES, FileWriter, TensorInFile, numbers_of_bits

_Bits: TypeAlias = "tuple[Sequence[Plane], NDArray[Any]]"

_ROWS: Final = 128
"""Bands have a multiple of so many rows: those of a block, and of a whole number of words."""


def state_of(tensor: TensorInFile, files: Descriptors) -> Mapping[str, JsonValue]:
    """What is saved beside a flat matrix. Raises RefusedError, OSError and WeightsError."""
    text = bits_of(tensor, files).tobytes()
    try:
        return JsonValue.parse(text.decode()).members()
    except (JsonError, UnicodeDecodeError):
        raise RefusedError("missing", f"'{tensor.entry.name}' has no shape and block") from None


@dataclass(frozen=True)
class QuantizedModule:
    """A matrix of a checkpoint, and the tensors that it is made of."""

    name: str
    """The name of the weight that it is."""
    layout: Layout
    tensors: Mapping[str, TensorInFile]
    """By the ends of their names."""
    shape: tuple[int, ...]
    """The shape of the weight: all axes but the last are rows."""
    block: tuple[int, int]
    """The rows and columns of a block."""
    storage: StorageFormat | None = None
    """What the codes are, if the layout does not say it."""
    floats: str = "F32"
    """The dtype that values with an offset are computed in."""
    order: NDArray[np.intp] | None = field(default=None, repr=False)
    """The columns in the order of their blocks; None if they are."""
    is_symmetric: bool = False
    """Whether its configuration says that zero points are the middle code."""

    @property
    def matrix(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        return math.prod(self.shape[:-1]), self.shape[-1]

    @property
    def padding(self) -> int:
        """The number of blocks in a multiple of which a row ends."""
        padding = self.layout.scale[0].padding
        return padding * (max(1, 128 // self.block[1]) if padding > 1 else 1)

    def stored(self, dtype: str) -> list[tuple[Plane, tuple[int, ...]]]:
        """The planes of tensors, where those of scales have a dtype, and the shapes of tensors."""
        layout, (rows, columns), (high, wide) = self.layout, self.matrix, self.block
        blocks = self.shape[:-1] if high == 1 else (-(-rows // high),)
        groups = -(-columns // (wide * self.padding)) * self.padding
        stored = [(plane, plane.stored(self.shape[:-1], columns, wide)) for plane in layout.codes]
        for part in (*layout.scale[:1], *layout.offset[:1], layout.zero):
            if isinstance(part, Numbers) and part.name not in layout.outer:
                planes = part.planes_of(dtype if dtype in part.dtypes else part.dtype)
                stored += [(plane, plane.stored(blocks, groups, 1)) for plane in planes]
        if layout.is_flat:
            ends = {layout.codes[0].name: (1,)}
            return [(p, (math.prod(shape), *ends.get(p.name, ()))) for p, shape in stored]
        return stored


class MatrixReader:
    """A matrix of a checkpoint, read in bands of rows."""

    def __init__(
        self, module: QuantizedModule, files: Descriptors, *, is_ordered: bool = True
    ) -> None:
        """Columns are read in the order of their blocks, or as the layout has them."""
        self._layout, self._tensors, self._files = module.layout, module.tensors, files
        self.module, self.shape, self.block = module, module.matrix, module.block
        self._order, is_sorted = module.order, module.layout.name == PLAIN
        if is_ordered is is_sorted:
            self._order = None
        elif self._order is not None and is_sorted:
            # Columns of a manifest are stored in the order of their blocks.
            self._order = np.argsort(self._order)
        self._last: tuple[range, Mapping[str, NDArray[np.uint8]]] = range(0), {}

    @cached_property
    def storage(self) -> StorageFormat:
        """What the codes are. Raises RefusedError."""
        layout = self._layout
        if self.module.storage is not None:
            return self.module.storage
        if layout.storage:
            return StorageFormat.of_floats(layout.storage)
        if isinstance(layout.table, tuple):
            return StorageFormat(8, signed=True)
        if layout.table:
            numbers = self._table(layout.table)
            if numbers.size != 1 << layout.bits or not np.isfinite(numbers).all():
                raise RefusedError("table", f"'{layout.table}' has other numbers than codes")
            return StorageFormat.of_table(layout.bits, numbers.tolist())
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
        layout = self._layout
        scales = self._product(layout.scale, rows)
        offsets = self._product(layout.offset, rows) if layout.offset else None
        codes = np.empty((len(rows), 0), np.uint8)
        if with_codes:
            codes = self._integers(layout.codes, rows, 1)[:, : self.shape[1]]
            if isinstance(layout.table, tuple):
                codes = np.array(layout.table, np.int8).view(np.uint8)[codes]
            if self._order is not None:
                codes = codes[:, self._order]
        zeros = self._zeros(rows, scales.shape)
        return Matrix(self.storage, codes, scales, zeros, self.block, offsets)

    @property
    def is_stream(self) -> bool:
        """Whether codes follow each other along rows, which end with a byte."""
        (plane, *others), layout = self._layout.codes, self._layout
        is_plain = plane.is_stream and plane.bits == layout.bits and self._order is None
        return is_plain and not (others or layout.record or self.shape[1] * layout.bits % 8)

    def stream(self, rows: range) -> NDArray[np.uint8]:
        """The bytes of the codes of some rows, low bits first, if `is_stream`."""
        (plane,) = self._layout.codes
        data = in_rows(self._words(plane, rows, 1)).view(np.uint8)
        return data[:, : self.shape[1] * plane.bits // 8]

    def _records(self, rows: range) -> Mapping[str, NDArray[np.uint8]]:
        """The fields of the records of some rows: bytes, a row for each row."""
        if self._last[0] != rows:
            sizes = [nbytes for _, nbytes in self._layout.record]
            data = self._words(Plane("", 8), rows, 1).reshape(len(rows), -1, sum(sizes))
            parts = np.split(data, np.cumsum(sizes)[:-1], axis=2)
            names = (name for name, _ in self._layout.record)
            pairs = zip(names, parts, strict=True)
            self._last = rows, {name: in_rows(part).reshape(len(rows), -1) for name, part in pairs}
        return self._last[1]

    def _words(self, plane: Plane, rows: range, high: int) -> NDArray[Any]:
        """
        Words for some rows, in blocks of `high` rows, that fields follow each other in.

        One number is that of all rows.
        """
        tensor = self._tensors[plane.name]
        size, count = math.prod(tensor.entry.shape), -(-self.shape[0] // high)
        ends = rows.start // high, -(-rows.stop // high), count
        fields, per = (plane.bits, plane.word) if plane.is_along_rows else (1, plane.fan)
        start, stop, lines = (-(-end * fields // per) for end in ends)
        if size == 1:
            start, stop, lines = 0, 1, 1
        if size % lines:
            raise RefusedError("block", f"'{plane.name}' has {size} words for {lines} rows")
        shape = [lines, size // lines]
        cut = [slice(start, stop), slice(None)]
        if plane.is_turned:
            shape, cut = shape[::-1], cut[::-1]
        view = StridedView.of(tensor, shape)[tuple(cut)]
        assert isinstance(view, StridedView)
        words = array_of(view, self._files)
        return words.T if plane.is_turned else words

    def _integers(self, planes: Sequence[Plane], rows: range, high: int) -> NDArray[Any]:
        """Whole numbers whose bits are in planes: a row for each block of `high` rows."""
        total: NDArray[np.uint8] | None = None
        for plane in planes:
            if plane.name in self._tensors:
                words = self._words(plane, rows, high)
            else:
                words = self._records(rows)[plane.name]
            if plane.is_along_rows:
                fields = unpacked_down(words, plane.bits, plane.order)[: -(-len(rows) // high)]
                return fields ^ np.uint8(plane.flip) if plane.flip else fields
            stream = unpacked(words, plane.bits)
            if plane.order is not None:
                ordered = plane.order.view(whole(stream, plane.order.period))
                if plane.fan > 1:
                    ordered = ordered.swapaxes(1, 2)
                stream = ordered.reshape(len(stream) * plane.fan, -1)
            if plane.place is None:
                return stream
            if total is None:
                size = stream.shape[1] // plane.place.taken * plane.place.period
                total = np.zeros((len(stream), size), np.uint8)
            target = plane.place.view(total)
            target |= stream.reshape(target.shape) << np.uint8(plane.shift)
        assert total is not None
        return total

    def _table(self, name: str) -> NDArray[np.float32]:
        tensor = self._tensors[name]
        bits = bits_of(tensor, self._files)
        return numbers_of_bits(bits, tensor.entry.dtype).astype(np.float32).reshape(-1)

    @cached_property
    def _state(self) -> Mapping[str, JsonValue]:
        (name,) = (name for name in self._tensors if name.startswith(STATE))
        return state_of(self._tensors[name], self._files)

    def _numbers(self, part: Numbers, rows: range) -> NDArray[np.float32]:
        """What is stored for the blocks of some rows."""
        return self._decoded(part, self.bits(part, rows), self._dtype_of(part))

    def bits(self, part: Numbers, rows: range) -> NDArray[Any]:
        """What is stored for the blocks of some rows, as whole numbers."""
        planes = part.planes_of(self._dtype_of(part))
        return self._integers(planes, rows, self.block[0])

    def _dtype_of(self, part: Numbers) -> str:
        """The dtype of elements, empty for whole numbers of planes."""
        if part.dtypes and part.name in self._tensors:
            return self._tensors[part.name].entry.dtype
        return part.dtype

    def _decoded(self, part: Numbers, bits: NDArray[Any], dtype: str) -> NDArray[np.float32]:
        """The numbers that are stored as bits."""
        stored = numbers_of_bits(bits, dtype) if dtype else bits
        if part.meaning is Meaning.INDEX:
            table = self._table(part.table)
            if int(stored.max(initial=0)) >= table.size:
                raise RefusedError("table", f"'{part.table}' has {table.size} numbers")
            return table[stored]
        if part.meaning is Meaning.EXPONENT:
            return np.ldexp(np.float32(1), stored.astype(np.int32) + part.bias)
        numbers = stored.astype(np.float32)
        if part.bias:
            numbers += np.float32(part.bias)
        return -numbers if part.meaning is Meaning.NEGATIVE else numbers

    def _encoded(self, part: Numbers, numbers: NDArray[Any], dtype: str) -> NDArray[Any]:
        """The bits of what is nearest to some numbers."""
        size = DTYPES[dtype].itemsize if dtype else 1
        if part.meaning is Meaning.EXPONENT:
            numbers = np.frexp(numbers)[1] - 1.0
        elif dtype and dtype[0] not in "IU":
            format = FLOAT_FORMATS[DTYPES[dtype].type]
            if format.dtype is None:
                rounded = format.round(numbers.astype(np.float64))
                return format.encode(rounded).astype(f"u{size}")
            with np.errstate(over="ignore"):
                return numbers.astype(format.dtype).view(f"u{size}")
        top = (
            DTYPES[dtype].bits if dtype else max(plane.shift + plane.bits for plane in part.planes)
        )
        low = -(1 << (top - 1)) if dtype[:1] == "I" else 0
        stored = np.rint(numbers - part.bias).clip(low, low + (1 << top) - 1)
        return stored.astype(np.int16).astype(f"u{size}")

    def _levels(self, parts: Sequence[Numbers], rows: range) -> list[tuple[Numbers, NDArray[Any]]]:
        """Each part but the first, and its numbers: of rows, or of all."""
        return [(part, self._level(part, rows)) for part in parts[1:]]

    def _level(self, part: Numbers, rows: range) -> NDArray[np.float32]:
        if not self._layout.is_flat:
            return self._numbers(part, rows)
        try:
            if part.meaning is Meaning.SUMMAND:
                return np.array([[self._state[part.name].number()]], np.float32)
            size = self._state["nested_blocksize"].of(int)
        except (KeyError, JsonError):
            raise RefusedError("missing", f"there is no number of '{part.name}'") from None
        groups = self.shape[1] // self.block[1]
        blocks = np.arange(rows.start * groups, rows.stop * groups) // max(1, size)
        numbers = self._table(part.name)
        if blocks[-1] >= numbers.size:
            raise RefusedError("block", f"'{part.name}' has too few numbers: {numbers.size}")
        return numbers[blocks].reshape(len(rows), groups)

    def _product(self, parts: Sequence[Numbers], rows: range) -> NDArray[np.float32]:
        """The products of what is stored, one for each block."""
        total = self._numbers(parts[0], rows)
        for level in self._levels(parts, rows):
            total = multiplied(total, *level)
        groups = -(-self.shape[1] // self.block[1])
        if total.shape[1] < groups:
            raise RefusedError("block", f"{total.shape[1]} scales are too few for {groups} blocks")
        return np.broadcast_to(total, (-(-len(rows) // self.block[0]), total.shape[1]))[:, :groups]

    def _zeros(self, rows: range, shape: tuple[int, ...]) -> NDArray[np.int16]:
        """The zero points, of the shape of the scales."""
        zero, bits = self._layout.zero, self._layout.bits
        if not isinstance(zero, Numbers):
            return np.full(shape, zero or 0, np.int16)
        stored = self._numbers(zero, rows)[:, : shape[1]].astype(np.int16)
        if zero.dtypes:
            return np.broadcast_to(stored, shape)
        if (stored >> bits).any():
            reason = f"a stored {(1 << bits) - 1} is {1 << bits} to some readers, and 0 to others"
            raise RefusedError("zero", reason)
        if self.module.is_symmetric and (stored != 1 << (bits - 1)).any():
            ends = f"{stored.min()} to {stored.max()}: choose a layout with --layout"
            reason = f"the configuration says symmetric, but zero points are {ends}"
            raise RefusedError("ambiguous", reason)
        return stored


def multiplied(total: NDArray[Any], part: Numbers, array: NDArray[np.float32]) -> NDArray[Any]:
    """Numbers times those of another part, each of which is that of equally many."""
    array = array.repeat(-(-total.shape[1] // array.shape[1]), 1)[:, : total.shape[1]]
    if part.meaning is Meaning.DIVISOR:
        return total / array
    return total + array if part.meaning is Meaning.SUMMAND else total * array


class MatrixWriter(MatrixReader):
    """A matrix that is written in bands of rows, and read again."""

    def __init__(
        self,
        module: QuantizedModule,
        files: Descriptors,
        dtype: str,
        target: tuple[FileWriter, str] | None = None,
    ) -> None:
        """
        `dtype` is that of scales, and `module` has the tensors that are not new.

        `target` is a writer, and what the names of its tensors begin with; without one, only
        `fields_of` is called.
        """
        if target is not None:
            writer, key = target
            names = [plane.name for plane, _ in module.stored(dtype)]
            names = [""] if module.layout.record else names
            tensors = {**module.tensors, **{name: writer.tensor(key + name) for name in names}}
            module = replace(module, tensors=tensors)
        super().__init__(module, files, is_ordered=False)
        self._dtype, self._target = dtype, target
        self._fields: dict[str, tuple[NDArray[Any], int]] = {}

    def fields_of(self, matrix: Matrix, rows: range) -> tuple[Matrix, list[_Bits]]:
        """
        What is stored: codes if there are any, scales, offsets and zero points, and the matrix.

        That has scales of zero where an import has made them 1. Raises RefusedError.
        """
        layout, zero, codes = self._layout, self._layout.zero, matrix.codes
        if isinstance(layout.table, tuple) and codes.size:
            places = np.full(256, 255, np.uint8)
            numbers = np.array(layout.table, np.int8).view(np.uint8)
            places[numbers] = np.arange(numbers.size)
            if ((codes := places[codes]) == 255).any():
                raise RefusedError("table", "there are codes that are no numbers of the table")
        # In the order of the file, so that it is hashed as it is written.
        blocks: list[_Bits] = [(layout.codes, codes)] if codes.size else []
        scales, own = self._factors(layout.scale, matrix, matrix.scales, rows)
        blocks += own
        matrix = replace(matrix, scales=scales)
        if matrix.offsets is not None:
            blocks += self._factors(layout.offset, matrix, matrix.offsets, rows)[1]
        zeros, dtype, least = matrix.zeros, "", zero if isinstance(zero, int) else 0
        stored, most = np.full_like(zeros, least), least
        if isinstance(zero, Numbers):
            dtype = self._dtype_of(zero)
            least = -(1 << (layout.bits - 1)) if dtype[:1] == "I" else zero.bias
            most = least + (1 << layout.bits) - 1
            bits = self._encoded(zero, zeros, dtype)
            stored = self._decoded(zero, bits, dtype)
            blocks.append((zero.planes_of(dtype), whole(bits, self.module.padding)))
        if (stored != zeros).any():
            ends = str(least) if least == most else f"{least} to {most}"
            reason = f"zero points {zeros.min()} to {zeros.max()} are not {ends}"
            raise RefusedError("zero", reason)
        return matrix, blocks

    def _factors(
        self, parts: Sequence[Numbers], matrix: Matrix, product: NDArray[np.float32], rows: range
    ) -> tuple[NDArray[np.float32], list[_Bits]]:
        """The bits of what is multiplied. Raises RefusedError if it is not the product."""
        first, word = parts[0], "scale" if parts is self._layout.scale else "offset"
        is_new = first.name not in self._layout.outer
        dtype = self._dtype if self._dtype in first.dtypes else self._dtype_of(first)
        levels = self._levels(parts, rows)

        def bits_for(wanted: NDArray[np.float32]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
            """The bits of the first part, and where they are not as wanted."""
            total: NDArray[Any] = wanted
            for part, array in reversed(levels):
                is_factor = part.meaning is not Meaning.DIVISOR
                inverse = part._replace(meaning=Meaning.DIVISOR if is_factor else Meaning.FACTOR)
                total = np.nan_to_num(multiplied(total.astype(np.float64), inverse, array))
            bits = self._encoded(first, total, dtype) if is_new else self.bits(first, rows)
            again = self._decoded(first, bits, dtype)
            for level in levels:
                again = multiplied(again, *level)
            return bits, again != wanted

        with np.errstate(all="ignore"):
            bits, differ = bits_for(product)
            if differ.any() and levels and word == "scale":
                # A scale of zero is imported as 1, with codes of zero.
                product = np.where(differ & (product == 1) & matrix.are_zero, 0, product)
                bits, differ = bits_for(product)
        if differ.any():
            type = f" {DTYPES[dtype].type}" if dtype else " whole numbers"
            times = " and ".join(f"'{part.name}'" for part, _ in levels)
            reason = f"not all {word}s are{type}{' with ' * bool(times)}{times}"
            raise RefusedError(word, reason)
        new = [(first, dtype, whole(bits, self.module.padding))] if is_new else []
        if self._layout.record:
            new += [(part, part.dtypes[0], self.bits(part, rows)) for part, _ in levels]
        return product, [(part.planes_of(dtype), bits) for part, dtype, bits in new]

    def write(self, rows: range, matrix: Matrix, stream: NDArray[np.uint8] | None = None) -> None:
        """
        Write a band, with codes of a matrix, or with the bytes that `MatrixReader.stream` has.

        Raises RefusedError for what the layout does not hold, and OSError.
        """
        layout, high = self._layout, self.block[0]
        matrix, blocks = self.fields_of(matrix, rows)
        if stream is not None:
            (plane,) = layout.codes
            words = whole(stream, plane.word // 8).view(f"u{plane.word // 8}")
            self._put_words(plane, words, rows, 1)
        for planes, numbers in blocks:
            for plane in planes:
                self._put(plane, numbers, rows, 1 if planes is layout.codes else high)
        if layout.record:
            fields = [
                packed(*self._fields[name], 1).reshape(len(rows), -1, nbytes)
                for name, nbytes in layout.record
            ]
            self._fields.clear()
            records = np.concatenate(fields, axis=2).reshape(len(rows), -1)
            self._put_words(Plane("", 8), records, rows, 1)
        self._check(rows, matrix, stream)

    def _put(self, plane: Plane, numbers: NDArray[Any], rows: range, high: int) -> None:
        """Write the fields of whole numbers of a band, in blocks of `high` rows."""
        layout, order = self._layout, plane.order
        if layout.record:
            count = self.shape[1] // layout.elements
            width = dict(layout.record)[plane.name] * 8 // plane.bits * count
            new = np.zeros((len(rows), width), numbers.dtype), plane.bits
            stream, _ = self._fields.setdefault(plane.name, new)
            if plane.place is not None:
                mask, shift = (numbers.dtype.type(n) for n in ((1 << plane.bits) - 1, plane.shift))
                numbers = plane.place.view(numbers) >> shift & mask
            target = stream if order is None else order.view(stream)
            target[...] = numbers.reshape(target.shape)
            return
        size, fields = plane.word // 8, numbers
        if plane.is_along_rows:
            words = packed_down(numbers ^ np.uint8(plane.flip), plane.bits, size, order)
            self._put_words(plane, words, rows, high)
            return
        if plane.has_blocks:
            fields = whole(fields, self.block[1])
        if order is not None:
            padded = whole(fields, order.period // plane.fan)
            fields = np.zeros((len(padded) // plane.fan, padded.shape[1] * plane.fan), np.uint8)
            target = order.view(fields)
            split = padded.reshape(len(fields), plane.fan, target.shape[1], -1).swapaxes(1, 2)
            target[...] = split.reshape(target.shape)
        self._put_words(plane, packed(fields, plane.bits, size), rows, high)

    def _put_words(self, plane: Plane, words: NDArray[Any], rows: range, high: int) -> None:
        """Write words of a band to rows of a tensor, or to its columns."""
        assert self._target is not None
        writer, key = self._target
        first, count = rows.start // high, -(-self.shape[0] // high)
        if plane.is_along_rows:
            first, count = (-(-n * plane.bits // plane.word) for n in (first, count))
        words = in_rows(words.T if plane.is_turned else words)
        lines = [(first // plane.fan * words.shape[1], words)]
        if plane.is_turned and words.shape[1] < count:
            lines = [(number * count + first, line) for number, line in enumerate(words)]
        for place, line in lines:
            writer.write(key + plane.name, line.reshape(-1).view(np.uint8).data, place)

    def _check(self, rows: range, matrix: Matrix, stream: NDArray[np.uint8] | None) -> None:
        """Read a band again. Raises RefusedError for another one than was written."""
        again = self.read(rows, with_codes=stream is None)
        pairs: list[tuple[Any, Any]] = [
            (matrix.scales, again.scales),
            (matrix.zeros, again.zeros),
            (matrix.offsets, again.offsets),
            (matrix.codes, again.codes),
        ]
        if stream is not None:
            left, right = (whole(in_rows(data), 8) for data in (stream, self.stream(rows)))
            pairs.append((left.view(np.uint64), right.view(np.uint64)))
        if not all(np.array_equal(*pair) for pair in pairs):
            raise RefusedError("storage", f"rows {rows} are others when they are read again")
