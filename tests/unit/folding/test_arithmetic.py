"""
Shape ops behind arithmetic that dequantizes, as exporters write it.

What a module computes is said by numpy where it is drawn, and by an evaluator that shares no code
with the package. Both must agree with what the fold makes of it.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from evaluator import evaluate
from hypothesis import given, note
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from qdialect.certificates.module_comparison import Side, compare_modules
from qdialect.folding.apply import apply
from qdialect.folding.fold_plan import FoldPlan
from qdialect.folding.plan import plan
from qdialect.folding.policy import FoldPolicy
from qdialect.folding.report import FoldReport, Outcome
from qdialect.passes.fold_quant_shapes import FoldQuantShapesPass
from qdialect.shape_ops.interface import Code, name_of
from qdialect.text.parser import LocatingParser
from qdialect.text.printer import MLIRPrinter
from qdialect.tools.registry import ToolContext

pytestmark = pytest.mark.usefixtures("without_plugins")

Array = NDArray[Any]
Shape = tuple[int, ...]

DTYPES = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "f32": np.float32, "f16": np.float16}


def tensor(array: Array) -> str:
    """The type of a tensor of the elements of an array."""
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


def nested(texts: Sequence[str], shape: Shape) -> str:
    """Texts in brackets, as a literal of a tensor has them."""
    if not shape:
        return texts[0]
    step = len(texts) // shape[0]
    parts = [nested(texts[at * step : (at + 1) * step], shape[1:]) for at in range(shape[0])]
    return f"[{', '.join(parts)}]"


@dataclass
class Text:
    """A function that is being written; values are arrays, known by the names of their texts."""

    lines: list[str] = field(default_factory=list[str])

    def emit(self, result: Array, op: str, *operands: tuple[str, Array], extra: str = "") -> str:
        """An op in its generic form; returns the name of its result."""
        name = f"%v{len(self.lines)}"
        names = ", ".join(operand for operand, _ in operands)
        types = ", ".join(tensor(array) for _, array in operands)
        self.lines.append(f'{name} = "{op}"({names}) {extra} : ({types}) -> {tensor(result)}')
        return name

    def constant(self, array: Array, op: str) -> tuple[str, Array]:
        key = "values" if op == "tosa.const" else "value"
        return self.emit(array, op, extra=f"<{{{key} = {dense(array)}}}>"), array

    def shape(self, numbers: Sequence[int]) -> tuple[str, str]:
        """A shape of tosa, and its type."""
        name, count = f"%v{len(self.lines)}", len(numbers)
        held = f"dense<{list(numbers)}> : tensor<{count}xindex>"
        type = f"!tosa.shape<{count}>"
        self.lines.append(f'{name} = "tosa.const_shape"() <{{values = {held}}}> : () -> {type}')
        return name, type

    def generic(
        self, result: Array, inputs: Sequence[tuple[str, Array, Sequence[int]]], body: str
    ) -> str:
        """A `linalg.generic` that reads each input along some axes of the result."""
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
    """What is dequantized: zero points and scales broadcast to the codes."""

    codes: Array
    zero_points: Array | None
    scales: Array

    @property
    def floats(self) -> Array:
        zero = 0 if self.zero_points is None else self.zero_points.astype(np.float32)
        return (self.codes.astype(np.float32) - np.float32(zero)) * self.scales


def axes_of(array: Array) -> list[int]:
    """The axes along which an array is longer than 1."""
    return [axis for axis, length in enumerate(array.shape) if length > 1]


def in_stablehlo(text: Text, of: Numbers) -> str:
    def broadcast(array: Array) -> str:
        axes = axes_of(array)
        small = text.constant(array.reshape([array.shape[axis] for axis in axes]), kind)
        whole = np.broadcast_to(array, of.codes.shape)
        listed = f"array<i64: {', '.join(map(str, axes))}>" if axes else "array<i64>"
        extra = f"{{broadcast_dimensions = {listed}}}"
        return text.emit(whole, "stablehlo.broadcast_in_dim", small, extra=extra)

    kind, floats = "stablehlo.constant", of.codes.astype(np.float32)
    value = text.emit(floats, "stablehlo.convert", text.constant(of.codes, kind))
    if of.zero_points is not None:
        zeros = np.broadcast_to(of.zero_points, floats.shape)
        name = broadcast(of.zero_points)
        name = text.emit(zeros.astype(np.float32), "stablehlo.convert", (name, zeros))
        value = text.emit(floats, "stablehlo.subtract", (value, floats), (name, floats))
    scales = broadcast(of.scales)
    return text.emit(floats, "stablehlo.multiply", (value, floats), (scales, floats))


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
    """Integers are subtracted, in more bits."""
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
    """Nothing is broadcast: all constants are whole."""
    kind, floats = "arith.constant", of.codes.astype(np.float32)
    value = text.emit(floats, "arith.sitofp", text.constant(of.codes, kind))
    if of.zero_points is not None:
        zeros = np.broadcast_to(of.zero_points, floats.shape).astype(np.float32)
        value = text.emit(floats, "arith.subf", (value, floats), text.constant(zeros, kind))
    scales = text.constant(np.broadcast_to(of.scales, floats.shape).copy(), kind)
    return text.emit(floats, "arith.mulf", (value, floats), scales)


FORMS: dict[str, Callable[[Text, Numbers], str]] = {
    "stablehlo": in_stablehlo,
    "tosa": in_tosa,
    "linalg, in one": in_one_generic,
    "linalg, in several": in_several_generics,
    "arith": in_arith,
}

Move = tuple[str, Array]


def transposed(text: Text, name: str, array: Array, draw: st.DataObject) -> Move:
    order = draw.draw(st.permutations(range(array.ndim)))
    listed = f"array<i64: {', '.join(map(str, order))}>"
    moved = array.transpose(order)
    op, extra = "stablehlo.transpose", f"{{permutation = {listed}}}"
    return text.emit(moved, op, (name, array), extra=extra), moved


def reversed_(text: Text, name: str, array: Array, draw: st.DataObject) -> Move:
    axis = draw.draw(st.integers(0, array.ndim - 1))
    extra, moved = f"<{{axis = {axis} : i32}}>", np.flip(array, axis)
    return text.emit(moved, "tosa.reverse", (name, array), extra=extra), moved


def sliced(text: Text, name: str, array: Array, draw: st.DataObject) -> Move:
    starts = [draw.draw(st.integers(0, n - 1)) for n in array.shape]
    strides = [draw.draw(st.integers(1, 2)) for _ in array.shape]
    lists = {"start_indices": starts, "limit_indices": array.shape, "strides": strides}
    extra = ", ".join(
        f"{key} = array<i64: {', '.join(map(str, numbers))}>" for key, numbers in lists.items()
    )
    moved = array[tuple(slice(at, None, step) for at, step in zip(starts, strides, strict=True))]
    return text.emit(moved, "stablehlo.slice", (name, array), extra=f"{{{extra}}}"), moved


def reshaped(text: Text, name: str, array: Array, draw: st.DataObject) -> Move:
    axis = draw.draw(st.integers(0, array.ndim - 1))
    before, length, after = array.shape[:axis], array.shape[axis], array.shape[axis + 1 :]
    if draw.draw(st.booleans()) or not after:
        first = draw.draw(st.sampled_from([n for n in range(1, length + 1) if length % n == 0]))
        moved = array.reshape(*before, first, length // first, *after)
    else:
        moved = array.reshape(*before, length * after[0], *after[1:])
    return text.emit(moved, "stablehlo.reshape", (name, array)), moved


def joined(text: Text, name: str, array: Array, draw: st.DataObject) -> Move:
    axis = draw.draw(st.integers(0, array.ndim - 1))
    moved = np.concatenate([array, array], axis)
    extra = f"{{dimension = {axis} : i64}}"
    return text.emit(
        moved, "stablehlo.concatenate", (name, array), (name, array), extra=extra
    ), moved


KEEP_SEPARABLE = (transposed, reversed_, sliced)
"""What moves scales of whole axes to scales of whole axes, and never to more of them."""

MOVES = (*KEEP_SEPARABLE, reshaped, joined)


@st.composite
def numbers(draw: st.DrawFn) -> Numbers:
    """Integers to dequantize, with scales and zero points along some of the axes."""
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    dtype = draw(st.sampled_from([np.int8, np.int16]))
    limits = np.iinfo(dtype)
    codes = random.integers(limits.min, limits.max + 1, shape).astype(dtype)

    def small() -> Shape:
        return tuple(n if draw(st.booleans()) else 1 for n in shape)

    zero_points = None
    if draw(st.booleans()):
        zero_points = random.integers(-100, 100, small()).astype(dtype)
    scales = random.uniform(-2, 2, small()).astype(np.float32)
    return Numbers(codes, zero_points, scales)


class Module:
    """A module that was read, and what it computes."""

    def __init__(self, text: str) -> None:
        self.context = ToolContext(allow_unregistered=True)
        self.module: ModuleOp = LocatingParser(self.context, text).parse_module()
        self.module.verify()

    def fold(self, **options: Any) -> FoldReport:
        self.context.fold_reports.clear()
        FoldQuantShapesPass(**options).apply(self.context, self.module)
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


@given(numbers(), st.sampled_from(sorted(FORMS)), st.data())
def test_values_are_kept(of: Numbers, form: str, data: st.DataObject):
    text = Text()
    name, expected = FORMS[form](text, of), of.floats
    for move in data.draw(st.lists(st.sampled_from(MOVES), min_size=1, max_size=3)):
        name, expected = move(text, name, expected, data)
    whole = text.function(name, expected)
    note(whole)
    before, after = Module(whole), Module(whole)
    assert before.bits() == bits_of(expected)
    after.fold(verify="values", max_parameter_growth=data.draw(st.sampled_from([None, 0, 1 << 16])))
    note(after.printed())
    assert after.bits() == bits_of(expected)
    once = after.printed()
    sides = [Side(each.module, each.context) for each in (before, after)]
    assert not compare_modules(*sides, runs=2).findings
    after.fold()
    assert after.printed() == once


@given(numbers(), st.sampled_from(sorted(FORMS)), st.data())
def test_plans_are_applied_to_other_modules(of: Numbers, form: str, data: st.DataObject):
    text = Text()
    name, moved = FORMS[form](text, of), of.floats
    for move in data.draw(st.lists(st.sampled_from(MOVES), min_size=1, max_size=3)):
        name, moved = move(text, name, moved, data)
    whole = text.function(name, moved)
    note(whole)
    folded, other = Module(whole), Module(whole)
    stored = plan(other.module, other.context, FoldPolicy()).to_json()
    apply(FoldPlan.from_json(stored, other.context), other.module, other.context)
    folded.fold()
    assert other.printed() == folded.printed()


def collapsed_and_transposed(
    text: Text, dialect: str, name: str, array: Array
) -> tuple[str, Array]:
    """The first two of three axes as one, and then the last axis first, in ops of a dialect."""
    merged = array.reshape(-1, array.shape[2])
    moved = merged.T
    order = "array<i64: 1, 0>"
    if dialect == "stablehlo":
        name = text.emit(merged, "stablehlo.reshape", (name, array))
        extra = f"{{permutation = {order}}}"
        return text.emit(moved, "stablehlo.transpose", (name, merged), extra=extra), moved
    if dialect == "tosa":
        shape, type = text.shape(merged.shape)
        text.lines.append(
            f'%merged = "tosa.reshape"({name}, {shape}) '
            f": ({tensor(array)}, {type}) -> {tensor(merged)}"
        )
        extra = "<{perms = array<i32: 1, 0>}>"
        return text.emit(moved, "tosa.transpose", ("%merged", merged), extra=extra), moved
    text.lines.append(
        f"%merged = tensor.collapse_shape {name} [[0, 1], [2]] "
        f": {tensor(array)} into {tensor(merged)}"
    )
    text.lines.append(f"%empty = tensor.empty() : {tensor(moved)}")
    text.lines.append(
        f"%moved = linalg.transpose ins(%merged : {tensor(merged)}) "
        f"outs(%empty : {tensor(moved)}) permutation = [1, 0]"
    )
    return "%moved", moved


@pytest.mark.parametrize(
    ("form", "reshape"),
    [
        ("stablehlo", "stablehlo.reshape"),
        ("tosa", "tosa.reshape"),
        ("linalg, in one", "tensor.collapse_shape"),
        ("linalg, in several", "tensor.collapse_shape"),
    ],
)
def test_of_a_reshape_from_blocks_and_a_transpose_one_op_is_left(form: str, reshape: str):
    codes = np.arange(-40, 80, dtype=np.int8).reshape(4, 5, 6)
    zero_points = np.arange(24, dtype=np.int8).reshape(4, 1, 6)
    of = Numbers(codes, zero_points, np.arange(1, 25, dtype=np.float32).reshape(4, 1, 6) / 8)
    text = Text()
    name, dialect = FORMS[form](text, of), reshape.partition(".")[0]
    name, moved = collapsed_and_transposed(text, dialect, name, of.floats)
    whole = text.function(name, moved)
    module = Module(whole)
    module.fold(verify="values")
    assert module.bits() == bits_of(moved)
    assert module.ops.count(reshape) == 1
    assert not [op for op in module.ops if op.endswith("transpose")]
    assert len(module.printed()) < len(Module(whole).printed())
    once = module.printed()
    module.fold()
    assert module.printed() == once


@given(numbers(), st.sampled_from(sorted(FORMS)), st.data())
def test_nothing_is_left_that_moves_scales_of_axes(of: Numbers, form: str, data: st.DataObject):
    text = Text()
    name, expected = FORMS[form](text, of), of.floats
    for move in data.draw(st.lists(st.sampled_from(KEEP_SEPARABLE), min_size=1, max_size=3)):
        name, expected = move(text, name, expected, data)
    whole = text.function(name, expected)
    note(whole)
    module = Module(whole)
    report = module.fold()
    note(module.printed())
    refused = {record.op_name for record in report.records if record.outcome is Outcome.REFUSED}
    # A transpose that moves nothing is dropped, and what is broadcast before it stays.
    assert refused <= {"stablehlo.broadcast_in_dim"}
    assert {"stablehlo.transpose", "tosa.reverse", "stablehlo.slice"}.isdisjoint(module.ops)
    assert len(module.printed()) <= len(Module(whole).printed())


NEAR_MISSES = {
    "%f = arith.mulf %r, %s : tensor<4x2xf32>\n%v = arith.mulf %f, %s : tensor<4x2xf32>": "twice",
    "%f = arith.mulf %r, %s : tensor<4x2xf32>\n%v = arith.addf %f, %s : tensor<4x2xf32>": "adds",
    "%v = arith.mulf %r, %s fastmath<fast> : tensor<4x2xf32>": "fast-math",
    "%v = arith.subf %r, %half : tensor<4x2xf32>": "a zero point is no integer",
    "%n = arith.subi %w, %w : tensor<4x2xi8>\n"
    "%v = arith.sitofp %n : tensor<4x2xi8> to tensor<4x2xf32>": "may wrap",
}


@pytest.mark.parametrize(("arithmetic", "reason"), NEAR_MISSES.items(), ids=NEAR_MISSES.values())
def test_what_is_no_exact_dequantization_is_left(arithmetic: str, reason: str):
    text = f"""
    func.func @f(%init: tensor<2x4xf32>) -> tensor<2x4xf32> {{
      %w = arith.constant dense<[[1, -128], [3, 4], [5, 6], [7, 127]]> : tensor<4x2xi8>
      %s = arith.constant dense<[[0.1, 0.2], [0.3, 0.4], [0.5, 0.6], [0.7, 0.8]]> : tensor<4x2xf32>
      %half = arith.constant dense<0.5> : tensor<4x2xf32>
      %r = arith.sitofp %w : tensor<4x2xi8> to tensor<4x2xf32>
      {arithmetic}
      %t = linalg.transpose ins(%v : tensor<4x2xf32>)
        outs(%init : tensor<2x4xf32>) permutation = [1, 0]
      return %t : tensor<2x4xf32>
    }}
    """
    module = Module(text)
    before = module.printed()
    (record,) = module.fold().records
    assert record.code is Code.ARITHMETIC
    assert reason in record.reason
    assert module.printed() == before


def test_large_scales_stay_small():
    """What only feeds arithmetic is not repeated, and is left behind its broadcast."""
    of = Numbers(np.ones((64, 32), np.int8), None, np.arange(1, 33, dtype=np.float32)[None] / 64)
    text = Text()
    name = in_stablehlo(text, of)
    module = Module(text.function(name, of.floats))
    before = module.printed()
    (record,) = module.fold().records
    assert record.code is Code.GROWTH
    assert math.prod(of.codes.shape) * 4 - 32 * 4 == 8064
    assert "8064 bytes" in record.reason
    assert module.printed() == before
