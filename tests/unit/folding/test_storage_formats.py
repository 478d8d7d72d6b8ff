"""Folds of floats and tables: dequantize(fold(c)) == op(dequantize(c)), bit for bit."""

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
from example_counts import examples
from folded_modules import fold, owner, parse, returned, slots_of
from hypothesis import given
from hypothesis import strategies as st
from moved_functions import text_of
from numpy.typing import NDArray
from own_ops import OWN_OPS, own_movements
from random_tensors import expanded, numpy_moves, parameters, shapes
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

from qdialect.algebra.movement import Movement
from qdialect.algebra.padding import Pad
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
from qdialect.passes.lower_quant_shapes import LowerQuantShapesPass

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


def moved(movement: Movement, bits: Bits) -> Bits:
    """numpy's result. New positions are zero."""
    result = np.array(numpy_moves(movement, bits))
    if isinstance(movement, Pad):
        inside = tuple(slice(low, low + n) for low, n in zip(movement.low, bits.shape, strict=True))
        result = np.zeros_like(result)
        result[inside] = bits
    return result


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
        wanted = moved(movement, wanted)
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
