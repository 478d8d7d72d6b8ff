"""What a tool does as a process: its exit status, and what ends it from outside."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

from qdialect.tools.tool_error import ToolError, reason_of

RECURSION_LIMIT = 4000
"""Enough for some 400 nested regions; the stack of a process has room for many more."""

EXIT_SUCCESS, EXIT_FAILURE = 0, 1
EXIT_INTERRUPTED, EXIT_CLOSED_PIPE = 130, 141
"""What a shell makes of SIGINT and SIGPIPE, which end mlir-opt."""


def run_tool(name: str, run: Callable[[Sequence[str]], bool], argv: Sequence[str] | None) -> int:
    """
    Run a tool with these arguments, or those of the process.

    `run` says whether there was no error; it may raise ToolError for what is wrong outside
    of the text, and OSError if standard output cannot be written. Returns the exit status:
    0, or 1 if there was an error, which is on standard error.
    """
    recursion_limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(recursion_limit, RECURSION_LIMIT))
    try:
        return EXIT_SUCCESS if run(sys.argv[1:] if argv is None else argv) else EXIT_FAILURE
    except ToolError as error:
        sys.stderr.write(f"{name}: error: {error}\n")
    except BrokenPipeError:
        _drop_output()
        return EXIT_CLOSED_PIPE
    except OSError as error:
        _drop_output()
        sys.stderr.write(f"{name}: error: cannot write the output: {reason_of(error)}\n")
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    finally:
        sys.setrecursionlimit(recursion_limit)
    return EXIT_FAILURE


def _drop_output() -> None:
    """Have what is still buffered for a stream that is closed go nowhere."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
