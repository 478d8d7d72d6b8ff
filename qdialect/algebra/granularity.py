"""How finely the elements of a tensor are divided among slots."""

from __future__ import annotations

from enum import Enum


class Granularity(Enum):
    """Which elements of a tensor share a slot."""

    PER_TENSOR = "per-tensor"
    PER_AXIS = "per-axis"
    SUB_CHANNEL = "sub-channel"
