"""
The diagnostics that a text expects, in the comments of tests.

The annotations are mlir-opt's: https://mlir.llvm.org/docs/Diagnostics/.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from typing_extensions import override
from xdsl.utils.lexer import Input, Span

from qdialect.opt.diagnostics import Diagnostic, DiagnosticHandler, Location, Severity


@dataclass
class ExpectedDiagnostic:
    """An `expected-error` annotation, or one of another severity."""

    severity: Severity
    text: str
    is_regex: bool
    line: int | None
    """The line of the diagnostic; None for a diagnostic without a location."""
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
    """Literal text with regular expressions between double braces."""
    parts, start = list[str](), 0
    while (opening := text.find("{{", start)) >= 0 and (end := text.find("}}", opening + 2)) >= 0:
        parts += re.escape(text[start:opening]), f"(?:{text[opening + 2 : end]})"
        start = end + 2
    return "".join([*parts, re.escape(text[start:])])


class DiagnosticVerifier(DiagnosticHandler):
    """
    Compares diagnostics with the annotations in a text.

    An annotation is `expected-error {{text}}` in a comment, with `warning`, `remark` or
    `note` in place of `error`. It applies to its own line, or to another one with `@+1`,
    `@-1`, `@above`, `@below` or `@unknown` before the text. `expected-error-re` has
    regular expressions between double braces inside its text.
    """

    has_failed: bool

    def __init__(self, text: Input[str], first_line: int, printer: DiagnosticHandler) -> None:
        """Mismatches with the annotations of `text` go to `printer`."""
        self.has_failed = False
        self._printer = printer
        self._expected = list(_expected_diagnostics(text, first_line))

    @override
    def emit(self, diagnostic: Diagnostic) -> None:
        """Take a diagnostic; it is an error if no annotation expects it."""
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
        """Report missing diagnostics. Returns whether all diagnostics were as expected."""
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
    r"expected-(?P<severity>error|warning|remark|note)(?P<regex>-re)? *+"
    r"(?:@(?P<line>[+-][0-9]++|above|below|unknown) *+)?(?=\{\{)"
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
