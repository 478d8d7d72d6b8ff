"""
How long whole runs of `qdialect-opt` take beside `mlir-opt` and `xdsl-opt`, on the same files.

`python benchmarks/side_by_side.py` prints a table: the medians of five runs of each command,
taken in turns, their ratio, and the most memory that each process held. What is compared is
what both tools can do: `mlir-opt` folds a transpose of plain integers, which here are the
storage of quantized values, too. A tool that is not on PATH is left out.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

MLIR_OPT = "mlir-opt-22"
MIB = 1 << 20
SIZES = (1, 16, 256)
OPS = (1_000, 10_000, 100_000)
CHAIN = 8

QUANTIZED = "!quant.uniform<i8:f32:{axis}, {{{scales}}}>"

# numpy is not imported here: a child is said to hold at least what its parent did.


@dataclass(frozen=True)
class Measured:
    """What a command took: medians."""

    seconds: float
    mebibytes: float


@dataclass(frozen=True)
class Row:
    """Two commands that are compared."""

    title: str
    ours: Sequence[str]
    theirs: Sequence[str]


def run(command: Sequence[str]) -> Measured:
    """One run of a command, whose output goes nowhere. Raises CalledProcessError."""
    start = perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    # Linux counts in KiB, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return Measured(seconds, usage.ru_maxrss * unit / MIB)


def compare(row: Row, runs: int) -> tuple[Measured, Measured]:
    """The medians of both commands, run in turns."""
    measured = [(run(row.ours), run(row.theirs)) for _ in range(runs)]
    ours, theirs = zip(*measured, strict=True)
    return _median(ours), _median(theirs)


def _median(measured: Sequence[Measured]) -> Measured:
    return Measured(median(m.seconds for m in measured), max(m.mebibytes for m in measured))


def digits(mebibytes: int) -> Iterator[str]:
    """Hexadecimal digits of so many MiB of random bytes, which are the same on every run."""
    randomness = random.Random(mebibytes)
    for _ in range(mebibytes):
        yield randomness.randbytes(MIB).hex().upper()


def write(path: Path, pieces: Iterator[str]) -> str:
    """Write a file; the path as text."""
    with path.open("w") as file:
        file.writelines(pieces)
    return str(path)


def quantized_chain(mebibytes: int, count: int) -> Iterator[str]:
    """A per-axis quantized weight that is transposed `count` times."""
    side = math.isqrt(mebibytes * MIB)
    scales = ",".join(f"{1 + i / side:.6e}" for i in range(side))
    types = [f"tensor<{side}x{side}x!axis{axis}>" for axis in (0, 1)]
    for axis in (0, 1):
        yield f"!axis{axis} = {QUANTIZED.format(axis=axis, scales=scales)}\n"
    yield f"func.func @weight() -> {types[count % 2]} {{\n"
    yield '  %0 = quant.constant dense<"0x'
    yield from digits(mebibytes)
    yield f'"> : {types[0]}\n'
    for number in range(count):
        before, after = types[number % 2], types[1 - number % 2]
        yield f"  %{number + 1} = quant.transpose %{number} permutation = [1, 0] : "
        yield f"{before} to {after}\n"
    yield f"  return %{count} : {types[count % 2]}\n}}\n"


def rotations(mebibytes: int, count: int) -> Iterator[str]:
    """A quantized weight of rank 3 whose axes are rotated `count` times."""
    side = math.isqrt(mebibytes * MIB // 64)
    shapes = [(64, side, side), (side, side, 64), (side, 64, side)]
    types = ["x".join(map(str, shape)) for shape in shapes]
    types = [f"tensor<{shape}x!q>" for shape in types]
    yield "!q = !quant.uniform<i8:f32, 0.5>\n"
    yield f"func.func @weight() -> {types[count % 3]} {{\n"
    yield '  %0 = quant.constant dense<"0x'
    yield from digits(mebibytes)
    yield f'"> : {types[0]}\n'
    for number in range(count):
        before, after = types[number % 3], types[(number + 1) % 3]
        yield f"  %{number + 1} = quant.transpose %{number} permutation = [1, 2, 0] : "
        yield f"{before} to {after}\n"
    yield f"  return %{count} : {types[count % 3]}\n}}\n"


def plain_transpose(mebibytes: int) -> Iterator[str]:
    """The storage of such a weight, transposed once."""
    side = math.isqrt(mebibytes * MIB)
    type = f"tensor<{side}x{side}xi8>"
    yield f'func.func @weight() -> {type} {{\n  %0 = "tosa.const"() <{{values = dense<"0x'
    yield from digits(mebibytes)
    yield f'"> : {type}}}> : () -> {type}\n'
    yield f"  %1 = tosa.transpose %0 {{perms = array<i32: 1, 0>}} : ({type}) -> {type}\n"
    yield f"  return %1 : {type}\n}}\n"


def plain_constant(mebibytes: int) -> Iterator[str]:
    """A constant that is only read and printed."""
    type = f"tensor<{mebibytes * MIB}xi8>"
    yield f'func.func @weight() -> {type} {{\n  %0 = arith.constant dense<"0x'
    yield from digits(mebibytes)
    yield f'"> : {type}\n  return %0 : {type}\n}}\n'


def resource(mebibytes: int) -> Iterator[str]:
    """A constant whose elements are in a resource, which is only read and printed."""
    type = f"tensor<{mebibytes * MIB}xi8>"
    yield f"func.func @weight() -> {type} {{\n  %0 = arith.constant dense_resource<w> : {type}\n"
    yield f"  return %0 : {type}\n}}\n"
    yield '{-#\n  dialect_resources: {\n    builtin: {\n      w: "0x01000000'
    yield from digits(mebibytes)
    yield '"\n    }\n  }\n#-}\n'


def small_folds(ops: int) -> Iterator[str]:
    """Pairs of a small per-axis quantized constant and its transpose."""
    before, after = "tensor<2x3x!rows>", "tensor<3x2x!columns>"
    yield "!rows = !quant.uniform<i8:f32:0, {0.5,0.25:3}>\n"
    yield "!columns = !quant.uniform<i8:f32:1, {0.5,0.25:3}>\nfunc.func @weights() {\n"
    for number in range(ops // 2):
        values = [(number + i) % 256 - 128 for i in range(6)]
        yield f"  %{2 * number} = quant.constant dense<[{values[:3]}, {values[3:]}]> : {before}\n"
        yield f"  %{2 * number + 1} = quant.transpose %{2 * number} permutation = [1, 0] : "
        yield f"{before} to {after}\n"
        yield f'  "test.op"(%{2 * number + 1}) : ({after}) -> ()\n'
    yield "  return\n}\n"


def additions(ops: int) -> Iterator[str]:
    """A chain of additions, in which there is nothing to fold."""
    type = "tensor<4x4x!quant.uniform<i8:f32, 0.5>>"
    yield f"func.func @chain(%0: {type}) -> {type} {{\n"
    for number in range(ops):
        yield f"  %{number + 1} = tosa.add %{number}, %{number} : ({type}, {type}) -> {type}\n"
    yield f"  return %{ops} : {type}\n}}\n"


TEN_LINES = """\
func.func @small(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %empty = tensor.empty() : tensor<3x2xf32>
  %transposed = linalg.transpose ins(%x : tensor<2x3xf32>)
                                 outs(%empty : tensor<3x2xf32>) permutation = [1, 0]
  %one = arith.constant dense<1.0> : tensor<3x2xf32>
  %sum = arith.addf %transposed, %one : tensor<3x2xf32>
  %product = arith.mulf %sum, %sum : tensor<3x2xf32>
  return %product : tensor<3x2xf32>
}
"""


def rows(folder: Path, sizes: Sequence[int], ops: Sequence[int], has_mlir: bool) -> Iterator[Row]:
    """What is compared; the files are written when they are needed."""

    def file(name: str, pieces: Callable[[], Iterator[str]]) -> str:
        path = folder / name
        return str(path) if path.exists() else write(path, pieces())

    small = file("ten_lines.mlir", lambda: iter([TEN_LINES]))
    yield Row("--version", ["qdialect-opt", "--version"], ["xdsl-opt", "--version"])
    yield Row("ten lines", ["qdialect-opt", small], ["xdsl-opt", small])
    for count in ops:
        folds = file(f"folds_{count}.mlir", lambda n=count: small_folds(n))
        chain = file(f"chain_{count}.mlir", lambda n=count: additions(n))
        for title, path in (("folded in pairs", folds), ("with nothing to fold", chain)):
            ours = ["qdialect-opt", "--fold-quant-shapes", path]
            yield Row(f"{count} ops, {title}", ours, ["xdsl-opt", path])
    for size in sizes:
        chain = file(f"rotated_{size}.mlir", lambda n=size: rotations(n, CHAIN))
        once = file(f"once_{size}.mlir", lambda n=size: rotations(n, 1))
        title = f"{size} MiB, {CHAIN} transposes, and one"
        command = ["qdialect-opt", "--fold-quant-shapes"]
        yield Row(title, [*command, chain], [*command, once])
        if not has_mlir:
            continue
        quantized = file(f"quantized_{size}.mlir", lambda n=size: quantized_chain(n, 1))
        plain = file(f"plain_{size}.mlir", lambda n=size: plain_transpose(n))
        theirs = [MLIR_OPT, "--tosa-layerwise-constant-fold", plain]
        yield Row(f"{size} MiB, transposed, per-axis scales", [*command, quantized], theirs)
        ours = ["qdialect-opt", "--fold-constant-shapes", plain]
        yield Row(f"{size} MiB, transposed, plain integers", ours, theirs)
        for title, pieces in (("read and printed", plain_constant), ("in a resource", resource)):
            path = file(f"{title}_{size}.mlir", lambda n=size, write=pieces: write(n))
            yield Row(f"{size} MiB, {title}", ["qdialect-opt", path], [MLIR_OPT, path])
        for path in folder.glob(f"*_{size}.mlir"):
            path.unlink()


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Compare whole runs of tools.")
    parser.add_argument("--runs", type=int, default=5, help="runs of each command (default: 5)")
    parser.add_argument("--mib", type=int, nargs="*", default=SIZES, help="sizes of constants")
    parser.add_argument("--ops", type=int, nargs="*", default=OPS, help="sizes of modules")
    return parser.parse_args()


def main() -> None:
    """Print the table."""
    options = parse_arguments()
    has_mlir = shutil.which(MLIR_OPT) is not None
    print("| what | qdialect-opt | other tool | ratio | MiB | other's MiB |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for row in rows(Path(folder), options.mib, options.ops, has_mlir):
            ours, theirs = compare(row, options.runs)
            print(
                f"| {row.title} | {ours.seconds:.2f} s | `{row.theirs[0]}` {theirs.seconds:.2f} s "
                f"| {ours.seconds / theirs.seconds:.2f} "
                f"| {ours.mebibytes:.0f} | {theirs.mebibytes:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
