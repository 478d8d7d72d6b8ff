"""
The arguments of functions whose elements are read as positions, such as of rows of an embedding.

Runs with positions out of bounds show nothing: compilers read memory of anything there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xdsl.dialects.builtin import AnyFloat
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.ir.value_types import element_type_or_self
from qdialect.ops.interface import name_of
from qdialect.ops.model import model_named
from qdialect.ops.positions import Positions

Bounds = Mapping[int, int]
"""For the number of an argument, the number that all of its elements must be below."""


class PositionArguments:
    """The arguments of the functions of a module that are read as positions."""

    def __init__(self, functions: Mapping[str, FuncOp]) -> None:
        self._functions = functions
        self._known: dict[str, Bounds] = {}

    def of(self, name: str) -> Bounds:
        """
        The bounds of arguments from which integers that are read as positions are computed.

        An argument is bounded as the positions are, though what is computed from it may exceed
        them. An axis of unknown length has one position.
        """
        if name not in self._known:
            # A function that calls itself finds no bounds there.
            self._known[name] = {}
            self._known[name] = self._found(self._functions[name])
        return self._known[name]

    def _found(self, function: FuncOp) -> Bounds:
        found: dict[int, int] = {}
        visited = set[SSAValue]()
        # From the lowest bound up, each value needs only one visit.
        read = [pair for op in function.walk() for pair in self._read_by(op)]
        for first, bound in sorted(read, key=lambda pair: pair[1]):
            pending = [first]
            while pending:
                value = pending.pop()
                element_type = element_type_or_self(value.type)
                if value in visited or isinstance(element_type, AnyFloat | UniformQuantizedType):
                    continue
                visited.add(value)
                owner = value.owner
                if isinstance(value, BlockArgument) and owner is function.body.blocks.first:
                    found[value.index] = bound
                else:
                    pending += _sources(owner)
        return found

    def _read_by(self, op: Operation) -> Positions:
        if isinstance(op, CallOp):
            callee = op.callee.string_value()
            if callee in self._functions:
                yield from ((op.operands[at], bound) for at, bound in self.of(callee).items())
        elif (reader := model_named(name_of(op)).positions) is not None:
            for value, bound in reader(op):
                yield value, max(bound, 1)


def _sources(owner: Operation | Block) -> Iterator[SSAValue]:
    """The values from which those of an op or a block may be computed, by that op or around it."""
    op = owner.parent_op() if isinstance(owner, Block) else owner
    if op is None:
        return
    yield from op.operands
    for region in op.regions:
        for block in region.blocks:
            if block.last_op is not None:
                yield from block.last_op.operands
