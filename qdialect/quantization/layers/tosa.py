"""
The ops of tosa that have weights.

https://www.mlplatform.org/tosa/tosa_spec.html.
"""

from __future__ import annotations

from xdsl.ir import Operation

from qdialect.quantization.contractions import Lookup, layer, register_layers

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
