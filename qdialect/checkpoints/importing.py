"""Matrices of checkpoints as codes, scales and zero points, which a manifest has types for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from xdsl.dialects.builtin import AnyFloat, bf16, f16, f32

from qdialect.algebra.parameters import StorageFormat
from qdialect.checkpoints.layouts import STATE
from qdialect.checkpoints.matrices import RefusedError, whole_blocks
from qdialect.checkpoints.stored import MatrixReader, QuantizedModule
from qdialect.dialects.quant import Storage
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.weights.copying import Descriptors, bits_of
from qdialect.weights.manifest import CODES, GATHER, OFFSET, OUTER, SCALE, ZERO_POINT
from qdialect.weights.quantizing import dtype_of_codes, member_of, new_tensors
from qdialect.weights.tensor_files import (
    DTYPES,
    FileWriter,
    NewTensor,
    TensorInFile,
    WeightsError,
)

OFFSET_REASON: Final = "values have an offset, which is no zero point"


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
        """Whether zero points are written: of integers, also where a complement has made them."""
        return self.storage.codebook is None

    @property
    def carried(self) -> Mapping[str, str]:
        """
        By the names of tensors and fields of the layout: the ends of keys that have them.

        They are what scales do not say, so that the same layout is written from them again. Parts
        of matrices have none.
        """
        module = self.parts[0].module
        if self.parts != (Part.of(module),):
            return {}
        states = [name for name in module.tensors if name.startswith(STATE)]
        return {
            name: name.removeprefix(".weight").lstrip("._").removesuffix("_scale")
            for name in (*module.layout.outer, *states)
        }

    @property
    def gather(self) -> NDArray[np.int32] | None:
        """For each column its place among those that are written; None if they are in order."""
        order = self.parts[0].module.order
        return None if order is None else np.argsort(order).astype(np.int32)

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
        for name, end in self.carried.items():
            if name in first.module.tensors:
                _, dtype, own, _ = first.module.tensors[name].entry
            else:
                dtype, own = "F16", (rows, columns // first.module.layout.elements)
            tensors.append(NewTensor(f"{key}.{end}", dtype, own))
        return tensors

    def member(self, key: str) -> Mapping[str, object]:
        """What a manifest says of the weight."""
        outer = {name: f"{key}.{end}" for name, end in self.carried.items()}
        tensors = [new for new in self.tensors(key) if new.name not in outer.values()]
        floats = _FLOATS[self.parts[0].module.floats]
        own = member_of(key, Storage.of_format(self.storage), tensors, floats)
        return {**own, OUTER: outer} if outer else own

    def write(self, key: str, writer: FileWriter, files: Descriptors, max_memory: int) -> None:
        """Write the tensors. Raises OSError, and WeightsError for a matrix that is refused."""
        first = 0
        for part in self.parts:
            module, reader = part.module, MatrixReader(part.module, files)
            try:
                for band in reader.bands(max_memory, math.prod(part.head)):
                    if max(band.start, part.rows.start) < min(band.stop, part.rows.stop):
                        row = first + max(0, band.start - part.rows.start)
                        self._write(key, writer, reader, part, band, row)
            except RefusedError as error:
                raise WeightsError(f"{module.name}: {module.layout.name}: {error}") from None
            first += len(part.rows)
        if self.gather is not None:
            writer.write(f"{key}.{GATHER}", self.gather.view(np.uint8).data, 0)
        for name, end in self.carried.items():
            if (tensor := self.parts[0].module.tensors.get(name)) is not None:
                bits = bits_of(tensor, files)
                writer.write(f"{key}.{end}", bits.reshape(-1).view(np.uint8).data, 0)

    def _write(
        self, key: str, writer: FileWriter, reader: MatrixReader, part: Part, band: range, row: int
    ) -> None:
        """Write the rows of a band that a part has, from the new row `row` on."""
        module, whole, rows = part.module, part.module.matrix, range(len(band))
        inside = rows[max(0, part.rows.start - band.start) : part.rows.stop - band.start]
        is_whole = part.head == (1, 1) and len(part.columns) == whole[1]
        bits = DTYPES[dtype_of_codes(self.storage)].bits
        is_stream = reader.is_stream and is_whole and bits == module.layout.bits
        matrix = reader.read(band, with_codes=not is_stream)
        if is_stream and (matrix.scales <= 0).any():
            matrix, is_stream = reader.read(band), False
        matrix = matrix.positive().reblocked(whole_blocks(module.block, whole), whole)
        matrix = matrix.part(inside, part.columns).turned(part.head)
        taken = slice(inside.start, inside.stop)
        arrays: list[tuple[str, NDArray[Any], int]] = []
        if is_stream:
            data = reader.stream(band)[taken]
            writer.write_bytes(f"{key}.{CODES}", data.reshape(-1).data, row * data.shape[1])
        else:
            arrays.append((CODES, matrix.codes, row))
        blocks: dict[str, NDArray[Any] | None] = {SCALE: matrix.scales, OFFSET: matrix.offsets}
        if self.has_zero_points:
            blocks[ZERO_POINT] = matrix.zeros.astype(np.uint8)
        first = row // matrix.block[0]
        arrays += [(name, own, first) for name, own in blocks.items() if own is not None]
        for outer in (*module.layout.scale[1:], *module.layout.offset[1:]):
            if outer.name in self.carried and outer.name not in module.tensors:
                arrays.append((self.carried[outer.name], reader.bits(outer, band)[taken], row))
        for name, array, line in arrays:
            data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
            writer.write(f"{key}.{name}", data, line * array.shape[1])


def _order_of(part: Part) -> bytes | None:
    return None if part.module.order is None else part.module.order.tobytes()


_FLOATS: Final[Mapping[str, AnyFloat]] = {"F16": f16, "BF16": bf16, "F32": f32}


def imported(parts: Sequence[Part], *, with_offsets: bool = False) -> Imported:
    """
    The content for parts whose rows follow each other. Raises RefusedError and OSError.

    `with_offsets` allows offsets, which become constants of their own.
    """
    storages = list[StorageFormat]()
    with closing(Descriptors()) as files:
        for part in parts:
            if part.module.layout.offset and not with_offsets:
                raise RefusedError("offset", f"{OFFSET_REASON}: see --offsets=constants")
            storages.append(MatrixReader(part.module, files).storage)
    if len(set(storages)) > 1:
        raise RefusedError("storage", "they have codes of different storages")
    if len({len(part.columns) for part in parts}) > 1:
        raise RefusedError("block", "they have rows of different lengths")
    content = Imported(tuple(parts), storages[0])
    if len({(bool(part.module.layout.offset), part.module.floats) for part in parts}) > 1:
        raise RefusedError("offset", "they do not have offsets of the same kind")
    if len({_order_of(part) for part in parts}) > 1:
        raise RefusedError("act-order", "they have columns in different orders")
    if content.block[0] > 1 and any(len(part.module.shape) > 2 for part in parts):
        raise RefusedError("block", "blocks have several rows, of more than two axes")
    return content
