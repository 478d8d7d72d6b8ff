"""What is wrong outside the text: the command line, a file."""

from __future__ import annotations

TOOL = "qdialect-opt"
"""The name that the tool's own errors begin with."""


class ToolError(Exception):
    """Something wrong outside the text: the command line, a file."""


def reason_of(error: OSError | ValueError) -> str:
    """What the system says of a file, without its name."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
