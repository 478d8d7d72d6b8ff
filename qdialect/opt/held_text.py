"""Text that is written only when all of it is there."""

from __future__ import annotations

import io
from collections.abc import Generator
from contextlib import contextmanager
from typing import BinaryIO, Final, TextIO, cast

from typing_extensions import Buffer, override

_MAX_IN_MEMORY: Final = 1 << 24
"""The number of bytes from which on a text is held in a file."""


@contextmanager
def held_text(stream: TextIO) -> Generator[TextIO]:
    """
    A stream whose text is written to `stream` at the end, unless there is an exception.

    Raises OSError if it cannot be written.
    """
    held = _HeldBytes()
    text = io.TextIOWrapper(io.BufferedWriter(held), encoding="utf-8", newline="\n")
    try:
        yield text
        text.flush()
        held.copy_to(stream)
    finally:
        text.close()


class _HeldBytes(io.RawIOBase):
    """Bytes in memory, or if there are many, in an unnamed file."""

    def __init__(self) -> None:
        super().__init__()
        self._file: BinaryIO = io.BytesIO()

    @override
    def writable(self) -> bool:
        return True

    @override
    def write(self, b: Buffer, /) -> int:
        size = self._file.write(b)
        if isinstance(self._file, io.BytesIO) and self._file.tell() > _MAX_IN_MEMORY:
            # Deferred: it takes 20 ms.
            from tempfile import TemporaryFile

            memory, self._file = self._file, cast(BinaryIO, TemporaryFile())  # noqa: SIM115
            self._file.write(memory.getbuffer())
        return size

    def copy_to(self, stream: TextIO) -> None:
        """Write all bytes, which are UTF-8. Raises OSError."""
        self._file.seek(0)
        if (binary := cast("BinaryIO | None", getattr(stream, "buffer", None))) is None:
            stream.write(self._file.read().decode())
            return
        stream.flush()
        while piece := self._file.read(_MAX_IN_MEMORY):
            binary.write(piece)

    @override
    def close(self) -> None:
        self._file.close()
        super().close()
