"""
The numbers of tensors that any ops compute from constants, such as `rsqrt(variance + epsilon)`.

Numbers of a tensor are an array of its rank, with length 1 along each axis that they are repeated
along.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.movement import BroadcastInDim, Movement, Shape
from qdialect.algebra.views import Splat, as_view
from qdialect.check.constant_ops import ConstantOps
from qdialect.folding.arithmetic import stored_numbers
from qdialect.folding.graph import FoldGraph
from qdialect.ir.value_types import element_type_or_self
from qdialect.ir.value_types import shape_of as shape_of_type
from qdialect.ops.interface import (
    Refusal,
    elements_attribute_of,
    model_of,
    op_model,
    read_movements,
)
from qdialect.ptq.equalization.factors import Moves
from qdialect.support.lazy_numpy import NDArray, np

Numbers: TypeAlias = "NDArray[Any]"


class ComputedConstants(ConstantOps):
    """The numbers of the values of a module that are computed from constants alone."""

    def __init__(self, module: ModuleOp, context: Context, graph: FoldGraph) -> None:
        super().__init__(module, context)
        self._graph = graph
        self._numbers = dict[SSAValue, "Numbers | None"]()

    def numbers(self, value: SSAValue) -> Numbers | None:
        """The numbers of a tensor or of a scalar; None if they are not known."""
        if value not in self._numbers:
            owner = value.owner
            # The lengths of what repeats a number may be known only at run time.
            is_known = owner in self or (isinstance(owner, Operation) and op_model(owner).repeats)
            self._numbers[value] = self._read(value, cast(Operation, owner)) if is_known else None
        return self._numbers[value]

    def _read(self, value: SSAValue, op: Operation) -> Numbers | None:
        ones = [1] * len(shape_of_type(value.type) or ())
        movements = list[Movement]()
        try:
            if (model := model_of(op)) is not None:
                _, movements, _ = read_movements(op, model, self._graph.operands)
            elif elements_attribute_of(op) is not None and ones:
                values = self._graph.constants.read(op)
                if isinstance(values, Splat) and sum(n > 1 for n in values.shape) > 1:
                    first = np.asarray(values.value).reshape(ones)
                    return stored_numbers(first, element_type_or_self(value.type))
        except Refusal:
            # An op with a body may compute elements, too.
            pass
        if any(isinstance(movement, BroadcastInDim) for movement in movements):
            numbers, shape = self.numbers(op.operands[0]), shape_of_type(op.operands[0].type)
            if numbers is None or shape is None:
                return None
            return _repeated(movements, numbers, shape)
        if op_model(op).repeats:
            numbers = self.numbers(op.operands[0])
            return None if numbers is None or numbers.size > 1 else numbers.reshape(ones)
        result = self.elements(value)
        return None if result is None else result.numbers.astype("f8")


def _repeated(movements: Sequence[Movement], numbers: Numbers, shape: Shape) -> Numbers | None:
    """Moved numbers, with length 1 along each axis that a broadcast adds."""
    for movement in movements:
        if isinstance(movement, BroadcastInDim):
            lengths = [1] * len(movement.shape)
            for axis, length in zip(movement.dims, numbers.shape, strict=True):
                lengths[axis] = length
            numbers = numbers.transpose(np.argsort(movement.dims)).reshape(lengths)
        elif numbers.shape == shape:
            numbers = as_view(movement.move_values([numbers], None)).array()
        else:
            return Moves([movement], [shape]).moved([numbers])
        shape = movement.result_shape(shape)
    return numbers
