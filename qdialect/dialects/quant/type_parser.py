"""
Parsing the types of the quant dialect as upstream does.

Errors have upstream's messages and locations; the functions mirror
https://github.com/llvm/llvm-project/blob/main/mlir/lib/Dialect/Quant/IR/TypeParser.cpp.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, NoReturn, cast

from xdsl.dialects.builtin import AnyFloat, IntegerType, Signedness
from xdsl.ir import Attribute
from xdsl.parser import AttrParser, Position
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.parameters import MAX_STORAGE_WIDTH, FloatArray, IntArray, StorageFormat
from qdialect.dialects.quant.slots import (
    Slots,
    illegal_scales,
    read_slot_list,
    scale_message,
)
from qdialect.dialects.quant.storage import (
    FLOAT_STORAGE,
    QuantileType,
    Storage,
    StorageType,
    default_range,
)
from qdialect.ir.xdsl_private import resume_from
from qdialect.support.float_format import FloatFormat
from qdialect.support.lazy_numpy import np
from qdialect.text.messages import number_up_to, place_of_missing, width_error

_MAX_INT32 = 2**31 - 1
_MIN_INT64, _MAX_INT64 = -(2**63), 2**63 - 1

_SIGNEDNESS: Final = {
    "i": Signedness.SIGNLESS,
    "si": Signedness.SIGNED,
    "ui": Signedness.UNSIGNED,
}
# Possessive quantifiers: the time is linear in the text.
_INTEGER_TYPE: Final = re.compile(r"(i|si|ui)([0-9]++)")
_UNSIGNED_WIDTH: Final = re.compile(r"u([0-9]++)")
_INTEGER: Final = re.compile(r"0x[0-9A-Fa-f]++|[0-9]++(?!\.)")
_PLAIN_LIST: Final = re.compile(r"\{[\s0-9.eE+:,{}-]*\}(?=\s*+>)")

_MAX_BRACKET_DEPTH: Final = 2
"""The bracket depth of a uniform type, whose storage range has angle brackets of its own."""


def body_text(content: str, start: Position) -> str:
    """The text from the angle bracket at `start` to its match; empty if brackets nest too deep."""
    end = start
    for _ in range(_MAX_BRACKET_DEPTH):
        end = content.find(">", end) + 1
        if end and content.count("<", start, end) == content.count(">", start, end):
            return content[start:end]
    return ""


def keyword_position(keyword: str, parser: AttrParser) -> Position:
    """
    The position of the keyword in `!quant.uniform<` or `!quant<uniform<`, before the next
    token.
    """
    return parser.lexer.input.content.rfind(keyword, 0, parser.pos)


def raise_missing(parser: AttrParser, message: str) -> NoReturn:
    """Raise ParseError for a missing token, at the end of the token before."""
    parser.raise_error(message, place_of_missing(parser))


def expect(parser: AttrParser, punctuation: str) -> None:
    """Parse a punctuation token. Raises ParseError."""
    if parser.parse_optional_characters(punctuation) is None:
        raise_missing(parser, f"expected '{punctuation}'")


@contextmanager
def errors_at(parser: AttrParser, position: Position) -> Generator[None]:
    """Convert a VerifyException to a ParseError at `position`."""
    try:
        yield
    except VerifyException as error:
        parser.raise_error(str(error), position, position + 1)


# Storage


_FLOAT_STORAGE: Final = re.compile(rf"({'|'.join(FLOAT_STORAGE)})(?![\w.$])")


def parse_storage(parser: AttrParser) -> Storage:
    """Parse `i8`, `u8`, `i8<-8:7>`, `f8E5M2` or a table, with its range. Raises ParseError."""
    position = parser.pos
    type, is_signed = _parse_storage_type(parser)
    if not 1 <= type.bitwidth <= MAX_STORAGE_WIDTH:
        parser.raise_error(f"illegal storage type size: {type.bitwidth}", position)
    if parser.parse_optional_punctuation("<") is None:
        return Storage.of(type, signed=is_signed)
    least, greatest = default_range(type, is_signed)
    at_minimum = parser.pos
    minimum, at_maximum, maximum = _parse_range(parser)
    if minimum < least:
        parser.raise_error(f"illegal storage type minimum: {minimum}", at_minimum)
    if maximum > greatest:
        parser.raise_error(f"illegal storage type maximum: {maximum}", at_maximum)
    return Storage.of(type, signed=is_signed, minimum=minimum, maximum=maximum)


def _parse_range(parser: AttrParser) -> tuple[int, Position, int]:
    """Parse `-8:7>`: both ends, and the position of the second."""
    minimum = _parse_integer(parser, _MIN_INT64, _MAX_INT64)
    expect(parser, ":")
    at_maximum = parser.pos
    maximum = _parse_integer(parser, _MIN_INT64, _MAX_INT64)
    expect(parser, ">")
    return minimum, at_maximum, maximum


def _parse_storage_type(parser: AttrParser) -> tuple[StorageType, bool]:
    """Parse the type, and whether its codes are signed: `u8` is an unsigned `i8`."""
    position = parser.pos
    if _FLOAT_STORAGE.match(parser.lexer.input.content, position) is not None:
        return cast(AnyFloat, parser.parse_type()), False
    keyword = parser.parse_optional_identifier()
    if keyword is not None and (spelled := _INTEGER_TYPE.fullmatch(keyword)) is not None:
        prefix, digits = spelled.groups()
        if (message := width_error(digits)) is not None:
            parser.raise_error(message, position)
        return IntegerType(int(digits.lstrip("0") or "0"), _SIGNEDNESS[prefix]), prefix != "ui"
    if keyword is None and (type := parser.parse_optional_type()) is not None:
        if isinstance(type, QuantileType):
            return type, type.is_signed
        if isinstance(type, IntegerType):
            integer = cast(IntegerType, type)
            return integer, integer.signedness.data is not Signedness.UNSIGNED
        if isinstance(type, AnyFloat) and type.name in FLOAT_STORAGE:
            return type, False
        parser.raise_error("illegal storage type prefix", position)
    if keyword is None:
        parser.raise_error("expected valid keyword", position)
    if not keyword.startswith("u"):
        parser.raise_error("illegal storage type prefix", position)
    spelled = _UNSIGNED_WIDTH.fullmatch(keyword)
    width = None if spelled is None else number_up_to(2**32 - 1, spelled[1])
    if width is None:
        parser.raise_error("expected storage type width", position)
    return IntegerType(width), False


def parse_quantile(
    parser: AttrParser,
) -> tuple[Attribute, Attribute, list[float], tuple[int, int] | None]:
    """Parse `<ui2:f32, {1.0,2.0}, <0:1>>`, whose range is optional. Raises ParseError."""
    expect(parser, "<")
    storage_type = _parse_type(parser)
    expect(parser, ":")
    table_type = _parse_type(parser)
    expect(parser, ",")
    if parser.parse_optional_punctuation("{") is None:
        # MLIR 22 reports the first half, LLVM 24 the second.
        raise_missing(parser, "unknown quantized type quantile: expected '{'")
    entries: list[float] = []
    if parser.parse_optional_punctuation("}") is None:
        entries = parser.parse_comma_separated_list(
            parser.Delimiter.NONE, lambda: parse_float(parser)
        )
        expect(parser, "}")
    range = None
    if parser.parse_optional_punctuation(",") is not None:
        expect(parser, "<")
        minimum, _, maximum = _parse_range(parser)
        range = minimum, maximum
    expect(parser, ">")
    return storage_type, table_type, entries, range


def _parse_type(parser: AttrParser) -> Attribute:
    type = parser.parse_optional_type()
    if type is None:
        raise_missing(parser, "expected non-function type")
    return type


def parse_expressed(parser: AttrParser) -> AnyFloat:
    """Parse a float type. Raises ParseError."""
    position = parser.pos
    type = _parse_type(parser)
    if not isinstance(type, AnyFloat):
        parser.raise_error("invalid kind of type specified", position)
    return type


# Slots


def parse_slots(parser: AttrParser, storage: StorageFormat, expressed: FloatFormat) -> Slots:
    """Parse the optional axes, a comma, and the slots. Raises ParseError."""
    if parser.parse_optional_punctuation(":") is None:
        expect(parser, ",")
        return Slots.per_tensor(*_parse_slot(parser, expressed))
    if parser.parse_optional_punctuation("{") is None:
        axis = _parse_integer(parser, -_MAX_INT32 - 1, _MAX_INT32)
        expect(parser, ",")
        return Slots.per_axis(axis, *_parse_slot_list(parser, expressed))
    blocks: list[tuple[int, int]] = []
    if parser.parse_optional_punctuation("}") is None:
        blocks = parser.parse_comma_separated_list(
            parser.Delimiter.NONE, lambda: _parse_block(parser)
        )
        expect(parser, "}")
    expect(parser, ",")
    scales, zero_points = _parse_slot_list(parser, expressed)
    return Slots.sub_channel(blocks, scales, zero_points, expressed, storage)


def _parse_block(parser: AttrParser) -> tuple[int, int]:
    axis = _parse_integer(parser, -_MAX_INT32 - 1, _MAX_INT32)
    expect(parser, ":")
    return axis, _parse_integer(parser, _MIN_INT64, _MAX_INT64)


def _parse_slot_list(parser: AttrParser, expressed: FloatFormat) -> tuple[FloatArray, IntArray]:
    """Parse a nested list in braces: scales (float64) and zero points (int64) of its shape."""
    content = parser.lexer.input.content
    if (plain := _PLAIN_LIST.match(content, parser.pos)) is not None:
        slots = read_slot_list(plain[0])
        if slots is not None and not illegal_scales(slots[0], expressed).size:
            resume_from(parser, plain.end())
            return slots
    expect(parser, "{")
    flat: list[tuple[float, int]] = []
    shape = _parse_nested_slots(parser, expressed, flat)
    scales = np.array([scale for scale, _ in flat], dtype=np.float64)
    zero_points = np.array([zero_point for _, zero_point in flat], dtype=np.int64)
    return scales.reshape(shape), zero_points.reshape(shape)


def _parse_nested_slots(
    parser: AttrParser, expressed: FloatFormat, flat: list[tuple[float, int]]
) -> tuple[int, ...]:
    """
    Append the slots of a list, whose opening brace has been parsed, to `flat`; return its
    shape.
    """
    length, inner = 0, ()
    while True:
        shape: tuple[int, ...] = ()
        if parser.parse_optional_punctuation("{") is not None:
            shape = _parse_nested_slots(parser, expressed, flat)
        else:
            flat.append(_parse_slot(parser, expressed))
        if length and shape != inner:
            parser.raise_error(
                "tensor literal is invalid; ranks are not consistent between elements"
            )
        length, inner = length + 1, shape
        if parser.parse_optional_punctuation(",") is None:
            expect(parser, "}")
            return (length, *inner)


def _parse_slot(parser: AttrParser, expressed: FloatFormat) -> tuple[float, int]:
    scale = parse_float(parser)
    if scale < expressed.smallest or scale > expressed.largest:
        parser.raise_error(scale_message(scale, expressed))
    if parser.parse_optional_punctuation(":") is None:
        return scale, 0
    return scale, _parse_integer(parser, _MIN_INT64, _MAX_INT64)


# Numbers


def _parse_integer(parser: AttrParser, least: int, greatest: int) -> int:
    # `true` and `false` are integers of one signed bit.
    if (boolean := parser.parse_optional_boolean()) is not None:
        return -int(boolean)
    position = parser.pos
    is_negative = parser.parse_optional_punctuation("-") is not None
    value = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
    if value is None:
        if is_negative:
            raise_missing(parser, "expected integer value")
        parser.raise_error("expected integer value", position)
    if is_negative:
        value = -value
    if not least <= value <= greatest:
        parser.raise_error("integer value too large", position)
    return value


def parse_float(parser: AttrParser) -> float:
    """Parse a decimal, or the bits of a double in hexadecimal. Raises ParseError."""
    is_negative = parser.parse_optional_punctuation("-") is not None
    position = parser.pos
    # Upstream checks the number before it lexes the next token.
    integer = _INTEGER.match(parser.lexer.input.content, position)
    if integer is None:
        value = parser.parse_optional_float(allow_negative=False)
        if value is None:
            parser.raise_error("expected floating point literal", position)
        return -value if is_negative else value
    if not integer[0].startswith("0x"):
        parser.raise_error(
            "unexpected decimal integer literal for a floating point value", position
        )
    if is_negative:
        parser.raise_error("hexadecimal float literal should not have a leading minus", position)
    bits = int(integer[0], 16)
    if bits >= 1 << 64:
        parser.raise_error("hexadecimal float constant out of range for type", position)
    parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
    return struct.unpack("<d", bits.to_bytes(8, "little"))[0]
