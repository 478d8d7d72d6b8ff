"""Folds of floats and tables: dequantize(fold(c)) == op(dequantize(c)), bit for bit."""

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from example_counts import examples
from folded_modules import fold, owner, parse, returned, slots_of
from hypothesis import given
from hypothesis import strategies as st
from moved_functions import text_of
from numpy.typing import NDArray
from own_ops import OWN_OPS, own_movements
from xdsl.dialects.builtin import (
    Float4E2M1FNType,
    Float6E2M3FNType,
    Float6E3M2FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    IntegerType,
    ModuleOp,
    Signedness,
    TensorType,
    f32,
    i8,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region

from qdialect.algebra.views import Splat
from qdialect.check.interpreters.interpreter import run_function
from qdialect.dialects.quant import (
    ConstantOp,
    DequantizeCastOp,
    QuantileType,
    Storage,
    UniformQuantizedType,
    infer_result_type,
)
from qdialect.dialects.quant.types import uniform_tensor
from qdialect.passes.dequantization import RaiseDequantizationPass
from qdialect.passes.lower_quant_shapes import LowerQuantShapesPass
from qdialect.testing.movements import numpy_moves
from qdialect.testing.tensors import expanded, parameters, shapes

Bits = NDArray[np.uint32]

FLOATS = {
    Float8E4M3FNType(): ml_dtypes.float8_e4m3fn,
    Float8E5M2Type(): ml_dtypes.float8_e5m2,
    Float4E2M1FNType(): ml_dtypes.float4_e2m1fn,
    Float6E2M3FNType(): ml_dtypes.float6_e2m3fn,
    Float6E3M2FNType(): ml_dtypes.float6_e3m2fn,
}
"""With the type of ml_dtypes."""

TABLES = [
    QuantileType.of(IntegerType(4, Signedness.UNSIGNED), f32, [*np.linspace(-1, 2.5, 15), 0.0]),
    QuantileType.of(IntegerType(2, Signedness.SIGNED), i8, [2.0, 1.0, 0.0, -127.0]),
    QuantileType.of(IntegerType(8), f32, [0.1, 2.0, -0.0, 0.0, 1.0], (250, 254)),
    QuantileType.of(Float4E2M1FNType(), f32, [*map(float, range(14)), -0.0, 1e-40]),
]
"""Each has an entry for the zero points 0, 1 and 2."""


def codes_and_numbers(storage: Any) -> tuple[NDArray[Any], NDArray[np.float32]]:
    """Each code of a storage, in the dtype of constants, and its number, without the package."""
    if storage in FLOATS:
        codes = np.arange(1 << storage.bitwidth, dtype=np.uint8)
        return codes, codes.view(FLOATS[storage]).astype(np.float32)
    first = storage.bounds[0] if isinstance(storage.storage_type, IntegerType) else 0
    numbers = storage.entries.numbers.astype(np.float32)
    dtype = np.int8 if first < 0 else np.uint8
    return np.arange(first, first + len(numbers), dtype=np.int64).astype(dtype), numbers


def read(number: Any, scales: Any, zero_points: Any) -> Bits:
    """The formula, in float32; NaN has one pattern."""
    with np.errstate(all="ignore"):
        values = (number - zero_points.astype(np.float32)) * scales.astype(np.float32)
    return np.where(np.isnan(values), np.float32("nan"), values).astype("f4").view(np.uint32)


SCALES_OF: dict[str, tuple[tuple[int, ...], str, list[int]]] = {
    "tensor": ((), "4x6", []),
    "axis": ((6,), "4x6", [1]),
    "blocks": ((4, 3), "4x3x2", [0, 1]),
}
"""The shape of the scales, that of what they multiply, and their axes there."""


@pytest.mark.parametrize("granularity", SCALES_OF)
@pytest.mark.parametrize("name", map(str, FLOATS))
def test_arithmetic_on_floats_is_raised(name: str, granularity: str):
    """Every code, NaN and -0 too: the cast computes what the arithmetic does."""
    storage = next(type for type in FLOATS if str(type) == name)
    width = storage.bitwidth
    rng = np.random.default_rng(width)
    codes = rng.integers(0, 1 << width, (4, 6), dtype=np.uint8)
    codes[0, :3] = 0, 1 << (width - 1), (1 << width) - 1
    lengths, shape, dims = SCALES_OF[granularity]
    scales = rng.normal(size=lengths).astype("f4") ** 2
    type = f"tensor<{''.join(f'{length}x' for length in lengths)}f32>"
    text = f"""
func.func @main() -> tensor<4x6xf32> {{
  %c = stablehlo.constant dense<"0x{codes.tobytes().hex()}"> : tensor<4x6x{name}>
  %s = stablehlo.constant dense<"0x{scales.tobytes().hex()}"> : {type}
  %f = stablehlo.convert %c : (tensor<4x6x{name}>) -> tensor<4x6xf32>
  %r = stablehlo.reshape %f : (tensor<4x6xf32>) -> tensor<{shape}xf32>
  %b = stablehlo.broadcast_in_dim %s, dims = {dims} : ({type}) -> tensor<{shape}xf32>
  %m = stablehlo.multiply %b, %r : tensor<{shape}xf32>
  %o = stablehlo.reshape %m : (tensor<{shape}xf32>) -> tensor<4x6xf32>
  return %o : tensor<4x6xf32>
}}"""
    module, context = parse(text)
    (before,) = run_function(module, "main")
    RaiseDequantizationPass().apply(context, module)
    module.verify()
    names = [op.name for op in module.walk()]
    assert "quant.dcast" in names
    assert "stablehlo.multiply" not in names
    (constant,) = (op for op in module.walk() if isinstance(op, ConstantOp))
    assert uniform_tensor(constant.result.type).element_type.storage_type == storage
    (after,) = run_function(module, "main")
    wide = np.repeat(scales, 2, axis=1) if granularity == "blocks" else scales
    one, zero = np.ones(()), np.zeros(())
    with np.errstate(all="ignore"):
        wanted = read(codes.view(FLOATS[storage]).astype("f4"), wide, zero)
    for result in (before, after):
        assert np.array_equal(read(result.elements.view("f4"), one, zero), wanted)


@examples(150)
@given(st.data())
def test_chains_of_movements(data: st.DataObject):
    storage = data.draw(st.sampled_from([*FLOATS, *TABLES]))
    shape = data.draw(shapes(max_rank=3))
    like = UniformQuantizedType.per_tensor(Storage.of(storage), f32, 1.0)
    drawn = data.draw(parameters(shape))
    drawn = replace(drawn, zero_points=drawn.zero_points % 3)
    slots = replace(drawn, storage=like.storage_format)
    codes, numbers = codes_and_numbers(storage)
    seed = data.draw(st.integers(0, 2**32 - 1))
    picked = np.random.default_rng(seed).integers(0, len(codes), shape)
    tensor = TensorType(like.with_parameters(slots), shape)
    constant = ConstantOp(np.asarray(codes[picked]), tensor)
    wanted = read(numbers[picked], *expanded(drawn))

    ops: list[Any] = [constant]
    for _ in range(data.draw(st.integers(1, 3))):
        movement = data.draw(own_movements(wanted.shape))
        inferred = infer_result_type(movement, ops[-1].results)
        ops.append(OWN_OPS[type(movement)].of_movement(movement, ops[-1].results, inferred))
        wanted = numpy_moves(movement, wanted, padding=0)
    ops.append(DequantizeCastOp(ops[-1].results[0], TensorType(f32, wanted.shape)))
    module = ModuleOp(
        [
            FuncOp(
                "main",
                ([], ops[-1].result_types),
                Region(Block([*ops, ReturnOp(*ops[-1].results)])),
            )
        ]
    )

    text = text_of(module)
    (cast,) = (owner(value) for value in returned(fold(text)[0]))
    left = owner(cast.operands[0])
    assert isinstance(left, ConstantOp), f"{left.name} is left"
    values = left.values
    stored = np.asarray(values.value if isinstance(values, Splat) else values)
    of = slots_of(uniform_tensor(left.result.type).element_type, wanted.shape)
    at = np.broadcast_to(stored, wanted.shape).astype(np.int64) - int(codes[0])
    assert np.array_equal(read(numbers[at], of.scales, of.zero_points), wanted)
    before = run_function(parse(text)[0], "main")[0].elements
    assert np.array_equal(before, wanted)
    lowered, context = parse(text)
    LowerQuantShapesPass().apply(context, lowered)
    lowered.verify()
    assert not [op for op in lowered.walk() if op.name.startswith("quant.")]
    after = run_function(lowered, "main")[0].elements
    assert np.array_equal(read(after.view("f4"), np.ones(()), np.zeros(())), wanted)
