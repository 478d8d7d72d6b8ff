"""Texts that another tool reads: it prints them in generic form, which is parsed here."""

from __future__ import annotations

import shlex
from contextlib import ExitStack
from tempfile import TemporaryFile
from typing import BinaryIO, Final, cast

from qdialect.text.source import AbridgedInput, abridge
from qdialect.tools.child_processes import child_process
from qdialect.tools.tool_error import ToolError, reason_of

_PRINT_GENERIC: Final = "--mlir-print-op-generic"


def read_with(command: str, path: str) -> AbridgedInput:
    """
    What a command prints of a file in generic form; `-` is standard input.

    The command is split as a shell does it. It gets a flag and the path as its last arguments,
    as `mlir-opt` takes them. Raises ToolError if it fails or prints nothing, and NotUTF8Error.
    """
    try:
        arguments = shlex.split(command)
    except ValueError as error:
        raise ToolError(f"--read-with: '{command}' is no command: {error}") from None
    if not arguments:
        raise ToolError("--read-with: there is no command")
    program = arguments[0]
    name = f"{'<stdin>' if path == '-' else path} as {program} prints it"
    # A pipe that nobody reads would stop the command when it is full.
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
