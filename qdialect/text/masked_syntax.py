"""
The custom form of `vector.mask`, whose region has one op and no terminator.

https://mlir.llvm.org/docs/Dialects/Vector/#vectormask-vectormaskop.
"""

from __future__ import annotations

from typing_extensions import override
from xdsl.ir import Attribute, Operation
from xdsl.irdl import traits_def
from xdsl.parser import Parser
from xdsl.traits import IsTerminator

from qdialect.text.op_formats import parse_arrow_types


class MaskOp(Operation):
    """`vector.mask %m, %passthru { vector.load ... } : vector<8xi1> -> vector<8xf32>`."""

    name = "vector.mask"

    traits = traits_def()

    @classmethod
    @override
    def parse(cls, parser: Parser) -> MaskOp:
        position = parser.pos
        values = parser.parse_comma_separated_list(
            parser.Delimiter.NONE, parser.parse_unresolved_operand
        )
        region = parser.parse_region()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        mask_type: Attribute = parser.parse_type()
        types = parse_arrow_types(parser)
        # The pass-through value has the type of the results.
        operands = parser.resolve_operands(values, [mask_type, *types[: len(values) - 1]], position)
        block = region.block
        last = block.last_op
        if last is None or not last.has_trait(IsTerminator):
            terminator = parser.ctx.get_optional_op("vector.yield")
            assert terminator is not None
            results = () if last is None else last.results
            block.add_op(terminator.create(operands=results))
        return cls.create(
            operands=operands, result_types=types, attributes=attributes, regions=[region]
        )
