"""
The elements of dense constants, as arrays and as MLIR's text.

xDSL holds an integer in the smallest of 1, 2, 4 or 8 bytes, a float in as few bytes as its
width needs, a complex number as its two parts, and one element may stand for all. MLIR's
hexadecimal text has as few bytes as the width needs, zero-extended, and packs i1 into
bits: https://mlir.llvm.org/docs/Dialects/Builtin/#denseintorfpelementsattr.
"""

from __future__ import annotations

import binascii
import math
import re
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    AnyDenseElement,
    AnyFloat,
    BytesAttr,
    ComplexType,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerType,
    Signedness,
    TensorType,
)
from xdsl.ir import Attribute
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from qdialect.array_view import MAX_RANK
from qdialect.movement import Elements, Splat, Values, as_view

DenseElementsAttr = DenseIntOrFPElementsAttr[AnyDenseElement]

MAX_REPEATED_ELEMENTS = 2**26
"""The most elements that a splat is written out to in memory."""

MAX_LISTED_ELEMENTS = 100
"""More elements than this are written in hexadecimal, as MLIR does."""

_HEX_CHUNK = 1 << 20
_HEX_LITERAL = re.compile(r'<\s*"0x')


class UnsupportedElementTypeError(ValueError):
    """xDSL cannot hold elements of this type."""


def element_dtype(type: Attribute) -> np.dtype[Any]:
    """
    The little-endian dtype in which xDSL holds an element of `type`.

    Integers and index are integers of numpy. Floats and complex numbers, the real part
    first, are their bits: unsigned integers, or void where numpy has none of that size, so
    that no NaN and no zero changes on the way. Raises UnsupportedElementTypeError for other
    types, f80, f128, and integers of no or more than 64 bits.
    """
    if not isinstance(type, IntegerType | IndexType | AnyFloat | ComplexType):
        raise _unsupported(type)
    element = cast(AnyDenseElement, type)
    match element:
        case ComplexType():
            return _bits_dtype(2 * element_dtype(element.element_type).itemsize)
        case IndexType():
            return np.dtype("<i8")
        case _ if not 0 < element.bitwidth <= 64:
            raise _unsupported(element)
        case IntegerType():
            kind = "u" if element.signedness.data is Signedness.UNSIGNED else "i"
            return np.dtype(f"<{kind}{element.compile_time_size}")
        case _:
            return _bits_dtype(element.compile_time_size)


def _unsupported(type: Attribute) -> UnsupportedElementTypeError:
    return UnsupportedElementTypeError(f"elements of type '{type}' are not supported")


def _bits_dtype(size: int) -> np.dtype[Any]:
    return np.dtype(f"<u{size}" if size in (1, 2, 4, 8) else f"V{size}")


def elements_of(attribute: DenseElementsAttr) -> Elements:
    """
    The elements of `attribute`, of the dtype of its element type and of its shape.

    A view of its bytes, or a splat where all elements are equal, bit for bit. Raises
    UnsupportedElementTypeError.
    """
    type, data = attribute.get_element_type(), attribute.data.data
    shape = attribute.get_shape()
    dtype = element_dtype(type)
    if data and (len(data) == dtype.itemsize or _repeats(data, dtype.itemsize)):
        first = np.frombuffer(data, dtype=dtype, count=1)
        return Splat(_in_width(first, type)[0], shape)
    return _in_width(np.frombuffer(data, dtype=dtype), type).reshape(shape)


def dense_elements(
    values: Values, type: AnyDenseElement, *, repeat_splats: bool = False
) -> DenseElementsAttr:
    """
    The tensor attribute that holds `values`: see `element_bytes`.

    Raises UnsupportedElementTypeError, and TypeError for a wrong dtype.
    """
    data = element_bytes(values, type, repeat_splats=repeat_splats)
    return DenseIntOrFPElementsAttr(TensorType(type, values.shape), BytesAttr(data))


def element_bytes(values: Values, type: AnyDenseElement, *, repeat_splats: bool = False) -> bytes:
    """
    What a dense attribute holds `values` in, which fit in `type`.

    They have the dtype of `type`, or are any integers if `type` is IntegerType. A splat is
    one element, whatever its shape. With `repeat_splats` it is one only above
    MAX_REPEATED_ELEMENTS, and else as many as the shape says, which is what `get_values` of
    the attribute is expected to give by the dialects that do not know splats. Raises
    UnsupportedElementTypeError, and TypeError for a wrong dtype.
    """
    dtype = element_dtype(type)
    is_splat = isinstance(values, Splat)
    array = np.asarray(values.value) if is_splat else as_view(values).array()
    if array.dtype != dtype and not (isinstance(type, IntegerType) and array.dtype.kind in "iu"):
        raise TypeError(f"elements of type '{type}' are of dtype {dtype}, not of {array.dtype}")
    data = array.astype(dtype, copy=False).tobytes()
    if not is_splat:
        return data
    count = math.prod(values.shape)
    return data * (count if repeat_splats and count <= MAX_REPEATED_ELEMENTS else min(count, 1))


def _repeats(data: bytes, size: int) -> bool:
    return data.startswith(memoryview(data)[size:])


def integer_range(width: int, is_signed: bool) -> tuple[int, int]:
    """The least and the greatest integer of `width` bits."""
    if is_signed:
        return -(1 << (width - 1)), (1 << (width - 1)) - 1
    return 0, (1 << width) - 1


def _range_of(type: IntegerType) -> tuple[int, int]:
    return integer_range(type.bitwidth, type.signedness.data is not Signedness.UNSIGNED)


def _in_width(values: NDArray[Any], type: AnyDenseElement) -> NDArray[Any]:
    """One-dimensional `values` with the bits beyond the width of `type` as it wants them."""
    if isinstance(type, ComplexType):
        parts = values.view(element_dtype(type.element_type))
        return _in_width(parts, type.element_type).view(values.dtype)
    if isinstance(type, IntegerType):
        return _sign_extended(values, type)
    if isinstance(type, AnyFloat):
        return _zero_extended(values, type)
    return values


def _sign_extended(values: NDArray[Any], type: IntegerType) -> NDArray[Any]:
    unused = 8 * values.itemsize - type.bitwidth
    if not unused or not values.size:
        return values
    least, greatest = _range_of(type)
    if values.min() >= least and values.max() <= greatest:
        return values
    return (values << unused) >> unused


def _zero_extended(values: NDArray[Any], type: AnyFloat) -> NDArray[Any]:
    unused = 8 * values.itemsize - type.bitwidth
    used = 0xFF >> unused
    raw = values.view(np.uint8).reshape(-1, values.itemsize)
    if not unused or not values.size or raw[:, -1].max() <= used:
        return values
    raw = raw.copy()
    raw[:, -1] &= used
    return raw.reshape(-1).view(values.dtype)


@dataclass(frozen=True)
class DenseLiteral:
    """The text `dense<...>`, which is read before the type that gives it a meaning."""

    position: int
    """Where the text starts."""

    data: bytes | list[int]
    """What hexadecimal text stands for, or the integers of a list in row-major order."""

    shape: tuple[int, ...] | None
    """The shape of a list; None for hexadecimal text, or one integer for all elements."""

    @classmethod
    def parse(cls, parser: AttrParser) -> DenseLiteral:
        """Parse `dense<...>` without a type. Raises ParseError."""
        position = parser.pos
        parser.parse_keyword("dense")
        if (literal := cls.parse_optional_hex(parser, position)) is not None:
            return literal
        parser.parse_punctuation("<")
        if parser.parse_optional_punctuation(">") is not None:
            return cls(position, [], None)
        elements: list[int] = []
        shape = _parse_list(parser, elements)
        parser.parse_punctuation(">")
        return cls(position, elements, shape)

    @classmethod
    def parse_optional_hex(cls, parser: AttrParser, position: int) -> DenseLiteral | None:
        """
        Parse `<"0x...">`, if that is what is next; `position` is where errors are.

        Raises ParseError if it is malformed.
        """
        # Long text is not for the lexer, which copies and checks it several times.
        content = parser.lexer.input.content
        if (opening := _HEX_LITERAL.match(content, parser.pos)) is None:
            return None
        end = content.find('"', opening.end())
        if end < 0:
            parser.raise_error("unterminated elements hex string", position)
        try:
            data = binascii.unhexlify(content[opening.end() : end])
        except ValueError:
            parser.raise_error("elements hex string is not hexadecimal", position)
        parser._resume_from(end + 1)  # pyright: ignore[reportPrivateUsage]
        parser.parse_punctuation(">")
        return cls(position, data, None)

    def to_values(self, parser: AttrParser, type: IntegerType, shape: tuple[int, ...]) -> Elements:
        """
        The elements of a tensor of static `shape`, of the dtype of `type`.

        Raises ParseError if they are too few or too many, or not integers of `type`.
        """
        is_one = isinstance(self.data, list) and self.shape is None
        if len(shape) > MAX_RANK and not is_one:
            parser.raise_error(f"rank {len(shape)} is more than {MAX_RANK}", self.position)
        if isinstance(self.data, list):
            return self._listed_values(parser, self.data, type, shape)
        values = _from_mlir_bytes(self.data, type, shape)
        if values is None:
            parser.raise_error(
                f"elements hex data size is invalid for provided type: '{TensorType(type, shape)}'",
                self.position,
            )
        return values

    def _listed_values(
        self, parser: AttrParser, elements: list[int], type: IntegerType, shape: tuple[int, ...]
    ) -> Elements:
        if not elements and math.prod(shape):
            parser.raise_error("expected at least one element in the dense literal", self.position)
        if self.shape is not None and self.shape != shape:
            parser.raise_error(
                f"inferred shape of elements literal ({list(self.shape)}) does not match "
                f"type ({list(shape)})",
                self.position,
            )
        least, greatest = _range_of(type)
        if any(isinstance(element, bool) for element in elements):
            if type.bitwidth > 1:
                parser.raise_error("booleans are elements of i1 only", self.position)
            # The bit that is set is the sign, if there is one.
            elements = [element * (greatest or least) for element in elements]
        for element in (min(elements, default=0), max(elements, default=0)):
            if not least <= element <= greatest:
                parser.raise_error(
                    f"element {element} is outside the storage range [{least}, {greatest}]",
                    self.position,
                )
        values = np.array(elements, dtype=element_dtype(type))
        if not math.prod(shape):
            return np.zeros(shape, dtype=values.dtype)
        if (values == values[0]).all():
            return Splat(values[0], shape)
        return values.reshape(shape)


def _parse_list(parser: AttrParser, elements: list[int]) -> tuple[int, ...] | None:
    """Add the integers of a nested list to `elements`: its shape, None for one integer."""

    def parse_item() -> tuple[int, ...]:
        return _parse_list(parser, elements) or ()

    items = parser.parse_optional_comma_separated_list(parser.Delimiter.SQUARE, parse_item)
    if items is None:
        position = parser.pos
        value = parser.parse_optional_boolean()
        if value is None:
            value = parser.parse_optional_integer(allow_boolean=False)
        if value is None:
            parser.raise_error("expected an integer element", position)
        elements.append(value)
        return None
    if items and items.count(items[0]) != len(items):
        parser.raise_error("tensor literal is invalid; ranks are not consistent between elements")
    return (len(items), *items[0]) if items else (0,)


def _from_mlir_bytes(data: bytes, type: IntegerType, shape: tuple[int, ...]) -> Elements | None:
    """The elements that MLIR's hexadecimal text means, None if their number is wrong."""
    count, dtype = math.prod(shape), element_dtype(type)
    raw = np.frombuffer(data, dtype=np.uint8)
    if type.bitwidth == 1:
        if count > 8 and data in (b"\x00", b"\xff"):
            raw, data_count = raw[:1] & 1, 1
        elif len(data) == (count + 7) // 8:
            raw, data_count = np.unpackbits(raw, count=count, bitorder="little"), count
        else:
            return None
        values = _in_width(raw.astype(dtype), type)
    else:
        size = (type.bitwidth + 7) // 8
        data_count = len(data) // size
        if len(data) % size or data_count not in (1, count):
            return None
        if size < dtype.itemsize:
            padded = np.zeros((data_count, dtype.itemsize), dtype=np.uint8)
            padded[:, :size] = raw.reshape(data_count, size)
            raw = padded.reshape(-1)
        values = _in_width(raw.view(dtype), type)
    if data_count == 1:
        return Splat(values[0], shape)
    return values.reshape(shape)


def _mlir_bytes(values: NDArray[Any], type: IntegerType) -> bytes:
    """One-dimensional `values` as MLIR's hexadecimal text has them."""
    width = type.bitwidth
    if width == 1:
        return np.packbits((values & 1).view(np.uint8), bitorder="little").tobytes()
    if width == 8 * values.itemsize:
        return values.tobytes()
    unsigned = values.view(f"<u{values.itemsize}") & ((1 << width) - 1)
    raw = unsigned.view(np.uint8).reshape(-1, values.itemsize)
    return raw[:, : (width + 7) // 8].tobytes()


def print_dense(printer: Printer, values: Elements, type: IntegerType) -> None:
    """Print `dense<...>` without a type, as MLIR does."""
    printer.print_string("dense<")
    if not math.prod(values.shape):
        pass
    elif isinstance(values, Splat):
        printer.print_int(int(values.value), type)
    elif values.size <= MAX_LISTED_ELEMENTS:
        _print_list(printer, values, type)
    else:
        printer.print_string('"0x')
        flat = values.reshape(-1)
        for start in range(0, len(flat), _HEX_CHUNK):
            chunk = _mlir_bytes(flat[start : start + _HEX_CHUNK], type)
            printer.print_string(chunk.hex().upper())
        printer.print_string('"')
    printer.print_string(">")


def _print_list(printer: Printer, values: NDArray[Any], type: IntegerType) -> None:
    def print_item(item: NDArray[Any]) -> None:
        if item.ndim:
            with printer.in_square_brackets():
                printer.print_list(item, print_item)
        else:
            printer.print_int(int(item), type)

    print_item(values)
