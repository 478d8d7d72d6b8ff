"""
Per-axis ranges in an op between a constant and a shape op.

The shape op moves the map from elements to ranges together with the elements: `ranges . f`. The
range of the whole tensor is kept, since a movement adds no values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Operation

from qdialect.algebra.movement import Movement, Shape
from qdialect.algebra.parameters import ElementSlots
from qdialect.algebra.run_map import TooManySlotsError
from qdialect.algebra.views import as_view
from qdialect.folding.policy import FoldPolicy
from qdialect.ir.elements import DenseElementsAttr, dense_elements, elements_of
from qdialect.ops.along_axis import AXIS, AlongAxis, said_along_axis
from qdialect.ops.attributes import attribute_of
from qdialect.ops.interface import Refusal, RefusalCode
from qdialect.support.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class CarriedRanges:
    """The range or scale that each element of a tensor has, of those along an axis of an op."""

    op: Operation
    """The op of the module."""

    said: AlongAxis
    """The rows of values, one for each position of an axis."""

    slots: ElementSlots
    """The row that each position of the tensor reads: int64."""

    @classmethod
    def of(cls, op: Operation, shape: Shape) -> CarriedRanges | None:
        """The rows of an op for a tensor of `shape`; None without an axis. Raises Refusal."""
        said = said_along_axis(op, shape)
        if said is None or 0 in shape:
            return None
        axis = said.axis
        ends = [np.asarray([length], np.int64) for length in shape]
        ends[axis] = np.arange(1, shape[axis] + 1, dtype=np.int64)
        rows = np.arange(shape[axis], dtype=np.int64)
        return cls(op, said, ElementSlots(tuple(ends), rows.reshape([len(each) for each in ends])))

    def moved(self, movement: Movement) -> CarriedRanges:
        """`ranges . f`."""
        return replace(self, slots=movement(self.slots).simplify())

    def check(self, policy: FoldPolicy) -> None:
        """Raise Refusal if there would be more ranges than `policy` allows."""
        before, after = len(self._held), len(self._rows()[1])
        allowed = before + (policy.max_parameter_growth or 0)
        if after > allowed:
            raise Refusal(
                RefusalCode.PARAMETER_GROWTH,
                f"it would have {after} {self.said.are}, its source has {before}, and {allowed} "
                f"are allowed; it takes max-parameter-growth={after - before} or more",
            )

    def write(self, op: Operation) -> None:
        """Write these ranges to `op`, a copy of the op of the module. Raises Refusal."""
        axis, rows = self._rows()
        type = self._attribute.type.element_type
        new = {
            self.said.attribute: dense_elements(self._held[rows], type),
            AXIS: IntegerAttr(axis, i64),
        }
        for held in (op.properties, op.attributes):
            held |= {name: attribute for name, attribute in new.items() if name in held}

    @property
    def _attribute(self) -> DenseElementsAttr:
        return cast(DenseElementsAttr, attribute_of(self.op, self.said.attribute))

    @property
    def _held(self) -> NDArray[Any]:
        return as_view(elements_of(self._attribute)).array()

    def _rows(self) -> tuple[int, NDArray[np.int64]]:
        """The axis of the ranges, and the range of each of its positions. Raises Refusal."""
        slots = self.slots
        axes = [axis for axis, ends in enumerate(slots.ends) if len(ends) > 1]
        if len(axes) > 1:
            reason = (
                f"its {self.said.are} would vary along the axes {axes}, but one axis is supported"
            )
            raise Refusal(RefusalCode.GRANULARITY, reason)
        if not slots.ndim:
            reason = f"its {self.said.are} are along an axis, but the result has no axes"
            raise Refusal(RefusalCode.GRANULARITY, reason)
        # If all positions have the same range, any axis will do.
        axis = axes[0] if axes else min(range(slots.ndim), key=slots.shape.__getitem__)
        try:
            return axis, slots.in_single_positions(axis).elements.reshape(-1)
        except TooManySlotsError as error:
            raise Refusal(RefusalCode.PARAMETER_GROWTH, str(error)) from None
