"""The shape ops of the quant dialect, by their movements."""

from __future__ import annotations

from hypothesis import strategies as st

from qdialect.algebra.movement import Movement, Shape
from qdialect.dialects.quant import Quant, ShapeOp
from qdialect.testing.movements import movements_by_class

OWN_OPS: dict[type[Movement], type[ShapeOp]] = {
    op.MOVEMENT: op for op in Quant.operations if issubclass(op, ShapeOp)
}


def own_movements(shape: Shape) -> st.SearchStrategy[Movement]:
    """Movements of one operand of `shape` for which the dialect has an op."""
    by_class = movements_by_class(shape)
    return st.one_of([by_class[of] for of in by_class if of in OWN_OPS])
