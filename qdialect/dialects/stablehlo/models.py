"""
What is known of the ops of StableHLO: https://openxla.org/stablehlo/spec.

The table is at the end; before it are the functions that read ops for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from math import inf
from string import ascii_letters
from types import MappingProxyType
from typing import Any, ClassVar, Final, cast

from typing_extensions import override
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    TensorType,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.joins import Concat, InsertSlice
from qdialect.algebra.movement import (
    DYNAMIC,
    BroadcastInDim,
    Movement,
    Reshape,
    Reverse,
    Shape,
    Slice,
    Take,
    Transpose,
)
from qdialect.algebra.parameters import Granularity
from qdialect.dialects import BITCAST, run_in, scalar
from qdialect.dialects.arrays import layer_model
from qdialect.ir.elements import dense_elements
from qdialect.ops.elementwise import converted, recreated, same_shape, unbroadcast
from qdialect.ops.fields import (
    Arithmetic,
    ArithmeticWriter,
    CastReads,
    Comparison,
    Contraction,
    DialectTraits,
    Elementwise,
    ElementwiseModel,
    Integers,
    Iteration,
    Lookup,
    Movements,
    Normalization,
    Operands,
    PoolWindow,
    QuantizationRule,
    Reduction,
    ReshapedElements,
    RuleKind,
    SmallOperand,
    Window,
    WindowNumbers,
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
    integer_of,
    integers_of,
    is_of_floats,
    name_of,
    rule_of,
    set_attribute,
    shape_of,
    static_shape_of,
)
from qdialect.ops.model import Bits, Effects, OnElements, OpModel, OpModels
from qdialect.ops.readers import (
    conversion_rule,
    listed,
    moved,
    moves,
    padded,
    per_window,
    positions_of_slices,
    positions_on_any_axis,
    positive,
    reduction_by_region,
    reshaped,
    shape_in,
)
from qdialect.ops.reading import nonzero_as_true
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.support.memory import registered_cache
from qdialect.support.text import repeated

# Movements


def _sliced(op: Operation) -> Movement:
    starts, limits = integers_of(op, "start_indices"), integers_of(op, "limit_indices")
    return Slice.between(starts, limits, integers_of(op, "strides"))


def _broadcast_in_dim(op: Operation, operands: Operands) -> Movements:
    dims = integers_of(op, "broadcast_dimensions")
    return Movements(op.operands, [BroadcastInDim(dims, shape_of(op.results[0]))])


def _pad(op: Operation, operands: Operands) -> Movements:
    widths = (
        integers_of(op, name)
        for name in ("edge_padding_low", "edge_padding_high", "interior_padding")
    )
    return moved(op, *padded(shape_of(op.operands[0]), *widths), padding=op.operands[1])


# These move elements where their operands are constant.


def _dynamic_broadcast_in_dim(op: Operation, operands: Operands) -> Movements:
    return _broadcast_in_dim(op, operands)._replace(operands=op.operands[:1])


def _while(op: Operation) -> Iteration:
    condition, body = (region.block for region in op.regions)
    return Iteration(op.operands, body, condition=condition)


def _dynamic_slice(op: Operation, operands: Operands) -> Movements:
    sizes = integers_of(op, "slice_sizes")
    starts = _clamped(op.operands[1:], sizes, op.operands[0], operands)
    return moved(op, Slice(starts, sizes, (1,) * len(sizes)))


def _dynamic_update_slice(op: Operation, operands: Operands) -> Movements:
    value, update, *starts = op.operands
    sizes = static_shape_of(update)
    offsets = _clamped(starts, sizes, value, operands)
    return Movements([update, value], [InsertSlice(offsets, sizes, (1,) * len(sizes))])


def _clamped(
    starts: Sequence[SSAValue], sizes: Shape, value: SSAValue, operands: Operands
) -> tuple[int, ...]:
    """Where a slice of `sizes` starts: so that it is inside the tensor."""
    lengths = static_shape_of(value)
    offsets = [int(operands.integers(start)) for start in starts]
    return tuple(
        max(0, min(start, length - size))
        for start, length, size in zip(offsets, lengths, sizes, strict=True)
    )


def _real_dynamic_slice(op: Operation, operands: Operands) -> Movements:
    starts, limits, strides = (listed(operands, operand) for operand in op.operands[1:])
    return moved(op, Slice.between(starts, limits, strides))


def _dynamic_pad(op: Operation, operands: Operands) -> Movements:
    low, high, interior = (listed(operands, operand) for operand in op.operands[2:])
    movements = padded(shape_of(op.operands[0]), low, high, interior)
    return moved(op, *movements, padding=op.operands[1])


def _dynamic_gather(op: Operation, operands: Operands) -> Movements:
    return _gathered(op, listed(operands, op.operands[2]), operands)


def _gather(op: Operation, operands: Operands) -> Movements:
    return _gathered(op, integers_of(op, "slice_sizes"), operands)


def _gathered(op: Operation, sizes: Shape, operands: Operands) -> Movements:
    """
    A gather of whole slices, at positions of at most one axis.

    Where a slice is as long as its axis, every start index is clamped to zero.
    """
    shape = static_shape_of(op.operands[0])
    numbers = window_numbers(op, "dimension_numbers", GATHERED)
    taken = [axis for axis, (size, n) in enumerate(zip(sizes, shape, strict=True)) if size != n]
    if len(taken) > 1 or any(sizes[axis] != 1 or axis not in numbers.starts for axis in taken):
        raise Refusal(RefusalCode.UNKNOWN_OP, "it is not a take along one axis")
    indices_shape = static_shape_of(op.operands[1])
    if numbers.vector == len(indices_shape):
        indices_shape = (*indices_shape, 1)
    _check_gather(numbers, shape, sizes, indices_shape)
    batch = (*indices_shape[: numbers.vector], *indices_shape[numbers.vector + 1 :])
    gone = (*numbers.dropped, *numbers.batching)
    window = tuple(size for axis, size in enumerate(sizes) if axis not in gone)
    movements: list[Movement] = [Reshape((*(1 for _ in batch), *window))]
    if taken:
        (axis,) = taken
        vectors = operands.integers(op.operands[1]).reshape(indices_shape)
        along_axis = vectors.take(numbers.starts.index(axis), axis=numbers.vector)
        indices = along_axis.clip(0, shape[axis] - 1).reshape(-1).tolist()
        others = (other for other in range(len(shape)) if other != axis)
        movements = [
            Take(axis, tuple(indices)),
            Transpose((axis, *others)),
            Reshape((*batch, *window)),
        ]
    # Axes of the operand become `offset_dims`, and axes of the indices the other ones.
    rank = len(batch) + len(window)
    places = (*(at for at in range(rank) if at not in numbers.windows), *numbers.windows)
    lengths = dict(zip(places, (*batch, *window), strict=True))
    spread = BroadcastInDim(places, tuple(lengths[at] for at in range(rank)))
    return moved(op, *movements, spread)


def window_numbers(op: Operation, name: str, fields: str) -> WindowNumbers:
    """
    The numbers in an attribute, whose fields are in the order of `WindowNumbers`.

    https://openxla.org/stablehlo/spec#gather. Raises Refusal if there is another field.
    """
    numbers, names = dimension_numbers(op, name), fields.split()
    if unknown := numbers.keys() - {*names, "index_vector_dim"}:
        raise Refusal(RefusalCode.UNKNOWN_OP, f"'{min(unknown)}' is not supported")
    (vector,) = numbers.get("index_vector_dim", (0,))
    return WindowNumbers(*(numbers.get(field, ()) for field in names), vector=vector)


GATHERED: Final = (
    "offset_dims collapsed_slice_dims operand_batching_dims start_indices_batching_dims "
    "start_index_map"
)
"""The fields of the dimension numbers of a gather that are lists."""


def _check_gather(numbers: WindowNumbers, shape: Shape, sizes: Shape, indices: Shape) -> None:
    """
    Raise Refusal if they are invalid for a gather of slices of `sizes`.

    `indices` is the shape of the indices with their axis of vectors.
    """
    gone = (*numbers.dropped, *numbers.batching)
    count = len(indices) - 1 + len(shape) - len(gone)
    fits = (
        all(
            len(set(part)) == len(part) and all(at < len(shape) for at in part)
            for part in (gone, (*numbers.starts, *numbers.batching))
        )
        and all(sizes[axis] == 1 for axis in gone)
        and len(numbers.windows) == len(shape) - len(gone)
        and list(numbers.windows) == sorted(set(numbers.windows))
        and all(at < count for at in numbers.windows)
        and indices[numbers.vector] == len(numbers.starts)
        and [indices[at] for at in numbers.indices_batching]
        == [shape[axis] for axis in numbers.batching]
    )
    if not fits:
        raise Refusal(RefusalCode.UNKNOWN_OP, "its dimension numbers do not match its operands")


def _broadcast_again(op: Operation, operand: SmallOperand, type: Attribute) -> list[Operation]:
    new = recreated(op, [operand.value], type)
    if isinstance(find_attribute(op, "broadcast_dimensions"), DenseArrayBase):
        axes = DenseArrayBase.from_list(i64, operand.axes)
    else:
        type = TensorType(i64, [len(operand.axes)])
        axes = DenseIntOrFPElementsAttr.from_list(type, operand.axes)
    set_attribute(new, "broadcast_dimensions", axes)
    return [new]


def _reshape_again(op: Operation, operand: SSAValue, type: Attribute) -> list[Operation]:
    return [recreated(op, [operand], type)]


# Dimension numbers are parsed from printed text, which is the same for registered and unregistered
# attributes.


def dimension_numbers(op: Operation, name: str) -> Mapping[str, tuple[int, ...]]:
    """The fields of an attribute such as `#stablehlo.gather<...>`. Raises Refusal."""
    return _fields_in(str(attribute_of(op, name)))


@registered_cache
@lru_cache(maxsize=256)
def _fields_in(text: str) -> Mapping[str, tuple[int, ...]]:
    body = _DIMENSION_NUMBERS.fullmatch(text)
    if body is None:
        raise Refusal(RefusalCode.UNKNOWN_OP, "its dimension numbers cannot be parsed")
    fields: dict[str, tuple[int, ...]] = {}
    for field in _FIELD.finditer(body[1] or ""):
        name, single, several = field.groups()
        if name in fields or (name == "index_vector_dim") != (single is not None):
            raise Refusal(RefusalCode.UNKNOWN_OP, f"'{name}' is not supported")
        fields[name] = tuple(map(int, _NUMBER.findall(single or several)))
    return MappingProxyType(fields)


# Possessive quantifiers keep the time linear in the length of the text.
_NUMBER: Final = re.compile("[0-9]++")
_MORE_NUMBERS = repeated(r",\s*+[0-9]++\s*+")
_NUMBERS = rf"\s*+(?:[0-9]++\s*+{_MORE_NUMBERS})?"
_FIELD: Final = re.compile(rf"([a-z_]++)\s*+=\s*+(?:([0-9]++)|\[({_NUMBERS})\])\s*+")
_ANY_FIELD = rf"[a-z_]++\s*+=\s*+(?:[0-9]++|\[{_NUMBERS}\])\s*+"
_MORE_FIELDS = repeated(rf",\s*+{_ANY_FIELD}")
_DIMENSION_NUMBERS: Final = re.compile(
    rf"#stablehlo\.(?:dot|gather|scatter)(?:<\s*+((?:{_ANY_FIELD}{_MORE_FIELDS})?)>)?"
)


# Arithmetic, and integers that are computed from constants


def _arithmetic(kind: Arithmetic) -> ElementwiseModel:
    """The model of an op of operands that have the shape of its result."""

    def read(op: Operation, operands: Operands) -> Elementwise:
        return same_shape(op, kind, op.operands)

    return unbroadcast(read)


_CONVERSION: Final = unbroadcast(converted)


def _iota(op: Operation, values: Sequence[Integers]) -> NDArray[Any]:
    shape, axis = static_shape_of(op.results[0]), integer_of(op, "iota_dimension")
    ones = [-1 if at == axis else 1 for at in range(len(shape))]
    return np.broadcast_to(np.arange(shape[axis]).reshape(ones), shape)


def _compare(op: Operation, values: Sequence[Integers]) -> NDArray[Any]:
    one, other = values
    return getattr(np, comparison_of(op))(one, other)


def comparison_of(op: Operation) -> str:
    """The function of numpy that compares as an op does. Raises Refusal."""
    order = _ORDER.search(str(attribute_of(op, "comparison_direction")))
    if order is None:
        raise Refusal(RefusalCode.UNKNOWN_OP, "its order is not understood")
    return _ORDERS[order[0]]


def _read_comparison(op: Operation) -> Comparison:
    if "TOTALORDER" in str(find_attribute(op, "compare_type")):
        raise Refusal(RefusalCode.UNKNOWN_OP, "its order of NaN is total")
    function = comparison_of(op)
    # A comparison with NaN is false, but for NE.
    if function == "not_equal":
        return Comparison("equal", is_negated=True)
    return Comparison(function)


_ORDERS: Final = {
    "EQ": "equal",
    "NE": "not_equal",
    "GE": "greater_equal",
    "GT": "greater",
    "LE": "less_equal",
    "LT": "less",
}
_ORDER: Final = re.compile(rf"\b({'|'.join(_ORDERS)})\b")


# Sums of products, and look-ups


def _dot(op: Operation) -> Contraction:
    ranks = len(shape_of(op.operands[0])), len(shape_of(op.operands[1]))
    equations = {(1, 1): "k,k->", (2, 1): "mk,k->m", (1, 2): "k,kn->n", (2, 2): "mk,kn->mn"}
    if ranks not in equations:
        raise Refusal(RefusalCode.UNKNOWN_OP, f"its operands have ranks {ranks[0]} and {ranks[1]}")
    return Contraction.of(equations[ranks])


_SIDES: Final = ("lhs", "rhs")


def _dot_general(op: Operation) -> Contraction:
    numbers = dimension_numbers(op, "dot_dimension_numbers")
    batch, contracted = (
        [*zip(*(numbers.get(f"{side}_{kind}_dimensions", ()) for side in _SIDES), strict=True)]
        for kind in ("batching", "contracting")
    )
    letters = iter(ascii_letters)
    sides: list[list[str]] = []
    for operand in op.operands[:2]:
        sides.append([""] * len(shape_of(operand)))
    lhs, rhs = sides
    result: list[str] = []
    for pairs, is_in_result in ((batch, True), (contracted, False)):
        for left, right in pairs:
            lhs[left] = rhs[right] = next(letters)
            result += [lhs[left]] if is_in_result else []
    for side in sides:
        for axis, label in enumerate(side):
            if not label:
                side[axis] = next(letters)
                result.append(side[axis])
    return Contraction(tuple(lhs), tuple(rhs), tuple(result))


def _batch_norm(op: Operation) -> Normalization:
    epsilon: Any = attribute_of(op, "epsilon")
    operand, scale, offset, mean, variance = op.operands
    axis = integer_of(op, "feature_index")
    return Normalization(operand, axis, scale, offset, mean, variance, epsilon.value.data)


def _convolution(op: Operation) -> Contraction:
    lists = _axes_of_convolution(op)
    counts = [
        1 if find_attribute(op, name) is None else integer_of(op, name)
        for name in ("feature_group_count", "batch_group_count")
    ]
    if counts[1] != 1:
        raise Refusal(RefusalCode.UNKNOWN_OP, "its 'batch_group_count' is not 1")
    if counts[0] < 1:
        raise Refusal(RefusalCode.UNKNOWN_OP, f"its 'feature_group_count' is {counts[0]}")
    data = {"b": "n", "f": "i"}
    lhs = tuple(data.get(role, "*") for role in lists[0])
    letters = iter("hwdxyz")
    rhs = tuple(role if role in "io" else next(letters) for role in lists[1])
    result = tuple({"b": "n", "f": "o"}.get(role, "*") for role in lists[2])
    return Contraction(lhs, rhs, result, groups=counts[0], is_in_any_order=True)


def _axes_of_convolution(op: Operation) -> list[list[str]]:
    """
    The role of each axis of the operands and of the result: a letter, or the number of a window.
    """
    text = str(attribute_of(op, "dimension_numbers"))
    parts = _CONVOLUTION.fullmatch(text)
    if parts is None:
        raise Refusal(RefusalCode.UNKNOWN_OP, "its dimension numbers cannot be parsed")
    lists = [part.replace(" ", "").split(",") for part in parts.groups()]
    spatial = list(map(str, range(len(lists[0]) - 2)))
    for axes, letters in zip(lists, ("bf", "io", "bf"), strict=True):
        if sorted(axes) != sorted([*spatial, *letters]) or len(spatial) > _MAX_WINDOWS:
            raise Refusal(RefusalCode.UNKNOWN_OP, "its dimension numbers cannot be parsed")
    return lists


def _windows(op: Operation, contraction: Contraction) -> Sequence[Window]:
    lists = _axes_of_convolution(op)
    count = len(lists[0]) - 2
    pads = per_window(op, "padding", 2 * count, default=0)
    reversals = _truths_in(op, "window_reversal", count)
    return [
        Window(
            (lists[0].index(str(at)), lists[1].index(str(at)), lists[2].index(str(at))),
            positive(op, "window_strides", count, default=1)[at],
            positive(op, "rhs_dilation", count, default=1)[at],
            positive(op, "lhs_dilation", count, default=1)[at],
            pads[2 * at],
            pads[2 * at + 1],
            reversals[at],
        )
        for at in range(count)
    ]


def _truths_in(op: Operation, name: str, count: int) -> Sequence[bool]:
    """The truth values in an attribute, false where it is missing. Raises Refusal."""
    attribute = find_attribute(op, name)
    if attribute is None:
        return (False,) * count
    values: Sequence[Any] = ()
    if isinstance(attribute, DenseArrayBase | DenseIntOrFPElementsAttr):
        values = cast(Any, attribute).get_values()
    if len(values) != count:
        raise Refusal(RefusalCode.UNKNOWN_OP, f"'{name}' does not have {count} elements")
    return tuple(bool(value) for value in values)


_MAX_WINDOWS: Final = 6

_CONVOLUTION: Final = re.compile(
    r"#stablehlo\.conv<(?:raw\s*)?\[([^\[\]]*+)\]\s*x\s*\[([^\[\]]*+)\]\s*->\s*\[([^\[\]]*+)\]>"
)


def _lookup(op: Operation) -> Lookup:
    """A gather of whole rows of a table, such as an embedding."""
    axes = dimension_numbers(op, "dimension_numbers").get("start_index_map", ())
    sizes, shape = integers_of(op, "slice_sizes"), shape_of(op.operands[0])
    if len(axes) != 1 or any(
        size != (1 if axis in axes else length)
        for axis, (size, length) in enumerate(zip(sizes, shape, strict=True))
    ):
        raise Refusal(RefusalCode.UNKNOWN_OP, "it does not gather whole rows of a table")
    numbers = window_numbers(op, "dimension_numbers", GATHERED)
    rank, count = len(shape_of(op.results[0])), len(shape) - len(numbers.dropped)
    is_by_rows = [*numbers.windows] == [*range(rank - count, rank)] and axes == numbers.dropped
    return Lookup(0, axes[0], is_by_rows)


# Rules


_HOMOGENEOUS = ("stablehlo.add", "stablehlo.maximum", "stablehlo.minimum")
_MAXIMUM = ("stablehlo.maximum", "stablehlo.minimum")
_COMBINERS = (*_MAXIMUM, "stablehlo.add", "stablehlo.multiply", "stablehlo.subtract")


def _clamp(op: Operation) -> QuantizationRule:
    limits = (op.operands[0], op.operands[2]) if len(op.operands) == 3 else None
    return QuantizationRule(RuleKind.OWN, (1,), frozenset({"clamp"}), limits=limits)


def _optimization_barrier(op: Operation) -> QuantizationRule | None:
    """A barrier of one operand; None for several, which are forwarded separately."""
    if len(op.operands) != 1:
        return None
    return QuantizationRule(RuleKind.SHARED, is_homogeneous=True, keeps_places=True)


def _map_of_body(op: Operation) -> QuantizationRule | None:
    """An elementwise function, from the body."""
    inner = list(op.regions[0].block.ops)[:-1]
    if any(rule_of(body_op) is None or body_op.regions for body_op in inner):
        return None
    return QuantizationRule(RuleKind.OWN, functions=frozenset({"map"}))


def _scatter(op: Operation) -> QuantizationRule | None:
    """Updates that replace elements, or are combined with them."""
    if len(op.operands) != 3 or len(op.results) != 1:
        return None
    inner = [name_of(body_op) for body_op in op.regions[0].block.ops]
    is_set = len(inner) == 1
    is_known = is_set or (len(inner) == 2 and inner[0] in _COMBINERS)
    return (
        QuantizationRule(RuleKind.SHARED if is_set else RuleKind.OWN, (0, 2)) if is_known else None
    )


def _sort(op: Operation) -> QuantizationRule:
    """A reordering of elements: of one float tensor, or of several with separate parameters."""
    is_of_one = sum(map(is_of_floats, op.operands)) == 1
    return QuantizationRule(RuleKind.SHARED if is_of_one else RuleKind.OWN)


def _reduce(op: Operation) -> QuantizationRule | None:
    if (combiner := _combiner(op)) is None:
        return _choosing(op)
    return QuantizationRule(
        RuleKind.OWN,
        (0,),
        frozenset({"reduce"}) | _functions_of(op.regions[0].block.first_op),
        is_homogeneous=combiner in _HOMOGENEOUS,
        mixed_axes=integers_of(op, "dimensions"),
        starts=(1,),
    )


def _choosing(op: Operation) -> QuantizationRule | None:
    """A reduction of several tensors that selects elements, such as a maximum and its position."""
    if not {name_of(inner) for inner in op.regions[0].block.ops} <= _CHOOSING:
        return None
    values = enumerate(op.operands[: len(op.results)])
    chosen = tuple(at for at, value in values if is_of_floats(value))
    kind = RuleKind.SHARED if len(chosen) == 1 else RuleKind.OWN
    return QuantizationRule(kind, chosen, frozenset({"reduce"}))


_CHOOSING = frozenset(
    f"stablehlo.{name}"
    for name in ("and", "compare", "maximum", "minimum", "not", "or", "return", "select")
)


def _reduce_window(op: Operation) -> QuantizationRule | None:
    """A pool. A maximum is an element, or the initial value unless that is the lowest number."""
    if (combiner := _combiner(op)) is None:
        return None
    is_maximum = combiner in _MAXIMUM
    return QuantizationRule(
        RuleKind.SHARED if is_maximum else RuleKind.OWN,
        (0,),
        frozenset() if is_maximum else frozenset({"reduce"}),
        is_homogeneous=combiner in _HOMOGENEOUS,
        mixed_axes=tuple(windows_of_pool(op)),
        starts=(1,),
    )


def windows_of_pool(op: Operation) -> Mapping[int, PoolWindow]:
    """The windows of a `reduce_window`, by axis. Raises Refusal."""
    count = len(shape_of(op.operands[0]))
    pads = per_window(op, "padding", 2 * count, default=0)
    lists = (
        positive(op, "window_dimensions", count),
        positive(op, "window_strides", count, default=1),
        positive(op, "window_dilations", count, default=1),
        positive(op, "base_dilations", count, default=1),
        pads[::2],
        pads[1::2],
    )
    windows = enumerate(PoolWindow(*numbers) for numbers in zip(*lists, strict=True))
    return {axis: window for axis, window in windows if window != PoolWindow()}


def _read_pool(op: Operation) -> Reduction:
    return reduction_by_region(op)._replace(windows=windows_of_pool(op))


def _functions_of(op: Operation | None) -> frozenset[str]:
    read = None if op is None else rule_of(op)
    return frozenset() if read is None else read.functions


def _combiner(op: Operation) -> str | None:
    """The function of the single op that combines two elements; None for other bodies."""
    if len(op.results) != 1 or len(op.operands) != 2:
        return None
    names = [name_of(inner) for inner in op.regions[0].block.ops]
    return names[0] if len(names) == 2 else None


# Arithmetic that is written


class StableHLOArithmetic(ArithmeticWriter):
    """Operands of arithmetic have equal shapes: a constant is broadcast by an op."""

    floats = ("f16", "bf16", "f32", "f64")
    widths = (2, 4, 8, 16, 32)
    ops: ClassVar = {
        "constant": "stablehlo.constant",
        "reshape": "stablehlo.reshape",
        "convert": "stablehlo.convert",
        "subtract": "stablehlo.subtract",
        "multiply": "stablehlo.multiply",
        "add": "stablehlo.add",
        "bitcast": "stablehlo.bitcast_convert",
    }

    @override
    def spread(
        self, lengths: Sequence[int], elements: ReshapedElements, like: SSAValue
    ) -> SSAValue:
        axes = [axis for axis, length in enumerate(lengths) if length > 1]
        small = self.constant(elements([lengths[axis] for axis in axes]))
        is_dynamic = DYNAMIC in cast("TensorType[Attribute]", like.type).get_shape()
        operands = [small, self._lengths(like)] if is_dynamic else [small]
        name = f"stablehlo.{'dynamic_' * is_dynamic}broadcast_in_dim"
        dims = {"broadcast_dimensions": DenseArrayBase.from_list(i64, axes)}
        return self.make(name, operands, like.type, dims)

    def _lengths(self, value: SSAValue) -> SSAValue:
        """The lengths of a tensor as a tensor of i32."""
        lengths = list[SSAValue]()
        for axis, length in enumerate(cast("TensorType[Attribute]", value.type).get_shape()):
            if length == DYNAMIC:
                dimension = {"dimension": IntegerAttr(axis, i64)}
                name = "stablehlo.get_dimension_size"
                number = self.make(name, [value], TensorType(i32, []), dimension)
                lengths.append(self.reshape(number, [1]))
            else:
                lengths.append(self.constant(dense_elements(np.array([length], np.int32), i32)))
        whole = TensorType(i32, [len(lengths)])
        return self.make(
            "stablehlo.concatenate", lengths, whole, {"dimension": IntegerAttr(0, i64)}
        )


# The table

_pure = partial(OpModel, effects=Effects.NONE)
_exact = partial(_pure, bits=Bits.EXACT)
_undefined = partial(_pure, bits=Bits.UNDEFINED)
_undefined_on_integers = partial(_pure, bits=Bits.UNDEFINED_ON_INTEGERS)
_rounded = partial(_pure, bits=Bits.ROUNDED)
_layer = partial(layer_model, effects=Effects.NONE)
_pair = partial(OnElements, arity=2)

_run = partial(run_in, "stablehlo")

_COMPLEX = "it has complex numbers"
_REGIONS = "it runs regions, in which ops are quantized"
_CUSTOM = "the function that it computes is defined by its implementation"

MODELS = OpModels(
    "stablehlo",
    {
        # Movements
        "broadcast": _exact(rule=shared(0)),
        "broadcast_in_dim": _exact(
            movement=_broadcast_in_dim,
            write_broadcast=_broadcast_again,
            rule=shared(0),
        ),
        "dynamic_broadcast_in_dim": _exact(
            movement=_dynamic_broadcast_in_dim,
            run_time_shape=shape_in(1),
            rule=shared(0),
            repeats=True,
        ),
        "reshape": _exact(movement=reshaped, write_reshape=_reshape_again, rule=shared(0)),
        "dynamic_reshape": _exact(movement=reshaped, run_time_shape=shape_in(1), rule=shared(0)),
        "slice": _exact(movement=moves(_sliced), rule=shared(0)),
        "dynamic_slice": _exact(movement=_dynamic_slice, rule=shared(0)),
        "real_dynamic_slice": _exact(movement=_real_dynamic_slice, rule=shared(0)),
        "reverse": _exact(
            movement=moves(lambda op: Reverse(integers_of(op, "dimensions"))), rule=shared(0)
        ),
        "transpose": _exact(
            movement=moves(lambda op: Transpose(integers_of(op, "permutation"))), rule=shared(0)
        ),
        "set_dimension_size": _pure(rule=shared(0)),
        "concatenate": _exact(
            movement=moves(lambda op: Concat(integer_of(op, "dimension"))), rule=shared()
        ),
        "pad": _exact(movement=_pad, rule=shared(0, 1)),
        "dynamic_pad": _exact(movement=_dynamic_pad, rule=shared(0, 1)),
        "dynamic_update_slice": _exact(movement=_dynamic_update_slice, rule=shared(0, 1)),
        "gather": _exact(
            movement=_gather,
            product=_lookup,
            positions=positions_of_slices,
            rule=shared(0),
            run=_run("gather"),
        ),
        "dynamic_gather": _pure(
            movement=_dynamic_gather, positions=positions_of_slices, rule=shared(0)
        ),
        "torch_index_select": _pure(positions=positions_on_any_axis, rule=shared(0)),
        "scatter": _rounded(rule=_scatter, run=_run("scatter")),
        "sort": _exact(rule=_sort, run=_run("sort")),
        "optimization_barrier": _exact(rule=_optimization_barrier, run=_run("barrier")),
        # Sums of products
        "dot": _layer(product=_dot),
        "dot_general": _layer(product=_dot_general),
        "convolution": _layer(product=_convolution, windows=_windows),
        "dynamic_conv": _pure(stays_float="its padding is known at run time only"),
        # Functions of elements
        "abs": _exact(rule=own(0), run=OnElements("numpy:abs", "numpy:abs")),
        "is_finite": _exact(rule=own(0), run=OnElements("numpy:isfinite")),
        "reduce_precision": _exact(rule=own(0), run=_run("reduce_precision")),
        "sign": _exact(rule=own(0), run=OnElements(scalar("sign"), "numpy:sign")),
        "sqrt": _exact(rule=own(0), run=OnElements("numpy:sqrt")),
        "cbrt": _rounded(rule=own(0), run=OnElements("numpy:cbrt")),
        "rsqrt": _rounded(rule=own(0), run=OnElements(scalar("reciprocal_root"))),
        "tan": _rounded(rule=own(0), run=OnElements("numpy:tan")),
        "log": _rounded(rule=own(0), run=OnElements("numpy:log")),
        "cosine": _rounded(rule=own(0, function="cos"), run=OnElements("numpy:cos")),
        "exponential": _rounded(rule=own(0, function="exp"), run=OnElements("numpy:exp")),
        "exponential_minus_one": _rounded(
            rule=own(0, function="expm1"), run=OnElements("numpy:expm1")
        ),
        "log_plus_one": _rounded(rule=own(0, function="log1p"), run=OnElements("numpy:log1p")),
        "negate": _exact(
            rule=own(0, function="neg"), run=OnElements("numpy:negative", "numpy:negative")
        ),
        "sine": _rounded(rule=own(0, function="sin"), run=OnElements("numpy:sin")),
        "logistic": _rounded(rule=fixed("logistic", 0), run=OnElements(scalar("logistic"))),
        "tanh": _rounded(rule=fixed("tanh", 0), run=OnElements("numpy:tanh")),
        "ceil": _exact(rule=whole_number(0), run=OnElements("numpy:ceil")),
        "floor": _exact(rule=whole_number(0), run=OnElements("numpy:floor")),
        "round_nearest_afz": _exact(
            rule=whole_number(0, function="round"),
            run=OnElements("qdialect.support.float_format:rounded_half_away"),
        ),
        "round_nearest_even": _exact(
            rule=whole_number(0, function="roundeven"), run=OnElements("numpy:rint")
        ),
        "add": _exact(
            term=_arithmetic(Arithmetic.ADD),
            # The sum of truth values is their disjunction.
            integers=lambda op, values: nonzero_as_true(op, values[0] + values[1]),
            rule=own(0, 1),
            run=_pair("numpy:add", "numpy:add", "numpy:logical_or"),
            identity=-0.0,
        ),
        "compare": _exact(
            integers=_compare,
            rule=own(0, 1),
            comparison=_read_comparison,
            run=_run("compare"),
        ),
        "atan2": _rounded(rule=own(0, 1), run=_pair("numpy:arctan2")),
        "divide": _undefined_on_integers(
            rule=own(0, 1, function="div"), run=_pair("numpy:divide", scalar("quotient"))
        ),
        "maximum": _exact(
            integers="numpy:maximum",
            rule=own(0, 1, function="max"),
            run=_pair(scalar("larger"), scalar("larger"), "numpy:logical_or"),
            identity=-inf,
        ),
        "minimum": _exact(
            integers="numpy:minimum",
            rule=own(0, 1, function="min"),
            run=_pair(scalar("smaller"), scalar("smaller"), "numpy:logical_and"),
            identity=inf,
        ),
        "multiply": _exact(
            term=_arithmetic(Arithmetic.MULTIPLY),
            integers=True,
            rule=own(0, 1, function="mul"),
            run=_pair("numpy:multiply", "numpy:multiply", "numpy:logical_and"),
            identity=1,
        ),
        "power": _rounded(rule=own(0, 1, function="pow"), run=_pair("numpy:power")),
        "remainder": _undefined_on_integers(
            rule=own(0, 1, function="rem"), run=_pair("numpy:fmod", scalar("remainder"))
        ),
        "subtract": _exact(
            term=_arithmetic(Arithmetic.SUBTRACT),
            integers=True,
            rule=own(0, 1, function="sub"),
            run=_pair("numpy:subtract", "numpy:subtract"),
        ),
        "clamp": _exact(rule=_clamp, run=OnElements(scalar("clamped"), scalar("clamped"), arity=3)),
        "convert": _exact(
            cast=CastReads.CONVERTED,
            rounding="numpy:trunc",
            term=_CONVERSION,
            integers=lambda op, values: nonzero_as_true(op, values[0]),
            rule=conversion_rule,
            run=_run("convert"),
        ),
        "uniform_quantize": OpModel(cast=CastReads.CODES),
        "uniform_dequantize": OpModel(cast=CastReads.NUMBERS),
        "map": _pure(maps_elements=True, rule=_map_of_body),
        "select": _exact(
            integers=True,
            rule=shared(1, 2, keeps_places=True),
            run=OnElements("numpy:where", "numpy:where", "numpy:where", arity=3),
        ),
        "constant": _exact(constant="value"),
        "iota": _exact(integers=_iota, run=_run("iota")),
        "dynamic_iota": _exact(integers=_iota, run=_run("dynamic_iota")),
        "and": _exact(run=_pair("", "numpy:bitwise_and", "numpy:logical_and"), identity=-1),
        "or": _exact(run=_pair("", "numpy:bitwise_or", "numpy:logical_or"), identity=0),
        "xor": _exact(run=_pair("", "numpy:bitwise_xor", "numpy:logical_xor")),
        "not": _exact(run=OnElements("", "numpy:invert", "numpy:logical_not")),
        "count_leading_zeros popcnt": _exact(run=_run("count_bits")),
        "shift_left shift_right_arithmetic shift_right_logical": _undefined(run=_run("shift")),
        # Reductions
        "batch_norm_inference": _rounded(
            normalization=_batch_norm, rule=own(0), run=_run("normalize")
        ),
        "reduce": _rounded(rule=_reduce, reduction=reduction_by_region, run=_run("reduce")),
        "reduce_window": _rounded(
            rule=_reduce_window, reduction=_read_pool, run=_run("reduce_window")
        ),
        # Ops that stay in floats
        "get_dimension_size": _exact(reads_lengths=True, run=_run("get_dimension_size")),
        "case if": _exact(has_blocks=True, stays_float=_REGIONS, run=_run("branch")),
        "while": _exact(
            effects=Effects.UNDEFINED,
            has_blocks=True,
            stays_float=_REGIONS,
            iteration=_while,
            run=_run("repeat"),
        ),
        "return": _exact(yields=True),
        "all_gather all_reduce all_to_all collective_broadcast collective_permute "
        "cross-replica-sum infeed outfeed recv reduce_scatter send async_start async_done": OpModel(
            stays_float="other devices or hosts see its operands"
        ),
        "batch_norm_grad batch_norm_training select_and_scatter": _pure(
            stays_float="it is a step of training"
        ),
        "bitcast_convert": _exact(
            stays_float="it reads bits, not numbers", reads_bits=True, run=BITCAST
        ),
        "cholesky triangular_solve": _pure(
            stays_float="a rounded matrix may have no such factorization or inverse"
        ),
        "complex imag real": _exact(stays_float=_COMPLEX),
        "fft": _pure(stays_float=_COMPLEX),
        "composite": OpModel(bits=Bits.ROUNDED, stays_float=_CUSTOM, run=_run("composite")),
        "custom_call": OpModel(stays_float=_CUSTOM),
        "einsum unary_einsum": _pure(stays_float="StableHLO removed it"),
        "get_tuple_element tuple": _exact(stays_float="it has tuples"),
        "rng rng_bit_generator": OpModel(stays_float="its result is random"),
    },
    DialectTraits(finest=Granularity.PER_AXIS, arithmetic=StableHLOArithmetic),
)
