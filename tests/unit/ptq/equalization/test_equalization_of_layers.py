"""Layers of all layouts are equalized: what they compute stays, and so do the granularities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from dequantizing_arithmetic import (
    Numbers,
    Text,
    in_arith,
    in_one_generic,
    in_several_generics,
    in_stablehlo,
    in_tosa,
)
from equalized_modules import Model, are_close
from random_networks import powers

from qdialect.dialects.quant import ConstantOp, UniformQuantizedType
from qdialect.folding.policy import FoldPolicy
from qdialect.folding.raising import raise_dequantization
from qdialect.folding.report import Outcome
from qdialect.ops.along_axis import statistics_of
from qdialect.ops.interface import name_of

pytestmark = pytest.mark.usefixtures("without_plugins")


def dense(shape: tuple[int, ...], seed: int) -> str:
    """A constant whose spread differs along each axis."""
    random = np.random.default_rng(seed)
    spread = np.ones(shape)
    for axis, length in enumerate(shape):
        lengths = [1] * len(shape)
        lengths[axis] = length
        spread = spread * powers(random, length).reshape(lengths)
    array = (random.normal(size=shape) * spread).astype("<f4")
    return f'dense<"0x{array.tobytes().hex().upper()}"> : {type_of(shape)}'


def type_of(shape: tuple[int, ...], element: str = "f32") -> str:
    return f"tensor<{''.join(f'{length}x' for length in shape)}{element}>"


@dataclass(frozen=True)
class Case:
    """Two layers, with a relu between them; the text of each reads `%x` and `%w`."""

    name: str
    layer: str
    x: tuple[int, ...]
    w: tuple[int, ...]
    y: tuple[int, ...]
    scales: int
    """How many the layer has."""
    is_folded: bool = True
    """Whether its rows can have the scales of the layer behind it."""
    axis: int = -1
    """The axis of the channels of the result."""

    @property
    def text(self) -> str:
        x, w, y = map(type_of, (self.x, self.w, self.y))
        body = self.layer.replace("XTYPE", x).replace("WTYPE", w).replace("YTYPE", y)
        channels = self.y[self.axis]
        axes = [at for at in range(len(self.y)) if at != self.axis % len(self.y)]
        rest = [self.y[at] for at in axes]
        last = (*rest, 3)
        numbers = (
            f"#stablehlo.dot<lhs_contracting_dimensions = [{self.axis % len(self.y)}], "
            "rhs_contracting_dimensions = [0]>"
        )
        v = (channels, 3)
        return f"""
func.func @f(%x: {x}) -> {type_of(last)} {{
  %w = arith.constant {dense(self.w, 1)}
  %v = arith.constant {dense(v, 2)}
  %zero = arith.constant 0.0 : f32
  %zeros = arith.constant dense<0.0> : {y}
  {body}
  %h = "stablehlo.maximum"(%y, %zeros) : ({y}, {y}) -> {y}
  %r = "stablehlo.dot_general"(%h, %v) <{{dot_dimension_numbers = {numbers}}}>
    : ({y}, {type_of(v)}) -> {type_of(last)}
  return %r : {type_of(last)}
}}
"""


def linalg(
    name: str, x: tuple[int, ...], w: tuple[int, ...], y: tuple[int, ...], scales: int, **kw: object
) -> Case:
    text = f"""%e = tensor.empty() : YTYPE
  %i = linalg.fill ins(%zero : f32) outs(%e : YTYPE) -> YTYPE
  %y = linalg.{name} ins(%x, %w : XTYPE, WTYPE) outs(%i : YTYPE) -> YTYPE"""
    return Case(name, text, x, w, y, scales, **kw)  # pyright: ignore[reportArgumentType]


def dot(
    name: str,
    numbers: str,
    x: tuple[int, ...],
    w: tuple[int, ...],
    y: tuple[int, ...],
    scales: int,
    order: str = "%x, %w",
    **kw: object,
) -> Case:
    types = "XTYPE, WTYPE" if order == "%x, %w" else "WTYPE, XTYPE"
    text = (
        f'%y = "stablehlo.dot_general"({order}) '
        f"<{{dot_dimension_numbers = #stablehlo.dot<{numbers}>}}> : ({types}) -> YTYPE"
    )
    return Case(name, text, x, w, y, scales, **kw)  # pyright: ignore[reportArgumentType]


def convolution(
    name: str,
    numbers: str,
    groups: int,
    x: tuple[int, ...],
    w: tuple[int, ...],
    y: tuple[int, ...],
    scales: int,
    extra: str = "",
    **kw: object,
) -> Case:
    text = (
        f'%y = "stablehlo.convolution"(%x, %w) <{{batch_group_count = 1 : i64, '
        f"feature_group_count = {groups} : i64, "
        f"dimension_numbers = #stablehlo.conv<{numbers}>{extra}}}> : (XTYPE, WTYPE) -> YTYPE"
    )
    return Case(name, text, x, w, y, scales, **kw)  # pyright: ignore[reportArgumentType]


def tosa(
    name: str,
    x: tuple[int, ...],
    w: tuple[int, ...],
    y: tuple[int, ...],
    scales: int,
    attributes: str,
    channels: int,
) -> Case:
    bias = type_of((channels,))
    text = f"""%b = "tosa.const"() <{{values = {dense((channels,), 3)}}}> : () -> {bias}
  %z = "tosa.const"() <{{values = dense<0.0> : tensor<1xf32>}}> : () -> tensor<1xf32>
  %y = "tosa.{name}"(%x, %w, %b, %z, %z) <{{acc_type = f32, {attributes}}}>
    : (XTYPE, WTYPE, {bias}, tensor<1xf32>, tensor<1xf32>) -> YTYPE"""
    return Case(f"tosa_{name}", text, x, w, y, scales)


PADS = "pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>, dilation = array<i64: 1, 1>"

CASES = [
    linalg("matmul", (5, 4), (4, 3), (5, 3), 4),
    linalg("batch_matmul", (2, 5, 4), (2, 4, 3), (2, 5, 3), 4),
    linalg("conv_1d_nwc_wcf", (2, 6, 3), (2, 3, 4), (2, 5, 4), 3),
    linalg("conv_1d_ncw_fcw", (2, 3, 6), (4, 3, 2), (2, 4, 5), 3, axis=1),
    linalg("conv_2d_nhwc_hwcf", (1, 4, 5, 3), (2, 2, 3, 4), (1, 3, 4, 4), 3),
    linalg("conv_2d_nhwc_fhwc", (1, 4, 5, 3), (4, 2, 2, 3), (1, 3, 4, 4), 3),
    linalg("conv_2d_nchw_fchw", (1, 3, 4, 5), (4, 3, 2, 2), (1, 4, 3, 4), 3, axis=1),
    linalg("conv_3d_ndhwc_dhwcf", (1, 3, 4, 3, 2), (2, 2, 2, 2, 3), (1, 2, 3, 2, 3), 2),
    linalg("conv_3d_ncdhw_fcdhw", (1, 2, 3, 4, 3), (3, 2, 2, 2, 2), (1, 3, 2, 3, 2), 2, axis=1),
    linalg("depthwise_conv_1d_nwc_wc", (1, 5, 3), (2, 3), (1, 4, 3), 3),
    linalg("depthwise_conv_2d_nhwc_hwc", (1, 4, 5, 3), (2, 2, 3), (1, 3, 4, 3), 3),
    linalg("depthwise_conv_2d_nhwc_hwcm", (1, 4, 5, 3), (2, 2, 3, 2), (1, 3, 4, 3, 2), 3),
    linalg("depthwise_conv_2d_nchw_chw", (1, 3, 4, 5), (3, 2, 2), (1, 3, 3, 4), 3, axis=1),
    tosa("conv2d", (1, 4, 5, 3), (4, 2, 2, 3), (1, 3, 4, 4), 3, PADS, 4),
    tosa("depthwise_conv2d", (1, 4, 5, 3), (2, 2, 3, 2), (1, 3, 4, 6), 3, PADS, 6),
    tosa(
        "transpose_conv2d",
        (1, 4, 5, 3),
        (4, 2, 2, 3),
        (1, 5, 6, 4),
        3,
        "out_pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>",
        4,
    ),
    dot(
        "dot_of_the_left",
        "lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]",
        (4, 5),
        (3, 4),
        (3, 5),
        4,
        "%w, %x",
        axis=0,
    ),
    dot(
        "dot_of_two_axes",
        "lhs_contracting_dimensions = [0, 2], rhs_contracting_dimensions = [1, 0]",
        (4, 5, 3),
        (3, 4, 2),
        (5, 2),
        4,
    ),
    dot(
        "dot_in_batches",
        "lhs_batching_dimensions = [1], rhs_batching_dimensions = [2], "
        "lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [0]",
        (5, 2, 4),
        (4, 3, 2),
        (2, 5, 3),
        4,
    ),
    convolution(
        "convolution_nchw", "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]", 1,
        (1, 3, 4, 5), (4, 3, 2, 2), (1, 4, 3, 4), 3, axis=1,
    ),
    convolution(
        "convolution_in_groups", "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]", 2,
        (1, 4, 5, 6), (2, 2, 3, 4), (1, 3, 4, 4), 6,
    ),
    convolution(
        "convolution_of_channels", "[b, f, 0]x[o, i, 0]->[b, f, 0]", 3,
        (1, 3, 5), (6, 1, 2), (1, 6, 4), 3, axis=1,
    ),
    convolution(
        "convolution_transposed", "[b, 0, f]x[0, i, o]->[b, 0, f]", 1,
        (1, 4, 3), (2, 3, 2), (1, 6, 2), 3, ", lhs_dilation = array<i64: 2>",
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("power_of_two", [False, True])
def test_layers_of_all_layouts(case: Case, power_of_two: bool) -> None:
    model = Model(case.text).calibrate()
    before = model.run()
    model.equalize(power_of_two=power_of_two)
    after = model.run()
    assert are_close(before, after)
    if power_of_two:
        assert before[0].tobytes() == after[0].tobytes()
    assert not model.refusals()
    assert model.check_ranges()
    if not power_of_two:
        assert len(model.scales()["y"]) == case.scales
        # One product for the input; the scales of the next layer are in the rows.
        assert len([op for op in model.ops if "quant.float" in op.attributes]) == 1


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_inputs_and_columns_have_equal_ranges(case: Case) -> None:
    """So that there is nothing to do a second time."""
    model = Model(case.text).calibrate()
    model.equalize(layers=("y",))
    assert len(model.scales()["y"]) == case.scales
    model.equalize(layers=("y",))
    assert not model.scales()


WEIGHTS = """
func.func @f(%x: tensor<5x4xf32>) -> tensor<5x3xf32> {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<5x3xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<5x3xf32>) -> tensor<5x3xf32>
  {weights}
  %y = linalg.matmul ins(%x, %w : tensor<5x4xf32>, tensor<4x3xf32>)
    outs(%i : tensor<5x3xf32>) -> tensor<5x3xf32>
  return %y : tensor<5x3xf32>
}}
"""

BEHIND = {
    "transpose": f"""%c = arith.constant {dense((3, 4), 5)}
  %w = tosa.transpose %c {{perms = array<i32: 1, 0>}} : (tensor<3x4xf32>) -> tensor<4x3xf32>""",
    "reshape": f"""%c = arith.constant {dense((2, 2, 3), 5)}
  %w = tensor.collapse_shape %c [[0, 1], [2]] : tensor<2x2x3xf32> into tensor<4x3xf32>""",
    "slice": f"""%c = arith.constant {dense((6, 3), 5)}
  %w = tensor.extract_slice %c[1, 0] [4, 3] [1, 1] : tensor<6x3xf32> to tensor<4x3xf32>""",
    "concat": f"""%c = "tosa.const"() <{{values = {dense((1, 3), 5)}}}> : () -> tensor<1x3xf32>
  %d = "tosa.const"() <{{values = {dense((3, 3), 6)}}}> : () -> tensor<3x3xf32>
  %w = "tosa.concat"(%c, %d) <{{axis = 0 : i32}}>
    : (tensor<1x3xf32>, tensor<3x3xf32>) -> tensor<4x3xf32>""",
    "broadcast of the rows": f"""%c = arith.constant {dense((4,), 5)}
  %w = "stablehlo.broadcast_in_dim"(%c) <{{broadcast_dimensions = array<i64: 0>}}>
    : (tensor<4xf32>) -> tensor<4x3xf32>""",
    "broadcast of the columns": f"""%c = arith.constant {dense((3,), 5)}
  %w = "stablehlo.broadcast_in_dim"(%c) <{{broadcast_dimensions = array<i64: 1>}}>
    : (tensor<3xf32>) -> tensor<4x3xf32>""",
    "splat": "%w = arith.constant dense<0.5> : tensor<4x3xf32>",
    "ranges": f"""%c = arith.constant {dense((4, 3), 5)}
  %w = quant.stats %c {{layerStats = dense<[-9.0, 9.0]> : tensor<2xf32>}} : tensor<4x3xf32>""",
}


@pytest.mark.parametrize("weights", BEHIND.values(), ids=BEHIND.keys())
def test_weights_behind_shape_ops(weights: str) -> None:
    """Shape ops stay, unless an element of the constant would need several factors, or none."""
    model = Model(WEIGHTS.format(weights=weights)).calibrate()
    before, names = model.run(), [name_of(op) for op in model.ops]
    model.equalize()
    assert are_close(before, model.run())
    assert not model.refusals()
    assert model.check_ranges()
    moves = [name for name in names if name_of_move(name)]
    is_replaced = weights in (BEHIND["broadcast of the columns"], BEHIND["slice"])
    assert [name for name in map(name_of, model.ops) if name_of_move(name)] == moves * (
        not is_replaced
    )


def name_of_move(name: str) -> bool:
    return name in (
        "tosa.transpose",
        "tensor.collapse_shape",
        "tensor.extract_slice",
        "tosa.concat",
        "stablehlo.broadcast_in_dim",
    )


QUANTIZED = {
    "per tensor": "!quant.uniform<i8:f32, 0.5>",
    "per axis": "!quant.uniform<i8<-127:127>:f32:1, {0.5,0.25,2.0}>",
    "per row": "!quant.uniform<i8:f32:0, {0.5,0.25,2.0,1.0}>",
    "affine": "!quant.uniform<u8:f32, 0.5:128>",
    "blocks": "!quant.uniform<i8:f32:{0:2, 1:1}, {{0.5,0.25,2.0},{0.25,0.5,1.0}}>",
}


@pytest.mark.parametrize("type", QUANTIZED.values(), ids=QUANTIZED.keys())
@pytest.mark.parametrize("form", ["constant", "storage", "transposed"])
def test_dequantized_weights_are_quantized_anew(type: str, form: str) -> None:
    """With as many scales along the same axes, and the same codes; and it is said."""
    low = 0 if "u8" in type else -127
    codes = np.random.default_rng(4).integers(low, low + 255, (4, 3)).tolist()
    held = f"dense<{codes}>"
    if form == "constant":
        text = f"%q = quant.constant {held} : tensor<4x3x{type}>"
    elif form == "storage":
        signed = np.array(codes, "i8" if low else "u1").astype("i1").tolist()
        text = f"""%s = arith.constant dense<{signed}> : tensor<4x3xi8>
  %q = quant.scast %s : tensor<4x3xi8> to tensor<4x3x{type}>"""
    else:
        text = f"""%q = quant.constant {held} : tensor<4x3x{type}>"""
    weights = f"{text}\n  %w = quant.dcast %q : tensor<4x3x{type}> to tensor<4x3xf32>"
    if form == "transposed":
        weights += """
  %t = tosa.transpose %w {perms = array<i32: 1, 0>} : (tensor<4x3xf32>) -> tensor<3x4xf32>
  %u = tosa.transpose %t {perms = array<i32: 1, 0>} : (tensor<3x4xf32>) -> tensor<4x3xf32>"""
    source = WEIGHTS.format(weights=weights)
    if form == "transposed":
        source = source.replace("ins(%x, %w", "ins(%x, %u")
    model = Model(source).calibrate()
    before = model.run()
    model.equalize()
    assert not model.refusals()
    (after,) = model.run()
    # The codes are other ones, so that the result has the noise of eight bits.
    assert np.abs(after - before[0]).max() < 0.05 * np.abs(before[0]).max()
    told = [of.reason for of in model.outcomes.records if of.outcome is Outcome.EQUALIZED]
    assert any("requantized" in reason for reason in told)
    casts = model.named("quant.dcast")
    assert len(casts) == 1
    found = casts[0].operands[0].type.element_type  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
    assert isinstance(found, UniformQuantizedType)
    old = Model(source).named("quant.dcast")[0].operands[0].type.element_type  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
    assert isinstance(old, UniformQuantizedType)
    assert found.quantized_dimensions == old.quantized_dimensions
    assert found.block_sizes == old.block_sizes
    assert found.storage_type == old.storage_type
    assert (found.storage_type_min, found.storage_type_max) == (
        old.storage_type_min,
        old.storage_type_max,
    )
    assert bool(found.zero_points.any()) == bool(old.zero_points.any())
    assert len(model.named("quant.constant")) == (form != "storage")
    assert all(isinstance(op, ConstantOp) for op in model.named("quant.constant"))


LENGTHS = """%n = "stablehlo.get_dimension_size"(%s) <{dimension = 0 : i64}>
    : (tensor<?x4xf32>) -> tensor<i32>
  %m = "stablehlo.reshape"(%n) : (tensor<i32>) -> tensor<1xi32>
  %four = arith.constant dense<4> : tensor<1xi32>
  %l = "stablehlo.concatenate"(%m, %four) <{dimension = 0 : i64}>
    : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>"""

OF_ANY_LENGTH = {
    "stablehlo": f"""func.func @f(%x: tensor<?x3xf32>) -> tensor<?x2xf32> {{
  %w = arith.constant {dense((3, 4), 1)}
  %v = arith.constant {dense((4, 2), 2)}
  %b = arith.constant {dense((1, 4), 3)}
  %zero = arith.constant dense<0.0> : tensor<f32>
  %s = "stablehlo.dot"(%x, %w) : (tensor<?x3xf32>, tensor<3x4xf32>) -> tensor<?x4xf32>
  {LENGTHS}
  %d = "stablehlo.dynamic_broadcast_in_dim"(%b, %l) <{{broadcast_dimensions = array<i64: 0, 1>}}>
    : (tensor<1x4xf32>, tensor<2xi32>) -> tensor<?x4xf32>
  %a = "stablehlo.add"(%s, %d) : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %z = "stablehlo.dynamic_broadcast_in_dim"(%zero, %l) <{{broadcast_dimensions = array<i64>}}>
    : (tensor<f32>, tensor<2xi32>) -> tensor<?x4xf32>
  %r = "stablehlo.maximum"(%a, %z) : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %y = "stablehlo.dot"(%r, %v) : (tensor<?x4xf32>, tensor<4x2xf32>) -> tensor<?x2xf32>
  return %y : tensor<?x2xf32>
}}""",
    "linalg": f"""func.func @f(%x: tensor<?x3x6xf32>) -> tensor<?x2x5xf32> {{
  %w = arith.constant {dense((4, 3, 2), 1)}
  %v = arith.constant {dense((2, 4, 1), 2)}
  %b = arith.constant {dense((4,), 3)}
  %zero = arith.constant 0.0 : f32
  %at = arith.constant 0 : index
  %n = tensor.dim %x, %at : tensor<?x3x6xf32>
  %e = tensor.empty(%n) : tensor<?x4x5xf32>
  %d = linalg.broadcast ins(%b : tensor<4xf32>) outs(%e : tensor<?x4x5xf32>) dimensions = [0, 2]
  %s = linalg.conv_1d_ncw_fcw ins(%x, %w : tensor<?x3x6xf32>, tensor<4x3x2xf32>)
    outs(%d : tensor<?x4x5xf32>) -> tensor<?x4x5xf32>
  %m = tensor.dim %s, %at : tensor<?x4x5xf32>
  %z = tensor.splat %zero[%m] : tensor<?x4x5xf32>
  %r = arith.maximumf %s, %z : tensor<?x4x5xf32>
  %f = tensor.empty(%m) : tensor<?x2x5xf32>
  %i = linalg.fill ins(%zero : f32) outs(%f : tensor<?x2x5xf32>) -> tensor<?x2x5xf32>
  %y = linalg.conv_1d_ncw_fcw ins(%r, %v : tensor<?x4x5xf32>, tensor<2x4x1xf32>)
    outs(%i : tensor<?x2x5xf32>) -> tensor<?x2x5xf32>
  return %y : tensor<?x2x5xf32>
}}""",
    "tosa": f"""func.func @f(%x: tensor<?x4x5x3xf32>) -> tensor<?x4x5x2xf32> {{
  %w = "tosa.const"() <{{values = {dense((4, 1, 1, 3), 1)}}}> : () -> tensor<4x1x1x3xf32>
  %v = "tosa.const"() <{{values = {dense((2, 1, 1, 4), 2)}}}> : () -> tensor<2x1x1x4xf32>
  %b = "tosa.const"() <{{values = {dense((4,), 3)}}}> : () -> tensor<4xf32>
  %c = "tosa.const"() <{{values = {dense((1,), 4)}}}> : () -> tensor<1xf32>
  %z = "tosa.const"() <{{values = dense<0.0> : tensor<1xf32>}}> : () -> tensor<1xf32>
  %s = "tosa.conv2d"(%x, %w, %b, %z, %z) <{{acc_type = f32, {PADS}}}>
    : (tensor<?x4x5x3xf32>, tensor<4x1x1x3xf32>, tensor<4xf32>, tensor<1xf32>, tensor<1xf32>)
    -> tensor<?x4x5x4xf32>
  %r = tosa.clamp %s {{min_val = 0.0 : f32, max_val = 3.40282347E+38 : f32}}
    : (tensor<?x4x5x4xf32>) -> tensor<?x4x5x4xf32>
  %y = "tosa.conv2d"(%r, %v, %c, %z, %z) <{{acc_type = f32, {PADS}}}>
    : (tensor<?x4x5x4xf32>, tensor<2x1x1x4xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>)
    -> tensor<?x4x5x2xf32>
  return %y : tensor<?x4x5x2xf32>
}}""",
}


@pytest.mark.parametrize("text", OF_ANY_LENGTH.values(), ids=OF_ANY_LENGTH.keys())
def test_a_batch_of_any_length(text: str) -> None:
    """The scales of the second layer are in the first one, and in its bias behind a broadcast."""
    model = Model(text).calibrate()
    longer = [np.concatenate([of, -of, of]) for of in model.inputs]
    before, of_longer = model.run(), Model(text, longer).run()
    model.equalize()
    assert not model.refusals()
    assert are_close(before, model.run())
    assert model.check_ranges()
    assert len([of for of in model.report.layers if of.rows]) == 1
    products = [op for op in model.ops if "quant.float" in op.attributes]
    assert len({op.results[0].name_hint for op in products if op.results[0].name_hint}) == 1
    assert are_close(of_longer, Model(model.printed, longer).run())


def dequantized_by(form: Callable[[Text, Numbers], str], numbers: Numbers) -> str:
    """Weights of 4 by 3 that arithmetic dequantizes."""
    text = Text()
    name = form(text, numbers)
    lines = [*text.lines, f"%w = quant.stats {name} {{layerStats = dense<[-9.0, 9.0]> :"]
    lines[-1] += " tensor<2xf32>} : tensor<4x3xf32>"
    return WEIGHTS.format(weights="\n  ".join(lines))


FORMS = [in_stablehlo, in_tosa, in_one_generic, in_several_generics, in_arith]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
@pytest.mark.parametrize("is_affine", [False, True])
def test_weights_that_arithmetic_dequantizes(
    form: Callable[[Text, Numbers], str], is_affine: bool
) -> None:
    """They are quantized anew once casts are in the place of the arithmetic, and told before."""
    random = np.random.default_rng(1)
    codes = random.integers(-128, 128, (4, 3)).astype("i1")
    zero_points = np.array([[3, -7, 0]], "i1") if is_affine else None
    scales = np.array([[0.5, 0.25, 2.0]], "f4")
    model = Model(dequantized_by(form, Numbers(codes, zero_points, scales))).calibrate()
    first = model.printed
    model.equalize()
    assert model.printed == first
    ((_, reason),) = model.refusals()
    assert "--raise-dequantization before equalization" in reason
    model = Model(dequantized_by(form, Numbers(codes, zero_points, scales)))
    raise_dequantization(model.module, model.context, FoldPolicy())
    before = model.calibrate().run()
    model.equalize()
    assert not model.refusals()
    (after,) = model.run()
    assert np.abs(after - before[0]).max() < 0.05 * np.abs(before[0]).max()
    assert not np.array_equal(after, before[0])
    (told,) = [record.reason for record in model.outcomes.records]
    assert "its weights are requantized" in told
    (cast,) = model.named("quant.dcast")
    assert cast.operands[0].type.element_type.quantized_dimensions == (1,)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    (stats, *_) = [use.operation for use in cast.results[0].uses]
    type: Any = cast.operands[0].type
    numbers = type.element_type.parameters_on((4, 3)).read(held_codes(model))
    assert [*statistics_of(stats, (4, 3)).layer] == [numbers.min(), numbers.max()]


def held_codes(model: Model) -> Any:
    """The integers before the only cast of storage."""
    (cast,) = model.named("quant.scast")
    held: Any = cast.operands[0].owner
    return np.array(
        (held.properties.get("value") or held.properties["values"]).get_values()
    ).reshape(4, 3)


def test_weights_that_are_computed_otherwise_are_told() -> None:
    """Arithmetic that no cast expresses is named."""
    weights = f"""%c = arith.constant {dense((4, 3), 5)}
  %w = math.exp %c : tensor<4x3xf32>"""
    model = Model(WEIGHTS.format(weights=weights)).calibrate()
    model.equalize()
    ((code, reason),) = model.refusals()
    assert code == "not-constant"
    assert reason.startswith("'math.exp' computes its weights from constants")


@pytest.mark.parametrize(
    ("slice", "rows", "scales"),
    [
        # Nothing is moved, and the key of the value is that of what is sliced.
        ("[0, 0] [4, 4]", 4, [4.0, 1.0, 2.0, 0.5]),
        # What is left of a value may have a smaller range.
        ("[0, 1] [4, 2]", 4, None),
        ("[1, 1] [3, 2]", 3, None),
    ],
)
def test_ranges_of_channels_of_a_slice(slice: str, rows: int, scales: list[float] | None) -> None:
    """A slice without a record has no ranges of channels, unless it moves nothing."""
    ends = "[0.0, 0.25], [0.0, 4.0], [0.0, 1.0], [0.0, 16.0]"
    columns = 4 if scales and len(scales) == 4 else 2
    text = f"""func.func @f(%x: tensor<4x4xf32>) -> (tensor<{rows}x2xf32>, tensor<4x4xf32>) {{
  %s = quant.stats %x {{layerStats = dense<[0.0, 16.0]> : tensor<2xf32>,
    axisStats = dense<[{ends}]> : tensor<4x2xf32>, axis = 1 : i64}} : tensor<4x4xf32>
  %p = tensor.extract_slice %s{slice} [1, 1] : tensor<4x4xf32> to tensor<{rows}x{columns}xf32>
  %w = arith.constant dense<[{", ".join(["[0.0, 4.0]"] * columns)}]> : tensor<{columns}x2xf32>
  %i = arith.constant dense<0.0> : tensor<{rows}x2xf32>
  %y = linalg.matmul ins(%p, %w : tensor<{rows}x{columns}xf32>, tensor<{columns}x2xf32>)
    outs(%i : tensor<{rows}x2xf32>) -> tensor<{rows}x2xf32>
  return %y, %s : tensor<{rows}x2xf32>, tensor<4x4xf32>
}}
"""
    numbers = np.random.default_rng(0).uniform(0, 1, (4, 4)).astype("f4")
    model = Model(text, [numbers * np.array([0.25, 4, 1, 16], "f4")])
    before = model.run()
    model.equalize()
    assert are_close(before, model.run())
    assert model.scales().get("y") == scales
    assert [code for code, _ in model.refusals()] == ["no-record"] * (scales is None)
