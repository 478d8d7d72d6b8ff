"""
Errors, warnings, remarks and notes: what they look like, and how tests expect them.

Both follow mlir-opt: https://mlir.llvm.org/docs/Diagnostics/.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TextIO, TypeAlias

from typing_extensions import override
from xdsl.utils.exceptions import MultipleSpansParseError, ParseError
from xdsl.utils.lexer import Input, Span

MAX_LINE_LENGTH = 200
MAX_MESSAGE_LENGTH = 4000

Location: TypeAlias = Span | str
"""A place in a text, or only the name of the file or tool."""


class Severity(StrEnum):
    """How bad it is."""

    ERROR = "error"
    WARNING = "warning"
    REMARK = "remark"
    NOTE = "note"


@dataclass(frozen=True)
class Diagnostic:
    """Something to tell the user."""

    severity: Severity
    message: str
    location: Location

    @property
    def line(self) -> int | None:
        """The line in the file, counted from 1, if the place in it is known."""
        if isinstance(self.location, str):
            return None
        return self.location.get_location().line


class DiagnosticHandler(ABC):
    """Takes what a tool or a pass has to tell."""

    @abstractmethod
    def emit(self, diagnostic: Diagnostic) -> None:
        """Take a diagnostic."""

    def error(self, message: str, location: Location) -> None:
        """Take an error."""
        self.emit(Diagnostic(Severity.ERROR, message, location))

    def note(self, message: str, location: Location) -> None:
        """Take a note about the diagnostic before it."""
        self.emit(Diagnostic(Severity.NOTE, message, location))

    def parse_error(self, error: ParseError, first_line: int = 1) -> None:
        """Take a parser's error, in a text that begins on that line of its file."""
        self.error(error.msg, place_in_file(error.span, first_line))
        if isinstance(error, MultipleSpansParseError):
            for span, message in error.refs:
                text = message or error.ref_text or "see here"
                self.note(text, place_in_file(span, first_line))


class DiagnosticPrinter(DiagnosticHandler):
    """Prints diagnostics in mlir-opt's layout: the message, its line, and a caret."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @override
    def emit(self, diagnostic: Diagnostic) -> None:
        """Print a diagnostic."""
        self._stream.write(render(diagnostic))


def place_in_file(span: Span[str] | Span[bytes], first_line: int) -> Location:
    """A span of a text that begins on line `first_line` of its file, counted from 1."""
    if isinstance(span.input.content, bytes):
        return span.input.name
    return replace(Span(span.start, span.end, span.input), line_offset=first_line - 1)
