"""Branches, which may have weights: https://mlir.llvm.org/docs/Dialects/ControlFlowDialect/."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override
from xdsl.dialects.builtin import DenseArrayBase, i1, i32
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.parser import Parser

from qdialect.ops.model import Effects, OpModel, OpModels
from qdialect.text.form_kinds import parse_integers
from qdialect.text.op_formats import parse_typed_operands
from qdialect.text.syntax import DialectSyntax
from qdialect.text.written_ops import with_later_properties

MODELS = OpModels("cf", {"br cond_br switch": OpModel(is_control=True, effects=Effects.NONE)})


class ConditionalBranchSyntax(IRDLOperation):
    """`cf.cond_br %c weights([1, 2]), ^a, ^b(%x : f32)`."""

    name = "cf.cond_br"

    @classmethod
    @override
    def parse(cls, parser: Parser) -> Operation:
        # Deferred: most texts have no branches.
        from xdsl.dialects.cf import ConditionalBranchOp

        operands: list[SSAValue] = [parser.resolve_operand(parser.parse_unresolved_operand(), i1)]
        properties: dict[str, Attribute] = {}
        if parser.parse_optional_keyword("weights") is not None:
            with parser.in_parens():
                weights = parse_integers(parser)
            properties["branch_weights"] = DenseArrayBase.from_list(i32, weights)
        successors: list[Block] = []
        sizes = [1]
        for _ in range(2):
            parser.parse_punctuation(",")
            successors.append(parser.parse_successor())
            arguments = _parse_arguments(parser)
            operands += arguments
            sizes.append(len(arguments))
        properties["operandSegmentSizes"] = DenseArrayBase.from_list(i32, sizes)
        op_type = with_later_properties(ConditionalBranchOp)
        return op_type.create(
            operands=operands,
            properties=properties,
            attributes=parser.parse_optional_attr_dict(),
            successors=successors,
        )


def _parse_arguments(parser: Parser) -> Sequence[SSAValue]:
    """Parse `(%a, %b : f32, i32)`, or nothing."""
    position = parser.pos
    if parser.parse_optional_punctuation("(") is None:
        return ()
    values, types = parse_typed_operands(parser)
    parser.parse_punctuation(")")
    return parser.resolve_operands(values, types, position)


SYNTAX = DialectSyntax(dialect="cf", readers=(ConditionalBranchSyntax,))
