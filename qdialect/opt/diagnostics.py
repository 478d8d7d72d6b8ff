"""
Errors, warnings, remarks and notes, in the layout of mlir-opt.

https://mlir.llvm.org/docs/Diagnostics/
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import StrEnum
from typing import NamedTuple, TextIO, TypeAlias, cast

from typing_extensions import override
from xdsl.utils.exceptions import MultipleSpansParseError, ParseError
from xdsl.utils.lexer import Input, Span

from qdialect.opt.tool_error import abridged, printable
from qdialect.text.source import excerpt, omitted_before

MAX_LINE_LENGTH = 200

Location: TypeAlias = Span | str
"""A place in a text, or only the name of the file or tool."""


class Severity(StrEnum):
    """The kind of a diagnostic."""

    ERROR = "error"
    WARNING = "warning"
    REMARK = "remark"
    NOTE = "note"


class Diagnostic(NamedTuple):
    """A message for the user, with its place."""

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
    """Takes the diagnostics of tools and passes."""

    @abstractmethod
    def emit(self, diagnostic: Diagnostic) -> None:
        """Take a diagnostic."""

    def error(self, message: str, location: Location) -> None:
        """Take an error."""
        self.emit(Diagnostic(Severity.ERROR, message, location))

    def warning(self, message: str, location: Location) -> None:
        """Take a warning."""
        self.emit(Diagnostic(Severity.WARNING, message, location))

    def remark(self, message: str, location: Location) -> None:
        """Take a remark."""
        self.emit(Diagnostic(Severity.REMARK, message, location))

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
    return Span(span.start, span.end, cast(Input, span.input), first_line - 1)


def text_of_place(location: Location) -> str:
    """`file:line:column`, or the part of it that is known."""
    if isinstance(location, str):
        return location
    line_start = location.input.get_start_of_line(location.start)
    before = location.input.content[line_start : location.start]
    # Upstream counts columns in bytes. Each byte that is left out of a text counts.
    column = len(before.encode()) + omitted_before(location) + 1
    return f"{location.input.name}:{location.get_location().line}:{column}"


def render(diagnostic: Diagnostic) -> str:
    """`file:line:column: severity: message`, the source line, and a caret below it."""
    location = diagnostic.location
    place = text_of_place(location)
    message = f"{place}: {diagnostic.severity}: {_one_line(diagnostic.message)}\n"
    if isinstance(location, str):
        return message
    return message + _source_line_with_caret(location)


def _one_line(message: str) -> str:
    return abridged(printable(" ".join(filter(None, map(str.strip, message.splitlines())))))


def _source_line_with_caret(span: Span) -> str:
    """The line, or the part of it near the caret if it is long."""
    line_start = span.input.get_start_of_line(span.start)
    line_end = span.input.get_end_of_line(span.start)
    start, end = line_start, line_end
    if line_end - line_start > MAX_LINE_LENGTH:
        start = max(line_start, span.start - MAX_LINE_LENGTH // 2)
        end = min(line_end, start + MAX_LINE_LENGTH)
    head = ("..." if start > line_start else "") + printable(excerpt(span.input, start, span.start))
    tail = printable(excerpt(span.input, span.start, end)) + ("..." if end < line_end else "")
    indent = "".join(c if c == "\t" else " " for c in head)
    return f"{(head + tail).rstrip()}\n{indent}^\n"
