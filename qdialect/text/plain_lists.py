"""
Reading and writing short lists of numbers in dense constants without numpy.

Most constants of a small module are such lists, and importing numpy takes as long as all other
work on the module. `qdialect.text.dense` handles all other constants, and reports errors.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeAlias, TypeGuard, cast

from xdsl.dialects.builtin import (
    AnyDenseElement,
    DenseIntOrFPElementsAttr,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    Signedness,
)
from xdsl.parser import Parser

from qdialect.ir.xdsl_private import resume_from
from qdialect.support.float_format import FLOAT_FORMATS
from qdialect.support.memory import registered_cache

MAX_LISTED_ELEMENTS = 100
"""The maximum number of elements written as a list; MLIR writes more in hexadecimal."""

_MAX_RANK = 8
_LIST = r"<([-+\[\], \t\r\n0-9.eE]{1,2000})>"
_NO_SPACES = str.maketrans("", "", " \t\r\n")
_INTEGER = re.compile("-?[0-9]+")
_FLOAT = re.compile(r"-?[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?")


def find_plain_list(parser: Parser) -> re.Match[str] | None:
    """Match the text `<...>` that comes next, if it consists of decimal numbers and brackets."""
    return re.compile(_LIST).match(parser.lexer.input.content, parser.pos)


def parse_optional_plain_list(parser: Parser) -> re.Match[str] | None:
    """Parse `dense<...>` if it comes next: see `find_plain_list`."""
    start = parser.pos
    if parser.parse_optional_keyword("dense") is None:
        return None
    plain = find_plain_list(parser)
    resume_from(parser, start if plain is None else plain.end())
    return plain


def bytes_of_plain_list(text: str, type: AnyDenseElement, shape: Sequence[int]) -> bytes | None:
    """
    The bytes in which a dense attribute of `shape` holds the elements listed in `text`.

    None if `qdialect.text.dense` must read the text: for elements other than f32, f64 and
    integers of whole bytes, for too many elements, and for errors.
    """
    if not _is_plain(type, shape):
        return None
    is_float = isinstance(type, Float32Type | Float64Type)
    number = _FLOAT if is_float else _INTEGER
    numbers: list[str] = number.findall(text)
    if not numbers or len(numbers) != _listed_count(number.sub("0", text), tuple(shape)):
        return None
    repeated = math.prod(shape) // len(numbers)
    if isinstance(type, Float32Type | Float64Type):
        return _pack_floats([*map(float, numbers)] * repeated, type)
    return _pack_integers([*map(int, numbers)] * repeated, type)


@registered_cache
@lru_cache(maxsize=1024)
def _listed_count(spelled: str, shape: tuple[int, ...]) -> int:
    """
    The number of elements in `spelled`, a list with 0 for each number; 0 if its shape is wrong.
    """
    compact = spelled.translate(_NO_SPACES)
    if compact == "0":
        return 1
    count = math.prod(shape)
    return count if compact == nested_list(["0"] * count, shape, ",") else 0


def _pack_floats(numbers: list[float], type: Float32Type | Float64Type) -> bytes | None:
    try:
        return type.pack(numbers)
    except OverflowError:
        return None


@registered_cache
@lru_cache(maxsize=256)
def _range(type: IntegerType | IndexType) -> tuple[int, int]:
    """The half-open range of integers that are stored unchanged."""
    if isinstance(type, IndexType):
        # As for a signed integer of 64 bits.
        return IntegerType(64, Signedness.SIGNED).value_range()
    if type.signedness.data is Signedness.UNSIGNED:
        return type.value_range()
    return IntegerType(type.bitwidth, Signedness.SIGNED).value_range()


def _pack_integers(numbers: list[int], type: IntegerType | IndexType) -> bytes | None:
    bounds = [min(numbers), max(numbers)]
    least, end = _range(type)
    if least <= bounds[0] and bounds[1] < end:
        return type.pack(numbers)
    if isinstance(type, IndexType) or None in map(type.normalized_value, bounds):
        return None
    return type.pack([cast(int, type.normalized_value(number)) for number in numbers])


def text_of_plain_list(dense: DenseIntOrFPElementsAttr[Any]) -> str | None:
    """The text between `dense<` and `>`, None if `qdialect.text.dense` must write it."""
    type, shape, data = dense.get_element_type(), dense.get_shape(), dense.data.data
    count = math.prod(shape)
    if not _is_plain(type, shape) or len(data) != count * type.compile_time_size:
        return None
    if isinstance(type, Float32Type | Float64Type):
        format, size = FLOAT_FORMATS[type.name], type.compile_time_size
        starts = range(0, len(data), size)
        bits = (int.from_bytes(data[start : start + size], "little") for start in starts)
        texts = list(map(format.text_of_bits, bits))
    else:
        texts = [str(integer) for integer in type.unpack(data, count)]
    return texts[0] if len(set(texts)) == 1 else nested_list(texts, shape, ", ")


_PlainType: TypeAlias = IntegerType | IndexType | Float32Type | Float64Type


def _is_plain(type: AnyDenseElement, shape: Sequence[int]) -> TypeGuard[_PlainType]:
    if len(shape) > _MAX_RANK or not 0 < math.prod(shape) <= MAX_LISTED_ELEMENTS:
        return False
    if isinstance(type, IntegerType):
        return type.bitwidth in (8, 16, 32, 64)
    return isinstance(type, IndexType | Float32Type | Float64Type)


def nested_list(texts: list[str], shape: Sequence[int], separator: str) -> str:
    """The text of `texts`, in row-major order, as nested lists of `shape`."""
    for length in reversed(shape):
        starts = range(0, len(texts), length)
        texts = [f"[{separator.join(texts[start : start + length])}]" for start in starts]
    return texts[0]
