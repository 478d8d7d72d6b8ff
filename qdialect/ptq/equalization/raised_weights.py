"""
Weights that are dequantized by arithmetic, as some exporters write it.

The arithmetic is raised to casts of quant, so that the weights can be read and requantized.
Arithmetic of unchanged layers is kept: a copy of the module, which shares all elements, is
equalized first to find out which layers change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue
from xdsl.rewriter import Rewriter

from qdialect.folding.policy import FoldPolicy
from qdialect.folding.raising import raise_dequantization
from qdialect.ops.elementwise import is_arithmetic
from qdialect.ops.interface import Refusal, name_of
from qdialect.ops.products import Contraction, is_layer, layer_of
from qdialect.ops.statistics import is_statistics


class Verdict(NamedTuple):
    """The outcome for the layers of a module."""

    changed: Iterable[Operation]
    refusals: Iterable[tuple[Operation, Refusal]]


class Raised(NamedTuple):
    """The outcome for weights that arithmetic dequantizes."""

    layers: Collection[Operation]
    """The layers whose weights were raised to casts."""

    refusals: Mapping[Operation, Sequence[Refusal]]
    """For each other layer with such weights, the reasons why it is not changed."""


def raise_weights(
    module: ModuleOp, context: Context, judge: Callable[[ModuleOp], Verdict]
) -> Raised:
    """Raise the dequantization of the weights of layers that will change."""
    if (copy := raised_copy(module, context)) is None:
        return Raised((), {})
    behind = _arithmetic_behind(module)
    verdict = judge(copy.module)
    layers = {copy.originals[op] for op in verdict.changed if op in copy.originals}
    layers &= behind.keys()
    refusals: dict[Operation, list[Refusal]] = {op: [] for op in behind.keys() - layers}
    for op, error in verdict.refusals:
        original = copy.originals.get(op)
        if original is not None and original in refusals:
            refusals[original].append(error)
    _raise(module, context, {op for layer in layers for op in behind[layer]})
    return Raised(layers, refusals)


class RaisedCopy(NamedTuple):
    """A copy of a module, with weights behind casts."""

    module: ModuleOp
    originals: Mapping[Operation, Operation]
    """The original of each copied op; new ops have none."""

    def original(self, value: SSAValue) -> SSAValue | None:
        """The value that a value is a copy of; None for new ones."""
        if isinstance(value, OpResult):
            op = self.originals.get(value.op)
            return None if op is None else op.results[value.index]
        block = cast(Block, value.owner)
        op, region = block.parent_op(), block.parent
        if op is None or region is None or op not in self.originals:
            return None
        at = op.regions.index(region), region.blocks.index(block)
        return (
            self.originals[op].regions[at[0]].blocks[at[1]].args[cast(BlockArgument, value).index]
        )


def raised_copy(module: ModuleOp, context: Context) -> RaisedCopy | None:
    """A copy with the weights of all layers behind casts; None if no arithmetic computes any."""
    behind = _arithmetic_behind(module)
    if not behind:
        return None
    copy = module.clone()
    originals = dict(zip(copy.walk(), module.walk(), strict=True))
    ops = {op for of in behind.values() for op in of}
    _raise(copy, context, {op for op, original in originals.items() if original in ops})
    return RaisedCopy(copy, originals)


def _raise(module: ModuleOp, context: Context, ops: AbstractSet[Operation]) -> None:
    """Raise the arithmetic among some ops, without the ranges in between."""
    if not ops:
        return
    for op in [each for each in ops if is_statistics(each)]:
        if any(use.operation in ops for use in op.results[0].uses):
            op.results[0].replace_all_uses_with(op.operands[0])
            Rewriter.erase_op(op)
            ops = ops - {op}
    raise_dequantization(module, context, FoldPolicy(), ops)


def _arithmetic_behind(module: ModuleOp) -> Mapping[Operation, AbstractSet[Operation]]:
    """The layers with an operand that arithmetic computes from constants, and all such ops."""
    found = dict[Operation, AbstractSet[Operation]]()
    for op in module.walk():
        if not is_layer(name_of(op)):
            continue
        try:
            layer = layer_of(op)
        except Refusal:
            continue
        if isinstance(layer, Contraction):
            for number in layer.operands:
                ops = _constant_ops(op.operands[number])
                if any(is_arithmetic(each) for each in ops):
                    found[op] = ops
    return found


def _constant_ops(value: SSAValue) -> AbstractSet[Operation]:
    """The ops that compute a value from constants; none if it is computed from other values."""
    pending, found = [value], set[Operation]()
    while pending:
        op = pending.pop().owner
        if not isinstance(op, Operation):
            return set()
        if op not in found:
            found.add(op)
            pending += op.operands
    return found
