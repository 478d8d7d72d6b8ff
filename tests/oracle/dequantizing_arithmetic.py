"""
Dequantization by arithmetic in the forms that exporters write, with numpy's results.

Each form writes ops in generic syntax, except `linalg.generic`.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from evaluator import evaluate
from hypothesis import strategies as st
from nested_text import nested
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from qdialect.folding.report import PassReport
from qdialect.ops.interface import name_of
from qdialect.opt.registry import ToolContext
from qdialect.text.parser import LocatingParser
from qdialect.text.printer import MLIRPrinter

Array = NDArray[Any]
Shape = tuple[int, ...]

DTYPES = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "f32": np.float32, "f16": np.float16}


def tensor(array: Array) -> str:
    """The tensor type of an array."""
    element = next(name for name, dtype in DTYPES.items() if array.dtype == np.dtype(dtype))
    return f"tensor<{''.join(f'{n}x' for n in array.shape)}{element}>"


def dense(array: Array) -> str:
    """The elements attribute of an array."""
    text = str(array.tolist()) if array.dtype.kind == "i" else ""
    if not text:
        bits = array.view(f"u{array.itemsize}")
        hexes = [f"0x{int(each):0{2 * array.itemsize}X}" for each in bits.reshape(-1)]
        text = nested(hexes, array.shape)
    return f"dense<{text}> : {tensor(array)}"


@dataclass
class Text:
    """The text of a function under construction; a value is a name in the text and an array."""

    lines: list[str] = field(default_factory=list[str])

    def emit(self, result: Array, op: str, *operands: tuple[str, Array], extra: str = "") -> str:
        """Append an op in generic form; returns the name of its result."""
        name = f"%v{len(self.lines)}"
        names = ", ".join(operand for operand, _ in operands)
        types = ", ".join(tensor(array) for _, array in operands)
        self.lines.append(f'{name} = "{op}"({names}) {extra} : ({types}) -> {tensor(result)}')
        return name

    def constant(self, array: Array, op: str) -> tuple[str, Array]:
        key = "values" if op == "tosa.const" else "value"
        return self.emit(array, op, extra=f"<{{{key} = {dense(array)}}}>"), array

    def shape(self, numbers: Sequence[int]) -> tuple[str, str]:
        """Append a `tosa.const_shape`; returns its name and type."""
        name, count = f"%v{len(self.lines)}", len(numbers)
        held = f"dense<{list(numbers)}> : tensor<{count}xindex>"
        type = f"!tosa.shape<{count}>"
        self.lines.append(f'{name} = "tosa.const_shape"() <{{values = {held}}}> : () -> {type}')
        return name, type

    def generic(
        self, result: Array, inputs: Sequence[tuple[str, Array, Sequence[int]]], body: str
    ) -> str:
        """Append a `linalg.generic` whose inputs are read along some axes of the result."""
        rank = result.ndim
        loops = ", ".join(f"d{axis}" for axis in range(rank))
        maps = [f"({loops}) -> ({', '.join(f'd{a}' for a in axes)})" for *_, axes in inputs]
        maps.append(f"({loops}) -> ({loops})")
        arrays = [array for _, array, _ in inputs]
        empty = self.emit(result, "tensor.empty")
        name = f"%v{len(self.lines)}"
        elements = [tensor(array).removesuffix(">").rpartition("x")[2] for array in arrays]
        elements = [each.removeprefix("tensor<") for each in elements]
        out = tensor(result).removesuffix(">").rpartition("x")[2].removeprefix("tensor<")
        arguments = ", ".join(f"%a{n}: {type}" for n, type in enumerate([*elements]))
        kinds = ", ".join(['"parallel"'] * rank)
        self.lines.append(
            f"{name} = linalg.generic {{indexing_maps = "
            f"[{', '.join(f'affine_map<{each}>' for each in maps)}], iterator_types = [{kinds}]}} "
            f"ins({', '.join(name for name, *_ in inputs)} : "
            f"{', '.join(map(tensor, arrays))}) outs({empty} : {tensor(result)}) {{\n"
            f"^bb0({arguments}, %out: {out}):\n{body}\n}} -> {tensor(result)}"
        )
        return name

    def function(self, name: str, result: Array) -> str:
        body = "\n".join(self.lines)
        return (
            f"func.func @f() -> {tensor(result)} {{\n{body}\nreturn {name} : {tensor(result)}\n}}"
        )


@dataclass(frozen=True)
class Numbers:
    """Stored codes, with zero points and scales that broadcast to them."""

    codes: Array
    zero_points: Array | None
    scales: Array

    @property
    def floats(self) -> Array:
        zero = 0 if self.zero_points is None else self.zero_points.astype(np.float32)
        return (self.codes.astype(np.float32) - np.float32(zero)) * self.scales


@st.composite
def numbers_to_dequantize(
    draw: st.DrawFn,
    scales: Callable[[np.random.Generator, Shape], Array],
    zero_points: range | None = None,
) -> Numbers:
    """
    Integers, with scales and zero points along some of the axes.

    By default, zero points are any storable integers.
    """
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    dtype = draw(st.sampled_from([np.int8, np.int16]))
    limits = np.iinfo(dtype)
    stored = range(limits.min, limits.max + 1)
    codes = random.integers(stored.start, stored.stop, shape).astype(dtype)

    def small() -> Shape:
        return tuple(n if draw(st.booleans()) else 1 for n in shape)

    subtracted = None
    if draw(st.booleans()):
        among = stored if zero_points is None else zero_points
        subtracted = random.integers(among.start, among.stop, small()).astype(dtype)
    return Numbers(codes, subtracted, scales(random, small()).astype(np.float32))


def axes_of(array: Array) -> list[int]:
    """The axes along which an array is longer than 1."""
    return [axis for axis, length in enumerate(array.shape) if length > 1]


def in_stablehlo(text: Text, of: Numbers, dialect: str = "stablehlo") -> str:
    """StableHLO, or MHLO, whose numbers are a tensor."""

    def broadcast(array: Array) -> str:
        axes = axes_of(array)
        small = text.constant(array.reshape([array.shape[axis] for axis in axes]), kind)
        whole = np.broadcast_to(array, of.codes.shape)
        listed = f"array<i64: {', '.join(map(str, axes))}>" if axes else "array<i64>"
        if dialect == "mhlo":
            listed = f"dense<{axes}> : tensor<{len(axes)}xi64>"
        extra = f"{{broadcast_dimensions = {listed}}}"
        return text.emit(whole, f"{dialect}.broadcast_in_dim", small, extra=extra)

    kind, floats = f"{dialect}.constant", of.codes.astype(np.float32)
    value = text.emit(floats, f"{dialect}.convert", text.constant(of.codes, kind))
    if of.zero_points is not None:
        zeros = np.broadcast_to(of.zero_points, floats.shape)
        name = broadcast(of.zero_points)
        name = text.emit(zeros.astype(np.float32), f"{dialect}.convert", (name, zeros))
        value = text.emit(floats, f"{dialect}.subtract", (value, floats), (name, floats))
    scales = broadcast(of.scales)
    return text.emit(floats, f"{dialect}.multiply", (value, floats), (scales, floats))


def in_mhlo(text: Text, of: Numbers) -> str:
    return in_stablehlo(text, of, "mhlo")


def in_tosa(text: Text, of: Numbers) -> str:
    kind, floats = "tosa.const", of.codes.astype(np.float32)
    value = text.emit(floats, "tosa.cast", text.constant(of.codes, kind))
    if of.zero_points is not None:
        zeros = of.zero_points.astype(np.float32)
        name = text.emit(zeros, "tosa.cast", text.constant(of.zero_points, kind))
        value = text.emit(floats, "tosa.sub", (value, floats), (name, zeros))
    scales = text.constant(of.scales, kind)
    shift = text.constant(np.zeros(1, np.int8), kind)
    return text.emit(floats, "tosa.mul", (value, floats), scales, shift)


def in_one_generic(text: Text, of: Numbers) -> str:
    """One `linalg.generic`, which subtracts integers at a larger width."""
    kind, rank = "arith.constant", of.codes.ndim
    inputs: list[tuple[str, Array, Sequence[int]]] = []
    inputs.append((*text.constant(of.codes, kind), range(rank)))
    stored = tensor(of.codes).removesuffix(">").rpartition("x")[2].removeprefix("tensor<")
    body = [f"%w = arith.extsi %a0 : {stored} to i64"]
    if of.zero_points is not None:
        axes = axes_of(of.zero_points)
        small = of.zero_points.reshape([of.zero_points.shape[axis] for axis in axes])
        inputs.append((*text.constant(small, kind), axes))
        body += [f"%z = arith.extsi %a1 : {stored} to i64", "%d = arith.subi %w, %z : i64"]
    axes = axes_of(of.scales)
    small = of.scales.reshape([of.scales.shape[axis] for axis in axes])
    inputs.append((*text.constant(small, kind), axes))
    difference = "%w" if of.zero_points is None else "%d"
    body += [
        f"%f = arith.sitofp {difference} : i64 to f32",
        f"%p = arith.mulf %f, %a{len(inputs) - 1} : f32",
        "linalg.yield %p : f32",
    ]
    return text.generic(of.floats, inputs, "\n".join(body))


def in_several_generics(text: Text, of: Numbers) -> str:
    kind, rank = "arith.constant", of.codes.ndim
    floats = of.codes.astype(np.float32)
    stored = tensor(of.codes).removesuffix(">").rpartition("x")[2].removeprefix("tensor<")

    def converted(array: Array) -> tuple[str, Array, Sequence[int]]:
        body = f"%f = arith.sitofp %a0 : {stored} to f32\nlinalg.yield %f : f32"
        result = array.astype(np.float32)
        own = (*text.constant(array, kind), range(array.ndim))
        return text.generic(result, [own], body), result, range(array.ndim)

    def computed(op: str, value: str, by: tuple[str, Array, Sequence[int]]) -> str:
        body = f"%p = arith.{op} %a0, %a1 : f32\nlinalg.yield %p : f32"
        return text.generic(floats, [(value, floats, range(rank)), by], body)

    value, *_ = converted(of.codes)
    if of.zero_points is not None:
        axes = axes_of(of.zero_points)
        name, array, _ = converted(of.zero_points.reshape([of.zero_points.shape[a] for a in axes]))
        value = computed("subf", value, (name, array, axes))
    axes = axes_of(of.scales)
    name, array = text.constant(of.scales.reshape([of.scales.shape[a] for a in axes]), kind)
    return computed("mulf", value, (name, array, axes))


def in_arith(text: Text, of: Numbers) -> str:
    """`arith` on tensors: without broadcasts, as all constants are full tensors."""
    kind, floats = "arith.constant", of.codes.astype(np.float32)
    value = text.emit(floats, "arith.sitofp", text.constant(of.codes, kind))
    if of.zero_points is not None:
        zeros = np.broadcast_to(of.zero_points, floats.shape).astype(np.float32)
        value = text.emit(floats, "arith.subf", (value, floats), text.constant(zeros, kind))
    scales = text.constant(np.broadcast_to(of.scales, floats.shape).copy(), kind)
    return text.emit(floats, "arith.mulf", (value, floats), scales)


FORMS: dict[str, Callable[[Text, Numbers], str]] = {
    "stablehlo": in_stablehlo,
    "mhlo": in_mhlo,
    "tosa": in_tosa,
    "linalg, in one": in_one_generic,
    "linalg, in several": in_several_generics,
    "arith": in_arith,
}


class Module:
    """A parsed module, and the values that it computes."""

    def __init__(self, text: str) -> None:
        self.context = ToolContext(allow_unregistered=True)
        self.module: ModuleOp = LocatingParser(self.context, text).parse_module()
        self.module.verify()

    def run(self, flag: ModulePass) -> PassReport:
        self.context.fold_reports.clear()
        flag.apply(self.context, self.module)
        self.module.verify()
        (report,) = self.context.fold_reports
        return report

    def printed(self) -> str:
        stream = io.StringIO()
        MLIRPrinter(stream=stream).print_op(self.module)
        return stream.getvalue()

    def bits(self) -> list[Any]:
        (value,) = evaluate(self.module, "f", [], lambda key: None)
        assert value.known.all()
        return value.bits.tolist()

    @property
    def ops(self) -> list[str]:
        return [name_of(op) for op in self.module.walk()]


def bits_of(array: Array) -> list[Any]:
    return np.ascontiguousarray(array).view(f"u{array.itemsize}").tolist()
