"""
What is known of the ops of linalg.

Named ops have fixed axes; indexing maps take precedence where an op has them. The initial value of
the result is added. https://mlir.llvm.org/docs/Dialects/Linalg/.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from string import ascii_letters
from typing import Any, Final, cast

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
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.dialects.tensor import EmptyOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineMap,
)

from qdialect.algebra.movement import BroadcastInDim, Reverse, Shape, Transpose
from qdialect.dialects import run_in, scalar
from qdialect.dialects.arith.models import term_of
from qdialect.dialects.arrays import layer_model
from qdialect.ops.elementwise import indexing_maps, movements_along, recreated, shape_of_type
from qdialect.ops.fields import (
    Contraction,
    Elementwise,
    ElementwiseModel,
    Input,
    Integers,
    Loops,
    Movements,
    Operands,
    PoolWindow,
    QuantizationRule,
    Reduction,
    RuleKind,
    RunTimeOperands,
    Scalar,
    SmallOperand,
    Term,
    Window,
    fixed,
    own,
    shared,
    whole_number,
)
from qdialect.ops.interface import (
    Refusal,
    RefusalCode,
    attribute_of,
    find_attribute,
    function_of,
    integer_of,
    integers_of,
    is_of_floats,
    name_of,
    number_of,
    rule_of,
    set_attribute,
    shape_of,
    static_shape_of,
)
from qdialect.ops.model import Bits, Effects, OnElements, OpModel, OpModels
from qdialect.ops.readers import moved, positive, reduction_by_region, sliding_axes, yielded
from qdialect.ops.reading import integers_of_op
from qdialect.ops.unused_ops import erase_unused
from qdialect.support.lazy_numpy import NDArray, np

# Ops that move elements, or compute them in a body


def _transpose(op: Operation, operands: Operands) -> Movements:
    _require_moved(op)
    return moved(op, Transpose(integers_of(op, "permutation")))


def _broadcast(op: Operation, operands: Operands) -> Movements:
    _require_moved(op)
    new, shape = integers_of(op, "dimensions"), shape_of(op.results[0])
    dims = tuple(axis for axis in range(len(shape)) if axis not in new)
    return moved(op, BroadcastInDim(dims, shape))


def _generic_movement(op: Operation, operands: Operands) -> Movements:
    """A `linalg.generic` that yields its input, with axes permuted, broadcast or reversed."""
    _require_moved(op)
    maps, before = attribute_of(op, "indexing_maps"), shape_of(op.operands[0])
    if not isinstance(maps, ArrayAttr):
        raise Refusal(RefusalCode.UNKNOWN_OP, "it has no indexing maps")
    source, target = cast(ArrayAttr[Attribute], maps).data
    source, turned = _forwards(source, before)
    if not turned:
        (axes,) = _axes_of_inputs(op)
        return moved(op, *movements_along(axes, before, shape_of(op.results[0])))
    inputs, results = _axes_of(source), _axes_of(target)
    shape = shape_of(op.results[0])
    if None in results or len(set(results)) != len(shape):
        raise Refusal(RefusalCode.UNKNOWN_OP, "its result is not written in a permutation of axes")
    axes = [None if loop is None else results.index(loop) for loop in inputs]
    return moved(op, Reverse(tuple(turned)), *movements_along(axes, before, shape))


def _forwards(map: Attribute, shape: Shape) -> tuple[Attribute, Sequence[int]]:
    """A map that reads no axis from its last position to the first, and the axes that were so."""
    if not isinstance(map, AffineMapAttr):
        return map, ()
    expressions, turned = list(map.data.results), list[int]()
    for axis, (expression, length) in enumerate(zip(expressions, shape, strict=True)):
        match expression:
            case AffineBinaryOpExpr(
                AffineBinaryOpKind.Add,
                AffineBinaryOpExpr(
                    AffineBinaryOpKind.Mul, AffineDimExpr() as loop, AffineConstantExpr(-1)
                ),
                AffineConstantExpr(last),
            ) if last == length - 1:
                expressions[axis] = loop
                turned.append(axis)
            case _:
                pass
    forwards = AffineMap(map.data.num_dims, map.data.num_symbols, tuple(expressions))
    return AffineMapAttr(forwards), turned


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


def _broadcast_again(op: Operation, operand: SmallOperand, type: Attribute) -> list[Operation]:
    empty = EmptyOp([], type)
    new = recreated(op, [operand.value, empty.tensor], type)
    added = [axis for axis in range(len(shape_of_type(type))) if axis not in operand.axes]
    set_attribute(new, "dimensions", DenseArrayBase.from_list(i64, added))
    new.add_region(op.regions[0].clone())
    return [empty, new]


# Terms


def _write_generic(
    op: Operation, operands: Sequence[SmallOperand], type: Attribute
) -> list[Operation]:
    """Write the same body, with maps that read each operand along its axes of the result."""
    empty = EmptyOp([], type)
    new = recreated(op, [*(operand.value for operand in operands), empty.tensor], type)
    rank = len(shape_of_type(type))
    axes = [operand.axes for operand in operands]
    set_attribute(new, "indexing_maps", indexing_maps(rank, axes))
    set_attribute(new, "iterator_types", ArrayAttr([IteratorTypeAttr.parallel()] * rank))
    new.add_region(op.regions[0].clone())
    return [empty, new]


def _term(op: Operation, operands: Operands) -> Elementwise:
    """A `linalg.generic` with parallel loops, whose body is arithmetic on its inputs."""
    axes = _axes_of_inputs(op)
    return Elementwise(tuple(op.operands[: len(axes)]), axes, _term_of_body(op))


def _read_loops(op: Operation) -> Loops:
    """How a `linalg.generic` reads and writes its operands."""
    maps = cast("ArrayAttr[Attribute]", attribute_of(op, "indexing_maps")).data
    operands = [_axes_of(map) for map in maps]
    for named, operand in zip(operands, op.operands, strict=True):
        lengths = zip(named, shape_of(operand), strict=True)
        if any(loop is None and length != 1 for loop, length in lengths):
            raise Refusal(RefusalCode.UNKNOWN_OP, "its indexing maps do more than name axes")
    positions: dict[SSAValue, int] = {
        inner.results[0]: integer_of(inner, "dim")
        for inner in op.regions[0].block.ops
        if name_of(inner) == _INDEX
    }
    return Loops(operands, _reduced_loops(op), positions)


def _axes_of_inputs(op: Operation) -> tuple[tuple[int | None, ...], ...]:
    """
    For each axis of each input of a `linalg.generic`, that of the result that it is read along.

    None is an axis of length 1. Raises Refusal if loops reduce, or do not all write elements.
    """
    _require_result(op)
    if _reduced_loops(op):
        raise Refusal(RefusalCode.ARITHMETIC, "its loops are not parallel")
    *inputs, result = _read_loops(op).operands
    count = len(cast("ArrayAttr[Attribute]", attribute_of(op, "iterator_types")).data)
    if len(result) != count or {*result} != {*range(count)}:
        raise Refusal(RefusalCode.ARITHMETIC, "its result is not written in a permutation of axes")
    return tuple(
        tuple(None if loop is None else result.index(loop) for loop in named) for named in inputs
    )


def _term_of_body(op: Operation) -> Term:
    block = op.regions[0].block
    inputs = [Input(number, arg.type) for number, arg in enumerate(block.args[:-1])]
    terms = yielded(block, inputs, term_of, _scalar)
    if len(terms) != 1:
        raise Refusal(RefusalCode.ARITHMETIC, "it yields more than one element")
    return terms[0]


def _scalar(value: SSAValue) -> Term:
    owner = value.owner
    constant = find_attribute(owner, "value") if isinstance(owner, ConstantOp) else None
    if isinstance(constant, IntegerAttr | FloatAttr):
        return Scalar(cast("FloatAttr[Any]", constant))
    raise Refusal(RefusalCode.ARITHMETIC, "its body reads values that are not constants")


def _integers(op: Operation, values: Sequence[Integers]) -> NDArray[Any]:
    """A `linalg.generic` with parallel loops, whose body computes integers."""
    shape, loops = static_shape_of(op.results[0]), _read_loops(op)
    inputs = [
        _along(axes, numbers, len(shape))
        for axes, numbers in zip(_axes_of_inputs(op), values, strict=False)
    ]

    def compute(inner: Operation, operands: Sequence[Integers]) -> Integers:
        (result,) = inner.results
        if result in loops.positions:
            axis = loops.operands[-1].index(loops.positions[result])
            return _along((axis,), np.arange(shape[axis]), len(shape))
        if isinstance(constant := find_attribute(inner, "value"), IntegerAttr):
            number = cast("IntegerAttr[Any]", constant).value.data
            return np.asarray(number & 1 if result.type == i1 else number)
        return integers_of_op(inner, operands)

    def refuse(value: SSAValue) -> Integers:
        raise Refusal(RefusalCode.UNKNOWN_OP, "its body reads more than its inputs")

    (numbers,) = yielded(op.regions[0].block, inputs, compute, refuse)
    return np.broadcast_to(numbers, shape)


def _along(axes: Sequence[int | None], numbers: Integers, rank: int) -> Integers:
    """`numbers` as an array of `rank`, whose axes are given; None for one of length one."""
    kept = [axis for axis in axes if axis is not None]
    lengths = [n for n, axis in zip(numbers.shape, axes, strict=True) if axis is not None]
    shape = [1] * rank
    for axis, length in zip(kept, lengths, strict=True):
        shape[axis] = length
    return numbers.reshape(lengths).transpose(np.argsort(kept)).reshape(shape)


# Rules of ops with a body: the inputs are quantized, and the initial value of the result is not

_LOGISTIC: Final = ["arith.negf", "math.exp", "arith.addf", "arith.divf"]
"""How torch-mlir writes `1 / (1 + exp(-x))`."""

_YIELD: Final = "linalg.yield"
_INDEX: Final = "linalg.index"
_CONVERSIONS: Final = ("arith.extf", "arith.truncf")
_CONSTANT: Final = "arith.constant"

_HOMOGENEOUS: Final = frozenset({"add", "max", "min"})
"""The functions of two elements that keep a common positive factor."""

_FUNCTIONS: Final = {"max_signed": "max", "min_signed": "min", "negf": "neg", "powf": "pow"}
"""The functions of kinds of `linalg.elementwise` with another name."""


def _elementwise(op: Operation) -> QuantizationRule | None:
    """The rule of the function in the attribute `kind`."""
    kind = str(attribute_of(op, "kind")).rpartition("<")[2].rstrip(">")
    function = _FUNCTIONS.get(kind, kind)
    inputs = tuple(range(len(op.operands) - len(op.results)))
    match function:
        case "select":
            return QuantizationRule(RuleKind.SHARED, (1, 2), frozenset({function}))
        case "tanh":
            return QuantizationRule(RuleKind.FIXED, inputs, frozenset({function}), fixed="tanh")
        case "ceil" | "floor" | "round":
            return QuantizationRule(RuleKind.WHOLE_NUMBER, inputs, frozenset({function}))
        case _:
            return QuantizationRule(RuleKind.OWN, inputs, frozenset({function}))


def _with_body(op: Operation) -> QuantizationRule | None:
    """An op that computes each element of its result by ops of arith and math."""
    body = op.regions[0].block
    ops = [inner for inner in body.ops if _computes(inner) and name_of(inner) != _CONSTANT]
    if len(ops) > 1:
        # Conversions before and after the function are part of it.
        ops = [inner for inner in ops if name_of(inner) not in _CONVERSIONS] or ops
    names = [name_of(inner) for inner in ops]
    if any(not _is_function(inner) for inner in ops):
        return None
    inputs = _inputs(op, body)
    if inputs is None:
        return None
    functions = frozenset[str]().union(*map(_functions_of, ops))
    if (extreme := _extreme(ops)) is not None:
        functions = frozenset({extreme})
    if name_of(op) == "linalg.reduce":
        is_homogeneous = (
            len(ops) == len(inputs) == 1
            and functions <= _HOMOGENEOUS
            and all(isinstance(operand, BlockArgument) for operand in ops[0].operands)
        )
        return QuantizationRule(
            RuleKind.OWN,
            inputs,
            functions | {"reduce"},
            is_homogeneous=is_homogeneous,
            mixed_axes=integers_of(op, "dimensions"),
            starts=(len(op.operands) - 1,),
        )
    if loops := _reduced_loops(op):
        first = cast("ArrayAttr[AffineMapAttr]", attribute_of(op, "indexing_maps")).data[0].data
        named = enumerate(getattr(axis, "position", None) for axis in first.results)
        axes = tuple(axis for axis, loop in named if loop in loops)
        return QuantizationRule(RuleKind.OWN, inputs, functions | {"reduce"}, mixed_axes=axes)
    if names == _LOGISTIC and _is_logistic(ops):
        return QuantizationRule(RuleKind.FIXED, inputs, functions, fixed="logistic")
    if len(ops) == 1 and (only := rule_of(ops[0])) is not None:
        functions = functions if only.functions else frozenset[str]()
        chosen = _chosen(op, ops[0], only)
        count = len(ops[0].operands if only.operands is None else only.operands)
        # A scalar operand adds elements that no tensor operand has.
        is_own = only.kind is RuleKind.SHARED and len(chosen) < count
        return QuantizationRule(
            RuleKind.OWN if is_own else only.kind, chosen, functions, only.fixed
        )
    if not ops:
        return QuantizationRule(RuleKind.SHARED, inputs[:1] if len(inputs) == 1 else inputs)
    return QuantizationRule(RuleKind.OWN, inputs, functions)


def gathering_op(op: Operation) -> Operation | None:
    """
    The `tensor.extract` that produces the result of a `linalg.generic`.

    None unless all other ops of its body compute integers.
    """
    if name_of(op) != "linalg.generic" or len(op.results) != 1 or _reduced_loops(op):
        return None
    body = op.regions[0].block
    extracts = [inner for inner in body.ops if name_of(inner) == "tensor.extract"]
    if len(extracts) != 1 or (end := body.last_op) is None:
        return None
    (gather,) = extracts
    if list(end.operands) != list(gather.results) or not is_of_floats(gather.operands[0]):
        return None
    others = [inner for inner in body.ops if inner not in (gather, end)]
    is_of_integers = all(
        name_of(inner) == "cf.assert" or (_is_function(inner) and not _has_float(inner))
        for inner in others
    )
    return gather if is_of_integers else None


def _has_float(op: Operation) -> bool:
    return any(map(is_of_floats, (*op.operands, *op.results)))


def _functions_of(op: Operation) -> frozenset[str]:
    read = rule_of(op)
    return (read and read.functions) or frozenset({function_of(name_of(op))})


def _extreme(ops: list[Operation]) -> str | None:
    """`max` or `min`, if a compare and a select compute it; else None."""
    if [name_of(op) for op in ops] != ["arith.cmpf", "arith.select"]:
        return None
    compare, select = ops
    number = re.search("[0-9]+", str(attribute_of(compare, "predicate")))
    if (
        number is None
        or int(number[0]) not in _ORDERS
        or select.operands[0] is not compare.results[0]
    ):
        return None
    order, ends = _ORDERS[int(number[0])], list(compare.operands)
    if ends == [select.operands[1], select.operands[2]]:
        return order
    if ends == [select.operands[2], select.operands[1]]:
        return "min" if order == "max" else "max"
    return None


_ORDERS: Final = {
    **dict.fromkeys((2, 3, 9, 10), "max"),
    **dict.fromkeys((4, 5, 11, 12), "min"),
}
"""The function of `select(cmpf(a, b), a, b)`, by the number of the predicate of `cmpf`."""


def _is_function(op: Operation) -> bool:
    name = name_of(op)
    return (name.partition(".")[0] in ("arith", "math") or name == _INDEX) and not op.regions


def _inputs(op: Operation, body: Block) -> tuple[int, ...] | None:
    """The operand numbers of the inputs that the body reads."""
    count = len(op.operands) - len(op.results)
    if count < 0:
        return None
    return tuple(at for at in range(count) if body.args[at].first_use is not None)


def _chosen(op: Operation, only: Operation, read: QuantizationRule) -> tuple[int, ...]:
    """The inputs that the single op of a body reads as its quantized operands."""
    chosen = only.operands if read.operands is None else [only.operands[at] for at in read.operands]
    count = len(op.operands) - len(op.results)
    numbers = [_number(value) for value in chosen]
    return tuple(at for at in dict.fromkeys(numbers) if at is not None and at < count)


def _number(value: SSAValue) -> int | None:
    """The number of the operand that a value is an element of, perhaps converted."""
    while isinstance(value.owner, Operation) and name_of(value.owner) in _CONVERSIONS:
        value = value.owner.operands[0]
    return value.index if isinstance(value, BlockArgument) else None


def _reduced_loops(op: Operation) -> Sequence[int]:
    is_generic = name_of(op) == "linalg.generic"
    kinds = cast(Any, attribute_of(op, "iterator_types")).data if is_generic else ()
    return [loop for loop, kind in enumerate(kinds) if "parallel" not in str(kind)]


def _computes(op: Operation) -> bool:
    """Whether an op of a body reads a result, other than to assert something of it."""
    readers = [use.operation for result in op.results for use in result.uses]
    return any(reader.results or name_of(reader) == _YIELD for reader in readers)


def _is_logistic(ops: list[Operation]) -> bool:
    """Whether ops are the chain of `_LOGISTIC`, with constants of one."""
    for before, after in pairwise(ops):
        others = [operand for operand in after.operands if operand is not before.results[0]]
        if others == [*after.operands] or any(number_of(other) != 1 for other in others):
            return False
    return ops[-1].operands[1] is ops[-2].results[0]


# Named ops

_NAMED: Final = {
    "matmul": "mk,kn->mn",
    "batch_matmul": "bmk,bkn->bmn",
}
"""The equations of named ops, unless they have indexing maps."""

_FIXED: Final = {
    "batch_reduce_matmul": "bmk,bkn->mn",
    "dot": "k,k->",
    "matvec": "mk,k->m",
    "vecmat": "k,kn->n",
    "batch_matvec": "bmk,bk->bm",
    "batch_vecmat": "bk,bkn->bn",
    "conv_1d_nwc_wcf": "n*c,wcf->n*f",
    "conv_1d_ncw_fcw": "nc*,fcw->nf*",
    "conv_2d_nhwc_hwcf": "n**c,hwcf->n**f",
    "conv_2d_nhwc_fhwc": "n**c,fhwc->n**f",
    "conv_2d_nchw_fchw": "nc**,fchw->nf**",
    "conv_2d_ngchw_fgchw": "ngc**,fgchw->ngf**",
    "conv_2d_ngchw_gfchw": "ngc**,gfchw->ngf**",
    "conv_2d_nhwgc_gfhwc": "n**gc,gfhwc->n**gf",
    "conv_3d_ndhwc_dhwcf": "n***c,dhwcf->n***f",
    "conv_3d_ncdhw_fcdhw": "nc***,fcdhw->nf***",
    "depthwise_conv_1d_nwc_wc": "n*c,wc->n*c",
    "depthwise_conv_1d_nwc_wcm": "n*c,wcm->n*cm",
    "depthwise_conv_1d_ncw_cw": "nc*,cw->nc*",
    "depthwise_conv_2d_nhwc_hwc": "n**c,hwc->n**c",
    "depthwise_conv_2d_nhwc_hwcm": "n**c,hwcm->n**cm",
    "depthwise_conv_2d_nchw_chw": "nc**,chw->nc**",
    "depthwise_conv_3d_ndhwc_dhwc": "n***c,dhwc->n***c",
    "depthwise_conv_3d_ndhwc_dhwcm": "n***c,dhwcm->n***cm",
    "depthwise_conv_3d_ncdhw_cdhw": "nc***,cdhw->nc***",
}
"""The equations of ops without indexing maps."""

_NOT_RUN: Final = {
    "matmul_transpose_a": "km,kn->mn",
    "matmul_transpose_b": "mk,nk->mn",
    "batch_matmul_transpose_a": "bkm,bkn->bmn",
    "batch_matmul_transpose_b": "bmk,bnk->bmn",
    "mmt4d": "mkac,nkbc->mnab",
    "batch_mmt4d": "zmkac,znkbc->zmnab",
    "conv_1d": "*,w->*",
    "conv_2d": "**,hw->**",
    "conv_3d": "***,dhw->***",
}
"""Further ones, of which no run was compared with that of a compiler."""


_WITH_ZERO_POINTS: Final = (
    "conv_2d_nchw_fchw_q conv_2d_ngchw_gfchw_q conv_2d_nhwc_fhwc_q conv_2d_nhwc_hwcf_q "
    "conv_2d_nhwgc_gfhwc_q conv_3d_ndhwc_dhwcf_q depthwise_conv_2d_nhwc_hwc_q "
    "depthwise_conv_2d_nhwc_hwcm_q quantized_batch_matmul quantized_matmul"
)


def _with_maps(op: Operation) -> Contraction:
    maps = find_attribute(op, "indexing_maps")
    if maps is None:
        return Contraction.of(_NAMED[name_of(op).removeprefix("linalg.")], bias=2)
    return _of_maps(maps)


def _generic(op: Operation) -> Contraction | None:
    """A `linalg.generic` that adds products of two inputs to its result; None for other bodies."""
    block = op.regions[0].block
    names = [name_of(inner) for inner in block.ops]
    if names != ["arith.mulf", "arith.addf", "linalg.yield"] or len(op.operands) != 3:
        return None
    product, total, end = block.ops
    left, right, result = block.args
    is_sum = (
        {*product.operands} == {left, right}
        and {*total.operands} == {product.results[0], result}
        and list(end.operands) == list(total.results)
    )
    if not is_sum:
        return None
    return _of_maps(attribute_of(op, "indexing_maps"))


def _of_maps(maps: Attribute) -> Contraction:
    three = cast("ArrayAttr[Attribute]", maps).data if isinstance(maps, ArrayAttr) else ()
    if len(three) != 3:
        raise Refusal(RefusalCode.UNKNOWN_OP, "it does not have three indexing maps")
    lhs, rhs, result = (
        _labels(affine_map.data if isinstance(affine_map, AffineMapAttr) else None)
        for affine_map in three
    )
    if "*" in result or ("*" in lhs and "*" in rhs):
        raise Refusal(
            RefusalCode.UNKNOWN_OP,
            "its indexing maps have results that are neither dimensions nor sums for a window",
        )
    alone = [label for label in result if label not in lhs and label not in rhs]
    if "*" in lhs or "*" in rhs:
        # The loops over a window, and over its position, index one axis of an input.
        result = tuple("*" if label in alone else label for label in result)
    elif alone:
        raise Refusal(RefusalCode.UNKNOWN_OP, "its result has an axis that neither operand has")
    return Contraction(lhs, rhs, result, bias=2)


def _labels(map: AffineMap | None) -> tuple[str, ...]:
    """The letters of the loops that index each axis."""
    if map is None or map.num_dims > len(ascii_letters):
        raise Refusal(RefusalCode.UNKNOWN_OP, "its indexing maps are not supported")
    return tuple(
        ascii_letters[expression.position] if isinstance(expression, AffineDimExpr) else "*"
        for expression in map.results
    )


def _windows(op: Operation, contraction: Contraction) -> Sequence[Window]:
    axes = sliding_axes(contraction)
    strides = positive(op, "strides", len(axes), default=1)
    dilations = positive(op, "dilations", len(axes), default=1)
    return [
        Window(window_axes, stride, dilation)
        for window_axes, stride, dilation in zip(axes, strides, dilations, strict=True)
    ]


def _bits_of_generic(op: Operation) -> Bits:
    """Those of the ops in its region, unless loops reduce."""
    iterators = find_attribute(op, "iterator_types")
    is_parallel = isinstance(iterators, ArrayAttr) and not _reduced_loops(op)
    return Bits.EXACT if is_parallel else Bits.ROUNDED


_POOLS: Final = {
    "nwc": ((1,), "max min sum"),
    "ncw": ((2,), "max sum"),
    "nhwc": ((1, 2), "max min sum"),
    "nchw": ((2, 3), "max sum"),
    "ndhwc": ((1, 2, 3), "max min sum"),
}
"""The window axes and the kinds of pools, by the layout in their names."""


def _read_pool(op: Operation) -> Reduction:
    _, layout, kind = name_of(op).split("_")
    axes, _ = _POOLS[layout]
    image, window = shape_of(op.operands[0]), shape_of(op.operands[1])
    if len(window) != len(axes) or len(image) != len(axes) + 2:
        raise Refusal(RefusalCode.UNKNOWN_OP, "its operands do not have the axes of its name")
    strides = positive(op, "strides", len(axes), default=1)
    dilations = positive(op, "dilations", len(axes), default=1)
    windows = dict[int, PoolWindow]()
    for axis, *numbers in zip(axes, window, strides, dilations, strict=True):
        pool, length, count = PoolWindow(*numbers), image[axis], shape_of(op.operands[2])[axis]
        if min(length, count) > 0 and count < pool.count(length):
            # The last elements are in no window.
            pool = replace(pool, high=(count - 1) * pool.stride + pool.reach - length)
        windows[axis] = pool
    return Reduction(_COMBINED[kind], windows, 2)


_COMBINED: Final = {"max": scalar("larger"), "min": scalar("smaller"), "sum": "numpy:add"}


def _pool(kind: str, axes: tuple[int, ...]) -> QuantizationRule:
    if kind == "sum":
        return own(0, function="reduce", is_homogeneous=True, mixed_axes=axes, starts=(2,))
    return shared(0, is_homogeneous=True, mixed_axes=axes, starts=(2,))


def _shape_of_last(operands: RunTimeOperands) -> Shape:
    """The shape of the tensor that the result is written to."""
    return operands.shape(-1)


def _with_read_results(op: Operation) -> Operation | None:
    """A generic without the outputs that nobody reads, and that its other results do not need."""
    read = [at for at, result in enumerate(op.results) if result.first_use is not None]
    if not isinstance(op, GenericOp) or not read or len(read) == len(op.results):
        return None
    count = len(op.inputs)
    kept = [*range(count), *(count + at for at in read)]
    maps = [op.indexing_maps.data[at] for at in kept]
    loops = {
        by.position for map in maps for by in map.data.results if isinstance(by, AffineDimExpr)
    }
    if len(loops) < len(op.iterator_types):
        # The other outputs say how often a loop runs.
        return None
    region = op.body.clone()
    end, arguments = region.block.last_op, region.block.args
    assert end is not None
    end.operands = [end.operands[at] for at in read]
    erase_unused([inner for inner in region.block.ops if inner is not end])
    for at in reversed(range(len(arguments))):
        if at not in kept:
            if arguments[at].first_use is not None:
                # Or the copy would use values from outside.
                region.block.drop_all_references()
                return None
            region.block.erase_arg(arguments[at])
    new = GenericOp(
        op.inputs,
        [op.outputs[at] for at in read],
        region,
        maps,
        op.iterator_types,
        [op.results[at].type for at in read],
        doc=op.doc,
        library_call=op.library_call,
    )
    new.attributes |= op.attributes
    new.location = op.location
    return new


_pure = partial(OpModel, effects=Effects.NONE)
_exact = partial(_pure, bits=Bits.EXACT)
_rounded = partial(_pure, bits=Bits.ROUNDED)
_layer = partial(layer_model, effects=Effects.NONE, windows=_windows)
_pair = partial(OnElements, arity=2)

_run = partial(run_in, "linalg")

MODELS = OpModels(
    "linalg",
    {
        # Sums of products
        **{
            name: _layer(product=Contraction.of(equation, bias=2))
            for name, equation in _FIXED.items()
        },
        **{
            name: _pure(product=Contraction.of(equation, bias=2), windows=_windows)
            for name, equation in _NOT_RUN.items()
        },
        _WITH_ZERO_POINTS: _pure(),
        " ".join([*_NAMED, "contract"]): _layer(product=_with_maps),
        # Bodies
        "generic": _pure(
            maps_elements=True,
            loops=_read_loops,
            movement=_generic_movement,
            run_time_shape=_shape_of_last,
            term=ElementwiseModel(_term, _write_generic),
            integers=_integers,
            product=_generic,
            windows=_windows,
            bits=_bits_of_generic,
            rule=_with_body,
            run=_run("generic"),
            on_arrays=_run("generic_on_arrays"),
            with_read_results=_with_read_results,
            runs_on_codes=True,
        ),
        "map": _exact(maps_elements=True, rule=_with_body, run=_run("map_elements")),
        "reduce": _rounded(rule=_with_body, reduction=reduction_by_region, run=_run("reduce")),
        "index": _exact(run=_run("index")),
        "yield": _exact(yields=True),
        # Windows
        **{
            f"pooling_{layout}_{kind}": _rounded(
                rule=_pool(kind, axes), reduction=_read_pool, run=_run("pool")
            )
            for layout, (axes, kinds) in _POOLS.items()
            for kind in kinds.split()
        },
        # Movements
        "broadcast": _exact(
            movement=_broadcast,
            run_time_shape=_shape_of_last,
            write_broadcast=_broadcast_again,
            repeats=True,
            rule=shared(0),
        ),
        "transpose": _exact(movement=_transpose, run_time_shape=_shape_of_last, rule=shared(0)),
        "pack unpack": _pure(rule=shared(0)),
        "copy": _exact(
            rule=QuantizationRule(RuleKind.SHARED, (0,), is_homogeneous=True, keeps_places=True),
            run=OnElements(scalar("same"), scalar("same")),
        ),
        "fill": _exact(
            repeats=True,
            stays_float="its result is a single number",
            run=_run("fill"),
            runs_on_codes=True,
        ),
        **{
            name: _pure()
            for layout in ("nhwc", "nwc")
            for name in (f"pooling_{layout}_max_unsigned", f"pooling_{layout}_min_unsigned")
        },
        # Functions of elements
        "elementwise": _rounded(rule=_elementwise, run=_run("elementwise")),
        "abs": _exact(rule=own(0), run=OnElements("numpy:abs")),
        "sqrt": _exact(rule=own(0), run=OnElements("numpy:sqrt")),
        "square": _exact(rule=own(0), run=OnElements("numpy:square")),
        "negf": _exact(rule=own(0, function="neg"), run=OnElements("numpy:negative")),
        "ceil": _exact(rule=whole_number(0), run=OnElements("numpy:ceil")),
        "floor": _exact(rule=whole_number(0), run=OnElements("numpy:floor")),
        "round": _exact(
            rule=whole_number(0), run=OnElements("qdialect.support.float_format:rounded_half_away")
        ),
        "erf": _rounded(rule=own(0), run=OnElements(scalar("erf"))),
        "exp": _rounded(rule=own(0), run=OnElements("numpy:exp")),
        "log": _rounded(rule=own(0), run=OnElements("numpy:log")),
        "reciprocal": _rounded(rule=own(0), run=OnElements(scalar("reciprocal"))),
        "rsqrt": _rounded(rule=own(0), run=OnElements(scalar("reciprocal_root"))),
        "tanh": _rounded(rule=fixed("tanh", 0), run=OnElements("numpy:tanh")),
        "softmax": _pure(rule=fixed("softmax", 0)),
        "add": _exact(rule=own(0, 1), run=_pair("numpy:add", "numpy:add")),
        "sub": _exact(rule=own(0, 1), run=_pair("numpy:subtract", "numpy:subtract")),
        "mul": _exact(rule=own(0, 1), run=_pair("numpy:multiply", "numpy:multiply")),
        "div": _exact(rule=own(0, 1), run=_pair("numpy:divide", scalar("quotient"))),
        "max": _exact(rule=own(0, 1), run=_pair(scalar("larger"), scalar("larger"))),
        "min": _exact(rule=own(0, 1), run=_pair(scalar("smaller"), scalar("smaller"))),
        "div_unsigned": _pure(rule=own(0, 1, function="div")),
        "powf": _rounded(rule=own(0, 1, function="pow"), run=_pair("numpy:power")),
        "select": _exact(
            rule=shared(1, 2, keeps_places=True),
            run=OnElements("numpy:where", "numpy:where", arity=3),
        ),
        # Ops that stay in floats
        "fill_rng_2d": _pure(stays_float="its result is random"),
        "winograd_filter_transform winograd_input_transform winograd_output_transform": _pure(
            stays_float="it is part of a convolution"
        ),
    },
)
