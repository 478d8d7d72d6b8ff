"""
Raising dequantization to casts of quant, and lowering it to arithmetic, are inverse.

Expected values come from numpy when a module is drawn, and from an evaluator that shares no
code with the package.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from dequantizing_arithmetic import (
    FORMS,
    Array,
    Module,
    Numbers,
    Shape,
    Text,
    bits_of,
    numbers_to_dequantize,
)
from hypothesis import assume, given, note
from hypothesis import strategies as st
from xdsl.dialects.builtin import AnyFloat, IntegerType, TensorType, bf16, f16, f32, f64

from qdialect.dialects.quant import Storage, UniformQuantizedType
from qdialect.folding.report import Outcome
from qdialect.lowering.dequantization import Form
from qdialect.ops.interface import RefusalCode
from qdialect.passes.dequantization import LowerDequantizationPass, RaiseDequantizationPass
from qdialect.passes.fold_quant_shapes import FoldQuantShapesPass
from qdialect.support.float_format import FLOAT_FORMATS

pytestmark = pytest.mark.usefixtures("without_plugins")

RAISED = {"builtin.module", "func.func", "func.return", "quant.scast", "quant.dcast"}
CONSTANTS = {"arith.constant", "mhlo.constant", "stablehlo.constant", "tosa.const"}
EVALUATED = [form for form in Form if form is not Form.ONNX]

# From arithmetic, as exporters write it.


def scales_of_types(random: np.random.Generator, shape: Shape) -> Array:
    return np.exp2(random.uniform(-20, 20, shape))


numbers = numbers_to_dequantize(scales_of_types)


@given(numbers, st.sampled_from(sorted(FORMS)), st.sampled_from(EVALUATED))
def test_exported_arithmetic_is_raised_and_lowered(of: Numbers, form: str, to: Form):
    text = Text()
    whole = text.function(FORMS[form](text, of), of.floats)
    note(whole)
    module = Module(whole)
    assert module.bits() == bits_of(of.floats)
    (record,) = module.run(RaiseDequantizationPass()).records
    note(module.printed())
    assert record.outcome is Outcome.RAISED
    assert set(module.ops) <= RAISED | CONSTANTS
    assert module.ops.count("quant.dcast") == 1
    assert module.bits() == bits_of(of.floats)
    raised = module.printed()
    assert not module.run(RaiseDequantizationPass()).records
    assert module.printed() == raised
    (record,) = module.run(LowerDequantizationPass(to=to.value)).records
    note(module.printed())
    assert record.outcome is Outcome.LOWERED
    assert not {"quant.scast", "quant.dcast"} & set(module.ops)
    assert module.bits() == bits_of(of.floats)
    module.run(RaiseDequantizationPass())
    assert module.printed() == raised


def test_what_is_raised_in_blocks_is_folded_to_one_type():
    """Integers that are cut into blocks before, and joined behind, stay where they are."""
    codes = np.arange(-12, 12, dtype=np.int8).reshape(2, 3, 4)
    of = Numbers(codes, None, np.arange(1, 9, dtype=np.float32).reshape(2, 1, 4) / 4)
    text = Text()
    flat = text.constant(codes.reshape(6, 4), "stablehlo.constant")
    blocks = text.emit(codes, "stablehlo.reshape", flat)
    floats = codes.astype(np.float32)
    value = text.emit(floats, "stablehlo.convert", (blocks, codes))
    scales = text.constant(of.scales.reshape(2, 4), "stablehlo.constant")
    dims = "{broadcast_dimensions = array<i64: 0, 2>}"
    by = text.emit(floats, "stablehlo.broadcast_in_dim", scales, extra=dims)
    value = text.emit(floats, "stablehlo.multiply", (value, floats), (by, floats))
    joined = of.floats.reshape(6, 4)
    value = text.emit(joined, "stablehlo.reshape", (value, floats))
    module = Module(text.function(value, joined))
    module.run(RaiseDequantizationPass())
    assert module.bits() == bits_of(joined)
    assert set(module.ops) == RAISED | {"stablehlo.constant"}
    assert "!quant.uniform<i8:f32:{0:3, 1:1}, " in module.printed()


# From quantized types.


@dataclass(frozen=True)
class Quantized:
    """A constant of integers, which is read by a quantized type."""

    codes: np.ndarray
    """Signed ones, whatever the type says."""

    type: UniformQuantizedType

    @property
    def text(self) -> str:
        shape = "".join(f"{n}x" for n in self.codes.shape)
        width = self.type.storage_type.bitwidth
        integers = f"tensor<{shape}i{width}>"
        quantized = str(TensorType(self.type, self.codes.shape))
        floats = f"tensor<{shape}{self.type.expressed_type}>"
        return (
            f"func.func @f() -> {floats} {{\n"
            f"%w = arith.constant dense<{self.codes.tolist()}> : {integers}\n"
            f"%0 = quant.scast %w : {integers} to {quantized}\n"
            f"%f = quant.dcast %0 : {quantized} to {floats}\n"
            f"return %f : {floats}\n}}"
        )

    def is_exact(self) -> bool:
        """Whether the expressed type has all integers, zero points and differences of both."""
        most = 1 << FLOAT_FORMATS[self.type.expressed_type.name].precision
        width, signed, _ = self.type.storage_format
        codes = self.type.storage_format.wrap(self.codes.astype(np.int64))
        if width <= 8:
            codes = np.append(codes, [(1 << (width - signed)) - 1, -signed << (width - 1)])
        zero_points = self.type.storage_format.wrap(self.type.zero_points)
        differences = np.subtract.outer([codes.min(), codes.max()], zero_points)
        numbers = [codes, zero_points, differences]
        return max(int(np.abs(each).max()) for each in numbers) <= most


@st.composite
def quantized(
    draw: st.DrawFn,
    widths: Sequence[int] = (4, 8, 16, 32),
    floats: Sequence[AnyFloat] = (f16, f32),
    ranks: tuple[int, int] = (0, 3),
) -> Quantized:
    pair = st.tuples(st.integers(1, 3), st.integers(1, 3))
    blocks = draw(st.lists(pair, min_size=ranks[0], max_size=ranks[1]))
    shape, slots = tuple(n * m for n, m in blocks), tuple(n for n, _ in blocks)
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    width, signed = draw(st.sampled_from(widths)), draw(st.booleans())
    half = 1 << (width - 1)
    codes = random.integers(-half, half, shape)
    zero_points = np.zeros(slots, dtype=np.int64)
    if draw(st.booleans()):
        low, high = (-half, half) if signed else (0, 2 * half)
        zero_points = random.integers(low, high, slots)
    storage = Storage.of(IntegerType(width), signed=signed)
    expressed = draw(st.sampled_from(floats))
    like = UniformQuantizedType.per_tensor(storage, expressed, 1.0)
    format = FLOAT_FORMATS[expressed.name]
    scales = format.round(np.asarray(random.uniform(0.01, 2, slots)))
    whole = type(like.parameters_on(shape)).from_blocks(
        shape, scales, zero_points, format, like.storage_format
    )
    return Quantized(codes, like.with_parameters(whole))


@given(quantized(), st.sampled_from(EVALUATED))
def test_casts_are_lowered_and_raised(of: Quantized, to: Form):
    module = Module(of.text)
    note(module.printed())
    before, bits = module.printed(), module.bits()
    (record,) = module.run(LowerDequantizationPass(to=to.value)).records
    note(module.printed())
    if to is Form.LINALG_EXT and record.code is RefusalCode.ARITHMETIC:
        # It subtracts integers, and does not look at which there are.
        precision = FLOAT_FORMATS[of.type.expressed_type.name].precision
        assert of.type.storage_type.bitwidth > precision
        assert of.type.zero_points.any()
        assert module.printed() == before
        return
    assert record.outcome is Outcome.LOWERED
    assert not {"quant.scast", "quant.dcast"} & set(module.ops)
    assert module.bits() == bits
    (record, *_) = module.run(RaiseDequantizationPass()).records
    assert module.bits() == bits
    assert (record.outcome is Outcome.RAISED) is of.is_exact()
    if of.is_exact():
        assert module.printed() == before


@given(quantized(floats=(bf16, f64)), st.sampled_from([Form.STABLEHLO, Form.LINALG, Form.ARITH]))
def test_casts_to_other_floats_are_lowered_and_raised(of: Quantized, to: Form):
    module = Module(of.text)
    before = module.printed()
    module.run(LowerDequantizationPass(to=to.value))
    assert "quant.dcast" not in module.ops
    (record, *_) = module.run(RaiseDequantizationPass()).records
    assert (record.outcome is Outcome.RAISED) is of.is_exact()
    if of.is_exact():
        assert module.printed() == before


@given(quantized(widths=(4, 8, 16)))
def test_onnx_has_scales_of_one_axis_or_of_blocks_of_one(of: Quantized):
    module = Module(of.text)
    before, shape = module.printed(), of.codes.shape
    counts = of.type.parameters_on(shape).coarsen().scales.shape
    pairs = list(zip(counts, shape, strict=True))
    # A scale, those of one axis, or those of blocks along one axis.
    is_sayable = sum(n > 1 for n in counts) <= 1 and all(n in (1, length) for n, length in pairs)
    is_sayable |= sum(n < length for n, length in pairs) <= 1
    (record,) = module.run(LowerDequantizationPass(to="onnx")).records
    assert (record.outcome is Outcome.LOWERED) is is_sayable
    assert ("onnx.DequantizeLinear" in module.ops) is is_sayable
    if not is_sayable:
        assert record.code is RefusalCode.GRANULARITY
        assert module.printed() == before
        return
    assume(of.is_exact())
    module.run(RaiseDequantizationPass())
    assert module.printed() == before


@given(quantized(widths=(4, 8, 16), floats=(f32,), ranks=(2, 2)), st.sampled_from(EVALUATED))
def test_shape_ops_behind_what_is_lowered_are_folded(of: Quantized, to: Form):
    """What consumers read is what the fold reads."""
    rows, columns = of.codes.shape
    floats, element = str(of.type.expressed_type), f"{rows}x{columns}"
    transposed = f"tensor<{columns}x{rows}x{floats}>"
    text = of.text.replace(
        f"return %f : tensor<{element}x{floats}>",
        f'%t = "stablehlo.transpose"(%f) <{{permutation = array<i64: 1, 0>}}> '
        f": (tensor<{element}x{floats}>) -> {transposed}\nreturn %t : {transposed}",
    ).replace(f"-> tensor<{element}x{floats}> {{", f"-> {transposed} {{", 1)
    module = Module(text)
    bits = module.bits()
    module.run(LowerDequantizationPass(to=to.value))
    assert module.bits() == bits
    module.run(FoldQuantShapesPass())
    assert module.bits() == bits


# What is left.

W = "%w = arith.constant dense<[[1, -128], [3, 127]]> : tensor<2x2xi8>"
F = "%f = arith.sitofp %w : tensor<2x2xi8> to tensor<2x2xf32>"


def scaled(numbers: str, value: str = "%f") -> str:
    return (
        f"%s = arith.constant dense<{numbers}> : tensor<2x2xf32>\n"
        f"%v = arith.mulf {value}, %s : tensor<2x2xf32>"
    )


def computed(*body: str, value: str = "%f") -> str:
    """What each element of `%w`, which is `%x` there, is made by."""
    lines = "\n".join([*body, f"linalg.yield {value} : f32"])
    maps = ", ".join(["affine_map<(i, j) -> (i, j)>"] * 2)
    return (
        "%i = tensor.empty() : tensor<2x2xf32>\n"
        f"%v = linalg.generic {{indexing_maps = [{maps}], "
        'iterator_types = ["parallel", "parallel"]} '
        "ins(%w : tensor<2x2xi8>) outs(%i : tensor<2x2xf32>) {\n"
        f"^bb0(%x: i8, %out: f32):\n{lines}\n}} -> tensor<2x2xf32>"
    )


HALF = "%h = arith.constant 0.5 : f32"
PRODUCT = "%f = arith.mulf %r, %h : f32"


POSITIVE, READ = "a scale is not positive and finite", "it differs from 'quant.dcast'"

LEFT = {
    "a negative scale": ((W, F, scaled("[[0.5, 0.5], [-0.25, 0.5]]")), POSITIVE),
    "a scale of zero": ((W, F, scaled("0.0")), POSITIVE),
    "an infinite scale": ((W, F, scaled("0x7F800000")), POSITIVE),
    "a scale that is no number": ((W, F, scaled("0x7FC00000")), POSITIVE),
    "a large zero point": (
        (
            W,
            HALF,
            "%z = arith.constant 128 : i32",
            computed(
                "%e = arith.extsi %x : i8 to i32",
                "%d = arith.subi %e, %z : i32",
                "%r = arith.sitofp %d : i32 to f32",
                PRODUCT,
            ),
        ),
        "a zero point does not fit 'i8'",
    ),
    "a negative zero point of unsigned storage": (
        (
            W,
            HALF,
            "%z = arith.constant -1 : i32",
            computed(
                "%e = arith.extui %x : i8 to i32",
                "%d = arith.subi %e, %z : i32",
                "%r = arith.sitofp %d : i32 to f32",
                PRODUCT,
            ),
        ),
        "a zero point does not fit 'u8'",
    ),
    "a zero point between integers": (
        (
            W,
            F,
            "%z = arith.constant dense<0.5> : tensor<2x2xf32>",
            "%d = arith.subf %f, %z : tensor<2x2xf32>",
            scaled("0.5", "%d"),
        ),
        "a zero point is not an integer",
    ),
    "fast-math flags": (
        (W, F, scaled("0.5").replace("%s :", "%s fastmath<fast> :")),
        "has fast-math flags",
    ),
    "negative integers that are read as unsigned": (
        (
            W,
            HALF,
            computed(
                "%e = arith.extsi %x : i8 to i32", "%r = arith.uitofp %e : i32 to f32", PRODUCT
            ),
        ),
        READ,
    ),
    "negative differences that are read as unsigned": (
        (
            W,
            HALF,
            "%z = arith.constant 3 : i32",
            computed(
                "%e = arith.extui %x : i8 to i32",
                "%d = arith.subi %e, %z : i32",
                "%r = arith.uitofp %d : i32 to f32",
                PRODUCT,
            ),
        ),
        READ,
    ),
    "integers that lose their sign on the way": (
        (
            W,
            HALF,
            computed(
                "%n = arith.extsi %x : i8 to i16",
                "%e = arith.extui %n : i16 to i32",
                "%r = arith.sitofp %e : i32 to f32",
                PRODUCT,
            ),
        ),
        READ,
    ),
    "integers that are not exact though their differences are": (
        (
            "%z = arith.constant -32767 : i16",
            "%b = arith.constant 0.5 : bf16",
            "%l = arith.constant dense<[[-32700, -32701], [-32702, -32703]]> : tensor<2x2xi16>",
            computed(
                "%d = arith.subi %x, %z : i16",
                "%r = arith.sitofp %d : i16 to bf16",
                "%p = arith.mulf %r, %b : bf16",
                "%f = arith.extf %p : bf16 to f32",
            )
            .replace("%w : tensor<2x2xi8>", "%l : tensor<2x2xi16>")
            .replace("%x: i8", "%x: i16"),
        ),
        "'bf16' does not represent all of its integers exactly",
    ),
    "floats that are scaled": (
        ("%f = arith.constant dense<2.0> : tensor<2x2xf32>", scaled("0.5")),
        "not a constant of integers",
    ),
}


def function_of(*body: str) -> str:
    lines = "\n".join(body)
    return f"func.func @f() -> tensor<2x2xf32> {{\n{lines}\nreturn %v : tensor<2x2xf32>\n}}"


@pytest.mark.parametrize(("body", "reason"), LEFT.values(), ids=LEFT)
def test_what_no_type_means_is_left(body: Sequence[str], reason: str):
    module = Module(function_of(*body))
    before = module.printed()
    (record,) = module.run(RaiseDequantizationPass()).records
    assert record.outcome is Outcome.REFUSED
    assert record.code is RefusalCode.ARITHMETIC
    assert reason in record.reason
    assert module.printed() == before


COMPUTED = {
    "a subtraction that wraps": (
        "%w = arith.constant dense<[[-128, 2], [127, 4]]> : tensor<2x2xi8>",
        "%z = arith.constant dense<[[1, 2], [-1, 3]]> : tensor<2x2xi8>",
        "%d = arith.subi %w, %z : tensor<2x2xi8>",
        "%f = arith.sitofp %d : tensor<2x2xi8> to tensor<2x2xf32>",
        scaled("0.5"),
    ),
    "floats that are converted": (
        W,
        "%h = arith.sitofp %w : tensor<2x2xi8> to tensor<2x2xf16>",
        "%f = arith.extf %h : tensor<2x2xf16> to tensor<2x2xf32>",
        scaled("0.5"),
    ),
}


@pytest.mark.parametrize("body", COMPUTED.values(), ids=COMPUTED)
def test_integers_that_are_computed(body: Sequence[str]):
    """No form of arithmetic, but a run shows which integers are multiplied."""
    module = Module(function_of(*body))
    bits = module.bits()
    (record,) = module.run(RaiseDequantizationPass()).records
    assert record.outcome is Outcome.RAISED
    assert module.bits() == bits
    assert "quant.dcast" in module.ops
    assert "arith.mulf" not in module.ops


BEHIND = {
    "a second product": "%v = arith.mulf %p, %t : tensor<2x2xf32>",
    "a sum": "%v = arith.addf %p, %t : tensor<2x2xf32>",
    "a conversion": (
        "%n = arith.truncf %p : tensor<2x2xf32> to tensor<2x2xf16>\n"
        "%v = arith.extf %n : tensor<2x2xf16> to tensor<2x2xf32>"
    ),
}


@pytest.mark.parametrize("behind", BEHIND.values(), ids=BEHIND)
def test_what_is_behind_a_dequantization_stays(behind: str):
    constant = "%t = arith.constant dense<0.3> : tensor<2x2xf32>"
    body = (W, F, constant, scaled("0.7").replace("%v", "%p"), behind)
    module = Module(function_of(*body))
    bits = module.bits()
    (record,) = module.run(RaiseDequantizationPass()).records
    assert (record.outcome, record.op_name) == (Outcome.RAISED, "arith.mulf")
    assert module.bits() == bits
    assert module.ops.count("quant.dcast") == 1
    assert "arith.sitofp" not in module.ops


def test_scales_of_other_axes_than_zero_points_are_not_multiplied_without_limit():
    random = np.random.default_rng(0)
    codes = random.integers(-8, 8, (64, 32)).astype(np.int8)
    zero_points = random.integers(-8, 8, (64, 1)).astype(np.int8)
    scales = random.uniform(1, 2, (1, 32)).astype(np.float32)
    of, text = Numbers(codes, zero_points, scales), Text()
    whole = text.function(FORMS["tosa"](text, of), of.floats)
    module = Module(whole)
    (record,) = module.run(RaiseDequantizationPass()).records
    assert record.code is RefusalCode.PARAMETER_GROWTH
    assert f"it has {64 * 32} scales, its sources have {64 + 32}" in record.reason
    assert module.printed() == Module(whole).printed()
    growth = RaiseDequantizationPass(max_parameter_growth=64 * 32)
    (record,) = module.run(growth).records
    assert record.outcome is Outcome.RAISED
    assert module.bits() == bits_of(of.floats)


def test_integers_that_a_broadcast_repeats_are_not_written_out():
    codes = np.arange(-128, 128, dtype=np.int8)
    text, shape = Text(), (1 << 13, 256)
    floats = np.broadcast_to(codes.astype(np.float32), shape)
    value = text.emit(floats[0], "stablehlo.convert", text.constant(codes, "stablehlo.constant"))
    one = "{broadcast_dimensions = array<i64: 1>}"
    value = text.emit(floats, "stablehlo.broadcast_in_dim", (value, floats[0]), extra=one)
    scale = text.constant(np.asarray(0.5, np.float32), "stablehlo.constant")
    none = "{broadcast_dimensions = array<i64>}"
    by = text.emit(floats, "stablehlo.broadcast_in_dim", scale, extra=none)
    value = text.emit(floats, "stablehlo.multiply", (value, floats), (by, floats))
    module = Module(text.function(value, floats))
    before = module.printed()
    (record,) = module.run(RaiseDequantizationPass()).records
    assert record.code is RefusalCode.GROWTH
    assert module.printed() == before


# Casts of other names.

Q = "!quant.uniform<u8:f32:0, {0.5,0.25:3}>"
CASTS = {
    "quantization.dcast": "quantization.scast",
    "quantfork.dcast": "quantfork.scast",
    "mhlo.uniform_dequantize": "quant.scast",
    "stablehlo.uniform_dequantize": "quant.scast",
    "tfl.dequantize": "quant.scast",
    "ttir.dequantize": "quant.scast",
}


@pytest.mark.parametrize(("dcast", "scast"), CASTS.items(), ids=CASTS)
def test_casts_of_other_names_are_casts_of_quant(dcast: str, scast: str):
    module = Module(f"""
    func.func @f(%x: tensor<2x?x{Q}>) -> (tensor<2x2xf32>, tensor<2x?xf32>) {{
      %w = arith.constant dense<[[1, 2], [3, -56]]> : tensor<2x2xi8>
      %q = "{scast}"(%w) : (tensor<2x2xi8>) -> tensor<2x2x{Q}>
      %f = "{dcast}"(%q) : (tensor<2x2x{Q}>) -> tensor<2x2xf32>
      %y = "{dcast}"(%x) : (tensor<2x?x{Q}>) -> tensor<2x?xf32>
      return %f, %y : tensor<2x2xf32>, tensor<2x?xf32>
    }}
    """)
    records = module.run(RaiseDequantizationPass()).records
    assert {record.outcome for record in records} == {Outcome.RAISED}
    assert set(module.ops) == RAISED | {"arith.constant"}
    assert module.ops.count("quant.dcast") == 2


QUANTIZED = {
    "stablehlo.constant": ("value", "stablehlo.uniform_dequantize", ""),
    "mhlo.constant": ("value", "mhlo.uniform_dequantize", ""),
    "tosa.const": ("values", "tosa.cast", ""),
    "tfl.pseudo_qconst": ("value", "tfl.dequantize", f"qtype = tensor<2x2x{Q}>, "),
}


@pytest.mark.parametrize("constant", QUANTIZED)
@pytest.mark.parametrize("value", ["[[1, 2], [3, 200]]", "200"])
def test_quantized_constants_of_other_dialects_are_integers(constant: str, value: str):
    key, dcast, other = QUANTIZED[constant]
    module = Module(f"""
    func.func @f() -> tensor<2x2xf32> {{
      %w = "{constant}"() <{{{other}{key} = dense<{value}> : tensor<2x2xui8>}}>
        : () -> tensor<2x2x{Q}>
      %f = "{dcast}"(%w) : (tensor<2x2x{Q}>) -> tensor<2x2xf32>
      return %f : tensor<2x2xf32>
    }}
    """)
    module.run(RaiseDequantizationPass())
    assert set(module.ops) == RAISED | {"arith.constant"}
    codes = np.broadcast_to(np.array(json.loads(value)), (2, 2)).astype(np.float32)
    zero, scale = np.array([[0], [3]], np.float32), np.array([[0.5], [0.25]], np.float32)
    assert module.bits() == bits_of((codes - zero) * scale)


def test_a_cast_that_an_attribute_keeps_is_left():
    module = Module(f"""
    func.func @f(%x: tensor<2x{Q}>) -> tensor<2xf32> {{
      %f = "mhlo.uniform_dequantize"(%x) {{mhlo.sharding = "s"}} : (tensor<2x{Q}>) -> tensor<2xf32>
      return %f : tensor<2xf32>
    }}
    """)
    (record,) = module.run(RaiseDequantizationPass()).records
    assert record.code is RefusalCode.KEPT


# What cannot be lowered.

DCAST = "%f = quant.dcast {0} : tensor<{1}> to tensor<{2}>\nreturn %f : tensor<{2}>"


@pytest.mark.parametrize(
    ("to", "argument", "quantized", "floats", "code"),
    [
        ("stablehlo", "2xi8", "2x!quant.uniform<i8:f80, 0.5>", "2xf80", RefusalCode.ILLEGAL_TYPE),
        ("tosa", "2xi8", "2x!quant.uniform<i8:f64, 0.5>", "2xf64", RefusalCode.ILLEGAL_TYPE),
        ("tosa", "2xi8", "2x!quant.uniform<u8:f32, 0.5>", "2xf32", RefusalCode.ILLEGAL_TYPE),
        ("onnx", "2xi8", "2x!quant.uniform<u8:f32, 0.5>", "2xf32", RefusalCode.ILLEGAL_TYPE),
        ("onnx", "2xi32", "2x!quant.uniform<i32:f32, 0.5:1>", "2xf32", RefusalCode.ILLEGAL_TYPE),
        ("stablehlo", "2xi5", "2x!quant.uniform<i5:f32, 0.5>", "2xf32", RefusalCode.ILLEGAL_TYPE),
        ("linalg", "?xi8", "?x!quant.uniform<i8:f32, 0.5>", "?xf32", RefusalCode.DYNAMIC_SHAPE),
        ("arith", "*xi8", "*x!quant.uniform<i8:f32, 0.5>", "*xf32", RefusalCode.DYNAMIC_SHAPE),
        ("linalg", "0xi8", "0x!quant.uniform<i8:f32, 0.5>", "0xf32", RefusalCode.ARITHMETIC),
        ("linalg", "2xi8", "2x!quant.uniform<i8:f32, 0.5>", "2xf32", None),
    ],
)
def test_what_a_form_cannot_say_is_left(
    to: str, argument: str, quantized: str, floats: str, code: RefusalCode | None
):
    module = Module(f"""
    func.func @f(%x: tensor<{argument}>) -> tensor<{floats}> {{
      %0 = quant.scast %x : tensor<{argument}> to tensor<{quantized}>
      {DCAST.format("%0", quantized, floats)}
    }}
    """)
    before = module.printed()
    (record,) = module.run(LowerDequantizationPass(to=to)).records
    assert record.code is code
    assert (module.printed() == before) is (code is not None)


@pytest.mark.parametrize("to", Form)
def test_what_no_storage_cast_makes_gets_one(to: Form):
    quantized = "2x!quant.uniform<i8:f32, 5.000000e-01>"
    module = Module(f"""
    func.func @f(%x: tensor<{quantized}>) -> tensor<2xf32> {{
      {DCAST.format("%x", quantized, "2xf32")}
    }}
    """)
    (record,) = module.run(LowerDequantizationPass(to=to)).records
    assert record.code is None
    assert "quant.dcast" not in module.printed()
    assert f"quant.scast %x : tensor<{quantized}> to tensor<2xi8>" in module.printed()


def test_there_is_no_form_of_another_name():
    with pytest.raises(ValueError, match="to must be one of stablehlo, tosa, linalg, linalg-ext"):
        LowerDequantizationPass(to="mhlo")
