"""
Texts without their long hexadecimal literals, which the lexer need not see.

A constant of 256 MiB is 512 MiB of digits. They are left out of the text that is lexed: a
source is read in pieces, and what digits stand for is all that is kept of them. What happens to
a file once it is read does not matter.
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
"""Fewer digits than this are not worth leaving out."""

_PREFIXES: Final = (b"dense<", b": ")
"""What is before the literal of a constant, and before a blob, where MLIR writes it."""

_OPENING: Final = b'"0x'
_LONGEST_PREFIX: Final = max(map(len, _PREFIXES))

_PIECE: Final = 1 << 20
"""How many bytes are read at once: what caches hold."""


class NotUTF8Error(UnicodeDecodeError):
    """A source is not UTF-8."""

    readable: AbridgedInput
    """The text, with another character for each that cannot be read."""

    position: Position
    """Where the first of them is in it."""


class HexDigits:
    """The digits of a literal, of which only what they stand for is kept if that is possible."""

    def __init__(self) -> None:
        self.count = 0
        """How many there are."""

        self._bytes = BytesIO()
        self._odd = b""
        self._is_lower: bool | None = None
        self._raw: list[bytes] | None = None
        self._data: bytes | None = None

    def add(self, digits: bytes) -> None:
        """Add what follows, up to the quote."""
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
        """What they stand for; None if they are not pairs of hexadecimal digits."""
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
        digits = binascii.hexlify(data) + self._odd
        return digits if self._is_lower else digits.upper()

    def forget(self) -> None:
        """Keep nothing but their number, once `data` is somewhere else."""
        self._data, self._raw, self._bytes = b"", None, BytesIO()


class Omission(NamedTuple):
    """The digits of a literal that a text does not have."""

    position: Position
    """Where they were: after `"0x`, in the text without them."""

    digits: HexDigits
    """What is left out: whatever is between `0x` and the quote."""


@dataclass(frozen=True)
class AbridgedInput(Input):
    """
    A text without the digits of its long literals, of which `"0x"` is left.

    A parser that decodes them, each where it comes to it, reads what the whole text means.
    `is_decoded` tells whether it has come to all.
    """

    omissions: tuple[Omission, ...] = field(default=(), repr=False, compare=False)
    """In the order of the text."""

    _decoded: set[Position] = field(
        default_factory=set[Position], init=False, repr=False, compare=False
    )

    @cached_property
    def _positions(self) -> list[Position]:
        return [omission.position for omission in self.omissions]

    def decode(self, position: Position) -> bytes | None:
        """
        What the digits stand for that were left out at `position`, after `0x`.

        None if there were none, or what was there are not pairs of hexadecimal digits.
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
        """Whether all that was left out has been decoded."""
        return len(self._decoded) == len(self.omissions)

    def forget(self) -> None:
        """Let go of all that was left out, once it is somewhere else."""
        for omission in self.omissions:
            omission.digits.forget()

    def omitted_on_line(self, position: Position) -> int:
        """How many digits were left out before `position`, on the same line."""
        first = bisect_left(self._positions, self.get_start_of_line(position))
        last = bisect_left(self._positions, position)
        return sum(omission.digits.count for omission in self.omissions[first:last])

    def part(self, start: Position, end: Position) -> AbridgedInput:
        """What is between two positions that no literal is around."""
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
        """What is between two positions, with something where digits were left out."""
        first, last = (bisect_left(self._positions, position) for position in (start, end))
        pieces: list[str] = []
        for omission in self.omissions[first:last]:
            pieces += [self.content[start : omission.position], stand_in(omission)]
            start = omission.position
        return "".join([*pieces, self.content[start:end]])


class AbridgedSpan(Span):
    """A span that knows where it is in the whole text."""

    @override
    def get_location(self) -> Location:
        """The file, and the line and column in it, counted from 1."""
        location = super().get_location()
        return location._replace(col=location.col + omitted_before(self))

    @override
    def print_with_context(self, msg: str | None = None) -> str:
        """The place, and the line without what was left out, with a mark below the span."""
        abridged = Span(self.start, self.end, self.input, self.line_offset)
        context = abridged.print_with_context(msg).partition("\n")[2]
        return f"{self.get_location()}\n{context}"


def omitted_before(span: Span) -> int:
    """How many characters of its line are before a span that its input does not have."""
    if isinstance(span.input, AbridgedInput):
        return span.input.omitted_on_line(span.start)
    return 0


def excerpt(text: Input, start: Position, end: Position) -> str:
    """What is between two positions, with `...` where digits were left out."""
    if isinstance(text, AbridgedInput):
        return text.excerpt(start, end)
    return text.content[start:end]


def read_text(path: str | os.PathLike[str]) -> AbridgedInput:
    """
    The text of a file without the digits of its long literals.

    Raises OSError, also if the file changes meanwhile, ValueError for a malformed path, and
    NotUTF8Error.
    """
    with open(path, "rb", buffering=0) as file:
        before = os.fstat(file.fileno())
        text = abridge(file, os.fspath(path))
        after = os.fstat(file.fileno())
        # A file of the system may have no size.
        if stat.S_ISREG(before.st_mode) and before.st_size:
            states = [(state.st_size, state.st_mtime_ns) for state in (before, after)]
            if states[0] != states[1] or file.tell() != before.st_size:
                raise OSError(ESTALE, "it has changed while it was read")
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
    """Takes the digits of what looks like a long literal out of a stream."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._kept: list[bytes] = []
        self._pieces: list[bytes] = []
        self._omitted: list[HexDigits] = []
        self._window = b""
        """What has been read; it is looked at from `_next`, and kept from `_start`."""
        self._start: int = 0
        self._next: int = 0
        self._is_at_end = False
        self.decoded = 0
        """How many characters are before the part of the text that is decoded last."""

    def scan(self) -> None:
        """Read all of the stream."""
        while self._scan_to_literal():
            self._scan_literal()
        self._kept.append(self._window[self._start :])
        self._pieces.append(b"".join(self._kept))

    def text(self, name: str, errors: str) -> AbridgedInput:
        """What was read. Raises UnicodeDecodeError."""
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
        """Have more in the window, of which what was looked at is let go; whether there is any."""
        piece = b"" if self._is_at_end else self._stream.read(_PIECE)
        if not piece:
            self._is_at_end = True
            return False
        # What may be before a literal is looked at together with it.
        first = max(self._next - _LONGEST_PREFIX, self._start)
        self._kept.append(self._window[self._start : first])
        self._window = self._window[first:] + piece
        self._start, self._next = 0, self._next - first
        return True

    def _scan_to_literal(self) -> bool:
        """Go to the digits of the next literal; false if there is none."""
        # A single character is what is found fastest.
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
        """Take the digits out, up to the quote; if there is none, they are kept."""
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
        # The quote that ends it begins nothing.
        self._start, self._next = end, end + 1
