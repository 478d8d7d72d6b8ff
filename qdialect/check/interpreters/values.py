"""The run-time values of the interpreter: arrays with their types."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any, TextIO, cast

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

from qdialect.algebra.movement import DYNAMIC, Shape
from qdialect.algebra.parameters import FloatArray, QuantizationParameters, StorageFormat
from qdialect.algebra.views import Elements, Splat
from qdialect.check.interpreters.memory import (
    Slices,
    elementwise,
    temporary_memory,
    without_repeats,
)
from qdialect.dialects.quant.constants import element_type_of
from qdialect.dialects.quant.storage import StoredType
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.ir.elements import (
    UnsupportedElementTypeError,
    element_dtype,
    in_width,
    resized,
)
from qdialect.ir.value_types import element_type_or_self, shape_of, tensor_parts
from qdialect.support.float_format import FLOAT_FORMATS, FloatFormat, Rounding
from qdialect.text.dense import print_dense
from qdialect.text.printer import MLIRPrinter

_DOUBLE = sys.float_info
_UNHELD_BITS = 64 - _DOUBLE.mant_dig
"""The number of bits of a 64-bit integer that may not fit in a double."""


def held_type(type: Attribute) -> AnyDenseElement:
    """
    The element type in which values of `type` are held: the storage integers if quantized.

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


class DivergingError(InterpretationError):
    """A scalar that controls the flow differs between positions of a vectorized run."""

    def __init__(self, numbers: NDArray[Any]) -> None:
        super().__init__("control flow differs between positions")
        self.numbers = numbers


@dataclass(frozen=True, eq=False)
class TypedArray:
    """
    A scalar or tensor value: its elements, and its static type.

    Elements have the dtype of `element_dtype`: floats are their bits, so that NaNs and signed
    zeros are preserved. Quantized values are their storage integers.
    """

    elements: NDArray[Any]

    type: Attribute

    @classmethod
    def of(cls, elements: NDArray[Any], declared: Attribute) -> TypedArray:
        """
        A value of the type `declared`, whose dynamic lengths are those of `elements`.

        `elements` have the dtype of that type. Raises InterpretationError if the shape does not
        match, or the slots of a quantized type do not fit it.
        """
        if (parts := tensor_parts(declared)) is not None and not isinstance(declared, TensorType):
            declared = TensorType(parts.element_type, parts.shape)
        if isinstance(declared, TensorType):
            declared = tensor = cast(TensorType[Attribute], declared)
            if parts is not None and elements.shape != parts.shape:
                _check_shape(elements.shape, parts.shape)
                declared = TensorType(tensor.element_type, elements.shape, tensor.encoding)
        elif isinstance(declared, UnrankedTensorType):
            element_type = cast(UnrankedTensorType[Attribute], declared).element_type
            declared = TensorType(element_type, elements.shape)
        elif elements.shape:
            raise InterpretationError(f"a tensor of shape {list(elements.shape)} is not a scalar")
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
        A value of the integer or float type `declared` from numbers.

        Integers are truncated to the width, floats are rounded. Raises InterpretationError.
        """
        return cls.of(elements_of_numbers(numbers, element_type_or_self(declared)), declared)

    @property
    def shape(self) -> Shape:
        """The shape; () for a scalar."""
        return self.elements.shape

    @property
    def element_type(self) -> Attribute:
        """The type of the elements, or of the scalar."""
        return element_type_or_self(self.type)

    @property
    def numbers(self) -> NDArray[Any]:
        """
        The elements as numbers: float64 for floats, int64 for integers and storage integers.

        Raises InterpretationError for other types.
        """
        return _numbers(self.elements, held_type(self.element_type))

    @property
    def parameters(self) -> QuantizationParameters:
        """The quantization parameters. Raises InterpretationError if the value has none."""
        type = self.element_type
        if not isinstance(type, UniformQuantizedType):
            raise InterpretationError(f"'{type}' has no scales")
        return type.parameters_on(self.shape)

    def __index__(self) -> int:
        """A scalar as a Python integer, for xDSL's control flow. Raises DivergingError."""
        return int(self._same_everywhere())

    def __bool__(self) -> bool:
        return bool(self._same_everywhere())

    def _same_everywhere(self) -> Any:
        numbers = self.numbers
        first = numbers.reshape(-1)[:1]
        if numbers.shape and not (numbers.size and (numbers == first).all()):
            raise DivergingError(numbers)
        return first[0]

    @override
    def __str__(self) -> str:
        """The value in MLIR's syntax of attributes."""
        stream = StringIO()
        self.write_to(stream)
        return stream.getvalue()

    def write_to(self, stream: TextIO) -> None:
        """Write `str(self)`, a large tensor in pieces."""
        type = held_type(self.element_type)
        if isinstance(self.type, TensorType):
            constant = _as_constant(self.elements)
            is_view = isinstance(constant, Splat) or constant.flags.c_contiguous
            # Elements that are not in row-major order would be copied by the printer.
            with temporary_memory(0 if is_view else self.elements.nbytes):
                print_dense(MLIRPrinter(stream=stream), constant, type)
        else:
            text = StringIO()
            print_dense(MLIRPrinter(stream=text), Splat(self.elements[()], ()), type)
            stream.write(text.getvalue().removeprefix("dense<").removesuffix(">"))
        stream.write(f" : {cast(Attribute, self.type)}")


def _as_constant(elements: NDArray[Any]) -> Elements:
    """`elements`, as a splat if all are equal, bit for bit."""
    distinct = without_repeats(elements)
    first = distinct[(slice(1),) * distinct.ndim].reshape(-1)
    if not len(first):
        return elements

    def is_first(_: Slices, part: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(part == first)

    same = elementwise(is_first, [distinct], np.dtype(bool))
    return Splat(first[0], elements.shape) if same.all() else elements


def value_of(value: Any, type: Attribute) -> TypedArray:
    """`value` as a TypedArray: xDSL's own functions return Python numbers."""
    if isinstance(value, TypedArray):
        return value
    return TypedArray.of_numbers(np.asarray(value), type)


def operands_of(op: Operation, args: Sequence[Any]) -> list[TypedArray]:
    """The values of the operands of `op`. Raises InterpretationError."""
    return [value_of(arg, of.type) for arg, of in zip(args, op.operands, strict=True)]


def _numbers(elements: NDArray[Any], held: AnyDenseElement) -> NDArray[Any]:
    """Elements of a held type as numbers."""
    # Integers first: they are in loops, and `AnyFloat` is a union of many classes.
    if isinstance(held, IntegerType | IndexType):
        return elements.astype(np.int64)
    if isinstance(held, AnyFloat):
        return format_of(held).decode(_as_unsigned(elements))
    raise InterpretationError(f"'{held}' is not computed with")


def elements_of_numbers(numbers: NDArray[Any], type: Attribute) -> NDArray[Any]:
    """Numbers as elements of `type`: integers truncated to the width, floats rounded."""
    held = held_type(type)
    if isinstance(held, IntegerType):
        if held.bitwidth == 64:
            return numbers.astype(element_dtype(held))
        is_signed = held.signedness.data is not Signedness.UNSIGNED
        cut = StorageFormat(held.bitwidth, is_signed).wrap(numbers.astype(np.int64))
        return cut.astype(element_dtype(held))
    if isinstance(held, IndexType):
        return numbers.astype(np.int64)
    if isinstance(held, AnyFloat):
        known = format_of(held)
        if numbers.dtype.kind in "iu" and known.precision < _DOUBLE.mant_dig:
            numbers = _rounded_to_odd(numbers)
        bits = known.nearest_bits(np.asarray(numbers, dtype=np.float64))
        return elements_of_bits(bits, held)
    raise InterpretationError(f"'{held}' is not computed with")


def elements_of_bits(bits: NDArray[np.uint64], type: Attribute) -> NDArray[Any]:
    """Bit patterns as elements of a float type."""
    return _of_size(bits.astype("<u8"), dtype_of(type))


def reinterpreted(value: TypedArray, declared: Attribute) -> TypedArray:
    """
    The same bits as a value of the type `declared`, such as integers as floats.

    Raises InterpretationError if the widths of the element types differ.
    """
    held, wanted = held_type(value.element_type), held_type(element_type_or_self(declared))
    if held == wanted:
        return TypedArray.of(value.elements, at_all_positions(declared, value.shape))
    if width_of(held) != width_of(wanted):
        raise InterpretationError(f"'{held}' has not as many bits as '{wanted}'")
    dtype = element_dtype(wanted)

    def reinterpret(_: Slices, elements: NDArray[Any]) -> NDArray[Any]:
        bits = _of_size(np.ascontiguousarray(elements).reshape(-1), dtype)
        return in_width(bits, wanted).reshape(elements.shape)

    array = value.elements
    if array.flags.c_contiguous and array.dtype.itemsize == dtype.itemsize:
        # The bits of a contiguous array are a view.
        bits = reinterpret((), array)
    else:
        bits = elementwise(reinterpret, [array], dtype)
    return TypedArray.of(bits, at_all_positions(declared, bits.shape))


def computed(
    function: Callable[..., NDArray[Any]], operands: Sequence[TypedArray], declared: Attribute
) -> TypedArray:
    """
    Apply an elementwise `function` to the operands. The result has the type `declared`.

    The function is called with `TypedArray`s, pieces of the operands if these are large, and
    returns numbers, which are converted as in `TypedArray.of_numbers`.
    """
    type = element_type_or_self(declared)

    def compute(_: Slices, *arrays: NDArray[Any]) -> NDArray[Any]:
        pieces = map(TypedArray, arrays, (operand.element_type for operand in operands))
        return elements_of_numbers(np.asarray(function(*pieces)), type)

    elements = elementwise(compute, [operand.elements for operand in operands], dtype_of(type))
    return TypedArray.of(elements, at_all_positions(declared, elements.shape))


def dequantized(value: TypedArray, declared: Attribute) -> TypedArray:
    """The result of `quant.dcast`: see `QuantizationParameters.read`."""
    parameters, type = value.parameters, element_type_or_self(declared)

    def read(slices: Slices, codes: NDArray[Any]) -> NDArray[Any]:
        stored = TypedArray(codes, value.element_type).numbers
        return elements_of_numbers(_part(parameters, slices).read(stored), type)

    elements = _with_slots(read, value, parameters, type)
    return TypedArray.of(elements, at_all_positions(declared, value.shape))


def quantized(
    value: TypedArray, declared: Attribute, rounding: Rounding = Rounding.NEAREST_EVEN
) -> TypedArray:
    """
    The result of `quant.qcast`: see `QuantizationParameters.store`.

    Raises InterpretationError if `declared` is not a uniform quantized type.
    """
    type = element_type_or_self(declared)
    if not isinstance(type, UniformQuantizedType):
        raise InterpretationError(f"nothing says how to quantize to '{type}'")
    least, greatest = type.storage_type_min, type.storage_type_max
    declared = at_all_positions(declared, value.shape)
    zeros = np.broadcast_to(np.zeros((), dtype_of(type)), value.shape)
    parameters = TypedArray.of(zeros, declared).parameters

    def store(slices: Slices, elements: NDArray[Any]) -> NDArray[Any]:
        numbers = TypedArray(elements, value.element_type).numbers
        stored = _part(parameters, slices).store(numbers, least, greatest, rounding)
        return elements_of_numbers(stored, type)

    return TypedArray.of(_with_slots(store, value, parameters, type), declared)


def _with_slots(
    function: Callable[..., NDArray[Any]],
    value: TypedArray,
    parameters: QuantizationParameters,
    type: Attribute,
) -> NDArray[Any]:
    varying = [len(ends) > 1 for ends in parameters.ends]
    return elementwise(function, [value.elements], dtype_of(type), varying=varying)


def _part(parameters: QuantizationParameters, slices: Slices) -> QuantizationParameters:
    """The parameters of the elements in `slices`."""
    if all(of == slice(length) for of, length in zip(slices, parameters.shape, strict=True)):
        return parameters
    return parameters[slices]


def format_of(type: AnyFloat) -> FloatFormat:
    """The format of a float type."""
    return FLOAT_FORMATS[type.name]


def width_of(type: AnyDenseElement) -> int:
    """The width of an element in bits."""
    match type:
        case IndexType():
            return 64
        case ComplexType():
            return 2 * width_of(type.element_type)
        case _:
            return type.bitwidth


def unsigned(value: TypedArray) -> NDArray[np.uint64]:
    """The integers as unsigned: uint64."""
    held = held_type(value.element_type)
    mask = np.uint64((1 << width_of(held)) - 1)
    return _numbers(value.elements, held).astype(np.uint64) & mask


def at_all_positions(declared: Attribute, shape: Shape) -> Attribute:
    """
    The type of a batch of values of the type `declared`: a tensor of `shape`.

    The leading axes of `shape`, which `declared` does not have, are the batch axes.
    """
    if len(shape) <= len(shape_of(declared) or ()):
        return declared
    return TensorType(element_type_or_self(declared), shape)


def _rounded_to_odd(integers: NDArray[Any]) -> FloatArray:
    """
    Integers as doubles, such that rounding these further is the same as rounding the integers.

    Rounds to odd: the last digit is odd if digits were dropped.
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
    """The bits of floats as unsigned integers, even if numpy has no dtype of their size."""
    if elements.dtype.kind == "u":
        return elements
    return _of_size(elements, np.dtype("<u8"))


def _of_size(elements: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Elements truncated or zero-extended to the size of `dtype`."""
    if dtype.kind == "u" and elements.dtype.kind == "u":
        return elements.astype(dtype)
    if elements.dtype.itemsize == dtype.itemsize:
        return elements.view(dtype)
    raw = np.ascontiguousarray(elements).reshape(-1).view(np.uint8)
    whole = resized(raw, elements.dtype.itemsize, dtype.itemsize)
    return whole.view(dtype).reshape(elements.shape)
