"""The texts of files and of standard input."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Final, NamedTuple

from xdsl.utils.lexer import Span

from qdialect.opt.command_line import SPLIT_MARKER
from qdialect.opt.diagnostics import DiagnosticHandler
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
            # Few runs start another program.
            from qdialect.opt.other_reader import read_with

            text = read_with(command, path)
        elif path == "-":
            if is_closed(sys.stdin):
                raise ToolError("standard input is closed")
            text = abridge(sys.stdin.buffer, name)
        else:
            text = source.read_text(path)
    except NotUTF8Error as error:
        if (format := _format_of(error.readable)) is not None:
            handler.error(f"this is {format}", name)
            return None
        handler.error(
            f"byte 0x{error.object[error.start]:02X} is not UTF-8",
            Span(error.position, error.position + 1, error.readable),
        )
        return None
    except (OSError, ValueError) as error:
        raise ToolError(f"cannot open input file '{name}': {reason_of(error)}") from None
    except MemoryError:
        raise ToolError(f"cannot read input file '{name}': out of memory") from None
    if (format := _format_of(text)) is not None:
        handler.error(f"this is {format}", name)
        return None
    return SourceText(text)


def _format_of(text: AbridgedInput) -> str | None:
    """The format of a file that is not MLIR text, by its first characters; None if unknown."""
    formats = (name for start, name in _FORMATS.items() if re.match(start, text.content, re.DOTALL))
    return next(formats, None)
