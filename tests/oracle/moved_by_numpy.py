"""Random chains of movements in StableHLO, with the position that each element comes from."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Positions = NDArray[np.int64]


class Chain:
    """A chain of movements of `%x`."""

    def __init__(self, rng: random.Random, shape: Sequence[int]) -> None:
        self._rng = rng
        self.lines: list[str] = []
        self.positions: Positions = np.arange(math.prod(shape)).reshape(shape)
        """The position in the operand of each element of the result; -1 for an added zero."""
        self.result = "%x"

    @property
    def type(self) -> str:
        """The type of the result."""
        return f"tensor<{''.join(f'{n}x' for n in self.positions.shape)}f32>"

    def add(self) -> None:
        """Add a random movement; in texts, $S is the operand, $F its type, $T the result's."""
        kinds = [self._transpose, self._reshape, self._slice, self._reverse]
        kinds += [self._concat, self._broadcast, self._pad, self._take]
        before = self.type
        text = self._rng.choice(kinds)(self._rng.randrange(self.positions.ndim))
        for letter, word in (("S", self.result), ("F", before), ("T", self.type)):
            text = text.replace(f"${letter}", word)
        self.result = f"%m{len(self.lines)}"
        self.lines.append(f"{self.result} = {text}")

    def _transpose(self, axis: int) -> str:
        order = [*range(self.positions.ndim)]
        self._rng.shuffle(order)
        self.positions = self.positions.transpose(order)
        return f"stablehlo.transpose $S, dims = {order} : ($F) -> $T"

    def _reshape(self, axis: int) -> str:
        shape = self.positions.shape
        if axis + 1 < len(shape) and self._rng.random() < 0.5:
            new = [*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]]
        else:
            new = [*shape[:axis], 1, *shape[axis:]] if len(shape) < 5 else [*shape]
        self.positions = self.positions.reshape(new)
        return "stablehlo.reshape $S : ($F) -> $T"

    def _slice(self, axis: int) -> str:
        shape = self.positions.shape
        start, step = self._rng.randrange(shape[axis]), self._rng.randint(1, 2)
        parts = [f"{start}:{n}:{step}" if at == axis else f"0:{n}" for at, n in enumerate(shape)]
        self.positions = self.positions[(*[slice(None)] * axis, slice(start, None, step))]
        return f"stablehlo.slice $S [{', '.join(parts)}] : ($F) -> $T"

    def _reverse(self, axis: int) -> str:
        self.positions = np.flip(self.positions, axis)
        return f"stablehlo.reverse $S, dims = [{axis}] : $F"

    def _concat(self, axis: int) -> str:
        self.positions = np.concatenate([self.positions] * 2, axis)
        return f"stablehlo.concatenate $S, $S, dim = {axis} : ($F, $F) -> $T"

    def _broadcast(self, axis: int) -> str:
        shape = self.positions.shape
        self.positions = np.broadcast_to(self.positions, (2, *shape))
        dims = [*range(1, len(shape) + 1)]
        return f"stablehlo.broadcast_in_dim $S, dims = {dims} : ($F) -> $T"

    def _pad(self, axis: int) -> str:
        length, rank = self.positions.shape[axis], self.positions.ndim
        low, high, gap = (self._rng.randint(0, 1) for _ in range(3))
        shape = list(self.positions.shape)
        shape[axis] = low + length + (length - 1) * gap + high
        padded: Positions = np.full(shape, -1)
        inside = slice(low, low + (length - 1) * (gap + 1) + 1, gap + 1)
        padded[(*[slice(None)] * axis, inside)] = self.positions
        self.positions = padded
        widths = [[n if at == axis else 0 for at in range(rank)] for n in (low, high, gap)]
        names = ("low", "high", "interior")
        lists = ", ".join(f"{name} = {n}" for name, n in zip(names, widths, strict=True))
        return f"stablehlo.pad $S, %zero, {lists} : ($F, tensor<f32>) -> $T"

    def _take(self, axis: int) -> str:
        shape = self.positions.shape
        places = [self._rng.randrange(shape[axis]) for _ in range(self._rng.randint(1, 3))]
        self.positions = self.positions.take(places, axis)
        type, sizes = f"tensor<{len(places)}xi32>", [*shape]
        sizes[axis] = 1
        self.lines.append(f"%p{len(self.lines)} = stablehlo.constant dense<{places}> : {type}")
        offsets = [at for at in range(len(shape)) if at != axis]
        numbers = (
            f"offset_dims = {offsets}, collapsed_slice_dims = [{axis}], "
            f"start_index_map = [{axis}], index_vector_dim = 1"
        )
        return (
            f'"stablehlo.gather"($S, %p{len(self.lines) - 1}) <{{dimension_numbers = '
            f"#stablehlo.gather<{numbers}>, slice_sizes = array<i64: "
            f"{', '.join(map(str, sizes))}>}}> : ($F, {type}) -> $T"
        )

    def moved(self, array: NDArray[Any]) -> NDArray[Any]:
        """The result for an operand."""
        return np.where(self.positions < 0, 0, array.reshape(-1)[self.positions])
