"""
What forms of ops are made of: the pieces of their text, kinds of properties, rules for types.

See `op_formats`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final, cast

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerAttr,
    StringAttr,
    TensorType,
    UnitAttr,
    VectorType,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.parser import Parser
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


# The kinds of properties


@dataclass(frozen=True)
class Kind:
    """A kind of property in signatures. The functions get the text in parentheses after it."""

    parse: Callable[[Parser, str], Attribute]
    parse_if_there: Callable[[Parser, str], Attribute | None] | None = None
    text: Callable[[Attribute, str], Piece] | None = None
    """The text of a property. Raises FormMismatchError for one of another kind."""


def named_type(parser: Parser, name: str) -> Attribute:
    """The type of a name in a signature."""
    known = _TYPES.get(name)
    return parsed_text(parser, name) if known is None else known


def parsed_text(parser: Parser, text: str) -> Attribute:
    """The attribute or type of a text. Raises ParseError."""
    return type(parser)(parser.ctx, text).parse_attribute()


_TYPES: Final[Mapping[str, Attribute]] = {"i1": i1, "i32": i32, "i64": i64, "index": IndexType()}


def dialect_attribute(parser: Parser, name: str, keyword: str) -> Attribute:
    """`#dialect.name<keyword>`, or `#dialect<name keyword>` for `dialect/name`, as MLIR prints."""
    dialect, slash, mnemonic = name.partition("/")
    text = f"#{dialect}<{mnemonic} {keyword}>" if slash else f"#{name}<{keyword}>"
    return parsed_text(parser, text)


def _parse_keyword(parser: Parser, name: str) -> Attribute:
    return dialect_attribute(parser, name, parser.parse_identifier())


def _parse_in_brackets(parser: Parser, name: str) -> Attribute:
    with parser.in_angle_brackets():
        return _parse_keyword(parser, name)


def _keyword_text(attribute: Attribute, _: str) -> str:
    """The last word in `#dialect<name keyword>` or `#dialect.name<keyword>`."""
    if (match := _LAST_WORD.search(str(attribute))) is None:
        raise FormMismatchError("a keyword is missing")
    return match[1]


_LAST_WORD: Final = re.compile(r"(\w+)>$")


def _parse_number_of(parser: Parser, words: str) -> Attribute:
    """Parse one of `words`, of which the first is the type of the number that it becomes."""
    number = _parse_number_if_there(parser, words)
    if number is None:
        parser.raise_error(f"expected one of {', '.join(words.split('|')[1:])}")
    return number


def _parse_number_if_there(parser: Parser, words: str) -> Attribute | None:
    type, *names = words.split("|")
    name = parser.parse_optional_keyword_in(names)
    return None if name is None else _integer(parser, names.index(name), type)


def _integer(parser: Parser, number: int, type: str) -> Attribute:
    return IntegerAttr(number, cast(Any, named_type(parser, type)))


def parse_integers(parser: Parser) -> list[int]:
    """Parse `[1, 2]`. Raises ParseError."""
    return parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)


def _parse_integers(parser: Parser, type: str) -> Attribute:
    return DenseArrayBase.from_list(cast(Any, named_type(parser, type)), parse_integers(parser))


def _parse_extents(parser: Parser, _: str) -> Attribute:
    numbers = parse_integers(parser)
    type = TensorType(IndexType(), [len(numbers)])
    return DenseIntOrFPElementsAttr.from_list(type, numbers)


def _parse_flags(parser: Parser, name: str) -> Attribute:
    # Deferred: it imports xDSL's arith.
    from xdsl.dialects.arith import FastMathFlagsAttr, IntegerOverflowAttr

    if name == "overflow":
        return IntegerOverflowAttr(IntegerOverflowAttr.parse_parameter(parser))
    return FastMathFlagsAttr(FastMathFlagsAttr.parse_parameter(parser))


def _string_if_there(parser: Parser, _: str) -> Attribute | None:
    text = parser.parse_optional_str_literal()
    return None if text is None else StringAttr(text)


def _symbol_piece(attribute: Attribute, _: str) -> Piece:
    name = string_of(attribute)
    return lambda printer: printer.print_symbol_name(name)


def _string_piece(attribute: Attribute, _: str) -> Piece:
    text = string_of(attribute)
    return lambda printer: printer.print_string_literal(text)


KINDS: Final[Mapping[str, Kind]] = {
    "any": Kind(
        lambda parser, _: parser.parse_attribute(),
        lambda parser, _: parser.parse_optional_attribute(),
    ),
    "bool": Kind(
        lambda parser, _: IntegerAttr(int(parser.parse_boolean()), i1),
        text=lambda attribute, _: "true" if integer_of(attribute, i1) else "false",
    ),
    "extents": Kind(_parse_extents),
    "flags": Kind(_parse_flags),
    "in_brackets": Kind(_parse_in_brackets),
    "integer": Kind(
        lambda parser, type: _integer(parser, parser.parse_integer(), type),
        text=lambda attribute, type: str(integer_of(attribute, _TYPES[type])),
    ),
    "integers": Kind(
        _parse_integers,
        text=lambda attribute, type: listed(integers_of(attribute, _TYPES[type])),
    ),
    "keyword": Kind(_parse_keyword, text=_keyword_text),
    "map": Kind(lambda parser, _: AffineMapAttr(parser.parse_affine_map())),
    "number_of": Kind(_parse_number_of, _parse_number_if_there),
    "symbol": Kind(
        lambda parser, _: parser.parse_symbol_name(),
        lambda parser, _: parser.parse_optional_symbol_name(),
        _symbol_piece,
    ),
    "text": Kind(
        lambda parser, _: StringAttr(parser.parse_str_literal()), _string_if_there, _string_piece
    ),
    "unit": Kind(lambda parser, _: UnitAttr()),
}


# The rules for types that a custom form omits


def _element(types: Sequence[Attribute]) -> list[Attribute]:
    (type,) = types
    return [cast(Any, type).element_type]


def _elements(types: Sequence[Attribute]) -> Sequence[Attribute]:
    """The element type of a vector, for each of its elements."""
    return _element(types) * math.prod(cast(Any, types[0]).get_shape())


def _booleans(types: Sequence[Attribute]) -> Sequence[Attribute]:
    """A float type, or a shaped type of floats, with i1 as the element type."""
    (type,) = types
    if isinstance(type, TensorType):
        return [TensorType(i1, type.get_shape(), type.encoding)]
    if isinstance(type, VectorType):
        return [VectorType(i1, type.get_shape(), type.scalable_dims)]
    return [i1]


def _product(lhs: Sequence[Attribute], rhs: Sequence[Attribute]) -> Sequence[Attribute]:
    """The type of the outer product of a vector and a vector or a number."""
    (left,), (right,) = lhs, rhs
    if not isinstance(left, VectorType):
        raise ValueError("not a vector")
    if not isinstance(right, VectorType):
        return lhs
    dims = [*left.scalable_dims, *right.scalable_dims]
    shape = [*left.get_shape(), *right.get_shape()]
    element = cast("VectorType[Attribute]", left).element_type
    return [VectorType(element, shape, ArrayAttr(dims))]


def _booleans_for(types: Sequence[Attribute]) -> Sequence[Attribute]:
    return [i1] * len(types)


def _in_first(path: str) -> Callable[[Sequence[Attribute]], Sequence[Attribute]]:
    """The rule for the types that a field of the type of a function or tuple holds."""
    return lambda types: attrgetter(path)(types[0])


RULES: Final[Mapping[str, Callable[..., Sequence[Attribute]]]] = {
    "booleans": _booleans,
    "booleans_for": _booleans_for,
    "element": _element,
    "elements": _elements,
    "inputs": _in_first("inputs.data"),
    "outputs": _in_first("outputs.data"),
    # Of a tuple.
    "parts": _in_first("types.data"),
    "product": _product,
}
"""
Rules that compute omitted types from the types of another value. They raise LookupError, ValueError
or AttributeError for types of another kind.
"""
