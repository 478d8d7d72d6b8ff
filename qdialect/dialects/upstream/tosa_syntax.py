"""
The custom syntax of tosa, as LLVM 22 and LLVM 24 print it.

LLVM 22 prints properties among the attributes, `{axis = 0 : i32}`; LLVM 24 prints each after
the operands, `axis(0)`. Neither parses the other's form. Ops are printed in that of LLVM 22, which
is xDSL's, or for LLVM 24 in generic form.
"""

from __future__ import annotations

from abc import ABC
from typing import Final, Self

from typing_extensions import override
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, UnitAttr, i32, i64
from xdsl.ir import Attribute, Data
from xdsl.irdl import IRDLOperation, irdl_attr_definition
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer

from qdialect.text.op_forms import KnowsItsForms, ReadsItsLine


class KeywordAttr(Data[str], ABC):
    """
    Base class of `#tosa.name<KEYWORD>`. Any keyword is accepted: the set depends on the
    version.
    """

    @classmethod
    @override
    def parse_parameter(cls, parser: AttrParser) -> str:
        with parser.in_angle_brackets():
            return parser.parse_identifier()

    @override
    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.data)


@irdl_attr_definition
class BlockSizeAttr(KeywordAttr):
    """The number of elements that share a scale."""

    name = "tosa.block_size"


@irdl_attr_definition
class NanModeAttr(KeywordAttr):
    """Whether an op propagates or ignores NaN."""

    name = "tosa.nan_mode"


@irdl_attr_definition
class ResizeModeAttr(KeywordAttr):
    """The interpolation of `tosa.resize`."""

    name = "tosa.resize_mode"


@irdl_attr_definition
class RoundingModeAttr(KeywordAttr):
    """The rounding of `tosa.rescale`."""

    name = "tosa.rounding_mode"


KEYWORD_ATTRIBUTES: Final[tuple[type[KeywordAttr], ...]] = (
    BlockSizeAttr,
    NanModeAttr,
    ResizeModeAttr,
    RoundingModeAttr,
)

_KEYWORDS: Final[dict[str, type[KeywordAttr]]] = {
    "block_size": BlockSizeAttr,
    "mode": ResizeModeAttr,
    "nan_mode": NanModeAttr,
    "rounding_mode": RoundingModeAttr,
}
"""The properties that are printed as a keyword, with their attribute classes."""

_INTEGER: Final = "axis"
"""The integer property, whose type LLVM 24 does not print."""

_WIDTHS: Final = {"perms": i32}
"""The element types, other than i64, of array properties; LLVM 24 does not print them."""


class TosaSyntax(KnowsItsForms, ReadsItsLine, IRDLOperation, ABC):
    """Base class of the ops: `tosa.name operands properties {attributes} : (types) -> types`."""

    @property
    @override
    def is_form_of_llvm22(self) -> bool:
        """Whether the op has properties: only these are printed differently."""
        return bool(self.properties)

    @classmethod
    @override
    def parse(cls, parser: Parser) -> Self:
        position = parser.pos
        operands = parser.parse_optional_undelimited_comma_separated_list(
            parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
        )
        properties, attributes = parse_attributes(parser, cls)
        parser.parse_punctuation(":")
        types = parser.parse_function_type()
        return cls.create(
            operands=parser.resolve_operands(operands or [], types.inputs.data, position),
            result_types=types.outputs.data,
            properties=properties,
            attributes=attributes,
        )

    @override
    def print(self, printer: Printer) -> None:
        if self.operands:
            printer.print_string(" ")
            printer.print_list(self.operands, printer.print_ssa_value)
        if held := sorted({**self.properties, **self.attributes}.items()):
            printer.print_string(" ")
            with printer.in_braces():
                printer.print_list(held, lambda item: _print_attribute(printer, *item))
        printer.print_string(" : ")
        printer.print_function_type(self.operand_types, self.result_types)


def parse_attributes(
    parser: Parser, op_type: type[IRDLOperation]
) -> tuple[dict[str, Attribute], dict[str, Attribute]]:
    """
    Parse the properties and the attributes of an op, in either form.

    Raises ParseError.
    """
    names = op_type.get_irdl_definition().properties.keys()
    properties: dict[str, Attribute] = {}
    while (name := parser.parse_optional_keyword_in(names)) is not None:
        properties[name] = _parse_clause(parser, name)
    attributes: dict[str, Attribute] = {}
    entries = parser.parse_optional_comma_separated_list(
        parser.Delimiter.BRACES, lambda: _parse_entry(parser)
    )
    for name, attribute in entries or ():
        (properties if name in names else attributes)[name] = attribute
    return properties, attributes


def _parse_clause(parser: Parser, name: str) -> Attribute:
    """Parse the value of a property in the form of LLVM 24, after its name."""
    if name in _KEYWORDS:
        keyword = _KEYWORDS[name]
        return keyword(keyword.parse_parameter(parser))
    with parser.in_parens():
        if name == _INTEGER:
            return IntegerAttr(parser.parse_integer(), i32)
        integers = parser.parse_optional_comma_separated_list(
            parser.Delimiter.SQUARE, parser.parse_integer
        )
        if integers is not None:
            return DenseArrayBase.from_list(_WIDTHS.get(name, i64), integers)
        return parser.parse_attribute()


def _parse_entry(parser: Parser) -> tuple[str, Attribute]:
    """Parse one entry of the attribute dictionary."""
    name = parser.parse_identifier_or_str_literal()
    if parser.parse_optional_punctuation("=") is None:
        return name, UnitAttr()
    if name in _KEYWORDS and (keyword := parser.parse_optional_identifier()) is not None:
        return name, _KEYWORDS[name](keyword)
    return name, parser.parse_attribute()


def _print_attribute(printer: Printer, name: str, attribute: Attribute) -> None:
    printer.print_identifier_or_string_literal(name)
    if isinstance(attribute, UnitAttr):
        return
    printer.print_string(" = ")
    if name in _KEYWORDS and isinstance(attribute, KeywordAttr):
        printer.print_string(attribute.data)
    else:
        printer.print_attribute(attribute)
