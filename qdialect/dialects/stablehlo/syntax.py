"""
The dialects of StableHLO, with the custom forms that StableHLO prints.

https://openxla.org/stablehlo/spec. Types are not verified.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, cast

from typing_extensions import override
from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    ComplexType,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    FunctionType,
    IntegerAttr,
    TensorType,
    UnregisteredAttr,
    UnregisteredOp,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import traits_def
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import Pure

from qdialect.ir.value_types import element_type_or_self, shape_of, tensor_element_type
from qdialect.ir.xdsl_private import print_under_names_of, resume_from
from qdialect.text.form_kinds import (
    FormMismatchError,
    FormText,
    integer_of,
    integers_of,
    listed,
    parse_integers,
    parsed_text,
)
from qdialect.text.messages import end_of_brackets
from qdialect.text.op_formats import (
    Directive,
    ReadParts,
    parse_assignment,
    parse_typed_operands,
)
from qdialect.text.syntax import DialectSyntax
from qdialect.text.written_ops import OwnForm


class SliceRanges(Directive):
    """`[0:4, 1:8:2]`: the starts, limits and strides of a slice."""

    @override
    def parse(self, parser: Parser, read: ReadParts) -> None:
        def parse_range() -> tuple[int, int, int]:
            start = parser.parse_integer()
            parser.parse_punctuation(":")
            limit = parser.parse_integer()
            has_stride = parser.parse_optional_punctuation(":") is not None
            return start, limit, parser.parse_integer() if has_stride else 1

        ranges = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parse_range)
        for name, numbers in zip(
            self.names, zip(*ranges, strict=True) if ranges else ((),) * 3, strict=True
        ):
            read.properties[name] = DenseArrayBase.from_list(i64, numbers)

    @override
    def print(self, text: FormText) -> None:
        lists = [integers_of(text.attribute(name), i64) for name in self.names]
        if len({*map(len, lists)}) != 1:
            raise FormMismatchError("its lists differ in length")
        ranges = zip(*lists, strict=True)
        text.add(
            listed(
                f"{start}:{limit}" if stride == 1 else f"{start}:{limit}:{stride}"
                for start, limit, stride in ranges
            )
        )


class DotDimensions(Directive):
    """`batching_dims = [0] x [0], contracting_dims = [2] x [1]`."""

    @override
    def parse(self, parser: Parser, read: ReadParts) -> None:
        pairs: dict[str, tuple[list[int], list[int]]] = {}
        if parser.parse_optional_keyword("batching_dims") is not None:
            parser.parse_punctuation("=")
            pairs["batching"] = self._parse_pair(parser)
            parser.parse_punctuation(",")
        parser.parse_keyword("contracting_dims")
        parser.parse_punctuation("=")
        pairs["contracting"] = self._parse_pair(parser)
        lists = ", ".join(
            f"{side}_{kind}_dimensions = {listed(axes)}"
            for kind, pair in pairs.items()
            for side, axes in zip(("lhs", "rhs"), pair, strict=True)
            if axes
        )
        (name,) = self.names
        read.properties[name] = parsed_text(parser, f"#stablehlo.dot<{lists}>")

    @staticmethod
    def _parse_pair(parser: Parser) -> tuple[list[int], list[int]]:
        lhs = parse_integers(parser)
        parser.parse_characters("x")
        return lhs, parse_integers(parser)

    @override
    def print(self, text: FormText) -> None:
        (name,) = self.names
        dot = str(text.attribute(name))
        lists = dict(re.findall(r"(\w+)_dimensions = \[([0-9, ]*)\]", dot))
        batching, contracting = (
            " x ".join(f"[{lists.get(f'{side}_{kind}', '')}]" for side in ("lhs", "rhs"))
            for kind in ("batching", "contracting")
        )
        batch = "" if batching == "[] x []" else f"batching_dims = {batching}, "
        text.add(f"{batch}contracting_dims = {contracting}")


class Precision(Directive):
    """`, precision = [DEFAULT, HIGHEST]`, then `, algorithm = <...>`; both are optional."""

    @override
    def parse(self, parser: Parser, read: ReadParts) -> None:
        while parser.parse_optional_punctuation(",") is not None:
            position = parser.pos
            name = parser.parse_identifier()
            parser.parse_punctuation("=")
            if name == "precision":
                words = parser.parse_comma_separated_list(
                    parser.Delimiter.SQUARE, parser.parse_identifier
                )
                read.properties[self.names[0]] = ArrayAttr(
                    parsed_text(parser, f"#stablehlo<precision {word}>") for word in words
                )
            elif name == "algorithm" and len(self.names) > 1:
                algorithm = f"#stablehlo.dot_algorithm{_parse_balanced(parser)}"
                read.properties[self.names[1]] = parsed_text(parser, algorithm)
            else:
                parser.raise_error(f"'{name}' is not a property of the op", position)

    @override
    def print(self, text: FormText) -> None:
        if (precision := text.find(self.names[0])) is not None:
            words = re.findall(r"precision<? ?(\w+)>", str(precision))
            if not isinstance(precision, ArrayAttr) or len(words) != len(
                cast("ArrayAttr[Attribute]", precision)
            ):
                raise FormMismatchError("a precision is missing")
            text.add(f", precision = {listed(words)}", attached=True)
        if len(self.names) > 1 and (algorithm := text.find(self.names[1])) is not None:
            body = str(algorithm).removeprefix("#stablehlo.dot_algorithm")
            text.add(f", algorithm = {body}", attached=True)


def _parse_balanced(parser: Parser) -> str:
    """Parse `<...>`, with whatever is inside; returns it."""
    start, end = parser.pos, end_of_brackets(parser, parser.pos)
    resume_from(parser, end)
    return parser.lexer.input.content[start:end]


class SelectTypes(Directive):
    """The types of the condition and of all others: `tensor<2xi1>, tensor<2xf32>`."""

    @override
    def parse(self, parser: Parser, read: ReadParts) -> None:
        position = parser.pos
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        if len(types) == 1 and isinstance(types[0], FunctionType):
            types = [*types[0].inputs.data, *types[0].outputs.data]
        elif len(types) == 2:
            types = [types[0], *[types[1]] * 3]
        if len(types) != len(self.names):
            parser.raise_error("expected functional type or list of two types", position)
        read.types.update({name: [type] for name, type in zip(self.names, types, strict=True)})

    @override
    def print(self, text: FormText) -> None:
        condition, *others = (text.values[name][0].type for name in self.names)
        if len({*others}) == 1:
            text.add_attributes([condition, others[0]])
        else:
            text.add_function_type()


class ComplexTypes(Directive):
    """The type of a complex result, of which the operands are parts, or else a function type."""

    @override
    def parse(self, parser: Parser, read: ReadParts) -> None:
        position = parser.pos
        type = parser.parse_type()
        types: Sequence[Attribute] = ()
        if isinstance(type, FunctionType):
            types = (*type.inputs.data, *type.outputs.data)
        elif (part := _real_type(type)) is not None:
            types = (part, part, type)
        if len(types) != len(self.names):
            parser.raise_error("expected tensor with complex element type", position)
        read.types.update({name: [type] for name, type in zip(self.names, types, strict=True)})

    @override
    def print(self, text: FormText) -> None:
        *parts, result = (text.values[name][0].type for name in self.names)
        if all(part == _real_type(result) for part in parts):
            text.add_attributes([result])
        else:
            text.add_function_type()


def _real_type(type: Attribute) -> Attribute | None:
    """The type of the parts of a tensor of complex numbers; None for any other type."""
    if not isinstance(type, TensorType):
        return None
    tensor = cast("TensorType[Attribute]", type)
    if not isinstance(element := tensor.element_type, ComplexType):
        return None
    part: Attribute = cast("ComplexType[Any]", element).element_type
    return TensorType(part, tensor.get_shape(), tensor.encoding)


class PairedOperands(Directive):
    """`%a, %b : T, U`: operands, each of which has the type of a result; `()` without any."""

    @override
    def parse(self, parser: Parser, read: ReadParts) -> None:
        values: list[UnresolvedOperand] = []
        types: Sequence[Attribute] = ()
        if parser.parse_optional_punctuation("(") is not None:
            parser.parse_punctuation(")")
        else:
            values, types = parse_typed_operands(parser)
        read.operands[self.names[0]] = values
        read.types.update({name: types for name in self.names})

    @override
    def print(self, text: FormText) -> None:
        operands, results = (text.values[name] for name in self.names)
        types = [value.type for value in operands]
        if types != [value.type for value in results]:
            raise FormMismatchError("its results have other types")
        if not operands:
            text.add("()", attached=True)
            return
        text.add(lambda printer: printer.print_list(operands, printer.print_ssa_value))
        text.literal(":")
        text.add_attributes(types)


class ExponentMantissa(Directive):
    """`e5m10`: the numbers of bits of an exponent and of a mantissa."""

    @override
    def parse(self, parser: Parser, read: ReadParts) -> None:
        position = parser.pos
        word = parser.parse_identifier()
        if (bits := re.fullmatch("e([0-9]+)m([0-9]+)", word)) is None:
            parser.raise_error(f"expected exponent mantissa in format e#m#, saw {word}", position)
        for name, count in zip(self.names, bits.groups(), strict=True):
            read.properties[name] = IntegerAttr(int(count), i32)

    @override
    def print(self, text: FormText) -> None:
        exponent, mantissa = (integer_of(text.attribute(name), i32) for name in self.names)
        text.add(f"e{exponent}m{mantissa}")


class ConvolutionDimensions(Directive):
    """`[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`."""

    @override
    def parse(self, parser: Parser, read: ReadParts) -> None:
        data = self._parse_axes(parser)
        parser.parse_characters("x")
        kernel = self._parse_axes(parser)
        parser.parse_punctuation("->")
        (name,) = self.names
        numbers = f"#stablehlo.conv<{data}x{kernel}->{self._parse_axes(parser)}>"
        read.properties[name] = parsed_text(parser, numbers)

    @staticmethod
    def _parse_axes(parser: Parser) -> str:
        def parse_axis() -> str:
            if (number := parser.parse_optional_integer()) is not None:
                return str(number)
            return "?" if parser.parse_optional_punctuation("?") else parser.parse_identifier()

        return listed(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parse_axis))

    @override
    def print(self, text: FormText) -> None:
        (name,) = self.names
        numbers = re.fullmatch(r"#stablehlo\.conv<(\[.*\])>", str(text.attribute(name)))
        if numbers is None:
            raise FormMismatchError("its dimension numbers are raw")
        text.add(numbers[1])


class Window(Directive):
    """`stride = [2, 2], pad = [[0, 1], [0, 1]], reverse = [false, false]`: what is given of it."""

    _WORDS: ClassVar[Sequence[str]] = ("stride", "pad", "lhs_dilate", "rhs_dilate", "reverse")

    @override
    def parse(self, parser: Parser, read: ReadParts) -> None:
        names = dict(zip(self._WORDS, self.names, strict=True))
        while (word := parser.parse_optional_keyword_in(self._WORDS)) is not None:
            parser.parse_punctuation("=")
            read.properties[names[word]] = self._parse_list(parser, word)
            if parser.parse_optional_punctuation(",") is None:
                break

    @staticmethod
    def _parse_list(parser: Parser, word: str) -> Attribute:
        position, square = parser.pos, parser.Delimiter.SQUARE
        if word == "reverse":
            flags = parser.parse_comma_separated_list(square, parser.parse_boolean)
            return DenseArrayBase.from_list(i1, flags)
        if word != "pad":
            return DenseArrayBase.from_list(i64, parse_integers(parser))
        pairs = parser.parse_comma_separated_list(square, lambda: parse_integers(parser))
        if any(len(pair) != 2 for pair in pairs):
            parser.raise_error("pairs of integers were expected", position)
        numbers = [number for pair in pairs for number in pair]
        return DenseIntOrFPElementsAttr.from_list(TensorType(i64, [len(pairs), 2]), numbers)

    @override
    def print(self, text: FormText) -> None:
        items: list[str] = []
        for word, name in zip(self._WORDS, self.names, strict=True):
            if (attribute := text.find(name)) is not None:
                items.append(f"{word} = {self._list_text(word, attribute)}")
        text.add(", ".join(items), attached=True)

    @staticmethod
    def _list_text(word: str, attribute: Attribute) -> str:
        if word == "reverse":
            flags = integers_of(attribute, i1)
            return listed("true" if flag else "false" for flag in flags)
        if word != "pad":
            return listed(integers_of(attribute, i64))
        if not isinstance(attribute, DenseIntOrFPElementsAttr) or len(attribute.get_shape()) != 2:
            raise FormMismatchError("its padding is no list of pairs")
        numbers = [int(number) for number in attribute.get_values()]
        return listed(listed(numbers[at : at + 2]) for at in range(0, len(numbers), 2))


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
        dimensions = parse_integers(parser)
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
            parser.Delimiter.PAREN, lambda: parse_assignment(parser)
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


_DEFAULT_ACCURACY: Final = (
    "#stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<DEFAULT>>"
)

SYNTAX = DialectSyntax(
    dialect="stablehlo",
    forms={
        "all_gather all_reduce all_to_all async_done async_start batch_norm_grad "
        "batch_norm_inference batch_norm_training case collective_broadcast collective_permute "
        "collective_reduce cross-replica-sum dynamic_conv dynamic_gather gather if infeed map "
        "outfeed recv reduce_scatter reduce_window scatter select_and_scatter send sort "
        "torch_index_select triangular_solve": "",
        "abs ceil convert count_leading_zeros floor imag negate not popcnt real round_nearest_afz "
        "round_nearest_even sign uniform_dequantize uniform_quantize": "$operand attr-dict : "
        "same-type",
        "cbrt cosine exponential exponential_minus_one log log_plus_one logistic rsqrt sine sqrt "
        "tan tanh": "$operand attr-dict(result_accuracy) : same-type",
        "add and atan2 divide maximum minimum multiply or power remainder shift_left "
        "shift_right_arithmetic shift_right_logical subtract xor": "$lhs , $rhs attr-dict : "
        "same-type",
        "after_all": "$inputs* attr-dict : same-type",
        "bitcast_convert dynamic_pad dynamic_reshape dynamic_update_slice is_finite "
        "real_dynamic_slice reshape": "$inputs* attr-dict : functional-type",
        "broadcast": "$operand , sizes = $broadcast_sizes:integers(i64) attr-dict : "
        "functional-type",
        "broadcast_in_dim": "$operand , dims = $broadcast_dimensions:integers(i64) attr-dict : "
        "functional-type",
        "cholesky": "$a <? , lower = $lower:bool ?> attr-dict : same-type",
        "clamp": "$min , $operand , $max attr-dict : same-type",
        "compare": "$comparison_direction:keyword(stablehlo/comparison_direction) , $lhs , $rhs "
        "<? , $compare_type:keyword(stablehlo/comparison_type) ?> attr-dict : functional-type",
        "complex": "$lhs , $rhs attr-dict : custom:ComplexTypes(lhs,rhs,->result)",
        "composite": "$name:text $inputs* attr-dict(composite_attributes,decomposition,version) : "
        "functional-type(results*)",
        "concatenate": "$inputs*, dim = $dimension:integer(i64) attr-dict : functional-type",
        "convolution": "( $lhs , $rhs ) dim_numbers = "
        "custom:ConvolutionDimensions(dimension_numbers) , window = { "
        "custom:Window(window_strides,padding,lhs_dilation,rhs_dilation,window_reversal) } "
        "attr-dict(feature_group_count,batch_group_count,precision_config) : functional-type",
        "create_token partition_id replica_id": "attr-dict : type(output)",
        "custom_call": "$call_target_name:symbol ( $inputs* ) "
        "attr-dict(has_side_effect,backend_config,api_version,called_computations,operand_layouts,"
        "result_layouts,output_operand_aliases) : functional-type(results*)",
        "dot": "$lhs , $rhs custom:Precision(precision_config) attr-dict : functional-type",
        "dot_general": "$lhs , $rhs , custom:DotDimensions(dot_dimension_numbers) "
        "custom:Precision(precision_config,algorithm) attr-dict : functional-type",
        "dynamic_broadcast_in_dim": "$operand , $output_dimensions , dims = "
        "$broadcast_dimensions:integers(i64) "
        "attr-dict(known_expanding_dimensions,known_nonexpanding_dimensions) : functional-type",
        "dynamic_iota": "$output_shape , dim = $iota_dimension:integer(i64) attr-dict : "
        "functional-type",
        "dynamic_slice": "$operand , $start_indices*, sizes = $slice_sizes:integers(i64) "
        "attr-dict : functional-type",
        "einsum": "$lhs , $rhs , config = $einsum_config:text attr-dict : functional-type",
        "fft": "$operand , type = $fft_type:keyword(stablehlo/fft_type) , length = "
        "$fft_length:integers(i64) attr-dict : functional-type",
        "get_dimension_size": "$operand , dim = $dimension:integer(i64) attr-dict : "
        "functional-type",
        "get_tuple_element": "$operand [ $index:integer(i32) ] attr-dict : functional-type",
        "iota": "dim = $iota_dimension:integer(i64) attr-dict : type(output)",
        "optimization_barrier": "attr-dict custom:PairedOperands(operand*,->result*)",
        "pad": "$operand , $padding_value , low = $edge_padding_low:integers(i64) , high = "
        "$edge_padding_high:integers(i64) , interior = $interior_padding:integers(i64) attr-dict "
        ": functional-type",
        "reduce_precision": "$operand , format = "
        "custom:ExponentMantissa(exponent_bits,mantissa_bits) attr-dict : same-type(output)",
        "return": "$operands* attr-dict <? : type(operands) ?>",
        "reverse": "$operand , dims = $dimensions:integers(i64) attr-dict : same-type",
        "rng": "$a , $b , $shape , distribution = "
        "$rng_distribution:keyword(stablehlo/rng_distribution) attr-dict : functional-type",
        "rng_bit_generator": "$initial_state , algorithm = "
        "$rng_algorithm:keyword(stablehlo/rng_algorithm) attr-dict : "
        "functional-type(output_state,output)",
        "select": "$pred , $on_true , $on_false attr-dict : "
        "custom:SelectTypes(pred,on_true,on_false,->result)",
        "set_dimension_size": "$operand , $size , dim = $dimension:integer(i64) attr-dict : "
        "functional-type",
        "slice": "$operand custom:SliceRanges(start_indices,limit_indices,strides) attr-dict : "
        "functional-type",
        "transpose": "$operand , dims = $permutation:integers(i64) attr-dict : functional-type",
        "tuple": "$val*=parts(result) attr-dict : type(result)",
        "unary_einsum": "$operand , config = $einsum_config:text attr-dict : functional-type",
    },
    terminators="return",
    defaults=(
        ("api_version", "1 : i32"),
        ("called_computations", "[]"),
        ("composite_attributes", "{}"),
        ("has_side_effect", "false"),
        ("lower", "false"),
        ("output_operand_aliases", "[]"),
        ("result_accuracy", _DEFAULT_ACCURACY),
        ("version", "0 : i32"),
    ),
    ops=(ConstantOp, ReduceOp, WhileOp),
    opaque=(
        "bounds channel_handle channel_type comparison_direction comparison_type conv "
        "custom_call_api_version dot dot_algorithm fft_type future gather output_operand_alias "
        "precision replica_group_mesh_axes result_accuracy result_accuracy_mode rng_algorithm "
        "rng_distribution scatter token transpose type_extensions"
    ),
    prints=True,
)


def columns_taken(value: SSAValue, places: SSAValue) -> Operation:
    """A gather of the columns of a tensor, its last axis, at `places`, a tensor of one axis."""
    window = list(shape_of(value.type) or ())[:-1]
    axes, axis = list(range(len(window))), len(window)
    numbers = (
        f"offset_dims = {axes}, collapsed_slice_dims = [{axis}], start_index_map = [{axis}], "
        "index_vector_dim = 1"
    )
    attribute = UnregisteredAttr.with_name_and_type("stablehlo.gather", False)
    properties = {
        "dimension_numbers": attribute("stablehlo.gather", False, False, f"<{numbers}>"),
        "indices_are_sorted": BoolAttr.from_bool(False),
        "slice_sizes": DenseArrayBase.from_list(i64, [*window, 1]),
    }
    lengths = shape_of(places.type) or ()
    type = TensorType(element_type_or_self(value.type), [*window, *lengths])
    return UnregisteredOp.with_name("stablehlo.gather").create(
        operands=[value, places], result_types=[type], properties=properties
    )
