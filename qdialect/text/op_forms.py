"""Cached forms of operations: a line of text without the names of values and the elements."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
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
from xdsl.printer import Printer
from xdsl.utils.lexer import Input, Span
from xdsl.utils.mlir_lexer import MLIRTokenKind

from qdialect.ir.elements import dense_of_bytes
from qdialect.text.lexer import TextToken
from qdialect.text.plain_lists import bytes_of_plain_list

MAX_LINE_LENGTH = 2000
"""
Longer lines are not cached: they consist mostly of numbers, and searching them for names is
slow.
"""

_VALUE: Final = re.compile(r"%([0-9]+|[A-Za-z$._-][A-Za-z0-9$._-]*)")

_OPENING: Final = "dense<"
_LEFT_OUT: Final = "\v"
"""The placeholder for the elements of a constant in the key of a line."""


class OpLine(NamedTuple):
    """The line of an operation, from its first token on."""

    start: Position
    end: Position
    pieces: Sequence[str]
    """The text between names, alternating with the names, without the percent sign."""

    elements: str | None
    """The text between `dense<` and `>` if no name follows it; it is not part of `pieces`."""

    @property
    def key(self) -> str:
        """
        The cache key: the line with each name replaced by a line break, which occurs nowhere
        else.
        """
        return "\n".join(self.pieces[::2])

    @property
    def names(self) -> Sequence[str]:
        """The names of results and operands."""
        return self.pieces[1::2]

    def position_after(self, names: int) -> Position:
        """The position after the first `names` names."""
        return self.start + sum(map(len, self.pieces[: 2 * names])) + names

    def span(self, name: int, input: Input[str]) -> Span[str]:
        """The span of a name, including the percent sign."""
        start = self.position_after(name) + len(self.pieces[2 * name])
        return Span(start, self.position_after(name + 1), input)

    @classmethod
    def at(cls, token: TextToken, *, leave_elements_out: bool) -> OpLine | None:
        """The line that starts with `token`; None if it is too long or has no line break."""
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
    """How the elements in a line are read, and which attribute of the operation holds them."""

    is_property: bool
    name: str
    type: RankedStructure[AnyDenseElement]
    """The type of the attribute."""

    listed_type: AnyDenseElement
    """
    The type that listed elements are read as, which may be signed where the attribute is
    signless.
    """

    def read(self, listed: str) -> DenseIntOrFPElementsAttr[Any] | None:
        """
        The attribute that holds the elements `listed`; None if they are not a short plain list.
        """
        data = bytes_of_plain_list(listed, self.listed_type, self.type.get_shape())
        return None if data is None else dense_of_bytes(self.type, data)

    @classmethod
    def of(cls, op: Operation, listed: str) -> ListedElements | None:
        """The elements of an operation with exactly one dense attribute, which holds `listed`."""
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


class PrintedForm(StrEnum):
    """The form in which ops are printed, if their custom form holds all of them."""

    CUSTOM = "custom"
    """The custom form of xDSL."""

    AS_READ = "as-read"
    """The form in which an op was read; of an op that a pass made, the custom form."""

    LLVM24 = "llvm24"
    """
    The custom form, but the generic form of ops of LLVM whose custom form LLVM 24 rejects, and
    LLVM 22 accepts: those with properties in their attribute dictionary.
    """

    GENERIC = "generic"
    """The generic form."""


class KnowsItsForms:
    """A base class of operations that know what their custom form holds, and who reads it."""

    @property
    def has_custom_form(self) -> bool:
        """Whether a custom form holds all of the operation; or else the generic form is printed."""
        return True

    @property
    def is_form_of_llvm22(self) -> bool:
        """Whether LLVM 24 rejects the custom form."""
        return False


class OwnForm(ABC):
    """
    A base class of operations whose custom form this package's printer writes.

    xDSL's printers write generic form, which also expresses ops that the custom form cannot.
    """

    @abstractmethod
    def own_form(self) -> Callable[[Printer], object] | None:
        """What prints the op after its name; None if its custom form cannot express it."""


class ReadsItsLine:
    """A base class of operations whose `parse` reads nothing but the line of the operation."""


class ListsElements(ReadsItsLine, ABC):
    """A base class of operations whose line may list the elements of a constant."""

    @property
    @abstractmethod
    def listed_type(self) -> AnyDenseElement:
        """The type of the numbers in the list."""


class OpForm(NamedTuple):
    """The cached form of a line: an operation without its operands and elements."""

    op_type: type[Operation]
    dialect_stack: Sequence[str]
    name_offset: int
    """The offset of the operation's name from the end of the last result's name."""

    name_length: int
    result_sizes: Sequence[int]
    operands: Sequence[tuple[int, int, Attribute]]
    """
    For each operand: the index of its name in the line, the index of the value under that name,
    and its type.
    """

    result_types: Sequence[Attribute]
    properties: Mapping[str, Attribute]
    attributes: Mapping[str, Attribute]
    location: LocationAttr
    elements: ListedElements | None
    followers: set[str]
    """The next tokens after the line that are known not to continue the operation."""


def depends_on_line_only(op: Operation, name: TextToken) -> bool:
    """
    Whether the line of an operation determines everything but its operands.

    False for operations with regions or successors, and for operations with a hand-written
    parser, which may read other state, unless they are a ReadsItsLine.
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
    """The part of a token that decides whether it continues the operation before it."""
    return token.text[0] if token.text.startswith(("%", "^")) else token.text
