"""Canonicalization patterns of the shape ops, with a memory budget per module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from weakref import WeakKeyDictionary

from xdsl.ir import IRNode, Operation
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from qdialect.dialects.quant.composition import simplified
from qdialect.dialects.quant.constants import ConstantOp
from qdialect.dialects.quant.shape_ops import ShapeOp
from qdialect.folding.graph import verified_layer
from qdialect.folding.moved_constant import (
    SLOT_BYTES,
    ElementStep,
    ElementValues,
    MovedConstant,
    move,
)
from qdialect.folding.policy import DEFAULT_MAX_GROWTH
from qdialect.folding.provenance import Provenance
from qdialect.folding.writing import write_constant
from qdialect.ir.resources import ResourceBlobs
from qdialect.ops.interface import Refusal, keeping_attribute_of, static_shape_of
from qdialect.ops.reading import Constants
from qdialect.support.memory import MemoryBudget, MemoryLimitError, memory_budget


class FoldShapeOpOfConstants(RewritePattern):
    """`f(constant C) = constant (C . f)`."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ShapeOp, rewriter: PatternRewriter, /) -> None:
        sources = [
            operand.owner for operand in op.operands if isinstance(operand.owner, ConstantOp)
        ]
        if len(sources) < len(op.operands):
            return
        if any([keeping_attribute_of(maker) is not None for maker in (op, *sources)]):
            return
        folded = _folded(op, sources)
        if folded is not None:
            rewriter.replace(op, folded)


class ComposeShapeOps(RewritePattern):
    """`g(f(x)) = (g . f)(x)`, if one op can do both."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ShapeOp, rewriter: PatternRewriter, /) -> None:
        new_op = simplified(op, op.operands)
        if new_op is not None:
            rewriter.replace(op, new_op)


PATTERNS: Final = FoldShapeOpOfConstants(), ComposeShapeOps()
"""The patterns of all shape ops of quant."""

_ADDED: Final = WeakKeyDictionary[IRNode, MemoryBudget]()
"""
The budget of bytes added to each module: a pattern does not know where a run of a pass starts.
"""


def _folded(op: ShapeOp, sources: Sequence[ConstantOp]) -> Operation | None:
    """The constant that replaces `op` on `sources`, its operands; None if that grows too much."""
    constants = Constants(ResourceBlobs(None))
    with memory_budget() as budget:
        try:
            known: dict[Operation, MovedConstant] = {}
            for source in dict.fromkeys(sources):
                elements = constants.read(source)
                assert elements is not None
                known[source] = MovedConstant.of_source(source, elements, len(known))
            operands = [known[source] for source in sources]
            elements_move, moved = move(
                op.movement, operands, declared=verified_layer(op, static_shape_of(op.result))
            )
            added = _bytes_of(moved) - sum(
                _bytes_of(known[source])
                for source in known
                if all(use.operation is op for use in source.results[0].uses)
            )
            budget.reserve(max(added, 0))
            root = op.get_toplevel_object()
            _ADDED.setdefault(root, MemoryBudget(DEFAULT_MAX_GROWTH)).reserve(max(added, 0))
        except (Refusal, MemoryLimitError):
            return None
        steps = [ElementStep(source) for source in known]
        steps.append(
            ElementStep(op, tuple([operand.step for operand in operands]), (elements_move,))
        )
        values = ElementValues(steps, constants).of(len(known))
        provenance = Provenance(moved.provenance.value_set, known)
        (constant,) = write_constant(
            moved._replace(provenance=provenance), values, [op.result.type], constants.resources
        ).chain
    hint = constant.results[0].name_hint
    constant.results[0].name_hint = hint or op.result.name_hint
    return constant


def _bytes_of(moved: MovedConstant) -> int:
    return moved.nbytes + SLOT_BYTES * sum([layer.size for layer in moved.layers])
