"""
`qdialect-opt`: xDSL's dialects and passes with qdialect's, under mlir-opt's habits.

https://mlir.llvm.org/docs/Tutorials/MlirOpt/ describes them. Whatever is not needed for what
the command line asks for is not imported: most of the time of a small run is imports.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from qdialect.tools.command_line import help_text, parse_arguments, version_text
from qdialect.tools.tool_error import TOOL, ToolError, reason_of

RECURSION_LIMIT = 4000
"""Enough for some 400 nested regions; the stack of a process has room for many more."""

EXIT_SUCCESS, EXIT_FAILURE = 0, 1
EXIT_INTERRUPTED, EXIT_CLOSED_PIPE = 130, 141
"""What a shell makes of SIGINT and SIGPIPE, which end mlir-opt."""


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run the tool with these arguments, or those of the process.

    Returns the exit status: 0, or 1 if there was an error, which is on standard error.
    """
    recursion_limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(recursion_limit, RECURSION_LIMIT))
    try:
        return _run(sys.argv[1:] if argv is None else argv)
    except BrokenPipeError:
        _drop_output()
        return EXIT_CLOSED_PIPE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    finally:
        sys.setrecursionlimit(recursion_limit)


def _run(arguments: Sequence[str]) -> int:
    try:
        options = parse_arguments(arguments)
        if options.help or options.version:
            print(help_text() if options.help else version_text(), flush=True)
            return EXIT_SUCCESS
        from qdialect.tools.compilation import process

        return EXIT_SUCCESS if process(options) else EXIT_FAILURE
    except ToolError as error:
        sys.stderr.write(f"{TOOL}: error: {error}\n")
    except BrokenPipeError:
        raise
    except OSError as error:
        _drop_output()
        sys.stderr.write(f"{TOOL}: error: cannot write the output: {reason_of(error)}\n")
    return EXIT_FAILURE


def _drop_output() -> None:
    """Have what is still buffered for a stream that is closed go nowhere."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
