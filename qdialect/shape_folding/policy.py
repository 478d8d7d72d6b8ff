"""What a fold may cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from qdialect.dialects.quant.slots import Granularity
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.parameters import QuantizationParameters
from qdialect.shape_op_interface import Code, NotFoldable
from qdialect.slot_map import TooManySlotsError

DEFAULT_MAX_GROWTH: Final = 1 << 28
"""How many bytes all folds may add: 256 MiB."""

FREE_SLOTS: Final = 1024
"""So many scales cost nothing worth keeping a shape op for."""

_FINENESS = (Granularity.PER_TENSOR, Granularity.PER_AXIS, Granularity.SUB_CHANNEL)


@dataclass(frozen=True)
class FoldPolicy:
    """
    What a fold may cost.

    Raises ValueError for a negative number.
    """

    granularity: Granularity = Granularity.SUB_CHANNEL
    """The finest type that a folded constant may have."""

    max_parameter_growth: int | None = None
    """
    How many slots a folded constant may have more than those that it is made of.

    If None, it may have as many as there are elements in a row of the result, the last
    axis, or `FREE_SLOTS`.
    """

    max_growth: int = DEFAULT_MAX_GROWTH
    """How many bytes of elements all folds together may add to the module."""

    def __post_init__(self) -> None:
        for name in ("max_parameter_growth", "max_growth"):
            value = getattr(self, name)
            if value is not None and value < 0:
                option = name.replace("_", "-")
                raise ValueError(f"{option} must not be negative, but is {value}")

    def check_parameters(
        self, type: UniformQuantizedType, shape: tuple[int, ...], slots_before: int
    ) -> None:
        """Raise NotFoldable if a constant of `shape` may not have `type`."""
        if _is_finer(type.granularity, self.granularity):
            raise _too_fine(type, self.granularity)
        slots = type.scales.size
        if self.max_parameter_growth is not None:
            if slots - slots_before > self.max_parameter_growth:
                raise NotFoldable(
                    Code.PARAMETER_GROWTH,
                    f"it has {slots} scales, {slots - slots_before} more than what it is made "
                    f"of, and {self.max_parameter_growth} more are allowed",
                )
            return
        allowed = max(slots_before, FREE_SLOTS, shape[-1] if shape else 1)
        if slots > allowed:
            raise NotFoldable(
                Code.PARAMETER_GROWTH,
                f"it has {slots} scales, what it is made of {slots_before}, and {allowed} are "
                "allowed",
            )


def spell(
    like: UniformQuantizedType,
    parameters: QuantizationParameters,
    finest: Granularity,
) -> UniformQuantizedType:
    """
    The coarsest type of the storage of `like` that means `parameters`, if not finer than `finest`.

    Blocks along one axis are per-axis too, each scale as often as its block is long.
    Raises NotFoldable if there is none.
    """
    try:
        type = like.with_parameters(parameters)
    except TooManySlotsError as error:
        raise NotFoldable(Code.PARAMETER_GROWTH, str(error)) from None
    if not _is_finer(type.granularity, finest):
        return type
    if finest is Granularity.PER_AXIS and len(type.quantized_dimensions) == 1:
        return like.with_repeated_parameters(parameters, type.quantized_dimensions[0])
    raise _too_fine(type, finest)


def coarser(one: Granularity, other: Granularity) -> Granularity:
    """The coarser of two granularities."""
    return other if _is_finer(one, other) else one


def _too_fine(type: UniformQuantizedType, finest: Granularity) -> NotFoldable:
    return NotFoldable(
        Code.GRANULARITY, f"its type is {type.granularity.value}, and {finest.value} is allowed"
    )


def _is_finer(one: Granularity, other: Granularity) -> bool:
    return _FINENESS.index(one) > _FINENESS.index(other)
