"""
The dialects of StableHLO, and its ops whose custom forms a table cannot express.

https://openxla.org/stablehlo/spec. `syntax` has the forms of all other ops. Types are not verified.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from typing_extensions import override
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Block, Dialect, Operation, Region, SSAValue
from xdsl.irdl import traits_def
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import Pure

from qdialect.dialects.stablehlo.syntax import ops_of
from qdialect.ir.value_types import tensor_element_type
from qdialect.ir.xdsl_private import print_under_names_of
from qdialect.text.form_text import FormMismatchError, integers_of, listed
from qdialect.text.op_forms import OwnForm


class ConstantOp(OwnForm, Operation):
    """
    A constant tensor; if it is quantized, `value` holds its storage integers.

    `stablehlo.constant dense<1> : tensor<2xi8>`, but `stablehlo.constant() <{value = dense<1> :
    tensor<2xi8>}> : () -> tensor<2x!q>` if it is quantized; the integers are `iN` even for
    unsigned storage.
    """

    name = "stablehlo.constant"

    traits = traits_def(Pure())

    @override
    def own_form(self) -> Callable[[Printer], object] | None:
        is_constant = len(self.results) == 1 and not self.operands
        type = _type_of_elements(self.properties.get("value"))
        is_whole = is_constant and type is not None and self.properties.keys() == {"value"}
        return self._print_form if is_whole else None

    @classmethod
    @override
    def parse(cls, parser: Parser) -> ConstantOp:
        if parser.parse_optional_punctuation("(") is not None:
            return cls._parse_apart(parser)
        position = parser.pos
        attributes = parser.parse_optional_attr_dict()
        if "value" in attributes:
            parser.raise_error(
                "attribute 'value' occurs more than once in the attribute list", position
            )
        position = parser.pos
        value = parser.parse_attribute()
        if (type := _type_of_elements(value)) is None:
            parser.raise_error("invalid kind of attribute specified", position)
        return cls.create(properties={"value": value}, attributes=attributes, result_types=[type])

    @classmethod
    def _parse_apart(cls, parser: Parser) -> ConstantOp:
        """Parse the form with two types, after its first parenthesis."""
        parser.parse_punctuation(")")
        properties = parser.parse_optional_properties_dict()
        attributes = parser.parse_optional_attr_dict()
        if "value" in attributes:
            properties.setdefault("value", attributes.pop("value"))
        parser.parse_punctuation(":")
        position = parser.pos
        type = parser.parse_function_type()
        if type.inputs.data or len(type.outputs.data) != 1:
            parser.raise_error("expected the type of one result", position)
        return cls.create(
            properties=properties, attributes=attributes, result_types=type.outputs.data
        )

    def _print_form(self, printer: Printer) -> None:
        is_apart = _type_of_elements(self.properties["value"]) != self.results[0].type
        if is_apart:
            printer.print_string("() <")
            printer.print_attr_dict(self.properties)
            printer.print_string(">")
        printer.print_op_attributes(self.attributes)
        if is_apart:
            printer.print_string(" : () -> ")
            printer.print_attribute(self.results[0].type)
        else:
            printer.print_string(" ")
            printer.print_attribute(self.properties["value"])


def _type_of_elements(value: Attribute | None) -> Attribute | None:
    """The tensor type of an elements attribute; None for any other attribute."""
    if isinstance(value, DenseIntOrFPElementsAttr | DenseResourceAttr):
        return cast("DenseIntOrFPElementsAttr[Any] | DenseResourceAttr", value).type
    return None


_COMMUTATIVE: Final = frozenset(
    f"stablehlo.{name}" for name in ("add", "and", "maximum", "minimum", "multiply", "or", "xor")
)
"""The ops that a reduction names in place of its region."""


class ReduceOp(OwnForm, Operation):
    """
    `stablehlo.reduce(%x init: %c) applies stablehlo.add across dimensions = [0] : ...`.

    A reducer that is no single commutative op follows the type, with its arguments in pairs; in
    its block, the first of each pair come before the second.
    """

    name = "stablehlo.reduce"

    traits = traits_def()

    @classmethod
    @override
    def parse(cls, parser: Parser) -> ReduceOp:
        position = parser.pos
        pairs = parser.parse_comma_separated_list(
            parser.Delimiter.NONE, lambda: _parse_reduced(parser)
        )
        applied = None
        if parser.parse_optional_keyword("applies") is not None:
            applied = parser.parse_identifier()
        parser.parse_keyword("across")
        parser.parse_keyword("dimensions")
        parser.parse_punctuation("=")
        dimensions = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, parser.parse_integer
        )
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types = parser.parse_function_type()
        values = [*(value for value, _ in pairs), *(start for _, start in pairs)]
        operands = parser.resolve_operands(values, types.inputs.data, position)
        if applied is None:
            region = _parse_reducer(parser, len(pairs))
        else:
            region = _reducer_of(parser, applied, tensor_element_type(operands[0].type))
        return cls.create(
            operands=operands,
            result_types=types.outputs.data,
            properties={"dimensions": DenseArrayBase.from_list(i64, dimensions)},
            attributes=attributes,
            regions=[region],
        )

    @override
    def own_form(self) -> Callable[[Printer], object] | None:
        try:
            self._dimensions()
        except FormMismatchError:
            return None
        count, odd = divmod(len(self.operands), 2)
        blocks = self.regions[0].blocks if len(self.regions) == 1 else ()
        is_paired = count and not odd and len(blocks) == 1 and len(blocks[0].args) == 2 * count
        return self._print_form if is_paired else None

    def _dimensions(self) -> Sequence[int]:
        dimensions = self.properties.get("dimensions", self.attributes.get("dimensions"))
        return integers_of(dimensions, i64)

    def _print_form(self, printer: Printer) -> None:
        count = len(self.operands) // 2
        pairs = list(zip(self.operands[:count], self.operands[count:], strict=True))

        def print_pair(pair: tuple[SSAValue, SSAValue]) -> None:
            with printer.in_parens():
                printer.print_ssa_value(pair[0])
                printer.print_string(" init: ")
                printer.print_ssa_value(pair[1])

        printer.print_list(pairs, print_pair)
        block = self.regions[0].block
        applied = _applied(block, tensor_element_type(self.operands[0].type))
        if applied is not None:
            printer.print_string(f" applies {applied}")
        printer.print_string(f" across dimensions = {listed(self._dimensions())}")
        printer.print_op_attributes(_rest(self, "dimensions"))
        printer.print_string(" : ")
        printer.print_function_type(self.operand_types, self.result_types)
        if applied is not None:
            return
        printer.print_string("\n reducer")
        for first, second in zip(block.args[:count], block.args[count:], strict=True):
            with printer.in_parens():
                printer.print_list([first, second], printer.print_block_argument)
            printer.print_string(" ")
        printer.print_string(" ")
        printer.print_region(self.regions[0], print_entry_block_args=False)


def _rest(op: Operation, *printed: str) -> Mapping[str, Attribute]:
    """The properties and attributes that are printed in the dictionary."""
    both = {**op.properties, **op.attributes}
    return {name: both[name] for name in both if name not in printed}


def _parse_reduced(parser: Parser) -> tuple[UnresolvedOperand, UnresolvedOperand]:
    """Parse `(%x init: %c)`."""
    parser.parse_punctuation("(")
    value = parser.parse_unresolved_operand()
    parser.parse_keyword("init")
    parser.parse_punctuation(":")
    start = parser.parse_unresolved_operand()
    parser.parse_punctuation(")")
    return value, start


def _parse_reducer(parser: Parser, count: int) -> Region:
    """Parse `reducer(%a: T, %b: T) (%c: U, %d: U) {...}`, with `count` pairs of arguments."""
    parser.parse_keyword("reducer")
    pairs: list[Sequence[Parser.Argument]] = []
    for _ in range(count):
        position = parser.pos
        pair = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: parser.parse_argument()
        )
        if len(pair) != 2:
            parser.raise_error("a pair of arguments was expected", position)
        pairs.append(pair)
    return parser.parse_region([*(pair[0] for pair in pairs), *(pair[1] for pair in pairs)])


def _reducer_of(parser: Parser, name: str, element_type: Attribute) -> Region:
    """The reducer that applies the op of a name to two arguments."""
    if name not in _COMMUTATIVE:
        parser.raise_error(
            "expected the inner-op to be a commutative binary-op from the stablehlo dialect, with "
            "zero region, producing single result"
        )
    type = TensorType(element_type, [])
    block = Block(arg_types=[type, type])
    inner, ending = (parser.ctx.get_op(op_name) for op_name in (name, "stablehlo.return"))
    block.add_op(combined := inner.create(operands=block.args, result_types=[type]))
    block.add_op(ending.create(operands=combined.results))
    return Region(block)


def _applied(block: Block, element_type: Attribute) -> str | None:
    """The name of the op that a reducer applies to its arguments, if it is all that it does."""
    first, last = block.first_op, block.last_op
    if first is None or last is None or first.next_op is not last or len(block.args) != 2:
        return None
    type = TensorType(element_type, [])
    is_simple = (
        first.name in _COMMUTATIVE
        and last.name == "stablehlo.return"
        and not (first.attributes or first.properties or last.attributes)
        and tuple(first.operands) == tuple(block.args)
        and tuple(last.operands) == tuple(first.results)
        and {*first.operand_types, *first.result_types} == {type}
    )
    return first.name if is_simple else None


class WhileOp(OwnForm, Operation):
    """`stablehlo.while(%i = %x) : tensor<i32> cond {...} do {...}`: `%i` is in both regions."""

    name = "stablehlo.while"

    traits = traits_def()

    @classmethod
    @override
    def parse(cls, parser: Parser) -> WhileOp:
        position = parser.pos
        pairs = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: _parse_assignment(parser)
        )
        types: list[Attribute] = []
        if pairs:
            parser.parse_punctuation(":")
            types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        operands = parser.resolve_operands([value for _, value in pairs], types, position)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        regions: list[Region] = []
        for keyword in ("cond", "do"):
            parser.parse_keyword(keyword)
            arguments = [
                argument.resolve(type) for (argument, _), type in zip(pairs, types, strict=True)
            ]
            regions.append(parser.parse_region(arguments))
        return cls.create(
            operands=operands,
            result_types=types,
            attributes={} if attributes is None else attributes.data,
            regions=regions,
        )

    @override
    def own_form(self) -> Callable[[Printer], object] | None:
        types = [*self.operand_types]
        lists = [
            [argument.type for argument in block.args]
            for region in self.regions
            for block in region.blocks
        ]
        is_whole = len(self.regions) == 2 and [types] * 3 == [*lists, [*self.result_types]]
        return self._print_form if is_whole else None

    def _print_form(self, printer: Printer) -> None:
        condition, body = self.regions
        pairs = list(zip(body.block.args, self.operands, strict=True))

        def print_assignment(pair: tuple[SSAValue, SSAValue]) -> None:
            printer.print_ssa_value(pair[0])
            printer.print_string(" = ")
            printer.print_ssa_value(pair[1])

        with printer.in_parens():
            printer.print_list(pairs, print_assignment)
        if pairs:
            printer.print_string(" : ")
            printer.print_list(self.operand_types, printer.print_attribute)
        printer.print_op_attributes(_rest(self), print_keyword=True)
        printer.print_string("\n cond ")
        print_under_names_of(printer, condition.block.args, body.block.args)
        printer.print_region(condition, print_entry_block_args=False)
        printer.print_string(" do ")
        printer.print_region(body, print_entry_block_args=False)


def _parse_assignment(parser: Parser) -> tuple[Parser.UnresolvedArgument, UnresolvedOperand]:
    """Parse `%i = %x`."""
    argument = parser.parse_argument(expect_type=False)
    parser.parse_punctuation("=")
    return argument, parser.parse_unresolved_operand()


StableHLO: Final = Dialect("stablehlo", [*ops_of("stablehlo"), ConstantOp, ReduceOp, WhileOp])

CHLO: Final = Dialect("chlo", [*ops_of("chlo")])
