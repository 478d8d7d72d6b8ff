"""Text: repetition in regular expressions, and a buffer that writes in large pieces."""

from __future__ import annotations

import io
from typing import IO

from typing_extensions import override


def repeated(pattern: str) -> str:
    """
    A regular expression for zero or more of `pattern`, without backtracking.

    It replaces a possessive quantifier of a group, which is wrong in Python before 3.11.5: if the
    group fails midway, the rest is matched from there. An atomic group stores each repetition until
    it ends, so it is matched in steps of a thousand, which bounds its memory.
    """
    return rf"(?>(?>(?:{pattern}){{1,1000}})*)"


LONG_TEXT = 1 << 16
"""Longer pieces bypass the buffer."""


class TextBuffer(io.StringIO):
    """A buffer of text, flushed to a stream in large pieces."""

    def __init__(self, stream: IO[str] | None) -> None:
        super().__init__()
        self.stream = stream
        self.pieces: list[str] = []
        self.flushes = 0

    @override
    def write(self, s: str, /) -> int:
        self.pieces.append(s)
        if len(s) > LONG_TEXT:
            self.flush()
        return len(s)

    @override
    def flush(self) -> None:
        self.flushes += 1
        if self.pieces:
            text = "".join(self.pieces)
            self.pieces.clear()
            print(text, end="", file=self.stream)
