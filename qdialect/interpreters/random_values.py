"""Arguments that hit what goes wrong: every storage integer, and the edges of floats."""

from __future__ import annotations

import math
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

from qdialect.dialects.quant.types import StoredType, UniformQuantizedType
from qdialect.dialects.quant.verification import with_lengths_of_slots
from qdialect.dialects.value_types import element_type_or_self
from qdialect.elements import integer_range
from qdialect.float_format import FloatFormat
from qdialect.interpreters.values import TypedArray, elements_of_numbers, format_of, held_type
from qdialect.movement import DYNAMIC, Shape

_MAX_LENGTH: Final = 4
"""The greatest length for an axis whose length is not known."""

_MAX_LISTED: Final = 1 << 12
"""The most integers of a range that are all taken, if there is room."""

_MAX_INDEX: Final = 4


def random_arguments(types: FunctionType, seed: int) -> tuple[TypedArray, ...]:
    """
    Arguments for a function of these types, the same ones for the same seed.

    Integers are of the range of their type, all of them where that is short and there is
    room, the first and the last where not. Floats are zeros, the smallest, the largest,
    infinities and NaN, halves, on which rounding ties, and numbers of all sizes. Axes that
    only the run tells have all the same length, or that of the slots of their type. Raises
    InterpretationError for types that there are no such values of.
    """
    random = np.random.default_rng(seed)
    length = int(random.integers(1, _MAX_LENGTH + 1))
    return tuple(_random_value(random, type, length) for type in types.inputs)


def _random_value(random: np.random.Generator, type: Attribute, length: int) -> TypedArray:
    shape = _shape(type, length)
    element_type = element_type_or_self(type)
    count = math.prod(shape)
    edges, others = _candidates(random, element_type, count)
    if count < len(edges):
        candidates = random.permutation(np.concatenate((edges, others)))
    else:
        candidates = np.concatenate((edges, np.resize(others, count - len(edges))))
    chosen = random.permutation(np.resize(candidates, count))
    return TypedArray.of(elements_of_numbers(chosen.reshape(shape), element_type), type)


def _shape(type: Attribute, length: int) -> Shape:
    if not isinstance(type, TensorType):
        return ()
    tensor = cast("TensorType[Any]", type)
    shape = tensor.get_shape()
    if isinstance(tensor.element_type, UniformQuantizedType):
        try:
            tensor.element_type.verify_fits(shape)
        except VerifyException as error:
            raise InterpretationError(str(error)) from None
        shape = with_lengths_of_slots(tensor)
    return tuple(length if known == DYNAMIC else known for known in shape)


def _candidates(
    random: np.random.Generator, type: Attribute, count: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The numbers that are there if there is room, and others."""
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
            raise InterpretationError(f"there are no random values of type '{held}'")


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
