"""
The elements of dense constants, as arrays and as MLIR's text.

xDSL holds an integer in the smallest of 1, 2, 4 or 8 bytes, a float in as few bytes as its
width needs, a complex number as its two parts, and one element may stand for all. MLIR's
hexadecimal text has as few bytes as the width needs, zero-extended, and packs i1 into
bits: https://mlir.llvm.org/docs/Dialects/Builtin/#denseintorfpelementsattr.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import (
    AnyDenseElement,
    AnyFloat,
    BytesAttr,
    ComplexType,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerType,
    RankedStructure,
    Signedness,
    TensorType,
    f32,
    f64,
)
from xdsl.ir import Attribute

from qdialect.algebra.views import ArrayView, Splat, as_view
from qdialect.support.float_format import FLOAT_FORMATS
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.support.memory import BoundedCache, memory_budget, registered_cache

if TYPE_CHECKING:
    from qdialect.algebra.views import Elements, Values


def dense_of_bytes(
    type: RankedStructure[AnyDenseElement], data: bytes
) -> DenseIntOrFPElementsAttr[Any]:
    """
    The attribute of `type` that holds `data`: see `qdialect.ir.elements.element_bytes`.

    Elements of `type` must be integers, index, floats or complex numbers that xDSL can hold,
    and `data` the bytes of all elements or of one.
    """
    # xDSL would check the classes of both fields against constraints. They always hold here,
    # and take nine times as long as the rest.
    attribute = object.__new__(DenseIntOrFPElementsAttr)
    object.__setattr__(attribute, "type", type)
    object.__setattr__(attribute, "data", BytesAttr(data))
    return attribute


_KNOWN_REPEATED = BoundedCache[tuple[bytes, int], bytes]()
"""The elements of splats: zeros of one size are in many constants."""

DenseElementsAttr = DenseIntOrFPElementsAttr[AnyDenseElement]

MAX_REPEATED_ELEMENTS = 2**26
"""The maximum number of elements of a splat that is expanded in memory, where each is needed."""

MAX_REPEATED_BYTES = 1 << 20
"""
The maximum number of bytes of an expanded splat in an attribute; larger ones hold one element.
"""

_REPEATED_SHARE = 8
"""Splats in attributes take at most 1/8 of the memory budget."""


class UnsupportedElementTypeError(ValueError):
    """xDSL cannot hold elements of this type."""


@registered_cache
@lru_cache(maxsize=1024)
def element_dtype(type: Attribute) -> np.dtype[Any]:
    """
    The little-endian dtype in which xDSL holds an element of `type`.

    Integers and index are integers of numpy. Floats and complex numbers, the real part
    first, are their bits: unsigned integers, or void where numpy has no integers of that size, so
    that NaNs and zeros keep their bits. Raises UnsupportedElementTypeError for other types, f80,
    f128, and integers of 0 or more than 64 bits.
    """
    if not isinstance(type, IntegerType | IndexType | AnyFloat | ComplexType):
        raise _unsupported(type)
    element = cast(AnyDenseElement, type)
    match element:
        case ComplexType():
            return _bits_dtype(2 * element_dtype(element.element_type).itemsize)
        case IndexType():
            return np.dtype("<i8")
        case _ if not 0 < element.bitwidth <= 64:
            raise _unsupported(element)
        case IntegerType():
            kind = "u" if element.signedness.data is Signedness.UNSIGNED else "i"
            return np.dtype(f"<{kind}{element.compile_time_size}")
        case _:
            return _bits_dtype(element.compile_time_size)


def _unsupported(type: Attribute) -> UnsupportedElementTypeError:
    return UnsupportedElementTypeError(f"elements of type '{type}' are not supported")


def _bits_dtype(size: int) -> np.dtype[Any]:
    return np.dtype(f"<u{size}" if size in (1, 2, 4, 8) else f"V{size}")


def elements_of(attribute: DenseElementsAttr) -> Elements:
    """
    The elements of `attribute`, of the dtype of its element type and of its shape.

    A view of its bytes, or a splat where all elements are equal, bit for bit. Raises
    UnsupportedElementTypeError.
    """
    # Reading and printing text needs no movements, whose import takes 50 ms.
    from qdialect.algebra.views import Splat

    type, shape, data = attribute.type.element_type, attribute.type.get_shape(), attribute.data.data
    dtype = element_dtype(type)
    if data and (len(data) == dtype.itemsize or repeats(data, dtype.itemsize)):
        first = np.frombuffer(data, dtype=dtype, count=1)
        return Splat(in_width(first, type)[0], shape)
    return in_width(np.frombuffer(data, dtype=dtype), type).reshape(shape)


def dense_elements(
    values: Values, type: AnyDenseElement, *, repeat_splats: bool = False
) -> DenseElementsAttr:
    """
    The tensor attribute that holds `values`: see `element_bytes`.

    Raises UnsupportedElementTypeError, and TypeError for a wrong dtype.
    """
    tensor, dtype = _tensor_type(type, values.shape)
    return dense_of_bytes(tensor, _bytes_of(values, type, dtype, repeat_splats=repeat_splats))


@registered_cache
@lru_cache(maxsize=1024)
def _tensor_type(
    type: AnyDenseElement, shape: tuple[int, ...]
) -> tuple[TensorType[AnyDenseElement], np.dtype[Any]]:
    return TensorType(type, shape), element_dtype(type)


def element_bytes(values: Values, type: AnyDenseElement, *, repeat_splats: bool = False) -> bytes:
    """
    The bytes in which a dense attribute holds `values`, which must fit `type`.

    Values have the dtype of `type`, or any integer dtype if `type` is IntegerType. A splat is
    stored as one element. With `repeat_splats` it is stored as all elements of its shape, which
    dialects that do not know splats expect of the attribute's `get_values`; but as one element
    if that exceeds MAX_REPEATED_BYTES, or the share of the memory budget that splats may take.
    Raises UnsupportedElementTypeError, and TypeError for a wrong dtype.
    """
    return _bytes_of(values, type, element_dtype(type), repeat_splats=repeat_splats)


def _bytes_of(
    values: Values, type: AnyDenseElement, dtype: np.dtype[Any], *, repeat_splats: bool
) -> bytes:
    # Reading and printing text needs no movements, whose import takes 50 ms.
    from qdialect.algebra.views import Splat, as_view

    is_splat = isinstance(values, Splat)
    view = ArrayView.of(np.asarray(values.value)) if is_splat else as_view(values)
    given = view.factors.dtype
    if given != dtype and not (isinstance(type, IntegerType) and given.kind in "iu"):
        raise TypeError(f"elements of type '{type}' are of dtype {dtype}, not of {given}")
    if not is_splat and (whole := _bytes_behind(view.factors, dtype)) is not None:
        return whole
    data = view.to_bytes(dtype)
    if not is_splat:
        return data
    count = math.prod(values.shape)
    return _repeated(data, count) if repeat_splats else data * min(count, 1)


def _repeated(data: bytes, count: int) -> bytes:
    """
    `data` repeated `count` times; only once if that exceeds the limits and `count` is not zero.
    """
    if len(data) * count > MAX_REPEATED_BYTES:
        return data
    if (known := _KNOWN_REPEATED.get((data, count))) is not None:
        return known
    with memory_budget() as budget:
        if budget.reserved + len(data) * count > budget.limit // _REPEATED_SHARE:
            return data * min(count, 1)
        budget.reserve(len(data) * count)
    repeated = data * count
    return _KNOWN_REPEATED.add((data, count), repeated, len(repeated) // 8)


def may_repeat(count: int, itemsize: int) -> bool:
    """Whether a splat of `count` elements is small enough to be expanded in an attribute."""
    return count * itemsize <= MAX_REPEATED_BYTES


def _bytes_behind(array: NDArray[Any], dtype: np.dtype[Any]) -> bytes | None:
    """The bytes object that `array` views, if its elements are exactly those bytes in order."""
    owner = array.base
    while isinstance(owner, np.ndarray):
        owner = owner.base
    data = cast(object, owner)
    if not isinstance(data, bytes) or len(data) != array.nbytes:
        return None
    return data if array.dtype == dtype and array.flags.c_contiguous else None


def signless_elements(
    attribute: DenseIntOrFPElementsAttr[IntegerType],
) -> DenseIntOrFPElementsAttr[IntegerType]:
    """
    The same bits as signless integers, for constants of dialects that do not know splats.

    Shares the bytes of `attribute`, except where unsigned elements are narrower than their
    bytes, and where a splat is stored as one element: see `element_bytes`.
    """
    type, shape, data = attribute.get_element_type(), attribute.get_shape(), attribute.data.data
    signless = IntegerType(type.bitwidth)
    size = element_dtype(signless).itemsize
    if type.bitwidth < 8 * size or len(data) < size * math.prod(shape):
        same_bytes = dense_of_bytes(_tensor_type(signless, shape)[0], data)
        data = element_bytes(elements_of(same_bytes), signless, repeat_splats=True)
    return dense_of_bytes(_tensor_type(signless, shape)[0], data)


def repeats(data: bytes | memoryview, size: int) -> bool:
    """Whether `data` consists of its first `size` bytes, repeated."""
    if data[size : 2 * size] != data[:size] and len(data) > size:
        return False
    # Only `bytes` compare at memory speed.
    whole = bytes(data)
    return whole.startswith(memoryview(whole)[size:])


def integer_range(width: int, is_signed: bool) -> tuple[int, int]:
    """The least and the greatest integer of `width` bits."""
    if is_signed:
        return -(1 << (width - 1)), (1 << (width - 1)) - 1
    return 0, (1 << width) - 1


def has_signedness(type: IntegerType | IndexType, signedness: Signedness) -> bool:
    return isinstance(type, IntegerType) and type.signedness.data is signedness


def in_width(values: NDArray[Any], type: AnyDenseElement) -> NDArray[Any]:
    """One-dimensional `values`, sign- or zero-extended from the width of `type` to their dtype."""
    if isinstance(type, IntegerType):
        return _sign_extended(values, type)
    if isinstance(type, ComplexType):
        parts = values.view(element_dtype(type.element_type))
        return in_width(parts, type.element_type).view(values.dtype)
    if isinstance(type, AnyFloat):
        return _zero_extended(values, type)
    return values


def _sign_extended(values: NDArray[Any], type: IntegerType) -> NDArray[Any]:
    unused = 8 * values.itemsize - type.bitwidth
    if not unused or not values.size:
        return values
    least, greatest = integer_range(type.bitwidth, not has_signedness(type, Signedness.UNSIGNED))
    if values.min() >= least and values.max() <= greatest:
        return values
    return (values << unused) >> unused


def _zero_extended(values: NDArray[Any], type: AnyFloat) -> NDArray[Any]:
    unused = 8 * values.itemsize - type.bitwidth
    used = 0xFF >> unused
    raw = values.view(np.uint8).reshape(-1, values.itemsize)
    if not unused or not values.size or raw[:, -1].max() <= used:
        return values
    raw = raw.copy()
    raw[:, -1] &= used
    return raw.reshape(-1).view(values.dtype)


def unpack_elements(data: bytes | memoryview, type: AnyDenseElement) -> NDArray[Any] | None:
    """
    The elements of `data`, in MLIR's memory layout: one-dimensional, of the dtype of `type`.

    Each element, or each part of a complex number, has as few bytes as its width needs,
    little-endian. None if `data` ends inside an element. Raises UnsupportedElementTypeError.
    """
    dtype = element_dtype(type)
    parts, part = (2, type.element_type) if isinstance(type, ComplexType) else (1, type)
    size = _memory_size(part)
    if len(data) % (parts * size):
        return None
    raw = resized(np.frombuffer(data, dtype=np.uint8), size, element_dtype(part).itemsize)
    return in_width(raw.view(dtype), type)


def pack_elements(values: NDArray[Any], type: AnyDenseElement) -> bytes:
    """
    One-dimensional `values`, of the dtype of `type`, in MLIR's memory layout.

    The inverse of `unpack_elements`; unused bits are zero.
    """
    part = type.element_type if isinstance(type, ComplexType) else type
    parts = values.view(element_dtype(part))
    if isinstance(part, IntegerType) and part.bitwidth < 8 * parts.itemsize:
        parts = parts.view(f"<u{parts.itemsize}") & ((1 << part.bitwidth) - 1)
    return resized(parts.view(np.uint8), parts.itemsize, _memory_size(part)).tobytes()


def memory_bytes(values: Values, type: AnyDenseElement) -> bytes:
    """
    `values`, of the kinds that `element_bytes` accepts, in MLIR's memory layout: see
    `pack_elements`.

    A splat is one element. Raises as `element_bytes` does.
    """
    data, dtype = element_bytes(values, type), element_dtype(type)
    part, parts = (type.element_type, 2) if isinstance(type, ComplexType) else (type, 1)
    if isinstance(part, IndexType) or part.bitwidth * parts == 8 * dtype.itemsize:
        return data
    return pack_elements(np.frombuffer(data, dtype=dtype), type)


def _memory_size(type: IntegerType | IndexType | AnyFloat) -> int:
    return 8 if isinstance(type, IndexType) else (type.bitwidth + 7) // 8


def resized(raw: NDArray[np.uint8], size: int, new_size: int) -> NDArray[np.uint8]:
    """
    The bytes of elements of `size` bytes, each truncated or zero-extended to `new_size` bytes.
    """
    if size == new_size:
        return raw
    rows = raw.reshape(-1, size)
    resized = np.zeros((len(rows), new_size), dtype=np.uint8)
    kept = min(size, new_size)
    resized[:, :kept] = rows[:, :kept]
    return resized.reshape(-1)


def floats_attribute(numbers: NDArray[np.float64]) -> DenseElementsAttr:
    """Numbers as a dense attribute: of f32 if that is exact, else of f64."""
    rounded = FLOAT_FORMATS[f32.name].round(numbers)
    type = f32 if (rounded == numbers).all() else f64
    bits = FLOAT_FORMATS[type.name].encode(numbers)
    return dense_elements(bits.astype(element_dtype(type)), type)


def float_elements(values: Values, type: AnyFloat) -> NDArray[Any]:
    """The bits of a constant as floats, of numpy's type if it has one; no axes for a splat."""
    bits = np.asarray(values.value) if isinstance(values, Splat) else as_view(values).array()
    if type.name in ("f16", "f32", "f64"):
        return bits.view(f"<f{bits.itemsize}")
    return FLOAT_FORMATS[type.name].decode(bits).astype(np.float32)
