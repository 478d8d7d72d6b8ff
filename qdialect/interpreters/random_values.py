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
from xdsl.utils.exceptions import InterpretationError

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
    candidates = _candidates(random, element_type, math.prod(shape))
    # Each once before one is there twice.
    order = random.permutation(len(candidates))
    chosen = np.resize(candidates[order], math.prod(shape))
    random.shuffle(chosen)
    return TypedArray.of(elements_of_numbers(chosen.reshape(shape), element_type), type)


def _shape(type: Attribute, length: int) -> Shape:
    if not isinstance(type, TensorType):
        return ()
    tensor = cast("TensorType[Any]", type)
    shape = tensor.get_shape()
    if isinstance(tensor.element_type, UniformQuantizedType):
        shape = with_lengths_of_slots(tensor)
    return tuple(length if known == DYNAMIC else known for known in shape)


def _candidates(random: np.random.Generator, type: Attribute, count: int) -> NDArray[Any]:
    """The numbers that elements are chosen from."""
    held = held_type(type)
    match held:
        case IndexType():
            return np.arange(_MAX_INDEX)
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


def _integers(random: np.random.Generator, least: int, greatest: int, count: int) -> NDArray[Any]:
    dtype = np.int64 if least < 0 else np.uint64
    if greatest - least < _MAX_LISTED:
        return np.arange(least, greatest + 1, dtype=np.int64)
    edges = np.array([least, least + 1, 0, 1, greatest - 1, greatest], dtype=dtype)
    others = random.integers(least, greatest, max(count, 1), dtype=dtype, endpoint=True)
    return np.concatenate((edges, others))


def _floats(random: np.random.Generator, known: FloatFormat, count: int) -> NDArray[np.float64]:
    halves = np.arange(0.5, 8.0)[:, np.newaxis] * 2.0 ** np.arange(-3, 4)
    edges = np.array([0.0, known.smallest, known.largest, math.inf])
    sizes = 2.0 ** random.uniform(-8, 8, max(count, 1))
    positive = np.concatenate((edges, halves.reshape(-1), sizes))
    return np.concatenate((positive, -positive, [math.nan]))
