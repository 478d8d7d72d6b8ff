"""The limits of a fold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from qdialect.algebra.arguments import check_instance, integer
from qdialect.algebra.parameters import QuantizationParameters
from qdialect.algebra.run_map import TooManySlotsError
from qdialect.dialects.quant.slot_arrays import Granularity
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.shape_ops.interface import Code, NotFoldable

DEFAULT_MAX_GROWTH: Final = 1 << 28
"""How many bytes all folds together may add: 256 MiB."""

DEFAULT_MAX_REPETITION: Final = 1 << 20
"""How many bytes of a quantized constant may repeat others of it: 1 MiB."""

FREE_SLOTS: Final = 1024
"""A type of that many scales is never too large."""

_FINENESS = (Granularity.PER_TENSOR, Granularity.PER_AXIS, Granularity.SUB_CHANNEL)


@dataclass(frozen=True)
class FoldPolicy:
    """
    The limits of a fold.

    Raises TypeError for values of another kind, ValueError for a negative number.
    """

    granularity: Granularity = Granularity.SUB_CHANNEL
    """The finest type that a folded constant may have."""

    max_parameter_growth: int | None = None
    """
    How many more slots a folded constant may have than its sources together.

    If None, a constant may have as many slots as its sources, as the last axis of the
    result is long, or `FREE_SLOTS`, whichever is most.
    """

    max_growth: int = DEFAULT_MAX_GROWTH
    """How many bytes of elements and new scales all folds together may add to the module."""

    max_repetition: int | None = None
    """
    How many bytes of a folded constant may repeat others of it.

    If None, `DEFAULT_MAX_REPETITION` where it is quantized, and none where it is not: what is
    only read by arithmetic, such as a scale or a bias, stays small behind its broadcast.
    """

    def __post_init__(self) -> None:
        check_instance("granularity", self.granularity, Granularity, "Granularity.PER_AXIS")
        for name in ("max_parameter_growth", "max_growth", "max_repetition"):
            value, option = getattr(self, name), name.replace("_", "-")
            if value is not None or name == "max_growth":
                value = integer(option, value)
                object.__setattr__(self, name, value)
                if value < 0:
                    raise ValueError(f"{option} must not be negative, but is {value}")

    def free_slots(self, shape: tuple[int, ...]) -> int:
        """How many slots a constant of `shape` may have whatever it is made of."""
        if self.max_parameter_growth is not None:
            return self.max_parameter_growth
        return max(FREE_SLOTS, shape[-1] if shape else 1)

    def check_repetition(self, nbytes: int, *, is_quantized: bool) -> None:
        """Raise NotFoldable if a constant may not have `nbytes` that repeat others of it."""
        allowed = self.max_repetition
        if allowed is None:
            allowed = DEFAULT_MAX_REPETITION if is_quantized else 0
        if nbytes > allowed:
            raise NotFoldable(
                Code.GROWTH,
                f"{nbytes} bytes of it would repeat others, and {allowed} are allowed",
            )

    def check_parameters(
        self, type: UniformQuantizedType, shape: tuple[int, ...], slots_before: int
    ) -> None:
        """
        Raise NotFoldable if a constant of `shape` may not have `type`.

        `slots_before` is how many slots there are in the types of what it is made of.
        """
        if _is_finer(type.granularity, self.granularity):
            raise _too_fine(type, self.granularity)
        slots = type.scales.size
        if self.max_parameter_growth is not None:
            if slots - slots_before > self.max_parameter_growth:
                raise NotFoldable(
                    Code.PARAMETER_GROWTH,
                    f"it has {slots} scales, {slots - slots_before} more than its sources, "
                    f"and {self.max_parameter_growth} more are allowed",
                )
            return
        allowed = max(slots_before, self.free_slots(shape))
        if slots > allowed:
            raise NotFoldable(
                Code.PARAMETER_GROWTH,
                f"it has {slots} scales, its sources have {slots_before}, and {allowed} are "
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
