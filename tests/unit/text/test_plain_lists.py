"""The fast path for short lists of numbers agrees with the general parser and printer."""

import math
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import (
    AnyDenseElement,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerType,
    Signedness,
    TensorType,
    bf16,
    f16,
    f32,
    f64,
)
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError

from qdialect.ir.elements import element_bytes, element_dtype, elements_of
from qdialect.opt.registry import ToolContext
from qdialect.text.dense import DenseLiteral, print_dense
from qdialect.text.parser import LocatingParser
from qdialect.text.plain_lists import bytes_of_plain_list, find_plain_list, text_of_plain_list

FLOATS = [f32, f64]
TYPES = [
    IndexType(),
    f16,
    bf16,
    *FLOATS,
    *(IntegerType(width, sign) for width in (1, 4, 8, 16, 32, 64) for sign in Signedness),
]
PLAIN_TYPES = [
    type
    for type in TYPES
    if type in FLOATS
    or isinstance(type, IndexType)
    or (isinstance(type, IntegerType) and type.bitwidth in (8, 16, 32, 64))
]
CONTEXT = ToolContext()

types = st.sampled_from(TYPES)
shapes = st.lists(st.integers(0, 4), max_size=3)
integers = st.integers(-9, 9) | st.sampled_from([127, 128, 255, 256, -128, -129, 2**63, 2**64 - 1])
float_texts = st.floats(allow_nan=False, allow_infinity=False).map("{:e}".format) | st.sampled_from(
    ["0.0", "-0.0", "1.", "2.5E3", "1.0e-46", "3.5e38", "3.40282346e+38", "16777217.0", "0.1"]
)
blanks = st.sampled_from(["", " ", "\n\t"])


def parser_of(text: str) -> LocatingParser:
    return LocatingParser(CONTEXT, text)


def bytes_in_general(text: str, type: AnyDenseElement, shape: list[int]) -> bytes | None:
    """What `qdialect.text.dense` reads, None for an error."""
    parser = parser_of(text)
    try:
        literal = DenseLiteral.parse_after_keyword(parser, 0)
        values = literal.to_values(type, tuple(shape), is_storage=False)
    except ParseError:
        return None
    return element_bytes(values, type, repeat_splats=True)


@st.composite
def lists(draw: st.DrawFn, shape: list[int], items_of: st.SearchStrategy[str]) -> str:
    """A list of `shape`, with blanks."""
    before, after = draw(blanks), draw(blanks)
    if not shape:
        return f"{before}{draw(items_of)}{after}"
    items = [draw(lists(shape[1:], items_of)) for _ in range(shape[0])]
    return f"{before}[{','.join(items)}]{after}"


@given(types, shapes, st.data())
def test_lists_are_read_alike(type: AnyDenseElement, shape: list[int], data: st.DataObject):
    written = data.draw(st.just(shape) | st.just(list[int]()) | shapes)
    are_floats = data.draw(st.just(type in FLOATS) | st.booleans())
    text = f"<{data.draw(lists(written, float_texts if are_floats else integers.map(str)))}>"
    plain = find_plain_list(parser_of(text))
    assert plain is not None
    read = bytes_of_plain_list(plain[1], type, shape)
    expected = bytes_in_general(text, type, shape)
    if read is not None:
        assert read == expected
    elif type in PLAIN_TYPES and math.prod(shape) and type not in FLOATS:
        assert expected is None


@given(types, shapes, st.text("[]-, 012.e\n", min_size=1, max_size=12))
def test_any_text_is_read_alike(type: AnyDenseElement, shape: list[int], text: str):
    read = bytes_of_plain_list(text, type, shape)
    if read is not None:
        assert read == bytes_in_general(f"<{text}>", type, shape)


@given(types, shapes, st.data())
def test_lists_are_printed_alike(type: AnyDenseElement, shape: list[int], data: st.DataObject):
    size = 8 if isinstance(type, IndexType) else element_dtype(type).itemsize
    count = math.prod(shape)
    items = st.binary(min_size=size, max_size=size)
    splat = items.map(lambda item: item * count)
    held = data.draw(st.lists(items, min_size=count, max_size=count).map(b"".join) | splat)
    dense = DenseIntOrFPElementsAttr(TensorType(type, shape), BytesAttr(held))
    text = text_of_plain_list(dense)
    assert (text is not None) == (type in PLAIN_TYPES and count > 0)
    if text is not None:
        stream = StringIO()
        print_dense(Printer(stream), elements_of(dense), type)
        assert stream.getvalue() == f"dense<{text}>"


@pytest.mark.parametrize("text", ["<true>", '<"0x01">', "<[0x1]>", "<1 // one\n>"])
def test_other_lists_are_for_the_general_reader(text: str):
    assert find_plain_list(parser_of(text)) is None
