"""Texts without their long literals are parsed as the same modules, with the same errors."""

from __future__ import annotations

import io
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from example_counts import examples
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.utils.exceptions import ParseError

from qdialect.opt.registry import ToolContext
from qdialect.text import parse_module, read_module, source, write_module
from qdialect.text.parser import LocatingParser
from qdialect.text.source import AbridgedInput, HexDigits, NotUTF8Error, abridge, read_text

ROOT = Path(__file__).parents[3]

LITERALS = (
    'dense<"0x0102030405060708">',
    'dense<"0x01020304050607">',
    'dense<"0x010203040506070g">',
    'dense<"0x010203040506070">',
    'dense< "0x0102030405060708">',
    'dense<"0x01020304\\n05060708">',
    'dense<"0x01020304\n05060708">',
    'dense<"0x0102030405é060708">',
    ': "0x0100000001020304"',
    '"0x0102030405060708"',
    '// dense<"0x0102030405060708">\n',
    '#a.b<dense<"0x0102030405060708">>',
    "é",
    '"',
    "%",
    ">",
)

WITH_LITERALS = """
"t.x"() {a = dense<"0x0102030405060708"> : tensor<8xi8>, é = "0x0102030405060708"} : () -> ()
%0 = arith.constant dense<"0x0102030405060708"> : tensor<8xi8> %1 = arith.constant 1 : i8
"t.y"() {a = #t.opaque<dense<"0x0102030405060708">>} : () -> () // dense<"0x0102030405060708">
%2 = arith.constant dense_resource<k> : tensor<4xi8>
%3 = quant.constant dense<"0x0102030405060708"> : tensor<8x!quant.uniform<i8:f32, 0.5>>
{-# dialect_resources: { builtin: { k: "0x0100000001020304", unused: "0x04000000ffFF" } } #-}
"""


def texts() -> Iterator[str]:
    """What there is to read, and one text with literals at all places."""
    yield WITH_LITERALS
    for folder in ("examples", "tests/filecheck"):
        for path in sorted((ROOT / folder).rglob("*.mlir")):
            yield from path.read_text().split("// -----")


TEXTS = list(texts())

DIGITS = "0123456789abcdefABCDEF" * 100


def outcome(text: str | AbridgedInput) -> object:
    """The result of reading a text: the text of a module, or an error and its location."""
    context = ToolContext(allow_unregistered=True)
    try:
        parser = LocatingParser(context, text)
        module = parser.parse_module()
    except ParseError as error:
        place = error.span.get_location()
        return error.msg, place.line, place.col
    stream = io.StringIO()
    write_module(context, module, stream, print_generic_format=True)
    names = [(op.name, span.get_location().line) for op, span in parser.locations.items()]
    return stream.getvalue(), sorted(names)


def mutated(text: str, randomness: random.Random) -> str:
    """`text` with some pieces taken away, doubled, or put in."""
    for _ in range(randomness.randrange(4)):
        start = randomness.randrange(len(text) + 1)
        end = min(start + randomness.choice((0, 0, 1, 5)), len(text))
        piece = randomness.choice((*LITERALS, "", text[start:end] * 2))
        text = text[:start] + piece + text[end:]
    return text


@examples(400)
@given(
    st.sampled_from([WITH_LITERALS, *TEXTS]),
    st.sampled_from([1, 2, 7, 1 << 20]),
    st.randoms(use_true_random=False),
)
def test_what_is_left_out_makes_no_difference(
    text: str, piece: int, randomness: random.Random
) -> None:
    text = mutated(text, randomness)
    with patch.object(source, "MIN_OMITTED_DIGITS", 2), patch.object(source, "_PIECE", piece):
        abridged = abridge(text.encode(), "<unknown>")
    assert abridged.whole_text == text
    assert outcome(abridged) == outcome(text)


@pytest.mark.parametrize("digits", [b"102g", b"102G", b"10g", b"10G", b"abg", b"aBg", b"ABg", b"g"])
def test_other_letters_are_kept_as_they_are_written(digits: bytes) -> None:
    held = HexDigits()
    held.add(digits)
    assert (held.raw, held.data) == (digits, None)


@pytest.mark.parametrize("case", [str.upper, str.lower, str.swapcase, str])
@pytest.mark.parametrize("length", [1, 2, 5, 2200])
def test_digits_are_kept_as_they_are_written(case: Callable[[str], str], length: int) -> None:
    digits = case(("0123" + DIGITS)[:length]).encode()
    for size in (1, 3, 4, length):
        held = HexDigits()
        for start in range(0, length, size):
            held.add(digits[start : start + size])
        assert (held.raw, held.count) == (digits, length)
        assert held.data == (None if length % 2 else bytes.fromhex(digits.decode()))
        assert held.raw == digits


@given(st.text("01aAfF", max_size=12), st.integers(1, 5))
def test_any_digits_are_kept_as_they_are_written(text: str, size: int) -> None:
    digits, held = text.encode(), HexDigits()
    for start in range(0, len(digits), size):
        held.add(digits[start : start + size])
    assert held.raw == digits
    assert held.data == (None if len(digits) % 2 else bytes.fromhex(text))


@pytest.mark.parametrize("length", [0, 5000, 100_000])
def test_a_file_that_changes_while_it_is_read_is_an_error(length: int, tmp_path: Path) -> None:
    path = tmp_path / "module.mlir"
    path.write_text(f'%0 = arith.constant dense<"0x{DIGITS * 100}"> : tensor<110000xi8>\n')
    pieces = 0

    class Shrinking(io.FileIO):
        def read(self, size: int | None = -1, /) -> bytes:
            nonlocal pieces
            pieces += 1
            if pieces == 2:
                os.truncate(path, length)
            return super().read(size)

    def open_file(path: Path, mode: str, buffering: int) -> io.FileIO:
        assert (mode, buffering) == ("rb", 0)
        return Shrinking(path)

    with (
        patch.object(source, "_PIECE", 4096),
        patch("builtins.open", open_file),
        pytest.raises(OSError, match="it changed while it was read"),
    ):
        read_module(ToolContext(), path)
    assert pieces > 1


def test_literals_are_left_out_where_they_are_expected() -> None:
    with patch.object(source, "MIN_OMITTED_DIGITS", 16):
        abridged = abridge(WITH_LITERALS.encode(), "f")
    assert [omission.digits.raw for omission in abridged.omissions] == [
        b"0102030405060708",
        b"0102030405060708",
        b"0102030405060708",
        b"0102030405060708",
        b"0102030405060708",
        b"0100000001020304",
    ]
    assert abridged.whole_text == WITH_LITERALS


@pytest.fixture
def no_whole_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have nobody put the digits back into a text."""

    def refuse(text: AbridgedInput) -> str:
        raise AssertionError("the digits are put back")

    monkeypatch.setattr(AbridgedInput, "whole_text", property(refuse))


@pytest.mark.usefixtures("no_whole_text")
def test_what_mlir_writes_is_read_without_its_digits() -> None:
    text = f"""
%0 = arith.constant dense<"0x{DIGITS}"> : tensor<1100xi8>
%1 = arith.constant dense_resource<k> : tensor<1096xi8>
{{-#
  dialect_resources: {{
    builtin: {{
      k: "0x01000000{DIGITS[:-8]}"
    }}
  }}
#-}}
"""
    context = ToolContext()
    module = parse_module(context, text.encode())
    constant = module.body.block.first_op
    assert constant is not None
    value = constant.properties["value"]
    assert isinstance(value, DenseIntOrFPElementsAttr)
    assert value.data.data == bytes.fromhex(DIGITS)
    stream = io.StringIO()
    write_module(context, module, stream)
    assert f'k: "0x01000000{DIGITS[:-8].upper()}"' in stream.getvalue()


@pytest.mark.usefixtures("no_whole_text")
@pytest.mark.parametrize(
    "text",
    [
        '%0 = arith.constant dense<"0xDIGITS"> : tensor<1100xi8> %',
        '%0 = arith.constant dense<"0xDIGITS"> : tensor<1101xi8>',
        '"test.op"() {a = dense<"0xDIGITS"> : tensor<1100xi8>} : () -> () %0 = "test.op"',
        '"test.op"() {a = dense<"0xDIGITS"> : tensor<1100xi8>} : () -> () {-# dialect_resources',
    ],
)
def test_errors_behind_digits_are_where_they_are(text: str) -> None:
    with pytest.raises(ParseError) as abridged:
        parse_module(ToolContext(), text.replace("DIGITS", DIGITS).encode(), "file")
    with pytest.raises(ParseError) as whole:
        parse_module(ToolContext(), text.replace("DIGITS", DIGITS), "file")
    assert abridged.value.span.get_location() == whole.value.span.get_location()
    assert abridged.value.msg == whole.value.msg
    assert len(str(abridged.value)) < 1000 < len(str(whole.value))


@pytest.mark.parametrize("content", [b"", b"\n", b"%0 = arith.constant 1 : i8\n"])
def test_files_are_read(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "module.mlir"
    path.write_bytes(content)
    assert read_text(path).content.encode() == content
    assert len(list(read_module(ToolContext(), path).body.block.ops)) == content.count(b"=")


def test_what_is_not_utf_8_is_refused() -> None:
    with pytest.raises(NotUTF8Error) as raised:
        parse_module(ToolContext(), f'"0x{DIGITS}" : "0x{DIGITS}" // é'.encode() + b"\xff\n")
    readable = raised.value.readable
    assert readable.content[raised.value.position :] == "\N{REPLACEMENT CHARACTER}\n"
    assert raised.value.object[raised.value.start] == 0xFF


def test_a_part_has_its_own_literals() -> None:
    text = f'dense<"0x{DIGITS}"> // -----\ndense<"0x{DIGITS[1:]}">'
    abridged = abridge(text.encode(), "file")
    middle = abridged.content.index("dense", 1)
    part = abridged.part(middle, abridged.len)
    assert part.whole_text == text[text.index("dense", 1) :]
    assert abridged.part(0, middle).whole_text == text[: text.index("dense", 1)]
