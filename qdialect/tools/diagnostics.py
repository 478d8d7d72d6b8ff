"""
Errors, warnings, remarks and notes: what they look like, and how tests expect them.

Both follow mlir-opt: https://mlir.llvm.org/docs/Diagnostics/.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TextIO, TypeAlias, cast

from typing_extensions import override
from xdsl.utils.exceptions import MultipleSpansParseError, ParseError
from xdsl.utils.lexer import Input, Span

from qdialect.text.source import excerpt, omitted_before

TOOL = "qdialect-opt"
"""The name that the tool's own errors begin with."""

MAX_LINE_LENGTH = 200
MAX_MESSAGE_LENGTH = 4000

Location: TypeAlias = Span | str
"""A place in a text, or only the name of the file or tool."""


class ToolError(Exception):
    """Something wrong outside the text: the command line, a file."""


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
    """`file:line:column`, or what is known of it."""
    if isinstance(location, str):
        return location
    line_start = location.input.get_start_of_line(location.start)
    before = location.input.content[line_start : location.start]
    # Upstream counts columns in bytes. What is left out of a text is a byte each.
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
    text = " ".join(line.strip() for line in message.splitlines() if line.strip())
    return text if len(text) <= MAX_MESSAGE_LENGTH else text[:MAX_MESSAGE_LENGTH] + "..."


def _source_line_with_caret(span: Span) -> str:
    """The line, or what is near the caret if it is long."""
    line_start = span.input.get_start_of_line(span.start)
    line_end = span.input.get_end_of_line(span.start)
    start, end = line_start, line_end
    if line_end - line_start > MAX_LINE_LENGTH:
        start = max(line_start, span.start - MAX_LINE_LENGTH // 2)
        end = min(line_end, start + MAX_LINE_LENGTH)
    head = ("..." if start > line_start else "") + excerpt(span.input, start, span.start)
    tail = excerpt(span.input, span.start, end) + ("..." if end < line_end else "")
    indent = "".join(c if c == "\t" else " " for c in head)
    return f"{(head + tail).rstrip()}\n{indent}^\n"


@dataclass
class ExpectedDiagnostic:
    """What an `expected-error` annotation, or one of its kind, asks for."""

    severity: Severity
    text: str
    is_regex: bool
    line: int | None
    """The line to find it on, or None for one without a place in the file."""
    location: Location
    """The annotation itself."""
    was_produced: bool = field(default=False, init=False)

    def matches(self, diagnostic: Diagnostic) -> bool:
        """
        Whether the text of a diagnostic, whatever its severity, is as expected.

        Raises re.error if the regular expression of the annotation is malformed.
        """
        if diagnostic.line != self.line:
            return False
        if not self.is_regex:
            return self.text in diagnostic.message
        return re.search(_regex_of(self.text), diagnostic.message) is not None


def _regex_of(text: str) -> str:
    """Literal text, in which what is between double braces is a regular expression."""
    pieces = re.split(r"\{\{(.*?)\}\}", text)
    return "".join(
        f"(?:{piece})" if number % 2 else re.escape(piece) for number, piece in enumerate(pieces)
    )


class DiagnosticVerifier(DiagnosticHandler):
    """
    Compares diagnostics with the annotations in a text.

    An annotation is `expected-error {{text}}` in a comment, with `warning`, `remark` or
    `note` in place of `error`. It speaks of its own line, or of another with `@+1`,
    `@-1`, `@above`, `@below` or `@unknown` before the text. `expected-error-re` has
    regular expressions between double braces inside its text.
    """

    has_failed: bool

    def __init__(self, text: Input[str], first_line: int, printer: DiagnosticHandler) -> None:
        """What is wrong with the diagnostics of `text` is given to `printer`."""
        self.has_failed = False
        self._printer = printer
        self._expected = list(_expected_diagnostics(text, first_line))

    @override
    def emit(self, diagnostic: Diagnostic) -> None:
        """Take a diagnostic, and tell if no annotation is there for it."""
        message = f"unexpected {diagnostic.severity}: {diagnostic.message}"
        for expected in self._expected:
            if not self._matches(expected, diagnostic):
                continue
            if expected.severity is diagnostic.severity:
                expected.was_produced = True
                return
            message = (
                f"'{diagnostic.severity}' diagnostic emitted when expecting a '{expected.severity}'"
            )
        self._fail(message, diagnostic.location)

    def finish(self) -> bool:
        """Tell of what was expected in vain; whether all was as expected."""
        for expected in self._expected:
            if not expected.was_produced:
                self._fail(
                    f'expected {expected.severity} "{expected.text}" was not produced',
                    expected.location,
                )
        return not self.has_failed

    def _matches(self, expected: ExpectedDiagnostic, diagnostic: Diagnostic) -> bool:
        try:
            return expected.matches(diagnostic)
        except re.error as error:
            self._fail(f"invalid regex: {error}", expected.location)
            return False

    def _fail(self, message: str, location: Location) -> None:
        self.has_failed = True
        self._printer.error(message, location)


_ANNOTATION = re.compile(
    r"expected-(?P<severity>error|warning|remark|note)(?P<regex>-re)? *"
    r"(?:@(?P<line>[+-][0-9]+|above|below|unknown))? *(?=\{\{)"
)


def _expected_diagnostics(text: Input[str], first_line: int) -> Iterator[ExpectedDiagnostic]:
    """As in upstream, `above` and `below` skip lines with annotations."""
    above, below, start = 0, list[ExpectedDiagnostic](), 0
    for number, line in enumerate(text.content.split("\n"), first_line):
        annotations = list(_ANNOTATION.finditer(line))
        if not annotations:
            for expected in below:
                expected.line = number
            above, below = number, []
        ends = [*(match.start() for match in annotations[1:]), len(line)]
        for match, end in zip(annotations, ends, strict=False):
            text_end = line.rfind("}}", match.end() + 2, end)
            if text_end < 0:
                continue
            expected = ExpectedDiagnostic(
                severity=Severity(match["severity"]),
                text=line[match.end() + 2 : text_end],
                is_regex=match["regex"] is not None,
                line=_annotated_line(match["line"], number, above),
                location=Span(start + match.start(), start + text_end, text, first_line - 1),
            )
            if match["line"] == "below":
                below.append(expected)
            yield expected
        start += len(line) + 1


def _annotated_line(designator: str | None, line: int, above: int) -> int | None:
    match designator:
        case None | "below":
            return line
        case "above":
            return above
        case "unknown":
            return None
        case offset:
            return line + int(offset)


def reason_of(error: OSError | ValueError) -> str:
    """What the system says of a file, without its name."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
