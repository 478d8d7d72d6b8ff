"""
Short texts that describe large values: no tool takes much memory for them.

Each tool is a process with a bounded address space. It ends with status 0, or with an error
message and its location, and never with a traceback.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

import pytest
from tool_client import call
from tool_server import shared_server

MAX_TEXT = 1 << 19
"""Bytes of a text."""
MAX_RESIDENT = 1200 << 20
"""Bytes of memory that a tool may take."""
MAX_ADDRESSES = 4 << 30
"""Bytes of address space: more than what is resident, since libraries reserve some."""

Q = "!quant.uniform<i8:f32, 0.5:3>"


def function(body: Sequence[str], result: str, type: str) -> str:
    """A function that returns one value."""
    return function_of(body, [result], type)


def function_of(body: Sequence[str], results: Sequence[str], type: str) -> str:
    """A function that returns values of one type."""
    types = ", ".join([type] * len(results))
    lines = "\n  ".join([*body, f"return {', '.join(results)} : {types}"])
    return f"func.func @main() -> ({types}) {{\n  {lines}\n}}\n"


def constant(op: str, type: str, value: str = "1", stored: str | None = None) -> str:
    """A constant op in generic form."""
    key = "values" if op.startswith("tosa.") else "value"
    attribute = f"dense<{value}> : {stored or type}"
    return f'"{op}"() <{{{key} = {attribute}}}> : () -> {type}'


PAIR = "%x: tensor<2xf32>"

CONCATS = {
    "quant": ("quant.concat", "dim", "i64", Q),
    "tensor": ("tensor.concat", "dim", "i64", "f32"),
    "tosa": ("tosa.concat", "axis", "i32", "f32"),
    "stablehlo": ("stablehlo.concatenate", "dimension", "i64", "f32"),
}


def start(element: str, length: int) -> str:
    """A splat of floats, or of a quantized type."""
    if element == Q:
        return constant("quant.constant", f"tensor<{length}x{Q}>", "1", f"tensor<{length}xi8>")
    value = "1" if element.startswith("i") else "1.0"
    return constant("arith.constant", f"tensor<{length}x{element}>", value)


def elements(element: str) -> str:
    """A constant of two unequal elements."""
    return start(element, 2).replace("<1.0>", "<[1.0, 2.0]>").replace("<1>", "<[1, 2]>")


def doubled(dialect: str) -> str:
    """A value that is concatenated with itself again and again."""
    op, attribute, kind, element = CONCATS[dialect]
    body, length = [f"%0 = {elements(element)}"], 2
    for number in range(40):
        before, after = f"tensor<{length}x{element}>", f"tensor<{2 * length}x{element}>"
        body.append(
            f'%{number + 1} = "{op}"(%{number}, %{number}) <{{{attribute} = 0 : {kind}}}> : '
            f"({before}, {before}) -> {after}"
        )
        length *= 2
    return function(body, "%40", f"tensor<{length}x{element}>")


def doubled_by(op: str) -> str:
    """A value that is repeated by an op of one operand, again and again."""
    body, length = [f"%0 = {elements('f32')}"], 2
    for number in range(38):
        before, after = f"tensor<{length}xf32>", f"tensor<{2 * length}xf32>"
        if op == "tosa.tile":
            body.append(
                f'%n{number} = "tosa.const_shape"() <{{values = dense<2> : tensor<1xindex>}}> : '
                "() -> !tosa.shape<1>"
            )
            body.append(
                f'%{number + 1} = "tosa.tile"(%{number}, %n{number}) : '
                f"({before}, !tosa.shape<1>) -> {after}"
            )
        else:
            wide = f"tensor<{length}x2xf32>"
            body.append(
                f'%b{number} = "stablehlo.broadcast_in_dim"(%{number}) <{{broadcast_dimensions = '
                f"array<i64: 0>}}> : ({before}) -> {wide}"
            )
            body.append(f'%{number + 1} = "stablehlo.reshape"(%b{number}) : ({wide}) -> {after}')
        length *= 2
    return function(body, "%38", f"tensor<{length}xf32>")


def chains() -> str:
    """Many chains with an intermediate result of 200 MiB, and a result of two elements."""
    length, body, results = 100 << 20, list[str](), list[str]()
    wide, flat, small = f"tensor<2x{length}xi8>", f"tensor<{2 * length}xi8>", "tensor<2xi8>"
    for n in range(200):
        body += [
            f"%w{n} = arith.constant dense<[{n % 100}, 7]> : {small}",
            f'%b{n} = "stablehlo.broadcast_in_dim"(%w{n}) <{{broadcast_dimensions = '
            f"array<i64: 0>}}> : ({small}) -> {wide}",
            f"%r{n} = tensor.collapse_shape %b{n} [[0, 1]] : {wide} into {flat}",
            f"%s{n} = tensor.extract_slice %r{n}[{n}] [2] [{length}] : {flat} to {small}",
        ]
        results.append(f"%s{n}")
    return function_of(body, results, small)


def broadcasts(element: str) -> str:
    """1000 results of 4 MiB each."""
    small, wide = f"tensor<2x{element}>", f"tensor<2x2097152x{element}>"
    op, name = (
        ("quant.broadcast_in_dim", "dims")
        if element == Q
        else ("stablehlo.broadcast_in_dim", "broadcast_dimensions")
    )
    body, results = [f"%w = {elements(element)}"], list[str]()
    for n in range(1000):
        attribute = f"{name} = array<i64: 0>"
        body.append(f'%{n} = "{op}"(%w) <{{{attribute}}}> : ({small}) -> {wide}')
        results.append(f"%{n}")
    return function_of(body, results, wide)


def wide_concat() -> str:
    """One value of 16 KiB, 20,000 times."""
    count, data = 20_000, "01" * 16_383 + "02"
    before, after = "tensor<16384xi8>", f"tensor<{count * 16384}xi8>"
    return function(
        [
            f'%0 = arith.constant dense<"0x{data}"> : {before}',
            f"%1 = tensor.concat dim(0) {', '.join(['%0'] * count)} : "
            f"({', '.join([before] * count)}) -> {after}",
        ],
        "%1",
        after,
    )


def splats(op: str, element: str, value: str, stored: str | None = None) -> str:
    """Eight splats of 64 Mi elements."""
    type = f"tensor<67108864x{element}>"
    held = None if stored is None else f"tensor<67108864x{stored}>"
    body = [f"%{n} = {constant(op, type, value, held)}" for n in range(8)]
    return function(body, "%7", type)


def scales() -> str:
    """A reshape whose result would need 20 million scales."""
    q = "!quant.uniform<i8:f32:1, {1.0,2.0}>"
    quantized = f"tensor<10000000x2x{q}>"
    wide, flat = "tensor<10000000x2xf32>", "tensor<20000000xf32>"
    return function(
        [
            f"%w = {constant('quant.constant', quantized, '1', 'tensor<10000000x2xi8>')}",
            f"%f = quant.dcast %w : {quantized} to {wide}",
            f"%1 = tensor.collapse_shape %f [[0, 1]] : {wide} into {flat}",
        ],
        "%1",
        flat,
    )


def padded(dialect: str) -> str:
    """Two elements with 2**38 on either side."""
    width = 1 << 38
    small, wide = "tensor<2xf32>", f"tensor<{2 * width + 2}xf32>"
    body = [f"%w = {elements('f32')}"]
    match dialect:
        case "tensor":
            body += [
                "%z = arith.constant 1.0 : f32",
                f"%1 = tensor.pad %w low[{width}] high[{width}] {{\n  ^bb0(%i: index):\n"
                f"  tensor.yield %z : f32\n  }} : {small} to {wide}",
            ]
        case "stablehlo":
            body += [
                f"%z = {constant('stablehlo.constant', 'tensor<f32>', '1.0')}",
                f'%1 = "stablehlo.pad"(%w, %z) <{{edge_padding_low = array<i64: {width}>, '
                f"edge_padding_high = array<i64: {width}>, interior_padding = array<i64: 0>}}> : "
                f"({small}, tensor<f32>) -> {wide}",
            ]
        case "tosa":
            body += [
                f'%n = "tosa.const_shape"() <{{values = dense<{width}> : tensor<2xindex>}}> : '
                "() -> !tosa.shape<2>",
                f"%z = {constant('tosa.const', 'tensor<1xf32>', '1.0')}",
                f'%1 = "tosa.pad"(%w, %n, %z) : ({small}, !tosa.shape<2>, tensor<1xf32>) -> {wide}',
            ]
        case _:
            small, wide = (type.replace("f32", Q) for type in (small, wide))
            body = [
                f"%w = {elements(Q)}",
                f"%1 = quant.pad %w low = [{width}] high = [{width}] : {small} to {wide}",
            ]
    return function(body, "%1", wide)


def tiled() -> str:
    """A large tile at once."""
    count = 1 << 38
    tiled = f"tensor<{2 * count}xf32>"
    return function(
        [
            f"%w = {elements('f32')}",
            f'%n = "tosa.const_shape"() <{{values = dense<{count}> : tensor<1xindex>}}> : '
            "() -> !tosa.shape<1>",
            f'%1 = "tosa.tile"(%w, %n) : (tensor<2xf32>, !tosa.shape<1>) -> {tiled}',
        ],
        "%1",
        tiled,
    )


def gathered() -> str:
    """A gather by a splat of 2**30 indices."""
    count, indices = 1 << 30, "tensor<1073741824xi32>"
    return function(
        [
            f"%w = {elements('f32')}",
            f"%i = {constant('stablehlo.constant', indices, '1')}",
            '%1 = "stablehlo.gather"(%w, %i) <{dimension_numbers = #stablehlo.gather<'
            "collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, "
            "slice_sizes = array<i64: 1>, indices_are_sorted = false}> : "
            f"(tensor<2xf32>, {indices}) -> tensor<{count}xf32>",
        ],
        "%1",
        f"tensor<{count}xf32>",
    )


def aliases() -> str:
    """A type that is spelled in full 2**60 times as long."""
    lines = ["!a0 = tuple<i1, i1>"]
    lines += [f"!a{n} = tuple<!a{n - 1}, !a{n - 1}>" for n in range(1, 60)]
    return "\n".join(lines) + "\nfunc.func private @main(!a59)\n"


def two_aliases(last: str = "i1") -> str:
    """As `aliases`, twice: two types that are equal, or differ in their last part."""
    lines = ["!a0 = tuple<i1, i1>", f"!b0 = tuple<i1, {last}>"]
    for n in range(1, 40):
        lines += [f"!{name}{n} = tuple<!{name}{n - 1}, !{name}{n - 1}>" for name in "ab"]
    body = 'func.func @main(%x: !a39) -> !b39 {\n  %y = "test.op"(%x) : (!a39) -> !b39\n'
    return "\n".join(lines) + f"\n{body}  return %y : !b39\n}}\n"


def locations() -> str:
    """Locations of many ops, each made of two copies of the one before."""
    lines = ['#l0 = loc("a":1:2)']
    lines += [f"#l{n} = loc(fused[#l{n - 1}, callsite(#l{n - 1} at #l0)])" for n in range(1, 40)]
    lines += [f'"test.op"() : () -> () loc(#l{n})' for n in range(10, 40)]
    return "\n".join(lines) + "\n"


def cast_of_splat() -> str:
    """A cast of a splat of 512 Mi elements."""
    q, f = f"tensor<536870912x{Q}>", "tensor<536870912xf32>"
    return function(
        [
            f"%w = {constant('quant.constant', q, '7', 'tensor<536870912xi8>')}",
            f"%1 = quant.dcast %w : {q} to {f}",
        ],
        "%1",
        f,
    )


def dequantized_splat() -> str:
    """Dequantization of a splat of 512 Mi elements, as arithmetic."""
    wide, narrow = "tensor<536870912xf32>", "tensor<536870912xi8>"
    return function(
        [
            f"%w = arith.constant dense<3> : {narrow}",
            f"%e = arith.sitofp %w : {narrow} to {wide}",
            f"%z = arith.constant dense<3.0> : {wide}",
            f"%s = arith.constant dense<0.5> : {wide}",
            f"%a = arith.subf %e, %z : {wide}",
            f"%r = arith.mulf %a, %s : {wide}",
        ],
        "%r",
        wide,
    )


def argument(count: int) -> str:
    type = f"tensor<{count}xf32>"
    return f"func.func @main(%x: {type}) -> {type} {{\n  return %x : {type}\n}}\n"


def loop() -> str:
    return "func.func @main() -> () {\n  cf.br ^bb1\n^bb1:\n  cf.br ^bb1\n}\n"


FOLD = ("qdialect-opt", "--allow-unregistered-dialect", "--fold-quant-shapes")
PROVEN = ("qdialect-opt", "--allow-unregistered-dialect", "--fold-quant-shapes=verify=values")
CONSTANTS = ("qdialect-opt", "--allow-unregistered-dialect", "--fold-constant-shapes")
CANONICAL = ("qdialect-opt", "--allow-unregistered-dialect", "--canonicalize")
READ = ("qdialect-opt", "--allow-unregistered-dialect")
LOWER = (
    "qdialect-opt",
    "--allow-unregistered-dialect",
    "--lower-quant-shapes",
    "--lower-quant-ops",
)
SINK = ("qdialect-opt", "--allow-unregistered-dialect", "--sink-quant-shapes")
RUN = ("qdialect-run", "--allow-unregistered-dialect")
RANDOM = ("qdialect-run", "--random-inputs", "1")
CHECK = ("qdialect-check", "--allow-unregistered-dialect")


@dataclass(frozen=True)
class Case:
    """A text, and a command that takes it; `other` is the second module of a comparison."""

    text: Callable[[], str]
    command: tuple[str, ...]
    other: Callable[[], str] | None = None


def cases() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for dialect in CONCATS:
        for name, command in (("fold", FOLD), ("proven", PROVEN), ("canonicalize", CANONICAL)):
            found[f"doubled {dialect}, {name}"] = Case(lambda d=dialect: doubled(d), command)
    found["doubled, equalize"] = Case(
        lambda: (
            doubled("stablehlo").replace("(%0, %0)", "(%x, %x)").replace("main()", f"main({PAIR})")
        ),
        (*READ, "--equalize-inputs"),
    )
    for op in ("tosa.tile", "stablehlo.broadcast_in_dim"):
        for name, command in (("fold", FOLD), ("canonicalize", CANONICAL), ("run", RUN)):
            found[f"doubled by {op}, {name}"] = Case(lambda o=op: doubled_by(o), command)
    for name, command in (
        ("fold", FOLD),
        ("fold constants", CONSTANTS),
        ("canonicalize", CANONICAL),
        ("run", RUN),
    ):
        found[f"chains, {name}"] = Case(chains, command)
        for element in ("i8", Q):
            kind = "quant" if element == Q else "stablehlo"
            found[f"broadcasts of {kind}, {name}"] = Case(lambda e=element: broadcasts(e), command)
        found[f"one concat of many, {name}"] = Case(wide_concat, command)
        found[f"scales, {name}"] = Case(scales, command)
        found[f"tile, {name}"] = Case(tiled, command)
        found[f"gather, {name}"] = Case(gathered, command)
        for dialect in ("tensor", "stablehlo", "tosa", "quant"):
            found[f"pad of {dialect}, {name}"] = Case(lambda d=dialect: padded(d), command)
    constants = {
        "arith i64": ("arith.constant", "i64", "3", None),
        "arith f32": ("arith.constant", "f32", "1.0", None),
        "arith complex": ("arith.constant", "complex<f64>", "(1.0, 2.0)", None),
        "tosa": ("tosa.const", "f32", "1.0", None),
        "stablehlo": ("stablehlo.constant", "f32", "1.0", None),
        "quant": ("quant.constant", Q, "1", "i8"),
    }
    for kind, (op, element, value, stored) in constants.items():
        commands = {"read": READ, "fold": FOLD}
        if kind in ("arith f32", "quant"):
            commands |= {"lower": LOWER, "sink": SINK}
        for name, command in commands.items():
            found[f"splats of {kind}, {name}"] = Case(
                lambda o=op, e=element, v=value, s=stored: splats(o, e, v, s), command
            )
    for name in ("canonicalize", "cse", "inline", "normalize-quant-types"):
        found[f"aliases, {name}"] = Case(aliases, (*READ, f"--{name}"))
        found[f"two aliases, {name}"] = Case(two_aliases, (*READ, f"--{name}"))
    found["locations"] = Case(locations, (*READ, "--print-debuginfo"))
    for last in ("i1", "i2"):
        found[f"two aliases of {last}, check"] = Case(
            two_aliases, CHECK, lambda last=last: two_aliases(last)
        )
    for name, command in (("run", RUN), ("fold", FOLD), ("lower", LOWER)):
        found[f"cast of a splat, {name}"] = Case(cast_of_splat, command)
    for name in ("raise-dequantization", "fold-quant-shapes", "quantize-weights"):
        found[f"dequantized splat, {name}"] = Case(dequantized_splat, (*READ, f"--{name}"))
    found["large argument, run"] = Case(lambda: argument(1 << 28), RANDOM)
    found["impossible argument, run"] = Case(lambda: argument(1 << 33), RANDOM)
    for dialect in CONCATS:
        found[f"doubled {dialect}, check"] = Case(
            lambda d=dialect: doubled(d), CHECK, lambda d=dialect: doubled(d)
        )
    found["cast of a splat, check"] = Case(
        cast_of_splat, CHECK, lambda: cast_of_splat().replace("dense<7>", "dense<8>")
    )
    found["unequal splats, check"] = Case(
        lambda: splats("quant.constant", Q, "3", "i8"),
        CHECK,
        lambda: splats("quant.constant", Q, "4", "i8"),
    )
    found["large argument, check"] = Case(
        lambda: argument(1 << 28), CHECK, lambda: argument(1 << 28).replace("%x", "%y")
    )
    return found


@pytest.mark.parametrize("name", sorted(cases()))
def test_a_short_text_takes_little_memory(name: str, tmp_path: Path):
    case = cases()[name]
    paths = [tmp_path / "a.mlir"]
    paths[0].write_text(case.text())
    if case.other is not None:
        paths.append(tmp_path / "b.mlir")
        paths[1].write_text(case.other())
    assert all(path.stat().st_size <= MAX_TEXT for path in paths)
    # Outputs have up to a GiB each: a file without a name is not kept.
    with TemporaryFile() as out, open(tmp_path / "errors", "wb") as err:
        files = 0, out.fileno(), err.fileno()
        done = call(shared_server().socket, [*case.command, *map(str, paths)], files, MAX_ADDRESSES)
        size = os.fstat(out.fileno()).st_size
    errors, status = (tmp_path / "errors").read_text(), done["status"]
    print(f"{name}: {done['resident'] >> 20} MiB, status {status}")
    print(errors[:300])
    assert "Traceback" not in errors, errors
    # A tool refuses what it has no room for before it asks the system for it.
    assert "MemoryError" not in errors
    assert "allocate" not in errors
    assert status in (0, 1)
    assert status == 0 or "error: " in errors or case.command is CHECK
    assert done["resident"] <= MAX_RESIDENT
    assert size <= MAX_RESIDENT
