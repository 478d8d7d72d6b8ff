"""
Write the examples in this folder: quantized weights behind shape ops.

Each is one layer of a real network, in the shapes and the granularity in which a compiler
meets it. The numbers are drawn at random, from a fixed seed and in integers only, so that
every platform writes the same files.

- `tiny.mlir` can be read in full: a 2x3 weight.
- `pointwise_convolution.mlir`: https://github.com/pytorch/glow/issues/4660, where a 1x1
  convolution became a matmul, and a row-wise quantizer no longer saw a constant weight
  behind the reshape and the transpose. The layer expands 32 to 192 channels of a 28x28
  image in MobileNetV2 (`features.5`); its filter is stored as Glow does, channels last.
- `linear_transpose.mlir`: https://github.com/Samsung/TICO/issues/499, which asks to fold
  shape ops into quantized weights and to move the quantized axis with them. The layer is
  the first of the feed-forward network of BERT-tiny (two layers, hidden size 128).
- `fused_qkv.mlir`: the query, key and value projections of the same network, joined for
  one matmul and split again.
- `tensor_parallel.mlir`: groups of 128 along the input of `down_proj` in TinyLlama-1.1B,
  5632 long. Eight devices get 704 inputs each, which is five groups and a half. Here are
  16 of the 2048 rows, and the first two devices.
- `depthwise_convolution.mlir`: TFLite stores the weight of a depthwise convolution as
  1 x height x width x (channels * multiplier), with a scale for each of the last axis;
  TOSA wants height x width x channels x multiplier. The layer is the spatial filter of
  EEGNet-8,2: 64 electrodes, 8 channels, multiplier 2.

Three are in the dialects that exporters write, with the shape ops on the float side:

- `qdq_attention.mlir`: `arith`, `quant` casts, `tensor` and `linalg`, as a PT2E model is after
  torch-mlir. The value projection of BERT-tiny is split into its two heads for a batched
  matmul.
- `stablehlo_convolution.mlir`: a filter as TensorFlow keeps it, height x width x in x out,
  which goes to out x in x height x width and then to the matrix of an im2col. The layer
  is the first of MobileNetV2.
- `tosa_convolution.mlir`: the same layer in TFLite's layout, out x height x width x in. Its
  three input channels are padded to four, and the outputs go last.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


class Draw:
    """
    Random integers.

    `RandomState` is frozen: unlike those of a `Generator`, its numbers never change.
    """

    def __init__(self, seed: int):
        self.state = np.random.RandomState(seed)

    def integers(self, low: int, high: int, shape: Sequence[int]) -> Integers:
        """From `low` to `high`, both included, all of them as often."""
        return self.state.randint(low, high + 1, size=tuple(shape), dtype=np.int64)

    def weights(self, low: int, high: int, shape: Sequence[int]) -> Integers:
        """From `low` to `high`, those in the middle more often."""
        dice = self.integers(0, (high - low + 1) // 4, (4, *shape)).sum(axis=0)
        return np.minimum(dice + low, high)


def hexadecimal(values: Integers) -> str:
    """`values` of at most 8 bits as an elements literal: one byte each."""
    return f'dense<"0x{(values & 0xFF).astype(np.uint8).tobytes().hex().upper()}">'


def nibbles(values: Integers) -> str:
    """`values` of 4 bits as an elements literal: one byte each, zero-extended."""
    return hexadecimal(values & 0xF)


def slots(scales: Integers, zero_points: Integers | None = None) -> str:
    """
    Scales, in units of 0.00001, and zero points in the braces of a type.

    The innermost axis is written without spaces.
    """
    if zero_points is None:
        zero_points = np.zeros_like(scales)
    if scales.ndim > 1:
        rows = map(slots, scales, zero_points)
        return f"{{{', '.join(rows)}}}"
    items = (
        f"{scale // 100000}.{scale % 100000:05}" + (f":{zero}" if zero else "")
        for scale, zero in zip(scales.tolist(), zero_points.tolist(), strict=True)
    )
    return f"{{{','.join(items)}}}"


def tiny() -> str:
    """A weight that is small enough to check by hand."""
    return """\
// A 2x3 weight, one scale per row; the second row has zero point 3.
// Its last two columns are wanted, transposed: one quant.constant is left.
!rows = !quant.uniform<i8:f32:0, {0.5,0.25:3}>
!columns = !quant.uniform<i8:f32:1, {0.5,0.25:3}>

func.func @tiny() -> tensor<2x2xf32> {
  %weight = quant.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3x!rows>
  %transposed = quant.transpose %weight permutation = [1, 0]
    : tensor<2x3x!rows> to tensor<3x2x!columns>
  %last = quant.slice %transposed [1, 0] [2, 2] [1, 1]
    : tensor<3x2x!columns> to tensor<2x2x!columns>
  %float = quant.dcast %last : tensor<2x2x!columns> to tensor<2x2xf32>
  return %float : tensor<2x2xf32>
}
"""


def pointwise_convolution() -> str:
    """A reshape that drops axes of length one, and a transpose."""
    draw = Draw(4660)
    weight = draw.weights(-127, 127, (192, 1, 1, 32))
    channels = slots(draw.integers(50, 900, (192,)))
    return f"""\
// A 1x1 convolution that was lowered to a matmul: the expansion from 32 to 192 channels
// in MobileNetV2 (features.5). Each of the 192 filters has its scale.
//
// Comes out: one quant.constant %weight : tensor<32x192x!columns>, which has the attribute
// of the first and its scales on axis 1. Row-wise quantization sees a constant.
!filters = !quant.uniform<i8<-127:127>:f32:0, {channels}>
!columns = !quant.uniform<i8<-127:127>:f32:1, {channels}>

func.func @expand(%pixels: tensor<784x32xf32>) -> tensor<784x192xf32> {{
  %weight = quant.constant {hexadecimal(weight)} {{profile = "features.5.conv.0"}}
    : tensor<192x1x1x32x!filters>
  %rows = quant.reshape %weight
    : tensor<192x1x1x32x!filters> to tensor<192x32x!filters>
  %matrix = quant.transpose %rows permutation = [1, 0]
    : tensor<192x32x!filters> to tensor<32x192x!columns>
  %float = quant.dcast %matrix : tensor<32x192x!columns> to tensor<32x192xf32>
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<784x192xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<784x192xf32>) -> tensor<784x192xf32>
  %expanded = linalg.matmul
    ins(%pixels, %float : tensor<784x32xf32>, tensor<32x192xf32>)
    outs(%init : tensor<784x192xf32>)
    -> tensor<784x192xf32>
  return %expanded : tensor<784x192xf32>
}}
"""


def linear_transpose() -> str:
    """A transpose that moves the quantized axis, zero points with it."""
    draw = Draw(499)
    weight = draw.weights(0, 255, (512, 128))
    features = slots(draw.integers(20, 400, (512,)), draw.integers(96, 160, (512,)))
    return f"""\
// A Linear layer: the first of the feed-forward network of BERT-tiny, 128 to 512 features.
// Each of the 512 outputs has its scale and zero point; a matmul wants the inputs first.
//
// Comes out: one quant.constant %weight : tensor<128x512x!inputs_first>. The quantized
// axis is 1; had it stayed 0, 128 rows would meet 512 scales.
!outputs_first = !quant.uniform<u8:f32:0, {features}>
!inputs_first = !quant.uniform<u8:f32:1, {features}>

func.func @linear() -> tensor<128x512xf32> {{
  %weight = quant.constant {hexadecimal(weight)}
    : tensor<512x128x!outputs_first>
  %transposed = quant.transpose %weight permutation = [1, 0]
    : tensor<512x128x!outputs_first> to tensor<128x512x!inputs_first>
  %float = quant.dcast %transposed : tensor<128x512x!inputs_first> to tensor<128x512xf32>
  return %float : tensor<128x512xf32>
}}
"""


def fused_qkv() -> str:
    """Three operands with slots of their own, and each part of their concat."""
    draw = Draw(3)
    weights = [hexadecimal(draw.weights(-127, 127, (128, 128))) for _ in range(3)]
    scales = draw.integers(20, 900, (3, 128))
    q, k, v = map(slots, scales)
    return f"""\
// Query, key and value projections of BERT-tiny: three 128x128 weights, each with a scale
// for every output. They are joined to one 384x128 weight, transposed for one matmul, and
// split again.
//
// Comes out: three quant.constant : tensor<128x128x...>, the transposes of the three, each
// with its own scales on axis 1.
!q = !quant.uniform<i8<-127:127>:f32:0, {q}>
!k = !quant.uniform<i8<-127:127>:f32:0, {k}>
!v = !quant.uniform<i8<-127:127>:f32:0, {v}>
!qkv = !quant.uniform<i8<-127:127>:f32:0, {slots(scales.reshape(-1))}>
!qkv_columns = !quant.uniform<i8<-127:127>:f32:1, {slots(scales.reshape(-1))}>
!q_columns = !quant.uniform<i8<-127:127>:f32:1, {q}>
!k_columns = !quant.uniform<i8<-127:127>:f32:1, {k}>
!v_columns = !quant.uniform<i8<-127:127>:f32:1, {v}>

func.func @attention() -> (tensor<128x128xf32>, tensor<128x128xf32>, tensor<128x128xf32>) {{
  %q = quant.constant {weights[0]}
    : tensor<128x128x!q>
  %k = quant.constant {weights[1]}
    : tensor<128x128x!k>
  %v = quant.constant {weights[2]}
    : tensor<128x128x!v>
  %qkv = quant.concat dim(0) %q, %k, %v
    : (tensor<128x128x!q>, tensor<128x128x!k>, tensor<128x128x!v>)
    -> tensor<384x128x!qkv>
  %fused = quant.transpose %qkv permutation = [1, 0]
    : tensor<384x128x!qkv> to tensor<128x384x!qkv_columns>
  %q_part = quant.slice %fused [0, 0] [128, 128] [1, 1]
    : tensor<128x384x!qkv_columns> to tensor<128x128x!q_columns>
  %k_part = quant.slice %fused [0, 128] [128, 128] [1, 1]
    : tensor<128x384x!qkv_columns> to tensor<128x128x!k_columns>
  %v_part = quant.slice %fused [0, 256] [128, 128] [1, 1]
    : tensor<128x384x!qkv_columns> to tensor<128x128x!v_columns>
  %q_float = quant.dcast %q_part : tensor<128x128x!q_columns> to tensor<128x128xf32>
  %k_float = quant.dcast %k_part : tensor<128x128x!k_columns> to tensor<128x128xf32>
  %v_float = quant.dcast %v_part : tensor<128x128x!v_columns> to tensor<128x128xf32>
  return %q_float, %k_float, %v_float
    : tensor<128x128xf32>, tensor<128x128xf32>, tensor<128x128xf32>
}}
"""


def tensor_parallel() -> str:
    """Slices that end and start inside a block."""
    draw = Draw(128)
    weight = draw.weights(-8, 7, (16, 5632))
    scales = draw.integers(200, 3000, (16, 44))
    zero_points = draw.integers(-8, 7, (16, 44))
    halves = [np.repeat(of_groups, 2, axis=1) for of_groups in (scales, zero_points)]
    first, second = (
        slots(*(of_halves[:, start : start + 11] for of_halves in halves)) for start in (0, 11)
    )
    return f"""\
// 16 rows of down_proj in TinyLlama-1.1B, 4 bits per weight, one scale and zero point for
// each group of 128 inputs. Eight devices share the 5632 inputs: 704 each, five groups and
// a half. Every other device starts in the middle of a group.
//
// Comes out: two quant.constant : tensor<16x704x...>, in blocks of 64, since every cut is a
// multiple of 64. Where a group is whole, two blocks have its scale and zero point.
!groups = !quant.uniform<i4:f32:{{0:1, 1:128}}, {slots(scales, zero_points)}>
!device0 = !quant.uniform<i4:f32:{{0:1, 1:64}}, {first}>
!device1 = !quant.uniform<i4:f32:{{0:1, 1:64}}, {second}>

func.func @shards() -> (tensor<16x704xf32>, tensor<16x704xf32>) {{
  %weight = quant.constant {nibbles(weight)}
    : tensor<16x5632x!groups>
  %shard0 = quant.slice %weight [0, 0] [16, 704] [1, 1]
    : tensor<16x5632x!groups> to tensor<16x704x!device0>
  %shard1 = quant.slice %weight [0, 704] [16, 704] [1, 1]
    : tensor<16x5632x!groups> to tensor<16x704x!device1>
  %float0 = quant.dcast %shard0 : tensor<16x704x!device0> to tensor<16x704xf32>
  %float1 = quant.dcast %shard1 : tensor<16x704x!device1> to tensor<16x704xf32>
  return %float0, %float1 : tensor<16x704xf32>, tensor<16x704xf32>
}}
"""


def depthwise_convolution() -> str:
    """A reshape that splits the quantized axis in two."""
    draw = Draw(82)
    weight = draw.weights(-127, 127, (1, 64, 1, 16))
    scales = draw.integers(50, 900, (16,))
    return f"""\
// A depthwise convolution: the spatial filter of EEGNet-8,2, 64 electrodes high, with two
// filters for each of 8 channels. TFLite keeps channels and multiplier on one axis of 16,
// with a scale each; TOSA wants an axis of 8 and one of 2. Then channels go first, so that
// each can be a matmul.
//
// Comes out: one quant.constant %weight : tensor<8x2x64x1x!channels_first>. One axis of 16
// scales is now two axes of 8 x 2: blocks of one element on both.
!tflite = !quant.uniform<i8<-127:127>:f32:3, {slots(scales)}>
!tosa = !quant.uniform<i8<-127:127>:f32:{{2:1, 3:1}}, {slots(scales.reshape(1, 1, 8, 2))}>
!channels_first = !quant.uniform<i8<-127:127>:f32:{{0:1, 1:1}}, {slots(scales.reshape(8, 2, 1, 1))}>

func.func @spatial_filter() -> tensor<8x2x64x1xf32> {{
  %weight = quant.constant {hexadecimal(weight)}
    : tensor<1x64x1x16x!tflite>
  %split = quant.reshape %weight
    : tensor<1x64x1x16x!tflite> to tensor<64x1x8x2x!tosa>
  %moved = quant.transpose %split permutation = [2, 3, 0, 1]
    : tensor<64x1x8x2x!tosa> to tensor<8x2x64x1x!channels_first>
  %float = quant.dcast %moved : tensor<8x2x64x1x!channels_first> to tensor<8x2x64x1xf32>
  return %float : tensor<8x2x64x1xf32>
}}
"""


def qdq_attention() -> str:
    """A split of the quantized axis and a transpose, behind casts."""
    draw = Draw(2)
    weight = draw.weights(-127, 127, (128, 128))
    outputs = slots(draw.integers(20, 900, (128,)))
    return f"""\
// The value projection of BERT-tiny, as a PT2E export in linalg: integers, and casts that
// make floats of them. Each of the 128 outputs has its scale. They are split into two heads of
// 64, and the inputs go before the outputs, for a batched matmul.
//
// Comes out: one arith.constant %weight : tensor<2x128x64xi8> behind the same two casts. The
// type between them has blocks of one element on axes 0 and 2.
!outputs = !quant.uniform<i8<-127:127>:f32:0, {outputs}>

func.func @value_heads() -> tensor<2x128x64xf32> {{
  %weight = arith.constant {{profile = "attention.self.value"}} {hexadecimal(weight)}
    : tensor<128x128xi8>
  %quantized = quant.scast %weight : tensor<128x128xi8> to tensor<128x128x!outputs>
  %float = quant.dcast %quantized : tensor<128x128x!outputs> to tensor<128x128xf32>
  %heads = tensor.expand_shape %float [[0, 1], [2]] output_shape [2, 64, 128]
    : tensor<128x128xf32> into tensor<2x64x128xf32>
  %init = tensor.empty() : tensor<2x128x64xf32>
  %transposed = linalg.transpose ins(%heads : tensor<2x64x128xf32>)
    outs(%init : tensor<2x128x64xf32>) permutation = [0, 2, 1]
  return %transposed : tensor<2x128x64xf32>
}}
"""


def stablehlo_convolution() -> str:
    """A transpose of four axes, and a reshape that merges three."""
    draw = Draw(224)
    weight = draw.weights(-127, 127, (3, 3, 3, 32))
    filters = slots(draw.integers(50, 900, (32,)))
    return f"""\
// The first convolution of MobileNetV2 in StableHLO, in generic form: 32 filters of 3x3 on three
// channels, kept as height x width x in x out. The filters go first, and become the rows of
// a matrix.
//
// Comes out: one stablehlo.constant %weight : tensor<32x27x...>, with its scales on axis 0.
!filters_last = !quant.uniform<i8<-127:127>:f32:3, {filters}>

func.func @filter_matrix() -> tensor<32x27xf32> {{
  %weight = "stablehlo.constant"()
    <{{value = {hexadecimal(weight)} : tensor<3x3x3x32xi8>}}>
    {{profile = "Conv1"}} : () -> tensor<3x3x3x32x!filters_last>
  %float = "stablehlo.uniform_dequantize"(%weight)
    : (tensor<3x3x3x32x!filters_last>) -> tensor<3x3x3x32xf32>
  %filters = "stablehlo.transpose"(%float) <{{permutation = array<i64: 3, 2, 0, 1>}}>
    : (tensor<3x3x3x32xf32>) -> tensor<32x3x3x3xf32>
  %matrix = "stablehlo.reshape"(%filters) : (tensor<32x3x3x3xf32>) -> tensor<32x27xf32>
  return %matrix : tensor<32x27xf32>
}}
"""


def tosa_convolution() -> str:
    """A pad beside the quantized axis, and a transpose that moves it."""
    draw = Draw(32)
    weight = draw.weights(0, 255, (32, 3, 3, 3))
    filters = slots(draw.integers(50, 900, (32,)), draw.integers(96, 160, (32,)))
    return f"""\
// The first convolution of MobileNetV2 in TOSA: 32 filters of 3x3 on three channels, with a
// scale and a zero point each. The hardware wants channels in fours, and the filters last.
//
// Comes out: one tosa.const %weight : tensor<3x3x4x32x...>. The new channel holds the zero
// point of each filter, which is on axis 3 now.
!filters_first = !quant.uniform<u8:f32:0, {filters}>

func.func @padded_filters() -> tensor<3x3x4x32xf32> {{
  %weight = "tosa.const"()
    <{{values = {hexadecimal(weight)} : tensor<32x3x3x3xui8>}}>
    {{profile = "Conv1"}} : () -> tensor<32x3x3x3x!filters_first>
  %float = tosa.cast %weight : (tensor<32x3x3x3x!filters_first>) -> tensor<32x3x3x3xf32>
  %zero = "tosa.const"() <{{values = dense<0.0> : tensor<1xf32>}}> : () -> tensor<1xf32>
  %widths = tosa.const_shape {{values = dense<[0, 0, 0, 0, 0, 0, 0, 1]> : tensor<8xindex>}}
    : () -> !tosa.shape<8>
  %padded = tosa.pad %float, %widths, %zero
    : (tensor<32x3x3x3xf32>, !tosa.shape<8>, tensor<1xf32>) -> tensor<32x3x3x4xf32>
  %transposed = tosa.transpose %padded {{perms = array<i32: 1, 2, 3, 0>}}
    : (tensor<32x3x3x4xf32>) -> tensor<3x3x4x32xf32>
  return %transposed : tensor<3x3x4x32xf32>
}}
"""


EXAMPLES: dict[str, Callable[[], str]] = {
    "tiny.mlir": tiny,
    "pointwise_convolution.mlir": pointwise_convolution,
    "linear_transpose.mlir": linear_transpose,
    "fused_qkv.mlir": fused_qkv,
    "tensor_parallel.mlir": tensor_parallel,
    "depthwise_convolution.mlir": depthwise_convolution,
    "qdq_attention.mlir": qdq_attention,
    "stablehlo_convolution.mlir": stablehlo_convolution,
    "tosa_convolution.mlir": tosa_convolution,
}


def main(arguments: Sequence[str]) -> None:
    """Write the examples to the folder that is named, or to this one."""
    folder = Path(arguments[0]) if arguments else Path(__file__).parent
    for name, make in EXAMPLES.items():
        text = make()
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
        print(f"{len(text.encode()):>7} {folder / name}")


if __name__ == "__main__":
    main(sys.argv[1:])
