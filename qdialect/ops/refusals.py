"""Refusals: why an op is not folded, sunk or elided, as a code and in words."""

from __future__ import annotations

from enum import StrEnum


class RefusalCode(StrEnum):
    """
    The reason why an op is not folded, sunk or elided.

    The values do not change between versions: tools may match them.
    """

    NOT_CONSTANT = "not-constant"
    DYNAMIC_SHAPE = "dynamic-shape"
    UNKNOWN_OP = "unknown-op"
    STALE_TYPE = "stale-type"
    QUANTIZED = "quantized"
    GRANULARITY = "granularity"
    PARAMETER_GROWTH = "parameter-growth"
    GROWTH = "growth"
    MEMORY = "memory"
    PADDING = "padding"
    ARITHMETIC = "arithmetic"
    MIXED_CONSTANTS = "mixed-constants"
    ILLEGAL_TYPE = "illegal-type"
    NOT_INVERTIBLE = "not-invertible"
    USES = "uses"
    CASTS = "casts"
    NUMERICS = "numerics"
    KEPT = "kept"
    UNREAD = "unread"
    NO_RECORD = "no-record"
    NO_VALUE = "no-value"
    OVERFLOW = "overflow"
    SHIFT = "shift"
    BIAS_SCALE = "bias-scale"
    STORAGE = "storage"
    ZERO_POINT = "zero-point"


class Refusal(Exception):
    """An op cannot be folded, or cannot be read. The message is the reason."""

    def __init__(self, code: RefusalCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class NoSuchMovementError(Refusal):
    """The op can be read, but its parameters do not match its operands."""

    def __init__(self, reason: str) -> None:
        super().__init__(RefusalCode.UNKNOWN_OP, reason)
