"""What modules mean when they are run: against numpy and exact fractions."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import random_modules
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from random_tensors import cut, expanded, parameters, shapes
from test_lower_quant_shapes import LARGE_EXAMPLES, Function, Value, chains, lower
from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Builtin,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    ModuleOp,
    TensorType,
    f32,
)
from xdsl.dialects.func import Func, FuncOp
from xdsl.interpreter import Interpreter
from xdsl.interpreters.func import FuncFunctions

from qdialect.dialects.quant import Quant, Storage, UniformQuantizedType
from qdialect.float_format import FLOAT_FORMATS, FloatFormat
from qdialect.interpreters import (
    OpInterpretationError,
    QuantFunctions,
    TypedArray,
    random_arguments,
    run_function,
)
from qdialect.parameters import QuantizationParameters, StorageFormat
from qdialect.text.parser import LocatingParser
from qdialect.tools.registry import ToolContext
from qdialect.tools.run import parse_values

STORAGES = [
    StorageFormat(width, signed) for width in (1, 3, 4, 8, 16, 24, 32) for signed in (True, False)
]

NATIVE: list[tuple[AnyFloat, type[np.floating[Any]]]] = [
    (Float16Type(), np.float16),
    (Float32Type(), np.float32),
    (Float64Type(), np.float64),
]


def parse(text: str) -> tuple[ModuleOp, ToolContext]:
    context = ToolContext(allow_unregistered=True)
    module = LocatingParser(context, text, "text").parse_module()
    module.verify()
    return module, context


def run(text: str, arguments: str = "") -> list[str]:
    """What the function `f` of a module returns, as text."""
    module, context = parse(text)
    values = parse_values(arguments, "arguments", context)
    return list(map(str, run_function(module, "f", values, context)))


def function_of(module: ModuleOp, name: str) -> FuncOp:
    (op,) = (op for op in module.ops if isinstance(op, FuncOp) and op.sym_name.data == name)
    return op


# The casts


@st.composite
def slots(
    draw: st.DrawFn, shape: tuple[int, ...], storages: Sequence[StorageFormat] = STORAGES
) -> QuantizationParameters:
    """Parameters of any storage, with scales of many digits."""
    moved = draw(parameters(shape, draw(st.sampled_from(storages)), distinct=True))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scales = random.uniform(0.5, 1.0, moved.scales.shape) * 2.0 ** random.integers(-8, 8)
    return replace(moved, scales=np.asarray(scales, dtype=np.float64))


def casts(type: UniformQuantizedType, shape: tuple[int, ...]) -> ModuleOp:
    read, real = TensorType(type, shape), TensorType(type.expressed_type, shape)
    module, _ = parse(
        f"""
        func.func @q(%x: {real}) -> {read} {{
          %q = quant.qcast %x : {real} to {read}
          return %q : {read}
        }}
        func.func @d(%q: {read}) -> {real} {{
          %x = quant.dcast %q : {read} to {real}
          return %x : {real}
        }}
        """
    )
    return module


@given(st.data(), st.sampled_from(NATIVE))
def test_casts_are_those_of_numpy(
    data: st.DataObject, types: tuple[AnyFloat, type[np.floating[Any]]]
):
    """Every step in the expressed type, with the scale and zero point of each element."""
    expressed, native = types
    shape = data.draw(shapes(max_rank=3))
    moved = replace(data.draw(slots(shape)), expressed=FLOAT_FORMATS[expressed.name])
    width, is_signed = moved.storage.width, moved.storage.signed
    least = -(1 << (width - 1)) if is_signed else 0
    low = data.draw(st.integers(least, least + (1 << width) - 2))
    high = data.draw(st.integers(low + 1, least + (1 << width) - 1))
    storage = Storage.of(IntegerType(width), signed=is_signed, minimum=low, maximum=high)
    type = UniformQuantizedType.per_tensor(storage, expressed, 1.0).with_parameters(moved)
    module, seed = casts(type, shape), data.draw(st.integers(0, 2**32 - 1))
    scales = np.broadcast_to(type.parameters_on(shape).expand()[0], shape).astype(native)
    zeros = expanded(moved)[1].astype(native)

    (floats,) = random_arguments(function_of(module, "q").function_type, seed)
    (stored,) = run_function(module, "q", [floats])
    with np.errstate(all="ignore"):
        steps = np.asarray(floats.elements.view(native) / scales + zeros)
    assert steps.dtype == native
    for code, step in zip(stored.numbers.reshape(-1), steps.reshape(-1).tolist(), strict=True):
        expected = low
        if math.isinf(step):
            expected = high if step > 0 else low
        elif not math.isnan(step):
            expected = min(max(round(Fraction(step)), low), high)
        assert code == expected

    (codes,) = random_arguments(function_of(module, "d").function_type, seed)
    (numbers,) = run_function(module, "d", [codes])
    with np.errstate(all="ignore"):
        products = np.asarray((codes.numbers.astype(native) - zeros) * scales)
    assert products.dtype == native
    assert_same_floats(numbers, products)


def assert_same_floats(value: TypedArray, expected: NDArray[np.floating[Any]]) -> None:
    """Bit for bit; a NaN is only a NaN."""
    is_nan = np.isnan(expected)
    assert np.isnan(value.numbers).tolist() == is_nan.tolist()
    bits = np.ascontiguousarray(expected).view(value.elements.dtype).reshape(expected.shape)
    assert value.elements[~is_nan].tolist() == bits[~is_nan].tolist()


class Exact:
    """A format of few bits, in exact fractions."""

    def __init__(self, known: FloatFormat) -> None:
        width = known.exponent_bits + known.precision - 1
        numbers = [known.from_bits(bits) for bits in range(1 << width)]
        self.magnitudes = [Fraction(number) for number in numbers if math.isfinite(number)]

    def round(self, number: Fraction) -> Fraction:
        """The nearest, of two the one whose bits are even."""
        above = bisect.bisect_left(self.magnitudes, abs(number))
        near = (above, max(above - 1, 0))
        bits = min(near, key=lambda at: (abs(self.magnitudes[at] - abs(number)), at % 2))
        return self.magnitudes[bits] * (1 if number >= 0 else -1)


@pytest.mark.parametrize("expressed", [BFloat16Type(), Float8E5M2Type(), Float8E4M3FNType()], ids=str)
def test_casts_of_types_that_numpy_lacks(expressed: AnyFloat):
    """Every integer, and every float: exact, but that each step is rounded."""
    known = FLOAT_FORMATS[expressed.name]
    exact = Exact(known)
    patterns = known.decode(np.arange(1 << min(expressed.bitwidth, 12), dtype=np.uint64) << 4
                            if expressed.bitwidth > 8 else np.arange(256, dtype=np.uint64))
    floats = patterns[np.isfinite(patterns) & (np.abs(patterns) < 100)]
    for scale, zero in ((0.75, 3), (1.5, -5), (0.25, 0), (1.0, 12)):
        storage = Storage.of(IntegerType(6))
        type = UniformQuantizedType.per_tensor(storage, expressed, scale, zero)
        given = TypedArray.of_numbers(floats, TensorType(expressed, floats.shape))
        (stored,) = run_function(casts(type, floats.shape), "q", [given])
        for code, number in zip(stored.numbers.tolist(), floats.tolist(), strict=True):
            step = exact.round(exact.round(Fraction(number) / Fraction(scale)) + zero)
            assert code == min(max(round(step), -32), 31)
        codes = np.arange(-32, 32)
        given = TypedArray.of_numbers(codes, TensorType(type, codes.shape))
        (numbers,) = run_function(casts(type, codes.shape), "d", [given])
        for code, number in zip(codes.tolist(), numbers.numbers.tolist(), strict=True):
            step = exact.round(exact.round(Fraction(code)) - exact.round(Fraction(zero)))
            assert Fraction(number) == exact.round(step * Fraction(scale))


def test_what_is_too_large_and_what_is_no_number():
    text = """
    func.func @f(%x: tensor<5xf32>) -> tensor<5x!quant.uniform<i8<-100:50>:f32, 0.5:3>> {
      %q = quant.qcast %x : tensor<5xf32> to tensor<5x!quant.uniform<i8<-100:50>:f32, 0.5:3>>
      return %q : tensor<5x!quant.uniform<i8<-100:50>:f32, 0.5:3>>
    }
    """
    floats = "dense<[0x7F800000, 0xFF800000, 0x7FC00000, 1e30, -0.0]> : tensor<5xf32>"
    (result,) = run(text, floats)
    assert result.startswith("dense<[50, -100, -100, 50, 3]>")


# Shape ops


@settings(max_examples=30, suppress_health_check=LARGE_EXAMPLES)
@given(st.data())
def test_own_shape_ops(data: st.DataObject):
    """As they are, and as what they are lowered to, with lengths that types do not tell."""
    functions: list[FuncOp] = []
    expected: list[Value] = []
    for number in range(data.draw(st.integers(1, 4))):
        function = Function()
        *_, last = data.draw(chains(function, arguments=False))
        functions.append(function.finish_with_storage(f"f{number}", last))
        expected.append(last)
    module = ModuleOp(list(functions))
    for step in ("as it is", "lowered"):
        for number, value in enumerate(expected):
            (result,) = run_function(module, f"f{number}")
            width = IntegerType(functions[number].function_type.outputs.data[0].element_type.bitwidth)  # pyright: ignore
            assert result.numbers.tolist() == cut(
                value.integers, StorageFormat(width.bitwidth, signed=True)
            ).tolist(), step
        lower(module)


@pytest.mark.usefixtures("without_plugins")
@settings(max_examples=40, suppress_health_check=LARGE_EXAMPLES)
@given(random_modules.functions())
def test_shape_ops_of_others(function: random_modules.Function):
    """Of tensor, linalg, tosa and StableHLO, of constants and of what casts make of them."""
    module, context = parse(random_modules.module_text([function]))
    results = run_function(module, function.name, (), context)
    for node, result in zip(function.results, results, strict=True):
        if not node.is_padding_stored:
            continue
        assert result.shape == node.shape
        check_node(node, result)
