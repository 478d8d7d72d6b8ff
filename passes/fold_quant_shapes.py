"""The pass that folds shape ops into quantized constants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from qdialect.dialects.quant.constants import ConstantOp
from qdialect.dialects.quant.folding import (
    DEFAULT_MAX_GROWTH,
    folded_constant,
    move_constants,
    simplified,
)
from qdialect.dialects.quant.shape_ops import ShapeOp, compose, unmoved_operand
from qdialect.movement import Values
from qdialect.ordering import dependencies_first
from qdialect.slot_map import IntArray, SlotMap, TooManySlotsError


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


@dataclass(frozen=True)
class MovedConstant:
    """What a value holds before it is written: views of the elements of constants."""

    values: Values

    sources: tuple[ConstantOp, ...]
    """The constants that elements came from, in the order of their elements."""

    origins: Origins | None
    """Which from which, if there are several and it can be said in few words."""


class ShapeOpFolder:
    """
    Folds the shape ops of a module in one walk.

    Elements are only viewed on the way, so that a chain is copied once, where an op that
    is left uses it. Uses are replaced at the end, all operands of an op at once.
    """

    def __init__(self, max_growth: int):
        self.max_growth = max_growth
        self.visited: list[ShapeOp] = []
        self.moved: dict[ShapeOp, MovedConstant] = {}
        self.numbers: dict[ConstantOp, int] = {}
        self.numbered: list[ConstantOp] = []
        self.equal: dict[SSAValue, SSAValue] = {}
        """Values that are replaced by others, which are not replaced themselves."""

    def fold(self, module: ModuleOp) -> None:
        """Fold what can be folded, and erase what that leaves unused."""
        shape_ops = [op for op in module.walk() if isinstance(op, ShapeOp)]
        # In a graph region, or where blocks are not in order, operands may come later.
        for op in dependencies_first(shape_ops, _shape_ops_of_operands):
            self._visit(op)
        self._replace(self._write_constants())
        self._erase_unused()

    def _visit(self, op: ShapeOp) -> None:
        self.visited.append(op)
        operands = [self.equal.get(operand, operand) for operand in op.operands]
        unmoved = unmoved_operand(*compose(op.movement, operands), op.result.type)
        if unmoved is not None and unmoved is not op.result:
            self.equal[op.result] = self.equal.get(unmoved, unmoved)
        elif (moved := self._move(op, operands)) is not None:
            self.moved[op] = moved
        elif (new_op := simplified(op, operands)) is not None:
            Rewriter.insert_op(new_op, InsertPoint.before(op))
            new_op.result.name_hint = op.result.name_hint
            self.equal[op.result] = new_op.result
            self.visited.append(new_op)

    def _move(self, op: ShapeOp, operands: Sequence[SSAValue]) -> MovedConstant | None:
        constants: list[MovedConstant] = []
        for operand in operands:
            match operand.owner:
                case ConstantOp() as owner:
                    constants.append(MovedConstant(owner.values, (owner,), None))
                case ShapeOp() as owner if owner in self.moved:
                    constants.append(self.moved[owner])
                case _:
                    return None
        values = move_constants(op, [c.values for c in constants], self.max_growth)
        if values is None:
            return None
        return MovedConstant(values, *self._move_origins(op, constants))

    def _move_origins(
        self, op: ShapeOp, constants: Sequence[MovedConstant]
    ) -> tuple[tuple[ConstantOp, ...], Origins | None]:
        """The sources of the result of `op`, and the origins of its elements."""
        sources = tuple(dict.fromkeys(s for constant in constants for s in constant.sources))
        operands: list[Origins] = []
        for constant in constants:
            if constant.origins is not None:
                operands.append(constant.origins)
            elif len(constant.sources) == 1:
                (source,) = constant.sources
                operands.append(Origins.of_one(constant.values.shape, self._number(source)))
        if len(sources) == 1 or len(operands) < len(constants):
            return sources, None
        try:
            origins = op.movement(*operands).simplify()
        except TooManySlotsError:
            return sources, None
        left = dict.fromkeys(origins.numbers.ravel().tolist())
        return tuple(self.numbered[number] for number in left), origins if len(left) > 1 else None

    def _number(self, constant: ConstantOp) -> int:
        if constant not in self.numbers:
            self.numbers[constant] = len(self.numbered)
            self.numbered.append(constant)
        return self.numbers[constant]

    def _is_left(self, op: Operation) -> bool:
        return not isinstance(op, ShapeOp) or not (op in self.moved or op.result in self.equal)

    def _write_constants(self) -> list[Operation]:
        """Write the constants that ops which are left use: these ops."""
        users: dict[Operation, None] = {}
        for op in self.visited:
            if self._is_left(op):
                continue
            left = [use.operation for use in op.result.uses if self._is_left(use.operation)]
            users |= dict.fromkeys(left)
            owner = self.equal.get(op.result, op.result).owner
            if left and isinstance(owner, ShapeOp) and owner in self.moved:
                if owner.result in self.equal:
                    continue
                moved = self.moved[owner]
                constant = folded_constant(owner, moved.values, moved.sources)
                Rewriter.insert_op(constant, InsertPoint.before(owner))
                self.equal[owner.result] = constant.result
        return list(users)

    def _replace(self, users: Sequence[Operation]) -> None:
        for user in users:
            user.operands = [self._final(operand) for operand in user.operands]

    def _final(self, value: SSAValue) -> SSAValue:
        while value in self.equal:
            value = self.equal[value]
        return value

    def _erase_unused(self) -> None:
        constants: dict[ConstantOp, None] = {}
        for op in reversed(self.visited):
            if op.result.first_use is None:
                for operand in op.operands:
                    if isinstance(operand.owner, ConstantOp):
                        constants[operand.owner] = None
                Rewriter.erase_op(op)
        for constant in constants:
            if constant.result.first_use is None:
                Rewriter.erase_op(constant)


def _shape_ops_of_operands(op: ShapeOp) -> Iterator[ShapeOp]:
    for operand in op.operands:
        if isinstance(operand.owner, ShapeOp):
            yield operand.owner


@dataclass(frozen=True)
class FoldQuantShapesPass(ModulePass):
    """
    Fold shape ops into quantized constants, exactly.

    A constant that a transpose, reshape, slice, concat, broadcast, reverse or pad moves
    becomes one constant of the type that the op declares, with the name and the attributes
    of the constants that its elements came from. Other shape ops are joined where one does
    what two do, and dropped where they move nothing.
    """

    name = "fold-quant-shapes"

    max_growth: int = DEFAULT_MAX_GROWTH
    """How many bytes a folded constant may have more than those that it is made of."""

    def __post_init__(self) -> None:
        """Raise ValueError if an option has a value that means nothing."""
        if self.max_growth < 0:
            raise ValueError(f"max-growth must not be negative, but is {self.max_growth}")

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        ShapeOpFolder(self.max_growth).fold(op)
