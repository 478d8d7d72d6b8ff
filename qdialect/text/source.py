"""
Source texts without the digits of long hexadecimal literals.

A constant of 256 MiB has 512 MiB of digits. The lexer never sees them: a source is read in
pieces, and digits are decoded immediately and dropped. The file may change after it has been
read.
"""

from __future__ import annotations

import binascii
import os
import stat
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from errno import ESTALE
from functools import cached_property
from io import BytesIO
from typing import BinaryIO, Final, NamedTuple

from typing_extensions import override
from xdsl.utils.lexer import Input, Location, Position, Span

MIN_OMITTED_DIGITS = 1024
"""The minimum number of digits of a literal that is worth taking out."""

_PREFIXES: Final = (b"dense<", b": ")
"""The text before the literal of a constant and before a blob, as MLIR writes it."""

_OPENING: Final = b'"0x'
_LONGEST_PREFIX: Final = max(map(len, _PREFIXES))

_PIECE: Final = 1 << 20
"""The number of bytes read at once, to stay in cache."""


class NotUTF8Error(UnicodeDecodeError):
    """A source is not UTF-8."""

    readable: AbridgedInput
    """The text, with a replacement character for each invalid sequence."""

    position: Position
    """The position of the first invalid sequence in `readable`."""


class HexDigits:
    """The digits of a literal, stored as the bytes that they encode if possible."""

    def __init__(self) -> None:
        self.count = 0
        """The number of digits."""

        self._bytes = BytesIO()
        self._odd = b""
        self._is_lower: bool | None = None
        self._raw: list[bytes] | None = None
        self._data: bytes | None = None

    def add(self, digits: bytes) -> None:
        """Append digits."""
        self.count += len(digits)
        if self._raw is not None:
            self._raw.append(digits)
            return
        is_lower = self._is_lower
        if any(digit in digits for digit in b"abcdef"):
            is_lower = is_lower is not False
            is_mixed = not is_lower or any(digit in digits for digit in b"ABCDEF")
        else:
            is_mixed = is_lower is True and any(digit in digits for digit in b"ABCDEF")
            if is_lower is None and not digits.isdigit():
                is_lower = False
        pairs = self._odd + digits if self._odd else digits
        end = len(pairs) & ~1
        try:
            if is_mixed:
                raise ValueError
            self._bytes.write(binascii.unhexlify(memoryview(pairs)[:end]))
        except ValueError:
            self._raw = [self.raw, digits]
            return
        self._odd, self._is_lower = pairs[end:], is_lower

    @property
    def data(self) -> bytes | None:
        """The bytes that they encode; None if they are not pairs of hexadecimal digits."""
        if self._raw is not None:
            try:
                return binascii.unhexlify(b"".join(self._raw))
            except ValueError:
                return None
        if self._odd:
            return None
        if self._data is None:
            self._data = self._bytes.getvalue()
            self._bytes.close()
        return self._data

    @property
    def raw(self) -> bytes:
        """The digits as they are written."""
        if self._raw is not None:
            return b"".join(self._raw)
        data = self._bytes.getvalue() if self._data is None else self._data
        digits = binascii.hexlify(data)
        # The last one of an odd number may be another letter.
        return (digits if self._is_lower else digits.upper()) + self._odd

    def forget(self) -> None:
        """Release `data`, which is held elsewhere; keep only the number of digits."""
        self._data, self._raw, self._bytes = b"", None, BytesIO()


class Omission(NamedTuple):
    """The digits of a literal that were taken out of a text."""

    position: Position
    """Their position in the abridged text: after `"0x`."""

    digits: HexDigits
    """The text between `0x` and the quote."""


@dataclass(frozen=True)
class AbridgedInput(Input):
    """
    A text without the digits of its long literals, which are abridged to `"0x"`.

    A parser that calls `decode` at each of them reads the meaning of the whole text.
    `is_decoded` tells whether it did so for all.
    """

    omissions: tuple[Omission, ...] = field(default=(), repr=False, compare=False)
    """The omissions, in the order of the text."""

    _decoded: set[Position] = field(
        default_factory=set[Position], init=False, repr=False, compare=False
    )

    @cached_property
    def _positions(self) -> list[Position]:
        return [omission.position for omission in self.omissions]

    def decode(self, position: Position) -> bytes | None:
        """
        The bytes encoded by the digits taken out at `position`, after `0x`.

        None if there were none, or if they are not pairs of hexadecimal digits.
        """
        index = bisect_left(self._positions, position)
        if index == len(self._positions) or self._positions[index] != position:
            return None
        data = self.omissions[index].digits.data
        if data is not None:
            self._decoded.add(position)
        return data

    @property
    def is_decoded(self) -> bool:
        """Whether all omitted digits have been decoded."""
        return len(self._decoded) == len(self.omissions)

    def forget(self) -> None:
        """Release the decoded bytes of all omissions, which are held elsewhere."""
        for omission in self.omissions:
            omission.digits.forget()

    def omitted_on_line(self, position: Position) -> int:
        """The number of digits taken out before `position` on the same line."""
        first = bisect_left(self._positions, self.get_start_of_line(position))
        last = bisect_left(self._positions, position)
        return sum(omission.digits.count for omission in self.omissions[first:last])

    def part(self, start: Position, end: Position) -> AbridgedInput:
        """The input between two positions, neither of which is inside a literal."""
        first, last = (bisect_left(self._positions, position) for position in (start, end))
        return AbridgedInput(
            self.content[start:end],
            self.name,
            tuple(
                Omission(omission.position - start, omission.digits)
                for omission in self.omissions[first:last]
            ),
        )

    @property
    def whole_text(self) -> str:
        """The text with all its digits. Raises UnicodeDecodeError if they are not UTF-8."""
        return self.excerpt(0, self.len, lambda omission: omission.digits.raw.decode())

    def excerpt(
        self,
        start: Position,
        end: Position,
        stand_in: Callable[[Omission], str] = lambda omission: "...",
    ) -> str:
        """The text between two positions, with `stand_in` in place of each omission."""
        first, last = (bisect_left(self._positions, position) for position in (start, end))
        pieces: list[str] = []
        for omission in self.omissions[first:last]:
            pieces += [self.content[start : omission.position], stand_in(omission)]
            start = omission.position
        return "".join([*pieces, self.content[start:end]])


class AbridgedSpan(Span):
    """A span of an abridged text that reports its location in the whole text."""

    @override
    def get_location(self) -> Location:
        """The file, and the line and column in it, counted from 1."""
        location = super().get_location()
        return location._replace(col=location.col + omitted_before(self))

    @override
    def print_with_context(self, msg: str | None = None) -> str:
        """The location and the abridged line, with a mark below the span."""
        abridged = Span(self.start, self.end, self.input, self.line_offset)
        context = abridged.print_with_context(msg).partition("\n")[2]
        return f"{self.get_location()}\n{context}"


def omitted_before(span: Span) -> int:
    """The number of characters taken out of the line of a span, before the span."""
    if isinstance(span.input, AbridgedInput):
        return span.input.omitted_on_line(span.start)
    return 0


def excerpt(text: Input, start: Position, end: Position) -> str:
    """The text between two positions, with `...` in place of digits taken out."""
    if isinstance(text, AbridgedInput):
        return text.excerpt(start, end)
    return text.content[start:end]


def read_text(path: str | os.PathLike[str]) -> AbridgedInput:
    """
    The text of a file without the digits of its long literals.

    Raises OSError, also if the file changes while it is read, ValueError for a malformed path,
    and NotUTF8Error.
    """
    with open(path, "rb", buffering=0) as file:
        before = os.fstat(file.fileno())
        text = abridge(file, os.fspath(path))
        after = os.fstat(file.fileno())
        # Special files may report size 0.
        if stat.S_ISREG(before.st_mode) and before.st_size:
            states = [(state.st_size, state.st_mtime_ns) for state in (before, after)]
            if states[0] != states[1] or file.tell() != before.st_size:
                raise OSError(ESTALE, "it changed while it was read")
    return text


def abridge(source: bytes | BinaryIO, name: str) -> AbridgedInput:
    """
    The text in `source` without the digits of its long literals.

    Raises NotUTF8Error, and OSError if the stream does.
    """
    scanner = _Scanner(BytesIO(source) if isinstance(source, bytes) else source)
    scanner.scan()
    try:
        return scanner.text(name, "strict")
    except UnicodeDecodeError as error:
        refusal = NotUTF8Error(error.encoding, error.object, error.start, error.end, error.reason)
        refusal.position = scanner.decoded + len(error.object[: error.start].decode())
        refusal.readable = scanner.text(name, "replace")
        raise refusal from None


class _Scanner:
    """Reads a stream, and takes the digits of long literals out of its text."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._kept: list[bytes] = []
        self._pieces: list[bytes] = []
        self._omitted: list[HexDigits] = []
        self._window = b""
        """The bytes read but not yet processed: scanned up to `_next`, stored up to `_start`."""
        self._start: int = 0
        self._next: int = 0
        self._is_at_end = False
        self.decoded = 0
        """The number of characters in the pieces that `text` has decoded."""

    def scan(self) -> None:
        """Read all of the stream."""
        while self._scan_to_literal():
            self._scan_literal()
        self._kept.append(self._window[self._start :])
        self._pieces.append(b"".join(self._kept))

    def text(self, name: str, errors: str) -> AbridgedInput:
        """The text read by `scan`. Raises UnicodeDecodeError."""
        parts: list[str] = []
        omissions: list[Omission] = []
        self.decoded = 0
        for index, piece in enumerate(self._pieces):
            parts.append(piece.decode(errors=errors))
            self.decoded += len(parts[-1])
            if index < len(self._omitted):
                omissions.append(Omission(self.decoded, self._omitted[index]))
        return AbridgedInput("".join(parts), name, tuple(omissions))

    def _read(self) -> bool:
        """Read the next piece into the window, and drop the scanned part; false at the end."""
        piece = b"" if self._is_at_end else self._stream.read(_PIECE)
        if not piece:
            self._is_at_end = True
            return False
        # Keep enough of the window to match the prefix of a literal.
        first = max(self._next - _LONGEST_PREFIX, self._start)
        self._kept.append(self._window[self._start : first])
        self._window = self._window[first:] + piece
        self._start, self._next = 0, self._next - first
        return True

    def _scan_to_literal(self) -> bool:
        """Advance to the digits of the next literal; false if there is none."""
        # Searching for a single character is fastest.
        while True:
            quote = self._window.find(b'"', self._next)
            if quote < 0:
                self._next = len(self._window)
                if not self._read():
                    return False
                continue
            self._next = quote
            digits = quote + len(_OPENING)
            if len(self._window) < digits + MIN_OMITTED_DIGITS and self._read():
                continue
            end = self._window.find(b'"', quote + 1, digits + MIN_OMITTED_DIGITS)
            is_long = end < 0 and len(self._window) >= digits + MIN_OMITTED_DIGITS
            if is_long and self._is_literal(quote):
                self._kept.append(self._window[self._start : digits])
                self._start = self._next = digits
                return True
            self._next = quote + 1 if end < 0 else end

    def _is_literal(self, quote: int) -> bool:
        before = self._window[max(quote - _LONGEST_PREFIX, 0) : quote]
        return before.endswith(_PREFIXES) and self._window.startswith(_OPENING, quote)

    def _scan_literal(self) -> None:
        """Take the digits out, up to the closing quote; without a closing quote, keep them."""
        digits = HexDigits()
        while (end := self._window.find(b'"', self._next)) < 0:
            digits.add(self._window[self._next :])
            self._start = self._next = len(self._window)
            if not self._read():
                self._kept.append(digits.raw)
                return
        digits.add(self._window[self._next : end])
        self._pieces.append(b"".join(self._kept))
        self._omitted.append(digits)
        self._kept.clear()
        # Skip the closing quote, which does not open a literal.
        self._start, self._next = end, end + 1
