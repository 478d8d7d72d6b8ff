"""The files and streams that the tools write to."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final, TextIO

from qdialect.tools import temporary_files
from qdialect.tools.tool_error import TOOL, ToolError, reason_of

STANDARD_OUTPUT: Final = ("-", "/dev/stdout")
"""The name of standard input or output on the command line."""

_IN_PLACE_ONLY: Final = (errno.EACCES, errno.EBUSY, errno.EPERM, errno.EROFS, errno.EXDEV)
"""Errors of replacing a file that may still be writable."""


class Output:
    """
    The output of a tool: standard output, or a file that is replaced atomically.

    The text is written to a temporary file in the same folder, which is then renamed; hard links to
    the old file keep the old text. The new file has the mode of the old one, and its owner if this
    process may change owners. If the file cannot be replaced, since the folder is not writable or
    the file is a mount point, the text is copied into the old file at the end. Special files such
    as /dev/null are written directly.
    """

    stream: TextIO

    is_good: bool
    """Whether the run had no error: then the output is kept."""

    def __init__(self, path: str) -> None:
        """Raises ToolError if the file cannot be written."""
        self.is_good = False
        self._path = path
        self._temporary: str | None = None
        try:
            self.stream = self._open()
        except (OSError, ValueError) as error:
            raise ToolError(f"cannot open output file '{path}': {reason_of(error)}") from None

    def _open(self) -> TextIO:
        if self._path in STANDARD_OUTPUT:
            return _open_standard_output()
        # Links in /dev resolve to the target of a redirected stream.
        if os.path.abspath(self._path).startswith("/dev/"):
            return _open(self._path)
        self._path = os.path.realpath(self._path)
        folder = os.path.dirname(self._path)
        old = _status_of(self._path)
        if old is None:
            return self._open_temporary(folder)
        if not stat.S_ISREG(old.st_mode):
            return _open(self._path)
        if not os.access(self._path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        try:
            stream = self._open_temporary(folder)
        except OSError as error:
            if error.errno not in _IN_PLACE_ONLY:
                raise
            # Needed only if the folder of the output is not writable.
            from tempfile import gettempdir

            stream = self._open_temporary(gettempdir())
        self._take_over(old)
        return stream

    def _open_temporary(self, folder: str) -> TextIO:
        """A new file, with the mode of a new file."""
        while True:
            path = os.path.join(folder, f".{TOOL}-{os.urandom(8).hex()}")
            temporary_files.register(path)
            try:
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            except BaseException as error:
                temporary_files.forget(path)
                if isinstance(error, FileExistsError):
                    continue
                raise
            self._temporary = path
            return _open(descriptor)

    def _take_over(self, old: os.stat_result) -> None:
        """Give the temporary file the mode and the owner of the old one."""
        assert self._temporary is not None
        new = os.stat(self._temporary)
        if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
            with suppress(PermissionError):
                os.chown(self._temporary, old.st_uid, old.st_gid)
        os.chmod(self._temporary, stat.S_IMODE(old.st_mode))

    def close(self, keep: bool) -> None:
        """Finish; unless `keep`, leave the file as it was. Raises OSError."""
        try:
            _finish(self.stream)
            if keep and self._temporary is not None:
                _put_in_place(self._temporary, self._path)
        finally:
            if self._temporary is not None:
                with suppress(OSError):
                    os.unlink(self._temporary)
                temporary_files.forget(self._temporary)


def _put_in_place(temporary: str, path: str) -> None:
    try:
        os.replace(temporary, path)
    except OSError as error:
        if error.errno not in _IN_PLACE_ONLY or not os.path.exists(path):
            raise
        # Files are copied only if the system cannot rename them.
        from shutil import copyfile

        copyfile(temporary, path)


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
