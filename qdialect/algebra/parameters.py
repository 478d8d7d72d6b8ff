"""
The quantization parameters of a tensor, which move along with its elements.

A quantized tensor is `(C, p)`: stored codes `C[i]` and a function `p` from the index
of an element to a slot, which is a scale and a zero point. A shape op is a function `f`
from result indices to operand indices, so that always and exactly

    C' = C . f        p' = p . f
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, Final, NamedTuple, Self, TypeAlias

from typing_extensions import override

from qdialect.algebra.codebooks import Codebook
from qdialect.algebra.run_map import IntArray, SlotMap
from qdialect.support.arguments import (
    check_instance,
    integer,
    integer_array,
    integers,
    number_array,
)
from qdialect.support.float_format import FLOAT_FORMATS, FloatFormat, Rounding
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.support.memory import BoundedCache


class Granularity(Enum):
    """Which elements of a tensor share a slot."""

    PER_TENSOR = "per-tensor"
    PER_AXIS = "per-axis"
    SUB_CHANNEL = "sub-channel"


FloatArray: TypeAlias = "NDArray[np.float64]"


class Slot(NamedTuple):
    """The scale and zero point of an element, read as `(value - zero_point) * scale`."""

    scale: float
    zero_point: int


MAX_WIDTH: Final = 63
"""The maximum width of storage integers in bits: arithmetic on them is int64."""

MAX_STORAGE_WIDTH: Final = 32
"""
The largest storage width of a quantized type: https://mlir.llvm.org/docs/Dialects/QuantDialect/.
"""


class StorageFormat(NamedTuple):
    """
    What the codes of a storage are: integers of `width` bits, 1 to 63, signed or not.

    A code is the integer itself, unless a codebook says which number it stands for.
    """

    width: int
    signed: bool

    codebook: Codebook | None = None
    """The numbers of the codes, of floats and of tables."""

    @classmethod
    def of_floats(cls, name: str) -> StorageFormat:
        """Bit patterns of a float format of at most eight bits, by MLIR's name."""
        format = FLOAT_FORMATS[name]
        width = format.exponent_bits + format.precision
        numbers = format.decode(np.arange(1 << width, dtype=np.uint8))
        return cls(width, False, Codebook.of_floats(name, numbers, format.precision - 1))

    @classmethod
    def of_table(cls, width: int, numbers: Sequence[float] | FloatArray) -> StorageFormat:
        """Unsigned codes of a table of float32, with an entry for each."""
        entries = np.array(numbers, np.float32).astype("<f8").tobytes()
        book = Codebook(f"!quant.quantile<ui{width}:f32>", 0, entries, is_float=False)
        return cls(width, False, book)

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest integer of the width."""
        least = -(1 << (self.width - 1)) if self.signed else 0
        return least, least + (1 << self.width) - 1

    @property
    def name(self) -> str:
        """The storage in messages: `i8`, `u8`, or the name of the codebook."""
        if self.codebook is not None:
            return self.codebook.name
        return f"{'i' if self.signed else 'u'}{self.width}"

    @property
    def noun(self) -> str:
        """What a code is, in messages."""
        return "integer" if self.codebook is None else f"code of {self.codebook.name}"

    def wrap(self, values: IntArray) -> IntArray:
        """
        `values`, int64 of any shape, truncated to the width as MLIR's lowering truncates them.
        """
        dropped = 64 - self.width
        if self.signed:
            return (values << dropped) >> dropped
        return values & ((1 << self.width) - 1)

    def holds(self, dtype: np.dtype[Any] | None) -> bool:
        """Whether all integers of a numpy dtype have the width."""
        if dtype is None:
            return False
        if dtype.kind == "u":
            return 8 * dtype.itemsize <= self.width - self.signed
        return dtype.kind == "i" and self.signed and 8 * dtype.itemsize <= self.width

    def zero_points(self, written: IntArray, *, signed: bool | None = None) -> IntArray:
        """
        Zero points as they are read: truncated to the width, with a sign if `signed` says so.

        Those of floats and tables are subtracted from numbers, so that no width truncates them.
        """
        if self.codebook is not None:
            return written
        return StorageFormat(self.width, self.signed if signed is None else signed).wrap(written)

    def numbers(self, codes: NDArray[np.integer[Any]]) -> NDArray[Any]:
        """The numbers of `codes`, truncated to the width. Raises ValueError for one without."""
        if self.codebook is not None:
            return self.codebook.decode(self.wrap(codes.astype(np.int64, copy=False)))
        is_narrow = self.holds(codes.dtype)
        return codes if is_narrow else self.wrap(codes.astype(np.int64, copy=False))

    def nearest(
        self,
        numbers: NDArray[np.float64],
        minimum: float,
        maximum: float,
        rounding: Rounding = Rounding.NEAREST_EVEN,
        dtype: str | np.dtype[Any] = "i8",
    ) -> NDArray[np.integer[Any]]:
        """
        The codes in a storage range that are nearest to `numbers`: of `dtype`.

        NaN becomes `minimum` where codes are integers, which alone heed `rounding`. Raises
        ValueError for NaN where no code has it.
        """
        if self.codebook is not None:
            return self.codebook.nearest(numbers, minimum, maximum).astype(dtype)
        whole = np.asarray(rounding.round(numbers))
        np.clip(whole, minimum, maximum, out=whole)
        if math.isnan(whole.sum()):
            # Of NaN and the minimum, `fmax` is the minimum.
            np.fmax(whole, minimum, out=whole)
        return whole.astype(dtype)

    def codes_near(self, steps: FloatArray, zero_points: IntArray) -> IntArray:
        """
        Codes that may stand for `steps` more than the zero points, whatever the storage range.

        Raises ValueError for numbers beyond the width, and for NaN where no code has it.
        """
        if self.codebook is not None:
            codes = self.codebook.nearest(steps - (0.0 - zero_points), -math.inf, math.inf)
            return codes.astype(np.int64, copy=False)
        whole = np.rint(steps)
        if not (np.abs(whole) <= 1 << self.width).all():
            raise ValueError("it is out of the range of the storage")
        return zero_points + whole.astype(np.int64)

    def zeros(self, zero_points: IntArray) -> IntArray:
        """The codes of real zero, for zero points as they are read. Raises ValueError."""
        return zero_points if self.codebook is None else self.codebook.zeros(zero_points)

    def codes(self, minimum: float = -math.inf, maximum: float = math.inf) -> IntArray:
        """The codes in a storage range, by default all: int64, ascending."""
        if self.codebook is not None:
            codes = self.codebook.codes
            return codes[self.codebook.are_in_range(codes, minimum, maximum)]
        least, greatest = self.bounds
        return np.arange(max(least, minimum), min(greatest, maximum) + 1, dtype=np.int64)

    def first_outside(
        self, codes: NDArray[np.integer[Any]], minimum: int, maximum: int
    ) -> tuple[int, ...] | None:
        """The index of a code outside a storage range, which bounds the numbers of floats."""
        if (book := self.codebook) is not None:
            usable = book.codes[book.are_in_range(book.codes, minimum, maximum)]
            is_whole = len(usable) == len(book.codes)
            if is_whole and (
                not codes.size or (codes.min() >= usable[0] and codes.max() <= usable[-1])
            ):
                return None
            outside = np.isin(codes, usable, invert=True)
        elif not codes.size or (codes.min() >= minimum and codes.max() <= maximum):
            return None
        else:
            outside = (codes < minimum) | (codes > maximum)
        index = np.unravel_index(int(np.argmax(outside)), outside.shape) if outside.any() else None
        return None if index is None else tuple(map(int, index))

    def shown(self, code: int) -> str:
        """A code in messages: as the number that it stands for if it is a float."""
        book = self.codebook
        if book is None or not book.is_float:
            return str(code)
        return str(book.decode(np.array(code)).item())

    @property
    def is_total(self) -> bool:
        """Whether every pattern of the width is a code."""
        book = self.codebook
        return book is None or (len(book.codes) == 1 << self.width and not book.refusal)


_KNOWN_ENDS = BoundedCache[tuple[int, int], IntArray]()


def _ends_of_blocks(length: int, count: int) -> IntArray:
    """The ends of `count` equal blocks of an axis: a read-only array."""
    if (known := _KNOWN_ENDS.get((length, count))) is not None:
        return known
    ends = np.arange(1, count + 1, dtype=np.int64) * (length // count)
    ends.flags.writeable = False
    return _KNOWN_ENDS.add((length, count), ends, count)


@dataclass(frozen=True, eq=False)
class QuantizationParameters(SlotMap):
    """
    The scale and zero point of every element of a tensor.

    The meaning of a scale is its value rounded to `expressed`, and that of a zero point its
    value truncated to `storage`: https://mlir.llvm.org/docs/Dialects/QuantDialect/. Values are
    kept as written, and compared by meaning.
    """

    ends: tuple[IntArray, ...]
    """For each axis, the end of each run: int64, as in `SlotMap`."""

    scales: FloatArray
    """One scale per slot: float64, `scales.shape[axis] == len(ends[axis])`."""

    zero_points: IntArray
    """One zero point per slot: int64, of the shape of `scales`."""

    expressed: FloatFormat
    storage: StorageFormat

    def __post_init__(self) -> None:
        """Raise ValueError if the shapes of the arrays do not match."""
        runs = tuple(len(ends) for ends in self.ends)
        if self.scales.shape != runs or self.zero_points.shape != runs:
            raise ValueError(
                f"{self.scales.shape} scales and {self.zero_points.shape} zero points "
                f"do not match {runs} runs"
            )

    @classmethod
    def from_blocks(
        cls,
        shape: Sequence[int],
        scales: FloatArray,
        zero_points: IntArray,
        expressed: FloatFormat,
        storage: StorageFormat,
    ) -> QuantizationParameters:
        """
        Parameters of a tensor of `shape`, each axis divided into blocks of equal length.

        `scales` (float64) and `zero_points` (int64) are arrays or nested sequences with one
        dimension per axis, whose length is the number of blocks on that axis. Raises TypeError
        for arguments of another kind, and ValueError for shapes that do not fit each other and
        for zero points that are fractions.
        """
        shape = integers("shape", shape)
        scales = number_array("scales", scales)
        zero_points = integer_array("zero_points", zero_points)
        check_instance("expressed", expressed, FloatFormat, 'FLOAT_FORMATS["f32"]')
        check_instance("storage", storage, StorageFormat, "StorageFormat(8, signed=True)")
        if not 1 <= integer("width", storage.width) <= MAX_WIDTH:
            raise ValueError(f"storage has {storage.width} bits, but may have 1 to {MAX_WIDTH}")
        if len(shape) != scales.ndim:
            raise ValueError(f"{scales.ndim}-d scales do not match a shape of rank {len(shape)}")
        if any(length < 0 for length in shape):
            raise ValueError(f"{list(shape)} is not a static shape")
        ends: list[IntArray] = []
        for length, slots in zip(shape, scales.shape, strict=True):
            if slots < 1 or length % slots:
                raise ValueError(f"{slots} blocks do not divide an axis of {length}")
            ends.append(_ends_of_blocks(length, slots))
        return cls(tuple(ends), scales, zero_points, expressed, storage)

    @property
    @override
    def slot_arrays(self) -> tuple[FloatArray, IntArray]:
        return self.scales, self.zero_points

    @override
    def _with_slots(self, ends: tuple[IntArray, ...], arrays: Sequence[NDArray[Any]]) -> Self:
        scales, zero_points = arrays
        return type(self)(ends, scales, zero_points, self.expressed, self.storage)

    @cached_property
    def rounded_scales(self) -> FloatArray:
        """The scales rounded to the expressed type: float64."""
        return self.expressed.round(self.scales)

    @cached_property
    def cut_zero_points(self) -> IntArray:
        """The zero points truncated to the storage width, if codes are integers: int64."""
        return self.storage.zero_points(self.zero_points)

    @property
    @override
    def _meaning(self) -> tuple[IntArray, IntArray]:
        return self._scale_bits, self.cut_zero_points

    @cached_property
    def _scale_bits(self) -> IntArray:
        # -0.0 is not 0.0, and NaN is itself.
        return np.require(self.rounded_scales, requirements="C").view(np.int64)

    def slot(self, index: Sequence[int]) -> Slot:
        """The slot of the element at `index`: the rounded scale and the truncated zero point."""
        runs = self.runs_at(index)
        return Slot(float(self.rounded_scales[runs]), int(self.cut_zero_points[runs]))

    def expand(self) -> tuple[FloatArray, IntArray]:
        """
        The rounded scales (float64) and truncated zero points (int64) of the elements.

        Both broadcast to the tensor's shape: an axis of one run has length one.
        """
        scales, zero_points = self.rounded_scales, self.cut_zero_points
        for axis, ends in enumerate(self.ends):
            if len(ends) > 1:
                slots = self.axis_slots(axis)
                scales = scales.take(slots, axis=axis)
                zero_points = zero_points.take(slots, axis=axis)
        return scales, zero_points

    def read(self, codes: NDArray[np.integer[Any]], *, in_single: bool = False) -> NDArray[Any]:
        """
        The numbers that stored codes represent: `(code - zero_point) * scale`, float64.

        `codes` broadcast to the tensor's shape, and are truncated to the storage width; those of
        floats and tables stand for their numbers. Every step is rounded to the expressed type, as
        in https://mlir.llvm.org/docs/Dialects/QuantDialect/. Exact for expressed types of up to 64
        bits. `in_single` gives the same numbers, as float32 where arithmetic in it does. Raises
        TypeError and ValueError if `codes` are not integers, and ValueError for one without a
        number.
        """
        dtype, rounded = self._arithmetic(in_single)
        is_narrow = self.storage.holds(getattr(codes, "dtype", None))
        stored_codes = codes if is_narrow else integer_array("codes", codes)
        scales, zero_points = self._expand_as(dtype)
        with np.errstate(all="ignore"):
            stored = rounded(self.storage.numbers(stored_codes).astype(dtype))
            difference = rounded(stored - rounded(zero_points))
            return rounded(difference * scales)

    def _expand_as(self, dtype: type[np.floating[Any]]) -> Iterator[NDArray[Any]]:
        """`expand()` as floats; zero points of 64 bits are rounded twice in each arithmetic."""
        return (
            part.astype(np.float64, copy=False).astype(dtype, copy=False) for part in self.expand()
        )

    def _arithmetic(
        self, in_single: bool
    ) -> tuple[type[np.floating[Any]], Callable[[NDArray[Any]], NDArray[Any]]]:
        """The dtype to compute in, and the function that rounds to the expressed type."""
        if not in_single or self.expressed.dtype != "float32":
            return np.float64, self.expressed.round
        if self.storage.width <= self.expressed.precision:
            # Each step is rounded by numpy, to the same numbers.
            return np.float32, np.asarray
        return np.float64, self.expressed.round

    def store(
        self,
        numbers: NDArray[np.floating[Any]],
        minimum: int,
        maximum: int,
        rounding: Rounding = Rounding.NEAREST_EVEN,
        *,
        in_single: bool = False,
        dtype: str | np.dtype[Any] = "i8",
    ) -> NDArray[np.integer[Any]]:
        """
        The codes that store numbers: `round(number / scale + zero_point)`, clamped, of `dtype`.

        `numbers` are of the expressed type, float64 or float32, and broadcast to the tensor's
        shape; `in_single` is as in `read`.
        Division and addition are rounded to the expressed type, and the sum to a code: see
        `StorageFormat.nearest`. Results below `minimum` or above `maximum`, also infinite ones,
        are clamped. Exact for expressed types of up to 64 bits. Raises TypeError if `numbers`
        holds anything but numbers, and ValueError for NaN where no code has it.
        """
        computed, rounded = self._arithmetic(in_single)
        scales, zero_points = self._expand_as(computed)
        if getattr(numbers, "dtype", None) != computed:
            numbers = number_array("numbers", numbers).astype(computed, copy=False)
        with np.errstate(all="ignore"):
            shifted = np.asarray(rounded(numbers / scales))
            # Subtracting 0.0 keeps -0.0, and adding it does not.
            shifted = rounded(shifted - (0.0 - rounded(zero_points)))
        return self.storage.nearest(shifted, minimum, maximum, rounding, dtype)
