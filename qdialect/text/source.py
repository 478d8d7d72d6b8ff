"""
Texts without their long hexadecimal literals, which the lexer need not see.

A constant of 256 MiB is 512 MiB of digits. They are left out of the text that is lexed, and
decoded from where they are in the file, straight into the bytes of the constant.
"""

from __future__ import annotations

import binascii
import mmap
import os
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeAlias

from typing_extensions import override
from xdsl.utils.lexer import Input, Location, Position, Span

MIN_OMITTED_DIGITS = 1024
"""Fewer digits than this are not worth leaving out."""

Source: TypeAlias = bytes | mmap.mmap

_PREFIXES = (b"dense<", b": ")
"""What is before the literal of a constant, and before a blob, where MLIR writes it."""


class Omission(NamedTuple):
    """The digits of a literal that a text does not have."""

    position: Position
    """Where they were: after `"0x`, in the text without them."""

    digits: memoryview
    """What is left out, of the bytes of the source: whatever is between `0x` and the quote."""


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
        try:
            data = binascii.unhexlify(self.omissions[index].digits)
        except binascii.Error:
            return None
        self._decoded.add(position)
        return data

    @property
    def is_decoded(self) -> bool:
        """Whether all that was left out has been decoded."""
        return len(self._decoded) == len(self.omissions)

    def omitted_on_line(self, position: Position) -> int:
        """How many digits were left out before `position`, on the same line."""
        first = bisect_left(self._positions, self.get_start_of_line(position))
        last = bisect_left(self._positions, position)
        return sum(len(omission.digits) for omission in self.omissions[first:last])

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
        return self.excerpt(0, self.len, lambda omission: str(omission.digits, "utf-8"))

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


def read_source(path: str | os.PathLike[str]) -> Source:
    """
    The content of a file; that of a regular one is mapped, not read.

    Raises OSError, and ValueError for a malformed path.
    """
    with open(path, "rb") as file:
        try:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError):
            # It is empty, or a pipe.
            return file.read()


def abridge(source: Source, name: str) -> AbridgedInput:
    """
    The text in `source` without the digits of its long literals.

    Raises UnicodeDecodeError, whose `start` is not that in `source`, if it is not UTF-8.
    """
    view = memoryview(source)
    pieces: list[str] = []
    omissions: list[Omission] = []
    position = last = 0
    for start, end in _long_literals(source):
        pieces.append(str(view[last:start], "utf-8"))
        position += len(pieces[-1])
        omissions.append(Omission(position, view[start:end]))
        last = end
    pieces.append(str(view[last:], "utf-8"))
    return AbridgedInput("".join(pieces), name, tuple(omissions))


def _long_literals(source: Source) -> Iterator[tuple[int, int]]:
    """Where the digits of what looks like a long literal begin and end."""
    # A single character is what is found fastest.
    quote = source.find(b'"')
    while quote >= 0:
        start = quote + len(b'"0x')
        end = source.find(b'"', quote + 1)
        if end - start >= MIN_OMITTED_DIGITS and _is_literal(source, quote):
            yield start, end
            end = source.find(b'"', end + 1)
        quote = end


def _is_literal(source: Source, quote: int) -> bool:
    before = source[max(quote - max(map(len, _PREFIXES)), 0) : quote]
    return before.endswith(_PREFIXES) and source[quote + 1 : quote + 3] == b"0x"
