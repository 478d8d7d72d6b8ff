"""
The custom syntax of the conversions of `arith`, with the flags that xDSL's lack.

`arith.truncf %x to_nearest_even fastmath<fast> : f64 to f32`:
https://mlir.llvm.org/docs/Dialects/ArithOps/.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from typing_extensions import override
from xdsl.dialects.arith import FastMathFlagsAttr, IntegerOverflowAttr
from xdsl.dialects.builtin import IntegerAttr, UnitAttr, i32
from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation
from xdsl.parser import Parser

from qdialect.support.memory import registered_cache
from qdialect.text.foreign_ops import with_later_properties

ROUNDING_MODES: Final = (
    "to_nearest_even",
    "downward",
    "upward",
    "toward_zero",
    "to_nearest_away",
)
"""The rounding modes, in the order of their numbers."""

CONVERSIONS: Final = frozenset(
    {"arith.extf", "arith.extui", "arith.truncf", "arith.trunci", "arith.uitofp"}
)
"""The conversions that have flags."""


@registered_cache
@cache
def conversion_syntax(op_type: type[IRDLOperation]) -> type[Operation]:
    """A subclass of the conversion `op_type` whose `parse` accepts flags after the operand."""

    class ConversionSyntax(op_type):
        @classmethod
        @override
        def parse(cls, parser: Parser) -> Operation:
            operand = parser.parse_unresolved_operand()
            properties = _parse_flags(parser)
            attributes = parser.parse_optional_attr_dict()
            parser.parse_punctuation(":")
            value = parser.resolve_operand(operand, parser.parse_type())
            parser.parse_keyword("to")
            created = with_later_properties(op_type) if properties else op_type
            return created.create(
                operands=[value],
                result_types=[parser.parse_type()],
                properties=properties,
                attributes=attributes,
            )

    return ConversionSyntax


def _parse_flags(parser: Parser) -> dict[str, Attribute]:
    """Parse the flags of a conversion, as properties. Raises ParseError."""
    properties: dict[str, Attribute] = {}
    if parser.parse_optional_keyword("nneg") is not None:
        properties["nonNeg"] = UnitAttr()
    if parser.parse_optional_keyword("overflow") is not None:
        flags = IntegerOverflowAttr.parse_parameter(parser)
        properties["overflowFlags"] = IntegerOverflowAttr(flags)
    if (mode := parser.parse_optional_keyword_in(ROUNDING_MODES)) is not None:
        properties["roundingmode"] = IntegerAttr(ROUNDING_MODES.index(mode), i32)
    if parser.parse_optional_keyword("fastmath") is not None:
        properties["fastmath"] = FastMathFlagsAttr(FastMathFlagsAttr.parse_parameter(parser))
    return properties
