"""The limits of a fold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from qdialect.algebra.parameters import QuantizationParameters
from qdialect.dialects.quant.slots import Granularity
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.folding.layers import refusing
from qdialect.ops.interface import Refusal, RefusalCode
from qdialect.support.arguments import check_instance, integer

DEFAULT_MAX_GROWTH: Final = 1 << 28
"""The default number of bytes that all folds together may add: 256 MiB."""

DEFAULT_MAX_REPETITION: Final = 1 << 20
"""The default number of repeated bytes in a quantized constant: 1 MiB."""

FREE_SLOTS: Final = 1024
"""A type with at most this many scales is always allowed."""

_FINENESS = (Granularity.PER_TENSOR, Granularity.PER_AXIS, Granularity.SUB_CHANNEL)


@dataclass(frozen=True)
class FoldPolicy:
    """
    The limits of a fold.

    Raises TypeError for values of another kind, ValueError for a negative number.
    """

    granularity: Granularity = Granularity.SUB_CHANNEL
    """The finest granularity that the type of a folded constant may have."""

    max_parameter_growth: int | None = None
    """
    The maximum number of slots of a folded constant in excess of its sources together.

    If None, a constant may have as many slots as its sources, as the length of the last axis of
    the result, or `FREE_SLOTS`, whichever is largest.
    """

    max_growth: int = DEFAULT_MAX_GROWTH
    """The maximum number of bytes of elements and new scales that all folds together may add."""

    max_repetition: int | None = None
    """
    The maximum number of repeated bytes in a folded constant.

    If None, `DEFAULT_MAX_REPETITION` for constants of quantized types and 0 for others: what
    arithmetic reads or computes, such as a scale or a bias, stays small before its broadcast.
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
        """The number of slots that a constant of `shape` may have, whatever its sources."""
        if self.max_parameter_growth is not None:
            return self.max_parameter_growth
        return max(FREE_SLOTS, shape[-1] if shape else 1)

    def check_repetition(self, nbytes: int, *, is_quantized: bool) -> None:
        """Raise Refusal if a constant may not have `nbytes` repeated bytes."""
        allowed = self.max_repetition
        if allowed is None:
            allowed = DEFAULT_MAX_REPETITION if is_quantized else 0
        if nbytes > allowed:
            raise Refusal(
                RefusalCode.GROWTH,
                f"{nbytes} bytes of it would be repetitions, and {allowed} are allowed; "
                f"it takes max-repetition={nbytes} or more",
            )

    def check_parameters(
        self, type: UniformQuantizedType, shape: tuple[int, ...], slots_before: int
    ) -> None:
        """
        Raise Refusal if a constant of `shape` may not have `type`.

        `slots_before` is the number of slots in the types of its sources.
        """
        if _is_finer(type.granularity, self.granularity):
            raise _too_fine(type, self.granularity)
        slots = type.scales.size
        growth, most = slots - slots_before, self.max_parameter_growth
        if most is not None:
            allowed = slots_before + most
            told = f"{growth} more than its sources, and {most} more are allowed"
        else:
            allowed = max(slots_before, self.free_slots(shape))
            told = f"its sources have {slots_before}, and {allowed} are allowed"
        if slots > allowed:
            takes = f"it takes max-parameter-growth={growth} or more"
            raise Refusal(RefusalCode.PARAMETER_GROWTH, f"it has {slots} scales, {told}; {takes}")


def spell(
    like: UniformQuantizedType,
    parameters: QuantizationParameters,
    finest: Granularity,
) -> UniformQuantizedType:
    """
    The coarsest type with the storage of `like` that spells `parameters`, at most as fine as
    `finest`.

    Blocks along one axis may be spelled as per-axis, with the scale of each block repeated.
    Raises Refusal if there is no such type.
    """
    with refusing:
        type = like.with_parameters(parameters)
    if not _is_finer(type.granularity, finest):
        return type
    if finest is Granularity.PER_AXIS and len(type.quantized_dimensions) == 1:
        return like.with_repeated_parameters(parameters, type.quantized_dimensions[0])
    raise _too_fine(type, finest)


def coarser(one: Granularity, other: Granularity) -> Granularity:
    """The coarser of two granularities."""
    return other if one is not other and _is_finer(one, other) else one


def _too_fine(type: UniformQuantizedType, finest: Granularity) -> Refusal:
    return Refusal(
        RefusalCode.GRANULARITY,
        f"its type is {type.granularity.value}, and {finest.value} is allowed",
    )


def _is_finer(one: Granularity, other: Granularity) -> bool:
    return _FINENESS.index(one) > _FINENESS.index(other)
