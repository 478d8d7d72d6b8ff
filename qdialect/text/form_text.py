"""The text of an op in a custom form, as its pieces: see `op_formats`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    StringAttr,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.printer import Printer

Piece = str | Callable[[Printer], object]
"""A part of a text: characters, or what prints them."""

_AFTER_NAMES: Final = frozenset("<>(){}[],")
_AFTER_PUNCTUATION: Final = frozenset(">)}],")
_OPENING: Final = frozenset("<({[")


class FormMismatchError(ValueError):
    """An op that its custom form cannot express; it is printed in generic form."""


@dataclass
class FormText:
    """
    The pieces of an op's text after its name.

    Blanks are where the printers have them that MLIR generates from a declarative format.
    """

    op: Operation
    values: Mapping[str, Sequence[SSAValue]] = field(default_factory=dict[str, Sequence[SSAValue]])
    """The operands and results, by the names of their parts."""

    defaults: Mapping[str, str] = field(default_factory=dict[str, str])
    """The values with which properties are not printed, as text."""

    mentioned: Collection[str] = ()
    """The properties that the form prints outside of the dictionary."""

    pieces: list[Piece] = field(default_factory=list[Piece])
    _is_blank_due: bool = True
    _is_after_punctuation: bool = False

    def literal(self, text: str) -> None:
        """Add a keyword or punctuation."""
        unspaced = _AFTER_PUNCTUATION if self._is_after_punctuation else _AFTER_NAMES
        if self._is_blank_due and text not in unspaced:
            self.pieces.append(" ")
        self.pieces.append(text)
        self._is_blank_due = text not in _OPENING
        self._is_after_punctuation = not (text[0].isalpha() or text[0] == "_")

    def add(self, *pieces: Piece, attached: bool = False) -> None:
        """Add what is no literal, `attached` to what is before it."""
        if not attached and (self._is_blank_due or not self._is_after_punctuation):
            self.pieces.append(" ")
        self.pieces.extend(pieces)
        self._is_blank_due, self._is_after_punctuation = True, False

    def add_attributes(self, attributes: Iterable[Attribute]) -> None:
        """Add types or other attributes, separated by commas."""
        listed = tuple(attributes)
        self.add(lambda printer: printer.print_list(listed, printer.print_attribute))

    def add_function_type(self) -> None:
        """Add `(types of the operands) -> types of the results`."""
        operands, results = tuple(self.op.operand_types), tuple(self.op.result_types)
        self.add(lambda printer: printer.print_function_type(operands, results))

    def add_dictionary(self, *, with_keyword: bool = False) -> None:
        """Add the properties and attributes that are printed nowhere else."""
        rest = {
            name: attribute
            for name, attribute in {**self.op.properties, **self.op.attributes}.items()
            if name not in self.mentioned and not self.is_default(name, attribute)
        }
        if rest:
            self.pieces.append(
                lambda printer: printer.print_op_attributes(rest, print_keyword=with_keyword)
            )
            self._is_after_punctuation = False

    def is_default(self, name: str, attribute: Attribute) -> bool:
        """Whether a property has the value with which it is not printed."""
        return name in self.defaults and str(attribute) == self.defaults[name]

    def find(self, name: str) -> Attribute | None:
        """A property, or an attribute as generic text may have it, that is not the default."""
        attribute = self.op.properties.get(name, self.op.attributes.get(name))
        if attribute is None or self.is_default(name, attribute):
            return None
        return attribute

    def attribute(self, name: str) -> Attribute:
        """A property that is printed. Raises FormMismatchError if it is missing."""
        if (attribute := self.find(name)) is None:
            raise FormMismatchError(f"'{name}' is missing")
        return attribute

    def print(self, printer: Printer) -> None:
        """Print the pieces."""
        for piece in self.pieces:
            if isinstance(piece, str):
                printer.print_string(piece)
            else:
                piece(printer)


def integers_of(attribute: Attribute | None, type: Attribute) -> Sequence[int]:
    """The elements of `array<type: ...>`. Raises FormMismatchError for any other attribute."""
    if not isinstance(attribute, DenseArrayBase):
        raise FormMismatchError("an array of integers is missing")
    array = cast("DenseArrayBase[Any]", attribute)
    if array.elt_type != type:
        raise FormMismatchError("an array has other integers")
    return array.get_values()


def listed(numbers: Iterable[object]) -> str:
    """`[1, 2]`."""
    return f"[{', '.join(map(str, numbers))}]"


def integer_of(attribute: Attribute, type: Attribute) -> int:
    """An integer of a type. Raises FormMismatchError for any other attribute."""
    if isinstance(attribute, IntegerAttr):
        number = cast("IntegerAttr[Any]", attribute)
        if number.type == type:
            return number.value.data
    raise FormMismatchError("an integer is missing")


def string_of(attribute: Attribute) -> str:
    """The characters of a string. Raises FormMismatchError for any other attribute."""
    if not isinstance(attribute, StringAttr):
        raise FormMismatchError("a string is missing")
    return attribute.data
