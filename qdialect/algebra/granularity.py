"""The granularity of a quantized type: per-tensor, per-axis or sub-channel."""

from __future__ import annotations

from enum import Enum


class Granularity(Enum):
    """Which elements of a tensor share a slot."""

    PER_TENSOR = "per-tensor"
    PER_AXIS = "per-axis"
    SUB_CHANNEL = "sub-channel"
