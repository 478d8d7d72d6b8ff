"""The values of a module that any ops compute from constants alone, by running these ops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import InterpretationError

from qdialect.check.compared_modules import CallEffects
from qdialect.ir.rewriting import read_by
from qdialect.ops.interface import Refusal, elements_attribute_of, op_model
from qdialect.ops.model import Effects
from qdialect.support.memory import MemoryLimitError

if TYPE_CHECKING:
    from qdialect.dialects.arrays.values import TypedArray

_NAME = "computed"


class ConstantOps:
    """The ops of a module whose results are computed from constants alone."""

    def __init__(self, module: ModuleOp, context: Context) -> None:
        self._context = context
        self._ops = dict[Operation, int]()
        """The ops, with their numbers in the order of the module."""
        effects = CallEffects(module, {})
        for number, op in enumerate(module.walk()):
            makers = (value.owner for value in read_by(op))
            # The elements of a constant that is a resource are no effect.
            is_pure = elements_attribute_of(op) is not None or all(
                effects.of(part) is not Effects.ANY or _asserts(part) for part in _parts(op)
            )
            if op.results and is_pure and all(maker in self._ops for maker in makers):
                self._ops[op] = number

    def __iter__(self) -> Iterator[Operation]:
        """The ops, in the order of the module."""
        return iter(self._ops)

    def __contains__(self, op: object) -> bool:
        """Whether the results of an op are computed from constants."""
        return op in self._ops

    def ops(self, value: SSAValue) -> list[Operation]:
        """The ops that a value is computed by, in the order of the module."""
        makers, pending = set[Operation](), [value]
        while pending:
            op = pending.pop().owner
            if not isinstance(op, Operation) or op in makers:
                continue
            # A constant may have been written in place of ops.
            if op in self._ops or elements_attribute_of(op) is not None:
                makers.add(op)
                pending += read_by(op)
        return sorted(makers, key=lambda op: self._ops.get(op, -1))

    def elements(self, value: SSAValue) -> TypedArray | None:
        """A value; None if it is not computed from constants, or its ops cannot be run."""
        if value.owner not in self._ops:
            return None
        try:
            return self.computed(value)
        except (InterpretationError, MemoryLimitError, Refusal):
            return None

    def computed(self, value: SSAValue) -> TypedArray:
        """
        A value that is computed from constants.

        Raises InterpretationError, MemoryLimitError and Refusal if its ops cannot be run.
        """
        # Only constants that are computed need the interpreter, which needs numpy.
        from qdialect.check.interpreters import run_function

        block, copies = Block(), dict[SSAValue, SSAValue]()
        for op in self.ops(value):
            block.add_op(copy := op.clone(copies))
            copies |= dict(zip(op.results, copy.results, strict=True))
        block.add_op(ReturnOp(copies[value]))
        function = FuncOp(_NAME, ((), (value.type,)), Region(block))
        return run_function(ModuleOp([function]), _NAME, (), self._context)[0]


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
