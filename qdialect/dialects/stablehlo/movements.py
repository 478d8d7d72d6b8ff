"""How ops of StableHLO move elements, and compute them."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from xdsl.dialects.builtin import DenseArrayBase, DenseIntOrFPElementsAttr, TensorType, i64
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.joins import Concat, InsertSlice
from qdialect.algebra.movement import (
    BroadcastInDim,
    Movement,
    Reshape,
    Reverse,
    Shape,
    Slice,
    Take,
    Transpose,
)
from qdialect.ops.elementwise import converted, recreated, same_shape, unbroadcast
from qdialect.ops.fields import (
    Arithmetic,
    Elementwise,
    ElementwiseModel,
    Integers,
    Movements,
    Operands,
    SmallOperand,
)
from qdialect.ops.interface import (
    Refusal,
    RefusalCode,
    attribute_of,
    find_attribute,
    integer_of,
    integers_of,
    set_attribute,
    shape_of,
    static_shape_of,
)
from qdialect.ops.readers import padded
from qdialect.support.lazy_numpy import np
from qdialect.support.text import repeated

if TYPE_CHECKING:
    from numpy.typing import NDArray


def transpose(op: Operation, operands: Operands) -> Movements:
    return Movements(op.operands, [Transpose(integers_of(op, "permutation"))])


def reshape(op: Operation, operands: Operands) -> Movements:
    return Movements(op.operands, [Reshape(shape_of(op.results[0]))])


def slice_of(op: Operation, operands: Operands) -> Movements:
    starts, limits = integers_of(op, "start_indices"), integers_of(op, "limit_indices")
    return Movements(op.operands, [Slice.between(starts, limits, integers_of(op, "strides"))])


def concatenate(op: Operation, operands: Operands) -> Movements:
    return Movements(op.operands, [Concat(integer_of(op, "dimension"))])


def broadcast_in_dim(op: Operation, operands: Operands) -> Movements:
    dims = integers_of(op, "broadcast_dimensions")
    return Movements(op.operands, [BroadcastInDim(dims, shape_of(op.results[0]))])


def reverse(op: Operation, operands: Operands) -> Movements:
    return Movements(op.operands, [Reverse(integers_of(op, "dimensions"))])


def pad(op: Operation, operands: Operands) -> Movements:
    movements = padded(
        shape_of(op.operands[0]),
        integers_of(op, "edge_padding_low"),
        integers_of(op, "edge_padding_high"),
        integers_of(op, "interior_padding"),
    )
    return Movements(op.operands[:1], movements, op.operands[1])


# These move elements where their operands are constant.


def dynamic_reshape(op: Operation, operands: Operands) -> Movements:
    # A static shape of the result says the same as the operand.
    return Movements(op.operands[:1], [Reshape(shape_of(op.results[0]))])


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
    starts: Sequence[SSAValue], sizes: Shape, of: SSAValue, operands: Operands
) -> tuple[int, ...]:
    """Where a slice of `sizes` starts: so that it is inside the tensor."""
    lengths = static_shape_of(of)
    found = [int(operands.integers(start)) for start in starts]
    return tuple(
        max(0, min(start, length - size))
        for start, length, size in zip(found, lengths, sizes, strict=True)
    )


def real_dynamic_slice(op: Operation, operands: Operands) -> Movements:
    starts, limits, strides = (_listed(each, operands) for each in op.operands[1:])
    return Movements(op.operands[:1], [Slice.between(starts, limits, strides)])


def dynamic_pad(op: Operation, operands: Operands) -> Movements:
    low, high, interior = (_listed(each, operands) for each in op.operands[2:])
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
        """
        The numbers of `op`, parsed from text, which unregistered attributes print the same.

        Raises Refusal if the text has another field.
        """
        text = str(attribute_of(op, "dimension_numbers"))
        body = _GATHER_NUMBERS.fullmatch(text)
        if body is None:
            raise Refusal(RefusalCode.UNKNOWN_OP, "its dimension numbers cannot be parsed")
        found: dict[str, tuple[int, ...]] = {}
        for field in _FIELD.finditer(body[1] or ""):
            name, single, several = field.groups()
            if name in found or (name == "index_vector_dim") != (single is not None):
                raise Refusal(RefusalCode.UNKNOWN_OP, f"'{name}' is not supported")
            found[name] = tuple(int(number) for number in _NUMBER.findall(single or several))
        (index_axis,) = found.pop("index_vector_dim", (0,))
        numbers = cls(
            found.pop("offset_dims", ()),
            found.pop("collapsed_slice_dims", ()),
            found.pop("operand_batching_dims", ()),
            found.pop("start_indices_batching_dims", ()),
            found.pop("start_index_map", ()),
            index_axis,
        )
        if found:
            raise Refusal(RefusalCode.UNKNOWN_OP, f"'{next(iter(found))}' is not supported")
        return numbers

    def check(self, shape: Shape, sizes: Shape, indices: Shape) -> None:
        """
        Raise Refusal if they are invalid for a gather of slices of `sizes`.

        `indices` is the shape of the indices with their axis of vectors.
        """
        count = len(indices) - 1 + len(shape) - len(self.dropped)
        axes = (*self.collapsed, *self.batching), (*self.starts, *self.batching)
        fits = (
            all(len(set(of)) == len(of) and all(at < len(shape) for at in of) for of in axes)
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


# Possessive quantifiers keep the time linear in the length of the text.
_NUMBER: Final = re.compile("[0-9]++")
_MORE_NUMBERS = repeated(r",\s*+[0-9]++\s*+")
_NUMBERS = rf"\s*+(?:[0-9]++\s*+{_MORE_NUMBERS})?"
_FIELD: Final = re.compile(rf"([a-z_]++)\s*+=\s*+(?:([0-9]++)|\[({_NUMBERS})\])\s*+")
_ANY_FIELD = rf"[a-z_]++\s*+=\s*+(?:[0-9]++|\[{_NUMBERS}\])\s*+"
_MORE_FIELDS = repeated(rf",\s*+{_ANY_FIELD}")
_GATHER_NUMBERS: Final = re.compile(
    rf"#stablehlo\.gather(?:<\s*+((?:{_ANY_FIELD}{_MORE_FIELDS})?)>)?"
)


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
    found = _ORDER.search(str(attribute_of(op, "comparison_direction")))
    if found is None:
        raise Refusal(RefusalCode.UNKNOWN_OP, "its order is not understood")
    one, other = values
    return _ORDERS[found[0]](one, other)


_ORDERS: Final[dict[str, Callable[..., Any]]] = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "GE": operator.ge,
    "GT": operator.gt,
    "LE": operator.le,
    "LT": operator.lt,
}
_ORDER: Final = re.compile(rf"\b({'|'.join(_ORDERS)})\b")
