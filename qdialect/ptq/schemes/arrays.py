"""
Ranges and codes of float arrays, computed in cache-sized blocks, by a thread pool.

A pass over memory costs more than the arithmetic. So each block of elements is read from memory
once, processed in the cache, and its codes are written once. numpy releases the interpreter lock,
so threads process blocks in parallel. The result does not depend on the blocks or the number of
threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import groupby, pairwise
from threading import Lock, local
from typing import Any, Final, Self

from qdialect.algebra.blocked_copy import contiguous, processors, word_of
from qdialect.algebra.codebooks import PART
from qdialect.algebra.parameters import QuantizationParameters
from qdialect.algebra.run_map import check_slots
from qdialect.ptq.schemes.schemes import (
    PER_TENSOR,
    Blocks,
    Choice,
    Rounding,
    Scheme,
    ZeroPointPlace,
    first_index,
    just_below_half,
    of_slot,
)
from qdialect.support.lazy_numpy import NDArray, aligned, np

_BLOCK: Final = 1 << 18
"""
Elements per block: 1 MiB of float32, which fits the cache. With smaller blocks, threads wait for
the interpreter lock.
"""

_PIECE: Final = 1 << 21
"""Elements copied at once from an array in another order: 8 MiB of float32."""

_MOST_THREADS: Final = 8
"""More threads would wait for memory."""

_FEW: Final = 32
"""Inner axes shorter than this cost numpy more per row of parameters than per element."""

_SHORT: Final = 256
"""Rows up to this length are reduced faster as columns of a copy than one by one."""

_TURNED: Final = 1 << 13
"""Elements of rows that are copied to columns together, in the first cache."""

_TURNS: Final = 16
"""How often, before the columns are reduced."""

_LONG: Final = 512
"""From this length of the inner axis on, the cost per row is negligible."""

_FLOATS = ("f2", "f4", "f8")


@dataclass(frozen=True, eq=False)
class ArrayRange:
    """The range of each slot of an array."""

    minimum: NDArray[np.float32]
    """In the shape of the slots, one dimension per axis. Zeros are positive."""
    maximum: NDArray[np.float32]
    nans: int
    """The number of NaNs, which are skipped."""


@dataclass(frozen=True, eq=False)
class QuantizedArray:
    """Codes, and the parameters to read them with."""

    codes: NDArray[Any]
    """In the shape of the array, of the smallest dtype that holds the storage."""
    choice: Choice
    range: ArrayRange

    @property
    def parameters(self) -> QuantizationParameters:
        """The scales and zero points of the codes."""
        return self.choice.parameters(self.codes.shape)


class AllNaNError(ValueError):
    """All elements of an array, or of a slot, are NaN."""


def array_range(
    array: NDArray[Any], blocks: Blocks = PER_TENSOR, *, threads: int | None = None
) -> ArrayRange:
    """
    Minimum and maximum of each slot, without NaN: exact, and rounded to float32 from float64.

    `array` is float16, float32 or float64, of any shape and order. `threads` is by default the
    number of processors, at most eight. Raises TypeError for another dtype, AllNaNError if all
    elements of a slot are NaN, ValueError if `blocks` do not fit, and TooManySlotsError.
    """
    _check_floats(array)
    lengths, slots = blocks.lengths(array.shape), blocks.slots(array.shape)
    if not array.size:
        raise ValueError(f"an array of shape {list(array.shape)} has no range")
    # An axis with stride 0, as in a splat, repeats one position, which has the range of all.
    once = [not stride for stride in array.strides]
    distinct = array[tuple(slice(1) if is_once else slice(None) for is_once in once)]
    check_slots(math.prod(slots), distinct.size)
    lengths, visited = (
        tuple(1 if is_once else n for n, is_once in zip(counts, once, strict=True))
        for counts in (lengths, slots)
    )
    extremes = _Extremes(visited, array.dtype, skips_nans=False)
    with _Pool(threads) as pool:
        _visit(distinct, lengths, visited, extremes, pool)
        if np.isnan(extremes.minimum.min()):
            extremes = _Extremes(visited, array.dtype, skips_nans=True)
            _visit(distinct, lengths, visited, extremes, pool)
            is_empty = np.isnan(extremes.minimum)
            if is_empty.any():
                at = first_index(is_empty) if blocks.sizes else ()
                raise AllNaNError(f"all elements{of_slot(at)} are NaN: they have no range")
    with np.errstate(over="ignore"):
        low, high = (end.astype("f4", copy=False) for end in (extremes.minimum, extremes.maximum))
    for end in (low, high):
        # A negative zero becomes positive.
        np.add(end, 0, out=end)
    low, high = (np.broadcast_to(end, slots) for end in (low, high))
    return ArrayRange(low, high, extremes.nans * (array.size // distinct.size))


def whole_range(
    array: NDArray[Any], *, threads: int | None = None
) -> tuple[np.float32, np.float32, int]:
    """
    The minimum, the maximum and the number of NaNs of all elements.

    They are those of `array_range`, which takes longer for a small array, and raises the same.
    """
    if 0 < array.size <= _PIECE and array.dtype.str[1:] in _FLOATS:
        if 0 in array.strides:
            array = array[tuple(slice(None) if stride else slice(1) for stride in array.strides)]
        low, high = array.min(), array.max()
        if low == low:
            zero = np.float32(0)
            if array.dtype == zero.dtype:
                return low + zero, high + zero, 0
            with np.errstate(over="ignore"):
                return np.float32(low) + zero, np.float32(high) + zero, 0
    ranges = array_range(array, threads=threads)
    return ranges.minimum.reshape(-1)[0], ranges.maximum.reshape(-1)[0], ranges.nans


def quantize_values(
    array: NDArray[Any], choice: Choice, *, threads: int | None = None
) -> NDArray[Any]:
    """
    The codes of `array`, by the arithmetic of `choice`.

    `array` is as for `array_range`; its elements are rounded to float32 first. The slots of
    `choice` have one dimension per axis of it, and divide it into equal blocks; or there is one
    slot. Infinities have the lowest or highest code. Raises TypeError for another dtype, and
    ValueError for NaN, which has no code, and for slots that do not fit.
    """
    _check_floats(array)
    slots = choice.scales.shape if choice.scales.size > 1 else (1,) * array.ndim
    if len(slots) != array.ndim or any(
        not count or length % count for length, count in zip(array.shape, slots, strict=True)
    ):
        raise ValueError(f"slots of shape {list(slots)} do not divide {list(array.shape)}")
    lengths = tuple(length // count for length, count in zip(array.shape, slots, strict=True))
    return _codes(array, lengths, slots, choice, None, threads)


def quantize_array(
    array: NDArray[Any],
    scheme: Scheme,
    blocks: Blocks = PER_TENSOR,
    *,
    threads: int | None = None,
) -> QuantizedArray:
    """
    The codes of a constant, with parameters that `scheme` chooses for the ranges of its slots.

    Raises as `array_range`, `Scheme.choose` and `quantize_values` do.
    """
    ranges = array_range(array, blocks, threads=threads)
    if ranges.nans:
        raise ValueError(_nan_message(array))
    choice = scheme.choose(ranges.minimum, ranges.maximum)
    lengths, slots = blocks.lengths(array.shape), ranges.minimum.shape
    codes = _codes(array, lengths, slots, choice, ranges, threads)
    return QuantizedArray(codes, choice, ranges)


def quantize_alike(
    arrays: Sequence[NDArray[Any]], scheme: Scheme, blocks: Blocks = PER_TENSOR
) -> list[QuantizedArray]:
    """
    Like `quantize_array`, for a batch of arrays of one shape and dtype, with the same results.

    A batch is faster, since calls of numpy dominate the time of small arrays.
    """
    if len(arrays) == 1 or (scheme.magnitudes is not None and scheme.magnitudes.reads_all):
        return [quantize_array(array, scheme, blocks) for array in arrays]
    of_stack = Blocks(((0, 1), *((axis + 1, size) for axis, size in blocks.sizes)))
    stacked = quantize_array(np.stack(arrays), scheme, of_stack)
    choices, ends = (
        stacked.choice.along_first_axis(),
        (stacked.range.minimum, stacked.range.maximum),
    )
    return [
        QuantizedArray(codes, choice, ArrayRange(low, high, 0))
        for codes, choice, low, high in zip(stacked.codes, choices, *ends, strict=True)
    ]


def _codes(
    array: NDArray[Any],
    lengths: Sequence[int],
    slots: tuple[int, ...],
    choice: Choice,
    known: ArrayRange | None,
    threads: int | None,
) -> NDArray[Any]:
    """The codes. `known` is the range of the elements, if the caller knows it."""
    codes = np.empty(array.shape, choice.scheme.code_dtype)
    if codes.size:
        with _Pool(threads) as pool:
            _visit(array, lengths, slots, _Codes(choice, slots, codes, known), pool)
    return codes


def _check_floats(array: NDArray[Any]) -> None:
    if array.dtype.newbyteorder("=").str[1:] not in _FLOATS:
        raise TypeError(f"elements must be float16, float32 or float64, not {array.dtype}")


def _nan_message(array: NDArray[Any]) -> str:
    return f"element {list(first_index(np.isnan(array)))} is NaN, which has no code"


class _Pool:
    """Runs independent calls, on a thread pool if there are several."""

    def __init__(self, threads: int | None) -> None:
        self.threads = threads or min(processors(), _MOST_THREADS)
        self._executor: ThreadPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._executor is not None:
            self._executor.shutdown()

    def run(self, function: Callable[[slice], None], count: int) -> None:
        """
        Call `function` on slices that partition `range(count)`.

        Raises the exceptions of `function`.
        """
        if count == 1 or self.threads == 1:
            function(slice(0, count))
            return
        if self._executor is None:
            # Starting threads takes longer than processing a small array.
            self._executor = ThreadPoolExecutor(self.threads)
        parts = min(count, 4 * self.threads)
        edges = [count * part // parts for part in range(parts + 1)]
        ranges = [slice(*pair) for pair in pairwise(edges)]
        for _ in self._executor.map(function, ranges):
            pass


class _Layout:
    """
    A row-major array with adjacent axes merged, so that each axis either divides slots or does not.

    An axis that does not has length 1 in `slots`.
    """

    def __init__(self, lengths: Sequence[int], slots: Sequence[int], block: int) -> None:
        axes = [
            (size, is_slot)
            for count, length in zip(slots, lengths, strict=True)
            for size, is_slot in ((count, True), (length, False))
            if size > 1
        ]
        merged = [
            (math.prod(size for size, _ in group), is_slot)
            for is_slot, group in ((key, list(run)) for key, run in groupby(axes, lambda a: a[1]))
        ] or [(1, False)]
        self.shape = tuple(size for size, _ in merged)
        self.slots = tuple(size if is_slot else 1 for size, is_slot in merged)
        self.split = len(merged) - 1
        """The outermost axis along which a block has several positions."""
        self.row = 1
        while self.split and self.row * self.shape[self.split] <= block // 2:
            self.row *= self.shape[self.split]
            self.split -= 1
        self.step = max(1, block // self.row)
        self.steps = math.ceil(self.shape[self.split] / self.step)
        self.prefix = self.shape[: self.split]
        self.count = math.prod(self.prefix) * self.steps

    def blocks(self, which: slice) -> Iterator[tuple[slice, tuple[int, ...], tuple[slice, ...]]]:
        """The places in the flat array, the shapes, and the places of slots along first axes."""
        length, inner = self.shape[self.split], self.shape[self.split + 1 :]
        for number in range(which.start, which.stop):
            before, step = divmod(number, self.steps)
            start = step * self.step
            stop = min(start + self.step, length)
            index = np.unravel_index(before, self.prefix) if self.prefix else ()
            at = [*(slice(int(i), int(i) + 1) for i in index), slice(start, stop)]
            slots = tuple(
                part if count > 1 else slice(None)
                for part, count in zip(at, self.slots, strict=False)
            )
            flat = before * length
            elements = slice((flat + start) * self.row, (flat + stop) * self.row)
            yield elements, (stop - start, *inner), slots


class _Extremes:
    """Computes minimum, maximum, and the number of NaNs."""

    def __init__(self, slots: tuple[int, ...], dtype: np.dtype[Any], *, skips_nans: bool) -> None:
        self.skips_nans = skips_nans
        self.block = _BLOCK
        self.minimum = np.full(slots, np.nan if skips_nans else np.inf, dtype.newbyteorder("="))
        self.maximum = np.full(slots, np.nan if skips_nans else -np.inf, dtype.newbyteorder("="))
        self.nans = 0
        self._lock = Lock()
        # Infinities as initial values could not tell an empty slot from a slot of infinities.
        self._functions = (np.fmin, np.fmax) if skips_nans else (np.minimum, np.maximum)

    def visit(self, layout: _Layout, piece: _Piece, elements: NDArray[Any], which: slice) -> None:
        ends = [end[(*piece.slots, ...)] for end in (self.minimum, self.maximum)]
        for place, shape, slots in layout.blocks(which):
            values = elements[place].reshape(shape)
            kept = layout.slots[layout.split :]
            lows, highs = _all_reduced(self._functions, values, kept)
            nans = int(np.count_nonzero(np.isnan(values))) if self.skips_nans else 0
            with self._lock:
                self.nans += nans
                for function, extreme, end in zip(
                    self._functions, (lows, highs), ends, strict=True
                ):
                    # The elements of a piece are contiguous, so this does not copy.
                    part = end.reshape(layout.slots)[slots]
                    function(part, extreme.reshape(part.shape), out=part)


def _all_reduced(
    functions: Sequence[Any], values: NDArray[Any], slots: Sequence[int]
) -> list[NDArray[Any]]:
    """
    `values` reduced by each function along the axes that are 1 in `slots`.

    The results keep the number of axes.
    """
    width = values.shape[-1]
    count = values.size // width
    if slots[-1] > 1 or not 1 < width <= _SHORT or count <= width:
        return [_reduced(function, values, slots) for function in functions]
    if any(
        length > 1 and slot == 1 for length, slot in zip(values.shape[:-1], slots[:-1], strict=True)
    ):
        # The last axis is reduced last, where fewer elements are left.
        return [
            _all_reduced([function], _reduced(function, values, (*slots[:-1], width)), slots)[0]
            for function in functions
        ]
    # numpy calls a function for each row that it reduces, but not for each column.
    word = word_of(math.gcd(width * values.dtype.itemsize, 16))
    words = values.reshape(count, width).view(word)
    tall = max(1, _TURNED // width)
    step = _TURNS * tall
    buffer = aligned(min(step, count) * words.shape[1], word)
    ends = [np.empty((*values.shape[:-1], 1), values.dtype) for _ in functions]
    for start in range(0, count, step):
        rows = words[start : start + step]
        turns = 1 if len(rows) % tall else len(rows) // tall
        columns = buffer[: rows.size].reshape(turns, words.shape[1], -1)
        np.copyto(columns, rows.reshape(turns, -1, words.shape[1]).swapaxes(1, 2))
        for function, end in zip(functions, ends, strict=True):
            parts = function.reduce(columns.view(values.dtype), axis=1).reshape(-1)
            while parts.size > len(rows):
                parts = function(parts[::2], parts[1::2])
            end.reshape(-1)[start : start + step] = parts
    return ends


def _reduced(function: Any, values: NDArray[Any], slots: Sequence[int]) -> NDArray[Any]:
    for axis in reversed(range(values.ndim)):
        if slots[axis] > 1 or values.shape[axis] == 1:
            continue
        rows = values.reshape(-1, values.shape[axis], math.prod(values.shape[axis + 1 :]))
        if 1 < rows.shape[2] < _LONG:
            rows = _with_longer_rows(function, rows)
        reduced = function.reduce(rows, axis=1)
        values = reduced.reshape(*values.shape[:axis], 1, *values.shape[axis + 1 :])
    return values


def _with_longer_rows(function: Any, rows: NDArray[Any]) -> NDArray[Any]:
    """Rows to reduce along axis 1, after several short rows were reduced as one longer row."""
    outer, count, inner = rows.shape
    several = _LONG // inner
    whole = count // several
    if whole < 2:
        return rows
    wide = rows[:, : whole * several].reshape(outer, whole, several * inner)
    reduced = function.reduce(wide, axis=1).reshape(outer, several, inner)
    return np.concatenate((reduced, rows[:, whole * several :]), axis=1)


class _Codes:
    """Writes codes."""

    def __init__(
        self,
        choice: Choice,
        slots: tuple[int, ...],
        codes: NDArray[Any],
        known: ArrayRange | None,
    ) -> None:
        self._choice = choice
        self._arithmetic = arithmetic = choice.arithmetic
        dtype = np.dtype("f8" if arithmetic.fused else arithmetic.precision)
        scales = choice.scales
        # A product with the reciprocal of a power of two is the quotient.
        fractions = np.bitwise_or.reduce(scales.view(np.int32), axis=None) & 0x7FFFFF
        self._is_multiplied = arithmetic.multiplies or choice.factors is not None or not fractions
        if choice.factors is not None:
            scales = choice.factors
        elif self._is_multiplied:
            with np.errstate(all="ignore"):
                scales = np.float32(1) / scales
        origin = choice.zero_points
        if arithmetic.place is ZeroPointPlace.AS_MINIMUM:
            origin = choice.minimum
        # Equal ones may be a view of one.
        self._has_origin = bool(origin.any() if any(origin.strides) else origin.flat[0])
        parameters = [scales, origin] if self._has_origin else [scales]
        self._parameters = [
            parameter.astype(dtype, copy=False).reshape(slots) for parameter in parameters
        ]
        self._dtype = dtype
        self._codes = codes
        # Codes wider than the significand of float32 are clamped as float64.
        self._is_wide = choice.scheme.storage.width > 24
        self._half = just_below_half(dtype)
        self._book = choice.scheme.storage.codebook
        self.block = _BLOCK if self._book is None else PART
        self._buffers = local()
        self._is_checked = True
        if known is not None and self._book is not None:
            # Then no product and no quotient is NaN.
            self._is_checked = not np.isfinite(self._parameters[0].max())
        elif known is not None:
            # Each step is monotonic, so that the ends of the range decide.
            self._is_checked = not all(map(self._fits, (known.minimum, known.maximum)))

    def _fits(self, values: NDArray[Any]) -> bool:
        """Whether the given value of each slot has a code without clamping."""
        scheme, flat = self._choice.scheme, values.reshape(-1)
        parameters = [parameter.reshape(-1) for parameter in self._parameters]
        for start in range(0, flat.size, _BLOCK):
            part = slice(start, start + _BLOCK)
            numbers = np.empty(flat[part].shape, self._dtype)
            with np.errstate(all="ignore"):
                self._quantize(flat[part], numbers, *(parameter[part] for parameter in parameters))
            if not scheme.minimum <= numbers.min() <= numbers.max() <= scheme.maximum:
                return False
        return True

    def visit(self, layout: _Layout, piece: _Piece, elements: NDArray[Any], which: slice) -> None:
        codes = self._codes[(*piece.place, ...)].reshape(-1)
        parameters = [
            parameter[(*piece.slots, ...)].reshape(layout.slots) for parameter in self._parameters
        ]
        buffers, ends = self._buffers, (self._choice.scheme.minimum, self._choice.scheme.maximum)
        if not hasattr(buffers, "numbers"):
            buffers.numbers = aligned(self.block, self._dtype)
            buffers.write = None
            if self._book is not None and self._dtype == np.float32:
                buffers.write = self._book.writer(*ends)
        with np.errstate(all="ignore"):
            for place, shape, slots in layout.blocks(which):
                values = elements[place]
                numbers = buffers.numbers[: values.size]
                of_block = [parameter[slots] for parameter in parameters]
                shape, of_block = _broadcast_shape(shape, of_block, layout)
                self._quantize(values.reshape(shape), numbers.reshape(shape), *of_block)
                if self._is_checked and np.isnan(numbers.max()):
                    raise _NanError
                if buffers.write is not None:
                    buffers.write(numbers, codes[place])
                    continue
                if self._book is not None:
                    numbers = self._book.nearest(numbers, *ends)
                elif self._is_checked:
                    numbers = self._bounded(numbers)
                np.copyto(codes[place], numbers, casting="unsafe")

    def _quantize(
        self, values: NDArray[Any], numbers: NDArray[Any], scale: Any, origin: Any = 0
    ) -> None:
        """Write the codes of rounded numbers, which may be out of range."""
        arithmetic, place = self._arithmetic, self._arithmetic.place
        if values.dtype.itemsize > 4:
            values = values.astype("f4")
        scaled = np.multiply if self._is_multiplied else np.divide
        if place is ZeroPointPlace.AS_MINIMUM:
            np.subtract(values, origin, out=numbers)
            values = numbers
        scaled(values, scale, out=numbers)
        if place is ZeroPointPlace.BEFORE_ROUNDING and self._has_origin:
            np.add(numbers, origin, out=numbers)
        if arithmetic.fused:
            _round_to_float32(numbers, values, scale, origin)
        if self._book is not None:
            return
        self._round(numbers)
        if place is ZeroPointPlace.AFTER_ROUNDING and self._has_origin:
            np.add(numbers, origin, out=numbers)
        elif place is ZeroPointPlace.AS_MINIMUM and self._choice.scheme.minimum:
            np.add(numbers, self._choice.scheme.minimum, out=numbers)

    def _round(self, numbers: NDArray[Any]) -> None:
        if self._arithmetic.rounding is Rounding.HALF_EVEN:
            np.rint(numbers, out=numbers)
            return
        half = self._half
        if self._arithmetic.place is not ZeroPointPlace.AS_MINIMUM:
            # All numbers below the minimum have the lowest code, with either rounding.
            half = np.copysign(half, numbers)
        np.add(numbers, half, out=numbers)
        np.trunc(numbers, out=numbers)

    def _bounded(self, numbers: NDArray[Any]) -> NDArray[Any]:
        if self._is_wide:
            numbers = numbers.astype("f8")
        scheme = self._choice.scheme
        low, high = np.asarray((scheme.minimum, scheme.maximum), numbers.dtype)
        return np.clip(numbers, low, high, out=numbers)


_DROPPED: Final = 29
"""The extra bits of the significand of float64 over float32."""


def _round_to_float32(
    sums: NDArray[Any], values: NDArray[Any], factors: NDArray[Any], addends: NDArray[Any]
) -> None:
    """
    Compute `values * factors + addends` of float64 in place, rounded to float32 once.

    Double rounding is wrong only for a sum halfway between two float32: then the lost part of the
    sum gives the direction.
    """
    is_halfway = (sums.view(np.int64) & ((1 << _DROPPED) - 1)) == 1 << (_DROPPED - 1)
    if is_halfway.any():
        values, factors, addends = (
            np.broadcast_to(operand, sums.shape)[is_halfway]
            for operand in (values, factors, addends)
        )
        # Exact: float64 has more than twice the digits of float32.
        halfway, products = sums[is_halfway], values.astype("f8") * factors
        added = halfway - products
        lost = (products - (halfway - added)) + (addends - added)
        nudged = np.nextafter(halfway, np.copysign(np.inf, lost))
        sums[is_halfway] = np.where(lost == 0, halfway, nudged)
    np.copyto(sums, sums.astype("f4"))


class _NanError(Exception):
    """An element is NaN."""


def _broadcast_shape(
    shape: tuple[int, ...], parameters: Sequence[NDArray[Any]], layout: _Layout
) -> tuple[tuple[int, ...], list[NDArray[Any]]]:
    """A shape of a block with long inner rows, and parameters that broadcast to it."""
    parameters = [parameter.reshape(parameter.shape[layout.split :]) for parameter in parameters]
    first = len(shape) - 1
    if not first or shape[-1] >= _FEW:
        return shape, parameters
    while first and math.prod(shape[first:]) < _LONG:
        first -= 1
    tail = shape[first:]
    row = math.prod(tail)
    rows: list[NDArray[Any]] = []
    for parameter in parameters:
        if parameter.shape[-1:] == (1,):
            # Repeating is faster than broadcasting along a short axis.
            parameter = parameter.repeat(tail[-1], -1)
        outer = parameter.shape[:first]
        if parameter.shape[first:] != tail:
            parameter = np.broadcast_to(parameter, (*outer, *tail))
        rows.append(parameter.reshape(*outer, row))
    return (*shape[:first], row), rows


@dataclass(frozen=True)
class _Piece:
    """A part of an array that is contiguous in row-major order."""

    place: tuple[slice, ...]
    """The positions along the leading axes; the piece spans the other axes."""
    slots: tuple[slice, ...]
    """The slots that it reads, along the axes of `place`."""


def _pieces(
    shape: Sequence[int], lengths: Sequence[int], slots: Sequence[int], before: _Piece
) -> Iterator[_Piece]:
    """Pieces of no more than `_PIECE` elements, each of whole blocks or of a part of one."""
    axis = len(before.place)
    row = math.prod(shape[axis + 1 :])
    if axis == len(shape) or row * shape[axis] <= _PIECE:
        yield before
        return
    length, step = lengths[axis], max(1, _PIECE // row)
    if step > length:
        step -= step % length
    for start in range(0, shape[axis], step if step > length else length):
        stop = min(start + max(step, length), shape[axis])
        for first in range(start, stop, step):
            last = min(first + step, stop)
            slot = slice(first // length, (last - 1) // length + 1)
            piece = _Piece((*before.place, slice(first, last)), (*before.slots, slot))
            yield from _pieces(shape, lengths, slots, piece) if row > _PIECE else (piece,)


def _visit(
    array: NDArray[Any],
    lengths: Sequence[int],
    slots: Sequence[int],
    visitor: _Extremes | _Codes,
    pool: _Pool,
) -> None:
    """Visit all blocks of `array`. Raises ValueError if `visitor` finds a NaN."""
    is_plain = array.flags.c_contiguous and array.dtype.isnative
    whole = _Piece((), ())
    pieces = [whole] if is_plain else _pieces(array.shape, lengths, slots, whole)
    try:
        for piece in pieces:
            part = array[(*piece.place, ...)]
            counts = [part.stop - part.start for part in piece.slots]
            counts += slots[len(counts) :]
            layout = _Layout(
                [n // c for n, c in zip(part.shape, counts, strict=True)], counts, visitor.block
            )
            if not is_plain:
                part = contiguous(part).astype(array.dtype.newbyteorder("="), copy=False)
            pool.run(partial(visitor.visit, layout, piece, part.reshape(-1)), layout.count)
    except _NanError:
        raise ValueError(_nan_message(array)) from None
