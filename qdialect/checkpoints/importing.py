"""Matrices of checkpoints as codes, scales and zero points, which a manifest has types for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from xdsl.dialects.builtin import AnyFloat, bf16, f16, f32

from qdialect.algebra.parameters import StorageFormat
from qdialect.checkpoints.detection import QuantizedModule
from qdialect.checkpoints.layouts import Numbers
from qdialect.checkpoints.matrices import Matrix, MatrixReader, RefusedError, whole_blocks
from qdialect.dialects.quant import Storage
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.weights.copying import Descriptors
from qdialect.weights.manifest import CODES, GATHER, OFFSET, SCALE, ZERO_POINT
from qdialect.weights.quantizing import member_of, new_tensors
from qdialect.weights.tensor_files import FileWriter, NewTensor, TensorInFile, WeightsError

OFFSET_REASON: Final = "values have an offset, which is no zero point"


def reader_of(
    module: QuantizedModule, files: Descriptors, *, is_ordered: bool = True
) -> MatrixReader:
    """What reads a matrix: its columns in the order of blocks, or else as they are stored."""
    own = module.matrix, module.block, module.state, module.order if is_ordered else None
    return MatrixReader(
        module.layout, module.tensors, files, *own, is_symmetric=module.is_symmetric
    )


class Part(NamedTuple):
    """Some rows and columns of a matrix."""

    module: QuantizedModule
    rows: range
    columns: range
    head: tuple[int, int] = (1, 1)
    """The rows of a head as an array that is transposed: see `Matrix.turned`."""

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
        if any(edge % math.prod(self.head) for edge in edges[:2]):
            raise RefusedError("block", f"rows {self.rows} cut heads of {math.prod(self.head)}")
        if self.module.order is not None and len(self.columns) < self.module.matrix[1]:
            raise RefusedError("act-order", "columns are cut that are in another order")
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

    @property
    def gather(self) -> NDArray[np.int32] | None:
        """For each column its place among those that are written; None if they are in order."""
        order = self.parts[0].module.order
        return None if order is None else np.argsort(order).astype(np.int32)

    @property
    def floats(self) -> AnyFloat:
        """The type that values with an offset are computed in."""
        return _floats_of(self.parts[0].module) or f32

    def sources(self) -> Iterator[TensorInFile]:
        """All tensors of the matrices."""
        for part in self.parts:
            yield from part.module.tensors.values()

    def tensors(self, key: str) -> Sequence[NewTensor]:
        """Codes, scales, and what else there is: zero points, offsets, the order of columns."""
        first, (high, wide) = self.parts[0], self.block
        rows, columns = sum(len(part.rows) for part in self.parts), len(first.columns)
        is_whole = self.parts == (Part.of(first.module),)
        leading = first.module.shape[:-1] if is_whole else (rows,)
        blocks = leading if high == 1 else (rows // high,)
        slots = (*blocks, columns // wide)
        shape = (*leading, columns)
        zeros = self.has_zero_points
        tensors = [*new_tensors(key, self.storage, shape, slots, has_zero_points=zeros)]
        if first.module.layout.offset:
            tensors.append(NewTensor(f"{key}.{OFFSET}", "F32", slots))
        if first.module.order is not None:
            tensors.append(NewTensor(f"{key}.{GATHER}", "I32", (columns,)))
        return tensors

    def member(self, key: str) -> Mapping[str, str]:
        """What a manifest says of the weight."""
        names = [new.name.removeprefix(f"{key}.") for new in self.tensors(key)]
        return member_of(key, Storage.of_format(self.storage), names, self.floats)

    def write(self, key: str, writer: FileWriter, files: Descriptors, max_memory: int) -> None:
        """Write the tensors. Raises OSError, and WeightsError for a matrix that is refused."""
        first = 0
        for part in self.parts:
            module, reader = part.module, reader_of(part.module, files)
            try:
                for band in reader.bands(max_memory, math.prod(part.head)):
                    start, stop = max(band.start, part.rows.start), min(band.stop, part.rows.stop)
                    if start >= stop:
                        continue
                    matrix = reader.read(band).positive().divided(module.matrix)
                    rows = range(start - band.start, stop - band.start)
                    matrix = matrix.part(rows, part.columns).turned(part.head)
                    self._write(key, writer, matrix, first + start - part.rows.start)
            except RefusedError as error:
                raise WeightsError(f"{module.name}: {module.layout.name}: {error}") from None
            first += len(part.rows)
        if self.gather is not None:
            writer.write(f"{key}.{GATHER}", self.gather.view(np.uint8).data, 0)

    def _write(self, key: str, writer: FileWriter, matrix: Matrix, row: int) -> None:
        columns, slots = matrix.codes.shape[1], matrix.scales.shape[1]
        first = row // matrix.block[0] * slots
        codes = np.ascontiguousarray(matrix.codes).reshape(-1)
        writer.write(f"{key}.{CODES}", codes.data, row * columns)
        for name, numbers in ((SCALE, matrix.scales), (OFFSET, matrix.offsets)):
            if numbers is not None:
                data = np.ascontiguousarray(numbers, np.float32).reshape(-1)
                writer.write(f"{key}.{name}", data.view(np.uint8).data, first)
        if self.has_zero_points:
            zeros = matrix.zeros.astype(np.uint8).reshape(-1)
            writer.write(f"{key}.{ZERO_POINT}", zeros.data, first)


def _floats_of(module: QuantizedModule) -> AnyFloat | None:
    """The type that values with an offset are computed in; None for those without one."""
    layout = module.layout
    if not layout.offset:
        return None
    scale = layout.scale[0]
    assert isinstance(scale, Numbers)
    return f32 if layout.record else _FLOATS[module.tensors[scale.name].entry.dtype]


def _order_of(part: Part) -> bytes | None:
    return None if part.module.order is None else part.module.order.tobytes()


_FLOATS: Final[Mapping[str, AnyFloat]] = {"F16": f16, "BF16": bf16, "F32": f32}


def imported(parts: Sequence[Part], *, with_offsets: bool = False) -> Imported:
    """
    The content for parts whose rows follow each other. Raises RefusedError and OSError.

    `with_offsets` allows offsets, which become constants of their own.
    """
    files, storages = Descriptors(), list[StorageFormat]()
    try:
        for part in parts:
            if part.module.layout.offset and not with_offsets:
                raise RefusedError("offset", f"{OFFSET_REASON}: see --offsets=constants")
            storages.append(reader_of(part.module, files).storage)
    finally:
        files.close()
    if len(set(storages)) > 1:
        raise RefusedError("storage", "they have codes of different storages")
    if len({len(part.columns) for part in parts}) > 1:
        raise RefusedError("block", "they have rows of different lengths")
    content = Imported(tuple(parts), storages[0])
    if len({_floats_of(part.module) for part in parts}) > 1:
        raise RefusedError("offset", "they do not have offsets of the same kind")
    if len({_order_of(part) for part in parts}) > 1:
        raise RefusedError("act-order", "they have columns in different orders")
    if content.block[0] > 1 and any(len(part.module.shape) > 2 for part in parts):
        raise RefusedError("block", "blocks have several rows, of more than two axes")
    return content
