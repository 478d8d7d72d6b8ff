"""Functions with which the tables of models read ops: movements, positions, windows, and rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from xdsl.dialects.builtin import AnyFloat, i1
from xdsl.ir import Block, Operation, SSAValue

from qdialect.algebra.movement import (
    DYNAMIC,
    BroadcastInDim,
    Movement,
    Reshape,
    Shape,
    Slice,
    Take,
)
from qdialect.algebra.padding import Pad, PadWith, ZeroPoint
from qdialect.ir.value_types import element_type_or_self
from qdialect.ir.value_types import shape_of as tensor_shape
from qdialect.ops.fields import (
    WINDOW,
    Contraction,
    Movements,
    Operands,
    PoolWindow,
    Positions,
    QuantizationRule,
    Reduction,
    RuleKind,
    RunTimeShape,
    ShapeOpModel,
)
from qdialect.ops.interface import (
    Refusal,
    RefusalCode,
    find_attribute,
    integers_of,
    is_of_floats,
    name_of,
    shape_of,
    static_shape_of,
)
from qdialect.ops.model import OnElements, OnNumbers, model_named
from qdialect.support.lazy_numpy import NDArray

if TYPE_CHECKING:
    import numpy as np

ElementT = TypeVar("ElementT")

# Movements


def moves(read: Callable[[Any], Movement]) -> ShapeOpModel:
    """All operands are moved by one movement, which attributes of the op say."""
    return lambda op, operands: Movements(op.operands, [read(op)])


def moved(op: Operation, *movements: Movement, padding: SSAValue | None = None) -> Movements:
    """Movements of the first operand; other operands parametrize them."""
    return Movements(op.operands[:1], movements, padding)


def reshaped(op: Operation, operands: Operands) -> Movements:
    """The first operand gets the shape of the result; another operand with that is redundant."""
    return moved(op, Reshape(shape_of(op.results[0])))


def broadcast_trailing(op: Operation, operands: Operands) -> Movements:
    """The first operand is broadcast to the shape of the result as in numpy."""
    source, result = shape_of(op.operands[0]), shape_of(op.results[0])
    return moved(op, BroadcastInDim.trailing(source, result))


def listed(operands: Operands, value: SSAValue) -> tuple[int, ...]:
    """The integers of a constant operand. Raises Refusal."""
    return tuple(map(int, operands.integers(value).reshape(-1).tolist()))


def shape_in(number: int) -> RunTimeShape:
    """The shape that an operand contains, for an op that is being run."""
    return lambda operands: [
        DYNAMIC if length < 0 else length
        for length in operands.integers(number).reshape(-1).tolist()
    ]


def padded(
    shape: Shape,
    low: Sequence[int],
    high: Sequence[int],
    interior: Sequence[int] | None = None,
    *,
    with_zero: bool = False,
) -> list[Movement]:
    """
    Padding of a tensor of `shape`; a negative width removes positions at that end.

    The padding value is `Movements.padding`, or real zero without gaps in between (`with_zero`).
    """
    if not len(low) == len(high) == len(shape):
        raise Refusal(RefusalCode.UNKNOWN_OP, "there is not one width for each axis")
    interior = interior or (0,) * len(shape)
    added = tuple(max(width, 0) for width in low), tuple(max(width, 0) for width in high)
    pad = Pad(*added) if with_zero else PadWith(*added, tuple(interior), ZeroPoint())
    if all(width >= 0 for width in (*low, *high)):
        return [pad]
    grown = pad.result_shape(shape)
    if DYNAMIC in grown:
        raise Refusal(RefusalCode.DYNAMIC_SHAPE, "a length is only known at run time")
    offsets = tuple(max(-width, 0) for width in low)
    sizes = tuple(
        length - offset - max(-width, 0)
        for length, offset, width in zip(grown, offsets, high, strict=True)
    )
    return [pad, Slice(offsets, sizes, (1,) * len(shape))]


def taken(
    op: Operation, axis: int, indices: NDArray[np.integer[Any]], *, from_end: bool
) -> list[Movement]:
    """
    The positions `indices` of an axis of the first operand of `op`, in the shape of its result.

    With `from_end`, negative indices count from the end.
    """
    length = static_shape_of(op.operands[0])[axis]
    if ((indices < (-length if from_end else 0)) | (indices >= length)).any():
        raise Refusal(
            RefusalCode.UNKNOWN_OP, f"an index is out of range for an axis of length {length}"
        )
    positions = tuple(int(at) % length for at in indices.reshape(-1).tolist())
    return [Take(axis, positions), Reshape(shape_of(op.results[0]))]


def tiled(shape: Shape, multiples: Sequence[int]) -> list[Movement]:
    """A tensor of static `shape`, repeated along each axis."""
    if len(multiples) != len(shape):
        raise Refusal(RefusalCode.UNKNOWN_OP, "there is not one number for each axis")
    if all(count == 1 for count in multiples):
        return []
    result = tuple(count * length for count, length in zip(multiples, shape, strict=True))
    if all(1 in pair for pair in zip(multiples, shape, strict=True)):
        return [BroadcastInDim(tuple(range(len(shape))), result)]
    # Each axis gets a new axis before it, and the new axis is broadcast.
    pairs = tuple(length for axis in shape for length in (1, axis))
    grown = tuple(length for pair in zip(multiples, shape, strict=True) for length in pair)
    dims = tuple(range(len(pairs)))
    return [Reshape(pairs), BroadcastInDim(dims, grown), Reshape(result)]


# Functions of elements


def named_function(op: Operation) -> str | None:
    """The path of the function of elements that computes `op`; None if it has none."""
    match model_named(name_of(op)).run:
        case OnNumbers(function):
            return function
        case OnElements(arity=count) as run if len(op.operands) >= count:
            type = element_type_or_self(op.operands[count - 1].type)
            if isinstance(type, AnyFloat):
                return run.floats or None
            return (run.truths if type == i1 else run.integers) or None
        case _:
            return None


def yielded(
    block: Block,
    arguments: Iterable[ElementT],
    compute: Callable[[Operation, Sequence[ElementT]], ElementT],
    read: Callable[[SSAValue], ElementT],
) -> Sequence[ElementT]:
    """
    What a body yields, in terms of what stands for its first arguments.

    `compute` tells what stands for the result of an op, and `read` for a value from outside.
    """
    known = dict[SSAValue, ElementT](zip(block.args, arguments, strict=False))
    for op in block.ops:
        operands = [known[value] if value in known else read(value) for value in op.operands]
        if op is block.last_op:
            return operands
        known |= dict.fromkeys(op.results, compute(op, operands))
    return ()


def combining_op(block: Block) -> Operation | None:
    """The single op of a body, which combines two elements; None for other bodies."""
    ops = [*block.ops]
    if len(ops) != 2 or len(block.args) != 2 or len(ops[0].results) != 1:
        return None
    is_plain = {*ops[0].operands} == {*block.args} and [*ops[1].operands] == [*ops[0].results]
    return ops[0] if is_plain else None


def last_step(block: Block, number: int) -> Operation | None:
    """
    The op that adds to what a reduction has so far, and whose result the body yields.

    None if the yielded value of that number has no such op. What there is so far are the last
    arguments of the body, which other ops may read too.
    """
    end = block.last_op
    if end is None or len(end.operands) > len(block.args):
        return None
    step, so_far = end.operands[number].owner, block.args[number - len(end.operands)]
    if not isinstance(step, Operation) or step.parent is not block:
        return None
    return step if [*step.operands].count(so_far) == 1 else None


def reduction_by_region(op: Operation) -> Reduction:
    """A reduction of one operand along `dimensions` by the function in a region. Raises Refusal."""
    step = combining_op(op.regions[0].block)
    if step is None or (function := named_function(step)) is None:
        raise Refusal(RefusalCode.UNKNOWN_OP, "its body is not one function of two elements")
    shape = static_shape_of(op.operands[0])
    axes = () if find_attribute(op, "dimensions") is None else integers_of(op, "dimensions")
    return Reduction(function, {axis: PoolWindow(shape[axis]) for axis in axes}, 1)


# Positions, and the numbers that each must be below


def positions_along(axis: int) -> Callable[[Operation], Positions]:
    """The second operand has positions on an axis of the first one."""

    def read(op: Operation) -> Positions:
        yield op.operands[1], dict(enumerate(_lengths(op))).get(axis, 1)

    return read


def positions_on_any_axis(op: Operation) -> Positions:
    """Operands after the first one have positions on an axis of it."""
    yield from ((value, min(_lengths(op), default=1)) for value in op.operands[1:])


def positions_of_slices(op: Operation) -> Positions:
    """The second operand has the starts of slices; a start on an axis that is taken whole is 0."""
    try:
        sizes = integers_of(op, "slice_sizes")
    except Refusal:
        sizes = ()
    shape = _lengths(op)
    starts = [
        length - size + 1 for length, size in zip(shape, sizes, strict=False) if size < length
    ]
    yield op.operands[1], min(starts, default=1)


def positions_of_elements(first: int) -> Callable[[Operation], Positions]:
    """The operands from `first` on are a position on each axis of the one before them."""

    def read(op: Operation) -> Positions:
        lengths = tensor_shape(op.operands[first - 1].type) or ()
        for value, length in zip(op.operands[first:], lengths, strict=False):
            yield value, 1 if length == DYNAMIC else length

    return read


def _lengths(op: Operation) -> Shape:
    """The lengths of the axes in which an op reads; 1 for an unknown one."""
    lengths = tensor_shape(op.operands[0].type) or ()
    return tuple(1 if length == DYNAMIC else length for length in lengths)


# Windows of sums of products


def sliding_axes(contraction: Contraction) -> list[tuple[int, int, int]]:
    """
    The axes of each window, which operands and result must have in the same order.

    Raises Refusal if their numbers differ.
    """
    others = "".join((*contraction.lhs, *contraction.result))
    axes = (
        [axis for axis, label in enumerate(contraction.lhs) if label == WINDOW],
        [axis for axis, label in enumerate(contraction.rhs) if label not in others],
        [axis for axis, label in enumerate(contraction.result) if label == WINDOW],
    )
    if len({len(numbers) for numbers in axes}) != 1:
        reason = "its windows and its result differ in their number of axes"
        raise Refusal(RefusalCode.UNKNOWN_OP, reason)
    return list(zip(*axes, strict=True))


def per_window(op: Operation, name: str, count: int, default: int | None = None) -> Sequence[int]:
    """
    The integers in an attribute, one per window, or `default` each where it is missing.

    Raises Refusal.
    """
    if default is not None and find_attribute(op, name) is None:
        return (default,) * count
    values = integers_of(op, name)
    if len(values) != count:
        raise Refusal(RefusalCode.UNKNOWN_OP, f"'{name}' has {len(values)} integers, not {count}")
    return values


def positive(op: Operation, name: str, count: int, default: int | None = None) -> Sequence[int]:
    """Like `per_window`, for positive integers such as strides. Raises Refusal."""
    values = per_window(op, name, count, default)
    if any(value < 1 for value in values):
        raise Refusal(RefusalCode.UNKNOWN_OP, f"'{name}' is not positive")
    return values


# Rules


def conversion_rule(op: Operation) -> QuantizationRule:
    """
    The rule of a cast between types that are not quantized.

    Between float types, the result has the elements of the operand, rounded.
    """
    keeps = all(map(is_of_floats, (*op.operands, *op.results)))
    kind = RuleKind.SHARED if keeps else RuleKind.OWN
    return QuantizationRule(kind, (0,), is_homogeneous=keeps, keeps_places=True)
