"""
The interpreter computes the same results as MLIR's own lowering, compiled.

The interpreter runs each function as it is, and `mlir-runner` after `mlir-opt
--lower-quant-ops`. Arguments and results are compared bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from example_counts import examples
from hypothesis import Phase, given
from hypothesis import strategies as st
from mlir_tools import needs_mlir_opt, needs_mlir_runner, run, run_main
from moved_functions import LARGE_EXAMPLES
from nested_text import nested
from numpy.typing import NDArray
from random_modules import tensor
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    TensorType,
)

from qdialect.algebra.parameters import QuantizationParameters, StorageFormat
from qdialect.check.interpreters import TypedArray, run_function
from qdialect.dialects.quant import Storage, UniformQuantizedType
from qdialect.opt.registry import ToolContext
from qdialect.support.float_format import FLOAT_FORMATS, FloatFormat
from qdialect.testing.tensors import cut, expanded, parameters, shapes
from qdialect.text.parser import LocatingParser

Shape = tuple[int, ...]
Bits = NDArray[np.int64]

FLOATS: list[AnyFloat] = [Float16Type(), BFloat16Type(), Float32Type(), Float64Type()]

MAX_WIDTH_OF_F32 = 24
"""Integers of more bits are rounded twice on the way to bf16, where they go through f32."""

STORAGES = [StorageFormat(1, signed=False)] + [
    StorageFormat(width, signed) for width in (3, 4, 8, 16, 24, 32) for signed in (True, False)
]


@dataclass(frozen=True)
class Call:
    """A function of one tensor, and the bits of its argument: sign-extended integers."""

    body: str
    argument: Bits
    argument_type: IntegerType | AnyFloat
    result_type: IntegerType | AnyFloat
    shape: Shape
    """Of the result."""

    def text(self, number: int) -> str:
        """The function, whose body makes %r of %x."""
        argument = tensor(self.argument.shape, str(self.argument_type))
        result = tensor(self.shape, str(self.result_type))
        return (
            f"func.func @f{number}(%x: {argument}) -> {result} {{\n"
            f"{self.body}\nreturn %r : {result}\n}}\n"
        )

    def call(self, number: int) -> list[str]:
        """Lines that print what the function returns, sign-extended, when they are run."""
        width, result_width = self.argument_type.bitwidth, self.result_type.bitwidth
        given = tensor(self.argument.shape, str(self.argument_type))
        bits = tensor(self.argument.shape, f"i{width}")
        result = tensor(self.shape, str(self.result_type))
        result_bits, wide = (tensor(self.shape, f"i{w}") for w in (result_width, 64))
        numbers = nested(list(map(str, self.argument.reshape(-1).tolist())), self.argument.shape)
        lines = [f"%a = arith.constant dense<{numbers}> : {bits}"]
        lines.append(cast_bits("x", "a", bits, given))
        lines.append(f"%r = func.call @f{number}(%x) : ({given}) -> {result}")
        lines.append(cast_bits("b", "r", result, result_bits))
        lines.append(f"%w = arith.extsi %b : {result_bits} to {wide}")
        if result_width == 64:
            lines[-1] = f"%w = tensor.cast %b : {result_bits} to {wide}"
        lines.append(f"%c = tensor.cast %w : {wide} to tensor<*xi64>")
        lines.append("func.call @printMemrefI64(%c) : (tensor<*xi64>) -> ()")
        return [line.replace("%", f"%v{number}_") for line in lines]


def cast_bits(to: str, value: str, type: str, to_type: str) -> str:
    cast = "tensor.cast" if type == to_type else "arith.bitcast"
    return f"%{to} = {cast} %{value} : {type} to {to_type}"


def check(calls: Sequence[Call], *lowering: str) -> None:
    """Run the calls both ways. All NaNs are equal, since MLIR does not define their bits."""
    text = "".join(call.text(number) for number, call in enumerate(calls))
    lines = [line for number, call in enumerate(calls) for line in call.call(number)]
    compiled = run_main(run(["mlir-opt-22", *lowering, "--canonicalize"], text), lines)
    module = LocatingParser(ToolContext(), text, "module").parse_module()
    module.verify()
    assert len(compiled) == len(calls)
    for number, (call, (shape, numbers)) in enumerate(zip(calls, compiled, strict=True)):
        given = TensorType(call.argument_type, call.argument.shape)
        width = call.argument_type.bitwidth
        elements = call.argument.astype(f"<i{max(1, width // 8)}" if width != 24 else "<i4")
        if isinstance(call.argument_type, AnyFloat):
            elements = elements.view(f"<u{width // 8}")
        (result,) = run_function(module, f"f{number}", [TypedArray.of(elements, given)])
        assert result.shape == shape == call.shape
        expected = np.array(list(map(int, numbers)), dtype=np.int64).reshape(shape)
        assert_same(result, expected, call)


def assert_same(result: TypedArray, expected: Bits, call: Call) -> None:
    if not isinstance(call.result_type, AnyFloat):
        assert result.numbers.tolist() == expected.tolist(), call
        return
    known = FLOAT_FORMATS[call.result_type.name]
    bits = expected.view(np.uint64) & np.uint64((1 << call.result_type.bitwidth) - 1)
    is_nan = np.isnan(known.decode(bits))
    assert np.isnan(result.numbers).tolist() == is_nan.tolist(), call
    assert result.elements[~is_nan].tolist() == bits[~is_nan].tolist(), call


def with_readable_zeros(moved: QuantizationParameters) -> QuantizationParameters:
    """
    Parameters without zero points that LLVM 22 reads wrong.

    Of elements below a byte it reads a whole one, whose other bits are those of a sign.
    """
    storage = moved.storage
    if storage.signed or not storage.width % 8:
        return moved
    return replace(moved, zero_points=moved.zero_points % (1 << (storage.width - 1)))


def quantized_type(moved: QuantizationParameters, expressed: AnyFloat) -> UniformQuantizedType:
    storage = Storage.of(IntegerType(moved.storage.width), signed=moved.storage.signed)
    moved = replace(moved, expressed=FLOAT_FORMATS[expressed.name])
    return UniformQuantizedType.per_tensor(storage, expressed, 1.0).with_parameters(moved)


@st.composite
def random_parameters(
    draw: st.DrawFn, shape: Shape, storage: StorageFormat, expressed: AnyFloat
) -> QuantizationParameters:
    """Parameters whose scales have many digits, and of any size that the type can have."""
    moved = draw(parameters(shape, storage, distinct=draw(st.booleans())))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scales = random.uniform(0.5, 1.0, moved.scales.shape) * 2.0 ** random.integers(-7, 7)
    zero_points = random.integers(-(1 << 32), 1 << 32, moved.scales.shape)
    moved = replace(
        moved,
        scales=scales,
        zero_points=moved.storage.wrap(zero_points) if draw(st.booleans()) else moved.zero_points,
        expressed=FLOAT_FORMATS[expressed.name],
    )
    return with_readable_zeros(moved)


def signed(bits: NDArray[np.uint64], width: int) -> Bits:
    return StorageFormat(width, signed=True).wrap(bits.astype(np.int64))


def random_bits(shape: Shape, width: int, seed: int) -> Bits:
    random = np.random.default_rng(seed)
    bits = random.integers(-(1 << 63), (1 << 63) - 1, shape, dtype=np.int64, endpoint=True)
    # All sizes, of either sign.
    return bits >> (64 - random.integers(1, width + 1, shape))


@st.composite
def dcasts(draw: st.DrawFn) -> Call:
    """Integers of all bits, whatever the zero points are."""
    storage, expressed = draw(st.sampled_from(STORAGES)), draw(st.sampled_from(FLOATS))
    if isinstance(expressed, BFloat16Type) and storage.width > MAX_WIDTH_OF_F32:
        storage = storage._replace(width=16)
    shape = draw(shapes(max_rank=3))
    type = quantized_type(draw(random_parameters(shape, storage, expressed)), expressed)
    integers = IntegerType(storage.width)
    body = (
        f"%q = quant.scast %x : {tensor(shape, str(integers))} to {tensor(shape, str(type))}\n"
        f"%r = quant.dcast %q : {tensor(shape, str(type))} to {tensor(shape, str(expressed))}"
    )
    bits = random_bits(shape, storage.width, draw(st.integers(0, 2**32 - 1)))
    return Call(body, bits, integers, expressed, shape)


@st.composite
def qcasts(draw: st.DrawFn) -> Call:
    """Floats near integers in the range, on the side of zero: MLIR cuts digits off."""
    expressed, widths = draw(
        st.sampled_from([(FLOATS[0], 8), (FLOATS[1], 4), (FLOATS[2], 16), (FLOATS[3], 32)])
    )
    storages = [storage for storage in STORAGES if storage.width <= widths]
    storage, shape = draw(st.sampled_from(storages)), draw(shapes(max_rank=3))
    moved = with_readable_zeros(draw(parameters(shape, storage)))
    moved = replace(moved, scales=2.0 ** (moved.scales * 64 % 9 - 4))
    codes = cut(random_bits(shape, storage.width, draw(st.integers(0, 2**32 - 1))), storage)
    scales, zero_points = expanded(moved)
    near = codes + draw(st.sampled_from([0, 0.25])) * np.sign(codes)
    known = FLOAT_FORMATS[expressed.name]
    numbers = np.asarray((near - zero_points) * scales, dtype=np.float64)
    assert (known.round(numbers) == numbers).all()
    type = quantized_type(moved, expressed)
    body = (
        f"%q = quant.qcast %x : {tensor(shape, str(expressed))} to {tensor(shape, str(type))}\n"
        f"%r = quant.scast %q : {tensor(shape, str(type))} to {tensor(shape, f'i{storage.width}')}"
    )
    bits = signed(known.encode(numbers), expressed.bitwidth)
    return Call(body, bits, expressed, IntegerType(storage.width), shape)


@needs_mlir_runner
@examples(8, phases=[Phase.generate], suppress_health_check=LARGE_EXAMPLES)
@given(st.lists(dcasts() | qcasts(), min_size=8, max_size=24))
def test_casts(calls: list[Call]):
    check(calls, "--lower-quant-ops")


@needs_mlir_opt
def test_integers_are_rounded_to_bf16_once():
    """As MLIR folds it; what is compiled for some processors rounds to f32 on the way."""
    integers = [2**30 + 2**22 + 1, 2**30 + 2**22, -(2**30) - 2**22 - 1]
    text = f"""
    func.func @f() -> tensor<3xbf16> {{
      %c = arith.constant dense<{integers}> : tensor<3xi32>
      %q = quant.scast %c : tensor<3xi32> to tensor<3x!quant.uniform<i32:bf16, 1.0>>
      %r = quant.dcast %q : tensor<3x!quant.uniform<i32:bf16, 1.0>> to tensor<3xbf16>
      return %r : tensor<3xbf16>
    }}
    """
    (result,) = run_function(LocatingParser(ToolContext(), text).parse_module(), "f")
    lowering = ["--lower-quant-ops", "--canonicalize", "--sccp", "--canonicalize"]
    folded = run(["mlir-opt-22", *lowering], text)
    assert f"arith.constant {result}" in folded
    assert result.numbers.tolist() == [2**30 + 2**23, 2**30, -(2**30) - 2**23]


ELEMENTWISE = {
    "i8": "addi subi muli andi ori xori maxsi minsi maxui minui",
    "i16": "addi subi muli maxsi minui",
    "i64": "addi subi muli maxsi minui",
    "f32": "addf subf mulf divf maximumf minimumf",
    "f64": "addf subf mulf divf maximumf minimumf",
    "f16": "addf subf mulf divf",
    "bf16": "addf subf mulf divf",
}


@needs_mlir_runner
def test_arithmetic():
    """Each op on pairs of values of all sizes; of floats, zeros and infinities among them."""
    calls: list[Call] = []
    types = {str(type): type for type in (*FLOATS, *map(IntegerType, (8, 16, 64)))}
    for name, ops in ELEMENTWISE.items():
        for seed, op in enumerate(ops.split()):
            type, shape = types[name], (2, 64)
            bits = random_bits(shape, type.bitwidth, seed)
            if isinstance(type, AnyFloat):
                bits = random_floats(shape, FLOAT_FORMATS[name], seed)
            half = tensor((64,), name)
            body = (
                f"%a = tensor.extract_slice %x[0, 0] [1, 64] [1, 1] "
                f": {tensor(shape, name)} to {half}\n"
                f"%b = tensor.extract_slice %x[1, 0] [1, 64] [1, 1] "
                f": {tensor(shape, name)} to {half}\n"
                f"%r = arith.{op} %a, %b : {half}"
            )
            calls.append(Call(body, bits, type, type, (64,)))
    check(calls)


def random_floats(shape: Shape, known: FloatFormat, seed: int) -> Bits:
    random = np.random.default_rng(seed)
    numbers = random.normal(size=shape) * 2.0 ** random.integers(-20, 20, shape)
    numbers[random.integers(0, 8, shape) == 0] = 0.0
    numbers[random.integers(0, 16, shape) == 0] = np.inf
    numbers = known.round(np.copysign(numbers, random.normal(size=shape)))
    return signed(known.encode(numbers), known.exponent_bits + known.precision)
