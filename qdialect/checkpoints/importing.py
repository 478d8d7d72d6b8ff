"""Matrices of checkpoints as codes, scales and zero points, which a manifest has types for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from qdialect.algebra.parameters import StorageFormat
from qdialect.checkpoints.detection import QuantizedModule
from qdialect.checkpoints.layouts import Numbers
from qdialect.checkpoints.matrices import Matrix, MatrixReader, RefusedError, whole_blocks
from qdialect.dialects.quant import Storage
from qdialect.support.lazy_numpy import np
from qdialect.weights.copying import Descriptors
from qdialect.weights.manifest import CODES, SCALE, ZERO_POINT
from qdialect.weights.quantizing import member_of, new_tensors
from qdialect.weights.tensor_files import FileWriter, NewTensor, TensorInFile, WeightsError


def reader_of(module: QuantizedModule, files: Descriptors) -> MatrixReader:
    """What reads a matrix."""
    own = module.matrix, module.block, module.state
    return MatrixReader(module.layout, module.tensors, files, *own)


class Part(NamedTuple):
    """Some rows and columns of a matrix."""

    module: QuantizedModule
    rows: range
    columns: range

    @classmethod
    def of(cls, module: QuantizedModule) -> Part:
        """All of them."""
        rows, columns = module.matrix
        return cls(module, range(rows), range(columns))

    @property
    def block(self) -> tuple[int, int]:
        """The rows and columns of a block. Raises RefusedError if one is cut."""
        high, wide = whole_blocks(self.module.block, self.module.matrix)
        edges = self.rows.start, self.rows.stop, self.columns.start, self.columns.stop
        if any(edge % high for edge in edges[:2]) or any(edge % wide for edge in edges[2:]):
            raise RefusedError("block", f"rows {self.rows} or columns {self.columns} cut a block")
        return high, wide


@dataclass(frozen=True)
class Imported:
    """The content of new tensors: codes in plain rows, scales and zero points."""

    parts: tuple[Part, ...]
    """Parts whose rows follow each other, mostly one that is whole."""
    storage: StorageFormat

    @property
    def block(self) -> tuple[int, int]:
        """The rows and columns of a block, which divide those of each matrix."""
        (block, *others) = {part.block for part in self.parts}
        if others:
            raise RefusedError("block", "they have blocks of different sizes")
        return block

    @property
    def has_zero_points(self) -> bool:
        """Whether zero points are written: those of tables are 0, and those of others may be."""
        module = self.parts[0].module
        zero = module.layout.zero
        if isinstance(zero, Numbers):
            return zero.name in module.tensors
        return self.storage.codebook is None and (zero is not None or bool(module.layout.record))

    def sources(self) -> Iterator[TensorInFile]:
        """All tensors of the matrices."""
        for part in self.parts:
            yield from part.module.tensors.values()

    def tensors(self, key: str) -> Sequence[NewTensor]:
        """Codes, scales, and zero points, if they may differ from 0."""
        first, (high, wide) = self.parts[0], self.block
        rows, columns = sum(len(part.rows) for part in self.parts), len(first.columns)
        is_whole = self.parts == (Part.of(first.module),)
        leading = first.module.shape[:-1] if is_whole else (rows,)
        blocks = leading if high == 1 else (rows // high,)
        slots = (*blocks, columns // wide)
        shape = (*leading, columns)
        return new_tensors(key, self.storage, shape, slots, has_zero_points=self.has_zero_points)

    def member(self, key: str) -> Mapping[str, str]:
        """What a manifest says of the weight."""
        storage = Storage.of_format(self.storage)
        return member_of(key, storage, has_zero_points=self.has_zero_points)

    def write(self, key: str, writer: FileWriter, files: Descriptors, max_memory: int) -> None:
        """Write the tensors. Raises OSError, and WeightsError for a matrix that is refused."""
        first = 0
        for part in self.parts:
            module, reader = part.module, reader_of(part.module, files)
            try:
                for band in reader.bands(max_memory):
                    start, stop = max(band.start, part.rows.start), min(band.stop, part.rows.stop)
                    if start >= stop:
                        continue
                    matrix = reader.read(band).positive().divided(module.matrix)
                    rows = range(start - band.start, stop - band.start)
                    matrix = matrix.part(rows, part.columns)
                    self._write(key, writer, matrix, first + start - part.rows.start)
            except RefusedError as error:
                raise WeightsError(f"{module.name}: {module.layout.name}: {error}") from None
            first += len(part.rows)

    def _write(self, key: str, writer: FileWriter, matrix: Matrix, row: int) -> None:
        columns, slots = matrix.codes.shape[1], matrix.scales.shape[1]
        first = row // matrix.block[0] * slots
        codes = np.ascontiguousarray(matrix.codes).reshape(-1)
        writer.write(f"{key}.{CODES}", codes.data, row * columns)
        scales = np.ascontiguousarray(matrix.scales, np.float32).reshape(-1)
        writer.write(f"{key}.{SCALE}", scales.view(np.uint8).data, first)
        if self.has_zero_points:
            zeros = matrix.zeros.astype(np.uint8).reshape(-1)
            writer.write(f"{key}.{ZERO_POINT}", zeros.data, first)


def imported(parts: Sequence[Part]) -> Imported:
    """The content for parts whose rows follow each other. Raises RefusedError and OSError."""
    files, storages = Descriptors(), list[StorageFormat]()
    try:
        for part in parts:
            if part.module.layout.offset:
                raise RefusedError("offset", "values have an offset, which is no zero point")
            storages.append(reader_of(part.module, files).storage)
    finally:
        files.close()
    if len(set(storages)) > 1:
        raise RefusedError("storage", "they have codes of different storages")
    if len({len(part.columns) for part in parts}) > 1:
        raise RefusedError("block", "they have rows of different lengths")
    content = Imported(tuple(parts), storages[0])
    if content.block[0] > 1 and any(len(part.module.shape) > 2 for part in parts):
        raise RefusedError("block", "blocks have several rows, of more than two axes")
    return content
