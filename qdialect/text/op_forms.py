"""What the line of an operation says, whatever the names of its values are."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation
from xdsl.parser import Position
from xdsl.utils.lexer import Input, Span
from xdsl.utils.mlir_lexer import MLIRTokenKind

from qdialect.text.lexer import TextToken

MAX_LINE_LENGTH = 2000
"""Longer lines are mostly numbers, and finding the names in them takes long."""

_VALUE: Final = re.compile(r"%([0-9]+|[A-Za-z$._-][A-Za-z0-9$._-]*)")


@dataclass(frozen=True, slots=True)
class OpLine:
    """The line of an operation, from its first token on."""

    start: Position
    end: Position
    pieces: Sequence[str]
    """What is between names, and the names without the percent sign, in turns."""

    @property
    def key(self) -> str:
        """The line with a line break, which it does not have, for each name."""
        return "\n".join(self.pieces[::2])

    @property
    def names(self) -> Sequence[str]:
        """The names of results and operands."""
        return self.pieces[1::2]

    def position_after(self, names: int) -> Position:
        """Where the text after that many names starts."""
        return self.start + sum(map(len, self.pieces[: 2 * names])) + names

    def span(self, name: int, input: Input[str]) -> Span[str]:
        """Where a name is, with its percent sign."""
        start = self.position_after(name) + len(self.pieces[2 * name])
        return Span(start, self.position_after(name + 1), input)

    @classmethod
    def at(cls, token: TextToken) -> OpLine | None:
        """The line that starts with `token`, if it ends, and is short."""
        content, start = token.input.content, token.start
        end = content.find("\n", start, start + MAX_LINE_LENGTH)
        return None if end < 0 else cls(start, end, _VALUE.split(content[start:end]))


@dataclass(frozen=True, slots=True)
class OpForm:
    """What a line says of an operation, which differs in its operands only."""

    op_type: type[Operation]
    dialect_stack: Sequence[str]
    name_offset: int
    """Where the name of the operation is, in what follows the last result."""

    name_length: int
    result_sizes: Sequence[int]
    operands: Sequence[tuple[int, int, Attribute]]
    """Which name of the line each operand has, which of its values it is, and its type."""

    result_types: Sequence[Attribute]
    properties: Mapping[str, Attribute]
    attributes: Mapping[str, Attribute]
    location: LocationAttr
    followers: set[str] = field(default_factory=set[str])
    """What may be behind the line without being read as a part of the operation."""


def depends_on_line_only(op: Operation, name: TextToken) -> bool:
    """
    Whether all of an operation, but for its operands, is in the text that it was read from.

    An operation may have a parser of its own, which may look at anything. What has regions
    or successors is not made of values only.
    """
    if op.regions or op.successors:
        return False
    if name.kind is MLIRTokenKind.STRING_LIT:
        return True
    if not isinstance(op, IRDLOperation):
        return False
    definition = op.get_irdl_definition()
    return definition.assembly_format is not None and not definition.custom_directives


def follower(token: TextToken) -> str:
    """What decides whether a token is read as a part of the operation before it."""
    return token.text[0] if token.text.startswith(("%", "^")) else token.text
