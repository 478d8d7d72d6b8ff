"""The texts that come in, and the file or stream that they go out to."""

from __future__ import annotations

import io
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from errno import EACCES
from typing import Any, NamedTuple, TextIO, cast

from xdsl.utils.lexer import Input, Span

from qdialect.text.source import AbridgedInput, abridge, read_source
from qdialect.tools.command_line import SPLIT_MARKER
from qdialect.tools.diagnostics import DiagnosticHandler
from qdialect.tools.tool_error import TOOL, ToolError, reason_of


class SourceText(NamedTuple):
    """A text to process: a file, or a part of one."""

    input: AbridgedInput
    first_line: int = 1

    @property
    def name(self) -> str:
        """What errors call it."""
        return self.input.name

    def split(self) -> Iterator[SourceText]:
        """The parts between markers."""
        content, line, start = self.input.content, self.first_line, 0
        # Upstream does not take a marker that ends the file for one.
        markers = re.finditer(rf"{SPLIT_MARKER}(?!\Z)", content)
        for end, next_start in [*(marker.span() for marker in markers), (len(content),) * 2]:
            yield SourceText(self.input.part(start, end), line)
            line += content.count("\n", start, end)
            start = next_start


def read_text(path: str, handler: DiagnosticHandler) -> SourceText | None:
    """
    The text of a file, `-` being standard input; None if it is not UTF-8.

    Raises ToolError if it cannot be read.
    """
    name = "<stdin>" if path == "-" else path
    try:
        if path == "-":
            if _is_closed(sys.stdin):
                raise ToolError("standard input is closed")
            source = sys.stdin.buffer.read()
        else:
            source = read_source(path)
    except (OSError, ValueError) as error:
        raise ToolError(f"cannot open input file '{name}': {reason_of(error)}") from None
    try:
        return SourceText(abridge(source, name))
    except UnicodeDecodeError:
        _refuse_encoding(source[:], name, handler)
        return None


def _refuse_encoding(content: bytes, name: str, handler: DiagnosticHandler) -> None:
    try:
        content.decode()
    except UnicodeDecodeError as error:
        start = len(content[: error.start].decode())
        readable = Input(content.decode(errors="replace"), name)
        handler.error(
            f"byte 0x{content[error.start]:02X} is not UTF-8",
            Span(start, start + 1, readable),
        )


class Output:
    """
    Where modules are printed: standard output, or a file that is written whole or not.

    A file is written next to the one it replaces. What is not a regular file, such as
    /dev/null, is written directly.
    """

    stream: TextIO

    is_good: bool
    """Whether what was written is what was asked for."""

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
        if self._path in ("-", "/dev/stdout"):
            return standard_output()
        # Links there lead to whatever a stream of the process is redirected to.
        if os.path.abspath(self._path).startswith("/dev/"):
            return _open(self._path)
        self._path = os.path.realpath(self._path)
        mode = _mode_of(self._path)
        if not stat.S_ISREG(mode):
            return _open(self._path)
        from tempfile import mkstemp

        descriptor, self._temporary = mkstemp(prefix=f".{TOOL}-", dir=os.path.dirname(self._path))
        os.chmod(self._temporary, stat.S_IMODE(mode))
        return _open(descriptor)

    def close(self, keep: bool) -> None:
        """Finish; unless `keep`, leave the file as it was. Raises OSError."""
        if self.stream is sys.stdout:
            self.stream.flush()
            return
        try:
            self.stream.close()
            if keep and self._temporary is not None:
                os.replace(self._temporary, self._path)
                self._temporary = None
        finally:
            if self._temporary is not None:
                with suppress(OSError):
                    os.unlink(self._temporary)


def _open(file: str | int) -> TextIO:
    return open(file, "w", encoding="utf-8", newline="\n")


def standard_output() -> TextIO:
    """Standard output, for text of MLIR. Raises ToolError if it is closed."""
    if _is_closed(sys.stdout):
        raise ToolError("standard output is closed")
    stdout = cast(TextIO, sys.stdout)
    if isinstance(stdout, io.TextIOWrapper):
        cast(Any, stdout).reconfigure(encoding="utf-8", newline="\n")
    return cast(TextIO, stdout)


def _is_closed(stream: TextIO | None) -> bool:
    """Python has None for a standard stream that the process was started without."""
    return stream is None


def _mode_of(path: str) -> int:
    """The mode of a file, or what a new one would get. Raises OSError if not writable."""
    if os.path.exists(path):
        if not os.access(path, os.W_OK):
            raise PermissionError(EACCES, os.strerror(EACCES))
        return os.stat(path).st_mode
    mask = os.umask(0)
    os.umask(mask)
    return stat.S_IFREG | (0o666 & ~mask)
