"""
The values of runs: arrays with their types, made within the memory and the steps of the run.

The bytes of an array are reserved in `qdialect.support.memory` before it is allocated, and
released when it is freed. Functions are applied to large arrays in pieces. The work of an op beyond
its own step is spent before it is done, since a loop may repeat an op on arrays that take little
memory, and one matrix product may take hours.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from io import StringIO
from typing import Any, Final, Protocol, TextIO, TypeAlias, cast
from weakref import finalize

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override
from xdsl.dialects.builtin import (
    AnyDenseElement,
    AnyFloat,
    ComplexType,
    Float32Type,
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
from qdialect.algebra.views import MAX_RANK, Elements, Splat
from qdialect.dialects.quant.constants import element_type_of
from qdialect.dialects.quant.storage import StoredType
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.ir.elements import UnsupportedElementTypeError, element_dtype, in_width, resized
from qdialect.ir.value_types import element_type_or_self, shape_of, tensor_parts
from qdialect.ops.interface import integer_of
from qdialect.support.float_format import FLOAT_FORMATS, FloatFormat, Rounding
from qdialect.support.memory import MemoryBudget, current_budget, memory_budget, registered_cache
from qdialect.text.dense import print_dense
from qdialect.text.printer import MLIRPrinter

ELEMENTS_PER_STEP: Final = 1 << 12
"""So many elements that are computed or copied take as long as an op on a scalar."""
PRODUCTS_PER_STEP: Final = 1 << 18
"""So many products of a sum take as long."""


class Work(Protocol):
    """Counts work. The methods raise what the limit of the run raises."""

    def spend_elements(self, count: int) -> None:
        """Spend elements that are going to be computed or copied."""
        ...

    def spend_products(self, count: int) -> None:
        """Spend products of a sum in floats."""
        ...


_CURRENT: Final = ContextVar[Work | None]("qdialect_work", default=None)


@contextmanager
def work_spent_by(work: Work) -> Generator[None]:
    """Count the work that is done meanwhile."""
    token = _CURRENT.set(work)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def spend_elements(count: int) -> None:
    """Spend elements of the current run, if there is one."""
    if (work := _CURRENT.get()) is not None:
        work.spend_elements(count)


def spend_products(count: int) -> None:
    """Spend products of the current run, if there is one."""
    if (work := _CURRENT.get()) is not None:
        work.spend_products(count)


_IS_SINGLE: Final = ContextVar("qdialect_is_single", default=False)


@contextmanager
def in_single_precision() -> Generator[None]:
    """
    Compute with f32 in float32 meanwhile, as compilers do: results are rounded more than once.

    Otherwise numbers are of float64, and results are rounded once.
    """
    token = _IS_SINGLE.set(True)
    try:
        yield
    finally:
        _IS_SINGLE.reset(token)


def is_in_single() -> bool:
    """Whether the current run computes with f32 in float32."""
    return _IS_SINGLE.get()


MIN_COUNTED: Final = 1 << 12
"""
The minimum size in bytes of a counted array. The size of the text bounds the number of smaller
ones.
"""

_BYTES_COPIED: Final = 64
"""So many bytes are copied while an element is computed."""

_PIECE: Final = 1 << 17
"""The maximum number of elements that a function is applied to at once."""

Slices = tuple[slice, ...]


_MAX_ELEMENTS: Final = 1 << 58
"""The maximum number of elements of an array or a broadcast view in numpy, for any dtype."""


def require_possible(shape: Shape) -> None:
    """Raise InterpretationError if numpy has no array of that shape."""
    if (
        len(shape) > MAX_RANK
        or any(length < 0 for length in shape)
        or math.prod(filter(None, shape)) > _MAX_ELEMENTS
    ):
        raise InterpretationError(f"a tensor of shape {list(shape)} exceeds the limits of numpy")


def allocated(
    make: Callable[[], NDArray[Any]], nbytes: int, sources: Sequence[NDArray[Any]] = ()
) -> NDArray[Any]:
    """
    The array that `make` returns, of `nbytes` bytes unless it is a view of one of `sources`.

    Raises MemoryLimitError before it calls `make`.
    """
    if nbytes < MIN_COUNTED:
        return make()
    spend_elements(nbytes // _BYTES_COPIED)
    budget = current_budget() or MemoryBudget()
    budget.reserve(nbytes)
    try:
        array = make()
    except BaseException:
        budget.release(nbytes)
        raise
    owner = _owner(array)
    if any(owner is _owner(source) for source in sources):
        budget.release(nbytes)
    else:
        finalize(owner, budget.release, nbytes).atexit = False
    return array


@contextmanager
def temporary_memory(nbytes: int) -> Generator[None]:
    """Reserve `nbytes` bytes for the duration of the block. Raises MemoryLimitError."""
    with memory_budget() as budget:
        budget.reserve(nbytes)
        try:
            yield
        finally:
            budget.release(nbytes)


def _owner(array: NDArray[Any]) -> NDArray[Any]:
    """The array that owns the memory of `array`."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def repeated_axes(array: NDArray[Any]) -> tuple[bool, ...]:
    """For each axis, whether all positions along it share memory."""
    return tuple(
        not stride or length == 1 for stride, length in zip(array.strides, array.shape, strict=True)
    )


def without_repeats(array: NDArray[Any]) -> NDArray[Any]:
    """`array`, with only the first position of each axis along which positions share memory."""
    return array[tuple(slice(0, 1) if once else slice(None) for once in repeated_axes(array))]


def elementwise(
    function: Callable[..., NDArray[Any]],
    arrays: Sequence[NDArray[Any]],
    dtype: np.dtype[Any],
    *,
    varying: Sequence[bool] | None = None,
) -> NDArray[Any]:
    """
    Apply an elementwise `function` to arrays. The result is an array of `dtype`.

    The function is called with the slices of the result to compute, one per axis, and the
    arrays at these slices. Large arrays are passed in pieces. Along an axis on which no array
    varies, one position is computed and broadcast; `varying` marks axes along which the
    function itself varies. Raises MemoryLimitError.
    """
    shapes = {array.shape for array in arrays}
    # numpy broadcasts up to 32 axes only.
    shape = shapes.pop() if len(shapes) == 1 else np.broadcast_shapes(*shapes)
    if (size := math.prod(shape)) <= _PIECE:
        spend_elements(size)
        return np.asarray(function(tuple(map(slice, shape)), *arrays))
    whole = [np.broadcast_to(array, shape) for array in arrays]
    once = [all(flags) for flags in zip(*map(repeated_axes, whole), strict=True)]
    if varying is not None:
        once = [is_once and not varies for is_once, varies in zip(once, varying, strict=True)]
    core = tuple(1 if is_once and n else n for is_once, n in zip(once, shape, strict=True))
    spend_elements(math.prod(core))
    computed = _empty(core, dtype)
    for slices in _pieces(core):
        computed[slices] = function(slices, *(array[slices] for array in whole))
    return np.broadcast_to(computed, shape)


def _empty(shape: Shape, dtype: np.dtype[Any]) -> NDArray[Any]:
    nbytes = math.prod(shape) * dtype.itemsize
    return allocated(lambda: np.empty(shape, dtype), nbytes)


def _pieces(shape: Shape) -> Iterator[Slices]:
    """Slices that cover an array of `shape` in parts of at most `_PIECE` elements."""
    sizes = [math.prod(shape[axis:]) for axis in range(len(shape) + 1)]
    cut = next((axis for axis in range(len(shape)) if sizes[axis + 1] <= _PIECE), None)
    if cut is None:
        yield ()
        return
    step = max(_PIECE // max(sizes[cut + 1], 1), 1)
    for outer in np.ndindex(*shape[:cut]):
        for start in range(0, shape[cut], step):
            yield (
                *(slice(at, at + 1) for at in outer),
                slice(start, min(start + step, shape[cut])),
                *map(slice, shape[cut + 1 :]),
            )


_DOUBLE = sys.float_info
_UNHELD_BITS = 64 - _DOUBLE.mant_dig
"""The number of bits of a 64-bit integer that may not fit in a double."""


@registered_cache
@lru_cache(maxsize=1024)
def held_type(type: Attribute) -> AnyDenseElement:
    """
    The element type in which values of `type` are held: that of the codes if quantized.

    Raises InterpretationError if there is no dtype for it.
    """
    plain = element_type_of(type) if isinstance(type, StoredType) else type
    try:
        element_dtype(plain)
    except UnsupportedElementTypeError as error:
        raise InterpretationError(str(error)) from None
    return cast(AnyDenseElement, plain)


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
    zeros are preserved. Quantized values are their codes: integers, or bits of floats.
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
        The elements as numbers: float64 for floats, int64 for integers and for codes.

        In single precision, float32 for f32: a view. Raises InterpretationError for other types.
        """
        if isinstance(self.element_type, StoredType):
            return self.elements.astype(np.int64)
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


TypedArrays: TypeAlias = Sequence[TypedArray]
"""The operands, or the results, of an op that is run."""


def value_of(value: Any, type: Attribute) -> TypedArray:
    """`value` as a TypedArray: xDSL's own functions return Python numbers."""
    if isinstance(value, TypedArray):
        return value
    return TypedArray.of_numbers(np.asarray(value), type)


def operands_of(op: Operation, args: Sequence[Any]) -> list[TypedArray]:
    """The values of the operands of `op`, and of lists among them. Raises InterpretationError."""
    values: list[TypedArray] = []
    for arg, operand in zip(args, op.operands, strict=True):
        values += arg if isinstance(arg, tuple) else [value_of(arg, operand.type)]
    return values


def _numbers(elements: NDArray[Any], type: AnyDenseElement) -> NDArray[Any]:
    """Elements of a held type as numbers."""
    # Integers first: they are in loops, and `AnyFloat` is a union of many classes.
    if isinstance(type, IntegerType | IndexType):
        return elements.astype(np.int64)
    if isinstance(type, Float32Type) and is_in_single():
        return elements.view(np.float32)
    if isinstance(type, AnyFloat):
        return format_of(type).decode(_as_unsigned(elements))
    raise InterpretationError(f"'{type}' is not computed with")


def elements_of_numbers(numbers: NDArray[Any], type: Attribute) -> NDArray[Any]:
    """Numbers as elements of `type`: integers and codes truncated to the width, floats rounded."""
    plain = held_type(type)
    if isinstance(type, StoredType):
        return type.storage_format.wrap(numbers.astype(np.int64)).astype(element_dtype(plain))
    if isinstance(plain, IntegerType):
        if numbers.dtype == np.bool_ and plain.bitwidth == 1:
            # The one digit is the sign, unless the type has none.
            is_unsigned = plain.signedness.data is Signedness.UNSIGNED
            return numbers.view(np.uint8) if is_unsigned else -numbers.view(np.int8)
        if plain.bitwidth == 64:
            return numbers.astype(element_dtype(plain))
        is_signed = plain.signedness.data is not Signedness.UNSIGNED
        cut = StorageFormat(plain.bitwidth, is_signed).wrap(numbers.astype(np.int64))
        return cut.astype(element_dtype(plain))
    if isinstance(plain, IndexType):
        return numbers.astype(np.int64)
    if isinstance(plain, AnyFloat):
        known = format_of(plain)
        if numbers.dtype == np.float32 and known.dtype == "float32":
            is_nan = np.isnan(numbers)
            # As below, all NaNs are positive and quiet.
            singles = np.where(is_nan, np.float32("nan"), numbers) if is_nan.any() else numbers
            return np.require(singles, requirements="C").view(dtype_of(plain))
        if numbers.dtype.kind in "iu" and known.precision < _DOUBLE.mant_dig:
            numbers = _rounded_to_odd(numbers)
        bits = known.nearest_bits(np.asarray(numbers, dtype=np.float64))
        return elements_of_bits(bits, plain)
    raise InterpretationError(f"'{plain}' is not computed with")


def elements_of_bits(bits: NDArray[np.uint64], type: Attribute) -> NDArray[Any]:
    """Bit patterns as elements of a float type."""
    return _of_size(bits.astype("<u8"), dtype_of(type))


def reinterpreted(value: TypedArray, declared: Attribute) -> TypedArray:
    """
    The same bits as a value of the type `declared`, such as integers as floats.

    Raises InterpretationError if the widths of the element types differ.
    """
    plain, wanted = held_type(value.element_type), held_type(element_type_or_self(declared))
    if plain == wanted:
        return TypedArray.of(value.elements, at_all_positions(declared, value.shape))
    if width_of(plain) != width_of(wanted):
        raise InterpretationError(f"'{plain}' has not as many bits as '{wanted}'")
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
    """
    The result of `quant.dcast`: see `QuantizationParameters.read`.

    Raises InterpretationError for a code without a number.
    """
    parameters, type = value.parameters, element_type_or_self(declared)

    def read(slices: Slices, codes: NDArray[Any]) -> NDArray[Any]:
        read = _part(parameters, slices).read(codes, in_single=is_in_single())
        return elements_of_numbers(read, type)

    elements = _with_slots(read, value, parameters, type)
    return TypedArray.of(elements, at_all_positions(declared, value.shape))


def quantized(
    value: TypedArray, declared: Attribute, rounding: Rounding = Rounding.NEAREST_EVEN
) -> TypedArray:
    """
    The result of `quant.qcast`: see `QuantizationParameters.store`.

    Raises InterpretationError if `declared` is not a uniform quantized type, and for NaN where no
    code has it.
    """
    type = element_type_or_self(declared)
    if not isinstance(type, UniformQuantizedType):
        raise InterpretationError(f"nothing says how to quantize to '{type}'")
    least, greatest = type.storage_type_min, type.storage_type_max
    declared = at_all_positions(declared, value.shape)
    try:
        type.require_readable()
    except VerifyException as error:
        raise InterpretationError(str(error)) from None
    zeros = np.broadcast_to(np.zeros((), dtype_of(type)), value.shape)
    parameters = TypedArray.of(zeros, declared).parameters

    def store(slices: Slices, elements: NDArray[Any]) -> NDArray[Any]:
        numbers = TypedArray(elements, value.element_type).numbers
        part = _part(parameters, slices)
        return part.store(
            numbers, least, greatest, rounding, in_single=is_in_single(), dtype=dtype_of(type)
        )

    return TypedArray.of(_with_slots(store, value, parameters, type), declared)


def _with_slots(
    function: Callable[..., NDArray[Any]],
    value: TypedArray,
    parameters: QuantizationParameters,
    type: Attribute,
) -> NDArray[Any]:
    varying = [len(ends) > 1 for ends in parameters.ends]
    try:
        return elementwise(function, [value.elements], dtype_of(type), varying=varying)
    except ValueError as error:
        raise InterpretationError(str(error)) from None


def _part(parameters: QuantizationParameters, slices: Slices) -> QuantizationParameters:
    """Those of the elements in `slices`; an axis with one run has the same in each part."""
    is_same = (
        len(ends) == 1 or part == slice(length)
        for ends, part, length in zip(parameters.ends, slices, parameters.shape, strict=True)
    )
    return parameters if all(is_same) else parameters[slices]


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


def axis_in(op: Operation, name: str, value: TypedArray) -> int:
    """The axis of a value in an attribute. Raises InterpretationError if it has no such axis."""
    axis = integer_of(op, name)
    if not 0 <= axis < len(value.shape):
        raise InterpretationError(f"its operand has no axis {axis}")
    return axis


def signed(value: TypedArray) -> NDArray[Any]:
    """The numbers of a value: integers as signed."""
    return value.numbers


def unsigned(value: TypedArray) -> NDArray[np.uint64]:
    """The integers as unsigned: uint64."""
    plain = held_type(value.element_type)
    mask = np.uint64((1 << width_of(plain)) - 1)
    return _numbers(value.elements, plain).astype(np.uint64) & mask


def at_all_positions(declared: Attribute, shape: Shape) -> Attribute:
    """
    The type of a batch of values of the type `declared`: a tensor of `shape`.

    The leading axes of `shape`, which `declared` does not have, are the batch axes.
    """
    if len(shape) <= len(shape_of(declared) or ()):
        return declared
    return _tensor_of(element_type_or_self(declared), shape)


@registered_cache
@lru_cache(maxsize=1024)
def _tensor_of(element: Attribute, shape: Shape) -> TensorType[Attribute]:
    return TensorType(element, shape)


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
