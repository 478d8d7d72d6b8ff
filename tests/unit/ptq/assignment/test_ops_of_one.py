"""
One case for each op that ONE quantizes, as tosa, linalg and StableHLO have it.

Operands are on the grid of their codes, and the range of the result is that of the float model, so
that the quantized model may differ by half a step of its result alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from dequantizing_arithmetic import Module, dense
from numpy.typing import NDArray
from xdsl.dialects.builtin import TensorType, i64
from xdsl.ir import Operation

from qdialect.check.interpreters import TypedArray, find_function, run_function
from qdialect.dialects.quant import (
    DequantizeBiasOp,
    DequantizeCastOp,
    QuantizeCastOp,
    UniformQuantizedType,
)
from qdialect.dialects.quant.types import uniform_tensor
from qdialect.ops.interface import name_of
from qdialect.ptq.passes.models import QuantizeWithRangesPass, VerifyQuantizationPass

pytestmark = pytest.mark.usefixtures("without_plugins")

X = "tensor<1x4x4x2xf32>"
TRUTH = "tensor<1x4x4x2xi1>"


class Case(NamedTuple):
    """An op of ONE."""

    text: str
    """Ops that read %x and %y, and make %r; SAME is the type of these."""

    type: str = X
    """The type of the result."""

    kind: str = "own"
    """
    Whether the result is quantized by its range (`own`), as %x (`moved`), by its range as are the
    operands (`shared`), in steps of one (`whole`), or as any `logistic`, `tanh` or `softmax`.
    """

    low: float = -2.0
    """The least number of the operands."""

    high: float = 2.0


def shape(name: str, *numbers: int) -> str:
    held = f"dense<[{', '.join(map(str, numbers))}]> : tensor<{len(numbers)}xindex>"
    return (
        f'{name} = "tosa.const_shape"() <{{values = {held}}}> : () -> !tosa.shape<{len(numbers)}>'
    )


def one(name: str, number: float = 0.0, type: str = "tensor<1xf32>") -> str:
    return f'{name} = "tosa.const"() <{{values = dense<{number}> : {type}}}> : () -> {type}'


SHIFT = '%shift = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>'
INDICES = (
    '%i = "tosa.const"() <{values = dense<[[3, 0]]> : tensor<1x2xi32>}> : () -> tensor<1x2xi32>'
)
POOL = "kernel = array<i64: 2, 2>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 2, 2>"
HALF = "tensor<1x2x2x2xf32>"
ROWS = "tensor<1x16x2xf32>"
AS_ROWS = (
    shape("%s", 1, 16, 2),
    f'%rows = "tosa.reshape"(%x, %s) : (SAME, !tosa.shape<3>) -> {ROWS}',
)
RESIZE = (
    shape("%scale", 4, 2, 4, 2),
    shape("%offset", 0, 0),
    shape("%border", 2, 2),
)
SIZES = "!tosa.shape<4>, !tosa.shape<2>, !tosa.shape<2>"


def lines(*texts: str) -> str:
    return "\n  ".join(texts)


def unary(op: str, attributes: str = "", type: str = X) -> str:
    return f'%r = "{op}"(%x) {attributes} : (SAME) -> {type}'


def binary(op: str, type: str = X, attributes: str = "") -> str:
    return f'%r = "{op}"(%x, %y) {attributes} : (SAME, SAME) -> {type}'


def reduced(axis: int) -> str:
    return f"{{axis = {axis} : i32}}"


CASES = {
    "ABS": Case(unary("tosa.abs")),
    "ADD": Case(binary("tosa.add")),
    "SUB": Case(binary("tosa.sub")),
    "MUL": Case(
        lines(SHIFT, f'%r = "tosa.mul"(%x, %y, %shift) : (SAME, SAME, tensor<1xi8>) -> {X}')
    ),
    "DIV": Case(binary("stablehlo.divide"), low=0.5, high=4),
    "MAXIMUM": Case(binary("tosa.maximum")),
    "MINIMUM": Case(binary("tosa.minimum")),
    "POW": Case(binary("tosa.pow"), low=0.5, high=2),
    "FLOOR_DIV": Case(
        lines(
            f'%d = "stablehlo.divide"(%x, %y) : (SAME, SAME) -> {X}',
            f'%r = "tosa.floor"(%d) : (SAME) -> {X}',
        ),
        kind="whole",
        low=1,
        high=40,
    ),
    "FLOOR_MOD": Case(binary("stablehlo.remainder"), low=1, high=40),
    "FLOOR": Case(unary("tosa.floor"), kind="whole", low=-100, high=90),
    "CEIL": Case(unary("stablehlo.ceil"), kind="whole", low=-100, high=400),
    "ROUND": Case(unary("stablehlo.round_nearest_even"), kind="whole"),
    "EXP": Case(unary("tosa.exp")),
    "LOG": Case(unary("tosa.log"), low=0.5, high=4),
    "NEG": Case(unary("stablehlo.negate")),
    "SQRT": Case(unary("stablehlo.sqrt"), low=0.5, high=4),
    "RSQRT": Case(unary("tosa.rsqrt"), low=0.5, high=4),
    "RELU": Case(unary("tosa.clamp", "{min_val = 0.0 : f32, max_val = 3.40282347E+38 : f32}")),
    "RELU6": Case(unary("tosa.clamp", "{min_val = 0.0 : f32, max_val = 6.0 : f32}"), high=9),
    "LEAKY_RELU": Case(
        lines(
            SHIFT,
            one("%a", 0.25, "tensor<1x1x1x1xf32>"),
            one("%z", 0.0, "tensor<1x1x1x1xf32>"),
            f'%m = "tosa.mul"(%x, %a, %shift) : (SAME, tensor<1x1x1x1xf32>, tensor<1xi8>) -> {X}',
            f'%p = "tosa.greater_equal"(%x, %z) : (SAME, tensor<1x1x1x1xf32>) -> {TRUTH}',
            f'%r = "tosa.select"(%p, %x, %m) : ({TRUTH}, SAME, SAME) -> {X}',
        )
    ),
    "LOGISTIC": Case(unary("tosa.sigmoid"), kind="logistic"),
    "LOGISTIC of StableHLO": Case(unary("stablehlo.logistic"), kind="logistic"),
    "TANH": Case(unary("tosa.tanh"), kind="tanh"),
    "TANH of StableHLO": Case(unary("stablehlo.tanh"), kind="tanh"),
    "SOFTMAX": Case(
        lines(
            SHIFT,
            f'%m = "tosa.reduce_max"(%x) {reduced(3)} : (SAME) -> tensor<1x4x4x1xf32>',
            f'%d = "tosa.sub"(%x, %m) : (SAME, tensor<1x4x4x1xf32>) -> {X}',
            f'%e = "tosa.exp"(%d) : (SAME) -> {X}',
            f'%t = "tosa.reduce_sum"(%e) {reduced(3)} : (SAME) -> tensor<1x4x4x1xf32>',
            '%v = "tosa.reciprocal"(%t) : (tensor<1x4x4x1xf32>) -> tensor<1x4x4x1xf32>',
            f'%r = "tosa.mul"(%e, %v, %shift) : (SAME, tensor<1x4x4x1xf32>, tensor<1xi8>) -> {X}',
        ),
        kind="softmax",
    ),
    "SUM": Case(unary("tosa.reduce_sum", reduced(2), "tensor<1x4x1x2xf32>"), "tensor<1x4x1x2xf32>"),
    "REDUCE_MAX": Case(
        unary("tosa.reduce_max", reduced(2), "tensor<1x4x1x2xf32>"), "tensor<1x4x1x2xf32>"
    ),
    "REDUCE_MIN": Case(
        unary("tosa.reduce_min", reduced(1), "tensor<1x1x4x2xf32>"), "tensor<1x1x4x2xf32>"
    ),
    "MAX_POOL_2D": Case(unary("tosa.max_pool2d", f"{{{POOL}}}", HALF), HALF),
    "AVERAGE_POOL_2D": Case(
        lines(
            one("%z"),
            f'%r = "tosa.avg_pool2d"(%x, %z, %z) {{acc_type = f32, {POOL}}} : '
            f"(SAME, tensor<1xf32>, tensor<1xf32>) -> {HALF}",
        ),
        HALF,
    ),
    "CONCATENATION": Case(
        binary("tosa.concat", "tensor<1x4x8x2xf32>", reduced(2)), "tensor<1x4x8x2xf32>", "shared"
    ),
    "PACK": Case(
        lines(
            shape("%s", 1, 1, 4, 4, 2),
            '%a = "tosa.reshape"(%x, %s) : (SAME, !tosa.shape<5>) -> tensor<1x1x4x4x2xf32>',
            '%b = "tosa.reshape"(%y, %s) : (SAME, !tosa.shape<5>) -> tensor<1x1x4x4x2xf32>',
            f'%r = "tosa.concat"(%a, %b) {reduced(1)} : '
            "(tensor<1x1x4x4x2xf32>, tensor<1x1x4x4x2xf32>) -> tensor<1x2x4x4x2xf32>",
        ),
        "tensor<1x2x4x4x2xf32>",
        "shared",
    ),
    "SELECT_V2": Case(
        lines(
            f'%p = "tosa.const"() <{{values = dense<true> : {TRUTH}}}> : () -> {TRUTH}',
            f'%r = "tosa.select"(%p, %x, %y) : ({TRUTH}, SAME, SAME) -> {X}',
        ),
        kind="shared",
    ),
    "PAD": Case(
        lines(
            shape("%s", 0, 0, 1, 1, 0, 2, 0, 0),
            one("%z"),
            '%r = "tosa.pad"(%x, %s, %z) : (SAME, !tosa.shape<8>, tensor<1xf32>) '
            "-> tensor<1x6x6x2xf32>",
        ),
        "tensor<1x6x6x2xf32>",
        "shared",
    ),
    "RESHAPE": Case(lines(*AS_ROWS).replace("%rows", "%r"), ROWS, "shared"),
    "TRANSPOSE": Case(
        unary("tosa.transpose", "{perms = array<i32: 3, 0, 1, 2>}", "tensor<2x1x4x4xf32>"),
        "tensor<2x1x4x4xf32>",
        "shared",
    ),
    "SLICE": Case(
        lines(
            shape("%a", 0, 1, 0, 0),
            shape("%b", 1, 2, 4, 1),
            '%r = "tosa.slice"(%x, %a, %b) : (SAME, !tosa.shape<4>, !tosa.shape<4>) '
            "-> tensor<1x2x4x1xf32>",
        ),
        "tensor<1x2x4x1xf32>",
        "moved",
    ),
    "STRIDED_SLICE": Case(
        unary(
            "stablehlo.slice",
            "<{limit_indices = array<i64: 1, 4, 4, 2>, start_indices = array<i64: 0, 1, 0, 0>, "
            "strides = array<i64: 1, 2, 2, 1>}>",
            HALF,
        ),
        HALF,
        "moved",
    ),
    "TILE": Case(
        lines(
            shape("%s", 1, 1, 2, 1),
            '%r = "tosa.tile"(%x, %s) : (SAME, !tosa.shape<4>) -> tensor<1x4x8x2xf32>',
        ),
        "tensor<1x4x8x2xf32>",
        "moved",
    ),
    "GATHER": Case(
        lines(
            *AS_ROWS,
            INDICES,
            f'%r = "tosa.gather"(%rows, %i) : ({ROWS}, tensor<1x2xi32>) -> tensor<1x2x2xf32>',
        ),
        "tensor<1x2x2xf32>",
        "moved",
    ),
    "REVERSE_V2": Case(unary("tosa.reverse", reduced(2)), kind="shared"),
    "SPACE_TO_DEPTH": Case(
        lines(
            shape("%s", 1, 2, 2, 2, 2, 2),
            '%a = "tosa.reshape"(%x, %s) : (SAME, !tosa.shape<6>) -> tensor<1x2x2x2x2x2xf32>',
            '%b = "tosa.transpose"(%a) {perms = array<i32: 0, 1, 3, 2, 4, 5>} : '
            "(tensor<1x2x2x2x2x2xf32>) -> tensor<1x2x2x2x2x2xf32>",
            shape("%t", 1, 2, 2, 8),
            '%r = "tosa.reshape"(%b, %t) : (tensor<1x2x2x2x2x2xf32>, !tosa.shape<4>) '
            "-> tensor<1x2x2x8xf32>",
        ),
        "tensor<1x2x2x8xf32>",
        "shared",
    ),
    "RESIZE_NEAREST_NEIGHBOR": Case(
        lines(
            *RESIZE,
            f'%r = "tosa.resize"(%x, %scale, %offset, %border) {{mode = "NEAREST_NEIGHBOR"}} : '
            f"(SAME, {SIZES}) -> tensor<1x8x8x2xf32>",
        ),
        "tensor<1x8x8x2xf32>",
        "moved",
    ),
    "RESIZE_BILINEAR": Case(
        lines(
            *RESIZE,
            f'%r = "tosa.resize"(%x, %scale, %offset, %border) {{mode = "BILINEAR"}} : '
            f"(SAME, {SIZES}) -> tensor<1x8x8x2xf32>",
        ),
        "tensor<1x8x8x2xf32>",
    ),
    "BATCH_MATMUL": Case(
        lines(
            *AS_ROWS,
            one("%z"),
            f'%t = "tosa.transpose"(%rows) {{perms = array<i32: 0, 2, 1>}} : ({ROWS}) '
            "-> tensor<1x2x16xf32>",
            '%r = "tosa.matmul"(%rows, %t, %z, %z) : '
            f"({ROWS}, tensor<1x2x16xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x16x16xf32>",
        ),
        "tensor<1x16x16xf32>",
    ),
}
"""By the name that ONE has for the op."""

WITHOUT_ARITHMETIC = {
    "EQUAL": Case(binary("tosa.equal", TRUTH), TRUTH),
    "GREATER": Case(binary("tosa.greater", TRUTH), TRUTH),
    "GREATER_EQUAL": Case(binary("tosa.greater_equal", TRUTH), TRUTH),
    "ARG_MAX": Case(unary("tosa.argmax", reduced(1), "tensor<1x4x2xi32>"), "tensor<1x4x2xi32>"),
}
"""Ops whose results are not floats, and are not quantized."""

SETTINGS = [("one-u8", "layer"), ("one-u8", "channel"), ("one-s16", "channel")]


def slot_of_range(low: float, high: float, scheme: str) -> tuple[float, int]:
    """ONE's scale and zero point, by the formulas of its source, in float64."""
    low, high = float(np.float32(low)), float(np.float32(high))
    least, greatest = min(0.0, low), max(0.0, high)
    if scheme == "one-s16":
        return float(np.float32(max(max(-least, greatest) / 32767, 1e-8))), 0
    scale = (greatest - least) / 255
    zero = 0 if low >= 0 else 255 if high < 0 else int(np.floor(-least / scale + 0.5))
    if scale < 1e-5:
        scale, zero = 1e-5, int(np.floor(-least / 1e-5 + 0.5))
    return float(np.float32(scale)), zero


def expected_slot(kind: str, low: float, high: float, scheme: str) -> tuple[float, int]:
    is_wide = scheme == "one-s16"
    match kind:
        case "logistic":
            return (1 / 32768, 0) if is_wide else (1 / 256, 0)
        case "tanh":
            return (1 / 32768, 0) if is_wide else (2 / 256, 128)
        case "softmax":
            return float(np.float32(1 / (32767 if is_wide else 255))), 0
        case "whole":
            scale, zero = slot_of_range(low, high, scheme)
            return (1.0 if scale < 1 else float(np.floor(scale + 0.5))), zero
        case _:
            return slot_of_range(low, high, scheme)


def text_of(case: Case, ranges: dict[str, tuple[float, float]]) -> str:
    """The function of a case, in which the values that have ranges have `quant.stats`."""
    body = case.text.replace("SAME", X)
    for name in ("x", "y"):
        body = body.replace(f"%{name},", f"%{name}1,").replace(f"%{name})", f"%{name}1)")

    def recorded(name: str, type: str) -> str:
        low, high = (f"0x{np.float32(end).view('u4'):08X}" for end in ranges[name])
        held = f"dense<[{low}, {high}]> : tensor<2xf32>"
        return f"%{name}1 = quant.stats %{name} {{layerStats = {held}}} : {type}"

    if not ranges:
        body = body.replace("%x1", "%x").replace("%y1", "%y")
        return f"func.func @f(%x: {X}, %y: {X}) -> {case.type} {{\n  {body}\n  " + (
            f"return %r : {case.type}\n}}\n"
        )
    parts = [recorded("x", X), recorded("y", X), body]
    end = "%r"
    if "r" in ranges:
        parts.append(recorded("r", case.type))
        end = "%r1"
    parts.append(f"return {end} : {case.type}")
    # Of two ops of ONE's, that between has a range, too.
    if "d" in ranges:
        parts[2] = parts[2].replace("\n", f"\n  {recorded('d', X)}\n", 1).replace("(%d)", "(%d1)")
    inner = "\n  ".join(parts)
    return f"func.func @f(%x: {X}, %y: {X}) -> {case.type} {{\n  {inner}\n}}\n"


def run(module: Module, *arguments: NDArray[np.float32]) -> NDArray[Any]:
    types = find_function(module.module, "f").function_type.inputs
    given = [
        TypedArray.of(each.view("u4"), type) for each, type in zip(arguments, types, strict=True)
    ]
    (found,) = run_function(module.module, "f", given, module.context)
    return np.asarray(found.numbers)


def on_grid(seed: int, low: float, high: float, scheme: str) -> NDArray[np.float32]:
    """Numbers that codes stand for."""
    scale, _ = slot_of_range(low, high, scheme)
    first, last = int(np.ceil(low / scale)), int(np.floor(high / scale))
    codes = np.random.default_rng(seed).integers(first, last + 1, (1, 4, 4, 2))
    return (codes * np.float32(scale)).astype("f4")


def read_type(op: Operation, number: int) -> UniformQuantizedType | None:
    owner = op.operands[number].owner
    return (
        uniform_tensor(owner.input.type).element_type
        if isinstance(owner, DequantizeCastOp)
        else None
    )


def slot(type: UniformQuantizedType) -> tuple[float, int]:
    return type.single_slot.scale, type.single_slot.zero_point


@pytest.mark.parametrize(("scheme", "granularity"), SETTINGS)
@pytest.mark.parametrize("name", CASES)
def test_parameters_and_results(name: str, scheme: str, granularity: str):
    case = CASES[name]
    x, y = (on_grid(seed, case.low, case.high, scheme) for seed in (1, 2))
    exact = run(Module(text_of(case, {})), x, y)
    ends = (case.low, case.high)
    made = float(exact.min()), float(exact.max())
    ranges = {"x": ends, "y": ends, "r": made}
    if '%d = "stablehlo.divide' in case.text:
        quotient = x / y
        ranges["d"] = float(quotient.min()), float(quotient.max())
    module = Module(text_of(case, ranges))
    module.run(QuantizeWithRangesPass(scheme=scheme, granularity=granularity))
    module.module.verify()
    VerifyQuantizationPass(scheme=scheme, granularity=granularity, strict=True).apply(
        module.context, module.module
    )
    (function,) = (op for op in module.module.walk() if op.name == "func.func")
    end = function.regions[0].block.last_op
    assert end is not None
    result = read_type(end, 0)
    assert result is not None, "the result stays in floats"
    of_x = slot_of_range(*ends, scheme)
    expected = of_x if case.kind == "moved" else expected_slot(case.kind, *made, scheme)
    assert slot(result) == expected
    if case.kind == "shared":
        # What only that op reads has the parameters of the result.
        of_x = expected
    types = [
        uniform_tensor(op.result.type).element_type
        for op in module.module.walk()
        if isinstance(op, QuantizeCastOp) and op.result.name_hint == "x"
    ]
    assert [slot(type) for type in types] == [of_x]
    # One rounding of the result, and of what is between; a fixed range ends below one.
    scale = expected[0]
    steps = 0.5 if case.kind not in ("logistic", "tanh") else 1.0
    bound = steps * scale
    if case.kind == "moved":
        bound = 0.0
    if "d" in ranges:
        bound += 1 + slot_of_range(*ranges["d"], scheme)[0]
    found = run(module, x, y)
    assert np.abs(found - exact).max() <= bound * (1 + 1e-5) + 1e-6


@pytest.mark.parametrize(("scheme", "granularity"), SETTINGS)
@pytest.mark.parametrize("name", WITHOUT_ARITHMETIC)
def test_results_that_are_no_floats(name: str, scheme: str, granularity: str):
    case = WITHOUT_ARITHMETIC[name]
    x, y = (on_grid(seed, case.low, case.high, scheme) for seed in (1, 2))
    exact = run(Module(text_of(case, {})), x, y)
    ends = (case.low, case.high)
    module = Module(text_of(case, {"x": ends, "y": ends}))
    module.run(QuantizeWithRangesPass(scheme=scheme, granularity=granularity))
    (op,) = (op for op in module.module.walk() if op.results and op.name.startswith("tosa."))
    for number in range(len(op.operands)):
        type = read_type(op, number)
        assert type is not None
        assert slot(type) == slot_of_range(*ends, scheme)
    assert np.array_equal(run(module, x, y), exact)


WINDOW = "stride = array<i64: 1, 1>"
PADDED = f"pad = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, {WINDOW}"


class Layer(NamedTuple):
    """A layer of ONE, and the axis of its weights that is the channel."""

    op: str
    weights: tuple[int, ...]
    axis: int
    channels: int
    attributes: str = ""


LAYERS = {
    "CONV_2D": Layer("conv2d", (3, 1, 1, 2), 0, 3, PADDED),
    "DEPTHWISE_CONV_2D": Layer("depthwise_conv2d", (1, 1, 2, 1), 2, 2, PADDED),
    "TRANSPOSE_CONV": Layer(
        "transpose_conv2d", (3, 1, 1, 2), 0, 3, f"out_pad = array<i64: 0, 0, 0, 0>, {WINDOW}"
    ),
    "FULLY_CONNECTED": Layer("matmul", (1, 2, 3), 2, 3),
}


def text_of_layer(
    layer: Layer,
    weights: NDArray[np.float32],
    bias: NDArray[np.float32],
    ranges: tuple[tuple[float, float], ...],
) -> str:
    zero = "tensor<1xf32>"
    parts = [one("%z"), f'%w = "tosa.const"() <{{values = {dense(weights)}}}> : () -> %WT']
    made = f"tensor<1x4x4x{layer.channels}xf32>"
    read, type = ("%x1", X) if ranges else ("%x", X)
    if layer.op == "matmul":
        rows = AS_ROWS[1].replace("%x,", f"{read},").replace("SAME", X)
        parts += [AS_ROWS[0], rows]
        read, type, made = "%rows", ROWS, f"tensor<1x16x{layer.channels}xf32>"
        bias = bias.reshape(1, 1, -1)
    held = f"tensor<{'x'.join(map(str, bias.shape))}xf32>"
    parts.append(f'%b = "tosa.const"() <{{values = {dense(bias)}}}> : () -> {held}')
    if layer.op == "matmul":
        parts += [
            f'%p = "tosa.matmul"({read}, %w, %z, %z) : ({type}, %WT, {zero}, {zero}) -> {made}',
            f'%r = "tosa.add"(%p, %b) : ({made}, {held}) -> {made}',
        ]
    else:
        parts.append(
            f'%r = "tosa.{layer.op}"({read}, %w, %b, %z, %z) <{{acc_type = f32, '
            f"{layer.attributes}}}> : ({type}, %WT, {held}, {zero}, {zero}) -> {made}"
        )
    body = "\n  ".join(parts)
    body = body.replace("%WT", f"tensor<{'x'.join(map(str, weights.shape))}xf32>")
    end = "%r"
    if ranges:
        first, last = (
            f"{{layerStats = {dense(np.array(each, 'f4'))}}}" for each in (ranges[0], ranges[1])
        )
        body = f"%x1 = quant.stats %x {first} : {X}\n  {body}\n  "
        body += f"%r1 = quant.stats %r {last} : {made}"
        end = "%r1"
    return f"func.func @f(%x: {X}) -> {made} {{\n  {body}\n  return {end} : {made}\n}}\n"


@pytest.mark.parametrize(("scheme", "granularity"), SETTINGS)
@pytest.mark.parametrize("name", LAYERS)
def test_weights_and_biases(name: str, scheme: str, granularity: str):
    layer, random = LAYERS[name], np.random.default_rng(5)
    weights = random.normal(size=layer.weights).astype("f4")
    bias = random.normal(size=layer.channels).astype("f4")
    x = on_grid(3, -2, 2, scheme)
    exact = run(Module(text_of_layer(layer, weights, bias, ())), x)
    made = float(exact.min()), float(exact.max())
    module = Module(text_of_layer(layer, weights, bias, ((-2.0, 2.0), made)))
    module.run(QuantizeWithRangesPass(scheme=scheme, granularity=granularity))
    (op,) = (op for op in module.module.walk() if name_of(op) == f"tosa.{layer.op}")
    of_weights = read_type(op, 1)
    assert of_weights is not None
    rows = np.moveaxis(weights, layer.axis, 0).reshape(layer.channels, -1)
    rows = rows.reshape(1, -1) if granularity == "layer" else rows
    slots = [slot_of_range(row.min(), row.max(), scheme) for row in rows]
    found = zip(of_weights.scales.reshape(-1), of_weights.zero_points.reshape(-1), strict=True)
    assert [(float(scale), int(zero)) for scale, zero in found] == slots
    axes = () if granularity == "layer" else (layer.axis,)
    assert of_weights.quantized_dimensions == axes
    (adder,) = [op] if layer.op != "matmul" else [use.operation for use in op.results[0].uses]
    back = adder.operands[1 if layer.op == "matmul" else 2].owner
    of_input = slot_of_range(-2, 2, scheme)[0]
    steps = [float(np.float32(np.float32(of_input) * np.float32(scale))) for scale, _ in slots]
    if scheme == "one-s16":
        # 32 bits are too few.
        assert isinstance(back, DequantizeBiasOp)
        codes: Any = back.operands[0].type
        assert isinstance(codes, TensorType)
        assert codes.get_element_type() == i64
    else:
        assert isinstance(back, DequantizeCastOp)
        type = uniform_tensor(back.input.type).element_type
        assert type.storage_format.width == 32
        assert not type.zero_points.any()
        assert type.scales.reshape(-1).tolist() == steps
    # Half a step of the result, of the bias, and of each weight.
    summed = rows.size // len(rows) if granularity == "channel" else rows.size // layer.channels
    bound = slot_of_range(*made, scheme)[0] + max(steps) + 2 * summed * max(s for s, _ in slots)
    assert np.abs(run(module, x) - exact).max() <= bound / 2 * (1 + 1e-5) + 1e-6


@pytest.mark.parametrize("scheme", ["one-u8", "one-s16", "torch-i8", "glow-i8"])
@pytest.mark.parametrize("is_shared", [None, False, True])
def test_max_pools(scheme: str, *, is_shared: bool | None):
    case = CASES["MAX_POOL_2D"]
    module = Module(text_of(case, {"x": (-2.0, 2.0), "y": (-2.0, 2.0), "r": (-0.5, 1.0)}))
    module.run(QuantizeWithRangesPass(scheme=scheme, tf_style_maxpool=is_shared))
    VerifyQuantizationPass(scheme=scheme, strict=True).apply(module.context, module.module)
    (of_x, of_result) = (
        uniform_tensor(op.result.type).element_type
        for op in module.module.walk()
        if isinstance(op, QuantizeCastOp) and op.result.name_hint in ("x", "r")
    )
    expected = not scheme.startswith("one") if is_shared is None else is_shared
    assert (of_x == of_result) == expected
