"""Ops that a rewrite leaves without users."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xdsl.dialects.builtin import NoneType
from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.transforms.dead_code_elimination import is_trivially_dead

from qdialect.ops.interface import elements_attribute_of, is_arithmetic, op_model
from qdialect.ops.model import Effects


def erase_unused(gone: Sequence[Operation]) -> None:
    """Erase unused ops, and then the ops that only they used."""
    pending = list(gone)
    while pending:
        op = pending.pop()
        if op.parent is None or any(result.first_use is not None for result in op.results):
            continue
        model = op_model(op)
        is_pure = bool(op.results) and all(map(_has_no_effects, op.walk()))
        is_known = model.reads_elements or is_pure
        # The default of an omitted operand.
        is_known |= not op.operands and isinstance(op.results[0].type, NoneType)
        if not (is_known or is_arithmetic(op) or is_trivially_dead(op)):
            continue
        owners = [operand.owner for inner in op.walk() for operand in inner.operands]
        Rewriter.erase_op(op)
        pending += [owner for owner in owners if isinstance(owner, Operation)]


def _has_no_effects(op: Operation) -> bool:
    model = op_model(op)
    return model.effects is Effects.NONE or model.yields


def erase_unread_results(module: Operation) -> None:
    """Let ops compute only the results that something reads, in the order from last to first."""
    for op in list(module.walk(reverse=True)):
        make = op_model(op).with_read_results
        if make is None or op.parent is None or (new := make(op)) is None:
            continue
        read = [result for result in op.results if result.first_use is not None]
        for old, result in zip(read, new.results, strict=True):
            result.name_hint = old.name_hint
            old.replace_all_uses_with(result)
        owners = [operand.owner for operand in op.operands]
        Rewriter.insert_op(new, InsertPoint.before(op))
        Rewriter.erase_op(op)
        erase_unused([owner for owner in owners if isinstance(owner, Operation)])


def erase_with_unused(gone: Collection[Operation]) -> None:
    """
    Erase ops, which may use each other, and the ops that this leaves unused and that are pure.
    """
    unused: dict[Operation, None] = {}
    for op in gone:
        within = tuple(op.walk())
        for inner in within:
            owners = (operand.owner for operand in inner.operands)
            unused |= {owner: None for owner in owners if isinstance(owner, Operation)}
            inner.operands = ()
    for op in gone:
        Rewriter.erase_op(op)
    pending = list(unused)
    while pending:
        op = pending.pop()
        is_unused = op.parent is not None and all(r.first_use is None for r in op.results)
        if is_unused and (elements_attribute_of(op) is not None or is_trivially_dead(op)):
            pending += [o.owner for o in op.operands if isinstance(o.owner, Operation)]
            Rewriter.erase_op(op)
