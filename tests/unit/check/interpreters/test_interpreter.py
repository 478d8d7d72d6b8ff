"""The results of running modules, compared with numpy and exact fractions."""

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
from example_counts import examples
from hypothesis import given
from hypothesis import strategies as st
from moved_functions import LARGE_EXAMPLES, Function, Value, chains, lower
from numpy.typing import NDArray
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

from qdialect.algebra.parameters import QuantizationParameters, StorageFormat
from qdialect.check.interpreters import (
    OpInterpretationError,
    QuantFunctions,
    TypedArray,
    random_arguments,
    run_function,
)
from qdialect.check.run_tool import parse_values
from qdialect.dialects.quant import Quant, Storage, UniformQuantizedType
from qdialect.opt.registry import ToolContext
from qdialect.passes.lower_quant_ops import LowerQuantOpsPass
from qdialect.support.float_format import FLOAT_FORMATS, FloatFormat
from qdialect.testing.tensors import INTEGERS, cut, expanded, parameters, shapes
from qdialect.text.parser import LocatingParser

NATIVE: list[tuple[AnyFloat, type[np.floating[Any]]]] = [
    (Float16Type(), np.float16),
    (Float32Type(), np.float32),
    (Float64Type(), np.float64),
]


WIDTHS = random_modules.PLAIN | {f"{sign}i{n}": n for n in range(1, 65) for sign in ("", "u")}


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


def test_positions_and_lengths_of_dynamic_shapes() -> None:
    """A map may multiply by symbols, and a collapsed length is the product of its group."""
    text = """
      func.func @f(%x: tensor<1x?x2x?xf32>, %a: index, %b: index) -> (tensor<?x2x?xf32>, index) {
        %y = tensor.collapse_shape %x [[0, 1], [2], [3]]
          : tensor<1x?x2x?xf32> into tensor<?x2x?xf32>
        %n = affine.apply affine_map<(d0)[s0] -> (d0 * s0 + d0 floordiv s0)>(%a)[%b]
        return %y, %n : tensor<?x2x?xf32>, index
      }
    """
    given = "dense<1.5> : tensor<1x3x2x2xf32>, 7 : index, 3 : index"
    assert run(text, given) == ["dense<1.500000e+00> : tensor<3x2x2xf32>", "23 : index"]


def function_of(module: ModuleOp, name: str) -> FuncOp:
    (op,) = (op for op in module.ops if isinstance(op, FuncOp) and op.sym_name.data == name)
    return op


# The casts


@st.composite
def slots(
    draw: st.DrawFn, shape: tuple[int, ...], storages: Sequence[StorageFormat] = INTEGERS
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
    with np.errstate(over="ignore"):
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


@pytest.mark.parametrize(
    "expressed", [BFloat16Type(), Float8E5M2Type(), Float8E4M3FNType()], ids=str
)
def test_casts_of_types_that_numpy_lacks(expressed: AnyFloat):
    """Every integer, and every float: exact, but that each step is rounded."""
    known = FLOAT_FORMATS[expressed.name]
    exact = Exact(known)
    every = np.array(range(0, 1 << expressed.bitwidth, 7), dtype=np.uint64)
    patterns = known.decode(every)
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


@examples(50)
@given(st.data(), st.sampled_from(NATIVE))
def test_casts_are_what_they_are_lowered_to(
    data: st.DataObject, types: tuple[AnyFloat, type[np.floating[Any]]]
):
    """To arithmetic that rounds as they do, of every float: infinities and NaN are among them."""
    expressed, _ = types
    shape = data.draw(shapes(max_rank=3))
    moved = replace(data.draw(slots(shape)), expressed=FLOAT_FORMATS[expressed.name])
    storage = Storage.of(IntegerType(moved.storage.width), signed=moved.storage.signed)
    type = UniformQuantizedType.per_tensor(storage, expressed, 1.0).with_parameters(moved)
    module, seed = casts(type, shape), data.draw(st.integers(0, 2**32 - 1))
    lowered = module.clone()
    LowerQuantOpsPass(rounding="nearest-even").apply(Context(), lowered)
    for name in ("q", "d"):
        values = random_arguments(function_of(module, name).function_type, seed)
        (result,) = run_function(module, name, values)
        (same,) = run_function(lowered, name, values)
        assert result.type == same.type
        assert result.elements.tobytes() == same.elements.tobytes()


def test_what_is_too_large_and_what_is_no_number():
    text = """
    func.func @f(%x: tensor<5xf32>) -> tensor<5x!quant.uniform<i8<-100:50>:f32, 0.5:3>> {
      %q = quant.qcast %x : tensor<5xf32> to tensor<5x!quant.uniform<i8<-100:50>:f32, 0.5:3>>
      return %q : tensor<5x!quant.uniform<i8<-100:50>:f32, 0.5:3>>
    }
    """
    floats = "dense<[0x7F800000, 0xFF800000, 0x7FC00000, 1.0e30, -0.0]> : tensor<5xf32>"
    (result,) = run(text, floats)
    assert result.startswith("dense<[50, -100, -100, 50, 3]>")


def test_a_cast_of_float_models_also_reads_and_makes_quantized_values():
    """tosa.cast is an op of float models, and a cast that quantizes and dequantizes."""
    q = "!quant.uniform<i8:f32, 1.562500e-02:-128>"
    assert run(
        f"""
        func.func @f(%x: tensor<2x{q}>) -> (tensor<2xf32>, tensor<2x{q}>, tensor<2xi32>) {{
          %f = tosa.cast %x : (tensor<2x{q}>) -> tensor<2xf32>
          %q = tosa.cast %f : (tensor<2xf32>) -> tensor<2x{q}>
          %i = tosa.cast %f : (tensor<2xf32>) -> tensor<2xi32>
          return %f, %q, %i : tensor<2xf32>, tensor<2x{q}>, tensor<2xi32>
        }}
        """,
        f"dense<[89, -128]> : tensor<2x{q}>",
    ) == [
        "dense<[3.390625, 0.000000e+00]> : tensor<2xf32>",
        f"dense<[89, -128]> : tensor<2x{q}>",
        "dense<[3, 0]> : tensor<2xi32>",
    ]


# Shape ops


@examples(30, suppress_health_check=LARGE_EXAMPLES)
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
    for _ in range(2):
        for number, value in enumerate(expected):
            (result,) = run_function(module, f"f{number}")
            type = result.element_type
            assert isinstance(type, IntegerType)
            signless = StorageFormat(type.bitwidth, signed=True)
            assert result.numbers.tolist() == cut(value.integers, signless).tolist()
        lower(module)


# Lengths that types do not tell, and what cannot be run


def test_loops_over_channels_in_another_order():
    """Elements in the order of the loops have no type: it names an axis of the operand."""
    q = "!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01,1.000000e+00}>"
    argument = f"dense<[[1, 2], [3, 4], [5, 6]]> : tensor<3x2x{q}>"
    assert run(
        f"""
        #map = affine_map<(d0, d1) -> (d1, d0)>
        func.func @f(%x: tensor<3x2x{q}>) -> tensor<3x2x{q}> {{
          %init = tensor.empty() : tensor<3x2x{q}>
          %0 = linalg.generic {{
            indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]
          }} ins(%x : tensor<3x2x{q}>) outs(%init : tensor<3x2x{q}>) {{
          ^bb0(%a: {q}, %b: {q}):
            linalg.yield %a : {q}
          }} -> tensor<3x2x{q}>
          return %0 : tensor<3x2x{q}>
        }}
        """,
        argument,
    ) == [argument]


def test_a_product_that_is_added_along_an_axis_of_the_result_alone():
    maps = ["d0, d2", "d2, d1", "d0, d1, d3"]
    maps = ", ".join(f"affine_map<(d0, d1, d2, d3) -> ({axes})>" for axes in maps)
    loops = '["parallel", "parallel", "reduction", "parallel"]'
    assert run(
        f"""
        func.func @f(%x: tensor<1x2xf32>, %y: tensor<2x1xf32>, %z: tensor<1x1x2xf32>)
            -> tensor<1x1x2xf32> {{
          %0 = linalg.generic {{indexing_maps = [{maps}], iterator_types = {loops}}}
              ins(%x, %y : tensor<1x2xf32>, tensor<2x1xf32>) outs(%z : tensor<1x1x2xf32>) {{
          ^bb0(%a: f32, %b: f32, %c: f32):
            %p = arith.mulf %a, %b : f32
            %s = arith.addf %c, %p : f32
            linalg.yield %s : f32
          }} -> tensor<1x1x2xf32>
          return %0 : tensor<1x1x2xf32>
        }}
        """,
        "dense<[[1.0, 2.0]]> : tensor<1x2xf32>, dense<[[3.0], [4.0]]> : tensor<2x1xf32>, "
        "dense<[[[0.5, 1.5]]]> : tensor<1x1x2xf32>",
    ) == ["dense<[[[1.150000e+01, 1.250000e+01]]]> : tensor<1x1x2xf32>"]


def test_an_unknown_length_that_is_one_is_kept():
    q = "!quant.uniform<i8:f32, 0.5>"
    assert run(
        f"""
        func.func @f(%x: tensor<?x2x{q}>) -> tensor<3x?x2x{q}> {{
          %0 = quant.broadcast_in_dim %x dims = [1, 2] : tensor<?x2x{q}> to tensor<3x?x2x{q}>
          return %0 : tensor<3x?x2x{q}>
        }}
        """,
        f"dense<[[1, 2]]> : tensor<1x2x{q}>",
    ) == [
        f"dense<[[[1, 2]], [[1, 2]], [[1, 2]]]> : tensor<3x1x2x{q.replace('0.5', '5.000000e-01')}>"
    ]


def test_lengths_that_only_the_operands_tell():
    assert run(
        """
        !q = !quant.uniform<i8:f32, 0.5:1>
        func.func @f(%x: tensor<?x?x!q>, %n: index)
            -> (tensor<?x!q>, tensor<?x?x!q>, tensor<?x2x!q>) {
          %0 = quant.reshape %x : tensor<?x?x!q> to tensor<?x!q>
          %1 = quant.pad %x low = [0, 1] high = [0, 0] : tensor<?x?x!q> to tensor<?x?x!q>
          %2 = tensor.extract_slice %x[0, %n] [%n, 2] [1, 1] : tensor<?x?x!q> to tensor<?x2x!q>
          return %0, %1, %2 : tensor<?x!q>, tensor<?x?x!q>, tensor<?x2x!q>
        }
        """,
        "dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3x!quant.uniform<i8:f32, 0.5:1>>, 1 : index",
    ) == [
        f"dense<{elements}> : tensor<{shape}x!quant.uniform<i8:f32, 5.000000e-01:1>>"
        for elements, shape in (
            ("[1, 2, 3, 4, 5, 6]", "6"),
            ("[[1, 1, 2, 3], [1, 4, 5, 6]]", "2x4"),
            ("[[2, 3]]", "1x2"),
        )
    ]


WRONG = {
    "a declared length that is another": (
        """
        func.func @f(%x: tensor<?x?xi8>) -> tensor<2x2xi8> {
          %0 = tensor.cast %x : tensor<?x?xi8> to tensor<2x2xi8>
          return %0 : tensor<2x2xi8>
        }
        """,
        "dense<1> : tensor<2x3xi8>",
        r"'tensor.cast' op cannot be run: shape \[2, 3\] is not the declared one, \[2, 2\]",
    ),
    "slots that do not fit once the length is known": (
        """
        !q = !quant.uniform<i8:f32:0, {0.5,0.25}>
        func.func @f(%x: tensor<?xf32>) -> tensor<?x!q> {
          %0 = quant.qcast %x : tensor<?xf32> to tensor<?x!q>
          return %0 : tensor<?x!q>
        }
        """,
        "dense<1.0> : tensor<3xf32>",
        "quantized dimension size does not match number of scales",
    ),
    "slots that are moved elsewhere once the lengths are known": (
        """
        !a = !quant.uniform<i8:f32:0, {0.5,0.25}>
        !b = !quant.uniform<i8:f32:1, {0.5,0.25}>
        func.func @f(%x: tensor<?x?x!a>) -> tensor<?x?x!b> {
          %0 = quant.reshape %x : tensor<?x?x!a> to tensor<?x?x!b>
          return %0 : tensor<?x?x!b>
        }
        """,
        "dense<1> : tensor<2x3x!quant.uniform<i8:f32:0, {0.5,0.25}>>",
        r"'quant.reshape' op cannot be run: result element \[0, 1\] reads slot",
    ),
    "lengths that cannot be determined": (
        """
        !q = !quant.uniform<i8:f32, 0.5>
        func.func @f(%x: tensor<?x!q>) -> tensor<?x?x!q> {
          %0 = quant.reshape %x : tensor<?x!q> to tensor<?x?x!q>
          return %0 : tensor<?x?x!q>
        }
        """,
        "dense<1> : tensor<4x!quant.uniform<i8:f32, 0.5>>",
        "'quant.reshape' op cannot be run: the lengths of its result cannot be determined",
    ),
    "an op that nobody knows": (
        """
        func.func @f() -> i8 {
          %0 = "other.op"() : () -> i8
          return %0 : i8
        }
        """,
        "",
        "'other.op' op cannot be run: it has no implementation",
    ),
    "a division by zero": (
        """
        func.func @f(%x: i8, %y: i8) -> i8 {
          %0 = arith.divsi %x, %y : i8
          return %0 : i8
        }
        """,
        "1 : i8, 0 : i8",
        "'arith.divsi' op cannot be run: the result is undefined: division by zero",
    ),
    "a type without scales": (
        """
        func.func @f(%x: f32) -> !quant.any<i8:f32> {
          %0 = quant.qcast %x : f32 to !quant.any<i8:f32>
          return %0 : !quant.any<i8:f32>
        }
        """,
        "1.0 : f32",
        r"'quant.qcast' op cannot be run: nothing says how to quantize",
    ),
    "a function without a body": (
        "func.func private @f()",
        "",
        "'f' has no body",
    ),
    "other arguments": (
        "func.func @f(%x: i8) { return }",
        "1 : i16",
        "'f' argument #0: it is of type 'i16', not 'i8'",
    ),
    "too few arguments": (
        "func.func @f(%x: i8) { return }",
        "",
        "'f' takes 1 arguments, but 0 are given",
    ),
    "calls without an end": (
        "func.func @f() { func.call @f() : () -> ()\n return }",
        "",
        "calls are too deep",
    ),
}


@pytest.mark.parametrize(("text", "arguments", "message"), WRONG.values(), ids=WRONG.keys())
def test_what_cannot_be_run(text: str, arguments: str, message: str):
    with pytest.raises(OpInterpretationError, match=message):
        run(text, arguments)


DEQUANTIZED = {
    "onnx": """
      %s = "onnx.Constant"() <{value = dense<[0.5, 0.25]> : tensor<2xf32>}> : () -> tensor<2xf32>
      %z = "onnx.Constant"() <{value = dense<[1, -2]> : tensor<2xi8>}> : () -> tensor<2xi8>
      %y = "onnx.DequantizeLinear"(%x, %s, %z) <{axis = 1 : si64}>
        : (tensor<3x2xi8>, tensor<2xf32>, tensor<2xi8>) -> tensor<3x2xf32>
    """,
    "linalg-ext": """
      %s = arith.constant dense<[0.5, 0.25]> : tensor<2xf32>
      %z = arith.constant dense<[1, -2]> : tensor<2xi64>
      %e = tensor.empty() : tensor<3x2xf32>
      %y = "iree_linalg_ext.dequantize_affine"(%x, %s, %z, %e) <{
        indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>,
          affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>],
        quant_max = 127 : i64, quant_min = -128 : i64}>
        : (tensor<3x2xi8>, tensor<2xf32>, tensor<2xi64>, tensor<3x2xf32>) -> tensor<3x2xf32>
    """,
    "torch": """
      %s = "torch.vtensor.literal"() <{value = dense<[0.5, 0.25]> : tensor<2xf32>}>
        : () -> !torch.vtensor<[2],f32>
      %z = "torch.vtensor.literal"() <{value = dense<[1, -2]> : tensor<2xi8>}>
        : () -> !torch.vtensor<[2],si8>
      %c = "torch_c.from_builtin_tensor"(%x) : (tensor<3x2xi8>) -> !torch.vtensor<[3,2],si8>
      %f = "torch.operator"(%c, %s, %z) <{name = "onnx.DequantizeLinear"}>
        {torch.onnx.axis = 1 : si64}
        : (!torch.vtensor<[3,2],si8>, !torch.vtensor<[2],f32>, !torch.vtensor<[2],si8>)
        -> !torch.vtensor<[3,2],f32>
      %y = "torch_c.to_builtin_tensor"(%f) : (!torch.vtensor<[3,2],f32>) -> tensor<3x2xf32>
    """,
}


@pytest.mark.parametrize("ops", DEQUANTIZED.values(), ids=DEQUANTIZED.keys())
def test_dequantize_ops_of_others(ops: str):
    text = (
        f"func.func @f(%x: tensor<3x2xi8>) -> tensor<3x2xf32> {{{ops}\n"
        "  return %y : tensor<3x2xf32>\n}"
    )
    (found,) = run(text, "dense<[[1, 2], [3, 127], [-128, -2]]> : tensor<3x2xi8>")
    numbers = [[0.0, 1.0], [1.0, 32.25], [-64.5, 0.0]]
    codes = np.array([[1, 2], [3, 127], [-128, -2]])
    assert ((codes - [1, -2]) * [0.5, 0.25]).tolist() == numbers
    spelled = ", ".join(f"[{a:.6e}, {b:.6e}]" for a, b in numbers)
    assert found.startswith(f"dense<[{spelled}]>")


def test_random_tensors_of_another_dialect():
    type = "!torch.vtensor<[2,3],si8>"
    module, _ = parse(f"func.func private @f({type}) -> {type}")
    (found,) = random_arguments(function_of(module, "f").function_type, 0)
    assert found.shape == (2, 3)


# Values


@given(st.integers(0, 2**32), st.sampled_from(INTEGERS), shapes(max_rank=2))
def test_values_are_read_as_they_are_printed(seed: int, storage: StorageFormat, shape: Any):
    of = Storage.of(IntegerType(storage.width), signed=storage.signed)
    quantized = UniformQuantizedType.per_tensor(of, f32, 0.5, 1)
    types = [quantized, *(TensorType(type, shape) for type in (quantized, f32, IntegerType(1)))]
    text = ", ".join(f"%x{number}: {type}" for number, type in enumerate(types))
    module, context = parse(f"func.func @f({text}) {{ return }}")
    values = random_arguments(function_of(module, "f").function_type, seed)
    again = parse_values(", ".join(map(str, values)), "values", context)
    assert [value.type for value in again] == [value.type for value in values] == types
    for one, other in zip(values, again, strict=True):
        assert one.elements.tobytes() == other.elements.tobytes()


@pytest.mark.parametrize("type", ["i1", "i4", "u3", "i8<-3:9>", "u8"])
def test_random_values_are_all_that_a_type_stores(type: str):
    quantized = f"!quant.uniform<{type}:f32, 0.5>"
    module, _ = parse(f"func.func @f(%x: tensor<20x20x{quantized}>) {{ return }}")
    function = function_of(module, "f")
    (value,) = random_arguments(function.function_type, 1)
    (same,) = random_arguments(function.function_type, 1)
    (other,) = random_arguments(function.function_type, 2)
    stored = value.element_type
    assert isinstance(stored, UniformQuantizedType)
    expected = range(stored.storage_type_min, stored.storage_type_max + 1)
    assert set(value.numbers.reshape(-1).tolist()) == set(expected)
    assert value.elements.tobytes() == same.elements.tobytes() != other.elements.tobytes()


def test_random_floats_have_the_edges():
    module, _ = parse("func.func @f(%x: tensor<50x50xf16>) { return }")
    (value,) = random_arguments(function_of(module, "f").function_type, 0)
    known = FLOAT_FORMATS["f16"]
    edges = {0.0, known.smallest, known.largest, math.inf, 0.5, 2.5, -1.5}
    assert edges <= set(value.numbers.reshape(-1).tolist())
    assert np.isnan(value.numbers).any()
    assert (np.signbit(value.numbers) & (value.numbers == 0.0)).any()


SWITCH = """
func.func @f(%i: index, %x: tensor<2xindex>) -> (i32, tensor<2xi32>) {
  %0 = scf.index_switch %i -> i32
  case -1 {
    %a = arith.constant 10 : i32
    scf.yield %a : i32
  }
  case 2 {
    %a = arith.constant 20 : i32
    scf.yield %a : i32
  }
  default {
    %a = arith.constant 30 : i32
    scf.yield %a : i32
  }
  %e = tensor.empty() : tensor<2xi32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x : tensor<2xindex>) outs(%e : tensor<2xi32>) {
  ^bb0(%v: index, %o: i32):
    %2 = scf.index_switch %v -> i32
    case 2 {
      %b = arith.constant 21 : i32
      scf.yield %b : i32
    }
    default {
      %b = arith.constant 31 : i32
      scf.yield %b : i32
    }
    linalg.yield %2 : i32
  } -> tensor<2xi32>
  return %0, %1 : i32, tensor<2xi32>
}
"""  # noqa: E501


def test_the_case_of_a_switch():
    for index, result in ((-1, 10), (2, 20), (0, 30)):
        arguments = f"{index} : index, dense<2> : tensor<2xindex>"
        assert run(SWITCH, arguments) == [f"{result} : i32", "dense<21> : tensor<2xi32>"]
    with pytest.raises(OpInterpretationError, match="control flow differs between positions"):
        run(SWITCH, "0 : index, dense<[1, 2]> : tensor<2xindex>")


def test_functions_for_the_interpreter_of_xdsl():
    context = Context()
    for dialect in (Builtin, Func, Quant):
        context.load_dialect(dialect)
    text = """
    !q = !quant.uniform<i8:f32:0, {0.5,0.25:1}>
    !r = !quant.uniform<i8:f32:1, {0.5,0.25:1}>
    func.func @f() -> tensor<3x2xf32> {
      %w = quant.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3x!q>
      %0 = quant.transpose %w permutation = [1, 0] : tensor<2x3x!q> to tensor<3x2x!r>
      %1 = quant.dcast %0 : tensor<3x2x!r> to tensor<3x2xf32>
      return %1 : tensor<3x2xf32>
    }
    """
    module = LocatingParser(context, text).parse_module()
    interpreter = Interpreter(module)
    interpreter.register_implementations(FuncFunctions())
    interpreter.register_implementations(QuantFunctions())
    (result,) = interpreter.call_op("f")
    assert isinstance(result, TypedArray)
    assert result.numbers.tolist() == [[0.5, 0.75], [1.0, 1.0], [1.5, 1.25]]
