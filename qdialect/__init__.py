"""
Fold shape ops into quantized constants, exactly.

The algebra is `qdialect.algebra`, which depends only on numpy: `QuantizationParameters` and the
movements are exported here. The dialect is `qdialect.dialects.quant`, the passes are
`qdialect.passes`.
"""

from __future__ import annotations

from qdialect.support.lazy_exports import TYPE_CHECKING, lazy_exports

if TYPE_CHECKING:
    from qdialect.algebra.joins import Concat, InsertSlice
    from qdialect.algebra.movement import (
        BroadcastInDim,
        Chain,
        Movement,
        MovementError,
        Reshape,
        Reverse,
        Slice,
        Take,
        Transpose,
    )
    from qdialect.algebra.padding import Pad, PadWith
    from qdialect.algebra.parameters import QuantizationParameters, Slot, StorageFormat
    from qdialect.algebra.run_map import TooManySlotsError
    from qdialect.algebra.views import Splat
    from qdialect.ptq.quantizing import Quantized, quantize
    from qdialect.support.memory import clear_caches
    from qdialect.support.version import __version__

__all__ = [
    "BroadcastInDim",
    "Chain",
    "Concat",
    "InsertSlice",
    "Movement",
    "MovementError",
    "Pad",
    "PadWith",
    "QuantizationParameters",
    "Quantized",
    "Reshape",
    "Reverse",
    "Slice",
    "Slot",
    "Splat",
    "StorageFormat",
    "Take",
    "TooManySlotsError",
    "Transpose",
    "__version__",
    "clear_caches",
    "quantize",
]

__dir__ = __all__.copy
__getattr__ = lazy_exports(
    __name__,
    dict.fromkeys(__all__, "algebra.movement")
    | dict.fromkeys(("Concat", "InsertSlice"), "algebra.joins")
    | dict.fromkeys(("Pad", "PadWith"), "algebra.padding")
    | dict.fromkeys(("QuantizationParameters", "Slot", "StorageFormat"), "algebra.parameters")
    | dict.fromkeys(("Quantized", "quantize"), "ptq.quantizing")
    | {
        "Splat": "algebra.views",
        "TooManySlotsError": "algebra.run_map",
        "__version__": "support.version",
        "clear_caches": "support.memory",
    },
)
