"""
Moving shape ops above arithmetic on constants that is no dequantization, where they are folded.

The elements of a result are computed one by one, so `f(x + y)` is `f(x) + f(y)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from qdialect.algebra.padding import Pad
from qdialect.folding.graph import GraphReader
from qdialect.folding.report import Outcome, PassReport
from qdialect.ir.rewriting import Replacements
from qdialect.ir.value_types import tensor_element_type
from qdialect.lowering.storage_ops import StorageBuilder
from qdialect.ops.elementwise import arithmetic_model_of, read_elementwise
from qdialect.ops.fields import SmallOperand
from qdialect.ops.interface import (
    Refusal,
    RefusalCode,
    is_cast,
    models_of,
    name_of,
    op_model,
    static_shape_of,
)
from qdialect.ops.reading import ConstantOperands
from qdialect.ops.unused_ops import erase_with_unused
from qdialect.sinking.moving_ops import MovingOp
from qdialect.support.memory import memory_budget


def hoist_shapes(module: ModuleOp, context: Context) -> PassReport:
    """
    Move the shape ops that a fold refuses because of arithmetic above this arithmetic.

    It is computed by as many ops as before, and a shape op becomes one for each of its operands.
    What cannot be moved is reported with the reason.
    """
    report, last = PassReport(verb="hoisted"), dict[Operation, Refusal]()
    original = frozenset(module.walk())
    with models_of(context), memory_budget() as budget:
        while True:
            # A moved op may stand behind other arithmetic.
            graph = GraphReader(module, context, budget, has_parts=False).graph
            hoisting = _Hoisting(graph.operands)
            for op in graph.order:
                refusal = graph.refusals.get(op)
                if refusal is None or refusal.code is not RefusalCode.ARITHMETIC:
                    continue
                if graph.models[op] is not None:
                    hoisting.hoist(op)
            for op, value in hoisting.hoisted.items():
                last.pop(op, None)
                if op in original:
                    reason = f"it is now above '{name_of(cast(Operation, value.owner))}'"
                    report.tell(Outcome.HOISTED, op, reason, value)
            last |= hoisting.refusals
            if not hoisting.hoisted:
                break
            hoisting.finish()
    # A shape op behind another one is moved above its arithmetic, too.
    report.forget_erased()
    for op, refusal in last.items():
        if op in original:
            report.refuse(op, refusal)
    return report


class _Hoisting:
    """Moves some shape ops, each above one op."""

    def __init__(self, known: ConstantOperands) -> None:
        self._known = known
        self._replaced = Replacements()
        self.hoisted: dict[Operation, SSAValue] = {}
        """For each op that is moved, what replaces its result."""
        self.refusals: dict[Operation, Refusal] = {}

    def hoist(self, op: Operation) -> None:
        """Move a shape op above the arithmetic that makes its operands, if that is possible."""
        try:
            self.hoisted[op] = self._hoist(MovingOp.read(op, self._known))
        except Refusal as error:
            self.refusals[op] = error
            return
        self._replaced.add(op.results[0], self.hoisted[op])

    def _hoist(self, moving: MovingOp) -> SSAValue:
        op = moving.op
        if any(isinstance(movement, Pad) for movement in moving.movements):
            raise Refusal(RefusalCode.PADDING, "its padding would have to be computed")
        makers = [self._maker_of(value, op) for value in moving.operands]
        maker = makers[0]
        if not all(_is_like(other, maker) for other in makers):
            raise Refusal(RefusalCode.ARITHMETIC, "its operands are computed in different ways")
        columns = [*zip(*map(self._operands_of, makers), strict=True)]
        count, (type,) = len(moving.movements), op.result_types
        forms = [
            moving.form(elements, elements[:1] * count)
            for elements in ([tensor_element_type(value.type) for value in c] for c in columns)
        ]
        builder = StorageBuilder(InsertPoint.before(op), op.location)
        axes = tuple(range(len(moving.shapes[-1])))
        operands = [
            SmallOperand(moving.make(form, builder, column), axes)
            for form, column in zip(forms, columns, strict=True)
        ]
        new = arithmetic_model_of(maker).write(maker, operands, type)
        Rewriter.insert_op(new, InsertPoint.before(op))
        (value,) = new[-1].results
        value.name_hint = op.results[0].name_hint
        return value

    def _maker_of(self, value: SSAValue, user: Operation) -> Operation:
        """The arithmetic that makes an operand of a shape op. Raises Refusal."""
        maker = self._replaced.final(value).owner
        if not isinstance(maker, Operation) or op_model(maker).term is None or is_cast(maker):
            raise Refusal(RefusalCode.ARITHMETIC, "no arithmetic stands right before it")
        if maker.parent is not user.parent:
            raise Refusal(RefusalCode.ARITHMETIC, "the arithmetic before it is in another block")
        if not value.has_one_use():
            raise Refusal(RefusalCode.USES, "the arithmetic before it has other uses")
        return maker

    def _operands_of(self, maker: Operation) -> Sequence[SSAValue]:
        """The operands of arithmetic, which have the shape of its result. Raises Refusal."""
        read = read_elementwise(maker, self._known)
        shape = static_shape_of(maker.results[0])
        whole = tuple(range(len(shape)))
        for value, axes in zip(read.operands, read.axes, strict=True):
            if axes != whole or static_shape_of(value) != shape:
                raise Refusal(RefusalCode.ARITHMETIC, "the arithmetic before it broadcasts")
        return read.operands

    def finish(self) -> None:
        """Replace all uses, and erase what was moved, and what this leaves unused."""
        self._replaced.apply()
        erase_with_unused(self.hoisted)


def _is_like(one: Operation, other: Operation) -> bool:
    """Whether two ops compute alike, of any operands."""
    alike = one.properties == other.properties and one.attributes == other.attributes
    return alike and name_of(one) == name_of(other)
