"""
Fold shape ops into quantized constants, exactly.

The algebra is here, and knows numpy only: `QuantizationParameters` and the movements. The
dialect is `qdialect.dialects.quant`, the passes are `qdialect.passes`.
"""

from qdialect.movement import (
    BroadcastInDim,
    Concat,
    Movement,
    MovementError,
    Pad,
    Reshape,
    Reverse,
    Slice,
    Splat,
    Take,
    Transpose,
)
from qdialect.parameters import (
    QuantizationParameters,
    Slot,
    StorageFormat,
    TooManySlotsError,
)

__all__ = [
    "BroadcastInDim",
    "Concat",
    "Movement",
    "MovementError",
    "Pad",
    "QuantizationParameters",
    "Reshape",
    "Reverse",
    "Slice",
    "Slot",
    "Splat",
    "StorageFormat",
    "Take",
    "TooManySlotsError",
    "Transpose",
]
