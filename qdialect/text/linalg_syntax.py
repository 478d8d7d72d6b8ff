"""The custom syntax of two linalg ops, for elements of any type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from typing_extensions import override
from xdsl.dialects.builtin import DenseArrayBase, TensorType, i64
from xdsl.dialects.linalg.ops import BroadcastOp, TransposeOp, YieldOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.parser import Parser


def _parse(parser: Parser, op_type: type[Operation], numbers: str) -> Operation:
    """
    Read `ins(%a : type) outs(%b : type) NUMBERS = [...]`.

    xDSL's own parsers of these ops take elements of integer and float types only, since
    they build the region that the syntax leaves out. Raises ParseError.
    """
    operands = [_parse_operand(parser, keyword) for keyword in ("ins", "outs")]
    parser.parse_keyword(numbers)
    parser.parse_punctuation("=")
    values = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
    attributes = parser.parse_optional_attr_dict()
    types = [operand.type for operand in operands]
    block = Block(arg_types=[getattr(type, "element_type", type) for type in types])
    block.add_op(YieldOp.create(operands=block.args[:1]))
    return op_type.create(
        operands=operands,
        result_types=types[1:] if isinstance(types[1], TensorType) else [],
        properties={numbers: DenseArrayBase.from_list(i64, values)},
        attributes=attributes,
        regions=[Region(block)],
    )


def _parse_operand(parser: Parser, keyword: str) -> SSAValue:
    parser.parse_keyword(keyword)
    with parser.in_parens():
        operand = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        return parser.resolve_operand(operand, cast(Attribute, parser.parse_type()))


class _BroadcastSyntax(Operation):
    name = "linalg.broadcast"

    @classmethod
    @override
    def parse(cls, parser: Parser) -> Operation:
        return _parse(parser, BroadcastOp, "dimensions")


class _TransposeSyntax(Operation):
    name = "linalg.transpose"

    @classmethod
    @override
    def parse(cls, parser: Parser) -> Operation:
        return _parse(parser, TransposeOp, "permutation")


SYNTAX: Final[Mapping[type[Operation], type[Operation]]] = {
    BroadcastOp: _BroadcastSyntax,
    TransposeOp: _TransposeSyntax,
}
"""Classes whose `parse` reads the custom form of an op, in place of its own."""
