"""Strategies for shapes, quantization parameters and quantized constants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray
from typing_extensions import override
from xdsl.dialects.builtin import TensorType, f32, i8

from qdialect.algebra.movement import Shape
from qdialect.algebra.parameters import QuantizationParameters, StorageFormat
from qdialect.algebra.views import Splat
from qdialect.dialects.quant import ConstantOp, QuantizedTensor, Storage, UniformQuantizedType
from qdialect.dialects.quant.storage import FLOAT_STORAGE
from qdialect.support.float_format import FLOAT_FORMATS

I8: Final = StorageFormat(8, signed=True)
F32: Final = FLOAT_FORMATS["f32"]

INTEGERS: Final = tuple(
    StorageFormat(width, signed) for width in (1, 3, 4, 8, 16, 24, 32) for signed in (True, False)
)
"""Integers of several widths, signed and not."""

_TABLE: Final = StorageFormat.of_table(4, [*range(8), -1.0, -0.5, -0.25, 0.1, 0.2, 0.3, 0.5, -0.0])

STORAGES: Final = (
    *map(Storage.of_format, INTEGERS),
    Storage.of(i8, minimum=-127),
    *(Storage.of_format(StorageFormat.of_floats(name)) for name in FLOAT_STORAGE),
    Storage.of_format(_TABLE),
)
"""
The storage of drawn constants: integers, those with a range, floats, and codes of a table.

Each has codes for the numbers 0, 1 and 2, but for integers of one bit.
"""


def divisors(length: int) -> list[int]:
    """All divisors of a positive length."""
    return [d for d in range(1, length + 1) if length % d == 0]


@st.composite
def shapes(draw: st.DrawFn, min_rank: int = 0, max_rank: int = 5) -> Shape:
    """Shapes of up to 256 elements: repeated, unequal and unit lengths."""
    shape: list[int] = []
    for _ in range(draw(st.integers(min_rank, max_rank))):
        room = 256 // math.prod(shape)
        shape.append(draw(st.sampled_from([n for n in (1, 2, 3, 4, 6, 8) if n <= room])))
    return tuple(draw(st.permutations(shape)))


@st.composite
def slot_counts(draw: st.DrawFn, shape: Shape) -> tuple[int, ...]:
    """The number of blocks on each axis, with several blocks on no, one, or any axes."""
    granularity = draw(st.sampled_from(["per-tensor", "per-axis", "sub-channel"]))
    counts = [1] * len(shape)
    if granularity == "per-axis" and shape:
        axis = draw(st.integers(0, len(shape) - 1))
        counts[axis] = max(shape[axis], 1)
    elif granularity == "sub-channel":
        counts = [draw(st.sampled_from(divisors(length) or [1])) for length in shape]
    return tuple(counts)


@st.composite
def parameters(
    draw: st.DrawFn, shape: Shape, storage: StorageFormat = I8, *, distinct: bool = False
) -> QuantizationParameters:
    """
    Parameters of a tensor of `shape`, with repeated slots unless `distinct`.

    They are per-tensor, per-axis or in blocks. Zero points are integers of the storage. Those of
    floats and tables are 0, 1 or 2.
    """
    counts = draw(slot_counts(shape))
    size = math.prod(counts)
    if distinct:
        ids = np.arange(size)
    else:
        ids = np.array(draw(st.lists(st.integers(0, 3), min_size=size, max_size=size)))
    ids = ids.reshape(counts).astype(np.int64)
    start = draw(st.integers(0, 1000))
    least, greatest = storage.bounds
    count = greatest - least + 1 if storage.codebook is None else 3
    return QuantizationParameters.from_blocks(
        shape, (ids + 1 + start) / 64.0, least + (ids + start) % count, F32, storage
    )


def expanded(
    parameters: QuantizationParameters,
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The scale and zero point of every element, from the slot of every position."""
    positions = np.ix_(
        *(
            np.searchsorted(ends, np.arange(length), side="right")
            for ends, length in zip(parameters.ends, parameters.shape, strict=True)
        )
    )
    scales, zero_points = np.asarray(parameters.scales), np.asarray(parameters.zero_points)
    if positions:
        scales, zero_points = scales[positions], zero_points[positions]
    if parameters.storage.codebook is None:
        zero_points = cut(zero_points, parameters.storage)
    return scales.astype(np.float32), zero_points


def cut(values: NDArray[np.int64], storage: StorageFormat) -> NDArray[np.int64]:
    """`values` truncated to the storage width."""
    modulus = 1 << storage.width
    values = values % modulus
    return np.where((values >= modulus // 2) & storage.signed, values - modulus, values)


def quantized_tensor(
    parameters: QuantizationParameters, storage: Storage | None = None
) -> QuantizedTensor:
    """The tensor type of parameters; `storage` has the range of the codes, by default all."""
    storage = storage or Storage.of_format(parameters.storage)
    like = UniformQuantizedType.per_tensor(storage, f32, 1.0)
    return TensorType(like.with_parameters(parameters), parameters.shape)


def dequantized(codes: NDArray[Any], parameters: QuantizationParameters) -> NDArray[np.float32]:
    """
    `(number - zero_point) * scale` of each code, rounded to float32 after each step.

    The number of an integer is itself.
    """
    scales, zero_points = expanded(parameters)
    numbers = np.asarray(parameters.storage.numbers(codes))
    with np.errstate(all="ignore"):
        # Differences of integers of 32 bits, and of short floats, are exact in float64.
        return (numbers.astype(np.float64) - zero_points).astype(np.float32) * scales


@dataclass(frozen=True, eq=False, repr=False)
class Constant:
    """Codes of a quantized tensor, and its parameters."""

    codes: NDArray[Any]
    parameters: QuantizationParameters

    type: QuantizedTensor
    """The coarsest type that has the parameters."""

    @override
    def __repr__(self) -> str:
        return f"{self.codes.tolist()} : {self.type}"

    @property
    def numbers(self) -> NDArray[np.float32]:
        """The numbers that the codes stand for."""
        return dequantized(self.codes, self.parameters)

    def op(self) -> ConstantOp:
        """A new `quant.constant`, whose attribute is a splat if all codes are equal."""
        codes = self.codes
        if codes.size and (codes == codes.flat[0]).all():
            return ConstantOp(Splat(codes.flat[0], codes.shape), self.type)
        return ConstantOp(codes, self.type)


@st.composite
def constants(draw: st.DrawFn, shape: Shape, storages: Sequence[Storage] = STORAGES) -> Constant:
    """
    Constants of `shape`, of any granularity, and of one of the storage types.

    Codes are any of the storage range. One in five constants has equal codes.
    """
    storage = draw(st.sampled_from(storages))
    format, least, greatest = storage.format, storage.minimum.data, storage.maximum.data
    slots = draw(parameters(shape, format, distinct=draw(st.booleans())))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if format.codebook is None:
        codes = np.asarray(random.integers(least, greatest, shape, endpoint=True))
        slots = replace(slots, zero_points=slots.zero_points.clip(least, greatest))
    else:
        codes = random.choice(format.codes(least, greatest).astype(np.uint8), shape)
    if shape and codes.size and draw(st.integers(0, 4)) == 0:
        codes = np.full(shape, codes.flat[0])
    return Constant(codes, slots, quantized_tensor(slots, storage))


def first_index(differs: Sequence[bool] | NDArray[np.bool_]) -> tuple[int, ...] | None:
    """The first index, in row-major order, of a true element."""
    indices = np.argwhere(differs)
    return tuple(map(int, indices[0])) if len(indices) else None
