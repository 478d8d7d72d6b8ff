"""
Records (sets of arguments of a function) in numpy files.

A `.npz` file has an array for each argument: under `arg0`, `arg1` and so on, or under the key of
the argument. If the argument has the shape S, an array of shape S is one record, and one of shape
(n, *S) holds n records. All arrays of a file hold the same number of records. A `.npy` file has the
array of the only argument. The files of a folder are read in the order of their names, as one
sequence. Elements have the dtype of the argument; nothing is converted. A file may also hold
labels, which are not arguments.

Files are read piece by piece: of arrays that hold several records, only the current record is in
memory, unless their order is Fortran's. What is in memory counts in the budget.
"""

from __future__ import annotations

import io
import math
import re
import stat
import tokenize
import zipfile
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override
from xdsl.dialects.builtin import (
    AnyFloat,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    Signedness,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import InterpretationError, VerifyException

from qdialect.algebra.movement import DYNAMIC
from qdialect.check.interpreters import TypedArray
from qdialect.dialects.arrays.values import dtype_of, held_type
from qdialect.dialects.quant.constants import verify_in_range
from qdialect.dialects.quant.storage import StoredType
from qdialect.ir.elements import has_signedness
from qdialect.ir.names import identifier_of
from qdialect.ir.value_types import element_type_or_self, shape_of
from qdialect.support.memory import MemoryBudget, current_budget

_UNREADABLE = (
    OSError,
    ValueError,
    EOFError,
    RecursionError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
    # Of encrypted files, and of compression that Python lacks.
    RuntimeError,
)
"""The exceptions that numpy and Python's `zipfile` raise for an unreadable file."""

_PIECE: Final = 1 << 20
"""The number of bytes that are read at once."""

_MOST_AT_ONCE: Final = 1 << 24
"""A larger directory of an archive is refused: its files have some 50 to 100 bytes each."""

_MOST_OF_HEADER: Final = 1 << 16
"""numpy refuses headers of more than 10,000 characters."""


class RecordError(ValueError):
    """Data that cannot be read, or does not match the function."""


class Argument(NamedTuple):
    """An argument, for which records have an array."""

    names: tuple[str, ...]
    """
    The names that its array may have, or whose identifiers they are; messages use the first one.
    """
    type: Attribute


@dataclass(frozen=True)
class _Part:
    """A file of records."""

    path: Path
    first: int
    """The index of its first record."""
    count: int
    names: tuple[str, ...]
    """The name of the array of each argument."""
    headers: tuple[_Header, ...]
    """The header of each array, and then that of the labels."""
    is_batch: bool


class RecordFiles:
    """The records in a file, or in the files of a folder."""

    def __init__(
        self, path: str | Path, arguments: Sequence[Argument], labels: str | None = None
    ) -> None:
        """
        Read the headers of the files.

        `labels` is the name of an array of integers: one label for each answer of a record. Raises
        RecordError for an array that does not match.
        """
        self._arguments = tuple(arguments)
        self._labels = labels
        self._parts = list[_Part]()
        self._open: tuple[_Part, list[_StoredArray]] | None = None
        """The last file that was read, and its arrays."""
        self._budget: tuple[MemoryBudget, int] | None = None
        """The budget that counts the bytes in memory, and their number."""
        count = 0
        for file in _files_of(Path(path)):
            part = self._part(file, count)
            self._parts.append(part)
            count += part.count
        self._count = count
        if not count:
            raise RecordError(f"'{path}' has no records")

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> tuple[TypedArray, ...]:
        """
        The arguments of one record. Raises RecordError, IndexError, and MemoryLimitError.

        Records are read fastest in the order of their indices.
        """
        part = self._part_with(index)
        values = list[TypedArray]()
        arrays = self._arrays(part, index)
        for name, array, argument in zip(part.names, arrays, self._arguments, strict=False):
            try:
                values.append(_value_of(array, argument.type))
            except (InterpretationError, VerifyException) as error:
                raise RecordError(f"'{part.path}': '{name}' in record {index}: {error}") from None
        return tuple(values)

    def labels(self, index: int) -> NDArray[np.int64]:
        """The labels of one record. Raises as `records[index]`."""
        return np.asarray(self._arrays(self._part_with(index), index)[-1], np.int64)

    def _part_with(self, index: int) -> _Part:
        if not 0 <= index < self._count:
            raise IndexError(f"there are {self._count} records, and none has index {index}")
        return self._parts[bisect_right(self._parts, index, key=lambda part: part.first) - 1]

    def _arrays(self, part: _Part, index: int) -> list[NDArray[Any]]:
        """The arrays and the labels of a record."""
        self._count_bytes(part)
        try:
            if self._open is None or self._open[0] is not part:
                # The arrays of the last file are freed before others are read.
                self._open = None
                self._open = part, _arrays_of(part)
            return [array.record(index - part.first) for array in self._open[1]]
        except _UNREADABLE as error:
            raise RecordError(f"cannot read '{part.path}': {error}") from None

    def _count_bytes(self, part: _Part) -> None:
        """Count the bytes of a file that are in memory, in place of those of another one."""
        if self._budget is not None:
            budget, nbytes = self._budget
            budget.release(nbytes)
            self._budget = None
        if (budget := current_budget()) is not None:
            nbytes = sum(header.nbytes_at_once(part.is_batch) for header in part.headers)
            budget.reserve(nbytes)
            self._budget = budget, nbytes

    def _part(self, path: Path, first: int) -> _Part:
        headers = _headers(path)
        names = _arrays_for(path, headers, (argument.names for argument in self._arguments))
        unknown = {*headers} - {*names}
        if self._labels is not None:
            if self._labels not in unknown:
                there = ", ".join(f"'{name}'" for name in headers) or "none"
                raise RecordError(
                    f"'{path}': there is no array '{self._labels}' of labels; there are {there}"
                )
            unknown.remove(self._labels)
            if headers[self._labels].dtype.kind not in "iu":
                raise RecordError(
                    f"'{path}': '{self._labels}' has elements of dtype "
                    f"{headers[self._labels].dtype}, and labels are integers"
                )
        if unknown:
            extra = ", ".join(f"'{name}'" for name in sorted(unknown))
            wanted = ", ".join(f"'{argument.names[0]}'" for argument in self._arguments) or "none"
            raise RecordError(
                f"'{path}': {extra} is not an argument of the function: the arguments are {wanted}"
            )
        counts = dict[str, int | None]()
        for name, argument in zip(names, self._arguments, strict=True):
            headers[name] = _records_apart(headers[name], argument.type)
            counts[name] = _count_of(path, name, headers[name], argument.type)
        if len({*counts.values()}) > 1:
            told = ", ".join(
                f"'{name}' has {'one, unbatched' if count is None else count}"
                for name, count in counts.items()
            )
            raise RecordError(f"'{path}': arrays differ in their number of records: {told}")
        count = next(iter(counts.values()), None)
        # All labels of a file with a single record belong to that record.
        shape = () if self._labels is None else headers[self._labels].shape
        if count is not None and self._labels is not None and shape[:1] != (count,):
            raise RecordError(
                f"'{path}': '{self._labels}' has shape {[*shape]}, and there are {count} records"
            )
        is_batch = count is not None
        read = tuple(headers[name] for name in [*names, *filter(None, [self._labels])])
        if count and not any(header.nbytes for header in read):
            raise RecordError(f"'{path}': its {count} records have no elements")
        return _Part(path, first, 1 if count is None else count, tuple(names), read, is_batch)


def shapes_of_records(
    path: str | Path, inputs: Mapping[str, Sequence[int]]
) -> dict[str, tuple[int, ...]]:
    """
    The shapes of the inputs of a model, with the lengths of records where it leaves them open.

    `inputs` has a shape for each name, with DYNAMIC for open lengths; they stay open where records
    differ. If a model leaves the first lengths open or has 1 there, and all arrays have as many
    axes, their first one is for records, and the length is 1. Raises RecordError for files that
    cannot be read, or lack an input.
    """
    lengths = {name: [set[int]() for _ in shape] for name, shape in inputs.items()}
    names = [
        tuple(dict.fromkeys((f"arg{index}", name, identifier_of(name))))
        for index, name in enumerate(inputs)
    ]
    for file in _files_of(Path(path)):
        headers = _headers(file)
        arrays = [headers[name].shape for name in _arrays_for(file, headers, names)]
        is_dataset = len({shape[:1] for shape in arrays}) == 1 and all(
            len(shape) == len(own) and own[:1] in ((1,), (DYNAMIC,))
            for shape, own in zip(arrays, map(tuple, inputs.values()), strict=True)
        )
        for shape, axes in zip(arrays, lengths.values(), strict=True):
            record = (1, *shape[1:]) if is_dataset else shape[len(shape) > len(axes) :]
            for axis, length in zip(axes, record, strict=False):
                axis.add(length)
    return {
        name: tuple(
            next(iter(known)) if length == DYNAMIC and len(known) == 1 else length
            for length, known in zip(shape, lengths[name], strict=True)
        )
        for name, shape in inputs.items()
    }


def _arrays_for(
    path: Path, headers: Mapping[str, _Header], arguments: Iterable[tuple[str, ...]]
) -> list[str]:
    """The array for each argument, by its names. Raises RecordError."""
    names, unknown = list[str](), {*headers}
    for argument in arguments:
        # A model's own names may be no identifiers, such as `input:0`.
        given = sorted(name for name in unknown if {name, identifier_of(name)} & {*argument})
        if len(given) > 1:
            both = " and ".join(f"'{name}'" for name in given)
            raise RecordError(f"'{path}': give only one of the arrays {both}")
        if not given:
            wanted = " or ".join(f"'{name}'" for name in argument)
            there = ", ".join(f"'{name}'" for name in headers) or "none"
            raise RecordError(f"'{path}': there is no array {wanted}; there are {there}")
        unknown.remove(given[0])
        names += given
    return names


class _Header(NamedTuple):
    """An array in a file."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_fortran: bool
    """Whether the first axis varies fastest."""
    member: str
    """The name of the file in the archive."""
    start: int
    """The position of the elements in that file."""

    @property
    def nbytes(self) -> int:
        """The number of bytes of all elements."""
        return math.prod(self.shape) * self.dtype.itemsize

    def is_whole(self, is_batch: bool) -> bool:
        """Whether the array can only be read as a whole: the records of a batch are apart."""
        return not is_batch or (self.is_fortran and len(self.shape) > 1)

    def nbytes_at_once(self, is_batch: bool) -> int:
        """The number of bytes that are read for a record."""
        return self.nbytes if self.is_whole(is_batch) else self.nbytes // (self.shape[0] or 1)


def _arrays_of(part: _Part) -> list[_StoredArray]:
    """The arrays of a file, whose records are read one by one. Both raise as `_UNREADABLE`."""
    archive = _open_archive(part.path)
    for header in part.headers:
        with archive.open(header.member) as stream:
            # The checksum is compared at the end.
            while stream.read(_PIECE):
                pass
    return [
        _StoredArray(archive.open(header.member), header, part.is_batch) for header in part.headers
    ]


class _StoredArray:
    """An array in an archive, in memory as a whole or record by record."""

    def __init__(self, stream: IO[bytes], header: _Header, is_batch: bool) -> None:
        self._stream = stream
        self._header = header
        self._is_batch = is_batch
        self._index: int | None = None
        self._last = np.zeros(0)
        """The last record that was read, and its index; or the array as a whole."""
        if header.is_whole(is_batch):
            order = "F" if header.is_fortran else "C"
            self._last = self._read(0, header.nbytes).reshape(header.shape, order=order)

    def record(self, index: int) -> NDArray[Any]:
        """The elements of a record."""
        header = self._header
        if header.is_whole(self._is_batch):
            return self._last[index] if self._is_batch else self._last
        if index != self._index:
            size = header.nbytes_at_once(self._is_batch)
            self._last = self._read(index * size, size).reshape(header.shape[1:])
            self._index = index
        return self._last

    def _read(self, start: int, nbytes: int) -> NDArray[Any]:
        place, at = self._header.start + start, self._stream.tell()
        # A seek in an archive reads what is left out, as a whole.
        for step in (*range(0 if place < at else at, place, _PIECE), place):
            self._stream.seek(step)
        elements, done = bytearray(nbytes), 0
        while done < nbytes:
            if not (piece := self._stream.read(min(nbytes - done, _PIECE))):
                raise EOFError("an array is shorter than its shape")
            elements[done : done + len(piece)] = piece
            done += len(piece)
        return np.frombuffer(elements, self._header.dtype)


class _BoundedFile(io.FileIO):
    """A file that is never read as a whole, whatever the directory of an archive says."""

    @override
    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or size < 0:
            # The end of an archive is read so: some 64 KiB.
            size = _PIECE
        if size > _MOST_AT_ONCE:
            raise ValueError("the directory of the archive is too large")
        return super().read(size)


class _LoneArray:
    """A `.npy` file, as an archive with the array of the first argument."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def infolist(self) -> list[zipfile.ZipInfo]:
        member = zipfile.ZipInfo("arg0.npy")
        member.file_size = self._path.stat().st_size
        return [member]

    def open(self, _: object) -> IO[bytes]:
        return self._path.open("rb")


def _open_archive(path: Path) -> zipfile.ZipFile | _LoneArray:
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError("it is not a regular file")
    return _LoneArray(path) if path.suffix == ".npy" else zipfile.ZipFile(_BoundedFile(path))


def _files_of(path: Path) -> list[Path]:
    try:
        if not path.is_dir():
            return [path]
        return sorted(file for file in path.iterdir() if file.suffix in (".npz", ".npy"))
    except OSError as error:
        raise RecordError(f"cannot read '{path}': {error.strerror}") from None


def _headers(path: Path) -> dict[str, _Header]:
    """The arrays of a file, by name."""
    headers = dict[str, _Header]()
    try:
        with _open_archive(path) as archive:
            for member in archive.infolist():
                name = re.sub(r"\.npy\Z", "", member.filename)
                if name in headers:
                    raise ValueError(f"'{name}' is there several times")
                with archive.open(member) as stream:
                    headers[name] = _header(name, member, stream)
    except _UNREADABLE as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise RecordError(f"cannot read '{path}': {reason or error}") from None
    return headers


def _header(name: str, member: zipfile.ZipInfo, stream: IO[bytes]) -> _Header:
    """The header of an array; its elements are not read. Raises as `_UNREADABLE`."""
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        # Others are decompressed in pieces of any size.
        raise ValueError(f"'{name}' is compressed in a way that numpy does not write")
    beginning = io.BytesIO(stream.read(_MOST_OF_HEADER))
    version = np.lib.format.read_magic(beginning)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if read is None:
        raise ValueError(f"'{member.filename}' has the unsupported format version {version}")
    shape, is_fortran, dtype = read(beginning)
    header = _Header(shape, dtype, is_fortran, member.filename, beginning.tell())
    if min(shape, default=0) < 0:
        raise ValueError(f"'{name}' has shape {[*shape]}")
    nbytes = member.file_size - header.start
    # numpy would allocate the size in the header, even for a short file.
    if nbytes != header.nbytes and not dtype.hasobject:
        raise ValueError(f"'{name}' has {nbytes} bytes, but its shape needs {header.nbytes}")
    return header


def _records_apart(header: _Header, type: Attribute) -> _Header:
    """
    The array with an axis for records, if its first axis has several times the batch of one.

    This is how datasets are stored, and a model often has a batch of 1.
    """
    shape = shape_of(type) or ()
    if (
        header.is_fortran
        or len(header.shape) != len(shape)
        or not _fits(header.shape[1:], shape[1:])
    ):
        return header
    if not shape or shape[0] < 1 or header.shape[0] <= shape[0] or header.shape[0] % shape[0]:
        return header
    return header._replace(shape=(header.shape[0] // shape[0], shape[0], *header.shape[1:]))


def _count_of(path: Path, name: str, header: _Header, type: Attribute) -> int | None:
    """The number of records in an array; None if the array is one record."""
    place = f"'{path}': '{name}'"
    try:
        wanted = _dtype_name(type)
        is_alike = _is_dtype(header.dtype, type)
    except InterpretationError as error:
        raise RecordError(f"{place}: the argument is of type '{type}': {error}") from None
    if not is_alike:
        raise RecordError(
            f"{place} has elements of dtype {header.dtype}, but the argument of type '{type}' "
            f"needs {wanted}"
        )
    is_scalar = element_type_or_self(type) is type
    shape = () if is_scalar else shape_of(type)
    if shape is None:
        raise RecordError(f"{place}: the argument is of type '{type}', which has no rank")
    if _fits(header.shape, shape):
        return None
    if header.shape and _fits(header.shape[1:], shape):
        return header.shape[0]
    record = ", ".join("?" if length == DYNAMIC else str(length) for length in shape)
    raise RecordError(
        f"{place} has shape {[*header.shape]}, but the argument of type '{type}' needs "
        f"[{record}] for one record, or [n{', ' if record else ''}{record}] for n"
    )


def _fits(shape: Sequence[int], declared: Sequence[int]) -> bool:
    return len(shape) == len(declared) and all(
        wanted in (DYNAMIC, length) for length, wanted in zip(shape, declared, strict=True)
    )


def _dtype_name(type: Attribute) -> str:
    """The dtype that elements of a type must have, in words. Raises InterpretationError."""
    element = held_type(element_type_or_self(type))
    if isinstance(element, Float16Type | Float32Type | Float64Type):
        return f"float{element.bitwidth}"
    if isinstance(element, IntegerType | IndexType):
        is_bit = isinstance(element, IntegerType) and element.bitwidth == 1
        return "bool" if is_bit else dtype_of(element).name
    if isinstance(element, AnyFloat):
        return f"its bits, as uint{8 * dtype_of(element).itemsize}"
    raise InterpretationError(f"elements of type '{element}' are not supported in records")


def _is_dtype(dtype: np.dtype[Any], type: Attribute) -> bool:
    """Whether elements may have a dtype. Raises InterpretationError."""
    name, element = _dtype_name(type), held_type(element_type_or_self(type))
    if name.startswith("its bits"):
        # A file stores the dtypes of `ml_dtypes` as void.
        return dtype.kind in "uV" and dtype.itemsize == dtype_of(element).itemsize
    is_signless = isinstance(element, IntegerType) and has_signedness(element, Signedness.SIGNLESS)
    if name != "bool" and is_signless:
        return dtype.kind in "iu" and dtype.itemsize == dtype_of(element).itemsize
    return dtype.newbyteorder("=") == np.dtype(name)


def _value_of(elements: NDArray[Any], type: Attribute) -> TypedArray:
    """The value of an argument. Raises InterpretationError and VerifyException."""
    element_type = element_type_or_self(type)
    dtype = dtype_of(element_type)
    native = np.array(elements, elements.dtype.newbyteorder("="), order="C")
    stored = native.astype(dtype) if native.dtype == np.bool_ else native.view(dtype)
    if isinstance(element_type, StoredType):
        verify_in_range(stored, element_type)
    elif isinstance(element_type, IntegerType) and 1 < element_type.bitwidth < 8 * dtype.itemsize:
        low, high = element_type.value_range()
        if stored.size and not low <= stored.min() <= stored.max() < high:
            raise InterpretationError(f"an element is out of the range of '{element_type}'")
    return TypedArray.of(stored, type)
