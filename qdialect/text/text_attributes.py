"""Attributes and types that are kept as text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, cast

from typing_extensions import override
from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    DictionaryAttr,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    LocationAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
    UnknownLoc,
    UnregisteredAttr,
)
from xdsl.ir import Attribute, BuiltinAttribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.lexer import Input
from xdsl.utils.mlir_lexer import StringLiteral

from qdialect.ir.xdsl_private import STRING_BODY, OpenPrinter

_NAME: Final = re.compile(
    rf'("{STRING_BODY}"|[#!][\w$.-]+|dense_resource<\s*(?:"{STRING_BODY}"|[\w$.-]+)\s*>)', re.ASCII
)
"""A name that stands for something outside of the text, or a string, which has none in it."""

_RESOURCE: Final = re.compile(r"dense_resource<\s*(.*?)\s*>", re.ASCII | re.DOTALL)


def parts_of_text(text: str) -> list[str]:
    """The parts of a text: strings, and possible names of aliases or resources, at odd indices."""
    return _NAME.split(text)


def resource_in(piece: str) -> str | None:
    """The key in `dense_resource<key>`; None if the piece of a text is none."""
    if (match := _RESOURCE.fullmatch(piece)) is None:
        return None
    return string_in(match[1]) if match[1].startswith('"') else match[1]


def string_in(literal: str) -> str | None:
    """What a literal in quotes says, whose escapes are valid; None if that is no UTF-8."""
    try:
        return StringLiteral(0, len(literal), Input(literal, "")).string_contents
    except UnicodeDecodeError:
        return None


def definitions_in(text: str, aliases: Mapping[str, Attribute]) -> DictionaryAttr:
    """The definitions of the aliases that a text names, of those that are known."""
    if not aliases:
        return _NONE
    return DictionaryAttr(
        {name: aliases[name] for name in parts_of_text(text)[1::2] if name in aliases}
    )


_NONE: Final = DictionaryAttr({})


def _print_text(printer: Printer, prefix: str, text: str) -> None:
    # Without indentation, which would change the text.
    printer.print_string(f"{prefix}{text}", indent=0)
    if "dense_resource<" in text and isinstance(printer, OpenPrinter):
        keys = filter(None, map(resource_in, parts_of_text(text)))
        printer.resource_keys.setdefault("builtin", set()).update(keys)


@irdl_attr_definition(init=False)
class OpaqueTextAttr(UnregisteredAttr):
    """
    An attribute of a dialect that is not registered: `#foo.bar<1>`, `#foo<"a">`.

    It is printed byte for byte as it was written, including line breaks and empty brackets.
    Unlike xDSL's, it may have a type: `#foo.bar<1> : i32`.
    """

    text: StringAttr
    """The text after `#`, without the type."""

    definitions: DictionaryAttr
    """The definitions of the aliases in the text, by name."""

    type: Attribute
    """The type, or NoneAttr."""

    @override
    def print_builtin(self, printer: Printer) -> None:
        _print_text(printer, "#", self.text.data)
        if not isinstance(self.type, NoneAttr):
            printer.print_string(" : ")
            printer.print_attribute(self.type)


@irdl_attr_definition(init=False)
class OpaqueTextType(UnregisteredAttr, TypeAttribute):
    """A type of a dialect that is not registered, printed as it was written: see OpaqueTextAttr."""

    text: StringAttr
    """The text after `!`."""

    definitions: DictionaryAttr
    """The definitions of the aliases in the text, by name."""

    @override
    def print_builtin(self, printer: Printer) -> None:
        _print_text(printer, "!", self.text.data)


@irdl_attr_definition
class DenseStringsAttr(ParametrizedAttribute, BuiltinAttribute):
    """`dense<["a", "b"]> : tensor<2x!tf_type.string>`, whose elements are kept as text."""

    name = "dense_strings"

    elements: StringAttr
    """The text after `dense`, including the angle brackets."""

    type: TypeAttribute

    def __init__(self, elements: str, type: TypeAttribute) -> None:
        super().__init__(StringAttr(elements), type)

    @override
    def print_builtin(self, printer: Printer) -> None:
        printer.print_string(f"dense{self.elements.data} : ", indent=0)
        printer.print_attribute(self.type)


@irdl_attr_definition
class BuiltinTextAttr(ParametrizedAttribute, BuiltinAttribute):
    """A builtin attribute that xDSL lacks, kept as text: `distinct[0]<#alias>`."""

    name = "builtin_text"

    text: StringAttr

    definitions: DictionaryAttr
    """The definitions of the aliases in the text, by name."""

    def __init__(self, text: str, aliases: Mapping[str, Attribute]) -> None:
        super().__init__(StringAttr(text), definitions_in(text, aliases))

    @override
    def print_builtin(self, printer: Printer) -> None:
        _print_text(printer, "", self.text.data)


def opaque_type(
    name: str, value: str, text: str, definitions: DictionaryAttr = _NONE, *, is_opaque: bool
) -> OpaqueTextType:
    """The type that is written `!text`; see `UnregisteredAttr` for the rest."""
    kept = StringAttr(name), IntAttr(1), IntAttr(int(is_opaque)), StringAttr(value)
    return OpaqueTextType.new((*kept, StringAttr(text), definitions))


def opaque_attribute(
    name: str,
    value: str,
    text: str,
    definitions: DictionaryAttr,
    type: Attribute | None,
    *,
    is_opaque: bool,
) -> OpaqueTextAttr:
    """The attribute that is written `#text : type`; see `UnregisteredAttr` for the rest."""
    kept = StringAttr(name), IntAttr(0), IntAttr(int(is_opaque)), StringAttr(value)
    return OpaqueTextAttr.new(
        (*kept, StringAttr(text), definitions, NoneAttr() if type is None else type)
    )


def parts_of(attribute: Attribute) -> Iterable[Attribute]:
    """The attributes that an attribute is made of."""
    match attribute:
        case ArrayAttr():
            return attribute.data
        case DictionaryAttr():
            return attribute.data.values()
        case ParametrizedAttribute():
            return attribute.parameters
        case _:
            return ()


def aliases_named_by(attributes: Iterable[Attribute]) -> dict[str, Attribute]:
    """
    The definitions of the aliases that opaque texts in attributes name, each after those it names.

    Raises ValueError if there are two definitions of one name.
    """
    aliases: dict[str, Attribute] = {}
    seen = set[int]()

    def visit(attribute: Attribute) -> None:
        # Each object once: nested aliases may share 2**n parts.
        if id(attribute) in seen:
            return
        seen.add(id(attribute))
        if isinstance(attribute, OpaqueTextAttr | OpaqueTextType | BuiltinTextAttr):
            for name, definition in attribute.definitions.data.items():
                visit(definition)
                if aliases.setdefault(name, definition) != definition:
                    raise ValueError(f"alias '{name}' has two definitions, '{definition}' is one")
        else:
            for part in parts_of(attribute):
                visit(part)

    for attribute in attributes:
        visit(attribute)
    return aliases


_META = "fused<"
"""The text before the metadata of a fused location."""


@irdl_attr_definition
class RangeLoc(ParametrizedAttribute, BuiltinAttribute):
    """A location that is or contains a range: `loc("a.py":7:12 to 8:45)`."""

    name = "range_loc"

    parts: ArrayAttr[Attribute]
    """The written form: pieces of text, alternating with the attributes between them."""

    def __init__(self, *parts: str | Attribute) -> None:
        attributes = (StringAttr(part) if isinstance(part, str) else part for part in parts)
        super().__init__(ArrayAttr(attributes))

    @override
    def print_builtin(self, printer: Printer) -> None:
        with printer.in_location():
            for index, part in enumerate(self.parts):
                if index % 2 == 0:
                    printer.print_string(cast(StringAttr, part).data)
                    continue
                # Metadata is not part of the location: locations in it are in `loc(...)`.
                printer.printing_location = (
                    cast(StringAttr, self.parts.data[index - 1]).data != _META
                )
                printer.print_attribute(part)
                printer.printing_location = True


def fused_in_parts(metadata: Attribute, locations: Attribute) -> RangeLoc:
    """The location `fused<metadata>[locations]`."""
    return RangeLoc(_META, metadata, ">", locations)


def parse_location(parser: AttrParser) -> LocationAttr:
    """Parse the location in the parentheses of `loc(...)`. Raises ParseError."""
    # A cast, because xDSL's type of locations is a closed union.
    return cast(LocationAttr, _parse_location(parser))


def _parse_location(parser: AttrParser) -> Attribute:
    name = parser.parse_optional_str_literal()
    if name is not None and parser.parse_optional_punctuation(":") is not None:
        return _parse_place(parser, StringAttr(name))
    if name is not None:
        return _parse_named(parser, StringAttr(name))
    match parser.parse_optional_keyword_in(("unknown", "callsite", "fused")):
        case "unknown":
            return UnknownLoc()
        case "callsite":
            return _parse_call_site(parser)
        case "fused":
            return _parse_fused(parser)
        case _:
            position = parser.pos
            alias = parser.parse_optional_attribute()
            if not isinstance(alias, LocationAttr | RangeLoc):
                parser.raise_error("expected location instance", position)
            return alias


def _parse_place(parser: AttrParser, file: StringAttr) -> Attribute:
    """
    Parse `line:column`, or a range that starts there and ends `to line:column` or `to :column`.
    """
    line, column = _parse_number(parser), 0
    if parser.parse_optional_punctuation(":") is not None:
        column = _parse_number(parser)
    if parser.parse_optional_keyword("to") is None:
        return FileLineColLoc(file, IntAttr(line), IntAttr(column))
    last = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
    parser.parse_punctuation(":")
    end = f"{'' if last in (None, line) else last}:{_parse_number(parser)}"
    return RangeLoc("", file, f":{line}:{column} to {end}")


def _parse_number(parser: AttrParser) -> int:
    return parser.parse_integer(allow_boolean=False, allow_negative=False)


def _parse_named(parser: AttrParser, name: StringAttr) -> Attribute:
    child: Attribute = NoneAttr()
    if parser.parse_optional_punctuation("(") is not None:
        child = _parse_location(parser)
        parser.parse_punctuation(")")
    return RangeLoc("", name, "(", child, ")") if _has_range(child) else NameLoc(name, child)


def _parse_call_site(parser: AttrParser) -> Attribute:
    with parser.in_parens():
        callee = _parse_location(parser)
        parser.parse_keyword("at")
        caller = _parse_location(parser)
    if _has_range(callee, caller):
        return RangeLoc("callsite(", callee, " at ", caller, ")")
    return CallSiteLoc(callee, caller)


def _parse_fused(parser: AttrParser) -> Attribute:
    metadata: Attribute = NoneAttr()
    if parser.parse_optional_punctuation("<") is not None:
        metadata = parser.parse_attribute()
        parser.parse_punctuation(">")
    locations = parser.parse_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: _parse_location(parser)
    )
    fused = ArrayAttr(locations)
    if not _has_range(*locations):
        return FusedLoc(fused, metadata)
    if isinstance(metadata, NoneAttr):
        return RangeLoc("fused", fused)
    return fused_in_parts(metadata, fused)


def _has_range(*locations: Attribute) -> bool:
    return any(isinstance(location, RangeLoc) for location in locations)
