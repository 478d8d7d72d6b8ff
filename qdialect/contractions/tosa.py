"""
The ops of tosa that have weights.

https://www.mlplatform.org/tosa/tosa_spec.html.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from qdialect.contractions.interface import (
    Contraction,
    Lookup,
    Window,
    layer,
    per_window,
    positive,
    register_layers,
    sliding_axes,
    windows,
)
from qdialect.shape_ops.attributes import static_shape_of
from qdialect.shape_ops.interface import name_of

register_layers(
    [
        ("conv2d transpose_conv2d", "n**i,ohwi->n**o"),
        ("conv3d", "n***i,odhwi->n***o"),
        ("depthwise_conv2d", "n**c,hwcm->n**(cm)"),
    ],
    "tosa",
    bias=2,
)
register_layers([("matmul", "bhc,bcw->bhw"), ("matmul_t", "bhc,bwc->bhw")], "tosa", bias=None)


@layer("tosa.gather")
def _gather(op: Operation) -> Lookup:
    return Lookup(0, 1)


@windows("tosa")
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
