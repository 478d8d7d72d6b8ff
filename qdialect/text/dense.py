"""
The text of dense constants, as MLIR reads and writes it.

https://mlir.llvm.org/docs/Dialects/Builtin/#denseintorfpelementsattr.
"""

from __future__ import annotations

import binascii
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from io import StringIO
from typing import Any, NoReturn

from typing_extensions import override
from xdsl.dialects.builtin import (
    AnyDenseElement,
    AnyFloat,
    ComplexType,
    IndexType,
    IntegerType,
    ShapedType,
    Signedness,
    TensorType,
)
from xdsl.ir import Attribute
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.mlir_lexer import StringLiteral

from qdialect.algebra.movement import DYNAMIC
from qdialect.algebra.views import MAX_RANK, Elements, Splat
from qdialect.ir.elements import (
    UnsupportedElementTypeError,
    element_dtype,
    has_signedness,
    in_width,
    integer_range,
    pack_elements,
    resized,
    unpack_elements,
)
from qdialect.ir.xdsl_private import resume_from
from qdialect.support.float_format import FLOAT_FORMATS, FloatFormat, Specials
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.support.memory import registered_cache
from qdialect.text.messages import TextError, string_end
from qdialect.text.plain_lists import MAX_LISTED_ELEMENTS, nested_list
from qdialect.text.source import AbridgedInput

_HEX_CHUNK = 1 << 18
"""The number of elements, or of pairs of bytes, that are written at once, to stay in cache."""

_STRING = re.compile(r'<\s*+(?://[^\n]*+\s*+)*"')
_HEX_NUMBER = re.compile(r"(-?)\s*0x")


@dataclass(frozen=True)
class DenseLiteral:
    """The text `dense<...>`, parsed before the type that determines its meaning is known."""

    parser: AttrParser
    position: int
    """The start of the text."""

    data: bytes | list[int | float]
    """
    The bytes of hexadecimal text, or the numbers of a list in row-major order.

    A complex element is two numbers, and a hexadecimal number is an integer.
    """

    positions: list[int]
    """The position of each number of a list."""

    count: int
    """The number of elements of a list."""

    shape: tuple[int, ...] | None
    """The shape of a list; None for hexadecimal text, or one element for all."""

    @classmethod
    def parse(cls, parser: AttrParser) -> DenseLiteral:
        """Parse `dense<...>` without a type. Raises ParseError."""
        position = parser.pos
        parser.parse_keyword("dense")
        return cls.parse_after_keyword(parser, position)

    @classmethod
    def parse_after_keyword(cls, parser: AttrParser, position: int) -> DenseLiteral:
        """Parse `<...>`; errors are reported at `position`. Raises ParseError."""
        if (data := _parse_optional_hex(parser)) is not None:
            return cls(parser, position, data, [], 0, None)
        parser.parse_punctuation("<", " in dense attribute")
        items = _ListParser(parser)
        if parser.parse_optional_punctuation(">") is not None:
            return cls(parser, position, [], [], 0, None)
        shape = items.parse_item()
        parser.parse_punctuation(">", " in dense attribute")
        return cls(parser, position, items.numbers, items.positions, items.count, shape)

    def _refuse(self, message: str) -> NoReturn:
        self.parser.raise_error(message, self.position)

    def to_values(
        self, type: AnyDenseElement, shape: tuple[int, ...], *, is_storage: bool = True
    ) -> Elements:
        """
        The elements of a tensor of static `shape`, of the dtype of `type`.

        Signless integers are read as signed if they are the storage of quantized values
        (`is_storage`); otherwise they may also be written as unsigned ones, as MLIR allows.
        Floats are rounded as MLIR rounds them; no storage holds one beyond the largest. Raises
        ParseError for a wrong number of elements, an element that `type` cannot hold, and an
        unsupported `type`.
        """
        try:
            element_dtype(type)
        except UnsupportedElementTypeError as error:
            self._refuse(str(error))
        is_one = isinstance(self.data, list) and self.shape is None
        if len(shape) > MAX_RANK and not is_one:
            self._refuse(f"rank {len(shape)} is more than {MAX_RANK}")
        if isinstance(self.data, list):
            return self._listed_values(self.data, type, shape, is_storage)
        values = _from_mlir_bytes(self.data, type, shape)
        if values is None:
            of_type = f"provided type: '{TensorType(type, shape)}'"
            self._refuse(f"elements hex data size is invalid for {of_type}")
        return values

    def _listed_values(
        self,
        numbers: list[int | float],
        type: AnyDenseElement,
        shape: tuple[int, ...],
        is_storage: bool,
    ) -> Elements:
        if not numbers and math.prod(shape):
            self._refuse(_no_elements(TensorType(type, shape)))
        if self.shape is not None and self.shape != shape:
            self._refuse(_other_shape(self.shape, shape))
        is_complex = isinstance(type, ComplexType)
        expected = self.count * (2 if is_complex else 1)
        if len(numbers) != expected:
            wanted = type if self.shape is None else TensorType(type, shape)
            self._refuse(
                f"parsed {len(numbers)} elements, but type ('{wanted}') expected "
                f"{expected} elements"
            )
        part = type.element_type if is_complex else type
        if isinstance(part, IntegerType | IndexType):
            parts = self._integers(numbers, part, is_storage)
        else:
            parts = self._floats(numbers, part, is_storage)
        values = parts.view(element_dtype(type))
        if not len(values):
            return np.zeros(shape, dtype=values.dtype)
        if self.shape is None or (values == values[0]).all():
            return Splat(values[0], shape)
        return values.reshape(shape)

    def _integers(
        self, numbers: list[int | float], type: IntegerType | IndexType, is_storage: bool
    ) -> NDArray[Any]:
        refuse = self.parser.raise_error
        width = type.bitwidth if isinstance(type, IntegerType) else 64
        is_unsigned = has_signedness(type, Signedness.UNSIGNED)
        least, greatest = integer_range(width, not is_unsigned)
        integers: list[int] = []
        for number, position in zip(numbers, self.positions, strict=True):
            if isinstance(number, float):
                refuse("expected integer elements, but parsed floating-point", position)
            if isinstance(number, bool):
                if not isinstance(type, IntegerType) or width != 1:
                    refuse("expected i1 type for 'true' or 'false' values", position)
                # In a signed i1, the one bit is the sign.
                number = number * (greatest or least)
            integers.append(number)
        if is_storage:
            for integer in (min(integers, default=0), max(integers, default=0)):
                if not least <= integer <= greatest:
                    span = f"[{least}, {greatest}]"
                    self._refuse(f"element {integer} is outside the storage range {span}")
        else:
            limit = 1 << width if has_signedness(type, Signedness.SIGNLESS) else greatest + 1
            integers = self._wrapped(integers, least, greatest, limit)
        return np.array(integers, dtype=element_dtype(type))

    def _wrapped(self, integers: list[int], least: int, greatest: int, limit: int) -> list[int]:
        """`integers`, with those from `greatest + 1` to `limit - 1` wrapped to negative ones."""
        if least <= min(integers, default=0) and max(integers, default=0) <= greatest:
            return integers
        for integer, position in zip(integers, self.positions, strict=True):
            if integer < 0 <= least:
                self.parser.raise_error(
                    "expected unsigned integer elements, but parsed negative value", position
                )
            if not least <= integer < limit:
                self.parser.raise_error("integer constant out of range for type", position)
        return [integer - limit if integer > greatest else integer for integer in integers]

    def _floats(self, numbers: list[int | float], type: AnyFloat, is_storage: bool) -> NDArray[Any]:
        parser, float_format = self.parser, FLOAT_FORMATS[type.name]
        is_unsigned = float_format.specials is Specials.ONE_NAN_NO_ZERO
        doubles = np.zeros(len(numbers))
        patterns: dict[int, int] = {}
        for index, (number, position) in enumerate(zip(numbers, self.positions, strict=True)):
            if not isinstance(number, float):
                hexadecimal = _HEX_NUMBER.match(parser.lexer.input.content, position)
                if hexadecimal is not None:
                    negative = bool(hexadecimal[1])
                    patterns[index] = _bit_pattern(parser, number, negative, position, type)
                    continue
                number = _double(parser, number, position)
            if number < 0.0 and is_unsigned:
                parser.raise_error(f"{type} has no negative numbers", position)
            if is_storage and abs(number) > float_format.largest:
                parser.raise_error(f"element {number} is outside the numbers of {type}", position)
            doubles[index] = number
        bits = _rounded_bits(doubles, float_format)
        bits[list(patterns)] = list(patterns.values())
        raw = resized(bits.astype("<u8").view(np.uint8), 8, type.compile_time_size)
        return raw.view(element_dtype(type))


def _no_elements(type: Attribute) -> str:
    return f"parsed zero elements, but type ('{type}') expected at least 1"


def _other_shape(listed: Sequence[int], shape: Sequence[int]) -> str:
    literal = f"inferred shape of elements literal ({list(listed)})"
    return f"{literal} does not match type ({list(shape)})"


def _double(parser: AttrParser, number: int, position: int) -> float:
    """A decimal number without a point, which xDSL reads and MLIR does not. Raises ParseError."""
    if isinstance(number, bool):
        parser.raise_error("expected floating point literal", position)
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _bit_pattern(
    parser: AttrParser, number: int, negative: bool, position: int, type: AnyFloat
) -> int:
    """`number`, the bits of a float. Raises ParseError if it has a minus or is too large."""
    if negative:
        parser.raise_error("hexadecimal float literal should not have a leading minus", position)
    if number >> type.bitwidth:
        parser.raise_error("hexadecimal float constant out of range for type", position)
    return number


def _rounded_bits(values: NDArray[np.float64], float_format: FloatFormat) -> NDArray[np.uint64]:
    """The bit patterns of `values`, rounded: uint64."""
    rounded = float_format.round(values)
    # Compared as integers, since 0.0 and -0.0 differ.
    distinct, inverse = np.unique(rounded.view(np.int64), return_inverse=True)
    numbers = distinct.view(np.float64).tolist()
    bits = np.array([float_format.to_bits(number) for number in numbers], dtype=np.uint64)
    return bits[inverse]


def _parse_optional_hex(parser: AttrParser) -> bytes | None:
    """Parse `<"0x...">` if it comes next. Raises ParseError if it is malformed."""
    # The lexer would copy and check a long text several times.
    text = parser.lexer.input
    if (opening := _STRING.match(text.content, parser.pos)) is None:
        return None
    start = opening.end()
    end = text.content.find('"', start)
    if end < 0:
        parser.raise_error("unterminated elements hex string", start - 1)
    digits = start + len("0x")
    data = text.decode(digits) if isinstance(text, AbridgedInput) else None
    if data is None:
        try:
            if not text.content.startswith("0x", start):
                raise ValueError
            data = binascii.unhexlify(text.content[digits:end])
        except ValueError:
            parser.raise_error(
                "expected string containing hex digits starting with `0x`", start - 1
            )
    resume_from(parser, end + 1)
    parser.parse_punctuation(">", " in dense attribute")
    return data


def canonical_strings(parser: AttrParser, position: int, type: ShapedType) -> str:
    """
    Parse `<...>`, whose elements are strings, and return it as MLIR prints it.

    Errors are reported at `position`. Raises ParseError for elements that do not fit `type`, which
    comes later in the text.
    """
    shape = type.get_shape()
    if DYNAMIC in shape:
        parser.raise_error("elements literal type must have static shape", position)
    parser.parse_punctuation("<", " in dense attribute")
    if parser.parse_optional_punctuation(">") is not None:
        if math.prod(shape):
            parser.raise_error(_no_elements(type), position)
        return "<>"
    items = _StringListParser(parser)
    listed = items.parse_item()
    parser.parse_punctuation(">", " in dense attribute")
    if listed is not None and listed != shape:
        parser.raise_error(_other_shape(listed, shape), position)
    if not items.strings:
        return "<>"
    if len(set(items.strings)) == 1:
        return f"<{items.strings[0]}>"
    return f"<{nested_list(items.strings, shape, ', ')}>"


def check_sparse(parser: AttrParser, position: int, type: ShapedType) -> None:
    """
    Parse `<indices, values>` of a sparse constant, whose `type` comes later in the text.

    Raises ParseError, at `position`, if there is not one value for each index, or if an index is
    not that of an element. Hexadecimal indices are not checked.
    """
    shape = type.get_shape()
    if DYNAMIC in shape:
        parser.raise_error("elements literal type must have static shape", position)
    content = parser.lexer.input.content
    parser.parse_punctuation("<")
    if _UNCHECKED_INDICES.match(content, parser.pos):
        return
    items = _ListParser(parser)
    # One number is a single index, all of whose parts it is; one value stands for all.
    indices: tuple[int, ...] = items.parse_item() or (1, len(shape))
    parser.parse_punctuation(",")
    values = _StringListParser if _STRINGS.match(content, parser.pos) else _ListParser
    count = values(parser).parse_item() or indices[:1]
    if len(count) != 1:
        parser.raise_error("expected 1-d tensor for sparse element values", position)
    # A list of numbers is one of indices of a tensor of rank 1.
    if (*indices, 1)[1:2] != (len(shape),) or len(indices) > 2 or count != indices[:1]:
        parser.raise_error(
            f"expected shape ({list(shape)}); inferred shape of indices literal "
            f"({list(indices)}); inferred shape of values literal ({list(count)})",
            position,
        )
    if len(items.numbers) != items.count:
        parser.raise_error("expected integer elements, but parsed complex numbers", position)
    # As objects, since a number may have any number of digits.
    numbers = np.array(items.numbers, dtype=object)
    rows = np.broadcast_to(numbers, indices) if len(numbers) == 1 else numbers
    rows = rows.reshape(*count, len(shape))
    outside = np.logical_or(rows < 0, rows >= np.array(shape, dtype=object)).any(axis=1)
    if outside.any():
        number = int(outside.argmax())
        row = [int(part) % (1 << 64) for part in rows[number].tolist()]
        parser.raise_error(
            f"sparse index #{number} is not contained within the value shape, with "
            f"index={row}, and type='{type}'",
            position,
        )


_UNCHECKED_INDICES = re.compile(r"\s*+[>\"]")
_STRINGS = re.compile(r'[\s\[]*+"')


class _ListParser:
    """Parses the list in `dense<...>`, and collects its numbers."""

    def __init__(self, parser: AttrParser):
        self._parser = parser
        self.numbers: list[int | float] = []
        self.positions: list[int] = []
        self.count = 0

    def parse_item(self) -> tuple[int, ...] | None:
        """Parse a nested list or an element, and return the shape: None for an element."""
        parser = self._parser
        items = parser.parse_optional_comma_separated_list(
            parser.Delimiter.SQUARE, lambda: self.parse_item() or ()
        )
        if items is None:
            self.parse_element()
            return None
        if items and items.count(items[0]) != len(items):
            parser.raise_error(
                "tensor literal is invalid; ranks are not consistent between elements"
            )
        return (len(items), *items[0]) if items else (0,)

    def parse_element(self) -> None:
        """Parse an element: a number, or two in parentheses."""
        parser = self._parser
        self.count += 1
        if parser.parse_optional_punctuation("(") is None:
            self._parse_number()
            return
        self._parse_number()
        parser.parse_punctuation(",")
        self._parse_number()
        parser.parse_punctuation(")")

    def _parse_number(self) -> None:
        parser = self._parser
        position = parser.pos
        number = parser.parse_optional_boolean()
        if number is None:
            number = parser.parse_optional_number()
        if number is None:
            parser.raise_error("expected element literal of primitive type", position)
        self.numbers.append(number)
        self.positions.append(position)


class _StringListParser(_ListParser):
    """Parses the list in `dense<...>`, and collects its strings."""

    def __init__(self, parser: AttrParser):
        super().__init__(parser)
        self.strings: list[str] = []
        """Strings with the quotes and escape sequences that MLIR prints."""

    @override
    def parse_element(self) -> None:
        content, start = self._parser.lexer.input.content, self._parser.pos
        if not content.startswith('"', start):
            self._parser.raise_error("expected string token", start)
        if isinstance(end := string_end(content, start), TextError):
            self._parser.raise_error(*end)
        literal = StringLiteral(start, end, self._parser.lexer.input)
        text = StringIO()
        Printer(text).print_bytes_literal(literal.bytes_contents)
        self.strings.append(text.getvalue())
        resume_from(self._parser, end)


def _from_mlir_bytes(data: bytes, type: AnyDenseElement, shape: tuple[int, ...]) -> Elements | None:
    """The elements that MLIR's hexadecimal text encodes, None if their number is wrong."""
    count = math.prod(shape)
    if isinstance(type, IntegerType) and type.bitwidth == 1:
        raw = np.frombuffer(data, dtype=np.uint8)
        if count > 8 and data in (b"\x00", b"\x01", b"\xff"):
            raw = raw[:1] & 1
        elif count > 1 and len(data) == count and raw.max() <= 1:
            # MLIR 23 and later do not pack them.
            pass
        elif len(data) == (count + 7) // 8:
            raw = np.unpackbits(raw, count=count, bitorder="little")
        else:
            return None
        values = in_width(raw.astype(element_dtype(type)), type)
    else:
        values = unpack_elements(data, type)
    if values is None or len(values) not in (1, count):
        return None
    if len(values) == 1:
        return Splat(values[0], shape)
    return values.reshape(shape)


def print_hex(printer: Printer, data: bytes | memoryview) -> None:
    """Print two digits for each byte, piece by piece; a printer with `print_ascii` streams them."""
    stream: Callable[[memoryview], None] | None = getattr(printer, "print_ascii", None)
    table = _hex_table()
    pairs = np.frombuffer(data, dtype="<u2", count=len(data) // 2)
    digits = np.empty(min(len(pairs), _HEX_CHUNK), dtype=table.dtype)
    for start in range(0, len(pairs), _HEX_CHUNK):
        chunk = pairs[start : start + _HEX_CHUNK]
        text = digits[: len(chunk)]
        # Every index is in range; mode="raise" would make numpy copy.
        np.take(table, chunk, out=text, mode="clip")
        if stream is None:
            printer.print_string(str(text.data.cast("B"), "ascii"))
        else:
            stream(text.data.cast("B"))
    printer.print_string(bytes(data[2 * len(pairs) :]).hex().upper())


@registered_cache
@cache
def _hex_table() -> NDArray[np.uint32]:
    """The lookup table from a 16-bit integer to the four ASCII digits of its two bytes."""
    codes = np.arange(256, dtype=np.uint32)
    digits = np.frombuffer(b"0123456789ABCDEF", dtype=np.uint8).astype(np.uint32)
    byte = digits[codes >> 4] | digits[codes & 15] << 8
    table = (byte | byte[:, np.newaxis] << 16).reshape(-1)
    return table.astype("<u4", copy=False)


def print_dense(printer: Printer, values: Elements, type: AnyDenseElement) -> None:
    """Print `dense<...>` without a type, as MLIR does."""
    printer.print_string("dense<")
    if isinstance(values, Splat):
        printer.print_string(_element_text(values.value, type))
    elif not values.size:
        pass
    elif values.size <= MAX_LISTED_ELEMENTS:
        _print_list(printer, values, type)
    elif isinstance(type, IntegerType) and type.bitwidth == 1:
        _print_truths(printer, values)
    else:
        printer.print_string('"0x')
        flat = values.reshape(-1)
        for start in range(0, len(flat), _HEX_CHUNK):
            print_hex(printer, pack_elements(flat[start : start + _HEX_CHUNK], type))
        printer.print_string('"')
    printer.print_string(">")


def _print_list(printer: Printer, values: NDArray[Any], type: AnyDenseElement) -> None:
    def print_item(item: NDArray[Any]) -> None:
        if item.ndim:
            with printer.in_square_brackets():
                printer.print_list(item, print_item)
        else:
            printer.print_string(_element_text(item, type))

    print_item(values)


def _print_truths(printer: Printer, values: NDArray[Any]) -> None:
    """
    Print a list of truth values.

    In hexadecimal text, MLIR 22 packs eight into a byte, and later versions do not.
    """
    opened = np.zeros(values.size, dtype=np.intp)
    length = 1
    for axis in reversed(values.shape):
        length *= axis
        opened[::length] += 1
    # What closes the lists before an element and opens others, and the element.
    words = np.array(
        [
            f"{']' * count}, {'[' * count}{truth}"
            for count in range(values.ndim + 1)
            for truth in ("false", "true")
        ],
        dtype=object,
    )
    numbers = 2 * opened + (values.reshape(-1) & 1)
    printer.print_string("[" * values.ndim + ("true" if numbers[0] & 1 else "false"))
    for start in range(1, len(numbers), _HEX_CHUNK):
        printer.print_string("".join(words[numbers[start : start + _HEX_CHUNK]].tolist()))
    printer.print_string("]" * values.ndim)


def _element_text(value: Any, type: AnyDenseElement) -> str:
    """A scalar of the dtype of `type` as MLIR writes it."""
    match type:
        case ComplexType():
            part = type.element_type
            real, imaginary = np.frombuffer(value.tobytes(), dtype=element_dtype(part))
            return f"({_element_text(real, part)},{_element_text(imaginary, part)})"
        case IntegerType() if type.bitwidth == 1:
            return "true" if value else "false"
        case IntegerType() | IndexType():
            return str(int(value))
        case _:
            bits = int.from_bytes(value.tobytes(), "little")
            return FLOAT_FORMATS[type.name].text_of_bits(bits)
