"""Malformed texts of quant types, and mlir-opt's errors for them."""

from __future__ import annotations

import random
import re
import subprocess
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

TYPES = (
    "!quant.any<i8:f32>",
    "!quant.any<i8<-8:7>>",
    "!quant.any<u8<0:10>:f16>",
    "!quant.uniform<i8:f32, 0.5>",
    "!quant.uniform<u8:f32, 0.5:128>",
    "!quant.uniform<i8<-4:3>:f32, 1.0e-1:-3>",
    "!quant.uniform<i16:f64:1, {0.5,0.25:3}>",
    "!quant.uniform<i8<-8:7>:f32:0, {2.0e+2:0,0.99872:120,1.5}>",
    "!quant.uniform<i8:f32:{0:1, 1:32}, {{0.5, 0.25:3}, {0.5, 2.0}}>",
    "!quant.uniform<u8:bf16:{1:2}, {{1.0:1, 2.0}}>",
    "!quant.uniform<i8:f32:{}, {{{1.0}}}>",
    "!quant<uniform<i8:f32, 0.5:3>>",
    "!quant<any<i8<-8:7>:f32>>",
    "!quant.calibrated<f32<-0.998:1.2321>>",
    "!quant<calibrated<f64<-0.998:1.2321>>>",
    "!quant.uniform<si8:f32, 0x3FF0000000000000>",
    "!quant.uniform<ui4:f32:3, {1.0,2.0}>",
    "tensor<2x!quant.uniform<i8:f32:0, {0.5,0.25:3}>>",
    "!quant.uniform<i8:f32:1,\n  {0.5,0.25:3}\n>",
)

TYPES_OF_LLVM24 = (
    "!quant.uniform<f8E4M3FN:f32, 0.5:3>",
    "!quant.uniform<f8E5M2<-5:7>:bf16:1, {0.5,0.25:3}>",
    "!quant.any<f4E2M1FN<-6:5>:f32>",
    "!quant.quantile<ui2:f32, {-1.0,0.0,0.5,1.0}>",
    "!quant.quantile<si8:i8, {-1.0,0.0,0.5}, <-1:1>>",
    "!quant.uniform<!quant.quantile<ui2:f32, {-1.0,0.0,0.5,1.0}><0:2>:f32, 0.5:3>",
    "!quant.any<!quant.quantile<ui4:f32, {1.0,2.0,3.0}, <1:3>><1:2>>",
    "!quant.uniform<!quant.quantile<f4E2M1FN:f16, {1.0,2.0,3.0}, <1:3>>:f32:0, {0.5,0.25}>",
)
"""Types that LLVM 22 does not have."""

_WORDS = """
    < > { } [ ] ( ) , : - -> . ... = * + ? ! # @ % ^ & ; ~ é 1 0 -1 300 99999999999999999999 1.0
    0.5 .5 1e5 3.0e 1.0e999 0x10 0xZ i8 u8 i0 i99 i123123123123 u f32 f80 index quant uniform any
    true false x xf32 s "s" "s "\\q" i8:f32 //>
"""
_INSERTED = (*_WORDS.split(), " ", "\n")
"""The tokens that a mutation inserts."""

_TOKEN = re.compile(
    r"\s+|->|\.\.\.|[A-Za-z_][A-Za-z0-9_$]*|[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?|0x[0-9A-Fa-f]+"
    r"|[0-9]+|.",
    re.DOTALL,
)
_ERROR = re.compile(r"^<stdin>:(\d+):(\d+): error: (.*)$", re.MULTILINE)


class PlacedError(NamedTuple):
    """An error message with its line and column, counted from 1."""

    line: int
    column: int
    message: str


def types_with_mistakes(seed: int, count: int, types: Sequence[str] = TYPES) -> list[str]:
    """Types with one token after `!quant` replaced, removed, added or moved."""
    of = random.Random(seed)
    return [_with_mistake(of.choice(types), of) for _ in range(count)]


def _with_mistake(type: str, of: random.Random) -> str:
    tokens = _TOKEN.findall(type)
    first = tokens.index("quant") + 1
    place = of.randrange(first, len(tokens))
    match of.randrange(4):
        case 0:
            tokens[place] = of.choice(_INSERTED)
        case 1:
            del tokens[place]
        case 2:
            tokens.insert(place, of.choice(_INSERTED))
        case _:
            other = of.randrange(first, len(tokens))
            tokens[place], tokens[other] = tokens[other], tokens[place]
    return "".join(tokens)


def function_of(type: str) -> str:
    """A module that contains a type."""
    return f"func.func private @f({type})\n"


def first_errors(types: Sequence[str], tool: str = "mlir-opt-22") -> list[PlacedError | None]:
    """
    The first error of a tool of MLIR for the `function_of` each type; None if it accepts the type.
    """
    texts = [function_of(type) for type in types]
    starts = [1]
    for text in texts:
        starts.append(starts[-1] + text.count("\n") + 1)
    done = subprocess.run(
        [tool, "--split-input-file", "-o", "/dev/null"],
        input="// -----\n".join(texts),
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    found: list[PlacedError | None] = [None] * len(texts)
    for line, column, message in _ERROR.findall(done.stderr):
        index = bisect_right(starts, int(line)) - 1
        if found[index] is None:
            found[index] = PlacedError(int(line) - starts[index] + 1, int(column), message)
    return found
