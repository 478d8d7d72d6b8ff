"""Storage integers, quantized types and their text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from nested_text import nested
from numpy.typing import NDArray

from qdialect.testing.tensors import divisors

Shape = tuple[int, ...]


Ints = NDArray[np.int64]
Bits = NDArray[np.uint64]


PLAIN = {
    "f32": 32,
    "f16": 16,
    "bf16": 16,
    "f64": 64,
    "i1": 1,
    "i4": 4,
    "i8": 8,
    "i16": 16,
    "i32": 32,
    "i64": 64,
}


@dataclass(frozen=True)
class Storage:
    """The storage of a quantized type."""

    width: int
    signed: bool
    low: int
    high: int

    @classmethod
    def of(cls, width: int, *, signed: bool, narrow: bool = False) -> Storage:
        """The storage of all integers of a width, or of all but the minimum."""
        low = -(1 << (width - 1)) if signed else 0
        return cls(width, signed, low + narrow, low + (1 << width) - 1)

    @property
    def is_narrow(self) -> bool:
        """Whether the storage range is narrower than the width."""
        return self.high - self.low + 1 < 1 << self.width

    @property
    def text(self) -> str:
        """The text in a quantized type."""
        name = f"{'i' if self.signed else 'u'}{self.width}"
        return f"{name}<{self.low}:{self.high}>" if self.is_narrow else name

    @property
    def signless(self) -> str:
        """The integer type for a storage cast."""
        return f"i{self.width}"

    @property
    def stored(self) -> str:
        """The element type of a constant's attribute."""
        return f"{'' if self.signed else 'u'}i{self.width}"

    def bits(self, codes: Ints) -> Bits:
        """The bits of codes."""
        return (codes & ((1 << self.width) - 1)).astype(np.uint64)

    def codes(self, bits: Bits) -> Ints:
        """The codes of bits."""
        codes = bits.astype(np.int64)
        if self.width == 64:
            return codes
        is_negative = self.signed & (codes >= 1 << (self.width - 1))
        return np.where(is_negative, codes - (1 << self.width), codes)


STORAGES = [
    Storage.of(8, signed=True),
    Storage.of(8, signed=True, narrow=True),
    Storage.of(8, signed=False),
    Storage.of(8, signed=False, narrow=True),
    Storage.of(4, signed=True),
    Storage.of(16, signed=True),
    Storage.of(3, signed=False),
    Storage.of(1, signed=True),
]


@dataclass(frozen=True)
class Spelling:
    """A quantized type: blocks, each with a scale and a zero point."""

    storage: Storage
    blocks: tuple[tuple[int, int], ...]
    """Pairs of an axis and its block size."""

    axis: int | None
    """The axis, if spelled per-axis."""

    scales: NDArray[np.float64]
    zero_points: Ints

    @property
    def is_per_tensor(self) -> bool:
        """Whether it is spelled per-tensor."""
        return self.axis is None and not self.blocks

    @property
    def text(self) -> str:
        """The text of the type."""
        slots = [
            f"{scale:.17e}:{zero}"
            for scale, zero in zip(
                self.scales.ravel().tolist(), self.zero_points.ravel().tolist(), strict=True
            )
        ]
        start = f"!quant.uniform<{self.storage.text}:f32"
        if self.is_per_tensor:
            return f"{start}, {slots[0]}>"
        if self.axis is not None:
            return f"{start}:{self.axis}, {{{','.join(slots)}}}>"
        blocks = ", ".join(f"{axis}:{block}" for axis, block in self.blocks)
        return f"{start}:{{{blocks}}}, {nested(slots, self.scales.shape, '{}')}>"

    def on(self, shape: Shape) -> tuple[NDArray[np.float64], Ints] | None:
        """The scale and zero point of every element, None if the type does not fit."""
        scales, zero_points = self.scales, self.zero_points
        if self.is_per_tensor:
            return np.full(shape, scales.item()), np.full(shape, zero_points.item())
        if self.axis is not None:
            if self.axis >= len(shape) or shape[self.axis] != scales.size:
                return None
            ones = [1] * len(shape)
            ones[self.axis] = -1
            scales, zero_points = scales.reshape(ones), zero_points.reshape(ones)
        else:
            blocks = [dict(self.blocks).get(axis, n) for axis, n in enumerate(shape)]
            if len(shape) != scales.ndim or any(
                count * block != n
                for count, block, n in zip(scales.shape, blocks, shape, strict=True)
            ):
                return None
            for axis, block in enumerate(blocks):
                scales = scales.repeat(block, axis)
                zero_points = zero_points.repeat(block, axis)
        return np.broadcast_to(scales, shape), np.broadcast_to(zero_points, shape)


def coarsest_blocks(*arrays: NDArray[Any]) -> list[int]:
    """For each axis, the largest block size such that all of `arrays` are constant in blocks."""
    blocks: list[int] = []
    for axis in range(arrays[0].ndim):
        length = int(arrays[0].shape[axis])
        for block in reversed(divisors(length)):
            starts = np.arange(length) // block * block
            if all((of == of.take(starts, axis)).all() for of in arrays):
                blocks.append(block)
                break
    return blocks


def spelled(
    storage: Storage,
    scales: NDArray[np.float64],
    zero_points: Ints,
    blocks: Sequence[int],
    *,
    per_axis: bool = False,
) -> Spelling:
    """The type with these blocks; with `per_axis`, blocks along one axis are spelled per-axis."""
    cut = [axis for axis, n in enumerate(scales.shape) if blocks[axis] < n]
    if len(cut) == 1 and (per_axis or blocks[cut[0]] == 1):
        first = tuple(slice(None) if axis == cut[0] else slice(0, 1) for axis in range(scales.ndim))
        return Spelling(
            storage, (), cut[0], scales[first].reshape(-1), zero_points[first].reshape(-1)
        )
    steps = tuple(slice(None, None, block) for block in blocks)
    if not cut:
        one = scales.reshape(-1)[:1], zero_points.reshape(-1)[:1]
        return Spelling(storage, (), None, *one)
    pairs = tuple((axis, blocks[axis]) for axis in cut)
    return Spelling(storage, pairs, None, scales[steps], zero_points[steps])


def tensor(shape: Shape, element: str) -> str:
    """A tensor type."""
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


def array(kind: str, values: Sequence[int]) -> str:
    """A dense array attribute."""
    return f"array<{kind}: {', '.join(map(str, values))}>" if values else f"array<{kind}>"
