"""Casts of floats and tables, lowered: every code, and numbers at, above and below each tie."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from folded_modules import parse
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float64Type,
    IntegerType,
    Signedness,
    TensorType,
    f32,
)

from qdialect.check.compared_modules import Side
from qdialect.check.interpreters import TypedArray
from qdialect.check.interpreters.interpreter import find_function, run_function
from qdialect.check.iree_runs import LoadedModule, compile_module
from qdialect.dialects.quant import QuantileType
from qdialect.ir.errors import OpErrors
from qdialect.passes.lower_quant_ops import LowerQuantOpsPass
from qdialect.passes.lower_quant_shapes import LowerQuantShapesPass
from qdialect.passes.strip_func_quant_types import StripFuncQuantTypesPass

FLOATS = {
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f4E2M1FN": ml_dtypes.float4_e2m1fn,
    "f6E2M3FN": ml_dtypes.float6_e2m3fn,
    "f6E3M2FN": ml_dtypes.float6_e3m2fn,
}

TABLE = [-1.0, -0.6875, -0.5, -0.375, -0.25, -0.1875, -0.125, 0.0, 0.0625, 0.125, 0.25, 0.375]
"""Of codes from -6 to 5."""


def values_of(name: str) -> NDArray[np.float32]:
    """The number of each code, by ml_dtypes."""
    dtype = np.dtype(FLOATS[name])
    count = 1 << (8 if name.startswith("f8") else int(name[1]))
    return np.arange(count, dtype=np.uint8).view(dtype).astype(np.float32)


def around(values: NDArray[Any], *, has_nan: bool) -> NDArray[np.float32]:
    """The values, the middles between them, their neighbours, and what is far beyond."""
    known = np.unique(values[np.isfinite(values)])
    middles = (known[1:] + known[:-1]) / np.float32(2)
    near = [known, middles, np.nextafter(middles, np.float32(9)), np.nextafter(middles, -middles)]
    special = [3e38, -3e38, 1e-45, -1e-45, 0.0, -0.0, np.inf, -np.inf, *[np.nan] * has_nan]
    rng = np.random.default_rng(5)
    random = rng.normal(size=300) * np.exp(4 * rng.normal(size=300))
    return np.concatenate([*near, np.array(special), random]).astype(np.float32)


def nearest(name: str, numbers: NDArray[Any]) -> NDArray[np.uint8]:
    """The nearest codes by ml_dtypes, saturated."""
    dtype = np.dtype(FLOATS[name])
    finfo: Any = ml_dtypes.finfo
    largest = float(finfo(dtype).max)
    with np.errstate(all="ignore"):
        return np.clip(numbers, -largest, largest).astype(dtype).view(np.uint8)


def bits(numbers: NDArray[Any]) -> NDArray[np.uint32]:
    """With one pattern of NaN."""
    return np.where(np.isnan(numbers), np.float32("nan"), numbers).astype("f4").view(np.uint32)


def module_of(name: str, count: int) -> str:
    listed = "".join(f"{code:02X}" for code in range(len(values_of(name))))
    size = len(values_of(name))
    return f"""
!q = !quant.uniform<{name}:f32, 0.5>
func.func @main(%x: tensor<{count}xf32>) -> (tensor<{size}xf32>, tensor<{count}x!q>) {{
  %c = quant.constant dense<"0x{listed}"> : tensor<{size}x!q>
  %d = quant.dcast %c : tensor<{size}x!q> to tensor<{size}xf32>
  %q = quant.qcast %x : tensor<{count}xf32> to tensor<{count}x!q>
  return %d, %q : tensor<{size}xf32>, tensor<{count}x!q>
}}"""


def lowered(text: str) -> Any:
    module, context = parse(text)
    steps = LowerQuantOpsPass(), LowerQuantShapesPass(), StripFuncQuantTypesPass()
    for step in steps:
        step.apply(context, module)
    module.verify()
    # Two that undo each other are left.
    assert {op.name for op in module.walk() if op.name.startswith("quant.")} <= {"quant.scast"}
    return module


def check(name: str, numbers: NDArray[Any], results: Any) -> None:
    read, codes = results
    half = np.float32(0.5)
    assert np.array_equal(bits(read.elements.view("f4")), bits(values_of(name) * half))
    expected = nearest(name, numbers / half)
    nan = np.isnan(numbers)
    stored = codes.elements.astype(np.int64) & 255
    assert np.array_equal(stored[~nan], expected[~nan])
    assert np.isnan(values_of(name)[stored[nan]]).all()


@pytest.mark.parametrize("name", FLOATS)
def test_each_code_is_read_and_found(name: str) -> None:
    numbers = around(values_of(name) / 2, has_nan=name.startswith("f8"))
    given = TypedArray.of(numbers.view("u4"), TensorType(f32, [numbers.size]))
    results = run_function(lowered(module_of(name, numbers.size)), "main", [given])
    check(name, numbers, results)


@pytest.mark.without_xdsl
@pytest.mark.iree
@pytest.mark.parametrize("name", FLOATS)
def test_each_code_is_read_and_found_by_iree(name: str) -> None:
    numbers = around(values_of(name) / 2, has_nan=name.startswith("f8"))
    given = TypedArray.of(numbers.view("u4"), TensorType(f32, [numbers.size]))
    module, context = parse(module_of(name, numbers.size))
    written, binary = compile_module(Side(module, context))
    check(name, numbers, LoadedModule(binary).run(find_function(written, "main"), [given]))


EXPRESSED = {
    "f16": (Float16Type(), np.float16),
    "bf16": (BFloat16Type(), ml_dtypes.bfloat16),
    "f64": (Float64Type(), np.float64),
}


@pytest.mark.parametrize("expressed", EXPRESSED)
def test_other_expressed_types(expressed: str) -> None:
    """Numbers between are narrower or wider than those of f32."""
    type, dtype = EXPRESSED[expressed]
    text = module_of("f8E4M3FN", 1).replace("f32", expressed).replace("0.5>", "1.0>")
    with np.errstate(all="ignore"):
        numbers = np.unique(around(values_of("f8E4M3FN"), has_nan=False).astype(dtype))
    numbers = numbers[np.isfinite(numbers.astype("f8"))]
    text = text.replace(f"tensor<1x{expressed}>", f"tensor<{numbers.size}x{expressed}>")
    text = text.replace("tensor<1x!q>", f"tensor<{numbers.size}x!q>")
    stored = TypedArray.of(numbers.view(f"u{numbers.itemsize}"), TensorType(type, [numbers.size]))
    read, codes = run_function(lowered(text), "main", [stored])
    found = read.elements.view(dtype).astype("f4")
    assert np.array_equal(bits(found), bits(values_of("f8E4M3FN")))
    dtype = np.dtype(FLOATS["f8E4M3FN"])
    expected = np.clip(numbers.astype("f8"), -448, 448).astype(dtype).view(np.uint8)
    # From double to f8 at once: ml_dtypes rounds only once, too.
    assert np.array_equal(codes.elements.view(np.uint8), expected)


def test_a_table_with_a_range_and_zero_points() -> None:
    """The nearest entry, and the lower code of two."""
    table = QuantileType.of(IntegerType(4, Signedness.SIGNED), f32, TABLE, (-6, 5))
    slots = "{0.5, 0.25:-1, 2.0}"
    text = f"""
!q = !quant.uniform<{table}:f32:0, {slots}>
func.func @main(%x: tensor<3x200xf32>) -> (tensor<3x200x!q>, tensor<3x200xf32>) {{
  %q = quant.qcast %x : tensor<3x200xf32> to tensor<3x200x!q>
  %d = quant.dcast %q : tensor<3x200x!q> to tensor<3x200xf32>
  return %q, %d : tensor<3x200x!q>, tensor<3x200xf32>
}}"""
    module, context = parse(text)
    LowerQuantOpsPass(keep_round_trips=True).apply(context, module)
    StripFuncQuantTypesPass().apply(context, module)
    module.verify()
    numbers = np.random.default_rng(2).normal(size=(3, 200)).astype("f4")
    middles = (np.array(TABLE[1:]) + TABLE[:-1]) / 2
    scales, zeros = np.array([[0.5], [0.25], [2.0]], "f4"), np.array([[0], [-1], [0]], "f4")
    numbers[:, : len(middles)] = (middles - zeros) * scales
    given = TypedArray.of(numbers.view("u4"), TensorType(f32, [3, 200]))
    codes, read = run_function(module, "main", [given])
    places = numbers / scales + zeros
    distances = np.abs(places[..., None].astype("f8") - np.array(TABLE))
    expected = distances.argmin(axis=-1)
    assert np.array_equal(codes.elements.astype(np.int64), expected - 6)
    values = (np.array(TABLE, "f4")[expected] - zeros) * scales
    assert np.array_equal(read.elements.view("f4"), values)


def test_signatures_hold_bytes() -> None:
    module = lowered(module_of("f4E2M1FN", 3))
    assert str(find_function(module, "main").function_type.outputs.data[1]) == "tensor<3xi8>"


def test_only_what_a_pass_lowers_needs_integers() -> None:
    text = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %q = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<f8E5M2:f32, 0.5>>
  %d = quant.dcast %q : tensor<2x!quant.uniform<f8E5M2:f32, 0.5>> to tensor<2xf32>
  return %d : tensor<2xf32>
}"""
    module, context = parse(text)
    before = str(module)
    LowerQuantShapesPass().apply(context, module)
    assert str(module) == before
    # As in MLIR, it drops casts that undo each other.
    StripFuncQuantTypesPass().apply(context, module)
    assert [op.name for op in module.walk() if op.name.startswith("quant.")] == ["quant.qcast"]


def test_values_without_casts_may_be_of_other_ops() -> None:
    text = """
func.func @main(%x: tensor<2x!quant.uniform<i8:f32, 0.5>>) -> tensor<2xf32> {
  %r = "other.op"() ({
  ^bb0(%c: tensor<2x!quant.any<f8E4M3FN>>):
    "other.end"() : () -> ()
  }) : () -> tensor<3x!quant.any<f8E5M2>>
  %d = quant.dcast %x : tensor<2x!quant.uniform<i8:f32, 0.5>> to tensor<2xf32>
  return %d : tensor<2xf32>
}"""
    module, context = parse(text)
    for step in (LowerQuantOpsPass(), LowerQuantShapesPass(), StripFuncQuantTypesPass()):
        step.apply(context, module)
    module.verify()
    assert "!quant.any<f8E5M2>" in str(module)
    assert "quant.dcast" not in str(module)


def test_what_other_ops_read_is_an_error() -> None:
    text = """
!q = !quant.uniform<f8E4M3FN:f32, 0.5>
func.func @main(%q: tensor<2x!q>) -> tensor<2xf32> {
  %r = "other.op"(%q) : (tensor<2x!q>) -> tensor<2xf32>
  %s = quant.reverse %q dims = [0] : tensor<2x!q> to tensor<2x!q>
  %d = quant.dcast %s : tensor<2x!q> to tensor<2xf32>
  return %d : tensor<2xf32>
}"""
    for step in (LowerQuantOpsPass(), LowerQuantShapesPass(), StripFuncQuantTypesPass()):
        module, context = parse(text)
        before = str(module)
        with pytest.raises(OpErrors, match="it has values of type"):
            step.apply(context, module)
        assert str(module) == before
