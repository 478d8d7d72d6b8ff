"""
Schemes: from a range to a scale and a zero point, and from values to codes.

`Blocks` are the elements that share a scale. A bias has the product of the scales of the input and
the weight, since it is added to their products.

Systems agree on `real = (code - zero_point) * scale`, and on little else. Each difference is a
field of `Scheme`; `presets.py` has the schemes of other systems.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from qdialect.algebra.parameters import MAX_STORAGE_WIDTH, QuantizationParameters, StorageFormat
from qdialect.ptq.schemes.magnitudes import MagnitudeRule, scales_of
from qdialect.support.arguments import (
    array_of,
    check_instance,
    integer,
    integer_array,
    integers,
)
from qdialect.support.float_format import FLOAT_FORMATS
from qdialect.support.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

_FEW_SLOTS: Final = 1 << 16
"""The number of slots whose parameters are chosen at once; bounds temporary memory to a few MiB."""

_LEAST_WITH_RECIPROCAL: Final = 2.0**-127
"""The reciprocal of a smaller scale is infinite in float32."""

_LEAST_FLOAT32: Final = 2.0**-149

_DIGITS: Final = 24
"""The bits of the significand of a float32."""


class Symmetry(Enum):
    """Whether the range of codes is symmetric about zero."""

    ASYMMETRIC = "asymmetric"
    SYMMETRIC = "symmetric"
    SYMMETRIC_IF_SIGNED = "symmetric-if-signed"
    """Symmetric for ranges with negative numbers; else the minimum has the lowest code."""


class Span(Enum):
    """The formula of a symmetric scale."""

    LARGER_SIDE = "larger-side"
    """The larger of `minimum / lowest code` and `maximum / highest code`."""

    EXTENDED_RANGE = "extended-range"
    """
    The range with its smaller side extended, over the number of steps.

    The side is first rounded to float32, and infinite ends to the largest finite number.
    """

    MAGNITUDE = "magnitude"
    """The larger magnitude over half the number of steps."""


class ZeroPointRule(Enum):
    """The formula of an asymmetric zero point, before it is clamped to the codes."""

    ROUNDED_DIFFERENCE = "rounded-difference"
    """`round(lowest code - minimum / scale)`."""

    ROUNDED_QUOTIENT = "rounded-quotient"
    """`lowest code - round(minimum / scale)`."""

    NEARER_END = "nearer-end"
    """
    `round(code - end / scale)`, for the end of the range with the smaller terms.

    Zero where the ends cancel to within the epsilon of float32, if zero is not the lowest code.
    """


class Rounding(Enum):
    """The rounding of ties."""

    HALF_AWAY = "half-away"
    """Away from zero, like C's `round`."""

    HALF_EVEN = "half-even"
    """To even, like C's `nearbyint`."""

    def round(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Round floats to integral numbers of the same dtype and shape."""
        if self is Rounding.HALF_EVEN:
            return np.rint(numbers)
        # Adding 0.5 would round the largest number below 0.5 to 1.
        return np.trunc(numbers + np.copysign(just_below_half(numbers.dtype), numbers))


def just_below_half(dtype: DTypeLike) -> Any:
    """The largest number below 0.5, of a float dtype."""
    one = np.ones((), dtype)
    return np.nextafter(one / 2, one * 0)


class ZeroPointPlace(Enum):
    """The step of quantization that adds the zero point."""

    BEFORE_ROUNDING = "before-rounding"
    """`round(value / scale + zero_point)`."""

    AFTER_ROUNDING = "after-rounding"
    """`round(value / scale) + zero_point`."""

    AS_MINIMUM = "as-minimum"
    """
    `lowest code + round((value - minimum) / scale)`, where `minimum` is that of the codes' range.
    """


@dataclass(frozen=True)
class ValueArithmetic:
    """The arithmetic from values to codes, which are clamped last."""

    rounding: Rounding
    place: ZeroPointPlace
    multiplies: bool
    """
    Whether values are multiplied by the float32 reciprocal of the scale, and not divided by it.
    """
    precision: str = "f4"
    """The numpy dtype of every step: "f4" or "f8"."""
    fused: bool = False
    """
    Whether product and zero point are combined with one rounding to float32 (fused multiply-add).
    """

    def __post_init__(self) -> None:
        """Raise ValueError for choices that contradict each other."""
        if self.fused and not (self.multiplies and self.place is ZeroPointPlace.BEFORE_ROUNDING):
            raise ValueError("only a product and a zero point before rounding can be fused")


@dataclass(frozen=True)
class Scheme:
    """
    A rule for the scale and zero point of a range, and for the codes of values.

    Ranges are float32. Raises ValueError for choices that contradict each other.
    """

    storage: StorageFormat
    minimum: int
    """The lowest code. A symmetric scheme that reserves the lowest one has `-maximum`."""
    maximum: int
    symmetry: Symmetry
    span: Span
    zero_point_rule: ZeroPointRule
    zero_point_rounding: Rounding
    values: ValueArithmetic
    """The arithmetic for values whose own range determined the parameters."""
    given_values: ValueArithmetic
    """The arithmetic for values with given parameters."""
    precision: str = "f8"
    """The numpy dtype that scale and zero point are computed in, before float32: "f4" or "f8"."""
    scale_floor: float = 0.0
    """The least scale."""
    scale_of_zero: float | None = None
    """The scale of a range without extent, before the floor."""
    symmetric_zero_point: int = 0
    power_of_two: bool = False
    """Whether a scale is raised to a power of two, after the zero point is computed."""
    magnitudes: MagnitudeRule | None = None
    """How a scale follows from the largest magnitude, in place of the fields above."""

    def __post_init__(self) -> None:
        check_instance("storage", self.storage, StorageFormat, "StorageFormat(8, signed=True)")
        if self.storage.codebook is not None:
            if self.magnitudes is None or self.symmetry is not Symmetry.SYMMETRIC:
                raise ValueError(
                    f"codes of {self.storage.name} need a symmetric scheme with `magnitudes`"
                )
            return
        width = integer("width", self.storage.width)
        if not 2 <= width <= MAX_STORAGE_WIDTH:
            raise ValueError(f"storage has {width} bits, but may have 2 to {MAX_STORAGE_WIDTH}")
        low, high = self.storage.bounds
        if not low <= self.minimum < self.maximum <= high:
            raise ValueError(
                f"codes {self.minimum} to {self.maximum} are not within {low} to {high}"
            )
        if not self.minimum <= self.symmetric_zero_point <= self.maximum:
            raise ValueError(f"zero point {self.symmetric_zero_point} is not a code")
        needs_signs = self.span is not Span.MAGNITUDE and self.symmetry is not Symmetry.ASYMMETRIC
        if needs_signs and self.minimum >= 0:
            raise ValueError(f"codes {self.minimum} to {self.maximum} cannot be symmetric")
        if self.scale_floor < 0:
            raise ValueError(f"the least scale cannot be negative, as {self.scale_floor} is")

    def with_codes(self, minimum: int, maximum: int) -> Scheme:
        """The same scheme with fewer codes, such as i8 without -128."""
        return replace(self, minimum=minimum, maximum=maximum)

    @property
    def code_dtype(self) -> np.dtype[Any]:
        """
        The smallest numpy integer dtype that holds the codes, with the signedness of the storage.
        """
        size = next(size for size in (1, 2, 4) if 8 * size >= self.storage.width)
        return np.dtype(f"{'i' if self.storage.signed else 'u'}{size}")

    def choose(self, minimum: object, maximum: object) -> Choice:
        """
        Scale and zero point for each range from `minimum` to `maximum`.

        Both are numbers, or arrays of one shape, and are rounded to float32; the range is extended
        to include zero. Raises ValueError for NaN, for an inverted range, for an infinite range if
        the scheme has no rule for it, and for a scale that is not a positive finite float32;
        TypeError if they are not numbers.
        """
        low, high = np.broadcast_arrays(_float32("minimum", minimum), _float32("maximum", maximum))
        largest = np.float32(max(-low.min(initial=0), high.max(initial=0)))
        self._check_ranges(low, high, largest)
        choice = Choice.unfilled(self, self.values, low.shape)
        lows, highs = low.reshape(-1), high.reshape(-1)
        for start in range(0, low.size, _FEW_SLOTS):
            part = slice(start, start + _FEW_SLOTS)
            with np.errstate(all="ignore"):
                choice.fill(part, self._chosen(lows[part], highs[part], largest))
        self._check_scales(choice.scales, self.values)
        return choice

    def given(self, scales: object, zero_points: object) -> Choice:
        """
        Given parameters: numbers or arrays of one shape.

        Scales are rounded to float32. Raises ValueError for a scale that is then not positive and
        finite, and for a zero point outside the codes; TypeError if they are not numbers.
        """
        rounded = _float32("scales", scales).copy()
        zeros = np.broadcast_to(integer_array("zero_points", zero_points), rounded.shape)
        self._check_scales(rounded, self.given_values)
        if not np.all((zeros >= self.minimum) & (zeros <= self.maximum)):
            raise ValueError(f"zero points must be codes, {self.minimum} to {self.maximum}")
        return Choice(self, self.given_values, rounded, zeros)

    def _check_ranges(self, low: NDArray[Any], high: NDArray[Any], largest: np.float32) -> None:
        # There may be many slots, so invalid ones are located only if there are any.
        if np.all(low <= high) and (self._has_infinite_ranges or np.isfinite(largest)):
            return
        is_bad = ~(low <= high)
        reason = "is not a range: the minimum must not exceed the maximum"
        if not is_bad.any() and not self._has_infinite_ranges:
            is_bad = ~(np.isfinite(low) & np.isfinite(high))
            reason = "is infinite, and this scheme has no finite scale for it"
        if is_bad.any():
            at = first_index(is_bad)
            raise ValueError(f"[{low[at]}, {high[at]}]{of_slot(at)} {reason}")

    @property
    def _has_infinite_ranges(self) -> bool:
        """Whether infinite ranges have finite scales."""
        rule = self.magnitudes
        return self.span is Span.EXTENDED_RANGE or (rule is not None and rule.is_power_of_two)

    def _chosen(self, low: NDArray[Any], high: NDArray[Any], largest: np.float32) -> Choice:
        if self.magnitudes is not None:
            magnitudes = np.maximum(-low, high)
            scales, factors = scales_of(self.magnitudes, magnitudes, largest, self.storage)
            return Choice(self, self.values, scales, np.zeros((), np.int64), factors=factors)
        zero = np.zeros((), "f4")
        low, high = np.minimum(low, zero), np.maximum(high, zero)
        match self.symmetry:
            case Symmetry.ASYMMETRIC:
                is_symmetric = np.zeros((), bool)
            case Symmetry.SYMMETRIC:
                is_symmetric = np.ones((), bool)
            case Symmetry.SYMMETRIC_IF_SIGNED:
                is_symmetric = low < 0
        if self.span is Span.EXTENDED_RANGE:
            low, high = self._extended(low, high, is_symmetric)
        low, high = (end.astype(self.precision, copy=False) for end in (low, high))
        scales = _where(
            is_symmetric,
            lambda: self._symmetric_scales(low, high),
            lambda: self._scales(low, high),
        )
        if self.scale_of_zero is not None:
            scales = np.where(scales == 0, np.asarray(self.scale_of_zero, scales.dtype), scales)
        scales = np.maximum(scales, np.asarray(self.scale_floor, scales.dtype))
        zero_points = _where(
            is_symmetric,
            lambda: np.asarray(self.symmetric_zero_point),
            lambda: self._asymmetric_zero_points(low, high, scales),
        )
        if self.power_of_two:
            scales = _raised_to_powers_of_two(scales)
        rounded = scales.astype("f4", copy=False)
        is_rounded_early = np.asarray(is_symmetric & (self.span is Span.LARGER_SIDE))
        exact = _where(is_rounded_early, lambda: rounded, lambda: scales)
        return Choice(self, self.values, rounded, zero_points, exact)

    @property
    def ends(self) -> tuple[float, float]:
        """The lowest and the highest number that a code stands for."""
        book = self.storage.codebook
        if book is None:
            return self.minimum, self.maximum
        numbers = book.candidates(self.minimum, self.maximum).numbers
        return float(numbers[0]), float(numbers[-1])

    @property
    def _ends(self) -> tuple[Any, Any]:
        """The lowest and the highest code, in the dtype of the arithmetic."""
        lowest, highest = np.asarray((self.minimum, self.maximum), self.precision)
        return lowest, highest

    def _scales(self, low: NDArray[Any], high: NDArray[Any]) -> NDArray[Any]:
        lowest, highest = self._ends
        return (high - low) / (highest - lowest)

    def _symmetric_scales(self, low: NDArray[Any], high: NDArray[Any]) -> NDArray[Any]:
        lowest, highest = self._ends
        match self.span:
            case Span.LARGER_SIDE:
                return np.maximum(low / lowest, high / highest)
            case Span.EXTENDED_RANGE:
                return self._scales(low, high)
            case Span.MAGNITUDE:
                return np.maximum(-low, high) / ((highest - lowest) / 2)

    def _extended(
        self, low: NDArray[Any], high: NDArray[Any], is_symmetric: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Finite float32 ranges; the smaller side of a symmetric one is extended."""
        if is_symmetric.any():
            from_low, from_high = low.astype("f8") / self.minimum, high.astype("f8") / self.maximum
            is_low_larger = from_low > from_high
            raised = (from_low * self.maximum).astype("f4")
            lowered = (from_high * self.minimum).astype("f4")
            high, low = (
                np.where(is_symmetric & is_low_larger, raised, high),
                np.where(is_symmetric & ~is_low_larger, lowered, low),
            )
        largest = np.finfo("f4").max
        return np.maximum(low, -largest), np.minimum(high, largest)

    def _asymmetric_zero_points(
        self, low: NDArray[Any], high: NDArray[Any], scales: NDArray[Any]
    ) -> NDArray[np.int64]:
        lowest, highest = self._ends
        rounded = self.zero_point_rounding.round
        match self.zero_point_rule:
            case ZeroPointRule.ROUNDED_DIFFERENCE:
                zeros = rounded(lowest - low / scales)
            case ZeroPointRule.ROUNDED_QUOTIENT:
                zeros = lowest - rounded(low / scales)
            case ZeroPointRule.NEARER_END:
                at_low, at_high = low / scales, high / scales
                is_low_nearer = abs(lowest) + abs(at_low) < abs(highest) + abs(at_high)
                ends = lowest - at_low, highest - at_high
                zeros = np.where(is_low_nearer, rounded(ends[0]), rounded(ends[1]))
                if self.minimum < 0:
                    difference = abs(high.astype("f4") + low.astype("f4"))
                    zeros = np.where(difference <= np.finfo("f4").eps, 0, zeros)
        return np.clip(zeros, self.minimum, self.maximum).astype(np.int64)

    def _check_scales(self, scales: NDArray[Any], arithmetic: ValueArithmetic) -> None:
        least = _LEAST_WITH_RECIPROCAL if arithmetic.multiplies else _LEAST_FLOAT32
        if least <= scales.min(initial=1) and scales.max(initial=1) < np.inf:
            return
        is_bad = ~((scales > 0) & np.isfinite(scales))
        if arithmetic.multiplies:
            is_bad |= scales < _LEAST_WITH_RECIPROCAL
        if is_bad.any():
            at = first_index(is_bad)
            raise ValueError(
                f"the scale{of_slot(at)} is {scales[at]} in float32, but it must be positive and "
                "finite" + arithmetic.multiplies * ", and so must its reciprocal"
            )


class Range(NamedTuple):
    """A range for each slot, for `Scheme.choose`: float32 in the shape of the slots."""

    minimum: NDArray[np.float32]
    maximum: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Choice:
    """Chosen or given parameters: one scale and zero point per slot."""

    scheme: Scheme
    arithmetic: ValueArithmetic
    """The arithmetic from values to codes."""
    scales: NDArray[np.float32]
    """float32 of any shape, like all the arrays."""
    zero_points: NDArray[np.int64]
    exact: NDArray[Any] | None = None
    """The scales before they were rounded to float32, if they were: float32 or float64."""
    factors: NDArray[np.float32] | None = None
    """What values are multiplied by, if they are not divided by the scales."""

    @property
    def minimum(self) -> NDArray[np.float32]:
        """The dequantized lowest code of each slot, computed with the unrounded scale."""
        return self._end(self.scheme.ends[0])

    @property
    def maximum(self) -> NDArray[np.float32]:
        """The dequantized highest code of each slot."""
        return self._end(self.scheme.ends[1])

    def _end(self, end: float) -> NDArray[np.float32]:
        exact = self.scales if self.exact is None else self.exact
        # One rounding: differences of narrow codes are exact in float32, too.
        dtype = exact.dtype if self.scheme.storage.width < _DIGITS else np.dtype("f8")
        with np.errstate(all="ignore"):
            return np.asarray(((end - self.zero_points).astype(dtype) * exact).astype("f4"))

    @classmethod
    def unfilled(
        cls, scheme: Scheme, arithmetic: ValueArithmetic, shape: tuple[int, ...]
    ) -> Choice:
        """Uninitialized arrays of `shape`, to be filled part by part."""
        rule = scheme.magnitudes
        zero_points = np.empty(shape, np.int64)
        if scheme.symmetry is Symmetry.SYMMETRIC:
            # Equal zero points are a broadcast view, which takes no memory per slot.
            zero_points = np.broadcast_to(np.int64(scheme.symmetric_zero_point), shape)
        exact = np.empty(shape, "f8") if rule is None and scheme.precision == "f8" else None
        factors = np.empty(shape, "f4") if rule is not None and rule.multiplies else None
        return cls(scheme, arithmetic, np.empty(shape, "f4"), zero_points, exact, factors)

    def fill(self, part: slice, chosen: Choice) -> None:
        """Write the parameters of some slots, by their positions in the flat arrays."""
        theirs = chosen._arrays
        for name, mine in self._arrays.items():
            if mine.flags.writeable:
                mine.reshape(-1)[part] = theirs[name]

    @property
    def _arrays(self) -> dict[str, NDArray[Any]]:
        names = "scales", "zero_points", "exact", "factors"
        return {name: array for name in names if (array := getattr(self, name)) is not None}

    def select(self, part: slice, shape: tuple[int, ...]) -> Choice:
        """The parameters of some slots, by positions in the flat arrays, as arrays of `shape`."""
        arrays = self._arrays.items()
        return replace(self, **{name: a.reshape(-1)[part].reshape(shape) for name, a in arrays})

    def along_first_axis(self) -> list[Choice]:
        """One choice for each position of the first axis of the slots, without that axis."""
        names, arrays = zip(*self._arrays.items(), strict=True)
        parts = (map(np.asarray, part) for part in zip(*map(list, arrays), strict=True))
        dicts = (dict(zip(names, part, strict=True)) for part in parts)
        return [Choice(self.scheme, self.arithmetic, **arrays_of) for arrays_of in dicts]

    def parameters(self, shape: Sequence[int]) -> QuantizationParameters:
        """
        The parameters of a tensor of `shape`, which the slots divide into equal blocks.

        The slots have one dimension per axis of `shape`, or there is only one. Raises ValueError
        if they do not divide it.
        """
        slots = self.scales.shape if self.scales.size > 1 else (1,) * len(shape)
        return QuantizationParameters.from_blocks(
            shape,
            self.scales.astype("f8").reshape(slots),
            self.zero_points.reshape(slots),
            FLOAT_FORMATS["f32"],
            self.scheme.storage,
        )


def first_index(is_wanted: NDArray[Any]) -> tuple[int, ...]:
    """The index of the first True element of an array of any shape."""
    return tuple(map(int, np.unravel_index(int(np.argmax(is_wanted)), is_wanted.shape)))


def of_slot(index: Sequence[int]) -> str:
    """The name of the slot at `index` in a message; empty if there is only one."""
    return f" of slot {list(index)}" if index else ""


def _float32(name: str, values: object) -> NDArray[Any]:
    array = array_of(name, values)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be numbers, but are of dtype {array.dtype}")
    with np.errstate(over="ignore"):
        return array.astype(np.float32, copy=False)


def _where(
    is_wanted: NDArray[Any], wanted: Callable[[], NDArray[Any]], other: Callable[[], NDArray[Any]]
) -> NDArray[Any]:
    """`numpy.where` that computes an alternative only if it is taken anywhere."""
    if not is_wanted.any():
        return other()
    if is_wanted.all():
        return wanted()
    return np.where(is_wanted, wanted(), other())


_NEARLY_HALF: Final = 0.5 + 1e-12


def _raised_to_powers_of_two(scales: NDArray[Any]) -> NDArray[Any]:
    """`2 ** ceil(log2(scale))` in float64, with `log2` rounded like C's."""
    digits, exponents = np.frexp(np.atleast_1d(scales).astype("f8"))
    powers = exponents.astype(np.int64)
    # The rounding of the logarithm matters only just above a power of two.
    for index in np.argwhere(digits <= _NEARLY_HALF):
        at = tuple(index)
        scale = math.ldexp(digits[at], int(exponents[at]))
        powers[at] = math.ceil(math.log2(scale))
    return np.ldexp(1.0, powers).reshape(np.shape(scales))


# Granularity


@dataclass(frozen=True)
class Blocks:
    """
    The axes that are divided into blocks, and the number of positions in a block.

    An axis that is not named is one block, as in the sub-channel type of
    https://mlir.llvm.org/docs/Dialects/QuantDialect/. Raises ValueError for an axis that is
    negative or named twice, and for a size that is not positive.
    """

    sizes: tuple[tuple[int, int], ...] = ()
    """Pairs of an axis and a block size, ordered by axis."""

    def __post_init__(self) -> None:
        axes = [integer("axis", axis) for axis, _ in self.sizes]
        if axes != sorted(set(axes)) or any(axis < 0 for axis in axes):
            raise ValueError(f"axes of blocks must be ascending and not negative, not {axes}")
        for axis, size in self.sizes:
            if integer("size", size) < 1:
                raise ValueError(f"blocks of axis {axis} must have a positive size, not {size}")

    @classmethod
    def per_axis(cls, axis: int) -> Blocks:
        """A slot for each index of `axis`, such as the channel of a weight."""
        return cls(((axis, 1),))

    @classmethod
    def of_sizes(cls, sizes: Mapping[int, int]) -> Blocks:
        """Blocks of `sizes[axis]` positions along each axis that is a key."""
        return cls(tuple(sorted(sizes.items())))

    def lengths(self, shape: Sequence[int]) -> tuple[int, ...]:
        """
        The length of a block along each axis of `shape`.

        Raises ValueError if an axis is missing, or if its blocks do not divide it.
        """
        lengths = list(integers("shape", shape))
        for axis, size in self.sizes:
            if axis >= len(lengths):
                raise ValueError(f"there is no axis {axis} in shape {list(shape)}")
            if lengths[axis] % size:
                raise ValueError(
                    f"blocks of {size} do not divide axis {axis} of {lengths[axis]} positions"
                )
            lengths[axis] = size
        return tuple(lengths)

    def slots(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The number of slots along each axis of `shape`. Raises as `lengths` does."""
        divided = dict(self.sizes)
        self.lengths(shape)
        return tuple(
            length // divided[axis] if axis in divided else 1 for axis, length in enumerate(shape)
        )


PER_TENSOR = Blocks()
"""One slot for all elements."""


# Weights


class WeightGranularity(StrEnum):
    """Which elements of a weight share a scale and a zero point."""

    TENSOR = "tensor"
    CHANNEL = "channel"
    """The elements of one channel of the result, or of one row of a table."""
    BLOCK = "block"
    """Adjacent elements of one channel, along the axis that is summed over."""


class Otherwise(StrEnum):
    """The fallback for a weight that cannot have the requested granularity."""

    LEAVE = "leave"
    """It stays float."""
    COARSER = "coarser"
    """It gets the next coarser granularity that fits."""


@dataclass(frozen=True)
class WeightPolicy:
    """How weights are quantized."""

    scheme: Scheme
    granularity: WeightGranularity = WeightGranularity.CHANNEL
    block_size: int = 32
    """The length of a block along the axis that is summed over."""
    otherwise: Otherwise = Otherwise.LEAVE

    @property
    def granularities(self) -> Sequence[WeightGranularity]:
        """The granularities to try, in this order."""
        if self.otherwise is Otherwise.LEAVE:
            return (self.granularity,)
        coarser = (WeightGranularity.BLOCK, WeightGranularity.CHANNEL, WeightGranularity.TENSOR)
        return coarser[coarser.index(self.granularity) :]


# Biases


BIAS_RULES: Mapping[str, ValueArithmetic] = MappingProxyType(
    {
        "one": ValueArithmetic(Rounding.HALF_AWAY, ZeroPointPlace.AFTER_ROUNDING, multiplies=True),
        "tico": ValueArithmetic(
            Rounding.HALF_EVEN, ZeroPointPlace.AFTER_ROUNDING, multiplies=False
        ),
    }
)
"""
By name: the arithmetic of biases whose scale is the product.

luci: `QuantizeBias.cpp` of https://github.com/Samsung/ONE; tico: `quantize_bias.py` of
https://github.com/Samsung/TICO.
"""


def bias_in_steps(
    numbers: NDArray[Any], scales: NDArray[Any], arithmetic: ValueArithmetic, storage: StorageFormat
) -> tuple[NDArray[Any], int]:
    """
    Quantize a float32 bias with `scales`, positive float32 that broadcast to its shape.

    Returns the codes, int32 or int64 of the shape of the bias, whose zero point is 0, and the
    number of elements out of range of `storage`, which are saturated. Raises ValueError for NaN.
    """
    with np.errstate(all="ignore"):
        if arithmetic.multiplies:
            quotients = numbers * (1 / scales.astype("f8")).astype("f4")
        else:
            quotients = numbers / scales
        rounded = arithmetic.rounding.round(quotients).astype("f8")
    if np.isnan(rounded).any():
        raise ValueError("an element of the bias is NaN, which has no code")
    low, high = storage.bounds
    # The highest i64 is not representable as float64, but the next integer is.
    too_high, too_low = rounded >= float(high + 1), rounded < low
    fitting = np.where(too_high | too_low, 0, rounded).astype(np.int64)
    codes = np.where(too_high, high, np.where(too_low, low, fitting))
    dtype = np.int32 if storage.width <= MAX_STORAGE_WIDTH else np.int64
    return codes.astype(dtype), int(np.count_nonzero(too_high | too_low))
