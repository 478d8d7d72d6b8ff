"""Weights are quantized as the layer reads them, whatever shape ops are before it."""

from __future__ import annotations

import numpy as np
import pytest
from dequantizing_arithmetic import Array, Module, Text, tensor
from hypothesis import given, note
from hypothesis import strategies as st
from moved_texts import MOVES
from xdsl.ir import Operation

from qdialect.algebra.views import Splat, as_view
from qdialect.dialects.quant import ConstantOp
from qdialect.dialects.quant.types import uniform_tensor
from qdialect.ir.resources import ResourceBlobs
from qdialect.ops.reading import Constants
from qdialect.passes.fold_quant_shapes import FoldConstantShapesPass
from qdialect.ptq.passes.weights import QuantizeDequantizeWeightsPass, QuantizeWeightsPass
from qdialect.testing.tensors import expanded

pytestmark = pytest.mark.usefixtures("without_plugins")


@st.composite
def layers(draw: st.DrawFn) -> tuple[str, Array]:
    """A matrix product whose weights are behind shape ops, and the weights as numpy moves them."""
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    weights = random.normal(size=shape).astype(np.float32)
    text = Text()
    name, moved = text.constant(weights, "stablehlo.constant")
    for move in draw(st.lists(st.sampled_from(MOVES[:-1]), min_size=0, max_size=3)):
        name, moved = move(text, name, moved, draw(st.data()))
    count = moved.size
    rows = draw(st.sampled_from([n for n in range(1, count + 1) if count % n == 0]))
    matrix = moved.reshape(rows, count // rows)
    name = text.emit(matrix, "stablehlo.reshape", (name, moved))
    x = np.zeros((2, rows), np.float32)
    out = np.zeros((2, count // rows), np.float32)
    data, init = text.emit(x, "tensor.empty"), text.emit(out, "tensor.empty")
    product = f"%v{len(text.lines)}"
    text.lines.append(
        f"{product} = linalg.matmul ins({data}, {name} : {tensor(x)}, {tensor(matrix)}) "
        f"outs({init} : {tensor(out)}) -> {tensor(out)}"
    )
    return text.function(product, out), matrix


@given(layers(), st.sampled_from(["one", "torch-per-channel-symmetric", "glow-symmetric"]))
def test_weights_are_quantized_as_the_layer_reads_them(layer: tuple[str, Array], scheme: str):
    text, weights = layer
    note(text)
    module = Module(text)
    module.run(QuantizeWeightsPass(scheme=scheme))
    once = module.printed()
    note(once)
    folded = Module(text)
    folded.run(FoldConstantShapesPass())
    folded.run(QuantizeWeightsPass(scheme=scheme))
    assert folded.printed() == once

    (constant,) = (op for op in module.module.walk() if isinstance(op, ConstantOp))
    type = constant.result.type
    element = uniform_tensor(type).element_type
    scales, zero_points = expanded(element.parameters_on(weights.shape))
    assert not zero_points.any()
    values = constant.values
    held = values.value if isinstance(values, Splat) else values
    codes = np.broadcast_to(held.astype(np.int64), weights.shape)
    # The largest number of each channel has one of the largest codes, and no number is further
    # from its code than half a step, but for rounding. A scale of luci is 1e-5 at least.
    largest = np.abs(codes).max(axis=0)
    assert (largest[np.abs(weights).max(axis=0) > 127e-5] >= 126).all()
    assert (np.abs(codes * scales - weights) <= scales * 0.50001).all()


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.data())
def test_blocks_are_along_the_axis_that_is_summed_over(
    blocks: int, size: int, channels: int, data: st.DataObject
):
    random = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    weights = random.normal(size=(blocks * size, channels)).astype(np.float32)
    text = Text()
    name, _ = text.constant(weights, "stablehlo.constant")
    x = np.zeros((2, len(weights)), np.float32)
    out = np.zeros((2, channels), np.float32)
    activation = text.emit(x, "tensor.empty")
    numbers = "#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>"
    product = text.emit(
        out,
        "stablehlo.dot_general",
        (activation, x),
        (name, weights),
        extra=f"<{{dot_dimension_numbers = {numbers}}}>",
    )
    module = Module(text.function(product, out))
    module.run(QuantizeWeightsPass(granularity="block", block_size=size, scheme="one"))
    note(module.printed())
    (constant,) = (op for op in module.module.walk() if isinstance(op, ConstantOp))
    type = constant.result.type
    scales, _ = expanded(uniform_tensor(type).element_type.parameters_on(weights.shape))
    largest = np.abs(weights.reshape(blocks, size, channels)).max(axis=1)
    expected = np.repeat((largest.astype(np.float64) / 127).astype(np.float32), size, axis=0)
    assert np.allclose(scales, np.maximum(expected, 1e-5), rtol=1e-6)


@given(
    layers(),
    st.sampled_from(
        [
            ("one", "u8"),
            ("one", "i16"),
            ("torch-per-channel-symmetric", "i8"),
            ("torch-per-channel-affine", "u8"),
            ("glow-symmetric", "i4"),
        ]
    ),
    st.sampled_from(["channel", "tensor", "block"]),
)
def test_dequantized_weights_are_what_the_cast_reads(
    layer: tuple[str, Array], scheme: tuple[str, str], granularity: str
):
    text, weights = layer
    note(text)
    name, storage = scheme
    quantized, floats = Module(text), Module(text)
    for module, flag in ((quantized, QuantizeWeightsPass), (floats, QuantizeDequantizeWeightsPass)):
        module.run(flag(granularity, block_size=1, scheme=name, storage=storage))
    note(floats.printed())
    (constant,) = (op for op in quantized.module.walk() if isinstance(op, ConstantOp))
    element = uniform_tensor(constant.result.type).element_type
    scales, zero_points = expanded(element.parameters_on(weights.shape))
    held = constant.values.value if isinstance(constant.values, Splat) else constant.values
    codes = np.broadcast_to(held.astype(np.int64), weights.shape)
    expected = ((codes - zero_points).astype("f4") * scales.astype("f4")).astype("f4")
    (product,) = (op for op in floats.module.walk() if op.name == "linalg.matmul")
    found = product.operands[1].owner
    assert isinstance(found, Operation)
    values = Constants(ResourceBlobs.of(floats.context)).read(found)
    assert values is not None
    bits = values.value if isinstance(values, Splat) else as_view(values).array()
    assert (np.broadcast_to(bits, weights.shape) == expected.view("u4")).all()


@given(layers(), st.sampled_from([("one", "u8"), ("one", "i16"), ("glow-symmetric", "i8")]))
def test_dequantized_weights_have_the_same_codes_again(
    layer: tuple[str, Array], scheme: tuple[str, str]
):
    text, _ = layer
    note(text)
    name, storage = scheme
    once, twice = Module(text), Module(text)
    twice.run(QuantizeDequantizeWeightsPass(scheme=name, storage=storage))
    for module in (once, twice):
        module.run(QuantizeWeightsPass(scheme=name, storage=storage))
    codes = [
        [op.values for op in module.module.walk() if isinstance(op, ConstantOp)]
        for module in (once, twice)
    ]
    for one, other in zip(*codes, strict=True):
        of = [each.value if isinstance(each, Splat) else each for each in (one, other)]
        assert (np.asarray(of[0]) == np.asarray(of[1])).all()
