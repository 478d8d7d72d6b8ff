"""Which constant each element came from: the parts of what was joined keep their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from qdialect.lazy_numpy import np
from qdialect.slot_map import IntArray, SlotMap

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Origins(SlotMap):
    """The constant that each element came from, by its number."""

    ends: tuple[IntArray, ...]
    numbers: IntArray

    @classmethod
    def of_one(cls, shape: tuple[int, ...], number: int) -> Origins:
        """All elements came from one constant."""
        ends = tuple(np.array([length]) for length in shape)
        return cls(ends, np.full((1,) * len(shape), number))

    @property
    @override
    def slot_arrays(self) -> tuple[IntArray, ...]:
        return (self.numbers,)

    @property
    @override
    def _meaning(self) -> tuple[IntArray, ...]:
        return (self.numbers,)

    @override
    def _with_slots(self, ends: tuple[IntArray, ...], arrays: Sequence[NDArray[Any]]) -> Origins:
        return Origins(ends, *arrays)
