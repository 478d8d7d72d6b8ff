"""
Adjacent constants among the operands of a concatenation that has other operands too.

`concat(x, C, D)` is `concat(x, concat(C, D))`. While a fold is planned, the module has the inner
op, a part, which is folded like any other op. A part that is not folded is removed again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, cast

from xdsl.dialects.builtin import UnregisteredOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.joins import Concat
from qdialect.dialects.quant.shape_ops import ShapeOp
from qdialect.dialects.quant.slots import Granularity
from qdialect.folding.moved_constant import MovedConstant, check_joinable, move
from qdialect.folding.policy import coarser, spell
from qdialect.ir.value_types import has_encoding, tensor_like
from qdialect.ops.elementwise import recreated
from qdialect.ops.interface import Refusal, RefusalCode, is_list
from qdialect.ops.models import Movements


class Part(NamedTuple):
    """The operands that a part replaces, of an op or of its list, by their original indices."""

    of: Operation
    start: int
    stop: int


def split(
    op: Operation, movements: Movements, known: Callable[[SSAValue], MovedConstant]
) -> Iterator[tuple[Operation, Part]]:
    """
    Make parts of the adjacent constants of a concatenation, and leave other ops alone.

    `known` raises Refusal for an operand that is not a constant.
    """
    holder, all_movements = holder_of(op), movements.movements
    operands = tuple(holder.operands)
    is_concat = len(all_movements) == 1 and isinstance(all_movements[0], Concat)
    if not is_concat or tuple(movements.operands) != operands or op.results[0].first_use is None:
        return
    if holder is not op and not holder.results[0].has_one_use():
        return
    for start, constants in _runs(operands, known):
        stop = start + len(constants)
        if not 1 < len(constants) < len(operands):
            continue
        inner = operands[start:stop]
        try:
            type = _joined_type(op, cast(Concat, all_movements[0]), inner, constants)
        except Refusal:
            continue
        if holder is op:
            made = [recreated(op, inner, type)]
        else:
            items = recreated(holder, inner, holder.results[0].type)
            made = [items, recreated(op, [items.results[0], *op.operands[1:]], type)]
        part = made[-1]
        cast(Block, holder.parent).insert_ops_before(made, holder)
        # Parts before this one have reduced the number of operands.
        fewer = len(operands) - len(holder.operands)
        rest = holder.operands[stop - fewer :]
        holder.operands = [*holder.operands[: start - fewer], part.results[0], *rest]
        if _verifies(part) and _verifies(op):
            yield part, Part(op, start, stop)
        else:
            dissolve(part, op)


def dissolve(part: Operation, of: Operation) -> None:
    """Give the operands of a part back to the op whose part it is, and erase it."""
    result, items, holder = part.results[0], holder_of(part), holder_of(of)
    holder.operands = [
        each
        for operand in holder.operands
        for each in (items.operands if operand is result else (operand,))
    ]
    Rewriter.erase_op(part)
    if items is not part:
        Rewriter.erase_op(items)


def holder_of(op: Operation) -> Operation:
    """The op with the operands of a concatenation: itself, or the list that it takes."""
    owner = op.operands[0].owner if op.operands else op
    return owner if isinstance(owner, Operation) and is_list(owner) else op


def _runs(
    operands: Iterable[SSAValue], known: Callable[[SSAValue], MovedConstant]
) -> Iterator[tuple[int, Sequence[MovedConstant]]]:
    """
    Runs of constants that can be joined: the index of the first in `operands`, and the constants.
    """
    start, run = 0, list[MovedConstant]()
    for number, operand in enumerate(operands):
        try:
            constant = known(operand)
        except Refusal:
            yield start, run
            run = []
            continue
        try:
            if run:
                check_joinable(run[0], constant)
                _check_not_smaller_apart(run[-1], constant)
        except Refusal:
            yield start, run
            run = []
        start = start if run else number
        run.append(constant)
    yield start, run


def _check_not_smaller_apart(one: MovedConstant, other: MovedConstant) -> None:
    """Raise Refusal if a splat would be spelled element by element."""
    splats = [each.splat for each in (one, other) if each.splat is not None]
    is_large = any([math.prod(splat.shape) > 1 for splat in splats])
    if is_large and (len(splats) < 2 or splats[0].value != splats[1].value):
        raise Refusal(RefusalCode.GROWTH, "separate splats take less memory")


def _joined_type(
    op: Operation,
    movement: Concat,
    operands: Sequence[SSAValue],
    constants: Sequence[MovedConstant],
) -> Attribute:
    """The type of joined constants, as an operand of `op`. Raises Refusal."""
    if any(has_encoding(operand.type) for operand in operands):
        raise Refusal(RefusalCode.ILLEGAL_TYPE, "their new encoding is unknown")
    _, moved = move(movement, constants)
    layer, element = moved.layers[-1], moved.layers[-1].element_type
    if layer.parameters is not None:
        finest = Granularity.SUB_CHANNEL
        if not isinstance(op, ShapeOp):
            # The operand types that an op of another dialect accepts are unknown, except its
            # current ones.
            for constant in constants:
                finest = coarser(finest, constant.layers[-1].quantized.granularity)
        element = spell(layer.quantized, layer.parameters, finest)
    return tensor_like(operands[0].type, moved.shape, element)


def _verifies(op: Operation) -> bool:
    try:
        if not isinstance(op, UnregisteredOp):
            op.verify_()
    except VerifyException:
        return False
    return True
