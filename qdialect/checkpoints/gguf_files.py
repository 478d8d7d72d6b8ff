"""
Files of GGUF, whose quantized tensors are rows of bytes.

https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import FileIO
from typing import Final, NamedTuple

from typing_extensions import override

from qdialect.checkpoints.layouts import layouts
from qdialect.weights.places import open_place
from qdialect.weights.tensor_files import (
    FileFormat,
    TensorEntry,
    TensorInFile,
    WeightsError,
)

_MOST: Final = 1 << 20
"""The most tensors or values of a file, and bytes of a name."""

_SIZES: Final = (1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8)
"""The bytes of a value of each type, but for texts (8) and arrays (9)."""
_TEXT, _ARRAY = 8, 9

_DTYPES: Final[Mapping[int, str]] = {0: "F32", 1: "F16", 28: "F64", 30: "BF16"} | {
    24 + power: f"I{8 << power}" for power in range(4)
}
_LAYOUTS: Final[Mapping[int, str]] = {2: "q4_0", 3: "q4_1", 6: "q5_0", 7: "q5_1", 8: "q8_0"} | {
    **{8 + bits: f"q{bits}_k" for bits in range(2, 7)},
    **{20: "iq4_nl", 23: "iq4_xs", 39: "mxfp4"},
}
"""By the numbers of `ggml_type`."""
_KINDS: Final = {name: kind for kind, name in (_DTYPES | _LAYOUTS).items()}

_ALIGNMENT: Final = "general.alignment"
_AXES: Final = 4
"""The most axes of a tensor of ggml."""


class GgufTensor(NamedTuple):
    """A tensor of a file: of numbers, or of rows of records."""

    tensor: TensorInFile
    shape: tuple[int, ...]
    layout: str | None
    """The layout of records; None for numbers."""


class GgufFile(NamedTuple):
    """What a file has."""

    values: Mapping[str, bytes]
    """The metadata: the type and the value by the key."""
    alignment: int
    tensors: Mapping[str, GgufTensor]
    refused: Mapping[str, str]
    """For a tensor that is not supported: the reason."""


@dataclass(frozen=True)
class GgufFormat(FileFormat):
    """The header of a new file."""

    values: Mapping[str, bytes]
    tensors: Mapping[str, tuple[str, tuple[int, ...]]]
    """The layout or the dtype, and the shape, by name."""
    alignment: int = 32
    suffix: str = ".gguf"

    @override
    def header(self, entries: Sequence[TensorEntry]) -> bytes:
        parts = [b"GGUF", struct.pack("<IQQ", 3, len(entries), len(self.values))]
        parts += [_text(key) + value for key, value in self.values.items()]
        for entry in entries:
            kind, shape = self.tensors[entry.name]
            parts += [_text(entry.name), struct.pack("<I", len(shape))]
            parts += [struct.pack("<Q", length) for length in reversed(shape)]
            parts.append(struct.pack("<IQ", _KINDS[kind], entry.start))
        header = b"".join(parts)
        return header + bytes(-len(header) % self.alignment)

    @staticmethod
    def reason_against(kind: str, shape: tuple[int, ...]) -> str | None:
        """Why a tensor of a layout or dtype has no place in a file; None if it has."""
        if kind in _KINDS and len(shape) <= _AXES:
            return None
        return f"storage: GGUF has no tensor of {kind} with {len(shape)} axes"


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


class _Reader:
    """Reads values, and raises WeightsError where the file ends."""

    def __init__(self, path: str, file: FileIO) -> None:
        self.path, self.file = path, file
        self.size = file.seek(0, os.SEEK_END)
        file.seek(0)

    def take(self, size: int) -> bytes:
        place = self.file.tell()
        self.advance(size)
        self.file.seek(place)
        return self.file.read(size) or b""

    def advance(self, size: int) -> None:
        """Skip bytes."""
        place = self.file.tell()
        if size > self.size - place:
            raise WeightsError(f"{self.path}: it is cut off: {size} bytes are missing at {place}")
        self.file.seek(size, os.SEEK_CUR)

    def number(self, form: str) -> int:
        return struct.unpack(f"<{form}", self.take(struct.calcsize(f"<{form}")))[0]

    def count(self, what: str) -> int:
        place, number = self.file.tell(), self.number("Q")
        if number > _MOST:
            raise WeightsError(f"{self.path}: {number} {what} at byte {place} are too many")
        return number

    def text(self) -> str:
        return self.take(self.count("bytes of a text")).decode(errors="replace")

    def skip(self, kind: int, depth: int = 0) -> None:
        """Skip a value of metadata."""
        if kind == _TEXT:
            # Texts of chat templates are long.
            self.advance(self.number("Q"))
        elif kind == _ARRAY and not depth:
            inner, count = self.number("I"), self.number("Q")
            if inner < len(_SIZES) and _SIZES[inner]:
                self.advance(_SIZES[inner] * count)
                return
            # Each takes some bytes, so that the file ends them.
            for _ in range(count):
                self.skip(inner, 1)
        elif kind < len(_SIZES) and _SIZES[kind]:
            self.advance(_SIZES[kind])
        else:
            raise WeightsError(f"{self.path}: there is no type {kind} of values")


def read_gguf(path: str) -> GgufFile:
    """
    The metadata and the tensors of a file.

    Raises OSError, and WeightsError for a file that is not as the format says.
    """
    with open_place(path) as file:
        reader = _Reader(path, file)
        if reader.take(4) != b"GGUF" or reader.number("I") not in (2, 3):
            raise WeightsError(f"{path}: it is no file of GGUF, version 2 or 3")
        tensors, count = reader.count("tensors"), reader.count("values")
        values = dict[str, bytes]()
        for _ in range(count):
            key, place = reader.text(), file.tell()
            reader.skip(reader.number("I"))
            end = file.tell()
            file.seek(place)
            values[key] = reader.take(end - place)
        alignment = 32
        if values.get(_ALIGNMENT, b"")[:4] == struct.pack("<I", 4):
            alignment = max(1, int.from_bytes(values[_ALIGNMENT][4:], "little"))
        rows = list[tuple[str, tuple[int, ...], int, int]]()
        for _ in range(tensors):
            name, rank = reader.text(), reader.number("I")
            if rank > 8:
                raise WeightsError(f"{path}: tensor '{name}' has {rank} axes")
            shape = tuple([reader.number("Q") for _ in range(rank)][::-1])
            rows.append((name, shape, reader.number("I"), reader.number("Q")))
        start = -(-file.tell() // alignment) * alignment
    read, others = dict[str, GgufTensor](), dict[str, str]()
    for name, shape, kind, offset in rows:
        if name in read or name in others:
            raise WeightsError(f"{path}: it has two tensors '{name}'")
        layout = _LAYOUTS.get(kind)
        if layout is None and kind not in _DTYPES:
            others[name] = f"unknown-layout: there is no type {kind} of ggml here"
            continue
        entry = TensorEntry(name, _DTYPES.get(kind, "U8"), shape, start + offset)
        if layout is not None:
            entry = entry._replace(shape=_bytes_of(path, name, shape, layout))
        read[name] = GgufTensor(TensorInFile(path, entry), shape, layout)
        read[name].tensor.check_end(reader.size)
    return GgufFile(values, alignment, read, others)


def _bytes_of(path: str, name: str, shape: tuple[int, ...], layout: str) -> tuple[int, int]:
    """The rows of records, and their bytes."""
    row = layouts()[layout]
    record, elements = sum(nbytes for _, nbytes in row.record), row.elements
    if not shape or shape[-1] % elements:
        raise WeightsError(f"{path}: tensor '{name}' of {list(shape)} has no whole {layout} blocks")
    return math.prod(shape[:-1]), shape[-1] // elements * record
