"""
Quantized layers in IREE and in ONNX Runtime: as floats, as casts in float arithmetic, in integers.

    pip install ".[iree,onnx]" onnxruntime
    python benchmarks/integer_execution.py [MODULE RECORDS.npz ...]

Each layer is quantized by this package, and run on one thread of this CPU. Prints the processor
time of a run (the median of several, by turns), compared with floats in the same engine, the size
of the binary, and how far results are from those of the float layer. Other modules can be given,
with records of their arguments.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qdialect import Quantized
from qdialect.check.compared_modules import Side
from qdialect.check.interpreters import TypedArray, find_function
from qdialect.check.iree_runs import AS_DEFINED, IN_INTEGERS, LoadedModule, compile_module
from qdialect.export.export_tool import main as export
from qdialect.integers.compiling import FAST_MATRICES, compile_in_integers, store_bytes_as
from qdialect.opt.registry import ToolContext
from qdialect.passes.lower_quant_ops import LowerQuantOpsPass
from qdialect.text import parse_module

Compile = Callable[[Side], bytes]


def with_casts(lowering: LowerQuantOpsPass) -> Compile:
    def compiled(side: Side) -> bytes:
        if lowering is IN_INTEGERS:
            store_bytes_as("i8", *side)
        return compile_module(side, cpu="host", lowering=lowering, flags=FAST_MATRICES)[1]

    return compiled


WAYS: Final[Mapping[str, tuple[str, Compile | None]]] = {
    "floats": ("ordered", with_casts(AS_DEFINED)),
    "casts as arithmetic": ("quantized", with_casts(AS_DEFINED)),
    "casts of IREE": ("quantized", with_casts(IN_INTEGERS)),
    "integers": ("quantized", partial(compile_in_integers, cpu="host")),
    "floats, ONNX Runtime": ("ordered", None),
    "integers, ONNX Runtime": ("symmetric", None),
}
"""The module, and what compiles it for IREE; None for ONNX Runtime."""


class Layers(NamedTuple):
    """A module, and records of its arguments."""

    name: str
    text: str
    records: Mapping[str, NDArray[Any]]


def filled(type: str, number: int) -> str:
    return f"""
  %e{number} = tensor.empty() : {type}
  %s{number} = linalg.fill ins(%zero : f32) outs(%e{number} : {type}) -> {type}"""


def products(rng: np.random.Generator, rows: int, *widths: int) -> Layers:
    """Matrix products, each followed by a bias, and all but the last one by a relu."""
    lines, value = ["%zero = arith.constant 0.0 : f32"], "%x"
    for at, (old, new) in enumerate(pairwise(widths)):
        x, w, y = (f"tensor<{a}x{b}xf32>" for a, b in ((rows, old), (old, new), (rows, new)))
        weight = (rng.normal(size=(old, new)) / np.sqrt(old)).astype("f4")
        bias = rng.normal(size=new).astype("f4")
        lines.append(f"""
  %w{at} = arith.constant dense<"0x{weight.tobytes().hex()}"> : {w}
  %b{at} = arith.constant dense<"0x{bias.tobytes().hex()}"> : tensor<{new}xf32>
  {filled(y, at)}
  %p{at} = linalg.matmul ins({value}, %w{at} : {x}, {w}) outs(%s{at} : {y}) -> {y}
  %c{at} = linalg.broadcast ins(%b{at} : tensor<{new}xf32>) outs(%e{at} : {y}) dimensions = [0]
  %a{at} = arith.addf %p{at}, %c{at} : {y}
  %z{at} = arith.constant dense<0.0> : {y}
  %r{at} = arith.maximumf %a{at}, %z{at} : {y}""")
        value = f"%r{at}"
    last = f"tensor<{rows}x{widths[-1]}xf32>"
    body = "\n".join(lines)
    text = f"""func.func @main(%x: tensor<{rows}x{widths[0]}xf32>) -> {last} {{
{body}
  return %a{len(widths) - 2} : {last}
}}"""
    records = rng.normal(size=(4, rows, widths[0])).astype("f4")
    return Layers("x".join(map(str, (rows, *widths))), text, {"x": records})


def convolution(rng: np.random.Generator, size: int, channels: int) -> Layers:
    """A convolution of 3x3."""
    x, w = f"tensor<1x{size}x{size}x{channels}xf32>", f"tensor<3x3x{channels}x{channels}xf32>"
    y = f"tensor<1x{size - 2}x{size - 2}x{channels}xf32>"
    weight = rng.normal(size=(3, 3, channels, channels)).astype("f4")
    text = f"""func.func @main(%x: {x}) -> {y} {{
  %zero = arith.constant 0.0 : f32
  %w = arith.constant dense<"0x{weight.tobytes().hex()}"> : {w}
  {filled(y, 0)}
  %y = linalg.conv_2d_nhwc_hwcf ins(%x, %w : {x}, {w}) outs(%s0 : {y}) -> {y}
  return %y : {y}
}}"""
    records = rng.normal(size=(4, 1, size, size, channels)).astype("f4")
    return Layers(f"conv {size}x{size}x{channels}, 3x3", text, {"x": records})


class Compiled:
    """A module in IREE, and its records."""

    def __init__(self, path: Path, compiled: Compile, records: Path, name: str) -> None:
        context = ToolContext(allow_unregistered=True)
        module = parse_module(context, path.read_bytes(), str(path))
        binary = compiled(Side(module, context))
        self.size = len(binary)
        self._function = find_function(module, name)
        self._loaded = LoadedModule(binary)
        arrays = [np.load(records)[key] for key in np.load(records).files]
        types = self._function.function_type.inputs.data
        self.records = [
            [
                TypedArray.of(np.ascontiguousarray(array).view(f"u{array.itemsize}"), type)
                for array, type in zip(record, types, strict=True)
            ]
            for record in zip(*arrays, strict=True)
        ]

    def results(self) -> NDArray[np.float64]:
        results = (self._loaded.run(self._function, record)[0] for record in self.records)
        return np.stack([result.elements.view("f4").astype("f8") for result in results])

    def milliseconds(self) -> float:
        start = time.process_time()
        self._loaded.run(self._function, self.records[0])
        return 1000 * (time.process_time() - start)


class Exported:
    """A module in ONNX Runtime, and its records."""

    def __init__(self, path: Path, records: Path) -> None:
        model = path.with_suffix(".onnx")
        if export([str(path), "--allow-unregistered-dialect", "-o", str(model)]):
            raise SystemExit(1)
        self.size = model.stat().st_size
        runtime: Any = import_module("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = runtime.InferenceSession(str(model), options)
        names = [value.name for value in self._session.get_inputs()]
        arrays = [np.load(records)[key] for key in np.load(records).files]
        self.records = [
            dict(zip(names, record, strict=True)) for record in zip(*arrays, strict=True)
        ]

    def results(self) -> NDArray[np.float64]:
        results = (self._session.run(None, record)[0] for record in self.records)
        return np.stack([result.astype("f8") for result in results])

    def milliseconds(self) -> float:
        start = time.process_time()
        self._session.run(None, self.records[0])
        return 1000 * (time.process_time() - start)


def measured(layers: Layers, function: str, runs: int) -> Iterator[tuple[str, ...]]:
    with TemporaryDirectory() as folder:
        path, records = Path(folder) / "model.mlir", Path(folder) / "records.npz"
        path.write_text(layers.text)
        np.savez(records, allow_pickle=False, **layers.records)
        quantized = Quantized(path, str(records), folder=folder)
        quantized.import_model().put_in_order().calibrate()
        symmetric = {"weight_scheme": "onnxruntime-symmetric", "weight_storage": "i7"}
        quantized.quantize(**symmetric)
        Path(folder, "quantized.mlir").rename(Path(folder, "symmetric.mlir"))
        quantized.quantize()
        compiled: dict[str, Compiled | Exported] = {}
        for way, (name, compile) in WAYS.items():
            module = Path(folder) / f"{name}.mlir"
            compiled[way] = (
                Exported(module, records)
                if compile is None
                else Compiled(module, compile, records, function)
            )
        times: dict[str, list[float]] = {way: [] for way in WAYS}
        for _ in range(runs):
            for way, each in compiled.items():
                times[way].append(each.milliseconds())
        expected = compiled["floats"].results()
        for way, each in compiled.items():
            floats = "floats, ONNX Runtime" if isinstance(each, Exported) else "floats"
            whole = statistics.median(times[floats])
            noise = ((each.results() - expected) ** 2).sum()
            decibels = 10 * np.log10((expected**2).sum() / noise) if noise else np.inf
            spent = statistics.median(times[way])
            yield (
                *(layers.name, way, f"{spent:.2f}", f"{whole / spent:.2f}"),
                *(f"{each.size / 2**20:.2f}", f"{decibels:.1f}"),
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().partition("\n")[0])
    parser.add_argument("given", nargs="*", help="modules, each with an .npz file of records")
    parser.add_argument("--function", default="main", help="the function of given modules")
    parser.add_argument("--runs", type=int, default=15)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    pairs = zip(options.given[::2], options.given[1::2], strict=True)
    chosen = [
        Layers(Path(module).stem, Path(module).read_text(), dict(np.load(records)))
        for module, records in pairs
    ] or [
        products(rng, 512, 512, 512),
        products(rng, 128, 3072, 768),
        products(rng, 128, 768, 3072, 768),
        convolution(rng, 58, 64),
    ]
    names = "layers", "as", "CPU ms", "times as fast", "binary (MiB)", "signal to noise (dB)"
    sys.stdout.write(f"| {' | '.join(names)} |\n|{'---|' * len(names)}\n")
    for layers in chosen:
        for row in measured(layers, options.function, options.runs):
            sys.stdout.write(f"| {' | '.join(row)} |\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
