"""Granularity: the elements of a tensor that share a slot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from qdialect.algebra.parameters import Granularity
from qdialect.support.arguments import integer, integers


@dataclass(frozen=True)
class Blocks:
    """
    The axes that are divided into blocks, and the number of positions in a block.

    An axis that is not named is one block, as in the sub-channel type of
    https://mlir.llvm.org/docs/Dialects/QuantDialect/. Raises ValueError for an axis that is
    negative or named twice, and for a size that is not positive.
    """

    sizes: tuple[tuple[int, int], ...] = ()
    """Pairs of an axis and a block size, ordered by axis."""

    def __post_init__(self) -> None:
        axes = [integer("axis", axis) for axis, _ in self.sizes]
        if axes != sorted(set(axes)) or any(axis < 0 for axis in axes):
            raise ValueError(f"axes of blocks must be ascending and not negative, not {axes}")
        for axis, size in self.sizes:
            if integer("size", size) < 1:
                raise ValueError(f"blocks of axis {axis} must have a positive size, not {size}")

    @classmethod
    def per_axis(cls, axis: int) -> Blocks:
        """A slot for each index of `axis`, such as the channel of a weight."""
        return cls(((axis, 1),))

    @classmethod
    def of_sizes(cls, sizes: Mapping[int, int]) -> Blocks:
        """Blocks of `sizes[axis]` positions along each axis that is a key."""
        return cls(tuple(sorted(sizes.items())))

    @property
    def granularity(self) -> Granularity:
        """The coarsest granularity of a type that can always hold such slots."""
        match self.sizes:
            case ():
                return Granularity.PER_TENSOR
            case ((_, 1),):
                return Granularity.PER_AXIS
            case _:
                return Granularity.SUB_CHANNEL

    def lengths(self, shape: Sequence[int]) -> tuple[int, ...]:
        """
        The length of a block along each axis of `shape`.

        Raises ValueError if an axis is missing, or if its blocks do not divide it.
        """
        lengths = list(integers("shape", shape))
        for axis, size in self.sizes:
            if axis >= len(lengths):
                raise ValueError(f"there is no axis {axis} in shape {list(shape)}")
            if lengths[axis] % size:
                raise ValueError(
                    f"blocks of {size} do not divide axis {axis} of {lengths[axis]} positions"
                )
            lengths[axis] = size
        return tuple(lengths)

    def slots(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The number of slots along each axis of `shape`. Raises as `lengths` does."""
        divided = dict(self.sizes)
        self.lengths(shape)
        return tuple(
            length // divided[axis] if axis in divided else 1 for axis, length in enumerate(shape)
        )


PER_TENSOR = Blocks()
"""One slot for all elements."""
