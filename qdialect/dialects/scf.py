"""
The ops of scf: https://mlir.llvm.org/docs/Dialects/SCFDialect/.

The classes read custom forms, of loops whose variables are arguments of their regions, and of
others that xDSL does not read in full.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from typing_extensions import override
from xdsl.dialects.builtin import DenseArrayBase, IndexType, UnitAttr, i32, i64
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.irdl import IRDLOperation, traits_def
from xdsl.parser import Parser, UnresolvedOperand

from qdialect.ops.fields import Iteration
from qdialect.ops.model import Effects, OpModel, OpModels
from qdialect.text.op_formats import (
    parse_arguments,
    parse_arrow_types,
    parse_assignment,
    parse_indices,
    with_terminator,
)
from qdialect.text.syntax import DialectSyntax
from qdialect.text.written_ops import with_later_properties

_INDEX: Final = IndexType()
_IN_PARALLEL: Final = "scf.forall.in_parallel"

_control = partial(OpModel, is_control=True, effects=Effects.NONE)
_blocks = partial(
    _control, has_blocks=True, stays_float="it runs regions, in which ops are quantized"
)


def _for(op: Operation) -> Iteration:
    return Iteration(op.operands[3:], op.regions[0].block, op.operands[:3])


def _while(op: Operation) -> Iteration:
    before, after = (region.block for region in op.regions)
    return Iteration(op.operands, after, condition=before)


MODELS = OpModels(
    "scf",
    {
        "execute_region if": _blocks(),
        "for": _blocks(iteration=_for),
        "while": _blocks(effects=Effects.UNDEFINED, iteration=_while),
        "condition forall index_switch reduce reduce.return yield": _control(),
    },
)


class ForallOp(Operation):
    """`scf.forall (%i) in (2) shared_outs(%a = %x) -> (tensor<2xf32>) {...} {mapping = [...]}`."""

    name = "scf.forall"

    traits = traits_def()

    @classmethod
    @override
    def parse(cls, parser: Parser) -> ForallOp:
        position = parser.pos
        variables = parse_arguments(parser)
        bounds: list[list[UnresolvedOperand]] = []
        static: list[Attribute] = []
        if parser.parse_optional_keyword("in") is not None:
            upper, static_upper = parse_indices(parser, parser.Delimiter.PAREN)
            count = len(variables)
            bounds = [[], upper, []]
            static = [_repeated(0, count), static_upper, _repeated(1, count)]
        else:
            for keyword in ("=", "to", "step"):
                if keyword == "=":
                    parser.parse_punctuation(keyword)
                else:
                    parser.parse_keyword(keyword)
                values, numbers = parse_indices(parser, parser.Delimiter.PAREN)
                bounds.append(values)
                static.append(numbers)
        outputs: list[tuple[Parser.UnresolvedArgument, UnresolvedOperand]] = []
        types: list[Attribute] = []
        if parser.parse_optional_keyword("shared_outs") is not None:
            outputs = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: parse_assignment(parser)
            )
            types = [*parse_arrow_types(parser)]
        values = [value for group in bounds for value in group]
        operands = [
            *(parser.resolve_operand(value, _INDEX) for value in values),
            *parser.resolve_operands([value for _, value in outputs], types, position),
        ]
        arguments = [
            *(variable.resolve(_INDEX) for variable in variables),
            *(argument.resolve(type) for (argument, _), type in zip(outputs, types, strict=True)),
        ]
        region = parser.parse_region(arguments)
        last = region.block.last_op
        if last is None or last.name != _IN_PARALLEL:
            ending = parser.ctx.get_optional_op(_IN_PARALLEL)
            assert ending is not None
            region.block.add_op(ending.create(regions=[Region(Block())]))
        attributes = parser.parse_optional_attr_dict()
        properties: dict[str, Attribute] = dict(
            zip(("staticLowerBound", "staticUpperBound", "staticStep"), static, strict=True)
        )
        sizes = [*(len(group) for group in bounds), len(outputs)]
        properties["operandSegmentSizes"] = DenseArrayBase.from_list(i32, sizes)
        if (mapping := attributes.pop("mapping", None)) is not None:
            properties["mapping"] = mapping
        return cls.create(
            operands=operands,
            result_types=types,
            properties=properties,
            attributes=attributes,
            regions=[region],
        )


class ForSyntax(IRDLOperation):
    """`scf.for unsigned %i = %a to %b step %c {...}`."""

    name = "scf.for"

    @classmethod
    @override
    def parse(cls, parser: Parser) -> Operation:
        # Deferred: most texts have no loops.
        from xdsl.dialects.scf import ForOp

        if parser.parse_optional_keyword("unsigned") is None:
            return ForOp.parse(parser)
        op = with_later_properties(ForOp).parse(parser)
        op.properties["unsignedCmp"] = UnitAttr()
        return op


class IndexSwitchSyntax(IRDLOperation):
    """`scf.index_switch %i -> f32 case 2 {...} default {...}`."""

    name = "scf.index_switch"

    @classmethod
    @override
    def parse(cls, parser: Parser) -> Operation:
        # Deferred: most texts have no switches.
        from xdsl.dialects.scf import IndexSwitchOp

        value = parser.resolve_operand(parser.parse_unresolved_operand(), _INDEX)
        attributes = parser.parse_optional_attr_dict()
        types: Sequence[Attribute] = ()
        if parser.parse_optional_punctuation("->") is not None:
            types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        cases: list[int] = []
        regions: list[Region] = []
        while parser.parse_optional_keyword("case") is not None:
            cases.append(parser.parse_integer())
            regions.append(with_terminator(parser, parser.parse_region(), "scf.yield"))
        parser.parse_keyword("default")
        default = with_terminator(parser, parser.parse_region(), "scf.yield")
        return IndexSwitchOp.create(
            operands=[value],
            result_types=types,
            properties={"cases": DenseArrayBase.from_list(i64, cases)},
            attributes=attributes,
            regions=[default, *regions],
        )


def _repeated(number: int, count: int) -> Attribute:
    return DenseArrayBase.from_list(i64, [number] * count)


SYNTAX = DialectSyntax(
    dialect="scf",
    forms={
        "parallel": "arguments(variables,index) = ( $lowerBound*=index ) to ( $upperBound*=index ) "
        "step ( $step*=index ) <? init ( $initVals*=results ) ?> arrow(results) "
        "region(region,scf.reduce,variables) attr-dict",
        "if": "$cond=i1 arrow(output) region(true_region,scf.yield) <? else "
        "region(false_region,scf.yield) ?> attr-dict",
        "execute_region": "arrow(results) <? no_inline $no_inline:unit ?> region(region) attr-dict",
        "forall.in_parallel": "region(region,none) attr-dict",
    },
    terminators="forall.in_parallel",
    read_in_part="execute_region if parallel",
    without_attributes="reduce",
    ops=(ForallOp,),
    readers=(ForSyntax, IndexSwitchSyntax),
)
