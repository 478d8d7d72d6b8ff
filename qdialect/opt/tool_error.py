"""Errors outside the text: of the command line, or of a file."""

from __future__ import annotations

from collections.abc import Iterable

TOOL = "qdialect-opt"
"""The name that the tool's own errors begin with."""


MAX_MESSAGE_LENGTH = 4000


class ToolError(Exception):
    """An error outside the text: of the command line, or of a file."""


def printable(text: str) -> str:
    """`text` with control characters escaped, which a terminal would interpret."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c == "\t" else c.encode("unicode_escape").decode() for c in text
    )


def abridged(message: str) -> str:
    """A message, truncated to the maximum length."""
    is_short = len(message) <= MAX_MESSAGE_LENGTH
    return message if is_short else message[:MAX_MESSAGE_LENGTH] + "..."


def reason_of(error: OSError | ValueError) -> str:
    """The system's error message about a file, without the name of the file."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def did_you_mean(name: str, known: Iterable[str], prefix: str = "") -> str:
    """The end of a message about an unknown name: the closest known name, if any is close."""
    # Only messages about unknown names need it (7 ms).
    from difflib import get_close_matches

    close = get_close_matches(name, list(known), n=1)
    return f"; did you mean '{prefix}{close[0]}'?" if close else ""
