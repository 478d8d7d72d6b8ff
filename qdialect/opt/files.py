"""The texts of files and of standard input, also as another tool prints them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import BinaryIO, Final, NamedTuple, cast

from xdsl.utils.lexer import Span

from qdialect.opt.diagnostics import DiagnosticHandler
from qdialect.opt.options import SPLIT_MARKER
from qdialect.opt.outputs import is_closed
from qdialect.opt.tool_error import ToolError, reason_of
from qdialect.text import source
from qdialect.text.source import AbridgedInput, NotUTF8Error, abridge

_FORMATS: Final = {
    "ML\ufffdR": "MLIR bytecode: convert it to text with mlir-opt first",
    "....TFL3": "a TensorFlow Lite model: convert it to MLIR text first",
    "PK\x03\x04": "a zip archive, not MLIR text",
    "\x1f\ufffd": "a gzip-compressed file: decompress it first",
    "\ufffd\ufffd.\0|.\0": "UTF-16 text: save it as UTF-8",
}
"""Formats by a regular expression for the first characters; U+FFFD stands for invalid UTF-8."""


class SourceText(NamedTuple):
    """A text to process: a file, or a part of one."""

    input: AbridgedInput
    first_line: int = 1

    @property
    def name(self) -> str:
        """The name of the text in errors."""
        return self.input.name

    def split(self) -> Iterator[SourceText]:
        """The parts between markers."""
        content, line, start = self.input.content, self.first_line, 0
        # As in mlir-opt, a marker at the end of the file is text.
        markers = re.finditer(rf"{SPLIT_MARKER}(?!\Z)", content)
        for end, next_start in [*(marker.span() for marker in markers), (len(content),) * 2]:
            yield SourceText(self.input.part(start, end), line)
            line += content.count("\n", start, end)
            start = next_start


def read_text(
    path: str, handler: DiagnosticHandler, command: str | None = None
) -> SourceText | None:
    """
    The text of a file, or of standard input for `-`; None for a binary file, which is reported.

    With a command, its output for the file is read. Raises ToolError if the file cannot be read.
    """
    name = "<stdin>" if path == "-" else path
    try:
        if command is not None:
            text = _read_with(command, path)
        elif path == "-":
            if is_closed(sys.stdin):
                raise ToolError("standard input is closed")
            text = abridge(sys.stdin.buffer, name)
        else:
            text = source.read_text(path)
    except NotUTF8Error as error:
        if not _is_other_format(error.readable, handler):
            handler.error(
                f"byte 0x{error.object[error.start]:02X} is not UTF-8",
                Span(error.position, error.position + 1, error.readable),
            )
        return None
    except (OSError, ValueError) as error:
        raise ToolError(f"cannot open input file '{name}': {reason_of(error)}") from None
    except MemoryError:
        raise ToolError(f"cannot read input file '{name}': out of memory") from None
    return None if _is_other_format(text, handler) else SourceText(text)


def _is_other_format(text: AbridgedInput, handler: DiagnosticHandler) -> bool:
    """Whether a file is not MLIR text, by its first characters; that is reported."""
    for start, name in _FORMATS.items():
        if re.match(start, text.content, re.DOTALL):
            handler.error(f"this is {name}", text.name)
            return True
    return False


def _read_with(command: str, path: str) -> AbridgedInput:
    """
    The output of a command for a file, in generic form; `-` is standard input.

    The command is split like in a shell. The flag for generic form and the path are appended to its
    arguments, as for `mlir-opt`. Raises ToolError if it fails or prints nothing, and NotUTF8Error.
    """
    # Few runs start another program.
    import shlex
    from tempfile import TemporaryFile

    from qdialect.opt.child_processes import child_process

    try:
        arguments = shlex.split(command)
    except ValueError as error:
        raise ToolError(f"--read-with: '{command}' is not a valid command: {error}") from None
    if not arguments:
        raise ToolError("--read-with: the command is empty")
    program = arguments[0]
    name = f"{'<stdin>' if path == '-' else path} as {program} prints it"
    # A full pipe that nobody reads would block the command.
    with TemporaryFile() as messages:
        with ExitStack() as children:
            child = child_process([*arguments, "--mlir-print-op-generic", path], stderr=messages)
            try:
                process = children.enter_context(child)
            except (OSError, ValueError) as error:
                reason = f"cannot run '{program}': {reason_of(error)}"
                raise ToolError(f"--read-with: {reason}") from None
            text = abridge(cast(BinaryIO, process.stdout), name)
        messages.seek(0)
        lines = messages.read(1 << 16).decode(errors="replace").splitlines()
    if process.returncode:
        reason = next((line for line in lines if "error" in line), lines[0] if lines else "")
        status = f"'{program}' ended with status {process.returncode}"
        raise ToolError(f"--read-with: {status}{reason and ': '}{reason}")
    if not text.content.strip():
        raise ToolError(f"--read-with: '{program}' printed nothing")
    return text
