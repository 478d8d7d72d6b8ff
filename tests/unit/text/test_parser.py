"""The parser of the tools: locations, errors and splats."""

from __future__ import annotations

import gc
import random
import re
import weakref
from contextlib import nullcontext
from io import StringIO
from typing import cast

import numpy as np
import pytest
from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.dialects import memref
from xdsl.dialects.builtin import DenseArrayBase, DenseIntOrFPElementsAttr, ModuleOp
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.utils.exceptions import MultipleSpansParseError, ParseError

from qdialect.ir.elements import MAX_REPEATED_BYTES, DenseElementsAttr
from qdialect.opt.registry import ToolContext
from qdialect.support.memory import MemoryLimitError, memory_budget
from qdialect.text.parser import LocatingParser
from qdialect.text.printer import MLIRPrinter

MODULE = """
!q = !quant.uniform<i8:f32:0, {0.5,0.25:3}>
func.func @f(%a: tensor<2x3xf32>, %b: memref<?x4xf32, strided<[?, 1], offset: 2>>) {
  %0 = quant.qcast %a : tensor<2x3xf32> to tensor<2x3x!q>
  %1:2 = "test.op"(%0) ({
  ^bb0(%x: i8):
    "test.termop"(%x)[^bb1] : (i8) -> ()
  ^bb1:
    "test.termop"() : () -> ()
  }) {a = [1, "x\\0A", @s::@t, affine_map<(d0)[s0] -> (d0 + s0)>], b = array<i8: 1, 2>,
      c = dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>, d = dense_resource<k> : tensor<4xi8>,
      e = dense<1.5> : tensor<4xf32>, f = loc("a":1:2)} : (tensor<2x3x!q>) -> (i8, tuple<i8>)
  return
}
{-# dialect_resources: { builtin: { k: "0x0800000001020304" } } #-}
"""


def parser_of(text: str, *, allow_unregistered: bool = False) -> LocatingParser:
    return LocatingParser(ToolContext(allow_unregistered), text, "test.mlir")


def parse_error(text: str) -> ParseError:
    with pytest.raises(ParseError) as raised:
        parser_of(text).parse_module()
    return raised.value


def dense(literal: str, context: ToolContext) -> DenseIntOrFPElementsAttr:
    attribute = LocatingParser(context, literal).parse_attribute()
    return cast(DenseIntOrFPElementsAttr, attribute)


def test_locations_are_the_names_of_the_operations() -> None:
    parser = parser_of(MODULE)
    module = parser.parse_module()
    names = {op.name: parser.locations[op] for op in module.walk() if op is not module}
    assert {name: span.text for name, span in names.items()} == {
        "func.func": "func.func",
        "quant.qcast": "quant.qcast",
        "test.op": '"test.op"',
        "test.termop": '"test.termop"',
        "func.return": "return",
    }
    assert names["quant.qcast"].get_location()[1:] == (4, 8)
    assert names["test.termop"].get_location()[1:] == (9, 5)
    assert module not in parser.locations


def test_the_module_of_the_text_has_a_location() -> None:
    parser = parser_of(" module {}")
    assert parser.locations[parser.parse_module()].start == 1


def test_locations_do_not_keep_operations() -> None:
    parser = parser_of("func.func private @f()")
    module = parser.parse_module()
    function = weakref.ref[Operation](next(iter(module.body.block.ops)))
    del module
    gc.collect()
    assert function() is None
    assert len(parser.locations) == 0


@pytest.mark.parametrize("text", ["", "  // only a comment", "!a = i8", "{-# #-}"])
def test_text_without_operations_is_an_empty_module(text: str) -> None:
    module = parser_of(text).parse_module()
    assert isinstance(module, ModuleOp)
    assert not list(module.body.block.ops)


def test_a_module_may_be_demanded() -> None:
    parser_of("module {}").parse_module(allow_implicit_module=False)
    for text in ("", "module {} module {}", "func.func private @f()"):
        with pytest.raises(ParseError, match=r"single top-level builtin\.module"):
            parser_of(text).parse_module(allow_implicit_module=False)
    with pytest.raises(ParseError, match="expected operation name in quotes"):
        parser_of("module {} ]").parse_module(allow_implicit_module=False)


@pytest.mark.parametrize(
    "literal",
    [
        "dense<7> : tensor<2x3xi8>",
        "dense<-1> : tensor<3xi4>",
        "dense<true> : tensor<3xi1>",
        "dense<200> : tensor<3xui8>",
        "dense<1> : tensor<i64>",
        "dense<1> : vector<4xindex>",
        "dense<1.5> : tensor<2xf32>",
        "dense<-1.0> : tensor<2xf64>",
        "dense<(1, 2)> : tensor<2xcomplex<i32>>",
        "dense<(1.0, 2.0)> : tensor<2xcomplex<f32>>",
        "dense< // one\n 1> : tensor<2xi8>",
        'dense<"0x07"> : tensor<2x3xi8>',
        'dense< // one\n "0x07"> : tensor<2x3xi8>',
        'dense<"0x0708"> : tensor<2xi8>',
        'dense<"0x0708"> : tensor<2xi16>',
        'dense<"0xFFFFFFFFFFFFFFFF"> : tensor<2xf32>',
        "dense<> : tensor<0xi8>",
        "dense<[]> : tensor<0xi8>",
        "dense<[1, 2]> : tensor<2xi8>",
        "dense<[[1.0], [2.0]]> : tensor<2x1xf32>",
    ],
)
def test_dense_literals_are_read_as_by_xdsl(literal: str) -> None:
    context = ToolContext()
    assert dense(literal, context) == Parser(context, literal).parse_attribute()


@pytest.mark.parametrize("literal", ["dense<1> : tensor<?xi8>", "dense<1 : tensor<2xi8>"])
def test_dense_literals_are_refused_as_by_xdsl(literal: str) -> None:
    context = ToolContext()
    with pytest.raises(ParseError) as stock:
        Parser(context, literal).parse_attribute()
    with pytest.raises(ParseError) as raised:
        dense(literal, context)
    assert raised.value.msg.lower() == stock.value.msg.lower()


@pytest.mark.parametrize(
    ("literal", "values"),
    [
        ('dense<"0x05"> : tensor<3xi1>', [-1, 0, -1]),
        ('dense<"0x0807"> : tensor<2xi4>', [-8, 7]),
        ('dense<"0xFFFF7F000080"> : tensor<2xi24>', [0x7FFFFF, -0x800000]),
    ],
)
def test_hexadecimal_elements_are_read_as_by_mlir(literal: str, values: list[int]) -> None:
    """Where xDSL has another layout, which MLIR's text does not have."""
    assert list(dense(literal, ToolContext()).get_values()) == values


@pytest.mark.parametrize(
    "literal", ['dense<"0x01"> : tensor<2xi16>', 'dense<"0x010203"> : tensor<2xi8>']
)
def test_hexadecimal_elements_of_another_size(literal: str) -> None:
    with pytest.raises(ParseError, match="elements hex data size is invalid for provided type"):
        dense(literal, ToolContext())


def test_attributes_of_arguments_of_a_declaration() -> None:
    text = "func.func private @f(f32 {a = 1 : i8}, tensor<2xf32, {e = 1 : i8}>, f32 {b}) -> ()"
    (function,) = LocatingParser(ToolContext(), text).parse_module().ops
    assert str(function.properties["arg_attrs"]) == "[{a = 1 : i8}, {}, {b}]"


@pytest.mark.parametrize("element", ["7", '"0x07"'])
def test_large_splats_hold_one_element(element: str) -> None:
    context = ToolContext()
    at_limit = dense(f"dense<{element}> : tensor<{MAX_REPEATED_BYTES}xi8>", context)
    above = dense(f"dense<{element}> : tensor<{MAX_REPEATED_BYTES + 1}xi8>", context)
    assert at_limit.data.data == b"\7" * MAX_REPEATED_BYTES
    assert above.data.data == b"\7"
    assert str(above) == f"dense<7> : tensor<{MAX_REPEATED_BYTES + 1}xi8>"


def test_splats_of_a_text_hold_a_part_of_the_memory_budget() -> None:
    text = "".join(
        f'"test.op"() {{a = dense<{k}> : tensor<{MAX_REPEATED_BYTES // 8}xi64>}} : () -> ()\n'
        for k in range(40)
    )
    with memory_budget(16 * MAX_REPEATED_BYTES) as budget:
        module = LocatingParser(ToolContext(), text).parse_module()
    attributes = [cast(DenseElementsAttr, op.attributes["a"]) for op in module.ops]
    lengths = [len(attribute.data.data) for attribute in attributes]
    assert lengths == [MAX_REPEATED_BYTES] * 2 + [8] * 38
    assert budget.reserved == 2 * MAX_REPEATED_BYTES


def test_equal_splats_share_their_elements() -> None:
    first, second = (dense("dense<3> : tensor<5000xi8>", ToolContext()) for _ in range(2))
    assert first.data.data is second.data.data


@pytest.mark.parametrize(
    "literal",
    [
        "dense<2> : tensor<2x0x3xi4>",
        "dense<2.000000e+00> : tensor<0xf32>",
        "dense<(1,2)> : tensor<0xcomplex<i8>>",
        "dense<> : tensor<0xf32>",
    ],
)
def test_what_no_element_is_read_from_is_kept(literal: str) -> None:
    context = ToolContext()
    out = StringIO()
    MLIRPrinter(out).print_attribute(dense(literal, context))
    assert out.getvalue() == literal


def test_errors_about_types_tell_where_the_value_was_seen() -> None:
    error = parse_error("func.func @f(%a: f32) {\n  func.call @g(%a) : (f16) -> ()\n}")
    assert isinstance(error, MultipleSpansParseError)
    assert (error.span.text, error.span.get_location()[1:]) == ("%a", (2, 16))
    ((span, note),) = error.refs
    assert (note, span.get_location()[1:]) == ("prior use here", (1, 14))


@pytest.mark.parametrize(
    "text",
    [
        '"test.op"() ({' * 50_000,
        "func.func private @f(" + "tuple<" * 50_000,
        '"test.op"() {a = ' + "[" * 50_000,
    ],
)
def test_deep_nesting_is_an_error(text: str) -> None:
    assert parse_error(text).msg == "nesting is too deep"


def test_a_string_that_is_not_closed_is_found_in_linear_time() -> None:
    text = '"test.op"() {a = "' + "a" * 10_000 + "\n"
    assert parse_error(text).span.start == text.rindex("\n")


def test_a_custom_form_that_is_not_known() -> None:
    error = parse_error("func.func @f(%a: memref<4xf32>) {\n  memref.dma_start %a : memref<4xf32>")
    assert error.msg == (
        "the custom form of memref.dma_start is not known; use the generic form that mlir-opt "
        "--mlir-print-op-generic prints (see --read-with=COMMAND)"
    )
    assert error.span.text == "memref.dma_start"


def test_what_xdsl_raises_otherwise_is_a_parse_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The names of exceptions say nothing to users."""

    def fail(cls: type[Operation], parser: Parser) -> Operation:
        raise IndexError(cls.name, parser.pos)

    def fail_to_define(parser: LocatingParser) -> None:
        raise IndexError(parser.pos)

    monkeypatch.setattr(LocatingParser, "parse_alias_def", fail_to_define)
    assert parse_error("!a = i8").msg == "this cannot be read"
    monkeypatch.setattr(memref.DmaStartOp, "parse", classmethod(fail))
    error = parse_error("func.func @f(%a: memref<4xf32>) {\n  memref.dma_start %a")
    assert error.msg == (
        "this form of memref.dma_start cannot be read; use the generic form that "
        "mlir-opt --mlir-print-op-generic prints (see --read-with=COMMAND)"
    )


def test_each_context_has_its_own_resources() -> None:
    for byte in ("01", "02"):
        context = ToolContext()
        text = (
            '"test.op"() {a = dense_resource<k> : tensor<1xi8>} : () -> ()\n'
            f'{{-# dialect_resources: {{ builtin: {{ k: "0x01000000{byte}" }} }} #-}}'
        )
        module = LocatingParser(context, text).parse_module()
        assert "dense_resource<k>" in str(module)
        interface = context.get_dialect("builtin").get_interface(OpAsmDialectInterface)
        assert interface is not None
        assert interface.build_resources(["k", "k_0"]) == {"k": f"0x01000000{byte}"}


def mutated(text: str, source: random.Random) -> str:
    for _ in range(source.choice((1, 1, 2, 5))):
        at = source.randrange(len(text) + 1)
        match source.randrange(4):
            case 0:
                text = text[:at]
            case 1:
                text = text[:at] + chr(source.randrange(32, 127)) + text[at + 1 :]
            case 2:
                text = text[:at] + text[at + source.randrange(1, 8) :]
            case _:
                piece = re.split(r"\b", MODULE)[source.randrange(100)]
                text = text[:at] + piece + text[at:]
    return text


def is_read(text: str, *, allow_unregistered: bool) -> bool:
    """Whether it is; anything but a ParseError is raised."""
    try:
        parser_of(text, allow_unregistered=allow_unregistered).parse_module()
    except ParseError:
        return False
    return True


def test_mutated_text_is_read_or_refused() -> None:
    source = random.Random(20)
    outcomes = {True: 0, False: 0}
    for _ in range(400):
        text = mutated(MODULE, source)
        allow_unregistered = source.random() < 0.5
        outcomes[is_read(text, allow_unregistered=allow_unregistered)] += 1
    assert min(outcomes.values()) > 10


def doubling_aliases(sigil: str, first: str, name: str, opening: str, count: int) -> str:
    """Definitions, each made of two copies of the one before."""
    closing = "".join({"<": ">", "[": "]", "(": ")"}.get(each, "") for each in opening[::-1])
    separator = " at " if opening.endswith("callsite(") else ", "
    lines = [f"{sigil}{name}0 = {first}"]
    for number in range(1, count):
        before = f"{sigil}{name}{number - 1}"
        lines.append(f"{sigil}{name}{number} = {opening}{before}{separator}{before}{closing}")
    return "\n".join(lines) + "\n"


TUPLES = "!", "tuple<i8>", "a", "tuple<"
ARRAYS = "#", "[1]", "a", "["
LOCATIONS = "#", 'loc("a":1:2)', "a", "loc(fused["
CALLS = "#", 'loc("a":1:2)', "a", "loc(callsite("


@pytest.mark.parametrize(
    ("parts", "used"),
    [
        (TUPLES, '"test.op"() {a = !a59} : () -> ()'),
        (TUPLES, "func.func private @f(!a59)"),
        (ARRAYS, '"test.op"() {a = #a59} : () -> ()'),
        (ARRAYS, "func.func private @f(tensor<2xi8, #a59>)"),
        (LOCATIONS, '"test.op"() {a = #a59} : () -> ()'),
        (LOCATIONS, '"test.op"() {a = loc("n"(#a59))} : () -> ()'),
    ],
)
def test_aliases_of_aliases_have_a_bound(parts: tuple[str, str, str, str], used: str) -> None:
    text = doubling_aliases(*parts, 60)
    with pytest.raises(ParseError, match=r"aliases of aliases stand for [0-9]{19} parts"):
        LocatingParser(ToolContext(), text + used).parse_module()
    # Definitions that nothing uses are no expansion.
    LocatingParser(ToolContext(), text).parse_module()


def test_each_use_of_an_alias_counts() -> None:
    text = doubling_aliases(*TUPLES, 14)
    line = '  "test.op"() : () -> (!a13)\n'
    LocatingParser(ToolContext(), text + 3 * line).parse_module()
    with pytest.raises(ParseError, match="more than the 262144 that are allowed"):
        LocatingParser(ToolContext(), text + 20 * line).parse_module()


@pytest.mark.parametrize("parts", [LOCATIONS, CALLS])
def test_locations_of_aliases_have_a_bound_when_printed(
    parts: tuple[str, str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qdialect.text.printer.MAX_REPETITION", 1 << 16)
    text = doubling_aliases(*parts, 60)
    parser = LocatingParser(ToolContext(), f'{text}"test.op"() : () -> () loc(#a59)')
    module = parser.parse_module()
    MLIRPrinter(StringIO()).print_op(module)
    with pytest.raises(MemoryLimitError, match="more than 65536 characters"):
        MLIRPrinter(StringIO(), print_debuginfo=True).print_op(module)


def test_the_repetition_of_a_text_counts_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qdialect.text.printer.MAX_REPETITION", 1 << 16)
    text = doubling_aliases(*LOCATIONS, 8)
    for count, is_refused in ((1, False), (100, True)):
        lines = count * '"test.op"() : () -> () loc(#a7)\n'
        module = LocatingParser(ToolContext(), text + lines).parse_module()
        with pytest.raises(MemoryLimitError) if is_refused else nullcontext():
            MLIRPrinter(StringIO(), print_debuginfo=True).print_op(module)


@pytest.mark.parametrize("place", ['"x":1:2', '"x":1:2 to :4'])
def test_locations_in_metadata_are_printed_as_attributes(place: str) -> None:
    text = f'"test.op"() : () -> () loc(fused<[loc("a":1:2), 1]>[{place}])'
    stream = StringIO()
    module = LocatingParser(ToolContext(), text).parse_module()
    MLIRPrinter(stream, print_debuginfo=True).print_op(module)
    assert text.replace("1]>", "1 : i64]>") in stream.getvalue()


LARGEST = 2**63 - 1
INFERRED = "inferred shape of elements literal"


@pytest.mark.parametrize(
    "text",
    [
        f"affine_map<(d0) -> ((d0 + {LARGEST}))>",
        f"affine_map<(d0) -> ({LARGEST} + 1)>",
        f"affine_map<(d0) -> (d0 * {2**32} * {2**32})>",
        f"affine_set<(d0) : (d0 - {LARGEST} - 2 >= 0)>",
        "dense<> : tensor<0x!tf_type.string>",
        "dense<> : tensor<2x0x!tf_type.string>",
        'dense<[["a", "]"], ["c\\22", "\\C3\\A9"]]> : tensor<2x2x!tf_type.string>',
        'dense<"0x74"> : tensor<2x!tf_type.string>',
        'dense<["0x74", "x"]> : tensor<2x!tf_type.string>',
    ],
)
def test_attributes_that_mlir_reads_again(text: str) -> None:
    stream = StringIO()
    operation = f'"test.op"() {{a = {text}}} : () -> ()'
    MLIRPrinter(stream).print_op(parser_of(operation, allow_unregistered=True).parse_module())
    assert operation in stream.getvalue()


@pytest.mark.parametrize(
    ("elements", "printed"),
    [('[ "a\\t" ,"\\5C" ]', '["a\\09", "\\\\"]'), ('["x", "x"]', '"x"')],
)
def test_strings_have_the_spelling_of_mlir(elements: str, printed: str) -> None:
    stream = StringIO()
    text = f'"test.op"() {{a = dense < {elements}> : tensor<2x!tf_type.string>}} : () -> ()'
    MLIRPrinter(stream).print_op(parser_of(text, allow_unregistered=True).parse_module())
    assert f"{{a = dense<{printed}> : " in stream.getvalue()


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        (f"affine_map<(d0) -> (d0 + {LARGEST + 1})>", "constant too large for index", "9"),
        (f"affine_map<(d0) -> (d0 - {LARGEST + 1})>", "constant too large for index", "9"),
        (f"affine_map<(d0) -> (d0 - {'1' * 5000})>", "constant too large for index", "1"),
        ("dense<> : tensor<2x!tf_type.string>", "parsed zero elements, but type", "d"),
        (
            "dense<[]> : tensor<2x!tf_type.string>",
            f"{INFERRED} ([0]) does not match type ([2])",
            "d",
        ),
        *(
            (f"dense <{elements}> : tensor<{type}!tf_type.string>", message, place)
            for elements, type, message, place in (
                ('["x"]', "2x", f"{INFERRED} ([1]) does not match type ([2])", "d"),
                ('["x", "y", "z"]', "2x", f"{INFERRED} ([3]) does not match", "d"),
                ('[["x", "y"]]', "2x1x", f"{INFERRED} ([1, 2]) does not match", "d"),
                ('["x"]', "", f"{INFERRED} ([1]) does not match type ([])", "d"),
                ('["x"]', "?x", "elements literal type must have static shape", "d"),
                ('["x"]', "*x", "elements literal type must have static shape", "d"),
                ('[["x"], []]', "2x1x", "tensor literal is invalid; ranks are not", ">"),
                ('["x", 1]', "2x", "expected string token", "1"),
            )
        ),
    ],
)
def test_attributes_that_mlir_refuses(text: str, message: str, place: str) -> None:
    operation = f'"test.op"() {{a = {text}}} : () -> ()'
    with pytest.raises(ParseError) as caught:
        parser_of(operation, allow_unregistered=True).parse_module()
    assert caught.value.msg.startswith(message)
    assert operation[caught.value.span.start] == place


def test_digits_of_constants_have_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qdialect.text.printer.MAX_REPETITION", 1 << 16)
    digits = "0123456789ABCDEF" * 20_000
    text = f'"test.op"() {{a = dense<"0x{digits}"> : tensor<160000xi8>}} : () -> ()'
    stream = StringIO()
    MLIRPrinter(stream).print_op(LocatingParser(ToolContext(), text).parse_module())
    assert text in stream.getvalue()


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("array<f32: 1.0e39, -1.0e39, 2.5>", [0x7F800000, 0xFF800000, 0x40200000]),
        ("array<f32: 3.4028235e38, 1.0e-50>", [0x7F7FFFFF, 0]),
        ("array<f32>", []),
    ],
)
def test_numbers_of_an_array_are_rounded_as_in_mlir(text: str, bits: list[int]):
    array = parser_of(text).parse_attribute()
    assert isinstance(array, DenseArrayBase)
    assert np.frombuffer(array.data.data, "<u4").tolist() == bits


def printed(module: ModuleOp) -> str:
    out = StringIO()
    MLIRPrinter(out).print_op(module)
    return out.getvalue()


def test_empty_attributes_of_arguments_and_results_are_omitted() -> None:
    """As in MLIR, whose reader makes no empty lists of them: the text of the text is the same."""
    text = """
      "func.func"() <{function_type = (i32) -> i32, arg_attrs = [{}], res_attrs = [{}],
                      sym_name = "f"}> ({
      ^bb0(%a: i32):
        "func.return"(%a) : (i32) -> ()
      }) : () -> ()
      "func.func"() <{function_type = (i32) -> i32, res_attrs = [{}], sym_name = "g",
                      sym_visibility = "private"}> ({}) : () -> ()
    """
    module = LocatingParser(ToolContext(), text).parse_module()
    once = printed(module)
    assert "func.func @f(%a: i32) -> i32 {" in once
    assert "func.func private @g(i32) -> i32" in once
    assert printed(LocatingParser(ToolContext(), once).parse_module()) == once
    assert [str(op.properties["res_attrs"]) for op in module.ops] == ["[{}]", "[{}]"]


@pytest.mark.parametrize(
    ("custom", "generic"),
    [
        ("arith.mulf %x, %x {fastmath = #arith.fastmath<nnan>, a} : f32", "fastmath"),
        ("math.exp %x {fastmath = #arith.fastmath<nnan>, a} : f32", "fastmath"),
    ],
)
def test_properties_that_are_written_as_attributes(custom: str, generic: str) -> None:
    text = f"func.func @f(%x: f32) {{\n%0 = {custom}\nreturn\n}}"
    (function,) = parser_of(text).parse_module().ops
    op = function.regions[0].block.first_op
    assert op is not None
    assert str(op.properties[generic]) == "#arith.fastmath<nnan>"
    assert [*op.attributes] == ["a"]
