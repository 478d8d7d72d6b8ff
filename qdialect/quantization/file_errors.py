"""Errors in a file: the reason, the place, and the remedy."""

from __future__ import annotations

from pathlib import Path

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


def read_text(path: str | Path, remedy: str) -> str:
    """The text of a file. Raises OSError, and FileError where it is not UTF-8."""
    content = Path(path).read_bytes()
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        before = content[: error.start].decode()
        reason = f"byte 0x{content[error.start]:02X} is not UTF-8"
        raise FileError(str(path), before, len(before), reason, remedy) from None
    return text.replace("\r\n", "\n")
