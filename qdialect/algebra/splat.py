"""Elements as they are moved: an array, a splat, or a view that is copied later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias, Union, cast

from typing_extensions import override

from qdialect.algebra.array_view import ArrayView
from qdialect.algebra.concat_view import Joined
from qdialect.support.arguments import integer, integers, shown
from qdialect.support.lazy_numpy import np
from qdialect.support.numpy_protocol import ArrayFunctions

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
