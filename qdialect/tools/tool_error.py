"""Errors outside the text: of the command line, or of a file."""

from __future__ import annotations

from collections.abc import Iterable

TOOL = "qdialect-opt"
"""The name that the tool's own errors begin with."""


MAX_MESSAGE_LENGTH = 4000


class ToolError(Exception):
    """An error outside the text: of the command line, or of a file."""


def printable(text: str) -> str:
    """`text` with escapes for control characters, which a terminal would obey."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c == "\t" else c.encode("unicode_escape").decode() for c in text
    )


def abridged(message: str) -> str:
    """A message, cut to the length that is printed."""
    is_short = len(message) <= MAX_MESSAGE_LENGTH
    return message if is_short else message[:MAX_MESSAGE_LENGTH] + "..."


def reason_of(error: OSError | ValueError) -> str:
    """The message of the system about a file, without its name."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def did_you_mean(name: str, known: Iterable[str], prefix: str = "") -> str:
    """The end of a message about a name that there is not: the nearest one, if any is near."""
    # Only messages about wrong names need it (7 ms).
    from difflib import get_close_matches

    close = get_close_matches(name, list(known), n=1)
    return f"; did you mean '{prefix}{close[0]}'?" if close else ""
