"""
The elements of a small tensor as slots, which move along with the tensor that they broadcast
to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from qdialect.algebra.run_map import IntArray, SlotMap
from qdialect.algebra.splat import Splat, Values, as_view
from qdialect.support.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class ElementSlots(SlotMap):
    """The map from each position of a tensor to an element; equal neighbours form one run."""

    ends: tuple[IntArray, ...]
    """For each axis, the end of each run: int64, as in `SlotMap`."""

    elements: NDArray[Any]
    """One element per slot, floats as their bits: `elements.shape[axis] == len(ends[axis])`."""

    @classmethod
    def of(cls, values: Values) -> ElementSlots:
        """The map of a non-empty tensor in which each position reads its own element."""
        runs = (1,) * len(values.shape) if isinstance(values, Splat) else values.shape
        ends = tuple(
            np.arange(1, count + 1, dtype=np.int64) * (length // count)
            for length, count in zip(values.shape, runs, strict=True)
        )
        if isinstance(values, Splat):
            return cls(ends, np.asarray(values.value).reshape(runs))
        return cls(ends, as_view(values).array())

    @property
    @override
    def slot_arrays(self) -> tuple[NDArray[Any]]:
        return (self.elements,)

    @override
    def _with_slots(
        self, ends: tuple[IntArray, ...], arrays: Sequence[NDArray[Any]]
    ) -> ElementSlots:
        (elements,) = arrays
        return ElementSlots(ends, elements)

    @property
    @override
    def _meaning(self) -> tuple[NDArray[Any]]:
        return (self.elements,)
