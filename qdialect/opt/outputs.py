"""The files and streams that the tools write to."""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from typing import IO, BinaryIO, Final, Self, TextIO, TypeVar, cast

from qdialect.opt.process import forget_file, register_file
from qdialect.opt.tool_error import TOOL, ToolError, reason_of

STANDARD_OUTPUT: Final = ("-", "/dev/stdout")
"""The name of standard input or output on the command line."""

_IN_PLACE_ONLY: Final = (errno.EACCES, errno.EBUSY, errno.EPERM, errno.EROFS, errno.EXDEV)
"""Errors of replacing a file that may still be writable."""

_CHUNK: Final = 1 << 20
"""The number of bytes that are copied at once."""

_MAX_IN_MEMORY: Final = 1 << 24
"""The number of bytes from which on a text is held in a file."""

Made = TypeVar("Made")


class Output:
    """
    The output of a tool: standard output, or a file that is replaced when the text is complete.

    The text is written to a file without a name, which ends with this process however that ends.
    At the end it gets the name of the output, in place of the old file if there is one, whose mode
    it takes over, and its owner if this process may change owners. The text is copied into the old
    file if that has several names (hard links), or cannot be replaced: the folder is not writable,
    or the file is a mount point. Special files such as /dev/null are written directly.
    """

    stream: TextIO

    is_good: bool
    """Whether the run had no error: then the output is kept at the end of the context."""

    def __init__(self, path: str) -> None:
        """Raises ToolError if the file cannot be written."""
        self.is_good = False
        self._path = path
        self._unnamed: int | None = None
        """A file with the text, unless it is written directly."""
        self._is_elsewhere = False
        """Whether that file is in another folder than the output."""
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
            self._unnamed = _open_unnamed(os.path.dirname(self._path))
        except OSError as error:
            if old is None or error.errno not in _IN_PLACE_ONLY:
                raise
            # Needed only if the folder of the output is not writable.
            from tempfile import gettempdir

            self._is_elsewhere = True
            self._unnamed = _open_unnamed(gettempdir())
        return _open(os.dup(self._unnamed))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Keep the text if `is_good` and there is no exception. Raises OSError."""
        try:
            _finish(self.stream)
            if self.is_good and kind is None and self._unnamed is not None:
                self._put_in_place(self._unnamed)
        finally:
            if self._unnamed is not None:
                os.close(self._unnamed)
                self._unnamed = None

    def _put_in_place(self, unnamed: int) -> None:
        old, temporary = _status_of(self._path), None
        if old is not None and (self._is_elsewhere or old.st_nlink > 1):
            _copy_over(unnamed, self._path)
            return
        # Another process may have made the file by now.
        with suppress(FileExistsError):
            if old is None and _has_link(unnamed, self._path):
                return
        try:
            temporary = _named_copy(unnamed, os.path.dirname(self._path), old)
            os.replace(temporary, self._path)
        except OSError as error:
            if error.errno not in _IN_PLACE_ONLY or not os.path.exists(self._path):
                raise
            _copy_over(unnamed, self._path)
        finally:
            if temporary is not None:
                _delete(temporary)


def write_file(path: str, text: str) -> None:
    """Write an output. Raises ToolError and OSError."""
    with Output(path) as output:
        output.stream.write(text)
        output.is_good = True


def check_writable(path: str) -> None:
    """Raise ToolError if an output cannot be written: now, not after hours of work."""
    with Output(path):
        pass


def _open_unnamed(folder: str) -> int:
    """A descriptor of a new file in a folder that has no name, and the mode of a new file."""
    try:
        return os.open(folder, os.O_RDWR | os.O_TMPFILE, 0o666)
    except (OSError, AttributeError):
        # Not every system has such files: this one has a name for a moment.
        path, descriptor = _at_free_path(folder, _create)
        _delete(path)
        return descriptor


def _named_copy(unnamed: int, folder: str, old: os.stat_result | None) -> str:
    """
    The path of a file in a folder with the text of another, to be renamed at once.

    It has the mode and the owner of `old`.
    """
    if old is not None:
        _take_over(unnamed, old)
    path, is_same = _at_free_path(folder, partial(_has_link, unnamed))
    if is_same:
        return path
    _delete(path)
    path, descriptor = _at_free_path(folder, _create)
    try:
        with open(descriptor, "wb") as file:
            _copy(unnamed, file)
            if old is not None:
                _take_over(descriptor, old)
    except BaseException:
        _delete(path)
        raise
    return path


def _at_free_path(folder: str, make: Callable[[str], Made]) -> tuple[str, Made]:
    """Make a file at a path in a folder where there is none; it is deleted if the tool is ended."""
    while True:
        path = os.path.join(folder, f".{TOOL}-{os.urandom(8).hex()}")
        register_file(path)
        try:
            return path, make(path)
        except BaseException as error:
            forget_file(path)
            if not isinstance(error, FileExistsError):
                raise


def _delete(path: str) -> None:
    """Delete a file that `_at_free_path` made; it may have been renamed."""
    with suppress(OSError):
        os.unlink(path)
    forget_file(path)


def _create(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)


def _has_link(unnamed: int, path: str) -> bool:
    """
    Give a file without a name a path; false if the system cannot. Raises FileExistsError.

    Python calls linkat only with a folder of the source.
    """
    try:
        os.link(f"/proc/self/fd/{unnamed}", path, src_dir_fd=unnamed, follow_symlinks=True)
    except FileExistsError:
        raise
    except (OSError, NotImplementedError):
        return False
    return True


def _take_over(descriptor: int, old: os.stat_result) -> None:
    """Give a file the mode and the owner of the old one."""
    new = os.fstat(descriptor)
    if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        with suppress(PermissionError):
            os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


def _copy_over(unnamed: int, path: str) -> None:
    """Write a text over a file, which is unchanged if there is no space for it."""
    size = os.fstat(unnamed).st_size
    with open(os.open(path, os.O_WRONLY), "wb") as file:
        before = os.fstat(file.fileno()).st_size
        if size > before and hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(file.fileno(), 0, size)
            except OSError as error:
                os.truncate(file.fileno(), before)
                if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                    raise
        _copy(unnamed, file)
        file.truncate(size)


def _copy(unnamed: int, file: IO[bytes]) -> None:
    offset = 0
    while chunk := os.pread(unnamed, _CHUNK, offset):
        file.write(chunk)
        offset += len(chunk)


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
    # Deferred for runs that print no module; xDSL imports it.
    from tempfile import SpooledTemporaryFile

    content = SpooledTemporaryFile(_MAX_IN_MEMORY)  # noqa: SIM115
    with io.TextIOWrapper(content, encoding="utf-8", newline="\n") as text:
        yield text
        text.flush()
        content.seek(0)
        if (binary := cast("BinaryIO | None", getattr(stream, "buffer", None))) is None:
            stream.write(content.read().decode())
            return
        stream.flush()
        while piece := content.read(_MAX_IN_MEMORY):
            binary.write(piece)
