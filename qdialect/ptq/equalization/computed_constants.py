"""
The numbers of tensors that any ops compute from constants, such as `rsqrt(variance + epsilon)`.

Numbers of a tensor are an array of its rank, with length 1 along each axis that they are repeated
along.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import InterpretationError

from qdialect.algebra.movement import BroadcastInDim, Movement, Shape
from qdialect.algebra.views import Splat, as_view
from qdialect.check.compared_modules import CallEffects
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
from qdialect.ops.model import Effects
from qdialect.ptq.equalization.factors import Moves
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.support.memory import MemoryLimitError

if TYPE_CHECKING:
    from qdialect.dialects.arrays.values import TypedArray

Numbers: TypeAlias = "NDArray[Any]"

_NAME = "computed"


class ComputedConstants:
    """The values of a module that are computed from constants alone."""

    def __init__(self, module: ModuleOp, context: Context, graph: FoldGraph) -> None:
        self._context = context
        self._graph = graph
        self._ops = dict[Operation, int]()
        """The ops that compute them, with their numbers in the order of the module."""
        self._numbers = dict[SSAValue, "Numbers | None"]()
        effects = CallEffects(module, {})
        for number, op in enumerate(module.walk()):
            makers = (value.owner for value in _reads(op))
            # The elements of a constant that is a resource are no effect.
            is_pure = elements_attribute_of(op) is not None or all(
                effects.of(part) is not Effects.ANY or _asserts(part) for part in _parts(op)
            )
            if op.results and is_pure and all(maker in self._ops for maker in makers):
                self._ops[op] = number

    def __contains__(self, op: object) -> bool:
        """Whether the results of an op are computed from constants."""
        return op in self._ops

    def ops(self, value: SSAValue) -> list[Operation]:
        """The ops that a value is computed by, in the order of the module."""
        makers, pending = set[Operation](), [value]
        while pending:
            op = pending.pop().owner
            if isinstance(op, Operation) and op in self._ops and op not in makers:
                makers.add(op)
                pending += _reads(op)
        return sorted(makers, key=self._ops.__getitem__)

    def elements(self, value: SSAValue) -> TypedArray | None:
        """A value; None if it is not computed from constants, or its ops cannot be run."""
        if value.owner not in self._ops:
            return None
        # Only constants that are computed need the interpreter, which needs numpy.
        from qdialect.check.interpreters import run_function

        block, copies = Block(), dict[SSAValue, SSAValue]()
        for op in self.ops(value):
            block.add_op(copy := op.clone(copies))
            copies |= dict(zip(op.results, copy.results, strict=True))
        block.add_op(ReturnOp(copies[value]))
        function = FuncOp(_NAME, ((), (value.type,)), Region(block))
        try:
            return run_function(ModuleOp([function]), _NAME, (), self._context)[0]
        except (InterpretationError, MemoryLimitError, Refusal):
            return None

    def numbers(self, value: SSAValue) -> Numbers | None:
        """The numbers of a tensor or of a scalar; None if they are not known."""
        if value not in self._numbers:
            owner = value.owner
            is_known = isinstance(owner, Operation) and owner in self._ops
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


def _parts(op: Operation) -> Iterator[Operation]:
    """An op, or the ops of its body if it computes each element by them."""
    if op_model(op).maps_elements and len(op.regions) == 1:
        yield from (inner for block in op.regions[0].blocks for inner in block.ops)
    else:
        yield op


def _asserts(op: Operation) -> bool:
    """Whether an op can only end the run: it has no results, and reads numbers alone."""
    numbers = AnyFloat | IntegerType | IndexType
    return not op.results and all(isinstance(type, numbers) for type in op.operand_types)


def _reads(op: Operation) -> Iterator[SSAValue]:
    """The operands of an op, and the values that its regions read from outside."""
    for inner in op.walk():
        for operand in inner.operands:
            if inner is op or not op.is_ancestor(operand.owner):
                yield operand
