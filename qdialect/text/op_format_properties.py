"""The kinds of properties in signatures of ops, with their parsers: see `op_formats`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import (
    AffineMapAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerAttr,
    StringAttr,
    TensorType,
    UnitAttr,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute
from xdsl.parser import Parser

from qdialect.text.conversion_syntax import ROUNDING_MODES
from qdialect.text.form_text import (
    FormMismatchError,
    Piece,
    integer_of,
    integers_of,
    listed,
    string_of,
)


def _parse_keyword(parser: Parser, name: str) -> Attribute:
    return dialect_attribute(parser, name, parser.parse_identifier())


def _parse_in_brackets(parser: Parser, name: str) -> Attribute:
    with parser.in_angle_brackets():
        return dialect_attribute(parser, name, parser.parse_identifier())


def dialect_attribute(parser: Parser, name: str, keyword: str) -> Attribute:
    """`#dialect.name<keyword>`, or `#dialect<name keyword>` for `dialect/name`, as MLIR prints."""
    dialect, slash, mnemonic = name.partition("/")
    text = f"#{dialect}<{mnemonic} {keyword}>" if slash else f"#{name}<{keyword}>"
    return type(parser)(parser.ctx, text).parse_attribute()


def _parse_number_of(parser: Parser, words: str) -> Attribute:
    """Parse one of `words`, of which the first is the type of the number that it becomes."""
    type, *names = words.split("|")
    found = parser.parse_optional_keyword_in(names)
    if found is None:
        parser.raise_error(f"expected one of {', '.join(names)}")
    return IntegerAttr(names.index(found), cast(Any, named_type(parser, type)))


def _parse_integer(parser: Parser, type: str) -> Attribute:
    return IntegerAttr(parser.parse_integer(), cast(Any, named_type(parser, type)))


def _parse_integers(parser: Parser, type: str) -> Attribute:
    numbers = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
    return DenseArrayBase.from_list(cast(Any, named_type(parser, type)), numbers)


def _parse_extents(parser: Parser, _: str) -> Attribute:
    numbers = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
    type = TensorType(IndexType(), [len(numbers)])
    return DenseIntOrFPElementsAttr.from_list(type, numbers)


def _parse_symbol(parser: Parser, _: str) -> Attribute:
    return parser.parse_symbol_name()


def _parse_any(parser: Parser, _: str) -> Attribute:
    return parser.parse_attribute()


def _parse_bool(parser: Parser, _: str) -> Attribute:
    return IntegerAttr(int(parser.parse_boolean()), i1)


def _parse_text(parser: Parser, _: str) -> Attribute:
    return StringAttr(parser.parse_str_literal())


def _parse_map(parser: Parser, _: str) -> Attribute:
    return AffineMapAttr(parser.parse_affine_map())


def _unit(_parser: Parser, _: str) -> Attribute:
    return UnitAttr()


def _parse_flags(parser: Parser, _: str) -> Attribute:
    return FastMathFlagsAttr(FastMathFlagsAttr.parse_parameter(parser))


def _parse_optional_rounding(parser: Parser) -> Attribute | None:
    mode = parser.parse_optional_keyword_in(ROUNDING_MODES)
    return None if mode is None else IntegerAttr(ROUNDING_MODES.index(mode), i32)


KINDS: Final[Mapping[str, Callable[[Parser, str], Attribute]]] = {
    "any": _parse_any,
    "bool": _parse_bool,
    "extents": _parse_extents,
    "flags": _parse_flags,
    "in_brackets": _parse_in_brackets,
    "integer": _parse_integer,
    "integers": _parse_integers,
    "keyword": _parse_keyword,
    "map": _parse_map,
    "number_of": _parse_number_of,
    "symbol": _parse_symbol,
    "symbol_text": _parse_symbol,
    "text": _parse_text,
    "unit": _unit,
}
"""The parser of each kind of property. It gets the text in parentheses after the kind."""


def _keyword_text(attribute: Attribute, _: str) -> str:
    """The last word in `#dialect<name keyword>` or `#dialect.name<keyword>`."""
    if (match := _LAST_WORD.search(str(attribute))) is None:
        raise FormMismatchError("a keyword is missing")
    return match[1]


_LAST_WORD: Final = re.compile(r"(\w+)>$")

_NAMED: Final[Mapping[str, Attribute]] = {"i32": i32, "i64": i64, "index": IndexType()}


def _symbol_piece(attribute: Attribute, _: str) -> Piece:
    name = string_of(attribute)
    return lambda printer: printer.print_symbol_name(name)


def _string_piece(attribute: Attribute, _: str) -> Piece:
    text = string_of(attribute)
    return lambda printer: printer.print_string_literal(text)


TEXTS: Final[Mapping[str, Callable[[Attribute, str], Piece]]] = {
    "bool": lambda attribute, _: "true" if integer_of(attribute, i1) else "false",
    "integer": lambda attribute, type: str(integer_of(attribute, _NAMED[type])),
    "integers": lambda attribute, type: listed(integers_of(attribute, _NAMED[type])),
    "keyword": _keyword_text,
    "symbol_text": _symbol_piece,
    "text": _string_piece,
}
"""The text of each kind of property that is printed. Raises FormMismatchError for other ones."""


OPTIONAL_KINDS: Final[Mapping[str, Callable[[Parser], Attribute | None]]] = {
    "any": lambda parser: parser.parse_optional_attribute(),
    "rounding": _parse_optional_rounding,
    "symbol": lambda parser: parser.parse_optional_symbol_name(),
    "text": lambda parser: (
        None if (text := parser.parse_optional_str_literal()) is None else StringAttr(text)
    ),
}


def named_type(parser: Parser, name: str) -> Attribute:
    """The type of a name in a signature."""
    known = _TYPES.get(name)
    return type(parser)(parser.ctx, name).parse_type() if known is None else known


_TYPES: Final[Mapping[str, Attribute]] = {"i1": i1, "i32": i32, "i64": i64, "index": IndexType()}
