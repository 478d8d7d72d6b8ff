"""What the line of an operation says, whatever the names of its values and its elements are."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from xdsl.dialects.builtin import (
    AnyDenseElement,
    DenseIntOrFPElementsAttr,
    LocationAttr,
    RankedStructure,
)
from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation
from xdsl.parser import Position
from xdsl.utils.lexer import Input, Span
from xdsl.utils.mlir_lexer import MLIRTokenKind

from qdialect.ir.dense_attributes import dense_of_bytes
from qdialect.text.lexer import TextToken
from qdialect.text.plain_lists import bytes_of_plain_list

MAX_LINE_LENGTH = 2000
"""Longer lines are mostly numbers, and finding the names in them takes long."""

_VALUE: Final = re.compile(r"%([0-9]+|[A-Za-z$._-][A-Za-z0-9$._-]*)")

_OPENING: Final = "dense<"
_LEFT_OUT: Final = "\v"
"""What the key of a line has in place of the elements of a constant."""


class OpLine(NamedTuple):
    """The line of an operation, from its first token on."""

    start: Position
    end: Position
    pieces: Sequence[str]
    """What is between names, and the names without the percent sign, in turns."""

    elements: str | None
    """What is between `dense<` and `>`, if no name is after it; `pieces` have it no more."""

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
    def at(cls, token: TextToken, *, leave_elements_out: bool) -> OpLine | None:
        """The line that starts with `token`, if it ends, and is short."""
        content, start = token.input.content, token.start
        end = content.find("\n", start, start + MAX_LINE_LENGTH)
        if end < 0:
            return None
        line, elements = content[start:end], None
        if leave_elements_out:
            before, opening, dense = line.partition(_OPENING)
            listed, closing, after = dense.partition(">")
            if closing and "%" not in dense and _OPENING not in after:
                line, elements = before + opening + _LEFT_OUT + closing + after, listed
        return cls(start, end, _VALUE.split(line), elements)


class ListedElements(NamedTuple):
    """How the elements in a line are read, and where an operation keeps them."""

    is_property: bool
    name: str
    type: RankedStructure[AnyDenseElement]
    """Of the attribute."""

    listed_type: AnyDenseElement
    """Of what is listed, which may have a sign where the attribute has none."""

    def read(self, listed: str) -> DenseIntOrFPElementsAttr[Any] | None:
        """The attribute; None if it takes more than a short list to say what is listed."""
        data = bytes_of_plain_list(listed, self.listed_type, self.type.get_shape())
        return None if data is None else dense_of_bytes(self.type, data)

    @classmethod
    def of(cls, op: Operation, listed: str) -> ListedElements | None:
        """Those of an operation that holds what is listed at one place, and no other."""
        held = [
            (is_property, name, cast(DenseIntOrFPElementsAttr[AnyDenseElement], attribute))
            for is_property, attributes in ((True, op.properties), (False, op.attributes))
            for name, attribute in attributes.items()
            if isinstance(attribute, DenseIntOrFPElementsAttr)
        ]
        if len(held) != 1:
            return None
        ((is_property, name, attribute),) = held
        type = attribute.type
        listed_type = op.listed_type if isinstance(op, ListsElements) else type.element_type
        elements = cls(is_property, name, type, listed_type)
        return elements if elements.read(listed) == attribute else None


class FormsDiffer(ABC):
    """For the classes of operations whose custom form depends on the version of MLIR."""

    @property
    @abstractmethod
    def forms_differ(self) -> bool:
        """Whether the custom form of this one does, so that it is printed in generic form."""


class ReadsItsLine:
    """For the classes of operations whose own parser reads nothing but their line."""


class ListsElements(ReadsItsLine, ABC):
    """For those of which the line may list the elements of a constant."""

    @property
    @abstractmethod
    def listed_type(self) -> AnyDenseElement:
        """The type of the numbers that their text lists."""


class OpForm(NamedTuple):
    """What a line says of an operation, which differs in its operands and elements only."""

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
    elements: ListedElements | None
    followers: set[str]
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
    if isinstance(op, ReadsItsLine):
        return True
    if not isinstance(op, IRDLOperation):
        return False
    definition = op.get_irdl_definition()
    return definition.assembly_format is not None and not definition.custom_directives


def follower(token: TextToken) -> str:
    """What decides whether a token is read as a part of the operation before it."""
    return token.text[0] if token.text.startswith(("%", "^")) else token.text
