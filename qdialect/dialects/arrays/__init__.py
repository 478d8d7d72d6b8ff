"""Elements of tensors as arrays, and what functions that run ops of several dialects share."""

from functools import partial
from typing import Final

from qdialect.ops.model import Bits, OpModel

_LAYERS: Final = "qdialect.dialects.arrays.reductions"

layer_model = partial(
    OpModel, bits=Bits.ROUNDED, run=f"{_LAYERS}:run_layer", on_arrays=f"{_LAYERS}:layer_on_arrays"
)
"""The model of a sum of products, which a dialect completes."""
