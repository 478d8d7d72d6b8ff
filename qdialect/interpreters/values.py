"""What the values of a module are while it is run: arrays with their types."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override
from xdsl.dialects.builtin import (
    AnyDenseElement,
    AnyFloat,
    ComplexType,
    IndexType,
    IntegerType,
    Signedness,
    TensorType,
    UnrankedTensorType,
)
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import InterpretationError, VerifyException

from qdialect.dialects.quant.constants import element_type_of
from qdialect.dialects.quant.types import StoredType, UniformQuantizedType
from qdialect.dialects.value_types import element_type_or_self
from qdialect.elements import (
    UnsupportedElementTypeError,
    dense_elements,
    element_dtype,
    elements_of,
    in_width,
    resized,
)
from qdialect.float_format import FLOAT_FORMATS, FloatFormat
from qdialect.movement import DYNAMIC, Shape
from qdialect.parameters import FloatArray, QuantizationParameters, StorageFormat
from qdialect.text.dense import print_dense
from qdialect.text.printer import MLIRPrinter

_DOUBLE = sys.float_info
_UNHELD_BITS = 64 - _DOUBLE.mant_dig
"""How many of the bits of an integer a double may have no room for."""


def held_type(type: Attribute) -> AnyDenseElement:
    """
    The type that elements of `type` are held as: integers, for quantized ones.

    Raises InterpretationError if there is no dtype for it.
    """
    held = element_type_of(type) if isinstance(type, StoredType) else type
    try:
        element_dtype(held)
    except UnsupportedElementTypeError as error:
        raise InterpretationError(str(error)) from None
    return cast(AnyDenseElement, held)


def dtype_of(type: Attribute) -> np.dtype[Any]:
    """The dtype that elements of `type` are held in. Raises InterpretationError."""
    return element_dtype(held_type(type))


@dataclass(frozen=True, eq=False)
class TypedArray:
    """
    A scalar or a tensor: its elements, and its type, whose lengths are all known.

    Elements have the dtype of `element_dtype`: floats are their bits, so that no NaN and no
    zero changes on the way. Quantized values are their storage integers.
    """

    elements: NDArray[Any]

    type: Attribute

    @classmethod
    def of(cls, elements: NDArray[Any], declared: Attribute) -> TypedArray:
        """
        `elements`, of the dtype of their type, as a value that is declared to be of a type.

        Raises InterpretationError if it has another shape, or is quantized and cannot have
        that shape.
        """
        if isinstance(declared, TensorType):
            tensor = cast(TensorType[Attribute], declared)
            _check_shape(elements.shape, tensor.get_shape())
            declared = TensorType(tensor.element_type, elements.shape, tensor.encoding)
        elif isinstance(declared, UnrankedTensorType):
            element_type = cast(UnrankedTensorType[Attribute], declared).element_type
            declared = TensorType(element_type, elements.shape)
        elif elements.shape:
            raise InterpretationError(f"a tensor of shape {list(elements.shape)} is no scalar")
        value = cls(elements, declared)
        if elements.dtype != dtype_of(value.element_type):
            raise InterpretationError(f"elements of dtype {elements.dtype} are not '{declared}'")
        if isinstance(value.element_type, UniformQuantizedType):
            try:
                value.element_type.verify_fits(elements.shape)
            except VerifyException as error:
                raise InterpretationError(str(error)) from None
        return value

    @classmethod
    def of_numbers(cls, numbers: NDArray[Any], declared: Attribute) -> TypedArray:
        """
        Numbers as a value that is declared to be of a type of integers or floats.

        Integers are cut to the width, floats are rounded. Raises InterpretationError.
        """
        return cls.of(elements_of_numbers(numbers, element_type_or_self(declared)), declared)

    @property
    def shape(self) -> Shape:
        """The shape; a scalar has no axes."""
        return self.elements.shape

    @property
    def element_type(self) -> Attribute:
        """The type of the elements, or of the scalar."""
        return element_type_or_self(self.type)

    @property
    def numbers(self) -> NDArray[Any]:
        """
        What the elements are: float64 for floats, int64 for integers, of quantized values too.

        Raises InterpretationError for other types.
        """
        type = held_type(self.element_type)
        if isinstance(type, AnyFloat):
            return format_of(type).decode(_as_unsigned(self.elements))
        if isinstance(type, IntegerType | IndexType):
            return self.elements.astype(np.int64)
        raise InterpretationError(f"'{type}' is not computed with")

    @property
    def parameters(self) -> QuantizationParameters:
        """What quantized values are read with. Raises InterpretationError if there are none."""
        type = self.element_type
        if not isinstance(type, UniformQuantizedType):
            raise InterpretationError(f"'{type}' has no scales")
        return type.parameters_on(self.shape)

    def __index__(self) -> int:
        """A scalar as xDSL's functions for control flow take it."""
        return int(self.numbers[()])

    def __bool__(self) -> bool:
        return bool(self.numbers[()])

    @override
    def __str__(self) -> str:
        """The value as MLIR would write it: as an attribute."""
        type = held_type(self.element_type)
        stream = StringIO()
        printer = MLIRPrinter(stream=stream)
        print_dense(printer, elements_of(dense_elements(self.elements, type)), type)
        text = stream.getvalue()
        if not isinstance(self.type, TensorType):
            text = text.removeprefix("dense<").removesuffix(">")
        return f"{text} : {cast(Attribute, self.type)}"


def value_of(value: Any, type: Attribute) -> TypedArray:
    """A value, which xDSL's own functions may have made a number of Python."""
    if isinstance(value, TypedArray):
        return value
    return TypedArray.of_numbers(np.asarray(value), type)


def operands_of(op: Operation, args: Sequence[Any]) -> list[TypedArray]:
    """The values of the operands of `op`. Raises InterpretationError."""
    return [value_of(arg, of.type) for arg, of in zip(args, op.operands, strict=True)]


def elements_of_numbers(numbers: NDArray[Any], type: Attribute) -> NDArray[Any]:
    """The elements that are `numbers`: integers cut to the width, floats rounded."""
    held = held_type(type)
    if isinstance(held, AnyFloat):
        known = format_of(held)
        if numbers.dtype.kind in "iu" and known.precision < _DOUBLE.mant_dig:
            numbers = _rounded_to_odd(numbers)
        bits = known.encode(known.round(np.asarray(numbers, dtype=np.float64)))
        return _of_size(bits.astype("<u8"), element_dtype(held))
    if isinstance(held, IntegerType):
        is_signed = held.signedness.data is not Signedness.UNSIGNED
        cut = StorageFormat(held.bitwidth, is_signed).wrap(numbers.astype(np.int64))
        return cut.astype(element_dtype(held))
    if isinstance(held, IndexType):
        return numbers.astype(np.int64)
    raise InterpretationError(f"'{held}' is not computed with")


def reinterpreted(value: TypedArray, declared: Attribute) -> TypedArray:
    """
    The same bits as a value of another type: integers as quantized values, or as floats.

    Raises InterpretationError if elements of that type have not as many bits.
    """
    held, wanted = held_type(value.element_type), held_type(element_type_or_self(declared))
    if held == wanted:
        return TypedArray.of(value.elements, declared)
    if width_of(held) != width_of(wanted):
        raise InterpretationError(f"'{held}' has not as many bits as '{wanted}'")
    bits = np.ascontiguousarray(value.elements).reshape(-1).view(element_dtype(wanted))
    return TypedArray.of(in_width(bits, wanted).reshape(value.shape), declared)


def dequantized(value: TypedArray, declared: Attribute) -> TypedArray:
    """What `quant.dcast` makes of quantized values: see `QuantizationParameters.read`."""
    return TypedArray.of_numbers(value.parameters.read(value.numbers), declared)


def quantized(value: TypedArray, declared: Attribute) -> TypedArray:
    """
    What `quant.qcast` makes of floats: see `QuantizationParameters.store`.

    Raises InterpretationError if the result is not uniform quantized.
    """
    type = element_type_or_self(declared)
    if not isinstance(type, UniformQuantizedType):
        raise InterpretationError(f"nothing says how to quantize to '{type}'")
    zeros = TypedArray.of(np.zeros(value.shape, dtype_of(type)), declared)
    stored = zeros.parameters.store(value.numbers, type.storage_type_min, type.storage_type_max)
    return TypedArray.of_numbers(stored, declared)


def format_of(type: AnyFloat) -> FloatFormat:
    """The numbers of a float type."""
    return FLOAT_FORMATS[type.name]


def width_of(type: AnyDenseElement) -> int:
    """The bits of an element."""
    match type:
        case IndexType():
            return 64
        case ComplexType():
            return 2 * width_of(type.element_type)
        case _:
            return type.bitwidth


def unsigned(value: TypedArray) -> NDArray[np.uint64]:
    """Integers without their sign: uint64."""
    mask = np.uint64((1 << width_of(held_type(value.element_type))) - 1)
    return value.numbers.astype(np.uint64) & mask


def at_all_positions(declared: Attribute, shape: Shape) -> Attribute:
    """What is declared to be a scalar, where it is computed for many positions at once."""
    is_scalar = element_type_or_self(declared) is declared
    return TensorType(declared, shape) if is_scalar and shape else declared


def _rounded_to_odd(integers: NDArray[Any]) -> FloatArray:
    """
    Integers as doubles that are rounded to fewer digits as the integers themselves are.

    What does not fit is told by the last digit.
    """
    magnitudes = np.where(integers < 0, -integers.astype(np.uint64), integers.astype(np.uint64))
    rest = np.uint64((1 << _UNHELD_BITS) - 1)
    is_long = magnitudes > np.uint64(1 << (64 - _UNHELD_BITS))
    has_rest = is_long & ((magnitudes & rest) != 0)
    shortened = (magnitudes & ~rest) | (has_rest.astype(np.uint64) << np.uint64(_UNHELD_BITS))
    doubles = np.where(is_long, shortened, magnitudes).astype(np.float64)
    return np.where(integers < 0, -doubles, doubles)


def _check_shape(shape: Shape, declared: Shape) -> None:
    fits = len(shape) == len(declared) and all(
        length in (DYNAMIC, known) for known, length in zip(shape, declared, strict=True)
    )
    if not fits:
        lengths = ["?" if length == DYNAMIC else length for length in declared]
        text = ", ".join(map(str, lengths))
        raise InterpretationError(f"shape {list(shape)} is not the declared one, [{text}]")


def _as_unsigned(elements: NDArray[Any]) -> NDArray[np.unsignedinteger[Any]]:
    """Bits of floats as integers, also where there is no dtype of their size."""
    if elements.dtype.kind == "u":
        return elements
    return _of_size(elements, np.dtype("<u8"))


def _of_size(elements: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Elements with as many bytes as `dtype` has, zeros above what there is."""
    if dtype.kind == "u" and elements.dtype.kind == "u":
        return elements.astype(dtype)
    raw = np.ascontiguousarray(elements).reshape(-1).view(np.uint8)
    whole = resized(raw, elements.dtype.itemsize, dtype.itemsize)
    return whole.view(dtype).reshape(elements.shape)
