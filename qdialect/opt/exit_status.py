"""From a call of a tool to its exit status."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from qdialect.opt.tool_error import ToolError, abridged, printable, reason_of
from qdialect.support.memory import MemoryLimitError

RECURSION_LIMIT = 4000
"""Enough for about 400 nested regions; the stack of a process has room for many more."""

EXIT_SUCCESS, EXIT_FAILURE = 0, 1
EXIT_CLOSED_PIPE = 141
"""The status in a shell of a process that SIGPIPE ended, as it ends mlir-opt."""


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
    told = abridged("\n".join(map(printable, message.splitlines())))
    sys.stderr.write(f"{name}: error: {told}\n")
    return EXIT_FAILURE
