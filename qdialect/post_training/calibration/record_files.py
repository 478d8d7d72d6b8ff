"""
Records (sets of arguments of a function) in numpy files.

A `.npz` file has an array for each argument: under `arg0`, `arg1` and so on, or under the key of
the argument. If the argument has the shape S, an array of shape S is one record, and one of shape
(n, *S) holds n records. All arrays of a file hold the same number of records. The files of a folder
are read in the order of their names, as one sequence. Elements have the dtype of the argument;
nothing is converted. A file may also hold labels, which are not arguments.
"""

from __future__ import annotations

import math
import re
import tokenize
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
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
from qdialect.dialects.quant.constants import verify_in_range
from qdialect.dialects.quant.storage import StoredType
from qdialect.interpreters import TypedArray
from qdialect.interpreters.values import dtype_of, held_type
from qdialect.ir.value_types import element_type_or_self, shape_of

_UNREADABLE = (
    OSError,
    ValueError,
    EOFError,
    RecursionError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
    NotImplementedError,
)
"""The exceptions that numpy raises for an unreadable file."""


class RecordError(ValueError):
    """Data that cannot be read, or does not match the function."""


class Argument(NamedTuple):
    """An argument, for which records have an array."""

    names: tuple[str, ...]
    """The names that its array may have; messages use the first one."""
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
        self._loaded: tuple[_Part, list[NDArray[Any]]] | None = None
        count = 0
        for each in _files_of(Path(path)):
            part = self._part(each, count)
            self._parts.append(part)
            count += part.count
        self._count = count
        if not count:
            raise RecordError(f"'{path}' has no records")

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> tuple[TypedArray, ...]:
        """The arguments of one record. Raises RecordError, and IndexError."""
        part = self._part_with(index)
        arrays = self._arrays(part)[: len(self._arguments)]
        values = list[TypedArray]()
        for name, array, argument in zip(part.names, arrays, self._arguments, strict=True):
            elements = array[index - part.first] if part.is_batch else array
            try:
                values.append(_value_of(elements, argument.type))
            except (InterpretationError, VerifyException) as error:
                raise RecordError(f"'{part.path}': '{name}' in record {index}: {error}") from None
        return tuple(values)

    def labels(self, index: int) -> NDArray[np.int64]:
        """The labels of one record. Raises RecordError, and IndexError."""
        part = self._part_with(index)
        array = self._arrays(part)[-1]
        return np.asarray(array[index - part.first] if part.is_batch else array, np.int64)

    def _part_with(self, index: int) -> _Part:
        part = next((of for of in self._parts if 0 <= index - of.first < of.count), None)
        if part is None:
            raise IndexError(f"there are {self._count} records, and none has index {index}")
        return part

    def _arrays(self, part: _Part) -> list[NDArray[Any]]:
        """The arrays and the labels of a file, cached until another file is read."""
        if self._loaded is None or self._loaded[0] is not part:
            # The arrays of the last file are freed before others are read.
            self._loaded = None
            try:
                with np.load(part.path, allow_pickle=False) as found:
                    names = [*part.names, *filter(None, [self._labels])]
                    self._loaded = part, [found[name] for name in names]
            except _UNREADABLE as error:
                raise RecordError(f"cannot read '{part.path}': {error}") from None
        return self._loaded[1]

    def _part(self, path: Path, first: int) -> _Part:
        headers = _headers(path)
        unknown, names = {*headers}, list[str]()
        for argument in self._arguments:
            given = [name for name in argument.names if name in unknown]
            if len(given) > 1:
                both = " and ".join(f"'{name}'" for name in given)
                raise RecordError(f"'{path}': give only one of the arrays {both}")
            if not given:
                wanted = " or ".join(f"'{name}'" for name in argument.names)
                there = ", ".join(f"'{name}'" for name in headers) or "none"
                raise RecordError(f"'{path}': there is no array {wanted}; there are {there}")
            unknown.remove(given[0])
            names.append(given[0])
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
            wanted = ", ".join(f"'{of.names[0]}'" for of in self._arguments) or "none"
            raise RecordError(
                f"'{path}': {extra} is not an argument of the function: the arguments are {wanted}"
            )
        counts = dict[str, int | None]()
        for name, argument in zip(names, self._arguments, strict=True):
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
        return _Part(path, first, 1 if count is None else count, tuple(names), is_batch)


class _Header(NamedTuple):
    """The shape and dtype of an array in a file."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def _files_of(path: Path) -> list[Path]:
    try:
        if not path.is_dir():
            return [path]
        return sorted(each for each in path.iterdir() if each.suffix == ".npz")
    except OSError as error:
        raise RecordError(f"cannot read '{path}': {error.strerror}") from None


def _headers(path: Path) -> dict[str, _Header]:
    """The arrays of a file, by name."""
    found = dict[str, _Header]()
    try:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                with archive.open(name) as stream:
                    version = np.lib.format.read_magic(stream)
                    read = {
                        (1, 0): np.lib.format.read_array_header_1_0,
                        (2, 0): np.lib.format.read_array_header_2_0,
                    }.get(version)
                    if read is None:
                        raise ValueError(f"'{name}' has the unsupported format version {version}")
                    shape, _, dtype = read(stream)
                    array = re.sub(r"\.npy\Z", "", name)
                    if array in found:
                        raise ValueError(f"'{array}' is there several times")
                    held = archive.getinfo(name).file_size - stream.tell()
                    wanted = math.prod(shape) * dtype.itemsize
                    # numpy would allocate the size in the header, even for a short file.
                    if held != wanted and not dtype.hasobject:
                        raise ValueError(
                            f"'{array}' has {held} bytes, but its shape needs {wanted}"
                        )
                    found[array] = _Header(shape, dtype)
    except _UNREADABLE as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise RecordError(f"cannot read '{path}': {reason or error}") from None
    return found


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
        of in (DYNAMIC, length) for length, of in zip(shape, declared, strict=True)
    )


def _dtype_name(type: Attribute) -> str:
    """The dtype that elements of a type must have, in words. Raises InterpretationError."""
    held = held_type(element_type_or_self(type))
    if isinstance(held, Float16Type | Float32Type | Float64Type):
        return f"float{held.bitwidth}"
    if isinstance(held, IntegerType | IndexType):
        is_bit = isinstance(held, IntegerType) and held.bitwidth == 1
        return "bool" if is_bit else dtype_of(held).name
    if isinstance(held, AnyFloat):
        return f"its bits, as uint{8 * dtype_of(held).itemsize}"
    raise InterpretationError(f"elements of type '{held}' are not supported in records")


def _is_dtype(dtype: np.dtype[Any], type: Attribute) -> bool:
    """Whether elements may have a dtype. Raises InterpretationError."""
    name, held = _dtype_name(type), held_type(element_type_or_self(type))
    if name.startswith("its bits"):
        # A file stores the dtypes of `ml_dtypes` as void.
        return dtype.kind in "uV" and dtype.itemsize == dtype_of(held).itemsize
    if name != "bool" and isinstance(held, IntegerType) and _is_signless(held):
        return dtype.kind in "iu" and dtype.itemsize == dtype_of(held).itemsize
    return dtype.newbyteorder("=") == np.dtype(name)


def _is_signless(type: IntegerType) -> bool:
    return type.signedness.data is Signedness.SIGNLESS


def _value_of(elements: NDArray[Any], type: Attribute) -> TypedArray:
    """The value of an argument. Raises InterpretationError and VerifyException."""
    element_type = element_type_or_self(type)
    held = dtype_of(element_type)
    native = np.array(elements, elements.dtype.newbyteorder("="), order="C")
    stored = native.astype(held) if native.dtype == np.bool_ else native.view(held)
    if isinstance(element_type, StoredType):
        verify_in_range(stored, element_type)
    elif isinstance(element_type, IntegerType) and 1 < element_type.bitwidth < 8 * held.itemsize:
        low, high = element_type.value_range()
        if stored.size and not low <= stored.min() <= stored.max() < high:
            raise InterpretationError(f"an element is out of the range of '{element_type}'")
    return TypedArray.of(stored, type)
