"""Reads texts through another tool, which prints them in generic form."""

from __future__ import annotations

import shlex
from contextlib import ExitStack
from tempfile import TemporaryFile
from typing import BinaryIO, Final, cast

from qdialect.opt.child_processes import child_process
from qdialect.opt.tool_error import ToolError, reason_of
from qdialect.text.source import AbridgedInput, abridge

_PRINT_GENERIC: Final = "--mlir-print-op-generic"


def read_with(command: str, path: str) -> AbridgedInput:
    """
    The output of a command for a file, in generic form; `-` is standard input.

    The command is split like in a shell. The flag for generic form and the path are appended to its
    arguments, as for `mlir-opt`. Raises ToolError if it fails or prints nothing, and NotUTF8Error.
    """
    try:
        arguments = shlex.split(command)
    except ValueError as error:
        raise ToolError(f"--read-with: '{command}' is not a valid command: {error}") from None
    if not arguments:
        raise ToolError("--read-with: the command is empty")
    program = arguments[0]
    name = f"{'<stdin>' if path == '-' else path} as {program} prints it"
    # A full pipe that nobody reads would block the command.
    with TemporaryFile() as messages:
        with ExitStack() as children:
            child = child_process([*arguments, _PRINT_GENERIC, path], stderr=messages)
            try:
                process = children.enter_context(child)
            except (OSError, ValueError) as error:
                reason = f"cannot run '{program}': {reason_of(error)}"
                raise ToolError(f"--read-with: {reason}") from None
            text = abridge(cast(BinaryIO, process.stdout), name)
        messages.seek(0)
        told = messages.read(1 << 16).decode(errors="replace").splitlines()
    if process.returncode:
        said = next((line for line in told if "error" in line), told[0] if told else "")
        status = f"'{program}' ended with status {process.returncode}"
        raise ToolError(f"--read-with: {status}{said and ': '}{said}")
    if not text.content.strip():
        raise ToolError(f"--read-with: '{program}' printed nothing")
    return text
