"""
The ops of tosa that have weights.

https://www.mlplatform.org/tosa/tosa_spec.html.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.ir import Operation

from qdialect.ops.model import OpModel, OpModels
from qdialect.ops.products import (
    Contraction,
    Lookup,
    Window,
    per_window,
    positive,
    sliding_axes,
)
from qdialect.shape_ops.attributes import static_shape_of
from qdialect.shape_ops.interface import name_of


def _windows(op: Operation, contraction: Contraction) -> Sequence[Window]:
    axes = sliding_axes(contraction)
    count = len(axes)
    strides = positive(op, "stride", count)
    if name_of(op) == "tosa.transpose_conv2d":
        pads, kernel = per_window(op, "out_pad", 2 * count), static_shape_of(op.operands[1])
        # Strides insert zeros into the operand, and the padding lets each element meet the whole
        # kernel.
        return [
            Window(of, 1, 1, stride, kernel[of[1]] - 1 + low, kernel[of[1]] - 1 + high, True)
            for of, stride, low, high in zip(axes, strides, pads[::2], pads[1::2], strict=True)
        ]
    pads = per_window(op, "pad", 2 * count)
    lists = strides, positive(op, "dilation", count), pads[::2], pads[1::2]
    return [
        Window(of, stride, dilation, 1, low, high)
        for of, stride, dilation, low, high in zip(axes, *lists, strict=True)
    ]


_convolution = partial(OpModel, windows=_windows)

MODELS = OpModels(
    "tosa",
    {
        "conv2d transpose_conv2d": _convolution(product=Contraction.of("n**i,ohwi->n**o", bias=2)),
        "conv3d": _convolution(product=Contraction.of("n***i,odhwi->n***o", bias=2)),
        "depthwise_conv2d": _convolution(product=Contraction.of("n**c,hwcm->n**(cm)", bias=2)),
        "matmul": OpModel(product=Contraction.of("bhc,bcw->bhw")),
        "matmul_t": OpModel(product=Contraction.of("bhc,bwc->bhw")),
        "gather": OpModel(product=Lookup(0, 1)),
    },
)
