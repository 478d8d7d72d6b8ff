"""The files and streams that the tools write to."""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import BinaryIO, Final, Self, TextIO, cast

from typing_extensions import Buffer, override

from qdialect.opt.process import forget_file, register_file
from qdialect.opt.tool_error import TOOL, ToolError, reason_of

STANDARD_OUTPUT: Final = ("-", "/dev/stdout")
"""The name of standard input or output on the command line."""

_IN_PLACE_ONLY: Final = (errno.EACCES, errno.EBUSY, errno.EPERM, errno.EROFS, errno.EXDEV)
"""Errors of replacing a file that may still be writable."""

_MAX_IN_MEMORY: Final = 1 << 24
"""The number of bytes from which on a text is held in a file."""


class Output:
    """
    The output of a tool: standard output, or a file that is replaced when the text is complete.

    Until then the text is held where it ends with this process, however that ends. The file that
    takes the place of the old one has its mode, and its owner if this process may change owners.
    The text is copied into the old file if that has several names (hard links), or cannot be
    replaced: the folder is not writable, or the file is a mount point. Special files such as
    /dev/null are written directly.
    """

    stream: TextIO

    is_good: bool
    """Whether the run had no error: then the output is kept at the end of the context."""

    def __init__(self, path: str) -> None:
        """Raises ToolError if the file cannot be written."""
        self.is_good = False
        self._path = path
        self._content: _HeldBytes | None = None
        """The text, unless it is written directly."""
        self._is_in_place = False
        """Whether the text is copied into the old file."""
        try:
            self.stream = self._open()
        except (OSError, ValueError) as error:
            raise ToolError(f"cannot open output file '{path}': {reason_of(error)}") from None

    def _open(self) -> TextIO:
        if self._path in STANDARD_OUTPUT:
            return _open_standard_output()
        old = _status_of(self._path)
        # Links in /dev resolve to the target of a redirected stream.
        is_device = os.path.abspath(self._path).startswith("/dev/")
        if is_device or (old is not None and not stat.S_ISREG(old.st_mode)):
            return _open(self._path)
        if old is None and not os.path.basename(self._path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        self._path = os.path.realpath(self._path)
        if old is not None and not os.access(self._path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        try:
            with _temporary_file(self._folder):
                pass
        except OSError as error:
            if old is None or error.errno not in _IN_PLACE_ONLY:
                raise
            self._is_in_place = True
        self._content = _HeldBytes(None if self._is_in_place else self._folder)
        return _as_text(self._content)

    @property
    def _folder(self) -> str:
        return os.path.dirname(self._path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Keep the text if `is_good` and there is no exception. Raises OSError."""
        try:
            if self._content is not None and self.is_good and kind is None:
                self.stream.flush()
                self._put_in_place(self._content)
        finally:
            _finish(self.stream)

    def _put_in_place(self, content: _HeldBytes) -> None:
        old = _status_of(self._path)
        if old is None or not (self._is_in_place or old.st_nlink > 1):
            try:
                with _temporary_file(self._folder) as (path, file):
                    content.copy_to(file)
                    file.flush()
                    if old is not None:
                        _take_over(file.fileno(), old)
                    os.replace(path, self._path)
                return
            except OSError as error:
                if error.errno not in _IN_PLACE_ONLY or not os.path.exists(self._path):
                    raise
        _copy_over(content, self._path)


def write_file(path: str, text: str) -> None:
    """Write an output. Raises ToolError and OSError."""
    with Output(path) as output:
        output.stream.write(text)
        output.is_good = True


def check_writable(path: str) -> None:
    """Raise ToolError if an output cannot be written: now, not after hours of work."""
    with Output(path):
        pass


@contextmanager
def _temporary_file(folder: str) -> Generator[tuple[str, BinaryIO]]:
    """
    A new file in a folder, and its path. It is deleted at the end, and if the tool is ended; it
    may have been renamed before.
    """
    while True:
        path = os.path.join(folder, f".{TOOL}-{os.urandom(8).hex()}")
        register_file(path)
        try:
            with suppress(FileExistsError):
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
                break
        except BaseException:
            forget_file(path)
            raise
        forget_file(path)
    try:
        with open(descriptor, "wb") as file:
            yield path, file
    finally:
        with suppress(OSError):
            os.unlink(path)
        forget_file(path)


def _take_over(descriptor: int, old: os.stat_result) -> None:
    """Give a file the mode and the owner of the old one."""
    new = os.fstat(descriptor)
    if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        with suppress(PermissionError):
            os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


def _copy_over(content: _HeldBytes, path: str) -> None:
    """Write a text over a file, which is unchanged if there is no space for it."""
    with open(os.open(path, os.O_WRONLY), "wb") as file:
        before = os.fstat(file.fileno()).st_size
        if content.size > before and hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(file.fileno(), 0, content.size)
            except OSError as error:
                os.truncate(file.fileno(), before)
                if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                    raise
        content.copy_to(file)
        file.truncate(content.size)


def overwrite_each_other(first: str, second: str) -> bool:
    """Whether two outputs are the same file, or both standard output."""
    if first in STANDARD_OUTPUT and second in STANDARD_OUTPUT:
        return True
    one, other = _status_of(first), _status_of(second)
    if one is None or other is None:
        return os.path.realpath(first) == os.path.realpath(second)
    return os.path.samestat(one, other) and not os.path.samestat(one, os.stat(os.devnull))


def _status_of(path: str) -> os.stat_result | None:
    """The status of the file of an output; None if it does not exist."""
    try:
        return os.fstat(sys.stdout.fileno()) if path in STANDARD_OUTPUT else os.stat(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, AttributeError):
        if path in STANDARD_OUTPUT:
            # The stream has no file descriptor.
            return None
        raise


def _open(file: str | int) -> TextIO:
    return open(file, "w", encoding="utf-8", newline="\n")


@contextmanager
def standard_output() -> Generator[TextIO]:
    """
    Standard output as a UTF-8 stream, for MLIR text.

    Raises ToolError if it is closed, and OSError at the end if it cannot be written.
    """
    stream = _open_standard_output()
    try:
        yield stream
    finally:
        _finish(stream)


def _open_standard_output() -> TextIO:
    """A separate stream, so that the encoding and the buffer of `sys.stdout` do not change."""
    if is_closed(sys.stdout):
        raise ToolError("standard output is closed")
    sys.stdout.flush()
    try:
        descriptor = os.dup(sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        # The stream has no file descriptor, as in a notebook.
        return sys.stdout
    return _open(descriptor)


def _finish(stream: TextIO) -> None:
    """Flush the stream. Raises OSError."""
    if stream is sys.stdout:
        stream.flush()
    else:
        stream.close()


def is_closed(stream: TextIO | None) -> bool:
    """
    Whether a stream is closed.

    Python has None for a stream that the process was started without.
    """
    return stream is None


@contextmanager
def held_text(stream: TextIO) -> Generator[TextIO]:
    """
    A stream whose text is written to `stream` at the end, unless there is an exception.

    Raises OSError if it cannot be written.
    """
    content = _HeldBytes()
    with _as_text(content) as text:
        yield text
        text.flush()
        if (binary := cast("BinaryIO | None", getattr(stream, "buffer", None))) is None:
            decoded = io.BytesIO()
            content.copy_to(decoded)
            stream.write(decoded.getvalue().decode())
        else:
            stream.flush()
            content.copy_to(binary)


def _as_text(content: _HeldBytes) -> TextIO:
    return io.TextIOWrapper(io.BufferedWriter(content), encoding="utf-8", newline="\n")


class _HeldBytes(io.RawIOBase):
    """Bytes in memory, or if there are many, in a file without a name."""

    def __init__(self, folder: str | None = None) -> None:
        """`folder` is that of the file, by default one for temporary files."""
        super().__init__()
        self._folder = folder
        self._file: BinaryIO = io.BytesIO()
        self.size = 0

    @override
    def writable(self) -> bool:
        return True

    @override
    def write(self, b: Buffer, /) -> int:
        size = self._file.write(b)
        self.size += size
        if isinstance(self._file, io.BytesIO) and self.size > _MAX_IN_MEMORY:
            # Deferred: it takes 20 ms.
            from tempfile import TemporaryFile

            memory, self._file = self._file, cast(BinaryIO, TemporaryFile(dir=self._folder))  # noqa: SIM115
            self._file.write(memory.getbuffer())
        return size

    def copy_to(self, stream: BinaryIO) -> None:
        """Write all bytes. Raises OSError."""
        self._file.seek(0)
        while piece := self._file.read(_MAX_IN_MEMORY):
            stream.write(piece)

    @override
    def close(self) -> None:
        self._file.close()
        super().close()
