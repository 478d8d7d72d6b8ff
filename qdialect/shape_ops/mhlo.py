"""
The ops of MHLO, which StableHLO was made of: the same by other names.

https://github.com/tensorflow/mlir-hlo. The dimension numbers of a gather are an attribute of MHLO.
"""

from __future__ import annotations

from qdialect.algebra.granularity import Granularity
from qdialect.shape_ops.interface import (
    CastReads,
    DialectTraits,
    register_alias,
    register_cast,
    register_constant,
    register_dialect_traits,
)

register_constant("mhlo.constant", "value")
register_cast("mhlo.uniform_quantize", CastReads.CODES)
register_cast("mhlo.uniform_dequantize", CastReads.NUMBERS)
register_cast("mhlo.convert", CastReads.CONVERTED)
register_dialect_traits("mhlo", DialectTraits(finest=Granularity.PER_AXIS))

for name in (
    "transpose",
    "reshape",
    "slice",
    "concatenate",
    "broadcast_in_dim",
    "reverse",
    "pad",
):
    register_alias(f"mhlo.{name}", f"stablehlo.{name}")
