"""
Reading and writing files of safetensors, without holding or mapping a whole tensor.

A file is the length of a header in 8 bytes, the header in JSON, and the elements of all tensors
without gaps: https://huggingface.co/docs/safetensors.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from uuid import uuid4

from qdialect.support.files import JsonError, JsonValue
from qdialect.support.float_format import FLOAT_FORMATS
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.weights.places import open_place

MAX_HEADER: Final = 100_000_000
"""The most bytes of a header, as in the library safetensors."""

ALIGNMENT: Final = 64
"""The alignment of the elements of a written file, with which IREE maps it."""

PACKED: Final = "U4"
"""The dtype of codes of 4 bits, of which a file has two in a byte of `U8`, the low one first."""


class Dtype(NamedTuple):
    """What the elements of a tensor are."""

    type: str
    """MLIR's type."""

    bits: int

    @property
    def itemsize(self) -> int:
        """The bytes of an element in memory, where one of 4 bits has a byte."""
        return max(1, self.bits // 8)

    def nbytes(self, shape: Sequence[int]) -> int:
        """The bytes of a tensor in a file."""
        return -(-math.prod(shape) * self.bits // 8)


DTYPES: Final[Mapping[str, Dtype]] = MappingProxyType(
    {
        "BOOL": Dtype("i1", 8),
        PACKED: Dtype("ui4", 4),
        "F4": Dtype("f4E2M1FN", 4),
        "U8": Dtype("ui8", 8),
        "I8": Dtype("i8", 8),
        "F8_E5M2": Dtype("f8E5M2", 8),
        "F8_E4M3": Dtype("f8E4M3FN", 8),
        "F8_E8M0": Dtype("f8E8M0FNU", 8),
        "U16": Dtype("ui16", 16),
        "I16": Dtype("i16", 16),
        "F16": Dtype("f16", 16),
        "BF16": Dtype("bf16", 16),
        "U32": Dtype("ui32", 32),
        "I32": Dtype("i32", 32),
        "F32": Dtype("f32", 32),
        "U64": Dtype("ui64", 64),
        "I64": Dtype("i64", 64),
        "F64": Dtype("f64", 64),
        "C64": Dtype("complex<f32>", 64),
    }
)
"""The dtypes of safetensors, and `PACKED`."""

DTYPE_OF_TYPE: Final[Mapping[str, str]] = MappingProxyType(
    {dtype.type: name for name, dtype in DTYPES.items()}
)

_PIECE: Final = 1 << 20
"""The elements of 4 bits that are packed at once; even."""


NATIVE_FLOATS: Final = ("F16", "F32", "F64")
"""The dtypes that numpy computes with."""


class WeightsError(ValueError):
    """A file of weights, a manifest or a plan cannot be used: the file, the tensor, the reason."""


class TensorEntry(NamedTuple):
    """A tensor of a file."""

    name: str
    dtype: str
    """A key of `DTYPES`."""

    shape: tuple[int, ...]
    start: int
    """The offset of the first byte in the file."""

    @property
    def itemsize(self) -> int:
        """The bytes of an element in memory."""
        return DTYPES[self.dtype].itemsize

    @property
    def nbytes(self) -> int:
        """The bytes of all elements in the file."""
        return DTYPES[self.dtype].nbytes(self.shape)

    @property
    def stored(self) -> TensorEntry:
        """The same as the header of a file has it, where two codes of 4 bits are a byte."""
        if self.dtype != PACKED:
            return self
        is_halved = self.shape and not self.shape[-1] % 2
        shape = (*self.shape[:-1], self.shape[-1] // 2) if is_halved else (self.nbytes,)
        return self._replace(dtype="U8", shape=shape)


class NewTensor(NamedTuple):
    """A tensor that is to be written."""

    name: str
    dtype: str
    """A key of `DTYPES`."""

    shape: tuple[int, ...]


def alignment(dtype: str, shape: Sequence[int]) -> int:
    """The largest power of two that divides the bytes of a tensor, at most `ALIGNMENT`."""
    nbytes = DTYPES[dtype].nbytes(shape)
    return nbytes & -nbytes if nbytes % ALIGNMENT else ALIGNMENT


def numbers_of_bits(bits: NDArray[Any], dtype: str) -> NDArray[Any]:
    """The numbers of elements: a view, or float32 for floats that numpy does not have."""
    if dtype[0] in "IU":
        return bits.view(f"{dtype[0].lower()}{bits.itemsize}")
    if dtype in NATIVE_FLOATS:
        return bits.view(f"f{bits.itemsize}")
    if dtype == "BF16":
        wide = bits.astype(np.uint32)
        wide <<= 16
        return wide.view(np.float32)
    format = FLOAT_FORMATS[DTYPES[dtype].type]
    return format.decode(np.arange(256, dtype=np.uint8)).astype(np.float32)[bits]


def read_header(path: str | os.PathLike[str]) -> dict[str, TensorEntry]:
    """
    The tensors of a file, in the order of their elements; only the header is read.

    Raises OSError, and WeightsError for a file that is not as the format says: its elements must
    fill the file without gaps, and no two tensors may share any.
    """
    with open_place(path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        first = file.read(8)
        if len(first) < 8:
            raise WeightsError(
                f"{path}: it has {len(first)} bytes, and its header's length takes 8"
            )
        length = int.from_bytes(first, "little")
        if length > min(MAX_HEADER, size - 8):
            raise WeightsError(
                f"{path}: its header would have {length} bytes, but {min(MAX_HEADER, size - 8)} "
                "are the most; is it a file of safetensors?"
            )
        header = file.read(length)
    try:
        members = JsonValue.parse(header.decode()).members()
        metadata = members.pop("__metadata__", None)
        for value in (metadata.members() if metadata is not None else {}).values():
            value.of(str)
        entries = [_entry(name, value, 8 + length) for name, value in members.items()]
    except UnicodeDecodeError as error:
        raise WeightsError(f"{path}: its header is not UTF-8 at byte {8 + error.start}") from None
    except JsonError as error:
        where = "".join(f"[{json.dumps(step)}]" for step in error.path)
        raise WeightsError(f"{path}: header{where}: {error}") from None
    entries.sort(key=lambda entry: (entry.start, entry.nbytes))
    end = 8 + length
    for entry in entries:
        if entry.start != end:
            kind = "overlaps the one before" if entry.start < end else "follows a hole"
            raise WeightsError(
                f"{path}: tensor '{entry.name}' {kind}: it starts at byte {entry.start}, not {end}"
            )
        end += entry.nbytes
    if end != size:
        what = "is cut off" if end > size else "has more bytes than tensors"
        raise WeightsError(f"{path}: it {what}: its tensors end at byte {end}, the file at {size}")
    return {entry.name: entry for entry in entries}


def _entry(name: str, value: JsonValue, origin: int) -> TensorEntry:
    """A tensor of a header. Raises JsonError."""
    fields = value.members(("dtype", "shape", "data_offsets"))
    dtype = fields["dtype"].of(str)
    if dtype not in DTYPES or dtype == PACKED:
        raise fields["dtype"].error(f"elements of '{dtype}' are not supported")
    shape = tuple([item.of(int) for item in fields["shape"].items()])
    offsets = [item.of(int) for item in fields["data_offsets"].items()]
    if any(length < 0 for length in shape) or len(offsets) != 2:
        raise value.error("a length is negative, or there are not two offsets")
    entry = TensorEntry(name, dtype, shape, origin + offsets[0])
    if offsets[0] < 0 or offsets[1] - offsets[0] != entry.nbytes:
        raise fields["data_offsets"].error(
            f"{offsets} hold {offsets[1] - offsets[0]} bytes, but {list(shape)} elements of "
            f"{dtype} take {entry.nbytes}"
        )
    return entry


@dataclass(frozen=True)
class TensorInFile:
    """A tensor, and the file that it is in."""

    path: str
    entry: TensorEntry

    def read(self, file: FileIO, first: int, view: memoryview) -> None:
        """
        Fill `view` with elements, from the one with number `first`.

        Raises OSError, and WeightsError where the file has become shorter.
        """
        size = self.entry.itemsize
        if DTYPES[self.entry.dtype].bits >= 8:
            self._fill(file, first * size, view)
            return
        for start in range(0, len(view), _PIECE):
            part = np.frombuffer(view[start : start + _PIECE], np.uint8)
            half, odd = divmod(first + start, 2)
            data = bytearray((odd + len(part) + 1) // 2)
            self._fill(file, half, memoryview(data))
            codes = np.frombuffer(data, np.uint8)
            low, high = part[odd::2], part[1 - odd :: 2]
            np.bitwise_and(codes[odd:][: len(low)], 15, out=low)
            np.right_shift(codes[: len(high)], 4, out=high)

    def check_end(self, size: int) -> None:
        """Raise WeightsError if elements are not in a file of `size` bytes."""
        entry, end = self.entry, self.entry.start + self.entry.nbytes
        if min(entry.start, *entry.shape, 0) < 0 or end > size:
            reason = f"tensor '{entry.name}' ends at byte {end}, the file at {size}"
            raise WeightsError(f"{self.path}: it is cut off: {reason}")

    def packed(self, shape: Sequence[int]) -> TensorInFile | None:
        """The bytes as a tensor of codes of 4 bits; None if it would have others."""
        entry = self.entry
        is_halved = len(entry.shape) == 1 or entry.shape[:-1] == tuple(shape)[:-1]
        if entry.itemsize != 1 or entry.nbytes != DTYPES[PACKED].nbytes(shape) or not is_halved:
            return None
        return TensorInFile(self.path, entry._replace(dtype=PACKED, shape=tuple(shape)))

    def _fill(self, file: FileIO, start: int, view: memoryview) -> None:
        file.seek(self.entry.start + start)
        while view:
            # A read is cut at some 2 GiB.
            if not (count := file.readinto(view)):
                raise WeightsError(
                    f"{self.path}: tensor '{self.entry.name}': there are no bytes at {file.tell()}"
                )
            view = view[count:]


def part_of(path: Path) -> Path:
    """
    A new name for what is not whole yet, beside a file.

    A task may run twice at once, where its first worker is lost.
    """
    return path.with_name(f"{path.name}.{uuid4().hex}.part")


class FileFormat:
    """What a file begins with, and where its tensors are: that of safetensors."""

    suffix: str = ".safetensors"
    alignment: int = 1
    """The bytes of which the start of each tensor is a multiple, after the header."""

    def __repr__(self) -> str:
        return self.suffix

    def header(self, entries: Sequence[TensorEntry]) -> bytes:
        """The bytes before the first tensor. The starts of entries are behind these bytes."""
        members: dict[str, object] = {}
        for entry in entries:
            ends = [entry.start, entry.start + entry.nbytes]
            members[entry.name] = {
                "dtype": entry.dtype,
                "shape": list(entry.shape),
                "data_offsets": ends,
            }
        text = json.dumps(members, ensure_ascii=False, separators=(",", ":")).encode()
        text += b" " * (-(8 + len(text)) % ALIGNMENT)
        return len(text).to_bytes(8, "little") + text


SAFETENSORS: Final = FileFormat()


class FileWriter:
    """
    Writes one file of tensors in any order, under a name that ends in `.part`.

    `finish` makes it durable, and gives it its name: until then, there is no file of that name,
    or the one from before.
    """

    def __init__(
        self,
        path: Path,
        tensors: Sequence[tuple[str, str, tuple[int, ...]]],
        format: FileFormat = SAFETENSORS,
    ) -> None:
        """`tensors` are as `NewTensor`, in the order of their elements."""
        self.path = path
        self._part = part_of(path)
        entries, end = list[TensorEntry](), 0
        for name, dtype, shape in tensors:
            start = -(-end // format.alignment) * format.alignment
            entries.append(TensorEntry(name, dtype, shape, start))
            end = start + entries[-1].nbytes
        header = format.header([entry.stored for entry in entries])
        origin, self.size = len(header), len(header) + end
        self._entries = {
            entry.name: entry._replace(start=origin + entry.start) for entry in entries
        }
        self._file = os.open(self._part, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
        self._hash, self._hashed = hashlib.sha256(), 0
        self._write_at(header, 0)

    def write(self, name: str, data: memoryview, first: int) -> None:
        """Write elements of a tensor, from the one with number `first`. Raises OSError."""
        _, dtype, _, start = self._entries[name]
        if DTYPES[dtype].bits >= 8:
            self._write_at(data, start + first * DTYPES[dtype].itemsize)
            return
        for number in range(0, len(data), _PIECE):
            part = np.frombuffer(data[number : number + _PIECE], np.uint8)
            half, odd = divmod(first + number, 2)
            codes = np.zeros((odd + len(part) + 1) // 2, np.uint8)
            low, high = part[odd::2], part[1 - odd :: 2]
            codes[odd:][: len(low)] = low & 15
            codes[: len(high)] |= high << 4
            # The other code of a byte may have been written.
            if odd:
                codes[0] |= self._byte_at(start + half) & 15
            if (odd + len(part)) % 2:
                codes[-1] |= self._byte_at(start + half + len(codes) - 1) & 240
            self._write_at(codes.data, start + half)

    def write_bytes(self, name: str, data: memoryview, first: int) -> None:
        """Write bytes of a tensor as they are in the file, from the one with number `first`."""
        self._write_at(data, self._entries[name].start + first)

    def tensor(self, name: str) -> TensorInFile:
        """A tensor of the unfinished file, which may be read where it is written."""
        return TensorInFile(str(self._part), self._entries[name])

    def _byte_at(self, offset: int) -> int:
        return (os.pread(self._file, 1, offset) or b"\0")[0]

    def _write_at(self, data: bytes | memoryview, offset: int) -> None:
        view = memoryview(data)
        if offset < self._hashed:
            self._hash, self._hashed = hashlib.sha256(), 0
        if offset == self._hashed:
            self._hash.update(view)
            self._hashed += len(view)
        while view:
            written = os.pwrite(self._file, view, offset)
            view, offset = view[written:], offset + written

    def finish(self) -> str:
        """Make the file durable under its name; returns its SHA-256. Raises OSError."""
        if self._hashed < self.size:
            with open(self._file, "rb", buffering=0, closefd=False) as file:
                file.seek(self._hashed)
                hashlib.file_digest(file, lambda: self._hash)
        os.fsync(self._file)
        self.close()
        os.replace(self._part, self.path)
        sync_folder(self.path.parent)
        return self._hash.hexdigest()

    def close(self) -> None:
        """Close the file, which stays unfinished unless `finish` was called before."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def discard(self) -> None:
        """Close and remove an unfinished file."""
        if self._file >= 0:
            self.close()
            self._part.unlink(missing_ok=True)


@contextmanager
def writing(
    path: Path,
    tensors: Sequence[tuple[str, str, tuple[int, ...]]],
    format: FileFormat = SAFETENSORS,
) -> Generator[FileWriter]:
    """A writer; its unfinished file is removed after an error."""
    writer = FileWriter(path, tensors, format)
    try:
        yield writer
    finally:
        writer.discard()


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256_of(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file. Raises OSError."""
    with open_place(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
