"""
Matrices of checkpoints written in another layout: no code and no scale is computed anew.

What a layout cannot hold is refused before anything is written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from qdialect.checkpoints.bit_fields import in_rows, packed, whole
from qdialect.checkpoints.detection import CONFIG, QuantizedModule
from qdialect.checkpoints.importing import OFFSET_REASON, reader_of
from qdialect.checkpoints.layouts import (
    EXPONENT_BIAS,
    PLAIN,
    Layout,
    Meaning,
    Numbers,
    Plane,
    Planes,
    Turn,
)
from qdialect.checkpoints.matrices import Matrix, RefusedError
from qdialect.support.float_format import FLOAT_FORMATS
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.weights.copying import Descriptors
from qdialect.weights.tensor_files import (
    DTYPES,
    FileWriter,
    NewTensor,
    TensorInFile,
    WeightsError,
)

INDEX: Final = "model.safetensors.index.json"

_FAMILIES: Final[Mapping[str, Mapping[str, object]]] = {
    "gptq": {"quant_method": "gptq", "checkpoint_format": "gptq", "desc_act": False},
    "gptq_v2": {"quant_method": "gptq", "checkpoint_format": "gptq_v2", "desc_act": False},
    "awq": {"quant_method": "awq", "version": "gemm", "zero_point": True},
    "awq_gemv": {"quant_method": "awq", "version": "gemv", "zero_point": True},
    "pack-quantized": {"quant_method": "compressed-tensors", "format": "pack-quantized"},
    "pack-quantized-symmetric": {"quant_method": "compressed-tensors", "format": "pack-quantized"},
}
"""By the name of a layout: what its configuration says beside bits and the columns of a block."""


@dataclass(frozen=True)
class Converted:
    """The content of new tensors: a matrix in another layout."""

    module: QuantizedModule
    target: Layout
    dtype: str = ""
    """That of scales."""

    @property
    def columns(self) -> int:
        """The columns of a block."""
        return self.target.block[1] or self.module.block[1]

    def sources(self) -> Iterator[TensorInFile]:
        """The tensors of the matrix."""
        yield from self.module.tensors.values()

    def tensors(self, key: str) -> Sequence[NewTensor]:
        """The tensors of the layout."""
        rows, columns = self.module.matrix
        groups = -(-columns // self.columns)
        (plane,), (scale,) = self.target.codes, self.target.scale
        assert isinstance(scale, Numbers)
        groups = -(-groups // self._padding) * self._padding
        turned = (groups, rows) if scale.is_turned else (rows, groups)
        new = [
            NewTensor(key + plane.name, plane.dtype, plane.stored(rows, columns)),
            NewTensor(key + scale.name, self.dtype, turned),
        ]
        if isinstance(self.target.zero, Planes):
            (zero,) = self.target.zero.planes
            new.append(NewTensor(key + zero.name, zero.dtype, zero.stored(rows, groups)))
        if self._has_groups:
            new.append(NewTensor(key + self.target.groups, "I32", (columns,)))
        if self.target.shape:
            new.append(NewTensor(key + self.target.shape, "I64", (2,)))
        return new

    @property
    def _padding(self) -> int:
        """The number of blocks in a multiple of which a row ends."""
        scale = self.target.scale[0]
        assert isinstance(scale, Numbers)
        return scale.padding * (max(1, 128 // self.columns) if scale.padding > 1 else 1)

    @property
    def _has_groups(self) -> bool:
        return self.target.always_has_groups or self.module.order is not None

    @property
    def _dtypes(self) -> Sequence[str]:
        """Those that scales may have: that of the source, if the layout may have it, or any."""
        layout, (scale,) = self.module.layout, self.target.scale
        assert isinstance(scale, Numbers)
        own, *others = layout.scale
        if isinstance(own, Numbers) and not others and not layout.record and layout.name != PLAIN:
            stored = self.module.tensors[own.name].entry.dtype
            return (stored,) if stored in scale.dtypes else scale.dtypes[-1:]
        return scale.dtypes

    def checked(self, files: Descriptors, max_memory: int) -> Converted:
        """
        The same with the first dtype that holds all scales.

        Reads the matrix, and raises RefusedError if the layout cannot hold it.
        """
        target, (rows, _) = self.target, self.module.matrix
        plane, scale = target.codes[0], target.scale[0]
        assert isinstance(scale, Numbers)
        if target.offset or target.record or target.is_flat or len(target.scale) > 1:
            raise RefusedError("unknown-layout", f"'{target.name}' is not written")
        if self.module.order is not None and not target.groups:
            raise RefusedError("act-order", f"'{target.name}' has the columns in order")
        if plane.turn is Turn.AFTER and rows * plane.bits % DTYPES[plane.dtype].bits:
            raise RefusedError("tail", f"{rows} rows are no whole words")
        reader = reader_of(self.module, files, is_ordered=False)
        dtypes = self._dtypes
        for band in reader.bands(max_memory):
            scales = self._encoded(reader.read(band, with_codes=False)).scales
            dtypes = [dtype for dtype in dtypes if _bits_of(scales, dtype, scale) is not None]
        if not dtypes:
            names = " or ".join(DTYPES[dtype].type for dtype in self._dtypes)
            raise RefusedError("scale", f"not all scales are {names}")
        return replace(self, dtype=dtypes[0])

    def write(self, key: str, writer: FileWriter, files: Descriptors, max_memory: int) -> None:
        """Write the tensors. Raises OSError, and WeightsError for a matrix that is refused."""
        reader, target = reader_of(self.module, files, is_ordered=False), self.target
        (rows, columns), (plane,) = self.module.matrix, target.codes
        (scale,) = target.scale
        assert isinstance(scale, Numbers)
        try:
            is_stream = plane.is_stream and reader.is_stream
            is_stream &= self.module.layout.is_signed == target.is_signed
            # Codes are not unpacked then.
            for band in reader.bands(max_memory, taken=2 if is_stream else 8):
                matrix = self._encoded(reader.read(band, with_codes=not is_stream))
                if not is_stream:
                    _put(writer, key, plane, matrix.codes, band.start, rows)
                else:
                    words = whole(reader.stream(band), DTYPES[plane.dtype].itemsize)
                    words = words.view(f"u{DTYPES[plane.dtype].itemsize}")
                    _put_words(writer, key + plane.name, words, plane.turn, band.start, rows)
                bits = _bits_of(matrix.scales, self.dtype, scale)
                if bits is None:
                    raise RefusedError("scale", "they have changed while they were read")
                bits = whole(bits, self._padding)
                turn = Turn.BEFORE if scale.is_turned else Turn.NONE
                _put_words(writer, key + scale.name, bits, turn, band.start, rows)
                if isinstance(target.zero, Planes):
                    zeros = (matrix.zeros - np.int16(target.zero.bias)).astype(np.uint8)
                    zeros = whole(zeros, self._padding)
                    _put(writer, key, target.zero.planes[0], zeros, band.start, rows)
        except RefusedError as error:
            raise WeightsError(f"{self.module.name}: {target.name}: {error}") from None
        for new in self.tensors(key):
            numbers: NDArray[Any] | None = None
            if new.name == key + target.groups:
                places = np.arange(columns) if self.module.order is None else self.module.order
                numbers = np.empty(columns, np.int32)
                numbers[places] = np.arange(columns) // self.columns
            elif new.name == key + target.shape:
                numbers = np.array([rows, columns], np.int64)
            if numbers is not None:
                writer.write(new.name, numbers.view(np.uint8).data, 0)

    def _encoded(self, matrix: Matrix) -> Matrix:
        """The same with the blocks of the layout. Raises RefusedError."""
        target, storage = self.target, matrix.storage
        if matrix.offsets is not None:
            raise RefusedError("offset", OFFSET_REASON)
        if storage.width != target.bits:
            raise RefusedError("storage", f"codes are {storage.name}, of {storage.width} bits")
        if (storage.codebook is None) != (not target.storage) or (
            target.storage and storage.name != target.storage
        ):
            raise RefusedError("table", f"codes are numbers of {storage.name}")
        high, wide = matrix.block
        if target.block[0] != 1 or wide % self.columns:
            raise RefusedError("block", f"blocks of {wide} columns are not cut into {self.columns}")
        matrix.check_finite()
        matrix = matrix.with_sign(is_signed=target.is_signed)
        count = -(-self.module.shape[-1] // self.columns)

        def cut(array: NDArray[Any]) -> NDArray[Any]:
            for axis, times in enumerate((high, wide // self.columns)):
                array = array.repeat(times, axis) if times > 1 else array
            return array[: len(matrix.codes), :count]

        scales, zeros = cut(matrix.scales), cut(matrix.zeros)
        least, most = (int(end) for end in (zeros.min(initial=0), zeros.max(initial=0)))
        if isinstance(target.zero, Planes):
            low = target.zero.bias
            if int(zeros.min()) < low or most - low >= 1 << target.bits:
                raise RefusedError("zero", f"zero points {least} to {most} are not {low} or more")
        elif not isinstance(target.zero, Numbers) and (zeros != (target.zero or 0)).any():
            raise RefusedError("zero", f"zero points are not {target.zero or 0}")
        elif isinstance(target.zero, Numbers) and zeros.any():
            raise RefusedError("zero", "zero points are not written")
        return replace(matrix, scales=scales, zeros=zeros, block=(1, self.columns))


def _put(
    writer: FileWriter, key: str, plane: Plane, elements: NDArray[Any], first: int, rows: int
) -> None:
    """Write the fields of a band of rows, of which `first` is the number of the first one."""
    fields = elements.T if plane.turn in (Turn.AFTER, Turn.BOTH) else elements
    size = DTYPES[plane.dtype].itemsize
    if plane.order is not None:
        stream = whole(np.zeros_like(fields), plane.order.period)
        view = plane.order.view(stream)
        view[...] = whole(fields, plane.order.period).reshape(view.shape)
        fields = stream
    words = packed(in_rows(fields), plane.bits, size).view(f"u{size}")
    per = DTYPES[plane.dtype].bits
    if plane.turn in (Turn.AFTER, Turn.BOTH):
        first, rows = first * plane.bits // per, -(-rows * plane.bits // per)
        words = words.T
    turn = Turn.BEFORE if plane.turn in (Turn.BEFORE, Turn.AFTER) else Turn.NONE
    _put_words(writer, key + plane.name, words, turn, first, rows)


def _put_words(
    writer: FileWriter, name: str, words: NDArray[Any], turn: Turn, first: int, rows: int
) -> None:
    """Write rows of words to a tensor, or if they are turned, to its columns."""
    if turn is Turn.NONE:
        data = in_rows(words).reshape(-1).view(np.uint8).data
        writer.write(name, data, first * words.shape[1])
        return
    columns = in_rows(words.T)
    if columns.shape[1] == rows:
        writer.write(name, columns.reshape(-1).view(np.uint8).data, 0)
        return
    for number, column in enumerate(columns):
        writer.write(name, column.view(np.uint8).data, number * rows + first)


def _bits_of(scales: NDArray[np.float32], dtype: str, part: Numbers) -> NDArray[Any] | None:
    """Scales as they are stored; None if the dtype does not hold them."""
    if part.meaning is Meaning.EXPONENT:
        fractions, exponents = np.frexp(scales)
        stored = exponents - 1 + EXPONENT_BIAS
        if (fractions != 0.5).any() or ((stored < 0) | (stored > 254)).any():
            return None
        return stored.astype(np.uint8)
    format = FLOAT_FORMATS[DTYPES[dtype].type]
    if format.dtype is not None:
        with np.errstate(over="ignore"):
            stored = scales.astype(format.dtype)
        return stored.view(f"u{stored.itemsize}") if np.array_equal(stored, scales) else None
    numbers = scales.astype(np.float64)
    if not np.array_equal(format.round(numbers), numbers):
        return None
    return format.encode(numbers).astype(f"u{DTYPES[dtype].itemsize}")


def write_configuration(
    folder: Path, source: Path, target: Layout | None, columns: int, names: Mapping[str, str]
) -> None:
    """
    Write the index of a folder, for each tensor its file, and the configuration of a model.

    `source` is the configuration from before, which there may not be. It stays as it is without a
    `target`.

    A layout that no library has a word for has no section there. Raises OSError.
    """
    index = {"metadata": {}, "weight_map": dict(sorted(names.items()))}
    (folder / INDEX).write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
    if not source.exists():
        return
    config: dict[str, Any] = json.loads(source.read_text(encoding="utf-8"))
    if target is not None:
        config.pop("quantization_config", None)
        if section := _section(target, columns):
            config["quantization_config"] = section
    (folder / CONFIG).write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")


def _section(target: Layout, columns: int) -> Mapping[str, object]:
    """What a configuration says of a layout; nothing if no library has a word for it."""
    section: dict[str, object] = {**_FAMILIES.get(target.name, {})}
    symmetric = not isinstance(target.zero, Planes)
    if "format" in section:
        own = {"num_bits": target.bits, "type": "int", "symmetric": symmetric}
        own |= {"strategy": "group", "group_size": columns}
        section["config_groups"] = {"group_0": {"targets": ["Linear"], "weights": own}}
    elif section:
        section |= {"bits": target.bits, "group_size": columns, "sym": symmetric}
    return section
