"""The ops of affine, and their forms: https://mlir.llvm.org/docs/Dialects/Affine/."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from typing_extensions import override
from xdsl.ir import Operation
from xdsl.ir.affine import AffineMap
from xdsl.parser import Parser

from qdialect.ops.model import Bits, Effects, OpModel, OpModels
from qdialect.text.op_formats import Directive, ReadParts
from qdialect.text.syntax import DialectSyntax

if TYPE_CHECKING:
    from xdsl.interpreter import Interpreter

MODELS = OpModels(
    "affine",
    {
        "for if yield": OpModel(is_control=True, effects=Effects.NONE),
        "apply": OpModel(
            run="qdialect.dialects.affine:applied",
            integers=True,
            bits=Bits.EXACT,
            effects=Effects.NONE,
        ),
    },
)


def applied(interpreter: Interpreter, op: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """The run of an op that computes a position by a map."""
    # Deferred: numpy is imported by runs alone.
    from qdialect.dialects.arrays.elements import on_numbers

    map: AffineMap = cast(Any, op.properties["map"]).data

    def position(*numbers: Any) -> Any:
        return map.results[0].eval(numbers[: map.num_dims], numbers[map.num_dims :])

    return on_numbers(position)(interpreter, op, operands)


class Applied(Directive):
    """A map or set, with its operands: `affine_map<...>(%i)[%n]`."""

    @override
    def parse(self, parser: Parser, read: ReadParts) -> None:
        map, operands = self.names
        read.properties[map] = parser.parse_attribute()
        values = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_unresolved_operand
        )
        symbols = parser.parse_optional_comma_separated_list(
            parser.Delimiter.SQUARE, parser.parse_unresolved_operand
        )
        read.operands[operands] = [*values, *(symbols or ())]


SYNTAX = DialectSyntax(
    dialect="affine",
    forms={
        "if": "custom:Applied(condition,operands*=index) arrow(results) "
        "region(thenRegion,affine.yield) <? else region(elseRegion,affine.yield) ?> attr-dict",
        "max": "custom:Applied(map,operands*=index) attr-dict ->result=index",
        "delinearize_index": "$linear_index=index into indices(dynamic_basis,static_basis,()) "
        "attr-dict : type(multi_index*)",
        "linearize_index": "<? disjoint $disjoint:unit ?> [ $multi_index*=index ] by "
        "indices(dynamic_basis,static_basis,()) attr-dict : type(linear_index)",
    },
    read_in_part="if",
)
