"""The text of dense attributes of every element type is that of MLIR's own tool."""

import math
import re
import shutil
import subprocess
from functools import cache
from io import StringIO
from itertools import islice
from typing import get_args

import numpy as np
import pytest
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
    f16,
    f32,
    f64,
    tf32,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import ParseError

from qdialect.ir.elements import DenseElementsAttr, dense_elements, element_dtype, elements_of
from qdialect.opt.registry import ToolContext
from qdialect.text.parser import LocatingParser
from qdialect.text.printer import MLIRPrinter

pytestmark = pytest.mark.skipif(
    shutil.which("mlir-opt-22") is None, reason="mlir-opt-22 is not on PATH"
)

FLOATS: list[AnyFloat] = [type() for type in get_args(AnyFloat) if type.name not in ("f80", "f128")]
INTEGERS = [
    IntegerType(width, signedness)
    for width in (1, 2, 4, 7, 8, 12, 16, 24, 32, 48, 63, 64)
    for signedness in Signedness
]
# mlir-opt reads the parts of complex<i1> from bits, but writes them as bytes.
PARTS = [f16, f32, f64, tf32, IntegerType(4), IntegerType(24), IntegerType(64)]
TYPES: list[AnyDenseElement] = [*FLOATS, *INTEGERS, IndexType(), *map(ComplexType, PARTS)]
ROW = f"[{', '.join(['false, true'] * 5)}]"
SHAPES = [(), (0,), (2, 0), (1,), (2,), (7,), (2, 3, 2), (100,), (101,), (13, 9)]


def with_bits(type: AnyDenseElement, data: bytes, shape: tuple[int, ...]) -> DenseElementsAttr:
    """The attribute of these bytes, without the bits that are beyond the width of `type`."""
    attribute = DenseIntOrFPElementsAttr(TensorType(type, shape), BytesAttr(data))
    return dense_elements(elements_of(attribute), type, repeat_splats=True)


def samples(type: AnyDenseElement) -> list[DenseElementsAttr]:
    """Any bits, which are numbers of any size, NaNs and infinities, and special ones."""
    size = element_dtype(type).itemsize
    random = np.random.default_rng(0)
    found = [with_bits(type, random.bytes(size * math.prod(shape)), shape) for shape in SHAPES]
    part = type.element_type if isinstance(type, ComplexType) else type
    width = 64 if isinstance(part, IndexType) else part.bitwidth
    patterns = [0, 1, 1 << (width - 1), (1 << width) - 1, (1 << (width - 1)) - 1]
    if isinstance(part, AnyFloat):
        exponents = (1 << (width - 1)) - (1 << max(width - 9, 0))
        patterns += [exponents, exponents + 1, exponents | (1 << (width - 1)), 1 << (width // 2)]
    held = element_dtype(part).itemsize
    parts = [pattern.to_bytes(held, "little") for pattern in patterns]
    for first in parts:
        splat = first * (size // held)
        found.append(with_bits(type, splat * 5, (5,)))
        pairs = b"".join(first + second for second in parts)
        found.append(with_bits(type, pairs, (len(pairs) // size,)))
    return found


def printed(attribute: Attribute) -> str:
    stream = StringIO()
    MLIRPrinter(stream=stream).print_attribute(attribute)
    return stream.getvalue()


def read(text: str) -> Attribute:
    return LocatingParser(ToolContext(), text).parse_attribute()


def mlir_opt(attributes: list[str], *flags: str) -> list[str]:
    """What mlir-opt prints of these attributes: in constants, if there are such."""
    lines = [
        f'"test.op"() {{value = {text}}} : () -> ()'
        if re.search("x?[su]i[0-9]+>", text)
        else f"%{number} = arith.constant {text}"
        for number, text in enumerate(attributes)
    ]
    said = subprocess.run(
        ["mlir-opt-22", "--allow-unregistered-dialect", *flags],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return re.findall(r"dense<[^>]*> : .*>(?=\n|} : \(\))", said)


@cache
def printed_samples() -> dict[AnyDenseElement, list[str]]:
    return {type: [printed(attribute) for attribute in samples(type)] for type in TYPES}


@cache
def samples_by_mlir_opt(*flags: str) -> dict[AnyDenseElement, list[str]]:
    """What mlir-opt prints of the samples of all types: of all at once, since it starts slowly."""
    ours = printed_samples()
    theirs = iter(mlir_opt([text for texts in ours.values() for text in texts], *flags))
    split = {type: [*islice(theirs, len(texts))] for type, texts in ours.items()}
    assert not [*theirs]
    return split


@pytest.mark.parametrize("type", TYPES, ids=str)
def test_is_read_and_printed_as_by_mlir_opt(type: AnyDenseElement):
    attributes, ours = samples(type), printed_samples()[type]
    # In hexadecimal text, other versions of MLIR do not read these.
    is_truth = isinstance(type, IntegerType) and type.bitwidth == 1
    listed = "--mlir-print-elementsattrs-with-hex-if-larger=-1"
    assert samples_by_mlir_opt(*[listed] * is_truth)[type] == ours
    # And the other way round, from lists or hexadecimal text only.
    for limit in ("100", "-1", "1"):
        flag = f"--mlir-print-elementsattrs-with-hex-if-larger={limit}"
        theirs = samples_by_mlir_opt(flag)[type]
        assert len(theirs) == len(ours)
        assert [read(text) for text in theirs] == attributes


@pytest.mark.parametrize(
    ("digits", "type", "listed"),
    [
        ("010001", "3xi1", "[true, false, true]"),
        ("010001000101", "2x3xi1", "[[true, false, true], [false, true, true]]"),
        ("01", "9xi1", "true"),
        ("00", "9xi1", "false"),
        ("0001" * 60, "4x3x10xi1", str([[ROW] * 3] * 4).replace("'", "")),
    ],
)
def test_truths_are_bytes_in_later_versions_of_mlir(digits: str, type: str, listed: str):
    attribute = read(f'dense<"0x{digits}"> : tensor<{type}>')
    assert printed(attribute) == f"dense<{listed}> : tensor<{type}>"
    assert read(printed(attribute)) == attribute


@pytest.mark.parametrize("type", FLOATS, ids=str)
def test_numbers_are_rounded_as_by_mlir_opt(type: AnyFloat):
    random = np.random.default_rng(1)
    numbers = random.normal(size=80) * 2.0 ** random.integers(-12, 12, 80)
    numbers = [*numbers, 0.0, -0.0, 1e-320, 1e300, -1e300, -1e-300, 65519.99, 65520.0, 448.0, 464.0]
    if type.name == "f8E8M0FNU":
        numbers = np.abs(numbers)
    listed = ", ".join(f"{number:.17e}" for number in numbers)
    text = f"dense<[{listed}]> : tensor<{len(numbers)}x{type}>"
    assert [printed(read(text))] == mlir_opt([text])


@pytest.mark.parametrize(
    "text",
    [
        "dense<0x7FC00001> : tensor<2xf32>",
        "dense<[0x7FA00001, -1.5]> : tensor<2xf32>",
        "dense<[0x1, 0x0]> : tensor<2xf64>",
        "dense<0x7FFFF> : tensor<2xtf32>",
        "dense<[(0x7FA00001, -0.0), (0.0, 0xFF800000)]> : tensor<2xcomplex<f32>>",
        "dense<[0.0, -0.0]> : tensor<2xf32>",
        "dense<[1.0e400, -1.0e400]> : tensor<2xf32>",
        "dense<[255, -128]> : tensor<2xi8>",
        "dense<[0xFF, 0x7F]> : tensor<2xi8>",
        "dense<[true, 1, -1, false]> : tensor<4xi1>",
        "dense<[true, 1, 0]> : tensor<3xui1>",
        "dense<[-9223372036854775808, 18446744073709551615]> : tensor<2xi64>",
        "dense<[0, 18446744073709551615]> : tensor<2xui64>",
        'dense<"0x01000000"> : tensor<200xf32>',
        'dense<"0x05"> : tensor<3xi1>',
        'dense<"0x"> : tensor<0xf32>',
        "dense<[[], []]> : tensor<2x0xf32>",
    ],
)
def test_means_what_it_means_in_mlir_opt(text: str):
    assert [printed(read(text))] == mlir_opt([text])


@pytest.mark.parametrize(
    "text",
    [
        "dense<-0x7FC00000> : tensor<2xf32>",
        "dense<0x1FFFFFFFF> : tensor<2xf32>",
        "dense<0x1F> : tensor<2xf4E2M1FN>",
        "dense<true> : tensor<2xf32>",
        "dense<1.0> : tensor<2xi32>",
        "dense<[1, 2.0]> : tensor<2xi32>",
        "dense<(1.0, 2.0)> : tensor<2xcomplex<i32>>",
        "dense<true> : tensor<2xi32>",
        "dense<true> : tensor<2xindex>",
        "dense<256> : tensor<2xi8>",
        "dense<-129> : tensor<2xi8>",
        "dense<128> : tensor<2xsi8>",
        "dense<1> : tensor<2xsi1>",
        "dense<-1> : tensor<2xui8>",
        "dense<9223372036854775808> : tensor<2xindex>",
        "dense<1.0> : tensor<2xcomplex<f32>>",
        "dense<[1.0]> : tensor<1xcomplex<f32>>",
        "dense<[1.0]> : tensor<2xcomplex<f32>>",
        "dense<[(1, 2), 3]> : tensor<2xcomplex<i32>>",
        "dense<[1, 2]> : tensor<3xi8>",
        "dense<[]> : tensor<2x0xf32>",
        "dense<[1, [2]]> : tensor<2xi8>",
        "dense<[[1.0, 2.0], [3.0]]> : tensor<2x2xf32>",
        "dense<> : tensor<2xi8>",
        "dense<[1, foo]> : tensor<2xi32>",
        'dense<"0x010203"> : tensor<2xf16>',
        'dense<"0x01000000"> : tensor<2xcomplex<f32>>',
        'dense<"0x000102"> : tensor<3xi1>',
        'dense<"0x0"> : tensor<2xi8>',
        'dense<"xyz"> : tensor<2xi8>',
    ],
)
def test_is_refused_as_by_mlir_opt(text: str):
    with pytest.raises(ParseError) as raised:
        read(text)
    said = subprocess.run(
        ["mlir-opt-22", "--allow-unregistered-dialect"],
        input=f'"test.op"() {{value = {text}}} : () -> ()',
        capture_output=True,
        text=True,
        check=False,
    ).stderr
    messages = re.findall("(?:error|note): (.*)", said)
    assert raised.value.msg == "; ".join(messages)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("dense<{}> : tensor<2xf32>", "1"),
        ("dense<[1.0, {}]> : tensor<2xf32>", "-2"),
        ("dense<(1.0, {})> : tensor<2xcomplex<f32>>", "16777217"),
        ("dense<[{}]> : tensor<1xf16>", "1" + 400 * "0"),
        ("dense<{}> : tensor<2xf64>", "-1" + 400 * "0"),
    ],
)
def test_an_integer_is_read_as_the_float_of_its_value(text: str, number: str):
    """As xDSL reads it; mlir-opt refuses it."""
    assert [printed(read(text.format(number)))] == mlir_opt([text.format(f"{number}.0")])


def test_what_has_no_sign():
    """Where mlir-opt makes another number of it."""
    with pytest.raises(ParseError, match="f8E8M0FNU has no negative numbers"):
        read("dense<[1.0, -5.0]> : tensor<2xf8E8M0FNU>")


@pytest.mark.parametrize("name", ["f80", "f128", "i65", "complex<f80>"])
def test_what_xdsl_cannot_hold(name: str):
    with pytest.raises(ParseError, match=r"elements of type '.*' are not supported"):
        read(f"dense<1.0> : tensor<2x{name}>")
