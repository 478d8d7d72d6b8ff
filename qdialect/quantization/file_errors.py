"""Errors in a file: the reason, the place, and the remedy."""

from __future__ import annotations

from typing_extensions import override


class FileError(ValueError):
    """A file cannot be read: `file:line:column: reason; remedy`, counted from one."""

    def __init__(self, file: str, text: str, offset: int, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.file = file
        self.line = text.count("\n", 0, offset) + 1
        self.column = offset - text.rfind("\n", 0, offset)
        self.reason = reason
        self.remedy = remedy

    @override
    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.reason}; {self.remedy}"
