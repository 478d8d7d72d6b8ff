"""
Locations with ranges, which xDSL lacks.

https://mlir.llvm.org/docs/Dialects/Builtin/#location-attributes.
"""

from __future__ import annotations

from typing import cast

from typing_extensions import override
from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    LocationAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute, BuiltinAttribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

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
