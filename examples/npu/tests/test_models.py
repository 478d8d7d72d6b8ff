"""What qdialect knows of the ops of the NPU agrees with numpy, which knows nothing of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from npu.fuse_relu6 import FuseRelu6Pass
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerType, ModuleOp, TensorType, f32, i8, i32
from xdsl.ir import Attribute

import qdialect
from qdialect.check.interpreters import TypedArray, run_function
from qdialect.dialects.quant import Storage, UniformQuantizedType
from qdialect.integers.passes import LowerToIntegersPass
from qdialect.opt.registry import ToolContext
from qdialect.testing import RandomModule, check_movement, check_run, modules
from qdialect.text import parse_module

Array = NDArray[Any]

MODEL = Path(__file__).parents[1] / "model.mlir"

CONTEXT = ToolContext()
"""The context of qdialect's tools. It finds the dialect by the entry point of this package."""

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def tensor(element: Attribute, shape: tuple[int, ...]) -> TensorType[Attribute]:
    return TensorType(element, shape)


def parse(text: str) -> ModuleOp:
    module = parse_module(CONTEXT, text, "test")
    module.verify()
    return module


def function(
    body: str, arguments: dict[str, TensorType[Attribute]], result: TensorType[Attribute]
) -> str:
    """A function `main` that returns `%result`."""
    listed = ", ".join(f"%{name}: {type}" for name, type in arguments.items())
    return f"func.func @main({listed}) -> {result} {{\n{body}\nreturn %result : {result}\n}}"


def run(module: ModuleOp, *values: TypedArray) -> TypedArray:
    (result,) = run_function(module, "main", values, CONTEXT)
    return result


def of_numbers(numbers: Array, element: Attribute) -> TypedArray:
    return TypedArray.of_numbers(numbers, tensor(element, numbers.shape))


def integers(seed: int, element: IntegerType, shape: tuple[int, ...]) -> Array:
    """Integers of a type, its least and its greatest among them."""
    most = 1 << (element.width.data - 1)
    numbers = np.random.default_rng(seed).integers(-most, most, shape)
    numbers[np.random.default_rng(seed).random(shape) < 0.1] = -most
    return numbers


def shuffle(pixels: Array, factor: int) -> Array:
    """What `npu.pixel_shuffle` is, element by element."""
    batches, height, width, channels = pixels.shape
    depth = channels // factor**2
    result = np.empty((batches, height * factor, width * factor, depth), pixels.dtype)
    for batch, row, column, channel in np.ndindex(result.shape):
        (above, down), (left, right) = divmod(row, factor), divmod(column, factor)
        source = (down * factor + right) * depth + channel
        result[batch, row, column, channel] = pixels[batch, above, left, source]
    return result


LENGTHS, SEEDS = st.integers(1, 3), st.integers(0, 1 << 32)
PIXELS = st.tuples(LENGTHS, LENGTHS, LENGTHS, st.sampled_from([1, 4, 8, 9]))


def factors(shape: tuple[int, ...]) -> dict[str, st.SearchStrategy[int]]:
    """Those whose squares divide the channels."""
    return {"factor": st.sampled_from([n for n in (1, 2, 3) if shape[3] % n**2 == 0])}


test_pixel_shuffle = check_movement("npu.pixel_shuffle", shuffle, PIXELS, factors)
test_run_of_pixel_shuffle = check_run("npu.pixel_shuffle", shuffle, PIXELS, factors)

# The sum of products

SIZES = st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 5))


def operands(sizes: tuple[int, int, int]) -> st.SearchStrategy[list[tuple[int, ...]]]:
    """The shapes of two matrices, and maybe of a bias."""
    m, k, n = sizes
    return st.sampled_from([[(m, k), (k, n)], [(m, k), (k, n), (n,)]])


def matmul(x: Array, w: Array, bias: Array | int = 0) -> Array:
    """Sums of integers have 32 bits, and wrap."""
    if x.dtype.kind == "f":
        return (x.astype("f8") @ w.astype("f8") + bias).astype("f4")
    return (x.astype("i8") @ w.astype("i8") + bias).astype("i4")


MATRICES = SIZES.flatmap(operands)

test_matmul = check_run("npu.matmul", matmul, MATRICES, tolerance=1e-5)
test_matmul_of_integers = check_run(
    "npu.matmul", matmul, MATRICES, elements=[(i8, i8, i32), (i32, i32, i32)]
)

# The function of elements

NUMBERS = st.lists(st.floats(width=32), min_size=1, max_size=20).map(lambda n: np.array(n, "f4"))


def relu6(numbers: Array) -> Array:
    return np.minimum(np.maximum(numbers, 0), 6)


test_relu6 = check_run("npu.relu6", relu6)


@given(
    NUMBERS, st.sampled_from([6 / 255, 0.05, 0.02]), st.integers(-130, 10), st.integers(-128, 126)
)
def test_a_relu6_that_is_dropped_changes_no_code(
    numbers: Array, scale: float, zero_point: int, least: int
) -> None:
    storage = Storage.of(i8, minimum=least)
    quantized = tensor(
        UniformQuantizedType.per_tensor(storage, f32, scale, zero_point), numbers.shape
    )
    type = tensor(f32, numbers.shape)
    body = f"""
    %r = npu.relu6 %x : {type} to {type}
    %result = quant.qcast %r : {type} to {quantized}
    """
    module = parse(function(body, {"x": type}, quantized))
    before = run(module, of_numbers(numbers, f32)).elements
    FuseRelu6Pass().apply(CONTEXT, module)
    assert_array_equal(run(module, of_numbers(numbers, f32)).elements, before)


# Whole models


@given(SIZES, SEEDS)
@settings(max_examples=20)
def test_integers_compute_what_a_quantized_layer_does(
    sizes: tuple[int, int, int], seed: int
) -> None:
    m, k, n = sizes
    random = np.random.default_rng(seed)
    storage, wide = Storage.of(i8), Storage.of(i32)
    x_scale, y_scale = random.uniform(0.01, 0.1), random.uniform(0.02, 0.05)
    zeros = random.integers(-128, 128, 2)
    scales = random.uniform(0.01, 0.1, n)
    x_type = UniformQuantizedType.per_tensor(storage, f32, x_scale, int(zeros[0]))
    y_type = UniformQuantizedType.per_tensor(storage, f32, y_scale, int(zeros[1]))
    w_type = UniformQuantizedType.per_axis(storage, f32, 1, scales, [0] * n)
    products = np.float32(x_scale).astype("f8") * scales.astype("f4").astype("f8")
    b_type = UniformQuantizedType.per_axis(wide, f32, 0, products, [0] * n)
    x, w, y = (tensor(e, s) for e, s in ((x_type, (m, k)), (w_type, (k, n)), (y_type, (m, n))))
    b = tensor(b_type, (n,))
    codes, bias = random.integers(-127, 128, (k, n)), random.integers(-9999, 9999, n)
    reals = [tensor(f32, shape) for shape in ((m, k), (k, n), (n,), (m, n))]
    body = f"""
    %0 = quant.dcast %x : {x} to {reals[0]}
    %w = quant.constant dense<{codes.tolist()}> : {w}
    %1 = quant.dcast %w : {w} to {reals[1]}
    %b = quant.constant dense<{bias.tolist()}> : {b}
    %2 = quant.dcast %b : {b} to {reals[2]}
    %p = npu.matmul %0, %1 bias %2 : {reals[0]}, {reals[1]}, {reals[2]} to {reals[3]}
    %r = npu.relu6 %p : {reals[3]} to {reals[3]}
    %result = quant.qcast %r : {reals[3]} to {y}
    """
    module = parse(function(body, {"x": x}, y))
    LowerToIntegersPass().apply(CONTEXT, module)
    assert "npu" not in str(module)
    argument = integers(seed, i8, (m, k))
    result = run(module, TypedArray.of(argument.astype(np.int8), x)).elements
    # The exact sum, and one rounding.
    sums = (argument - zeros[0]) @ codes + bias
    exact = np.clip(sums * products, 0, 6) / np.float32(y_scale).astype("f8") + zeros[1]
    exact = np.clip(exact, -128, 127)
    assert np.abs(result - exact).max() <= 0.5 + 1e-4


@given(modules())
def test_the_pass_leaves_modules_of_others(drawn: RandomModule) -> None:
    before = str(drawn.module)
    FuseRelu6Pass().apply(CONTEXT, drawn.module)
    assert str(drawn.module) == before


def test_a_model_is_calibrated_quantized_and_evaluated() -> None:
    records = np.random.default_rng(0).random((50, 4, 3), "f4")
    quantized = qdialect.quantize(str(MODEL), {"pixels": records})
    assert "npu.matmul" in str(quantized.module())
    assert (quantized.signal_to_noise or 0) > 40


def test_a_model_is_written_as_onnx(tmp_path: Path) -> None:
    onnx: Any = pytest.importorskip("onnx")
    reference: Any = pytest.importorskip("onnx.reference")
    from qdialect.export.export_tool import main

    assert main([str(MODEL), "-o", str(tmp_path / "model.onnx")]) == 0
    model = onnx.load(tmp_path / "model.onnx")
    assert "Clip" in {node.op_type for node in model.graph.node}
    pixels = np.random.default_rng(0).normal(size=(4, 3)).astype("f4")
    (written,) = reference.ReferenceEvaluator(model).run(None, {"pixels": pixels})
    expected = run(parse(MODEL.read_text()), of_numbers(pixels, f32)).numbers
    assert_allclose(written, expected, rtol=1e-5, atol=1e-5)
