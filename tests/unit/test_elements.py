"""Elements of constants: arrays, and MLIR's text and byte layout."""

import re
import shutil
import subprocess
from io import StringIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import (
    Builtin,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IntegerType,
    Signedness,
    TensorType,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError

from qdialect.elements import (
    DenseLiteral,
    dense_elements,
    element_dtype,
    elements_of,
    integer_range,
    print_dense,
)
from qdialect.movement import Elements, Splat, as_view

integer_types = st.builds(
    IntegerType,
    st.integers(1, 32),
    st.sampled_from([Signedness.SIGNLESS, Signedness.UNSIGNED]),
)


def elements(type: IntegerType, count: int, seed: int = 0) -> np.ndarray:
    low, high = integer_range(type.bitwidth, type.signedness.data is not Signedness.UNSIGNED)
    values = np.random.default_rng(seed).integers(low, high, count, endpoint=True)
    values[:2] = low, high
    return values.astype(element_dtype(type))


def text_of(values: Elements, type: IntegerType) -> str:
    stream = StringIO()
    print_dense(Printer(stream=stream), values, type)
    return stream.getvalue()


def read(text: str, type: IntegerType, shape: tuple[int, ...]) -> Elements:
    context = Context()
    context.load_dialect(Builtin)
    parser = Parser(context, text)
    return DenseLiteral.parse(parser).to_values(parser, type, shape)


@given(integer_types, st.sampled_from([2, 7, 8, 9, 100, 101, 1000]))
def test_text_is_read_back(type: IntegerType, count: int):
    values = elements(type, count)
    again = read(text_of(values, type), type, (count,))
    assert np.array_equal(as_view(again).array(), values)


@given(integer_types, st.sampled_from([2, 100, 101]))
def test_attribute_holds_the_elements(type: IntegerType, count: int):
    values = elements(type, count)
    again = elements_of(dense_elements(values, type))
    assert np.array_equal(as_view(again).array(), values)


@pytest.mark.skipif(shutil.which("mlir-opt-22") is None, reason="mlir-opt-22 is not on PATH")
def test_bytes_are_those_of_mlir_opt():
    """MLIR reads our hexadecimal text as the integers that a list of them says."""
    types = [
        IntegerType(width, sign)
        for width in (*range(1, 33),)
        for sign in (Signedness.SIGNLESS, Signedness.UNSIGNED)
    ]
    pairs: list[str] = []
    for type in types:
        values = elements(type, 103, seed=type.bitwidth)
        listed = ", ".join(str(value).lower() for value in _as_mlir_lists(values, type))
        for text in (text_of(values, type), f"dense<[{listed}]>"):
            pairs.append(f'"t.t"() {{v = {text} : tensor<103x{type}>}} : () -> ()')
    said = subprocess.run(
        ["mlir-opt-22", "--allow-unregistered-dialect"],
        input="\n".join(pairs),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    read = re.findall(r"v = (dense<.*>) : tensor<103x(\w+)>", said)
    assert len(read) == len(pairs)
    assert read[::2] == read[1::2]
    # And what it prints itself is what we print.
    ours = re.findall(r"v = (dense<.*>) : tensor<103x(\w+)>", "\n".join(pairs[::2]))
    assert ours == read[::2]


def _as_mlir_lists(values: np.ndarray, type: IntegerType) -> list[object]:
    return [bool(value) for value in values] if type.bitwidth == 1 else values.tolist()


def test_splat_takes_no_memory():
    shape = (65536, 65536, 65536, 65536)
    splat = Splat(np.int8(-3), shape)
    attribute = dense_elements(splat, IntegerType(8))
    assert len(attribute.data.data) == 1
    assert elements_of(attribute) == splat
    assert text_of(splat, IntegerType(8)) == "dense<-3>"
    assert read("dense<-3>", IntegerType(8), shape) == splat
    assert read('dense<"0xFD">', IntegerType(8), shape) == splat


def test_equal_elements_are_a_splat():
    assert read("dense<[5, 5]>", IntegerType(8), (2,)) == Splat(np.int8(5), (2,))
    attribute = DenseIntOrFPElementsAttr(TensorType(IntegerType(16), [2]), BytesAttr(b"\1\0" * 2))
    assert elements_of(attribute) == Splat(np.int16(1), (2,))
    attribute = DenseIntOrFPElementsAttr(TensorType(IntegerType(16), [2]), BytesAttr(b"\1\0\0\1"))
    assert isinstance(elements_of(attribute), np.ndarray)


def test_bits_beyond_the_width_are_the_sign():
    # What xDSL makes of MLIR's zero-extended text is read as MLIR reads it.
    attribute = DenseIntOrFPElementsAttr(TensorType(IntegerType(4), [2]), BytesAttr(b"\x08\x07"))
    assert as_view(elements_of(attribute)).array().tolist() == [-8, 7]


def test_no_elements():
    empty = np.zeros((0, 3), dtype=np.int8)
    assert text_of(empty, IntegerType(8)) == "dense<>"
    for text in ("dense<>", "dense<5>"):
        assert as_view(read(text, IntegerType(8), (0, 3))).array().shape == (0, 3)


def test_booleans():
    assert text_of(np.array([-1, 0], dtype=np.int8), IntegerType(1)) == "dense<[true, false]>"
    values = read("dense<[true, false]>", IntegerType(1), (2,))
    assert as_view(values).array().tolist() == [-1, 0]


@pytest.mark.parametrize(
    ("text", "shape", "message"),
    [
        ("dense<[1, 128]>", (2,), r"element 128 is outside the storage range \[-128, 127\]"),
        ("dense<-129>", (2,), "element -129 is outside the storage range"),
        ('dense<"0x01">', (1,) * 65, "rank 65 is more than 64"),
        ("dense<[1, 2, 3]>", (2,), r"inferred shape of elements literal \(\[3\]\)"),
        ("dense<[[1, 2], [3]]>", (2, 2), "ranks are not consistent"),
        ("dense<[1, [2]]>", (2,), "ranks are not consistent"),
        ("dense<>", (2,), "expected at least one element"),
        ("dense<1.0>", (2,), "expected an integer element"),
        ("dense<[1, ]>", (2,), "expected an integer element"),
        ('dense<"0x0102">', (3,), "elements hex data size is invalid"),
        ('dense<"0x01020">', (2,), "elements hex string is not hexadecimal"),
        ('dense<"0x01 02">', (2,), "elements hex string is not hexadecimal"),
        ('dense<"0x0102>', (2,), "unterminated"),
        ('dense<"0102">', (2,), "expected an integer element"),
    ],
)
def test_malformed_text(text: str, shape: tuple[int, ...], message: str):
    with pytest.raises(ParseError, match=message):
        read(text, IntegerType(8), shape)
