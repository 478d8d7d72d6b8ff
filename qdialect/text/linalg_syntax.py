"""The custom syntax of linalg ops, for elements of any type and any number of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, cast

from typing_extensions import override
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, StringAttr, TensorType, i32, i64
from xdsl.dialects.linalg.attrs import IteratorType, IteratorTypeAttr
from xdsl.dialects.linalg.ops import BroadcastOp, GenericOp, TransposeOp, YieldOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.parser import Parser, Position


def _parse(parser: Parser, op_type: type[Operation], numbers: str) -> Operation:
    """
    Read `ins(%a : type) outs(%b : type) NUMBERS = [...]`.

    xDSL's own parsers of these ops accept only integer and float elements, since they build the
    region that the syntax omits. Raises ParseError.
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


class _GenericSyntax(Operation):
    name = "linalg.generic"

    @classmethod
    @override
    def parse(cls, parser: Parser) -> Operation:
        """
        Read `linalg.generic {...} ins(...) outs(...) attrs = {...} {...} -> types`.

        xDSL's own parser accepts only one type after the arrow. Raises ParseError.
        """
        position = parser.pos
        attributes = parser.parse_optional_attr_dict()
        operands = [parse_operands(parser, keyword) for keyword in ("ins", "outs")]
        if parser.parse_optional_keyword("attrs") is not None:
            parser.parse_punctuation("=")
            attributes |= parser.parse_optional_attr_dict()
        region = parser.parse_region()
        result_types = parse_result_types(parser)
        declared = GenericOp.get_irdl_definition().properties
        properties = {name: attributes.pop(name) for name in [*attributes] if name in declared}
        iterators = properties.get("iterator_types")
        if not isinstance(iterators, ArrayAttr):
            parser.raise_error("expected iterator_types", position)
        properties["iterator_types"] = ArrayAttr(
            _iterator_type(parser, iterator, position)
            for iterator in cast(ArrayAttr[Attribute], iterators)
        )
        sizes = [len(values) for values in operands]
        properties["operandSegmentSizes"] = DenseArrayBase.from_list(i32, sizes)
        return GenericOp.create(
            operands=[value for values in operands for value in values],
            result_types=result_types,
            properties=properties,
            attributes=attributes,
            regions=[region],
        )


def parse_operands(parser: Parser, keyword: str) -> Sequence[SSAValue]:
    """Read the optional `keyword(%a, %b : type, type)`. Raises ParseError."""
    if parser.parse_optional_keyword(keyword) is None:
        return ()
    with parser.in_parens():
        position = parser.pos
        operands = parser.parse_comma_separated_list(
            parser.Delimiter.NONE, parser.parse_unresolved_operand
        )
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
    return parser.resolve_operands(operands, types, position)


def parse_result_types(parser: Parser) -> Sequence[Attribute]:
    """Parse the optional `-> type` or `-> (type, type)`. Raises ParseError."""
    if parser.parse_optional_punctuation("->") is None:
        return ()
    types = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    return [parser.parse_type()] if types is None else types


def _iterator_type(parser: Parser, iterator: Attribute, position: Position) -> Attribute:
    if not isinstance(iterator, StringAttr):
        return iterator
    try:
        return IteratorTypeAttr(IteratorType(iterator.data))
    except ValueError:
        parser.raise_error(f"unexpected iterator_type ({iterator.data})", position)


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
    GenericOp: _GenericSyntax,
    TransposeOp: _TransposeSyntax,
}
"""For each op, the class whose `parse` replaces the op's own."""
