"""
Random arguments, which include all storage integers and the edge cases of floats where they
fit.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    AnyFloat,
    FunctionType,
    IndexType,
    IntegerType,
    Signedness,
    TensorType,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import InterpretationError, VerifyException

from qdialect.algebra.movement import DYNAMIC, Shape
from qdialect.check.interpreters.memory import (
    Slices,
    elementwise,
    require_possible,
    temporary_memory,
)
from qdialect.check.interpreters.values import (
    TypedArray,
    dtype_of,
    elements_of_numbers,
    format_of,
    held_type,
)
from qdialect.dialects.quant.storage import StoredType
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.dialects.quant.verification import with_lengths_of_slots
from qdialect.ir.elements import integer_range
from qdialect.ir.value_types import element_type_or_self, tensor_parts
from qdialect.ops.interface import RefusalCode
from qdialect.support.float_format import FloatFormat
from qdialect.support.memory import MemoryLimitError

_MAX_LENGTH: Final = 4
"""The maximum length chosen for a dynamic axis."""

_MAX_LISTED: Final = 1 << 12
"""The maximum size of an integer range that is taken completely, if there is room."""

_MAX_INDEX: Final = 4


def random_arguments(types: FunctionType, seed: int) -> tuple[TypedArray, ...]:
    """
    Arguments for a function of these types, determined by the seed.

    Integers cover the range of their type: all of it if it is short and fits the argument,
    otherwise at least the ends. Floats include zeros, the smallest and largest numbers,
    infinities, NaN, halves, at which rounding ties, and numbers of all magnitudes. Dynamic axes
    all have the same length, unless the slots of their type determine it. Raises
    InterpretationError for other types.
    """
    random = np.random.default_rng(seed)
    length = int(random.integers(1, _MAX_LENGTH + 1))
    arguments: list[TypedArray] = []
    for number, type in enumerate(types.inputs):
        with naming_argument(number, type):
            arguments.append(_random_value(random, type, length))
    return tuple(arguments)


@contextmanager
def naming_argument(number: int, type: Attribute) -> Generator[None]:
    """Convert a MemoryLimitError to an InterpretationError that names the argument."""
    try:
        yield
    except MemoryLimitError as error:
        reason = f"argument #{number} of type '{type}' is not made: {error} [{RefusalCode.MEMORY}]"
        raise InterpretationError(reason) from error


_TEMPORARY_BYTES: Final = 48
"""Temporary bytes per element: candidates of 8 bytes each, ordered and shuffled."""


def _random_value(random: np.random.Generator, type: Attribute, length: int) -> TypedArray:
    known = declared_shape(type)
    shape = tuple(length if axis == DYNAMIC else axis for axis in known)
    require_possible(shape)
    element_type, count = element_type_or_self(type), math.prod(shape)
    with temporary_memory(count * _TEMPORARY_BYTES):
        edges, others = _candidates(random, element_type, count)
        if count < len(edges):
            candidates = random.permutation(np.concatenate((edges, others)))
        else:
            candidates = np.concatenate((edges, np.resize(others, count - len(edges))))
        chosen = random.permutation(np.resize(candidates, count)).reshape(shape)

        def encode(_: Slices, numbers: NDArray[Any]) -> NDArray[Any]:
            return elements_of_numbers(numbers, element_type)

        elements = elementwise(encode, [chosen], dtype_of(element_type))
    return TypedArray.of(elements, type)


def declared_shape(type: Attribute) -> Shape:
    """
    The shape of `type`, with dynamic lengths that its slots determine; () for a scalar.

    Other dynamic lengths stay DYNAMIC. Raises InterpretationError if a quantized type does not
    fit the shape.
    """
    if not isinstance(type, TensorType):
        # A tensor of another dialect has no slots.
        parts = tensor_parts(type)
        return () if parts is None else parts.shape
    tensor = cast("TensorType[Any]", type)
    shape = tensor.get_shape()
    if isinstance(tensor.element_type, UniformQuantizedType):
        try:
            tensor.element_type.verify_fits(shape)
        except VerifyException as error:
            raise InterpretationError(str(error)) from None
        return with_lengths_of_slots(tensor)
    return shape


def _candidates(
    random: np.random.Generator, type: Attribute, count: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The numbers that an argument contains if it is large enough, and numbers to fill the rest."""
    held = held_type(type)
    match held:
        case IndexType():
            return np.arange(_MAX_INDEX), np.arange(_MAX_INDEX)
        case IntegerType():
            least, greatest = integer_range(
                held.bitwidth, is_signed=held.signedness.data is not Signedness.UNSIGNED
            )
            if isinstance(type, StoredType):
                least, greatest = type.storage_type_min, type.storage_type_max
            return _integers(random, least, greatest, count)
        case _ if isinstance(held, AnyFloat):
            return _floats(random, format_of(held), count)
        case _:
            raise InterpretationError(f"random values of type '{held}' cannot be generated")


def _integers(
    random: np.random.Generator, least: int, greatest: int, count: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    dtype = np.int64 if least < 0 else np.uint64
    if greatest - least < _MAX_LISTED:
        listed = np.arange(least, greatest + 1)
        return listed, random.permutation(listed)
    edges = np.array([least, least + 1, 0, 1, greatest - 1, greatest], dtype=dtype)
    others = random.integers(least, greatest, max(count, 1), dtype=dtype, endpoint=True)
    return edges, others


def _floats(
    random: np.random.Generator, known: FloatFormat, count: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    halves = np.arange(0.5, 8.0)[:, np.newaxis] * 2.0 ** np.arange(-3, 4)
    edges = np.array([0.0, known.smallest, known.largest, math.inf, *halves.reshape(-1)])
    others = 2.0 ** random.uniform(-8, 8, max(count, 1))
    signs = random.choice([-1.0, 1.0], others.shape)
    return np.concatenate((edges, -edges, [math.nan])), signs * others
