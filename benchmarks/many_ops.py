"""
What an op costs in a module of many small ones: to parse, verify, fold, verify and print.

`python benchmarks/many_ops.py [--sizes 1000 10000 100000] [--runs 3] [name ...]` prints a
table of microseconds per op, medians, and how each stage grows with the number of ops: an
exponent of 1 is a cost per op that does not change.
"""

from __future__ import annotations

import argparse
import gc
import math
import sys
from collections.abc import Callable, Sequence
from io import StringIO
from itertools import pairwise
from statistics import median
from time import perf_counter

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from qdialect.opt.diagnostics import DiagnosticPrinter
from qdialect.opt.registry import ToolContext
from qdialect.opt.verifier import ModuleVerifier
from qdialect.passes.fold_quant_shapes import FoldConstantShapesPass, FoldQuantShapesPass
from qdialect.text.parser import LocatingParser
from qdialect.text.printer import MLIRPrinter

STAGES = ("parse", "verify", "fold", "verify after", "print")

PER_TENSOR = ("!quant.uniform<i8:f32, 0.5:3>", "!quant.uniform<i8:f32, 0.5:3>")
PER_AXIS = (
    "!quant.uniform<i8:f32:0, {0.5,0.25:3}>",
    "!quant.uniform<i8:f32:1, {0.5,0.25:3}>",
)
SUB_CHANNEL = (
    "!quant.uniform<i8:f32:{0:1, 1:2}, {{0.5, 0.25}, {0.125:1, 2.0}}>",
    "!quant.uniform<i8:f32:{0:2, 1:1}, {{0.5, 0.125:1}, {0.25, 2.0}}>",
)


def function(ops: Sequence[str], results: Sequence[tuple[str, str]], arguments: str = "") -> str:
    """A function of these ops that returns values, each with its type."""
    names = ", ".join(name for name, _ in results)
    types = ", ".join(type for _, type in results)
    end = f"return {names} : {types}" if results else "return"
    return "\n".join([f"func.func @f({arguments}) -> ({types}) {{", *ops, end, "}"])


def elements(number: int) -> str:
    """Of a tensor of 2x4, others for each number."""
    row = [number % 100, number // 100 % 100, number // 10000 % 100, 5]
    return f"dense<[{row}, [0, 1, 2, 3]]>"


def pairs(types: Callable[[int], tuple[str, str]]) -> Callable[[int], str]:
    """Constants of the quant dialect, each with its transpose: the types of pair `i`."""

    def text(count: int) -> str:
        ops: list[str] = []
        results: list[tuple[str, str]] = []
        for i in range(count // 2):
            before, after = types(i)
            ops += [
                f"%w{i} = quant.constant {elements(i)} : tensor<2x4x{before}>",
                f"%t{i} = quant.transpose %w{i} permutation = [1, 0] "
                f": tensor<2x4x{before}> to tensor<4x2x{after}>",
            ]
            results.append((f"%t{i}", f"tensor<4x2x{after}>"))
        return function(ops, results)

    return text


def own_per_axis(number: int) -> tuple[str, str]:
    """Per-axis types that no other pair has."""
    slots = f"{{0.5:{number % 128},0.{number + 1}1}}"
    return f"!quant.uniform<i8:f32:0, {slots}>", f"!quant.uniform<i8:f32:1, {slots}>"


def many_scales(count: int) -> str:
    """Constants of one type of 4,096 scales, all elements equal, each with its transpose."""
    slots = ",".join(f"0.{i + 1}1" for i in range(4096))
    pairs = [
        [
            f"%w{i} = quant.constant dense<{i % 100}> : tensor<4096x2x!before>",
            f"%t{i} = quant.transpose %w{i} permutation = [1, 0] "
            ": tensor<4096x2x!before> to tensor<2x4096x!after>",
        ]
        for i in range(count // 2)
    ]
    results = [(f"%t{i}", "tensor<2x4096x!after>") for i in range(count // 2)]
    body = function([op for pair in pairs for op in pair], results)
    types = [
        f"!{name} = !quant.uniform<i8:f32:{axis}, {{{slots}}}>"
        for axis, name in enumerate(("before", "after"))
    ]
    return "\n".join([*types, body])


def behind_casts(count: int) -> str:
    """Constants of arith, two casts, and a shape op of another dialect in turn."""
    before, _ = PER_AXIS
    quantized, floats = f"tensor<2x4x{before}>", "tensor<2x4xf32>"
    ops = [
        "%shape = tosa.const_shape {values = dense<[1, 8]> : tensor<2xindex>} "
        ": () -> !tosa.shape<2>"
    ]
    results: list[tuple[str, str]] = []
    for i in range(count // 4):
        ops += [
            f"%w{i} = arith.constant {elements(i)} : tensor<2x4xi8>",
            f"%q{i} = quant.scast %w{i} : tensor<2x4xi8> to {quantized}",
            f"%f{i} = quant.dcast %q{i} : {quantized} to {floats}",
        ]
        moved, type = [
            (
                f"tosa.transpose %f{i} {{perms = array<i32: 1, 0>}} : ({floats}) -> ",
                "tensor<4x2xf32>",
            ),
            (
                f"tensor.expand_shape %f{i} [[0], [1, 2]] output_shape [2, 2, 2] : {floats} into ",
                "tensor<2x2x2xf32>",
            ),
            (f"tosa.reshape %f{i}, %shape : ({floats}, !tosa.shape<2>) -> ", "tensor<1x8xf32>"),
        ][i % 3]
        ops.append(f"%t{i} = {moved}{type}")
        results.append((f"%t{i}", type))
    return function(ops, results)


def plain_integers(count: int) -> str:
    """Constants of tosa, not quantized, each with its transpose."""
    ops: list[str] = []
    for i in range(count // 2):
        ops += [
            f'%w{i} = "tosa.const"() <{{values = {elements(i)} : tensor<2x4xi8>}}> '
            ": () -> tensor<2x4xi8>",
            f"%t{i} = tosa.transpose %w{i} {{perms = array<i32: 1, 0>}} "
            ": (tensor<2x4xi8>) -> tensor<4x2xi8>",
        ]
    return function(ops, [(f"%t{i}", "tensor<4x2xi8>") for i in range(count // 2)])


def undone(count: int) -> str:
    """Transposes of a constant, each of which undoes the one before it."""
    ends = [f"tensor<2x4x{PER_AXIS[0]}>", f"tensor<4x2x{PER_AXIS[1]}>"]
    ops = [f"%v0 = quant.constant {elements(7)} : {ends[0]}"]
    for i in range(count - 1):
        before, after = ends[i % 2], ends[1 - i % 2]
        move = f"quant.transpose %v{i} permutation = [1, 0]"
        ops.append(f"%v{i + 1} = {move} : {before} to {after}")
    return function(ops, [(f"%v{count - 1}", ends[(count - 1) % 2])])


def reverses_and_transposes(count: int) -> list[str]:
    """A chain from `%v0`: nothing undoes the one before."""
    type = f"tensor<2x2x{PER_TENSOR[0]}>"
    moves = ("quant.reverse {} dims = [0]", "quant.transpose {} permutation = [1, 0]")
    return [f"%v{i + 1} = {moves[i % 2].format(f'%v{i}')} : {type} to {type}" for i in range(count)]


def chain(count: int) -> str:
    """A chain of shape ops on one constant."""
    type = f"tensor<2x2x{PER_TENSOR[0]}>"
    constant = f"%v0 = quant.constant dense<[[1, 2], [3, 4]]> : {type}"
    ops = reverses_and_transposes(count - 1)
    return function([constant, *ops], [(f"%v{count - 1}", type)])


def of_argument(count: int) -> str:
    """A chain of shape ops on an argument: there is nothing to fold."""
    type = f"tensor<2x2x{PER_TENSOR[0]}>"
    return function(reverses_and_transposes(count), [(f"%v{count}", type)], f"%v0: {type}")


def arithmetic(count: int) -> str:
    """Additions of floats: no shape op at all."""
    ops = [f"%v{i + 1} = arith.addf %v{i}, %v{i} : tensor<2x4xf32>" for i in range(count)]
    return function(ops, [(f"%v{count}", "tensor<2x4xf32>")], "%v0: tensor<2x4xf32>")


def users(of: Callable[[int], tuple[str, str]]) -> Callable[[int], str]:
    """One constant with as many shape ops: each what moves it, and the type that gives."""
    type = f"tensor<4x32768x{PER_TENSOR[0]}>"

    def text(count: int) -> str:
        ops = [f"%w = quant.constant dense<7> : {type}"]
        results: list[tuple[str, str]] = []
        for i in range(count - 1):
            moved, to_type = of(i)
            ops.append(f"%t{i} = {moved} : {type} to {to_type}")
            results.append((f"%t{i}", to_type))
        return function(ops, results)

    return text


def equal_user(number: int) -> tuple[str, str]:
    return "quant.transpose %w permutation = [1, 0]", f"tensor<32768x4x{PER_TENSOR[0]}>"


def other_user(number: int) -> tuple[str, str]:
    return (
        f"quant.slice %w [0, {number % 32768}] [{1 + number // 32768}, 1] [1, 1]",
        f"tensor<{1 + number // 32768}x1x{PER_TENSOR[0]}>",
    )


def wide_concat(count: int) -> str:
    """One concat of as many constants."""
    type = f"tensor<2x4x{PER_TENSOR[0]}>"
    ops = [f"%w{i} = quant.constant {elements(i)} : {type}" for i in range(count - 1)]
    operands = ", ".join(f"%w{i}" for i in range(count - 1))
    types = ", ".join([type] * (count - 1))
    result = f"tensor<{2 * (count - 1)}x4x{PER_TENSOR[0]}>"
    ops.append(f"%c = quant.concat dim(0) {operands} : ({types}) -> {result}")
    return function(ops, [("%c", result)])


def nested_concats(count: int) -> str:
    """Concats, each of the one before it and a new constant."""
    ops = [f"%c0 = quant.constant {elements(0)} : tensor<2x4x{PER_TENSOR[0]}>"]
    for i in range(1, count // 2):
        ops += [
            f"%w{i} = quant.constant {elements(i)} : tensor<2x4x{PER_TENSOR[0]}>",
            f"%c{i} = quant.concat dim(0) %c{i - 1}, %w{i} : (tensor<{2 * i}x4x{PER_TENSOR[0]}>, "
            f"tensor<2x4x{PER_TENSOR[0]}>) -> tensor<{2 * i + 2}x4x{PER_TENSOR[0]}>",
        ]
    last = count // 2 - 1
    return function(ops, [(f"%c{last}", f"tensor<{2 * last + 2}x4x{PER_TENSOR[0]}>")])


TEXTS: dict[str, Callable[[int], str]] = {
    "per-tensor": pairs(lambda i: PER_TENSOR),
    "per-axis": pairs(lambda i: PER_AXIS),
    "sub-channel": pairs(lambda i: SUB_CHANNEL),
    "own-types": pairs(own_per_axis),
    "casts": behind_casts,
    "integers": plain_integers,
    "undone": undone,
    "chain": chain,
    "of-argument": of_argument,
    "arithmetic": arithmetic,
    "equal-users": users(equal_user),
    "other-users": users(other_user),
    "wide-concat": wide_concat,
    "nested-concats": nested_concats,
    "many-scales": many_scales,
}
"""A module of so many ops."""


def pass_for(name: str) -> ModulePass:
    """The pass that folds the module of that name."""
    return FoldConstantShapesPass() if name == "integers" else FoldQuantShapesPass()


def stages(text: str, module_pass: ModulePass) -> list[float]:
    """How many seconds each of `STAGES` takes."""
    context = ToolContext()
    module: ModuleOp | None = None
    times = [perf_counter()]
    module = LocatingParser(context, text).parse_module()
    times.append(perf_counter())
    verify(module)
    times.append(perf_counter())
    module_pass.apply(context, module)
    times.append(perf_counter())
    verify(module)
    times.append(perf_counter())
    MLIRPrinter(stream=StringIO()).print_op(module)
    times.append(perf_counter())
    return [after - before for before, after in pairwise(times)]


def verify(module: ModuleOp) -> None:
    """Verify every op, as the tool does."""
    assert ModuleVerifier(lambda op: op.name, DiagnosticPrinter(sys.stderr)).verify(module)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 10000, 100000])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(TEXTS))
    options = parser.parse_args()
    print(f"{'us per op':15} {'ops':>7}", *(f"{stage:>13}" for stage in STAGES))
    for name in options.names or TEXTS:
        make_text, module_pass = TEXTS[name], pass_for(name)
        costs: list[list[float]] = []
        for size in options.sizes:
            text = make_text(size)
            runs: list[list[float]] = []
            for _ in range(options.runs):
                gc.collect()
                runs.append(stages(text, module_pass))
            costs.append([median(stage) for stage in zip(*runs, strict=True)])
            row = (f"{seconds / size * 1e6:13.1f}" for seconds in costs[-1])
            print(f"{name:15} {size:7}", *row)
        if len(options.sizes) > 1:
            ratio = math.log(options.sizes[-1] / options.sizes[0])
            exponents = (
                math.log(last / first) / ratio
                for first, last in zip(costs[0], costs[-1], strict=True)
            )
            print(f"{'':15} {'grows^':>7}", *(f"{exponent:13.2f}" for exponent in exponents))


if __name__ == "__main__":
    main()
