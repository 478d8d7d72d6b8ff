"""The custom form of `stablehlo.convolution`."""

from __future__ import annotations

from typing import Final

from typing_extensions import override
from xdsl.dialects.builtin import DenseArrayBase, DenseIntOrFPElementsAttr, TensorType, i1, i64
from xdsl.ir import Attribute, Operation
from xdsl.irdl import traits_def
from xdsl.parser import Parser
from xdsl.traits import NoMemoryEffect


class ConvolutionOp(Operation):
    """
    `stablehlo.convolution(%x, %w) dim_numbers = [...]x[...]->[...], window = {...}`.

    It is printed in generic form, and not verified.

    https://openxla.org/stablehlo/spec#convolution
    """

    name = "stablehlo.convolution"

    traits = traits_def(NoMemoryEffect())

    @classmethod
    @override
    def parse(cls, parser: Parser) -> ConvolutionOp:
        position = parser.pos
        values = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_unresolved_operand
        )
        parser.parse_keyword("dim_numbers")
        parser.parse_punctuation("=")
        input = _parse_dimensions(parser)
        parser.parse_keyword("x")
        kernel = _parse_dimensions(parser)
        parser.parse_punctuation("->")
        numbers = f"#stablehlo.conv<{input}x{kernel}->{_parse_dimensions(parser)}>"
        if not parser.ctx.allow_unregistered:
            parser.raise_error(
                "'stablehlo.conv' is not registered (use --allow-unregistered-dialect)", position
            )
        parser.parse_punctuation(",")
        parser.parse_keyword("window")
        parser.parse_punctuation("=")
        properties: dict[str, Attribute] = {
            "dimension_numbers": Parser(parser.ctx, numbers).parse_attribute()
        }
        properties |= parser.parse_comma_separated_list(
            parser.Delimiter.BRACES, lambda: _parse_of_window(parser)
        )
        attributes = parser.parse_optional_attr_dict()
        for name in ("batch_group_count", "feature_group_count", "precision_config"):
            if name in attributes:
                properties[name] = attributes.pop(name)
        parser.parse_punctuation(":")
        types = parser.parse_function_type()
        return cls.create(
            operands=parser.resolve_operands(values, types.inputs.data, position),
            result_types=types.outputs.data,
            properties=properties,
            attributes=attributes,
        )


def _parse_dimensions(parser: Parser) -> str:
    """Parse `[b, 0, 1, f]`; returns it."""

    def parse_dimension() -> str:
        if (number := parser.parse_optional_integer()) is not None:
            return str(number)
        return "?" if parser.parse_optional_punctuation("?") else parser.parse_identifier()

    names = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parse_dimension)
    return f"[{', '.join(names)}]"


_OF_WINDOW: Final = {
    "stride": "window_strides",
    "lhs_dilate": "lhs_dilation",
    "rhs_dilate": "rhs_dilation",
}


def _parse_of_window(parser: Parser) -> tuple[str, Attribute]:
    """Parse `stride = [1, 1]`, or another property of a window; returns its name and its value."""
    position = parser.pos
    name = parser.parse_identifier()
    parser.parse_punctuation("=")
    square = parser.Delimiter.SQUARE
    if name == "pad":
        pairs = parser.parse_comma_separated_list(
            square, lambda: parser.parse_comma_separated_list(square, parser.parse_integer)
        )
        type = TensorType(i64, [len(pairs), 2])
        numbers = [number for pair in pairs for number in pair]
        if len(numbers) != 2 * len(pairs):
            parser.raise_error("pairs of integers were expected", position)
        return "padding", DenseIntOrFPElementsAttr.from_list(type, numbers)
    if name == "reverse":
        flags = parser.parse_comma_separated_list(square, parser.parse_boolean)
        return "window_reversal", DenseArrayBase.from_list(i1, flags)
    if name not in _OF_WINDOW:
        parser.raise_error(f"'{name}' is not a property of a window", position)
    integers = parser.parse_comma_separated_list(square, parser.parse_integer)
    return _OF_WINDOW[name], DenseArrayBase.from_list(i64, integers)
