"""Errors outside the text: of the command line, or of a file; and the exit status of a tool."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence

from qdialect.support.memory import MemoryLimitError

TOOL = "qdialect-opt"
"""The name that the tool's own errors begin with."""

MAX_MESSAGE_LENGTH = 4000

RECURSION_LIMIT = 4000
"""Enough for about 400 nested regions; the stack of a process has room for many more."""

EXIT_SUCCESS, EXIT_FAILURE = 0, 1
EXIT_CLOSED_PIPE = 141
"""The status in a shell of a process that SIGPIPE ended, as it ends mlir-opt."""


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


def run_tool(name: str, run: Callable[[Sequence[str]], bool], argv: Sequence[str] | None) -> int:
    """
    Run a tool with these arguments, or those of the process.

    `run` returns whether there was no error; it may raise ToolError for errors outside of the text,
    and OSError if standard output cannot be written. Returns the exit status: 0, or 1 if there was
    an error, which is on standard error. Raises KeyboardInterrupt, and what a signal handler of the
    caller raises.

    The process is not changed, except for the recursion limit, which is restored.
    """
    recursion_limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(recursion_limit, RECURSION_LIMIT))
    try:
        return EXIT_SUCCESS if run(sys.argv[1:] if argv is None else argv) else EXIT_FAILURE
    except (ToolError, MemoryLimitError) as error:
        message = str(error)
    except SystemExit as end:
        # argparse has printed its help; errors raise ToolError instead. Another status is that of a
        # signal handler of the caller.
        if end.code:
            raise
        return EXIT_SUCCESS
    except BrokenPipeError:
        return EXIT_CLOSED_PIPE
    except OSError as error:
        message = f"cannot write the output: {reason_of(error)}"
    except MemoryError as error:
        # numpy's message has the requested size.
        message = f"out of memory: {error}".rstrip(": ")
    finally:
        sys.setrecursionlimit(recursion_limit)
    # Outside the handlers, the objects that the exception references are freed.
    text = abridged("\n".join(map(printable, message.splitlines())))
    sys.stderr.write(f"{name}: error: {text}\n")
    return EXIT_FAILURE
