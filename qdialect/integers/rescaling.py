"""
Rescaling of integers: `clamp(round(sum(a * M)) + z)` for real factors M, in integers or in floats.

With multipliers of 31 bits it is the arithmetic of `tosa.rescale` with a single rounding:
https://www.mlplatform.org/tosa/tosa_spec.html#_rescale. docs/integers.md derives how far it is from
the exact result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import reduce
from typing import Any, Final, NamedTuple, TypeAlias, cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr, IntegerType, TensorType, f32, i32, i64
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from qdialect.dialects.arith.syntax import FPToSIOp, SIToFPOp
from qdialect.ir.elements import dense_elements
from qdialect.lowering.storage_ops import StorageBuilder
from qdialect.ops.refusals import Refusal, RefusalCode
from qdialect.support.lazy_numpy import NDArray, np


class Requantize(StrEnum):
    """The arithmetic of a factor that is no whole number."""

    FIXED = "fixed"
    """A multiplier of 31 bits and a shift: ties are rounded up."""

    FLOAT = "float"
    """A product of f32: ties are rounded to even."""


class Addend(NamedTuple):
    """Integers that stand for `(integer - zero_point) * factor`."""

    value: SSAValue
    """A tensor of integers of 8 to 64 bits."""

    axes: Sequence[int | None]
    """For each axis of the value, that of the result; None for one of length 1."""

    factors: NDArray[np.float64]
    """M: of the rank of the result, and of length 1 along axes on which it is the same."""

    zero_point: int
    bound: int
    """The largest magnitude of `integer - zero_point`."""

    is_unsigned: bool = False


class Multipliers(NamedTuple):
    """`m * 2**-shift` for each of several factors, at each position of their axes."""

    m: Sequence[NDArray[np.int64]]
    shift: NDArray[np.int64]


_MOST_SHIFT: Final = 62
_BITS: Final = 31
_HALF: Final = 16
"""The bits of the lower half of an integer that is multiplied in two parts."""


def multipliers(factors: Sequence[NDArray[np.float64]]) -> Multipliers:
    """
    The multipliers of factors, with the shift for which the largest one has 31 bits.

    Raises Refusal for factors of 2**29 or more.
    """
    _, exponents = np.frexp(reduce(np.maximum, map(np.abs, factors)))
    shift = np.minimum(_MOST_SHIFT, _BITS - exponents.astype(np.int64))
    m = _rounded(factors, shift)
    # A factor may round to the next power of two.
    shift = shift - (reduce(np.maximum, map(np.abs, m)) >> _BITS)
    if shift.min() < 2:
        raise Refusal(RefusalCode.SHIFT, f"its factor {max(map(np.max, factors)):.6e} is too large")
    return Multipliers(_rounded(factors, shift), shift)


def _rounded(
    factors: Sequence[NDArray[np.float64]], shift: NDArray[np.int64]
) -> Sequence[NDArray[np.int64]]:
    return [
        np.rint(np.ldexp(factor, shift.astype(np.int32))).astype(np.int64) for factor in factors
    ]


def rescaled(
    builder: StorageBuilder,
    addends: Sequence[Addend],
    init: SSAValue,
    zero_point: int,
    limits: tuple[int, int],
    requantize: Requantize,
) -> SSAValue:
    """The codes of a sum, of the type of `init`, clamped to `limits`. Raises Refusal."""
    rank = cast("TensorType[Any]", init.type).get_num_dims()
    if requantize is Requantize.FLOAT:
        numbers, compute = _in_floats(addends, zero_point, limits)
    else:
        numbers, compute = _in_integers(addends, zero_point, limits)
    maps = [along(addend.axes, rank) for addend in addends]

    def element(
        inner: StorageBuilder, elements: Sequence[SSAValue], known: Sequence[SSAValue]
    ) -> SSAValue:
        *values, so_far = elements
        total, type = compute(inner, values, known), cast(IntegerType, so_far.type)
        return total if total.type == type else inner.insert(arith.TruncIOp(total, type)).result

    return with_numbers(builder, init, [addend.value for addend in addends], maps, numbers, element)


Numbers: TypeAlias = "Sequence[NDArray[Any]]"
Compute = Callable[[StorageBuilder, Sequence[SSAValue], Sequence[SSAValue]], SSAValue]


def _in_integers(
    addends: Sequence[Addend], zero_point: int, limits: tuple[int, int]
) -> tuple[Numbers, Compute]:
    """The constants of arithmetic in i64, and what inserts it."""
    m, shift = multipliers([addend.factors for addend in addends])
    bound = sum(
        addend.bound * int(np.abs(one).max()) for addend, one in zip(addends, m, strict=True)
    )
    half = np.int64(1) << (shift - 1)
    is_wide = bound + int(half.max()) >= 1 << 63
    if is_wide and len(addends) == 1 and shift.min() <= _HALF:
        raise Refusal(
            RefusalCode.SHIFT, f"its factor {np.max(addends[0].factors):.6e} is too large"
        )
    if is_wide and (len(addends) > 1 or addends[0].zero_point):
        raise Refusal(
            RefusalCode.OVERFLOW, f"its products reach {bound}, and are summed in 64 bits"
        )
    offset = half - sum(addend.zero_point * one for addend, one in zip(addends, m, strict=True))

    def compute(
        inner: StorageBuilder, elements: Sequence[SSAValue], known: Sequence[SSAValue]
    ) -> SSAValue:
        offset, shift, *m = known
        wide = [_widened(inner, *pair) for pair in zip(elements, addends, strict=True)]
        if is_wide:
            total = _in_halves(inner, wide[0], m[0], offset, shift)
        else:
            total = offset
            for value, one in zip(wide, m, strict=True):
                product = inner.insert(arith.MuliOp(value, one)).result
                total = inner.insert(arith.AddiOp(product, total)).result
            total = inner.insert(arith.ShRSIOp(total, shift)).result
        if zero_point:
            total = inner.insert(arith.AddiOp(total, inner.integer(zero_point, i64))).result
        return inner.clamped(total, limits)

    return [offset, shift, *m], compute


def _in_halves(
    inner: StorageBuilder, value: SSAValue, m: SSAValue, half: SSAValue, shift: SSAValue
) -> SSAValue:
    """`(value * m + half) >> shift`, where the product may need more than 64 bits."""
    bits = inner.integer(_HALF, i64)
    high = inner.insert(arith.ShRSIOp(value, bits)).result
    low = inner.insert(arith.AndIOp(value, inner.integer((1 << _HALF) - 1, i64))).result
    low = inner.insert(arith.MuliOp(low, m)).result
    low = inner.insert(arith.AddiOp(low, half)).result
    low = inner.insert(arith.ShRSIOp(low, bits)).result
    high = inner.insert(arith.MuliOp(high, m)).result
    total = inner.insert(arith.AddiOp(high, low)).result
    rest = inner.insert(arith.SubiOp(shift, bits)).result
    return inner.insert(arith.ShRSIOp(total, rest)).result


def _in_floats(
    addends: Sequence[Addend], zero_point: int, limits: tuple[int, int]
) -> tuple[Numbers, Compute]:
    """The constants of arithmetic in f32, and what inserts it."""

    def compute(
        inner: StorageBuilder, elements: Sequence[SSAValue], known: Sequence[SSAValue]
    ) -> SSAValue:
        total = None
        for value, addend, factor in zip(elements, addends, known, strict=True):
            value = _widened(inner, value, addend)
            if addend.zero_point:
                offset = inner.integer(addend.zero_point, i64)
                value = inner.insert(arith.SubiOp(value, offset)).result
            number = inner.insert(SIToFPOp(value, f32)).result
            number = inner.insert(arith.MulfOp(number, factor)).result
            total = number if total is None else inner.insert(arith.AddfOp(total, number)).result
        total = inner.insert(math.RoundEvenOp(cast(SSAValue, total))).result
        ends = [inner.constant(FloatAttr(float(end - zero_point), f32)) for end in limits]
        total = inner.insert(arith.MaximumfOp(total, ends[0])).result
        total = inner.insert(arith.MinimumfOp(total, ends[1])).result
        codes = inner.insert(FPToSIOp(total, i32)).result
        if zero_point:
            codes = inner.insert(arith.AddiOp(codes, inner.integer(zero_point, i32))).result
        return codes

    return [addend.factors.astype(np.float32) for addend in addends], compute


def with_numbers(
    builder: StorageBuilder,
    init: SSAValue,
    inputs: Sequence[SSAValue],
    maps: Sequence[AffineMap],
    arrays: Numbers,
    element: Callable[[StorageBuilder, Sequence[SSAValue], Sequence[SSAValue]], SSAValue],
) -> SSAValue:
    """
    As `StorageBuilder.generic`, of tensors and of arrays of the rank of the result.

    `element` is called with the elements of the tensors, those of the result last, and with those
    of the arrays. An array of one number is a constant of the body, others are read along their
    axes that are longer.
    """
    lines = [array for array in arrays if array.size > 1]
    axes = [[axis for axis, length in enumerate(array.shape) if length > 1] for array in lines]
    read = [*inputs, *(line_of(builder, *pair) for pair in zip(lines, axes, strict=True))]
    rank = cast("TensorType[Any]", init.type).get_num_dims()
    every = [*maps, *(along(places, rank) for places in axes)]

    def body(inner: StorageBuilder, elements: Sequence[SSAValue]) -> SSAValue:
        rest = iter(elements[len(inputs) : -1])
        known = [next(rest) if array.size > 1 else _scalar(inner, array) for array in arrays]
        return element(inner, [*elements[: len(inputs)], elements[-1]], known)

    return builder.generic(init, read, every, body)


def line_of(
    builder: StorageBuilder,
    array: NDArray[Any],
    axes: Sequence[int],
    type: IntegerType | None = None,
) -> SSAValue:
    """A constant with the elements of `array`, whose other axes have length 1."""
    placed = array.reshape([array.shape[axis] for axis in axes])
    numbers = np.require(placed, requirements="C")
    if array.dtype == np.float32:
        elements = dense_elements(numbers.view("u4"), f32)
    else:
        elements = dense_elements(numbers, type or IntegerType(8 * numbers.itemsize))
    return builder.constant(elements)


def along(axes: Sequence[int | None], rank: int) -> AffineMap:
    """The positions of loops along these axes; None is position 0."""
    places = [
        AffineExpr.constant(0) if axis is None else AffineExpr.dimension(axis) for axis in axes
    ]
    return AffineMap(rank, 0, tuple(places))


def _scalar(inner: StorageBuilder, array: NDArray[Any]) -> SSAValue:
    number = array.item()
    if array.dtype == np.float32:
        return inner.constant(FloatAttr(number, f32))
    return inner.integer(number, IntegerType(8 * array.dtype.itemsize))


def _widened(inner: StorageBuilder, value: SSAValue, addend: Addend) -> SSAValue:
    return inner.extended(value, i64, is_unsigned=addend.is_unsigned)
