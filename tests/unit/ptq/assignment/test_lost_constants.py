"""Constants that codes would lose, or that would make codes lose the other operand."""

from __future__ import annotations

import numpy as np
import pytest
from dequantizing_arithmetic import Module

from qdialect.dialects.quant import DequantizeCastOp, QuantizeCastOp
from qdialect.ir.value_types import is_tensor
from qdialect.ops.interface import RefusalCode, name_of
from qdialect.ptq.passes.models import QuantizeWithRangesPass

pytestmark = pytest.mark.usefixtures("without_plugins")


def quantized(module: Module) -> set[str]:
    """The names of the values that are quantized."""
    names = (op.input.name_hint for op in module.module.walk() if isinstance(op, QuantizeCastOp))
    return {name or "" for name in names}


def stats(name: str, operand: str, low: float, high: float, type: str) -> str:
    held = f"layerStats = dense<[{low:e}, {high:e}]> : tensor<2xf32>"
    return f"%{name} = quant.stats %{operand} {{{held}}} : {type}"


T = "tensor<2x2xf32>"

MASKED = """
func.func @f(%x: {T}, %c: tensor<2x2xi1>) -> {T} {{
  {x}
  %m = arith.constant dense<{mask}> : {T}
  %masked0 = {op}
  {masked}
  %again0 = arith.addf %masked, %in : {T}
  {again}
  %e0 = math.exp %again : {T}
  {e}
  %t0 = math.tanh %e : {T}
  {t}
  return %t : {T}
}}
"""

ADDED = f"arith.addf %in, %m : {T}"
SUBTRACTED = f"arith.subf %in, %m : {T}"
SELECTED = f"arith.select %c, %in, %m : tensor<2x2xi1>, {T}"


@pytest.mark.parametrize(
    ("op", "mask", "is_mask"),
    [
        (ADDED, [0, -100, 0, 0], True),
        (ADDED, [0, -1e9, 0, 0], True),
        (ADDED, [1, -1e9, 0, -2], True),
        (SUBTRACTED, [0, 100, 100, 0], True),
        # A bias of two channels.
        (ADDED, [0, -100, 0, -100], False),
        (ADDED, [0, -1e9, 0, -1e9], True),
        (ADDED, [1, -100, 0, 0], False),
        (SELECTED, [-100] * 4, True),
        (SELECTED, [-3e38] * 4, True),
        (SELECTED, [float(np.finfo("f4").min)] * 4, True),
        (SELECTED, [1e6] * 4, True),
        # All elements are shifted.
        (ADDED, [-100] * 4, False),
        # There are numbers of all magnitudes.
        (ADDED, [0, -5, -20, -100], False),
        (ADDED, [0, -2, 2, 1], False),
        (SELECTED, [-4] * 4, False),
        (SELECTED, [0] * 4, False),
    ],
)
def test_masks_do_not_set_scales(op: str, mask: list[float], is_mask: bool):
    """Masked values stay float, until their range is no longer that of the mask."""
    least = min(-2.0, min(mask) - 2, -max(mask) - 2)
    most = max(2.0, max(mask)) if op == SELECTED else 2.0
    module = Module(
        MASKED.format(
            T=T,
            op=op,
            mask="[[{:e}, {:e}], [{:e}, {:e}]]".format(*mask),
            x=stats("in", "x", -2, 2, T),
            masked=stats("masked", "masked0", max(least, -3.4e38), most, T),
            again=stats("again", "again0", max(least, -3.4e38), most + 2, T),
            e=stats("e", "e0", 0, 50, T),
            t=stats("t", "t0", 0, 1, T),
        )
    )
    report = module.run(QuantizeWithRangesPass())
    own = set[str]() if is_mask else {"x", "masked0", "again0"}
    assert quantized(module) == {"e0", "t0"} | own
    told = {record.op_name: (record.code, record.reason) for record in report.records}
    if is_mask:
        masks = {"math.exp", "arith.select"} if op == SELECTED else {"math.exp"}
        assert {name for name, (code, _) in told.items() if code is RefusalCode.NUMERICS} >= masks
        reason = "as 'masked0' does: it masks with numbers far outside of the range"
        assert reason in told["math.exp"][1]


LAYER_NORM = """
func.func @f(%x: tensor<4x3xf32>) -> tensor<4x2xf32> {{
  {x}
  %w = arith.constant dense<0.5> : tensor<3x2xf32>
  %i = arith.constant dense<0.0> : tensor<4x2xf32>
  %layer0 = linalg.matmul ins(%in, %w : tensor<4x3xf32>, tensor<3x2xf32>)
    outs(%i : tensor<4x2xf32>) -> tensor<4x2xf32>
  {layer}
  %square0 = arith.mulf %layer, %layer : tensor<4x2xf32>
  {square}
  %epsilon = arith.constant dense<{epsilon:e}> : tensor<4x2xf32>
  %sum0 = arith.addf %square, %epsilon : tensor<4x2xf32>
  {sum}
  %log0 = math.log %sum : tensor<4x2xf32>
  {log}
  return %log : tensor<4x2xf32>
}}
"""


@pytest.mark.parametrize(
    ("scheme", "epsilon", "is_lost"),
    [
        # The least scales are 1e-5 in ONE, 2^-23 in torch, and none in Glow.
        ("one-u8", 1e-6, True),
        ("one-u8", 1e-3, False),
        ("torch-i8", 1e-6, False),
        ("torch-i8", 1e-12, True),
        ("glow-i8", 1e-12, False),
        ("one-s16", 1e-6, False),
        ("one-s16", 1e-12, True),
        ("one-u8", 0.0, False),
    ],
)
def test_an_epsilon_that_codes_would_lose_stays_float(scheme: str, epsilon: float, is_lost: bool):
    """So does the variance that it is added to, up to the layer before."""
    ranges = {"layer": (-8, 8), "square": (1e-4, 64), "sum": (1e-4, 64), "log": (0.01, 8)}
    lines = {
        name: stats(name, f"{name}0", *ends, "tensor<4x2xf32>") for name, ends in ranges.items()
    }
    lines["x"] = stats("in", "x", -2, 2, "tensor<4x3xf32>")
    module = Module(LAYER_NORM.format(epsilon=epsilon, **lines))
    report = module.run(QuantizeWithRangesPass(scheme=scheme))
    of_variance = {"square0", "sum0", "log0"}
    assert quantized(module) == {"x", "layer0"} | (set[str]() if is_lost else of_variance)
    (constant,) = (
        value
        for op in module.module.walk()
        if name_of(op) == "arith.addf" and is_tensor(op.results[0].type)
        for value in op.operands[1:]
    )
    assert isinstance(constant.owner, DequantizeCastOp) is not is_lost
    told = {record.op_name: record.reason for record in report.records}
    if is_lost:
        assert told["arith.addf"] == "codes would lose its operand 1, a very small constant"
        assert told["arith.mulf"].startswith("its result 'square0' stays in floats, as 'sum0' does")
        assert told["math.log"].startswith("its operand 'sum0' stays in floats, as 'sum0' does")


TINY = """
func.func @f(%x: tensor<1x2xf32>, %p: tensor<1x2xi1>, %at: tensor<1x2xi32>) -> TYPE {
  INPUT
  %zero = arith.constant dense<0.0> : tensor<1x2xf32>
  %c = "tosa.const"() {values = dense<NUMBER> : CONSTANT} : () -> CONSTANT
  %r0 = OP
  RESULT
  return %r : TYPE
}
"""
SAME = "tensor<1x2xf32>"
TINY_OPS = {
    "matmul": (
        f"linalg.matmul ins(%in, %c : {SAME}, tensor<2x2xf32>) outs(%zero : {SAME}) -> {SAME}",
        "tensor<2x2xf32>",
        SAME,
        "codes would lose its weights, which are very small: all would be 0",
    ),
    "gather": (
        "tosa.gather %c, %at : (tensor<1x3x2xf32>, tensor<1x2xi32>) -> tensor<1x2x2xf32>",
        "tensor<1x3x2xf32>",
        "tensor<1x2x2xf32>",
        "codes would lose its weights, which are very small: all would be 0",
    ),
    "concat": (
        f"tosa.concat %in, %c {{axis = 0 : i32}} : ({SAME}, {SAME}) -> tensor<2x2xf32>",
        SAME,
        "tensor<2x2xf32>",
        "codes of its result would lose its operand 1, a very small constant",
    ),
    "select": (
        f"tosa.select %p, %in, %c : (tensor<1x2xi1>, {SAME}, {SAME}) -> {SAME}",
        SAME,
        SAME,
        "codes of its result would lose its operand 2, a very small constant",
    ),
    "maximum": (
        f"tosa.maximum %in, %c : ({SAME}, {SAME}) -> {SAME}",
        SAME,
        SAME,
        "codes would lose its operand 1, a very small constant",
    ),
}


@pytest.mark.parametrize("number", [1e-7, 0.5, 0.0])
@pytest.mark.parametrize("name", TINY_OPS)
def test_a_constant_whose_only_code_is_zero_has_none(name: str, number: float):
    op, constant, type, reason = TINY_OPS[name]
    text = TINY.replace("OP", op).replace("CONSTANT", constant).replace("TYPE", type)
    text = text.replace("NUMBER", f"{number:e}").replace("INPUT", stats("in", "x", -1, 1, SAME))
    module = Module(text.replace("RESULT", stats("r", "r0", -1, 1, type)))
    report = module.run(QuantizeWithRangesPass(scheme="one-u8"))
    (reader,) = (each for each in module.module.walk() if name_of(each).endswith(f".{name}"))
    has_codes = any(isinstance(value.owner, DequantizeCastOp) for value in reader.operands)
    told = [each.reason for each in report.records if each.code is RefusalCode.NUMERICS]
    is_lost = number == 1e-7
    assert told == ([reason] if is_lost else [])
    assert has_codes is not is_lost
    assert ("r0" in quantized(module)) is not is_lost
