"""
The fast paths of parser and printer do not change results.

The texts are those of the lit tests and the examples, random modules, and mutations of all of
them. Each is parsed as in the tools, and token by token as in xDSL.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from io import StringIO
from itertools import takewhile
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest
from example_counts import examples
from hypothesis import given
from hypothesis import strategies as st
from random_modules import functions, module_text
from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.parser import Parser, ParserState
from xdsl.utils.exceptions import MultipleSpansParseError, ParseError
from xdsl.utils.lexer import Input, Span
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRTokenKind

import qdialect.text.printer
from qdialect.ir.xdsl_private import LinearLexer
from qdialect.opt.registry import ToolContext
from qdialect.text.fast_parser import FastParser
from qdialect.text.lexer import FastLexer, PlainLexer
from qdialect.text.parser import LocatingParser
from qdialect.text.printer import MLIRPrinter
from qdialect.text.source import MIN_OMITTED_DIGITS
from qdialect.text.written_ops import PrintedForm

ROOT = Path(__file__).parents[3]

LINES = """
!q = !quant.uniform<i8:f32:0, {0.5,0.25:3}>
!t = tensor<2x2xf32>
!n = !quant.calibrated<f32<-0.0:1.0>>
#map = affine_map<(d0) -> (d0)>
func.func @f(%a: tensor<2x2x!q>, %b: tensor<2x2x!quant.uniform<i8:f32:0, {0.5,0.25:3}>>) {
  %0 = quant.dcast %a : tensor<2x2x!q> to tensor<2x2xf32>
  %1 = quant.dcast %b : tensor<2x2x!q> to tensor<2x2xf32>
  %2 = quant.dcast %a : tensor<2x2x!q> to tensor<2x2xf32>
  %3:2 = "test.op"(%0, %1) <{p = "50%0 // >"}> {a = array<i64: 1, 2>} : (!t, !t) -> (i8, i8)
  %4:2 = "test.op"(%1, %2) <{p = "50%0 // >"}> {a = array<i64: 1, 2>} : (!t, !t) -> (i8, i8)
  %5:2 = "test.op"(%2, %2) <{p = "50%0 // >"}> {a = array<i64: 1, 2>} : (!t, !t) -> (i8, i8)
  %6 = arith.addi %3#0, %4#1 : i8
  %7 = arith.addi %3#1, %5#0 : i8
  %8 = arith.addi %4#0, %3 #1 : i8 // %9
  %9 = arith.addi %5#1, %4#0 : i8 // %9
  %10 = arith.addi %5#1, %4#0 : i8 // %9
  "test.op"(%6) : (i8) -> ()
  "test.op"(%7) : (i8) -> ()
  "test.op"(%8) : (i8) -> () loc("a":1:2)
  "test.op"(%9) : (i8) -> () loc("a":1:2)
  "test.op"(%later) : (i8) -> ()
  "test.op"(%6) {t = tuple<i8, (i8) -> i8>, n = tensor<2xf32, 0x7FC00000 : f32>} : (i8) -> ()
  "test.op"(%7) {t = tuple<i8, (i8) -> i8>, n = tensor<2xf32, 0x7FC00000 : f32>} : (i8) -> ()
  %later = "test.op"() {d = dense<[1, -2]> : tensor<2xi8>, m = #map, l = loc(#loc1)} : () -> i8
  %11 = "test.op"() {z = tensor<1xf32, 0.0 : f32>, y = tensor<1xf32, -0.0 : f32>} : () -> !n
  %r = "test.op"() ({
  ^bb0(%x: i8, %y : tensor<0x4xi8>):
    %z = arith.addi %x, %6 : i8
    "test.termop"(%z)[^bb1] : (i8) -> ()
  ^bb1:
    "test.termop"(%11) {s = @a::@"b c", u, v = [true, 1.5e-3, 0x1F : i32]} : (!n) -> ()
  }) : () -> tensor<4x0x2xi8>
  return
}
#loc1 = loc("b":3:4)
"""


# A line is remembered when it is met again: what is odd comes third.
TRAPS = {
    "location in the next line": """
        "test.op"() : () -> ()
        "test.op"() : () -> ()
        "test.op"() : () -> ()
        loc("a":1:2)
    """,
    "no token behind a type": """
        func.func @f(%c: i1, %a: tensor<2xbf16>) -> tensor<2xbf16> {
          %r = scf.if %c -> (tensor<2xbf16>) {
            scf.yield %a : tensor<2xbf16>
          } else {
            scf.yield %a : tensor<2xbf16>.
          }
          return %r : tensor<2xbf16>
        }
    """,
    "complex number of three numbers": """
        %a = "arith.constant"() <{value = dense<(1, 2, 3)> : tensor<2xi8>}> : () -> tensor<2xi8>
    """,
    "rest in the next line": """
        "test.op"() ({
          "test.op"() {a
          } : () -> ()
        }, {
          "test.op"() {a
          } : () -> ()
        }, {
          "test.op"() {a
          } : () -> ()
        }) : () -> ()
    """,
    "operand in the next line": """
        %0 = "test.op"() : () -> i8
        "test.op"(
        ) : () -> ()
        "test.op"(
        ) : () -> ()
        "test.op"(
        %0) : (i8) -> ()
    """,
    "another dialect": """
        func.func @f(%0: i1) {
          scf.if %0 {
            scf.yield
          } else {
            yield
          }
          scf.if %0 {
            yield
          } else {
            yield
          }
          func.func private @g() {
            yield
          }
          return
        }
    """,
    "result of several": """
        %0:2 = "test.op"() : () -> (i8, i8)
        "test.op"(%0 #1) : (i8) -> ()
        "test.op"(%0 #1) : (i8) -> ()
        "test.op"(%0 #1) : (i8) -> ()
        "test.op"(%0#1) : (i8) -> ()
        "test.op"(%0#1) : (i8) -> ()
        "test.op"(%0#0) : (i8) -> ()
        "test.op"(%0) : (i8) -> ()
        "test.op"(%0#2) : (i8) -> ()
    """,
    "number of a result": """
        %0 = "test.op"() : () -> i8
        %1 = "test.op"() : () -> i8
        %2#0 = "test.op"() : () -> i8
    """,
    "several results": """
        %0:2 = "test.op"() : () -> (i8, i8)
        %1:2 = "test.op"() : () -> (i8, i8)
        %2:2 = "test.op"() : () -> (i8, i8)
        %3:1 = "test.op"() : () -> (i8, i8)
    """,
    "too many results": """
        %0, %1 = "test.op"() : () -> (i8, i8)
        %2, %3 = "test.op"() : () -> (i8, i8)
        %4, %5 = "test.op"() : () -> (i8, i8)
        %6, %4 = "test.op"() : () -> (i8, i8)
    """,
    "name in a string": """
        "test.op"() {s = "5%x y"} : () -> ()
        "test.op"() {s = "5%x y"} : () -> ()
        "test.op"() {s = "5%z y"} : () -> ()
        "test.op"() {s = "5% y"} : () -> ()
        "test.op"() {s = "5% y"} : () -> ()
        "test.op"() {s = "5%z y"} : () -> ()
    """,
    "name in a comment": """
        %x = "test.op"() : () -> i8
        "test.op"() : () -> () // %x
        "test.op"() : () -> () // %x
        "test.op"() : () -> () // %y
    """,
    "type of an operand": """
        %0 = "test.op"() : () -> i8
        %1 = "test.op"() : () -> i16
        "test.op"(%0) : (i8) -> ()
        "test.op"(%0) : (i8) -> ()
        "test.op"(%1) : (i8) -> ()
    """,
    "type of a later value": """
        "test.op"(%0) : (i8) -> ()
        "test.op"(%1) : (i8) -> ()
        "test.op"(%2) : (i8) -> ()
        %0 = "test.op"() : () -> i8
        %1 = "test.op"() : () -> i8
        %2 = "test.op"() : () -> i16
    """,
    "regions": """
        "test.op"() ({}) : () -> ()
        "test.op"() ({}) : () -> ()
        "test.op"() ({}) : () -> ()
    """,
    "successors": """
        "test.op"() ({
          "test.termop"() [^a] : () -> ()
        ^a:
          "test.termop"() [^a] : () -> ()
        ^b:
          "test.termop"() [^a] : () -> ()
        }) : () -> ()
    """,
    "values of a region": """
        "test.op"() ({
          %0 = "test.op"() : () -> i8
        }, {
          %0 = "test.op"() : () -> i16
          "test.op"(%0) : (i16) -> ()
        }) : () -> ()
        "test.op"(%0) : (i16) -> ()
        %0 = "test.op"() : () -> i16
        %0 = "test.op"() : () -> i16
    """,
    "arrow in a type": """
        "test.op"() {t = tuple<i8, (i8) -> i8>} : () -> ()
        "test.op"() {t = tuple<i8, (i8) -> i16>} : () -> ()
    """,
    "array for a type": """
        "test.op"() {a = array<i64: 1>} : () -> ()
        "test.op"() {a = (array<i64: 1>) -> i8} : () -> ()
    """,
    "type for an array": """
        "test.op"() {a = array} : () -> i8
        "test.op"() {a = i8} : () -> array<i8>
    """,
    "comment in a type": """
        "test.op"() {t = tuple<i8, // >
          i8>} : () -> ()
        "test.op"() {t = tuple<i8, // >
          i16>} : () -> ()
    """,
    "NaN in a type": """
        %0 = "test.op"() : () -> !quant.uniform<i8:f32, 0x7FF8000000000000>
        "test.op"(%0) : (!quant.uniform<i8:f32, 0x7FF8000000000000>) -> ()
    """,
    "alias defined later": """
        "test.op"() {t = tensor<2x!a>} : () -> ()
        !a = i8
    """,
    "alias that is a dialect": """
        !quant = i8
        "test.op"() : () -> (tensor<2x!quant>, tensor<2x!quant<uniform<i8:f32, 0.5>>>)
        "test.op"() : () -> (!quant, tensor<2x!quant<uniform<i8:f32, 0.5>>>)
        "test.op"() : () -> (!quant, !quant<uniform<i8:f32, 0.5>>)
        "test.op"() : () -> !quant <uniform<i8:f32, 0.5>>
    """,
    "parameters of a name": """
        "test.op"() : () -> !test.a
        "test.op"() : () -> !test.a<i8>
        "test.op"() : () -> !test.a <i8>
        "test.op"() : () -> !test.a
    """,
    "spaces before brackets": """
        "test.op"() : () -> tensor<2xi8>
        "test.op"() : () -> tensor <2xi8>
        "test.op"() : () -> tensor
    """,
    "elements": """
        %0 = arith.constant dense<[1, 2]> : tensor<2xi8>
        %1 = arith.constant dense<[3, -4]> : tensor<2xi8>
        %2 = arith.constant dense<[ 255,\t0]> : tensor<2xi8>
        %3 = arith.constant dense<-5> : tensor<2xi8>
        %4 = arith.constant dense<[-5, -5]> : tensor<2xi8>
        %5 = arith.constant dense<"0x0102"> : tensor<2xi8>
        %6 = arith.constant dense<[0x10, true]> : tensor<2xi8>
        %7 = arith.constant dense<[1, - 2]> : tensor<2xi8> // dense<1>
        %8 = arith.constant dense<[1, 3]> : tensor<2xi8> // dense<1>
        %9 = arith.constant dense<[1, 3]> : tensor<2xi8> loc("dense<1>":1:1)
        %10 = arith.constant dense<[256, 3]> : tensor<2xi8>
        %11 = arith.constant dense<[1, 2, 3]> : tensor<2xi8>
        %12 = arith.constant dense<[1 2]> : tensor<2xi8>
        %13 = arith.constant dense<[[1], [2]]> : tensor<2xi8>
        %14 = arith.constant dense<[1.0, 2]> : tensor<2xi8>
        %15 = arith.constant dense<[%0, 2]> : tensor<2xi8>
        %16 = arith.constant dense<> : tensor<2xi8>
        %17 = arith.constant dense<[1, // 5
          2]> : tensor<2xi8>
    """,
    "elements of floats": """
        %0 = arith.constant dense<[1.0, 2.5]> : tensor<2xf32>
        %1 = arith.constant dense<[1.0, 2.5]> : tensor<2xf32>
        %2 = arith.constant dense<[0.0, 2.5e3]> : tensor<2xf32>
        %3 = arith.constant dense<[0.1, -1.0E-3]> : tensor<2xf32>
        %10 = arith.constant dense<[0.0, -0.0]> : tensor<2xf32>
        %11 = arith.constant dense<-0.0> : tensor<2xf32>
        %4 = arith.constant dense<1.5> : tensor<2xf32>
        %5 = arith.constant dense<[1, 2.5]> : tensor<2xf32>
    """,
    "elements of constants": """
        %0 = quant.constant dense<[1, 2]> : tensor<2x!quant.uniform<u8:f32, 0.5>>
        %1 = quant.constant dense<[3, 255]> : tensor<2x!quant.uniform<u8:f32, 0.5>>
        %2 = quant.constant dense<[3, 4]> {a} : tensor<2x!quant.uniform<u8:f32, 0.5>>
        %3 = quant.constant dense<[4, 3]> {a} : tensor<2x!quant.uniform<u8:f32, 0.5>>
        %4 = quant.constant {a} dense<[4, 3]> : tensor<2x!quant.uniform<u8:f32, 0.5>>
        %5 = quant.constant {a} dense<7> : tensor<2x!quant.uniform<u8:f32, 0.5>>
        %6 = quant.constant dense<[3, -1]> : tensor<2x!quant.uniform<u8:f32, 0.5>>
        %7 = quant.constant dense<[3, -1]> : tensor<2x!quant.uniform<i8:f32, 0.5>>
        %8 = quant.constant dense<[3, -128]> : tensor<2x!quant.uniform<i8:f32, 0.5>>
        %9 = quant.constant dense<[3, 255]> : tensor<2x!quant.uniform<i8:f32, 0.5>>
    """,
    "elements at several places": """
        #d = dense<[1, 2]> : tensor<2xi8>
        "test.op"() {a = #d, b = [dense<[1, 2]> : tensor<2xi8>]} : () -> ()
        "test.op"() {a = #d, b = [dense<[1, 2]> : tensor<2xi8>]} : () -> ()
        "test.op"() {a = #d, b = [dense<[3, 4]> : tensor<2xi8>]} : () -> ()
        "test.op"() {b = [dense<[1, 2]> : tensor<2xi8>]} : () -> ()
        "test.op"() {b = [dense<[1, 2]> : tensor<2xi8>]} : () -> ()
        "test.op"() {b = [dense<[3, 4]> : tensor<2xi8>]} : () -> ()
        "test.op"() {a = dense<1> : tensor<2xi8>, b = dense<2> : tensor<2xi8>} : () -> ()
        "test.op"() {a = dense<1> : tensor<2xi8>, b = dense<2> : tensor<2xi8>} : () -> ()
        "test.op"() {a = dense<1> : tensor<2xi8>, b = dense<3> : tensor<2xi8>} : () -> ()
        "test.op"() {s = "dense<1>", a = #d} : () -> ()
        "test.op"() {s = "dense<1>", a = #d} : () -> ()
        "test.op"() {s = "dense<3>", a = #d} : () -> ()
        "test.op"() <{p = dense<1> : tensor<2xi8>}> {b = i8, c} : () -> ()
        "test.op"() <{p = dense<1> : tensor<2xi8>}> {b = i8, c} : () -> ()
        "test.op"() <{p = dense<3> : tensor<2xi8>}> {b = i8, c} : () -> ()
        "test.op"() <{p = dense<3> : tensor<2xi8>, b = i8}> {c} : () -> ()
        "test.op"() <{p = dense<4> : tensor<2xi8>, b = i8}> {c} : () -> ()
        "test.op"() <{p = dense<5> : tensor<2xi8>, b = i8}> {c} : () -> ()
        "test.op"() {c, a = sparse<1, 2> : tensor<2xi8>} : () -> ()
    """,
    "zeros of both signs": """
        "test.op"() : () -> (tensor<1xf32, 0.0 : f32>, tensor<1xf32, -0.0 : f32>)
    """,
}


@cache
def texts() -> Sequence[str]:
    """The parts of the lit tests and of the examples, and what they do not have."""
    files = sorted((ROOT / "tests/filecheck").rglob("*.mlir")) + sorted(
        ROOT.glob("examples/*.mlir")
    )
    parts = [part for file in files for part in file.read_text().split("// -----")]
    return [LINES, *TRAPS.values(), *(part for part in parts if len(part) < 4000)]


PIECES = (
    *"<>(){}[],:=-+*?/|#@!^%. \t\r\n",
    *('"', "//", "->", "{-#", "#-}", "...", "0x", "1.5e", "x", "é", "²", "\u2028", "\x0b", "\\"),
    *("// %0 >\n", ' "a%0" ', "loc(unknown)", "{a}", "%0", "%0#1", " : i8", "!q", "tensor<", "i8"),
    *("attributes {a}", "<[{(", '"\\22"', "@a", "^bb1", "1", "0x1F", "#loc1", "!q = i8\n", "\r\n"),
)


def with_mistakes(text: str, source: random.Random) -> str:
    """A text with a few changes, some of which keep it valid."""
    for _ in range(source.choice((1, 1, 1, 2, 4))):
        text = source.choice(CHANGES)(text, source)
    return text


def _insert(text: str, source: random.Random) -> str:
    at = source.randrange(len(text) + 1)
    return text[:at] + source.choice(PIECES) + text[at:]


def _insert_between_tokens(text: str, source: random.Random) -> str:
    places = [match.end() for match in re.finditer(r"\s+|\b|(?<=[<>(),:])", text)] or [0]
    at = source.choice(places)
    return text[:at] + source.choice(PIECES) + text[at:]


def _delete(text: str, source: random.Random) -> str:
    at = source.randrange(len(text) + 1)
    return text[:at] + text[at + source.randrange(1, 6) :]


def _truncate(text: str, source: random.Random) -> str:
    return text[: source.randrange(len(text) + 1)]


def _change_token(text: str, source: random.Random) -> str:
    tokens = re.split(r"([%!#^@]?[\w.$]+|\s+)", text)
    tokens[source.randrange(len(tokens))] = source.choice(tokens)
    return "".join(tokens)


def _repeat_line(text: str, source: random.Random) -> str:
    """As another line, whose result has a name of its own, or not."""
    lines = text.split("\n")
    at = source.randrange(len(lines))
    copies = [
        re.sub(r"^(\s*%)([\w$.-]+)", rf"\1new{source.randrange(1000)}", lines[at])
        if source.random() < 0.8
        else lines[at]
        for _ in range(source.choice((1, 2, 3)))
    ]
    lines[at + 1 : at + 1] = copies
    return "\n".join(lines)


def _change_elements(text: str, source: random.Random) -> str:
    """Other numbers, or as many as before, in a list of elements."""
    listed = [*re.finditer(r"dense<[^>\n]*>", text)]
    if not listed:
        return text
    at = source.choice(listed)
    numbers = ("0", "-1", "255", "1.5", "-0.0", "0x1", "true", source.choice(PIECES))
    changed = re.sub(
        r"[\w.-]+",
        lambda old: source.choice((*numbers, *[old[0]] * 8)),
        at[0].removeprefix("dense"),
    )
    return f"{text[: at.start()]}dense{changed}{text[at.end() :]}"


def _change_line_end(text: str, source: random.Random) -> str:
    lines = text.split("\n")
    lines[source.randrange(len(lines))] += source.choice(PIECES)
    return source.choice(("\n", "\n", "\r\n", " \n ", "\n// %x\n")).join(lines)


CHANGES = (
    _insert,
    _insert_between_tokens,
    _delete,
    _truncate,
    _change_token,
    _change_token,
    _repeat_line,
    _repeat_line,
    _repeat_line,
    _change_elements,
    _change_elements,
    _change_line_end,
)


class PlainLocatingParser(LocatingParser):
    """Reads everything token by token, and a type again each time."""

    lexer_type: ClassVar = PlainLexer
    is_remembering: ClassVar = False


class XDSLParser(Parser):
    """xDSL's parser, in linear time."""

    def __init__(self, ctx: Context, input: str) -> None:
        super(Parser, self).__init__(ParserState(PlainLexer(Input(input, "<unknown>"))), ctx)
        self.ssa_values = {}
        self.blocks = {}
        self.forward_block_references = defaultdict(list)
        self.forward_ssa_references = {}


class TextParser(FastParser):
    """A parser with the short cuts, and with xDSL's errors."""

    def __init__(self, ctx: Context, input: str) -> None:
        super().__init__(ctx, Input(input, "<unknown>"))


class PlainPrinter(MLIRPrinter):
    """Writes to the stream what it prints, and prints everything each time."""

    @override
    def print_op(self, op: Operation) -> None:
        if self._top is None:
            self._top = op
        stream, place, form = cast(StringIO, self.stream), self.place, self.form
        start = stream.tell()
        try:
            self._print_op(op)
        except Exception:
            # The op does not match its custom form.
            stream.seek(start)
            stream.truncate()
            self.return_to(place)
            self.form = PrintedForm.GENERIC
            self._print_op(op)
            self.form = form


def printed(printer_type: type[MLIRPrinter], op: Operation, *, generic: bool, places: bool) -> str:
    """The printed text, which ends with the error if the operation does not match its form."""
    stream = StringIO()
    try:
        printer_type(
            stream=stream,
            form=PrintedForm.GENERIC if generic else PrintedForm.CUSTOM,
            print_debuginfo=places,
        ).print_op(op)
    except Exception as error:
        stream.write(repr(error))
    return stream.getvalue()


def place(span: Span[Any]) -> tuple[int, int]:
    return span.start, span.end


def error_of(error: Exception) -> object:
    """All that an error says."""
    if not isinstance(error, ParseError):
        return type(error), str(error)
    refs = error.refs if isinstance(error, MultipleSpansParseError) else []
    return type(error), error.msg, place(error.span), [(place(at), note) for at, note in refs]


def outcome(make: Callable[[Context, str], Parser], context: Context, text: str) -> object:
    """The result of parsing: the module as text with all locations and names, or the error."""
    try:
        parser = make(context, text)
        module = parser.parse_module()
    except Exception as error:
        return error_of(error)
    ops = list(module.walk())
    places = (
        [span and place(span) for span in map(parser.locations.get, ops)]
        if isinstance(parser, LocatingParser)
        else []
    )
    hints = [[result.name_hint for result in op.results] for op in ops]
    attributes = [[*op.attributes, *op.properties] for op in ops]
    text = printed(PlainPrinter, module, generic=True, places=True)
    return text, places, hints, attributes


@dataclass
class Readers:
    """Two parsers, each with contexts of its own, which see the same texts."""

    fast: Callable[[Context, str], Parser]
    plain: Callable[[Context, str], Parser]
    allow_unregistered: bool
    read: int = 0
    contexts: list[ToolContext] = field(default_factory=list[ToolContext])

    def check(self, text: str) -> bool:
        """Whether there is a module in the text, on which both agree."""
        if self.read % 100 == 0:
            # What an unregistered name stands for is kept by a context.
            self.contexts = [ToolContext(self.allow_unregistered) for _ in range(2)]
        self.read += 1
        fast = outcome(self.fast, self.contexts[0], text)
        plain = outcome(self.plain, self.contexts[1], text)
        assert fast == plain, text
        return isinstance(fast, tuple) and isinstance(fast[0], str)


def all_readers() -> list[Readers]:
    pairs = ((LocatingParser, PlainLocatingParser), (TextParser, XDSLParser))
    return [Readers(*pair, unregistered) for pair in pairs for unregistered in (False, True)]


@pytest.mark.parametrize("trap", TRAPS)
def test_traps(trap: str) -> None:
    for readers in all_readers():
        readers.check(TRAPS[trap])
    for readers in all_readers()[::3]:
        # Only the first error is found in a text.
        lines = [*TRAPS[trap].splitlines(), '"test.op"() {last} : () -> ()', ""]
        for number in range(len(lines)):
            readers.check("\n".join(lines[: number + 1]))
            readers.check("\n".join(lines[:number] + lines[number + 1 :]))


@pytest.mark.parametrize("readers", all_readers()[::3])
def test_texts_are_read_the_same(readers: Readers) -> None:
    assert sum(map(readers.check, texts())) > 50


@pytest.mark.parametrize("readers", all_readers())
def test_texts_with_mistakes_are_read_the_same(readers: Readers) -> None:
    source = random.Random(f"{readers.fast.__name__} {readers.allow_unregistered}")
    short = [text for text in texts() if len(text) < 1000] + [LINES] * 20
    good = sum(readers.check(with_mistakes(source.choice(short), source)) for _ in range(150))
    assert 10 < good < 140


def test_digits_that_are_left_out_are_those_of_their_line() -> None:
    """A line without its long literal is not the same as another without another."""
    digits = [f"{number:02x}" * MIN_OMITTED_DIGITS for number in range(1, 5)]
    type = f"tensor<{MIN_OMITTED_DIGITS}xi8>"
    constant = f'arith.constant dense<"0x{{}}"> : {type}\n'
    generic = f'"test.op"() {{{{a = dense<"0x{{}}"> : {type}}}}} : () -> ()\n'
    text = "".join(line.format(hex_digits) for line in (constant, generic) for hex_digits in digits)
    whole, abridged = (
        LocatingParser(ToolContext(), source).parse_module() for source in (text, text.encode())
    )
    assert [*map(str, abridged.ops)] == [*map(str, whole.ops)]
    assert len({*map(str, abridged.ops)}) == 2 * len(digits)


def tokens(lexer: MLIRLexer) -> list[Any]:
    """All tokens with their places, up to the first error."""
    found: list[Any] = []
    try:
        while (token := lexer.lex()).kind is not MLIRTokenKind.EOF:
            found.append((token.kind, token.text, place(token.span)))
    except ParseError as error:
        return [*found, error_of(error)]
    return [*found, place(token.span)]


def is_token(found: tuple[Any, ...]) -> bool:
    """Whether it is one for MLIR, too, where no name starts with other letters."""
    return isinstance(found[0], MLIRTokenKind) and str(found[1][0]).isascii()


def check_tokens(text: str) -> None:
    fast, plain = tokens(FastLexer(Input(text, ""))), tokens(PlainLexer(Input(text, "")))
    assert fast == plain, text
    # Errors have the words of MLIR.
    linear = tokens(LinearLexer(Input(text, "")))
    assert [*takewhile(is_token, fast)] == [*takewhile(is_token, linear)], text


def test_tokens_are_the_same() -> None:
    source = random.Random(7)
    for _ in range(300):
        check_tokens(with_mistakes(source.choice(texts()), source))
        check_tokens("".join(source.choices(PIECES, k=30)))


def check_printed(module: ModuleOp) -> None:
    for generic in (False, True):
        for places in (False, True):
            plain = printed(PlainPrinter, module, generic=generic, places=places)
            assert printed(MLIRPrinter, module, generic=generic, places=places) == plain


def test_texts_are_printed_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = 0
    for number, text in enumerate(texts()):
        try:
            module = LocatingParser(ToolContext(True), text).parse_module()
        except ParseError:
            continue
        modules += 1
        # Text goes out in pieces of many lengths.
        monkeypatch.setattr(qdialect.text.printer, "LONG_TEXT", (1 << 16, 40, 5, 0)[number % 4])
        check_printed(module)
    assert modules > 50


@examples(20)
@given(st.lists(functions(), min_size=1, max_size=3), st.randoms(use_true_random=False))
def test_random_modules_are_read_and_printed_the_same(
    parts: Sequence[Any], source: random.Random
) -> None:
    text = module_text(parts)
    for changed in (text, with_mistakes(text, source)):
        for readers in all_readers():
            readers.check(changed)
        check_tokens(changed)
    check_printed(LocatingParser(ToolContext(True), text).parse_module())
