"""Attributes and types that are kept as text round-trip byte for byte."""

from __future__ import annotations

import re
import shutil
import subprocess
from io import StringIO
from itertools import starmap

import pytest
from example_counts import examples
from hypothesis import assume, given
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError

from qdialect.opt.registry import ToolContext
from qdialect.text.messages import TextError, balanced_end
from qdialect.text.parser import LocatingParser
from qdialect.text.printer import MLIRPrinter

WORDS = 'a b2 // -> = , : é 0x1F 1.5 #a !b % ^ @ * $ i8 "x" "\\22" "\\0A" dense<1> {-# #-}'
PIECES = st.sampled_from([*WORDS.split(), " ", "\n", "\n    ", "- >", '" <>])"'])


def bracketed(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.sampled_from(["<>", "()", "[]", "{}"])
    lists = st.lists(inner, max_size=4).map("".join)
    return st.tuples(pairs, lists).map(lambda of: of[0][0] + of[1] + of[0][1])


BODIES = st.lists(st.recursive(PIECES, bracketed, max_leaves=12), max_size=6).map("".join)
SYMBOLS = st.one_of(
    BODIES.map(lambda body: f"foo.bar<{body}>"),
    BODIES.map(lambda body: f"foo<{body}>"),
    st.just("foo.bar"),
)


def module_of(symbol: str, other: str) -> str:
    """A module in a module: both symbols, at several depths, and the same types in it."""
    return f"""  builtin.module {{
    %0 = "t.a"() ({{
      %1 = "t.b"() {{a = #{symbol}, b = [#{other}, {{c = !{symbol}}}]}} : () -> tensor<2x!{symbol}>
      "t.c"(%1) : (tensor<2x!{symbol}>) -> ()
    }}) {{d = #{other} : i8}} : () -> !{symbol}
    "t.d"(%0) : (!{symbol}) -> ()
  }}
"""


def read(text: str) -> ModuleOp:
    return LocatingParser(ToolContext(True), text).parse_module()


def printed(module: ModuleOp) -> str:
    stream = StringIO()
    MLIRPrinter(stream).print_op(module)
    return stream.getvalue() + "\n"


def is_one_symbol(text: str) -> bool:
    """Whether the body ends where its first bracket is closed, as MLIR reads it."""
    opening = text.find("<")
    # A sequence such as `->` may be made by two pieces.
    return opening < 0 or balanced_end(text, opening) == len(text)


@examples(60)
@given(st.lists(st.tuples(SYMBOLS, SYMBOLS), min_size=9, max_size=9))
def test_bodies_are_kept(pairs: list[tuple[str, str]]) -> None:
    """Many in each text, since it takes longer to make a context than to read one."""
    pairs = [pair for pair in pairs if all(map(is_one_symbol, pair))]
    text = "builtin.module {\n" + "".join(starmap(module_of, pairs)) + "}\n"
    once = printed(read(text))
    assert once == text
    assert printed(read(once)) == once


@given(SYMBOLS)
def test_the_printer_of_xdsl_prints_the_same(symbol: str) -> None:
    opening = symbol.find("<")
    assume(opening < 0 or not isinstance(balanced_end(symbol, opening), TextError))
    assume(opening < 0 or balanced_end(symbol, opening) == len(symbol))
    stream = StringIO()
    attribute = LocatingParser(ToolContext(True), f"#{symbol}").parse_attribute()
    Printer(stream).print_attribute(attribute)
    assert stream.getvalue() == f"#{symbol}"


def test_what_is_read_of_it_is_what_xdsl_reads() -> None:
    for text in ("#foo.bar<1, [2]>", "!foo.bar", "!foo<bar<1>>", "#foo<bar>"):
        ours = LocatingParser(ToolContext(True), text).parse_attribute()
        theirs = Parser(ToolContext(True), text).parse_attribute()
        for name in ("attr_name", "is_type", "is_opaque", "value"):
            assert getattr(ours, name) == getattr(theirs, name), text


@pytest.mark.skipif(shutil.which("mlir-opt-22") is None, reason="mlir-opt-22 is not on PATH")
def test_mlir_reads_what_is_printed() -> None:
    bodies = ['foo.bar<a\n  "\\22>" b>', "foo<5 -> 6>", "foo.bar<>", "foo.bar<// x\n>"]
    text = module_of(bodies[0], bodies[1]) + module_of(bodies[2], bodies[3])
    done = subprocess.run(
        ["mlir-opt-22", "--allow-unregistered-dialect"],
        input=printed(read(text)),
        capture_output=True,
        text=True,
        check=True,
    )
    for body in bodies:
        assert re.search(re.escape(body), done.stdout)


LACKING = (
    "#linalg.unary_fn<exp>",
    "#linalg.binary_fn<add>",
    "#linalg.ternary_fn<select>",
    "#linalg.type_fn<cast_unsigned>",
    "#vector.punctuation<newline>",
)


@pytest.mark.parametrize("attribute", LACKING)
def test_attributes_of_mlir_that_xdsl_lacks(attribute: str):
    text = f"builtin.module attributes {{test.a = {attribute}}} {{}}"
    module = LocatingParser(ToolContext(), text).parse_module()
    assert f"a = {attribute}}}" in str(module)
    if shutil.which("mlir-opt-22"):
        tool = ["mlir-opt-22", "--allow-unregistered-dialect"]
        done = subprocess.run(tool, input=text, capture_output=True, text=True)
        assert attribute in done.stdout


def test_other_attributes_of_a_known_dialect_are_refused():
    text = "builtin.module attributes {test.a = #linalg.unary_fun<exp>} {}"
    with pytest.raises(ParseError, match=r"'linalg\.unary_fun' is not registered"):
        LocatingParser(ToolContext(), text).parse_module()
