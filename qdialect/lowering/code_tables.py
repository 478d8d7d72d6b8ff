"""Look-ups of the numbers that codes of floats and tables stand for, and of the nearest codes."""

from __future__ import annotations

from typing import cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IndexType, IntegerType, i32
from xdsl.ir import SSAValue

from qdialect.algebra.codebooks import Codebook
from qdialect.algebra.parameters import StorageFormat
from qdialect.dialects.quant.storage import StoredType
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.ir.elements import dense_elements, element_dtype
from qdialect.ir.value_types import element_type_or_self
from qdialect.lowering.storage_ops import (
    StorageBuilder,
    dense_floats,
)
from qdialect.support.float_format import FloatFormat
from qdialect.support.lazy_numpy import NDArray, np


def code_type(type: StoredType) -> IntegerType:
    """The integers that hold codes: at least bytes, since IREE compiles no narrower tables."""
    return IntegerType(max(8, type.storage_type.bitwidth))


def numbers_of(builder: StorageBuilder, codes: SSAValue, type: UniformQuantizedType) -> SSAValue:
    """The numbers, in expressed floats, of codes in signless integers: a scalar or a tensor."""
    format, expressed = type.storage_format, type.expressed_type
    book = cast(Codebook, format.codebook)
    table = builder.constant(dense_floats(type.expressed_format.round(book.numbers), expressed))

    def element(inner: StorageBuilder, code: SSAValue) -> SSAValue:
        last = len(book.numbers) - 1
        place = entry_of(inner, code, book.first, is_unsigned=not format.signed)
        if not format.is_total:
            # Codes without an entry stay within the table.
            place = inner.clamped(place, (0, last))
        return extracted(inner, table, place)

    return builder.each(codes, expressed, element)


def entry_of(builder: StorageBuilder, code: SSAValue, first: int, *, is_unsigned: bool) -> SSAValue:
    """The place of a code in a table whose entry 0 is that of the code `first`: i32."""
    wide = builder.extended(code, i32, is_unsigned=is_unsigned)
    if not first:
        return wide
    return builder.insert(arith.SubiOp(wide, builder.integer(first, i32))).result


def extracted(builder: StorageBuilder, table: SSAValue, place: SSAValue) -> SSAValue:
    """The entry of a table, a constant of one axis, at a place."""
    index = builder.insert(arith.IndexCastOp(place, IndexType())).result
    return builder.insert(tensor.ExtractOp(table, [index], element_type_or_self(table.type))).result


def nearest_codes(
    builder: StorageBuilder, numbers: SSAValue, type: UniformQuantizedType
) -> SSAValue:
    """
    The codes in the range of `type` that are nearest to numbers, as `StorageFormat.nearest`.

    `numbers` are a scalar or a ranked tensor of the expressed type, and codes signless integers.
    NaN becomes the NaN of the format, and the lowest code where there is none.
    """
    format, expressed = type.storage_format, type.expressed_type
    book = cast(Codebook, format.codebook)
    stored = book.candidates(type.storage_type_min, type.storage_type_max)
    # A search by halves reads 2^n - 1 bounds.
    steps = [1 << at for at in reversed(range((len(stored.codes) - 1).bit_length()))]
    size = 2 * steps[0] if steps else 1
    bounds = np.full(size, np.inf)
    bounds[: len(stored.bounds)] = _at_most(stored.bounds, type.expressed_format)
    codes = np.pad(stored.codes, (0, size - len(stored.codes)), mode="edge")
    holder = code_type(type)
    limits = builder.constant(dense_floats(bounds, expressed)) if steps else None
    wrap = StorageFormat(holder.bitwidth, signed=True).wrap
    wrapped = wrap(codes).astype(element_dtype(holder))
    listed = builder.constant(dense_elements(wrapped, holder))
    negative_zero = int(wrap(np.array(len(book.numbers) // 2)))

    def element(inner: StorageBuilder, number: SSAValue) -> SSAValue:
        place = inner.integer(0, i32)
        for step in steps:
            before = inner.insert(arith.AddiOp(place, inner.integer(step - 1, i32))).result
            bound = extracted(inner, cast(SSAValue, limits), before)
            is_above = inner.insert(arith.CmpfOp(number, bound, "ogt")).result
            behind = inner.insert(arith.AddiOp(place, inner.integer(step, i32))).result
            place = inner.insert(arith.SelectOp(is_above, behind, place)).result
        code = extracted(inner, listed, place)
        lowest = float(stored.numbers[0])
        if book.is_float and lowest <= 0.0:
            negative = inner.integer(negative_zero, holder)
            is_negative = _is_negative_zero(inner, number, code, lowest, expressed)
            code = inner.insert(arith.SelectOp(is_negative, negative, code)).result
        if (nan := book.nan) is not None:
            is_nan = inner.insert(arith.CmpfOp(number, number, "uno")).result
            code = inner.insert(arith.SelectOp(is_nan, inner.integer(nan, holder), code)).result
        return code

    return builder.each(numbers, holder, element)


def _is_negative_zero(
    builder: StorageBuilder, number: SSAValue, code: SSAValue, lowest: float, expressed: AnyFloat
) -> SSAValue:
    """Whether a number with this nearest code is negative, and not below the range."""
    bits = IntegerType(expressed.bitwidth)
    pattern = builder.insert(arith.BitcastOp(number, bits)).result
    low = builder.constant(FloatAttr(lowest, expressed))
    zero = builder.integer(0, cast(IntegerType, code.type))
    is_zero = builder.insert(arith.CmpiOp(code, zero, "eq")).result
    is_less = builder.insert(arith.CmpiOp(pattern, builder.integer(0, bits), "slt")).result
    is_within = builder.insert(arith.CmpfOp(number, low, "oge")).result
    both = builder.insert(arith.AndIOp(is_zero, is_less)).result
    return builder.insert(arith.AndIOp(both, is_within)).result


def _at_most(numbers: NDArray[np.float64], format: FloatFormat) -> NDArray[np.float64]:
    """The greatest numbers of a format that are not above the given ones."""
    rounded = format.round(numbers)
    bits = format.encode(rounded)
    sign = np.uint64(1) << np.uint64(format.exponent_bits + format.precision - 1)
    below = np.where(np.signbit(rounded), bits + np.uint64(1), bits - np.uint64(1))
    below = np.where(rounded == 0.0, sign | np.uint64(1), below)
    return np.where(rounded > numbers, format.decode(below), rounded)
