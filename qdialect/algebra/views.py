"""
Elements as they are moved: an array, a splat, or a view that is copied later.

`ElementSlots` are the elements of a small tensor, moved as slots of the tensor it broadcasts to.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Final, SupportsIndex, TypeAlias, Union, cast

from typing_extensions import override

from qdialect.algebra.blocked_copy import contiguous, contiguous_bytes, write
from qdialect.algebra.run_map import IntArray, SlotMap, regroup
from qdialect.support.arguments import integer, integers, shown
from qdialect.support.lazy_numpy import ArrayFunctions, NDArray, np

MAX_RANK: Final = 64
"""The maximum rank of a numpy array."""

_BACKWARDS = slice(None, None, -1)


@dataclass(frozen=True, eq=False)
class ArrayView(ArrayFunctions):
    """
    A view of an array, each of whose axes is a group of dimensions of that array.

    Strides alone cannot express the reshape of a transposed array: numpy copies it. A view only
    regroups dimensions, so that a chain of movements ends in one copy, made by `array`. Two
    movements copy immediately: a reshape between factors that do not divide each other, and a
    slice of an axis that was merged from transposed dimensions.
    """

    factors: NDArray[Any]

    groups: tuple[int, ...]
    """The number of dimensions of `factors` in each axis; the first dimension varies slowest."""

    @classmethod
    def of(cls, array: NDArray[Any]) -> ArrayView:
        """A view of `array` with the same axes."""
        return cls(array, (1,) * array.ndim)

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes."""
        if self._is_plain:
            return self.factors.shape
        return tuple(math.prod(lengths) for lengths in self._lengths)

    def array(self) -> NDArray[Any]:
        """The elements as an array of `shape`: without a copy where strides can express it."""
        if self._is_plain:
            return self.factors
        steps = list(zip(self.factors.shape, self.factors.strides, strict=True))
        groups = (steps[group.start : group.stop] for group in self._dimensions)
        factors = self.factors if all(map(_is_one_axis, groups)) else contiguous(self.factors)
        return factors.reshape(self.shape)

    def write(self, target: NDArray[Any]) -> None:
        """Write the elements to `target`: see `qdialect.algebra.blocked_copy.write`."""
        if target.shape != self.shape:
            raise ValueError(f"shapes {self.shape} and {target.shape} differ")
        if target.size:
            # Splitting the axes of `target` never copies.
            write(self.factors, target.reshape(self.factors.shape))

    def to_bytes(self, dtype: np.dtype[Any]) -> bytes:
        """The elements in row-major order, in one copy; integers may be cast to `dtype`."""
        return contiguous_bytes(self.factors, dtype)

    def transpose(self, axes: Sequence[int], /) -> ArrayView:
        """Axis `i` of the result is axis `axes[i]`."""
        if self._is_plain:
            return ArrayView(self.factors.transpose(axes), self.groups)
        dimensions = self._dimensions
        return ArrayView(
            self.factors.transpose([d for axis in axes for d in dimensions[axis]]),
            tuple(self.groups[axis] for axis in axes),
        )

    def reshape(self, shape: Sequence[int], /) -> ArrayView:
        """The same elements in row-major order, as an array of `shape`."""
        regrouped = None if 0 in shape else self._regroup(tuple(shape))
        return regrouped or ArrayView.of(self.array().reshape(shape))

    def take(self, indices: NDArray[np.int64], axis: int) -> ArrayView:
        """The positions `indices` (int64, 1-d) of `axis`: a copy."""
        if self.groups[axis] != 1:
            return ArrayView.of(self.array().take(indices, axis=axis))
        # numpy copies arrays that are not contiguous first, so take along the axes in memory order.
        order = sorted(range(self.factors.ndim), key=lambda d: -abs(self.factors.strides[d]))
        dimension = order.index(self._dimensions[axis].start)
        taken = self.factors.transpose(order).take(indices, axis=dimension)
        return ArrayView(taken.transpose(np.argsort(order)), self.groups)

    def __getitem__(self, slices: tuple[slice, ...], /) -> ArrayView:
        """The elements in `slices`, one per axis."""
        selected: list[slice] = []
        for positions, lengths in zip(slices, self._lengths, strict=True):
            length = math.prod(lengths)
            if len(lengths) == 1:
                selected.append(positions)
            elif positions.indices(length) == (0, length, 1):
                selected += [slice(None)] * len(lengths)
            elif positions == _BACKWARDS:
                selected += [_BACKWARDS] * len(lengths)
            else:
                return ArrayView.of(self.array()[slices])
        return ArrayView(self.factors[tuple(selected)], self.groups)

    @classmethod
    @override
    def _concatenate(cls, parts: Sequence[ArrayView], axis: SupportsIndex = 0) -> ArrayView:
        before, after = parts[0].shape[:axis], parts[0].shape[int(axis) + 1 :]
        ends = list(accumulate((part.shape[axis] for part in parts), initial=0))
        dtype = np.result_type(*(part.factors for part in parts))
        result = np.empty((*before, ends[-1], *after), dtype=dtype)
        for part, positions in zip(parts, pairwise(ends), strict=True):
            part.write(result[(slice(None),) * len(before) + (slice(*positions),)])
        return cls.of(result)

    @override
    def _broadcast_to(self, shape: Sequence[int]) -> ArrayView:
        added = len(shape) - len(self.groups)
        repeated: list[tuple[int, ...]] = [(1,)] * added
        for length, lengths in zip(shape[added:], self._lengths, strict=True):
            repeated.append(lengths if length == math.prod(lengths) else (1,))
        if sum(map(len, repeated)) > MAX_RANK:
            return ArrayView.of(np.broadcast_to(self.array(), shape))
        factors = self.factors.reshape([n for lengths in repeated for n in lengths])
        wanted = [
            n
            for length, lengths in zip(shape, repeated, strict=True)
            for n in (lengths if length == math.prod(lengths) else (length,))
        ]
        return ArrayView(np.broadcast_to(factors, wanted), tuple(map(len, repeated)))

    @override
    def _pad(self, pad_width: Sequence[tuple[int, int]], mode: str = "constant") -> ArrayView:
        return ArrayView.of(np.pad(self.array(), pad_width, cast(Any, mode)))

    @property
    def _is_plain(self) -> bool:
        """Whether each axis consists of one dimension."""
        return self.groups == (1,) * self.factors.ndim

    @property
    def _dimensions(self) -> list[range]:
        ends = list(accumulate(self.groups, initial=0))
        return [range(*bounds) for bounds in pairwise(ends)]

    @property
    def _lengths(self) -> list[tuple[int, ...]]:
        lengths = self.factors.shape
        return [lengths[group.start : group.stop] for group in self._dimensions]

    def _regroup(self, shape: tuple[int, ...]) -> ArrayView | None:
        """The reshape done by splitting and grouping dimensions; None if it needs a copy."""
        regrouping = regroup(self.shape, shape)
        if any(before != after for before, after in regrouping.groups):
            return None
        dimensions: list[tuple[int, ...]] = []
        for lengths, factors in zip(self._lengths, regrouping.operand_factors, strict=True):
            inner = regroup(lengths, factors)
            if any(before != after for before, after in inner.groups):
                return None
            dimensions += inner.result_factors
        counts = iter(map(len, dimensions))
        groups = tuple(sum(next(counts) for _ in factors) for factors in regrouping.result_factors)
        lengths = [length for factor in dimensions for length in factor]
        if len(lengths) > MAX_RANK:
            return None
        return ArrayView(self.factors.reshape(lengths), groups)


def _is_one_axis(steps: Sequence[tuple[int, int]]) -> bool:
    """
    Whether dimensions of these lengths and strides can be merged into one axis without a copy.
    """
    moving = [step for step in steps if step[0] != 1]
    return all(outer == length * inner for (_, outer), (length, inner) in pairwise(moving))


class Joined:
    """
    A concatenation of arrays along an axis, copied when its elements are first needed.

    A concatenation built in many steps is copied only once.
    """

    def __init__(self, parts: Sequence[ArrayView | Joined], axis: int) -> None:
        first, length = parts[0], sum(part.shape[axis] for part in parts)
        self.axis = axis
        self.shape: tuple[int, ...] = (*first.shape[:axis], length, *first.shape[axis + 1 :])
        self.dtype: np.dtype[Any] = (first if isinstance(first, Joined) else first.factors).dtype
        self._parts = [self._own(part) for part in parts]
        self._is_part = False
        self._view: ArrayView | None = None

    def _own(self, part: ArrayView | Joined) -> ArrayView | Joined:
        """
        `part` itself, or its array if it already belongs to another concatenation.

        Otherwise `x = concat(x, x)`, n times, would expand to 2**n parts.
        """
        if isinstance(part, Joined):
            if part._is_part or part.axis != self.axis:
                return part.view()
            part._is_part = True
        return part

    def view(self) -> ArrayView:
        """The elements; the first call copies them."""
        if self._view is None:
            arrays = [part.array() for part in self._flat_parts()]
            self._view = ArrayView.of(np.concatenate(arrays, axis=self.axis))
            self._parts.clear()
        return self._view

    def _flat_parts(self) -> list[ArrayView]:
        flat: list[ArrayView] = []
        pending = self._parts[::-1]
        while pending:
            part = pending.pop()
            if isinstance(part, ArrayView):
                flat.append(part)
            elif part._view is not None:
                flat.append(part._view)
            else:
                pending += part._parts[::-1]
        return flat


@dataclass(frozen=True)
class Splat(ArrayFunctions):
    """
    A tensor of `shape` whose elements all equal `value`; it takes no memory.

    It moves as an array does. Concatenation and padding return a splat without comparing
    values: the caller checks that they are equal, see `Movement.keeps_splats`.
    """

    value: Any
    """A numpy scalar. Floats and complex numbers are held as bits: an integer, or void."""

    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        """Normalize the fields. Raises TypeError, and ValueError for a negative length."""
        value = self.value
        if not isinstance(value, np.generic):
            object.__setattr__(self, "value", _scalar(value))
        elif (value := cast("np.generic[Any]", value)).dtype.kind not in "iuV":
            raise TypeError(
                f"the value of a splat must be an integer, but is {shown(value)}; a float "
                "is given as its bits, an unsigned integer"
            )
        object.__setattr__(self, "shape", integers("shape", self.shape))
        if any(length < 0 for length in self.shape):
            raise ValueError(f"{list(self.shape)} is not a shape: a length is negative")

    def transpose(self, axes: Sequence[int], /) -> Splat:
        """Axis `i` of the result is axis `axes[i]`."""
        return Splat(self.value, tuple(self.shape[axis] for axis in axes))

    def reshape(self, shape: Sequence[int], /) -> Splat:
        """The same elements as a tensor of `shape`."""
        return Splat(self.value, tuple(shape))

    def take(self, indices: NDArray[np.int64], axis: int) -> Splat:
        """The positions `indices` of `axis`."""
        before, after = self.shape[:axis], self.shape[axis + 1 :]
        return Splat(self.value, (*before, len(indices), *after))

    def __getitem__(self, slices: tuple[slice, ...], /) -> Splat:
        """The elements in `slices`, one per axis."""
        lengths = zip(slices, self.shape, strict=True)
        return Splat(self.value, tuple(len(range(n)[positions]) for positions, n in lengths))

    @classmethod
    @override
    def _concatenate(cls, parts: Sequence[Splat], axis: SupportsIndex = 0) -> Splat:
        first, axis = parts[0], int(axis)
        length = sum(part.shape[axis] for part in parts)
        return Splat(first.value, (*first.shape[:axis], length, *first.shape[axis + 1 :]))

    @override
    def _broadcast_to(self, shape: Sequence[int]) -> Splat:
        return Splat(self.value, tuple(shape))

    @override
    def _pad(self, pad_width: Sequence[tuple[int, int]], mode: str = "constant") -> Splat:
        lengths = zip(self.shape, pad_width, strict=True)
        return Splat(self.value, tuple(low + n + high for n, (low, high) in lengths))


def _scalar(value: object) -> np.integer[Any]:
    number = integer("the value of a splat", value)
    try:
        return np.int64(number) if number < 1 << 63 else np.uint64(number)
    except OverflowError:
        raise ValueError(f"the value of a splat must fit 64 bits, but is {number}") from None


Elements: TypeAlias = Union["NDArray[Any]", Splat]
"""The elements of a constant, in the form in which constants hold them."""


@dataclass(frozen=True)
class Unread:
    """Elements that are in a file and are not read: only their shape, dtype and name move."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    key: str
    """The name of the tensor; after movements that of the moved tensor, which is yet to be made."""

    def moved(self, movement: object, shape: tuple[int, ...], others: Sequence[Unread]) -> Unread:
        """The tensor after a movement, whose name is this one with a suffix that identifies it."""
        text = "\n".join([repr(movement), self.key, *(other.key for other in others)])
        suffix = hashlib.sha256(text.encode()).hexdigest()[:12]
        return Unread(shape, self.dtype, f"{self.key}_{suffix}")


Values: TypeAlias = Elements | ArrayView | Joined
"""Elements after movements, possibly not copied yet."""


def as_view(values: Values) -> ArrayView:
    """`values` as a view of an array; a splat becomes a view of one element."""
    if isinstance(values, ArrayView):
        return values
    if isinstance(values, Joined):
        return values.view()
    if isinstance(values, Splat):
        values = np.broadcast_to(np.asarray(values.value), values.shape)
    return ArrayView.of(values)


def values_dtype(values: Values) -> np.dtype[Any]:
    """The dtype of the elements."""
    if isinstance(values, Splat):
        return values.value.dtype
    return (values.factors if isinstance(values, ArrayView) else values).dtype


@dataclass(frozen=True, eq=False)
class ElementSlots(SlotMap):
    """The map from each position of a tensor to an element; equal neighbours form one run."""

    ends: tuple[IntArray, ...]
    """For each axis, the end of each run: int64, as in `SlotMap`."""

    elements: NDArray[Any]
    """One element per slot, floats as their bits: `elements.shape[axis] == len(ends[axis])`."""

    @classmethod
    def of(cls, values: Values) -> ElementSlots:
        """The map of a non-empty tensor in which each position reads its own element."""
        runs = (1,) * len(values.shape) if isinstance(values, Splat) else values.shape
        ends = tuple(
            np.arange(1, count + 1, dtype=np.int64) * (length // count)
            for length, count in zip(values.shape, runs, strict=True)
        )
        if isinstance(values, Splat):
            return cls(ends, np.asarray(values.value).reshape(runs))
        return cls(ends, as_view(values).array())

    @property
    @override
    def slot_arrays(self) -> tuple[NDArray[Any]]:
        return (self.elements,)

    @override
    def _with_slots(
        self, ends: tuple[IntArray, ...], arrays: Sequence[NDArray[Any]]
    ) -> ElementSlots:
        (elements,) = arrays
        return ElementSlots(ends, elements)

    @property
    @override
    def _meaning(self) -> tuple[NDArray[Any]]:
        return (self.elements,)
