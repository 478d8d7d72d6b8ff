"""
Fold shape ops into quantized constants, exactly.

The algebra is here, and knows numpy only: `QuantizationParameters` and the movements. The
dialect is `qdialect.dialects.quant`, the passes are `qdialect.passes`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qdialect.movement import (
        BroadcastInDim,
        Chain,
        Concat,
        InsertSlice,
        Movement,
        MovementError,
        Pad,
        PadWith,
        Reshape,
        Reverse,
        Slice,
        Splat,
        Take,
        Transpose,
    )
    from qdialect.parameters import QuantizationParameters, Slot, StorageFormat
    from qdialect.slot_map import TooManySlotsError

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

_MODULES = ("qdialect.movement", "qdialect.parameters", "qdialect.slot_map")


def __getattr__(name: str) -> object:
    # Tools that only register the dialect start without numpy.
    if name in __all__:
        for module in map(import_module, _MODULES):
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
