"""
The lengths that files of TensorFlow Lite leave open, such as that of a batch.

A file is a flatbuffer: https://flatbuffers.dev/internals/. Each tensor has a shape, of a batch of 1
for example, and a signature of the shape, with -1 for a length that is open.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final

_SUBGRAPHS: Final = 2
_TENSORS: Final = 0
_INPUTS: Final = 1
_SHAPE: Final = 0
_NAME: Final = 3
_SIGNATURE: Final = 7
"""The numbers of fields: of the model, of a subgraph, and of a tensor."""


def with_lengths(data: bytes, shapes: Mapping[str, Sequence[int]]) -> bytes:
    """
    The file of a model whose tensors all have the lengths of their shapes.

    `shapes` has the inputs whose lengths are open. Raises ValueError for another input, and for
    another shape than that in the file, since the shapes of other tensors follow from that alone.
    """
    file = bytearray(data)
    try:
        graphs = _Table(file, struct.unpack_from("<I", file)[0]).tables(_SUBGRAPHS)
        tensors = [graph.tables(_TENSORS) for graph in graphs]
        inputs = [tensors[0][number] for number in graphs[0].integers(_INPUTS)]
        _check({tensor.text(_NAME): tensor for tensor in inputs}, shapes)
        for tensor in (tensor for many in tensors for tensor in many):
            tensor.copy_integers(_SHAPE, _SIGNATURE)
    except (IndexError, UnicodeDecodeError, struct.error) as error:
        raise ValueError(f"it is no model of TensorFlow Lite: {error}") from None
    return bytes(file)


def _check(inputs: Mapping[str, _Table], shapes: Mapping[str, Sequence[int]]) -> None:
    for name, shape in shapes.items():
        if name not in inputs:
            known = ", ".join(f"'{other}'" for other in inputs)
            raise ValueError(f"there is no input '{name}'; the inputs are {known}")
        if (own := inputs[name].integers(_SHAPE)) != [*shape]:
            lengths = ",".join(map(str, own))
            raise ValueError(f"all other shapes in the file are for '{name}' of shape {lengths}")
    for name, tensor in inputs.items():
        if -1 in tensor.integers(_SIGNATURE) and name not in shapes:
            raise ValueError(f"input '{name}' has open lengths, too: give its shape")


class _Table:
    """A table in a file: fields with numbers."""

    def __init__(self, file: bytearray, place: int) -> None:
        self._file, self._place = file, place

    def _vector(self, field: int) -> tuple[int, int]:
        """Where the elements of a field are, and their number: 0 if the table has no such field."""
        table = self._place - struct.unpack_from("<i", self._file, self._place)[0]
        (size,) = struct.unpack_from("<H", self._file, table)
        entry = 4 + 2 * field
        (offset,) = struct.unpack_from("<H", self._file, table + entry) if entry < size else (0,)
        if not offset:
            return 0, 0
        at = _target(self._file, self._place + offset)
        return at + 4, struct.unpack_from("<I", self._file, at)[0]

    def tables(self, field: int) -> list[_Table]:
        start, count = self._vector(field)
        places = range(start, start + 4 * count, 4)
        return [_Table(self._file, _target(self._file, place)) for place in places]

    def integers(self, field: int) -> list[int]:
        start, count = self._vector(field)
        return list(struct.unpack_from(f"<{count}i", self._file, start))

    def text(self, field: int) -> str:
        start, count = self._vector(field)
        return self._file[start : start + count].decode()

    def copy_integers(self, field: int, to: int) -> None:
        """Write the integers of a field in place of as many of another one."""
        start, count = self._vector(to)
        if len(numbers := self.integers(field)) == count:
            struct.pack_into(f"<{count}i", self._file, start, *numbers)


def _target(file: bytearray, place: int) -> int:
    """Where an offset leads to."""
    return place + struct.unpack_from("<I", file, place)[0]
