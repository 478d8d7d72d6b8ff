"""The forms of IREE's util: https://iree.dev/reference/mlir-dialects/Util/."""

from __future__ import annotations

from typing import Any

from typing_extensions import override
from xdsl.dialects.builtin import UnitAttr, UnregisteredAttr
from xdsl.ir import Attribute
from xdsl.parser import Parser

from qdialect.text.op_formats import Directive, ReadParts
from qdialect.text.syntax import DialectSyntax


class GlobalName(Directive):
    """`private mutable`."""

    @override
    def parse(self, parser: Parser, read: ReadParts) -> None:
        visibility, is_mutable = self.names
        if (word := parser.parse_optional_visibility_keyword()) is not None:
            read.properties[visibility] = word
        if parser.parse_optional_keyword("mutable") is not None:
            read.properties[is_mutable] = UnitAttr()


class TypeOrValue(Directive):
    """`: type`, or `= value : type`."""

    @override
    def parse(self, parser: Parser, read: ReadParts) -> None:
        type, value = self.names
        if parser.parse_optional_punctuation("=") is None:
            parser.parse_punctuation(":")
            read.properties[type] = parser.parse_type()
            return
        attribute = read.properties[value] = parser.parse_attribute()
        read.properties[type] = _type_of(parser, attribute)


def _type_of(parser: Parser, attribute: Attribute) -> Attribute:
    if isinstance(attribute, UnregisteredAttr):
        # The type is the end of its text.
        return type(parser)(parser.ctx, str(attribute).rpartition(" : ")[2]).parse_type()
    own: Any = getattr(attribute, "type", None)
    if not isinstance(own, Attribute):
        parser.raise_error("expected a value with a type")
    return own


SYNTAX = DialectSyntax(
    dialect="util",
    forms={
        "global": "custom:GlobalName(sym_visibility,is_mutable) $sym_name:symbol attr-dict "
        "custom:TypeOrValue(type,initial_value)",
        "global.load": "<? immutable $is_immutable:unit ?> $global:any : type(result) attr-dict",
    },
    is_unregistered=True,
)
