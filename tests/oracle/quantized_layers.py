"""Layers of quantized operands in several dialects, and what numpy computes for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.floating[Any]]


class Layer(NamedTuple):
    """A sum of products of an operand and a weight, whose last axis has the channels."""

    shapes: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
    """Those of the operand, the weight, and the result."""
    text: str
    """Ops that make `%y` of `%x` and `%w`; X, W and Y stand for types."""
    sums: Callable[[Numbers, Numbers], Numbers]
    axis: int = -1
    """The axis of the channels of the weight."""


def convolved(x: Numbers, w: Numbers) -> Numbers:
    """A convolution; channels are the last axis of images, and of a weight of (h, w, in, out)."""
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[:2], (1, 2))
    return np.einsum("nyxchw,hwco->nyxo", windows, w)


def convolved_with_channels_first(x: Numbers, w: Numbers) -> Numbers:
    return convolved(x, np.moveaxis(w, 0, 3))


def convolved_by_channel(x: Numbers, w: Numbers) -> Numbers:
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[:2], (1, 2))
    return np.einsum("nyxchw,hwc->nyxc", windows, w)


def convolved_with_one_of_each_channel(x: Numbers, w: Numbers) -> Numbers:
    return convolved_by_channel(x, w[..., 0])


FILLED = """
  %e = tensor.empty() : Y
  %s = linalg.fill ins(%0 : f32) outs(%e : Y) -> Y
"""
IMAGES = ((1, 8, 8, 16), (3, 3, 16, 32), (1, 6, 6, 32))
DEPTH = ((1, 8, 8, 16), (3, 3, 16), (1, 6, 6, 16))

LAYERS: Final[Mapping[str, Layer]] = {
    "linalg.matmul": Layer(
        ((8, 64), (64, 32), (8, 32)),
        FILLED + "%y = linalg.matmul ins(%x, %w : X, W) outs(%s : Y) -> Y",
        np.matmul,
    ),
    "linalg.batch_matmul": Layer(
        ((2, 8, 64), (2, 64, 32), (2, 8, 32)),
        FILLED + "%y = linalg.batch_matmul ins(%x, %w : X, W) outs(%s : Y) -> Y",
        np.matmul,
    ),
    "linalg.conv_2d_nhwc_hwcf": Layer(
        IMAGES,
        FILLED + "%y = linalg.conv_2d_nhwc_hwcf ins(%x, %w : X, W) outs(%s : Y) -> Y",
        convolved,
    ),
    "linalg.depthwise_conv_2d_nhwc_hwc": Layer(
        DEPTH,
        FILLED + "%y = linalg.depthwise_conv_2d_nhwc_hwc ins(%x, %w : X, W) outs(%s : Y) -> Y",
        convolved_by_channel,
    ),
    "tosa.matmul": Layer(
        ((2, 8, 64), (2, 64, 32), (2, 8, 32)),
        """
  %z = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %y = tosa.matmul %x, %w, %z, %z : (X, W, tensor<1xf32>, tensor<1xf32>) -> Y
""",
        np.matmul,
    ),
    "tosa.conv2d": Layer(
        ((1, 8, 8, 16), (32, 3, 3, 16), (1, 6, 6, 32)),
        """
  %z = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %b = "tosa.const"() <{values = dense<0.0> : tensor<32xf32>}> : () -> tensor<32xf32>
  %y = tosa.conv2d %x, %w, %b, %z, %z {acc_type = f32, dilation = array<i64: 1, 1>,
    pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}
    : (X, W, tensor<32xf32>, tensor<1xf32>, tensor<1xf32>) -> Y
""",
        convolved_with_channels_first,
        0,
    ),
    "tosa.depthwise_conv2d": Layer(
        ((1, 8, 8, 16), (3, 3, 16, 1), (1, 6, 6, 16)),
        """
  %z = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %b = "tosa.const"() <{values = dense<0.0> : tensor<16xf32>}> : () -> tensor<16xf32>
  %y = tosa.depthwise_conv2d %x, %w, %b, %z, %z {acc_type = f32, dilation = array<i64: 1, 1>,
    pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}
    : (X, W, tensor<16xf32>, tensor<1xf32>, tensor<1xf32>) -> Y
""",
        convolved_with_one_of_each_channel,
        2,
    ),
    "stablehlo.dot_general": Layer(
        ((8, 64), (64, 32), (8, 32)),
        "%y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (X, W) -> Y",
        np.matmul,
    ),
    "stablehlo.convolution": Layer(
        IMAGES,
        """
  %y = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {stride = [1, 1]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (X, W) -> Y
""",
        convolved,
    ),
}

TEXT = """
!x = !quant.uniform<u8:f32, 0.03125:117>
!w = !quant.uniform<i8<-127:127>:f32:CHANNELS>
!y = !quant.uniform<i8:f32, 0.0625:-5>
func.func @main(%a: XF) -> YF {
  %0 = arith.constant 0.0 : f32
  %q = quant.qcast %a : XF to XQ
  %x = quant.dcast %q : XQ to XF
  %c = "quant.constant"() <{value = dense<WEIGHT> : WI}> : () -> WQ
  %w = quant.dcast %c : WQ to WF
  OPS
  %r = quant.qcast %y : YF to YQ
  %d = quant.dcast %r : YQ to YF
  return %d : YF
}
"""


def module_of(layer: Layer, codes: NDArray[np.int8], scales: Numbers) -> str:
    axis = layer.axis % codes.ndim
    channels = f"{axis}, {{{', '.join(f'{scale:e}' for scale in scales)}}}"
    text = TEXT.replace("CHANNELS", channels).replace("WEIGHT", str(codes.tolist()))
    text = text.replace("OPS", re.sub(r"\b([XWY])\b", r"\1F", layer.text))
    for name, shape in zip("XWY", layer.shapes, strict=True):
        lengths = "".join(f"{length}x" for length in shape)
        elements = {"F": "f32", "I": "i8", "Q": f"!{name.lower()}"}
        for kind, element in elements.items():
            text = re.sub(rf"\b{name}{kind}\b", f"tensor<{lengths}{element}>", text)
    return text


class Case(NamedTuple):
    """A layer with weights, an operand, and its result."""

    text: str
    """The module: the function `main` of an operand of f32."""
    operand: NDArray[np.float32]
    codes: NDArray[np.float64]
    """The codes of the result, `(number / 0.0625) - 5`."""
    ties: NDArray[np.bool_]
    """Where a number is halfway between two codes."""

    def check(self, result: NDArray[np.float32]) -> None:
        """A result has these codes, but for ties, where it may be the other one."""
        got = result.astype(np.float64) / 0.0625 - 5
        assert np.abs(got - self.codes).max() <= 1
        assert not ((got != self.codes) & ~self.ties).any()
        assert len(np.unique(self.codes)) > 20


def case_of(layer: Layer, most: int) -> Case:
    """A random case, whose codes of weights are at most `most`."""
    rng = np.random.default_rng(0)
    codes = rng.integers(-most, most + 1, layer.shapes[1], np.int8)
    scales = 2.0 ** rng.integers(-12, -8, layer.shapes[1][layer.axis])
    x = rng.integers(0, 256, layer.shapes[0]) - 117
    shape = [1] * codes.ndim
    shape[layer.axis] = -1
    # Exact: integers times powers of two.
    real = layer.sums(x / 32.0, codes * scales.reshape(shape))
    expected = np.clip(np.rint(real / 0.0625) - 5, -128, 127)
    ties = np.abs(real / 0.0625 % 1 - 0.5) < 2.0**-10
    return Case(module_of(layer, codes, scales), (x / 32).astype("f4"), expected, ties)
