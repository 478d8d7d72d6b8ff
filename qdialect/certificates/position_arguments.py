"""
The arguments of functions whose elements are read as positions, such as of rows of an embedding.

Runs with positions out of bounds show nothing: compilers read memory of anything there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from xdsl.dialects.builtin import AnyFloat
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from qdialect.algebra.movement import DYNAMIC, Shape
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.ir.value_types import element_type_or_self, shape_of
from qdialect.shape_ops.attributes import integers_of
from qdialect.shape_ops.interface import name_of
from qdialect.shape_ops.refusals import NotFoldable

Bounds = Mapping[int, int]
"""For the number of an argument, the number that all of its elements must be below."""

_Positions = Iterator[tuple[SSAValue, int]]
"""Values of positions, and the number that each position must be below."""


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

    def _read_by(self, op: Operation) -> _Positions:
        if isinstance(op, CallOp):
            callee = op.callee.string_value()
            if callee in self._functions:
                yield from ((op.operands[at], bound) for at, bound in self.of(callee).items())
        elif (reader := _READERS.get(name_of(op))) is not None:
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


def _shape(op: Operation) -> Shape:
    """The lengths of the axes in which an op reads; 1 for an unknown one."""
    lengths = shape_of(op.operands[0].type) or ()
    return tuple(1 if length == DYNAMIC else length for length in lengths)


def _along(axis: int) -> Callable[[Operation], _Positions]:
    """The second operand has positions on an axis of the first one."""

    def read(op: Operation) -> _Positions:
        yield op.operands[1], dict(enumerate(_shape(op))).get(axis, 1)

    return read


def _on_any_axis(op: Operation) -> _Positions:
    """Operands after the first one have positions on an axis of it."""
    yield from ((value, min(_shape(op), default=1)) for value in op.operands[1:])


def _slices(op: Operation) -> _Positions:
    """The second operand has the starts of slices; a start on an axis that is taken whole is 0."""
    try:
        sizes = integers_of(op, "slice_sizes")
    except NotFoldable:
        sizes = ()
    shape = _shape(op)
    starts = [
        length - size + 1 for length, size in zip(shape, sizes, strict=False) if size < length
    ]
    yield op.operands[1], min(starts, default=1)


def _elements(first: int) -> Callable[[Operation], _Positions]:
    """The operands from `first` on are a position on each axis of the one before them."""

    def read(op: Operation) -> _Positions:
        lengths = shape_of(op.operands[first - 1].type) or ()
        for value, length in zip(op.operands[first:], lengths, strict=False):
            yield value, 1 if length == DYNAMIC else length

    return read


_READERS: Final[Mapping[str, Callable[[Operation], _Positions]]] = {
    "stablehlo.dynamic_gather": _slices,
    "stablehlo.gather": _slices,
    "stablehlo.torch_index_select": _on_any_axis,
    "tensor.extract": _elements(1),
    "tensor.insert": _elements(2),
    "torch.aten.embedding": _along(0),
    "torch.aten.gather": _on_any_axis,
    "torch.aten.index.Tensor": _on_any_axis,
    "torch.aten.index_select": _on_any_axis,
    "tosa.gather": _along(1),
    "tosa.scatter": _along(1),
}
"""Ops that read or write where integers say; others clamp positions, or do not depend on them."""
