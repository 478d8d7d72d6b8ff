"""How ops of StableHLO are read: https://openxla.org/stablehlo/spec."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from string import ascii_letters
from types import MappingProxyType
from typing import Any, Final, NamedTuple, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.joins import InsertSlice
from qdialect.algebra.movement import (
    BroadcastInDim,
    Movement,
    Reshape,
    Shape,
    Slice,
    Take,
    Transpose,
)
from qdialect.ir.value_types import element_type_or_self
from qdialect.ops.elementwise import converted, recreated, same_shape, unbroadcast
from qdialect.ops.fields import (
    Arithmetic,
    Contraction,
    Elementwise,
    ElementwiseModel,
    Integers,
    Lookup,
    Movements,
    Normalization,
    Operands,
    QuantizationRule,
    RuleKind,
    SmallOperand,
    Window,
)
from qdialect.ops.interface import (
    Refusal,
    RefusalCode,
    attribute_of,
    find_attribute,
    integer_of,
    integers_of,
    name_of,
    rule_of,
    set_attribute,
    shape_of,
    static_shape_of,
)
from qdialect.ops.readers import padded, per_window, positive
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.support.memory import registered_cache
from qdialect.support.text import repeated

# Movements


def sliced(op: Operation) -> Movement:
    starts, limits = integers_of(op, "start_indices"), integers_of(op, "limit_indices")
    return Slice.between(starts, limits, integers_of(op, "strides"))


def broadcast_in_dim(op: Operation, operands: Operands) -> Movements:
    dims = integers_of(op, "broadcast_dimensions")
    return Movements(op.operands, [BroadcastInDim(dims, shape_of(op.results[0]))])


def pad(op: Operation, operands: Operands) -> Movements:
    movements = padded(
        shape_of(op.operands[0]),
        integers_of(op, "edge_padding_low"),
        integers_of(op, "edge_padding_high"),
        integers_of(op, "interior_padding"),
    )
    return Movements(op.operands[:1], movements, op.operands[1])


# These move elements where their operands are constant.


def dynamic_broadcast_in_dim(op: Operation, operands: Operands) -> Movements:
    return broadcast_in_dim(op, operands)._replace(operands=op.operands[:1])


def dynamic_slice(op: Operation, operands: Operands) -> Movements:
    sizes = integers_of(op, "slice_sizes")
    starts = _clamped(op.operands[1:], sizes, op.operands[0], operands)
    return Movements(op.operands[:1], [Slice(starts, sizes, (1,) * len(sizes))])


def dynamic_update_slice(op: Operation, operands: Operands) -> Movements:
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


def real_dynamic_slice(op: Operation, operands: Operands) -> Movements:
    starts, limits, strides = (_listed(operand, operands) for operand in op.operands[1:])
    return Movements(op.operands[:1], [Slice.between(starts, limits, strides)])


def dynamic_pad(op: Operation, operands: Operands) -> Movements:
    low, high, interior = (_listed(operand, operands) for operand in op.operands[2:])
    movements = padded(shape_of(op.operands[0]), low, high, interior)
    return Movements(op.operands[:1], movements, op.operands[1])


def _listed(value: SSAValue, operands: Operands) -> tuple[int, ...]:
    return tuple(operands.integers(value).tolist())


def dynamic_gather(op: Operation, operands: Operands) -> Movements:
    return _gathered(op, _listed(op.operands[2], operands), operands)


def gather(op: Operation, operands: Operands) -> Movements:
    return _gathered(op, integers_of(op, "slice_sizes"), operands)


def _gathered(op: Operation, sizes: Shape, operands: Operands) -> Movements:
    """
    A gather of whole slices, at positions of at most one axis.

    Where a slice is as long as its axis, every start index is clamped to zero.
    """
    shape = static_shape_of(op.operands[0])
    numbers = _GatherNumbers.of(op)
    taken = [axis for axis, (size, n) in enumerate(zip(sizes, shape, strict=True)) if size != n]
    if len(taken) > 1 or any(sizes[axis] != 1 or axis not in numbers.starts for axis in taken):
        raise Refusal(RefusalCode.UNKNOWN_OP, "it is not a take along one axis")
    indices_shape = static_shape_of(op.operands[1])
    if numbers.index_axis == len(indices_shape):
        indices_shape = (*indices_shape, 1)
    numbers.check(shape, sizes, indices_shape)
    batch = (*indices_shape[: numbers.index_axis], *indices_shape[numbers.index_axis + 1 :])
    window = tuple(sizes[axis] for axis in range(len(shape)) if axis not in numbers.dropped)
    movements: list[Movement] = [Reshape((*(1 for _ in batch), *window))]
    if taken:
        (axis,) = taken
        vectors = operands.integers(op.operands[1]).reshape(indices_shape)
        along_axis = vectors.take(numbers.starts.index(axis), axis=numbers.index_axis)
        indices = along_axis.clip(0, shape[axis] - 1).reshape(-1).tolist()
        others = (other for other in range(len(shape)) if other != axis)
        movements = [
            Take(axis, tuple(indices)),
            Transpose((axis, *others)),
            Reshape((*batch, *window)),
        ]
    # Axes of the operand become `offset_dims`, and axes of the indices the other ones.
    rank = len(batch) + len(window)
    places = (*(at for at in range(rank) if at not in numbers.offsets), *numbers.offsets)
    lengths = dict(zip(places, (*batch, *window), strict=True))
    movements.append(BroadcastInDim(places, tuple(lengths[at] for at in range(rank))))
    return Movements(op.operands[:1], movements)


GATHERED_AXES: Final = (
    "offset_dims",
    "collapsed_slice_dims",
    "operand_batching_dims",
    "start_indices_batching_dims",
    "start_index_map",
)
"""The fields of the dimension numbers of a gather that are lists."""


class _GatherNumbers(NamedTuple):
    """The fields of `dimension_numbers`: https://openxla.org/stablehlo/spec#gather."""

    offsets: tuple[int, ...]
    collapsed: tuple[int, ...]
    batching: tuple[int, ...]
    indices_batching: tuple[int, ...]
    starts: tuple[int, ...]
    index_axis: int

    @property
    def dropped(self) -> tuple[int, ...]:
        """The axes of the operand that the result does not have."""
        return (*self.collapsed, *self.batching)

    @classmethod
    def of(cls, op: Operation) -> _GatherNumbers:
        """The numbers of `op`. Raises Refusal if there is another field."""
        numbers = dimension_numbers(op, "dimension_numbers")
        unknown = numbers.keys() - {*GATHERED_AXES, "index_vector_dim"}
        if unknown:
            raise Refusal(RefusalCode.UNKNOWN_OP, f"'{min(unknown)}' is not supported")
        (index_axis,) = numbers.get("index_vector_dim", (0,))
        return cls(*(numbers.get(field, ()) for field in GATHERED_AXES), index_axis=index_axis)

    def check(self, shape: Shape, sizes: Shape, indices: Shape) -> None:
        """
        Raise Refusal if they are invalid for a gather of slices of `sizes`.

        `indices` is the shape of the indices with their axis of vectors.
        """
        count = len(indices) - 1 + len(shape) - len(self.dropped)
        axes = (*self.collapsed, *self.batching), (*self.starts, *self.batching)
        fits = (
            all(
                len(set(part)) == len(part) and all(at < len(shape) for at in part) for part in axes
            )
            and all(sizes[axis] == 1 for axis in self.dropped)
            and len(self.offsets) == len(shape) - len(self.dropped)
            and list(self.offsets) == sorted(set(self.offsets))
            and all(at < count for at in self.offsets)
            and indices[self.index_axis] == len(self.starts)
            and [indices[at] for at in self.indices_batching]
            == [shape[axis] for axis in self.batching]
        )
        if not fits:
            raise Refusal(RefusalCode.UNKNOWN_OP, "its dimension numbers do not match its operands")


def broadcast_again(op: Operation, operand: SmallOperand, type: Attribute) -> list[Operation]:
    new = recreated(op, [operand.value], type)
    if isinstance(find_attribute(op, "broadcast_dimensions"), DenseArrayBase):
        axes = DenseArrayBase.from_list(i64, operand.axes)
    else:
        type = TensorType(i64, [len(operand.axes)])
        axes = DenseIntOrFPElementsAttr.from_list(type, operand.axes)
    set_attribute(new, "broadcast_dimensions", axes)
    return [new]


def reshape_again(op: Operation, operand: SSAValue, type: Attribute) -> list[Operation]:
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


def arithmetic(kind: Arithmetic) -> ElementwiseModel:
    """The model of an op of operands that have the shape of its result."""

    def read(op: Operation, operands: Operands) -> Elementwise:
        return same_shape(op, kind, op.operands)

    return unbroadcast(read)


CONVERSION: Final = unbroadcast(converted)


def iota(op: Operation, values: Sequence[Integers]) -> NDArray[Any]:
    shape, axis = static_shape_of(op.results[0]), integer_of(op, "iota_dimension")
    ones = [-1 if at == axis else 1 for at in range(len(shape))]
    return np.broadcast_to(np.arange(shape[axis]).reshape(ones), shape)


def compare(op: Operation, values: Sequence[Integers]) -> NDArray[Any]:
    order = _ORDER.search(str(attribute_of(op, "comparison_direction")))
    if order is None:
        raise Refusal(RefusalCode.UNKNOWN_OP, "its order is not understood")
    one, other = values
    return _ORDERS[order[0]](one, other)


_ORDERS: Final[dict[str, Callable[..., Any]]] = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "GE": operator.ge,
    "GT": operator.gt,
    "LE": operator.le,
    "LT": operator.lt,
}
_ORDER: Final = re.compile(rf"\b({'|'.join(_ORDERS)})\b")


# Sums of products, and look-ups


def dot(op: Operation) -> Contraction:
    ranks = len(shape_of(op.operands[0])), len(shape_of(op.operands[1]))
    equations = {(1, 1): "k,k->", (2, 1): "mk,k->m", (1, 2): "k,kn->n", (2, 2): "mk,kn->mn"}
    if ranks not in equations:
        raise Refusal(RefusalCode.UNKNOWN_OP, f"its operands have ranks {ranks[0]} and {ranks[1]}")
    return Contraction.of(equations[ranks])


_SIDES: Final = ("lhs", "rhs")


def dot_general(op: Operation) -> Contraction:
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


def batch_norm(op: Operation) -> Normalization:
    epsilon: Any = attribute_of(op, "epsilon")
    operand, scale, offset, mean, variance = op.operands
    axis = integer_of(op, "feature_index")
    return Normalization(operand, axis, scale, offset, mean, variance, epsilon.value.data)


def convolution(op: Operation) -> Contraction:
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
    return Contraction(lhs, rhs, result, groups=counts[0])


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


def windows(op: Operation, contraction: Contraction) -> Sequence[Window]:
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


def lookup(op: Operation) -> Lookup:
    """A gather of whole rows of a table, such as an embedding."""
    axes = dimension_numbers(op, "dimension_numbers").get("start_index_map", ())
    sizes, shape = integers_of(op, "slice_sizes"), shape_of(op.operands[0])
    if len(axes) != 1 or any(
        size != (1 if axis in axes else length)
        for axis, (size, length) in enumerate(zip(sizes, shape, strict=True))
    ):
        raise Refusal(RefusalCode.UNKNOWN_OP, "it does not gather whole rows of a table")
    return Lookup(0, axes[0])


# Rules


_HOMOGENEOUS = ("stablehlo.add", "stablehlo.maximum", "stablehlo.minimum")
_MAXIMUM = ("stablehlo.maximum", "stablehlo.minimum")
_COMBINERS = (*_MAXIMUM, "stablehlo.add", "stablehlo.multiply", "stablehlo.subtract")


def clamp(op: Operation) -> QuantizationRule:
    limits = (op.operands[0], op.operands[2]) if len(op.operands) == 3 else None
    return QuantizationRule(RuleKind.OWN, (1,), frozenset({"clamp"}), limits=limits)


def optimization_barrier(op: Operation) -> QuantizationRule | None:
    """A barrier of one operand; None for several, which are forwarded separately."""
    if len(op.operands) != 1:
        return None
    return QuantizationRule(RuleKind.SHARED, is_homogeneous=True, keeps_places=True)


def map_of_body(op: Operation) -> QuantizationRule | None:
    """An elementwise function, from the body."""
    inner = list(op.regions[0].block.ops)[:-1]
    if any(rule_of(body_op) is None or body_op.regions for body_op in inner):
        return None
    return QuantizationRule(RuleKind.OWN, functions=frozenset({"map"}))


def scatter(op: Operation) -> QuantizationRule | None:
    """Updates that replace elements, or are combined with them."""
    if len(op.operands) != 3 or len(op.results) != 1:
        return None
    inner = [name_of(body_op) for body_op in op.regions[0].block.ops]
    is_set = len(inner) == 1
    is_known = is_set or (len(inner) == 2 and inner[0] in _COMBINERS)
    return (
        QuantizationRule(RuleKind.SHARED if is_set else RuleKind.OWN, (0, 2)) if is_known else None
    )


def sort(op: Operation) -> QuantizationRule:
    """A reordering of elements: of one float tensor, or of several with separate parameters."""
    floats = [
        value for value in op.operands if isinstance(element_type_or_self(value.type), AnyFloat)
    ]
    return QuantizationRule(RuleKind.SHARED if len(floats) == 1 else RuleKind.OWN)


def reduce(op: Operation) -> QuantizationRule | None:
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
    chosen = tuple(
        at
        for at, value in enumerate(op.operands[: len(op.results)])
        if isinstance(element_type_or_self(value.type), AnyFloat)
    )
    kind = RuleKind.SHARED if len(chosen) == 1 else RuleKind.OWN
    return QuantizationRule(kind, chosen, frozenset({"reduce"}))


_CHOOSING = frozenset(
    f"stablehlo.{name}"
    for name in ("and", "compare", "maximum", "minimum", "not", "or", "return", "select")
)


def reduce_window(op: Operation) -> QuantizationRule | None:
    """A pool. A maximum is an element, or the initial value unless that is the lowest number."""
    if (combiner := _combiner(op)) is None:
        return None
    is_maximum = combiner in _MAXIMUM
    return QuantizationRule(
        RuleKind.SHARED if is_maximum else RuleKind.OWN,
        (0,),
        frozenset() if is_maximum else frozenset({"reduce"}),
        is_homogeneous=combiner in _HOMOGENEOUS,
        mixed_axes=_windowed_axes(op),
        starts=(1,),
    )


def _functions_of(op: Operation | None) -> frozenset[str]:
    read = None if op is None else rule_of(op)
    return frozenset() if read is None else read.functions


def _windowed_axes(op: Operation) -> tuple[int, ...]:
    """The axes along which a window has several elements, or elements are padded or skipped."""
    lists = [
        integers_of(op, name)
        for name in ("window_dimensions", "window_strides", "base_dilations", "window_dilations")
        if find_attribute(op, name) is not None
    ]
    if find_attribute(op, "padding") is not None:
        pads = integers_of(op, "padding")
        lists += [[1 + pad for pad in pads[at::2]] for at in (0, 1)]
    return tuple(axis for axis, numbers in enumerate(zip(*lists, strict=True)) if {*numbers} != {1})


def _combiner(op: Operation) -> str | None:
    """The function of the single op that combines two elements; None for other bodies."""
    if len(op.results) != 1 or len(op.operands) != 2:
        return None
    names = [name_of(inner) for inner in op.regions[0].block.ops]
    return names[0] if len(names) == 2 else None
