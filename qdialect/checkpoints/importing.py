"""Matrices of checkpoints as codes, scales and zero points, which a manifest has types for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import f32

from qdialect.algebra.parameters import StorageFormat
from qdialect.checkpoints.detection import QuantizedModule
from qdialect.checkpoints.layouts import Numbers
from qdialect.checkpoints.matrices import Matrix, MatrixReader, RefusedError, whole_blocks
from qdialect.dialects.quant import Storage, UniformQuantizedType
from qdialect.support.lazy_numpy import np
from qdialect.weights.copying import Descriptors
from qdialect.weights.manifest import CODES, SCALE, ZERO_POINT
from qdialect.weights.quantizing import dtype_of_codes, whole_bytes
from qdialect.weights.tensor_files import FileWriter, NewTensor, TensorInFile, WeightsError


def reader_of(module: QuantizedModule, files: Descriptors) -> MatrixReader:
    """What reads a matrix."""
    own = module.matrix, module.block, module.state
    return MatrixReader(module.layout, module.tensors, files, *own)


def like_of(storage: StorageFormat) -> str:
    """The quantized type of a storage, with one scale of 1."""
    return str(UniformQuantizedType.per_tensor(Storage.of_format(storage), f32, 1.0))


@dataclass(frozen=True)
class Imported:
    """The content of new tensors: codes in plain rows, scales and zero points."""

    modules: tuple[QuantizedModule, ...]
    """Matrices whose rows follow each other, mostly one."""
    storage: StorageFormat

    @property
    def block(self) -> tuple[int, int]:
        """The rows and columns of a block, which divide those of each matrix."""
        (block, *others) = {whole_blocks(own.block, own.matrix) for own in self.modules}
        if others:
            raise RefusedError("block", "they have blocks of different sizes")
        return block

    @property
    def has_zero_points(self) -> bool:
        """Whether zero points are written: those of tables are 0, and those of others may be."""
        module, *_ = self.modules
        zero = module.layout.zero
        if isinstance(zero, Numbers):
            return zero.name in module.tensors
        return self.storage.codebook is None and (zero is not None or bool(module.layout.record))

    def sources(self) -> Iterator[TensorInFile]:
        """All tensors of the matrices."""
        for module in self.modules:
            yield from module.tensors.values()

    def tensors(self, key: str) -> Sequence[NewTensor]:
        """Codes, scales, and zero points, if they may differ from 0."""
        first, (high, wide) = self.modules[0], self.block
        rows = sum(module.matrix[0] for module in self.modules)
        columns = first.shape[-1]
        leading = first.shape[:-1] if len(self.modules) == 1 else (rows,)
        blocks = leading if high == 1 else (rows // high,)
        slots = (*blocks, columns // wide)
        codes = NewTensor(f"{key}.{CODES}", dtype_of_codes(self.storage), (*leading, columns))
        scales = NewTensor(f"{key}.{SCALE}", "F32", slots)
        if not self.has_zero_points:
            return codes, scales
        return codes, scales, NewTensor(f"{key}.{ZERO_POINT}", whole_bytes(self.storage), slots)

    def member(self, key: str) -> Mapping[str, str]:
        """What a manifest says of the weight."""
        names = (CODES, SCALE, *((ZERO_POINT,) if self.has_zero_points else ()))
        return {"type": like_of(self.storage), **{name: f"{key}.{name}" for name in names}}

    def write(self, key: str, writer: FileWriter, files: Descriptors, max_memory: int) -> None:
        """Write the tensors. Raises OSError, and WeightsError for a matrix that is refused."""
        start = 0
        for module in self.modules:
            reader = reader_of(module, files)
            try:
                for rows in reader.bands(max_memory):
                    matrix = reader.read(rows).positive().divided(module.matrix)
                    self._write(key, writer, matrix, start + rows.start)
            except RefusedError as error:
                raise WeightsError(f"{module.name}: {module.layout.name}: {error}") from None
            start += module.matrix[0]

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


def imported(modules: Sequence[QuantizedModule]) -> Imported:
    """The content for matrices whose rows follow each other. Raises RefusedError and OSError."""
    files, storages = Descriptors(), list[StorageFormat]()
    try:
        for module in modules:
            if module.layout.offset:
                raise RefusedError("offset", "values have an offset, which is no zero point")
            storages.append(reader_of(module, files).storage)
    finally:
        files.close()
    if len(set(storages)) > 1:
        raise RefusedError("storage", "they have codes of different storages")
    if len({module.shape[-1] for module in modules}) > 1:
        raise RefusedError("block", "they have rows of different lengths")
    content = Imported(tuple(modules), storages[0])
    if content.block[0] > 1 and any(len(module.shape) > 2 for module in modules):
        raise RefusedError("block", "blocks have several rows, of more than two axes")
    return content
