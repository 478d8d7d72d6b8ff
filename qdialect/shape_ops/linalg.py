"""
The ops of the linalg dialect that only move elements.

https://mlir.llvm.org/docs/Dialects/Linalg/.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    i1,
    i64,
)
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.dialects.tensor import EmptyOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from qdialect.algebra.movement import BroadcastInDim, Transpose
from qdialect.ops.attributes import (
    attribute_of,
    integer_of,
    integers_of,
    shape_of,
    static_shape_of,
)
from qdialect.ops.computed_integers import Integers, integer_function, integers_of_op
from qdialect.ops.elementwise import (
    broadcast_writer,
    elementwise_op,
    recreated,
    shape_of_type,
)
from qdialect.ops.interface import (
    Refusal,
    RefusalCode,
    find_attribute,
    name_of,
    set_attribute,
    shape_op,
)
from qdialect.ops.models import Movements, Operands
from qdialect.ops.terms import Elementwise, Input, Scalar, SmallOperand, Term, movements_along
from qdialect.shape_ops.arith import term_of
from qdialect.support.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# These write to their last operand.


@shape_op("linalg.transpose", run_time_shape=lambda operands: operands.shape(-1))
def _transpose(op: Operation, operands: Operands) -> Movements:
    _require_moved(op)
    return Movements(op.operands[:1], [Transpose(integers_of(op, "permutation"))])


@shape_op("linalg.broadcast", run_time_shape=lambda operands: operands.shape(-1))
def _broadcast(op: Operation, operands: Operands) -> Movements:
    _require_moved(op)
    new, shape = integers_of(op, "dimensions"), shape_of(op.results[0])
    dims = tuple(axis for axis in range(len(shape)) if axis not in new)
    return Movements(op.operands[:1], [BroadcastInDim(dims, shape)])


@shape_op("linalg.generic", run_time_shape=lambda operands: operands.shape(-1))
def _generic(op: Operation, operands: Operands) -> Movements:
    """A `linalg.generic` that yields its input, with axes permuted or broadcast."""
    _require_moved(op)
    maps = attribute_of(op, "indexing_maps")
    if not isinstance(maps, ArrayAttr):
        raise Refusal(RefusalCode.UNKNOWN_OP, "it has no indexing maps")
    inputs, results = map(_axes_of, cast(ArrayAttr[Attribute], maps).data)
    shape = shape_of(op.results[0])
    if None in results or len(set(results)) != len(shape):
        raise Refusal(RefusalCode.UNKNOWN_OP, "its result is not written in a permutation of axes")
    axes = [None if loop is None else results.index(loop) for loop in inputs]
    return Movements(op.operands[:1], movements_along(axes, shape_of(op.operands[0]), shape))


def _require_moved(op: Operation) -> None:
    """Raise Refusal unless the result holds the elements of the first operand."""
    _require_result(op)
    block = op.regions[0].block
    yielded = list(block.last_op.operands) if block.last_op is not None else []
    if len(op.operands) != 2 or block.first_op is not block.last_op or yielded != [block.args[0]]:
        raise Refusal(RefusalCode.UNKNOWN_OP, "its body does more than yield its input")


def _require_result(op: Operation) -> None:
    if len(op.results) != 1:
        raise Refusal(RefusalCode.UNKNOWN_OP, "its result is not a tensor")


def _axes_of(map: Attribute) -> list[int | None]:
    """The loop that indexes each axis; None for an axis that is read at zero only."""
    axes: list[int | None] = []
    for expression in map.data.results if isinstance(map, AffineMapAttr) else ():
        if isinstance(expression, AffineDimExpr):
            axes.append(expression.position)
        elif isinstance(expression, AffineConstantExpr) and expression.value == 0:
            axes.append(None)
        else:
            raise Refusal(RefusalCode.UNKNOWN_OP, "its indexing maps do more than name axes")
    return axes


@broadcast_writer("linalg.broadcast")
def _broadcast_again(op: Operation, operand: SmallOperand, type: Attribute) -> list[Operation]:
    empty = EmptyOp([], type)
    new = recreated(op, [operand.value, empty.tensor], type)
    added = [axis for axis in range(len(shape_of_type(type))) if axis not in operand.axes]
    set_attribute(new, "dimensions", DenseArrayBase.from_list(i64, added))
    new.add_region(op.regions[0].clone())
    return [empty, new]


def _write_generic(
    op: Operation, operands: Sequence[SmallOperand], type: Attribute
) -> list[Operation]:
    """Write the same body, with maps that read each operand along its axes of the result."""
    empty = EmptyOp([], type)
    new = recreated(op, [*(operand.value for operand in operands), empty.tensor], type)
    rank = len(shape_of_type(type))
    loops = [AffineExpr.dimension(axis) for axis in range(rank)]
    maps = [AffineMap(rank, 0, tuple(loops[axis] for axis in o.axes)) for o in operands]
    maps.append(AffineMap.identity(rank))
    set_attribute(new, "indexing_maps", ArrayAttr([AffineMapAttr(map) for map in maps]))
    set_attribute(new, "iterator_types", ArrayAttr([IteratorTypeAttr.parallel()] * rank))
    new.add_region(op.regions[0].clone())
    return [empty, new]


@elementwise_op("linalg.generic", write=_write_generic)
def _compute(op: Operation, operands: Operands) -> Elementwise:
    """A `linalg.generic` with parallel loops, whose body is arithmetic on its inputs."""
    axes = _loops(op).inputs
    return Elementwise(tuple(op.operands[: len(axes)]), axes, _term_of_body(op))


class _Loops(NamedTuple):
    """How a `linalg.generic` with parallel loops reads its inputs."""

    inputs: tuple[tuple[int | None, ...], ...]
    """For each axis of each input, the axis of the result; None for an axis of length one."""

    results: tuple[int, ...]
    """The loop of each axis of the result."""


def _loops(op: Operation) -> _Loops:
    _require_result(op)
    kinds = cast("ArrayAttr[Attribute]", attribute_of(op, "iterator_types")).data
    if any(kind != kinds[0] or "parallel" not in str(kind) for kind in kinds):
        raise Refusal(RefusalCode.ARITHMETIC, "its loops are not parallel")
    maps = cast("ArrayAttr[Attribute]", attribute_of(op, "indexing_maps")).data
    *inputs, results = map(_axes_of, maps)
    loops = [loop for loop in results if loop is not None]
    if len(loops) < len(results) or sorted(loops) != list(range(len(kinds))):
        raise Refusal(RefusalCode.ARITHMETIC, "its result is not written in a permutation of axes")
    for named, operand in zip(inputs, op.operands, strict=False):
        lengths = zip(named, shape_of(operand), strict=True)
        if any(loop is None and length != 1 for loop, length in lengths):
            raise Refusal(RefusalCode.ARITHMETIC, "its indexing maps do more than name axes")
    axes = tuple(
        tuple(None if loop is None else loops.index(loop) for loop in named) for named in inputs
    )
    return _Loops(axes, tuple(loops))


def _term_of_body(op: Operation) -> Term:
    block = op.regions[0].block
    terms: dict[SSAValue, Term] = {
        arg: Input(number, arg.type) for number, arg in enumerate(block.args[:-1])
    }
    for inner in block.ops:
        if inner is block.last_op:
            break
        terms[inner.results[0]] = term_of(inner, [_term(value, terms) for value in inner.operands])
    if block.last_op is None or len(block.last_op.operands) != 1:
        raise Refusal(RefusalCode.ARITHMETIC, "it yields more than one element")
    return _term(block.last_op.operands[0], terms)


def _term(value: SSAValue, terms: Mapping[SSAValue, Term]) -> Term:
    if (known := terms.get(value)) is not None:
        return known
    owner = value.owner
    constant = find_attribute(owner, "value") if isinstance(owner, Operation) else None
    if isinstance(constant, IntegerAttr | FloatAttr) and isinstance(owner, ConstantOp):
        return Scalar(cast("FloatAttr[Any]", constant))
    raise Refusal(RefusalCode.ARITHMETIC, "its body reads values that are not constants")


@integer_function("linalg.generic")
def _compute_integers(op: Operation, of: Sequence[Integers]) -> NDArray[Any]:
    """A `linalg.generic` with parallel loops, whose body computes integers."""
    read = _loops(op)
    shape, block = static_shape_of(op.results[0]), op.regions[0].block
    known: dict[SSAValue, Integers] = {
        arg: _along(axes, numbers, len(shape))
        for arg, axes, numbers in zip(block.args, read.inputs, of, strict=False)
    }
    for inner in block.ops:
        if inner is block.last_op:
            break
        (result,) = inner.results
        if name_of(inner) == "linalg.index":
            axis = read.results.index(integer_of(inner, "dim"))
            known[result] = _along((axis,), np.arange(shape[axis]), len(shape))
        elif isinstance(held := find_attribute(inner, "value"), IntegerAttr):
            number = cast("IntegerAttr[Any]", held).value.data
            known[result] = np.asarray(number & 1 if result.type == i1 else number)
        else:
            known[result] = integers_of_op(inner, [known[value] for value in inner.operands])
    (yielded,) = cast(Operation, block.last_op).operands
    if yielded not in known:
        raise Refusal(RefusalCode.UNKNOWN_OP, "it yields what it writes to")
    return np.broadcast_to(known[yielded], shape)


def _along(axes: Sequence[int | None], numbers: Integers, rank: int) -> Integers:
    """`numbers` as an array of `rank`, whose axes are given; None for one of length one."""
    kept = [axis for axis in axes if axis is not None]
    lengths = [n for n, axis in zip(numbers.shape, axes, strict=True) if axis is not None]
    shape = [1] * rank
    for axis, length in zip(kept, lengths, strict=True):
        shape[axis] = length
    return numbers.reshape(lengths).transpose(np.argsort(kept)).reshape(shape)
