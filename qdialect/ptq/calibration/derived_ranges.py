"""
Ranges that follow from those of other values, so that no element is looked at.

A function that only rises, or only falls, maps the ends of a range to the ends of another one. This
is also so for rounded sums and products, as rounding keeps the order. So the minimum and the
maximum of each channel of a convolution are enough to know the ranges behind a bias, merged
normalizations and a clamp.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import InterpretationError

from qdialect.algebra.movement import ValueSet
from qdialect.check.interpreters import TypedArray
from qdialect.dialects.arrays.elements import function_on_arrays
from qdialect.dialects.arrays.movements import run_constant
from qdialect.dialects.arrays.values import without_repeats
from qdialect.ir.resources import ResourceBlobs
from qdialect.ir.value_types import shape_of
from qdialect.ops.interface import (
    Refusal,
    elements_attribute_of,
    functions_of,
    is_function_of_elements,
    model_of,
    static_shape_of,
)
from qdialect.ops.reading import ConstantOperands, Constants
from qdialect.ptq.schemes.arrays import AllNaNError, whole_range
from qdialect.support.lazy_numpy import NDArray, np

LIMIT: Final = 2.0**55
"""Ends up to this one are followed: functions of them that overflow are not."""

_LANES: Final = 512
"""Up to so many numbers are reduced side by side: rows of few channels take longer."""

_MOST_LANES: Final = 1 << 13
"""Values of more channels, counted once for each example of a batch, are looked at."""

_SHORT: Final = 16
"""Rows up to this length take longer than the values behind them."""


class Lanes(NamedTuple):
    """How the elements of a value are divided into lanes, each of one channel."""

    shape: tuple[int, int]
    """The elements in row-major order, with two axes."""
    axis: int
    """The one that is reduced; the other one is that of lanes, and repeats the channels."""

    @classmethod
    def of(cls, shape: Sequence[int], axis: int | None) -> Lanes | None:
        """The lanes of a value; None if they take longer than looking at what follows from it."""
        if axis is None:
            return cls((1, math.prod(shape)), 1)
        before, channels, behind = (
            math.prod(part) for part in (shape[:axis], shape[axis : axis + 1], shape[axis + 1 :])
        )
        if behind > 1:
            is_small = before * channels <= _MOST_LANES and behind > _SHORT
            return cls((before * channels, behind), 1) if is_small else None
        if channels > _MOST_LANES:
            return None
        times = range(max(_LANES // channels, 1), 0, -1)
        repeats = next(count for count in times if before % count == 0)
        return cls((before // repeats, repeats * channels), 0)

    @property
    def width(self) -> int:
        """How many lanes there are."""
        return self.shape[1 - self.axis]

    def aligned(self, numbers: NDArray[np.float32]) -> NDArray[np.float32]:
        """A number for each lane, along the elements."""
        return numbers[:, None] if self.axis and numbers.size > 1 else numbers


@dataclass(frozen=True, eq=False)
class Derived:
    """A value whose range follows from that of another one, of the same elements and new ones."""

    source: int
    """The position of the other one."""
    function: Callable[..., NDArray[np.float32]] | None
    """The function of its elements; None if they stay."""
    operands: tuple[NDArray[np.float32] | None, ...]
    """Those of the function: None for the element, or a number for all lanes or for each."""
    number: np.float32 | None = None
    """The new elements, if there are any."""
    added: int = 0
    """How many there are."""

    def of(self, ends: NDArray[np.float32], lanes: Lanes | None = None) -> NDArray[np.float32]:
        """The function of numbers of lanes, which are along the last axis, or in their shape."""
        assert self.function is not None
        operands = (
            ends if operand is None else operand if lanes is None else lanes.aligned(operand)
            for operand in self.operands
        )
        return self.function(*operands)


class Functions(NamedTuple):
    """What follows from the values of a function."""

    lanes: Mapping[SSAValue, Lanes]
    """For each value that a function is followed from, its lanes."""
    derived: Mapping[SSAValue, tuple[SSAValue, Derived]]
    """For each value that follows from another one, that one; its position is not known yet."""


class _Read(NamedTuple):
    """A function of one value, and of constants."""

    source: SSAValue
    function: Callable[..., NDArray[np.float32]]
    operands: tuple[NDArray[np.float32] | None, ...]
    axis: int | None
    """The axis along which constants differ; None if all are one number."""


def functions_followed(
    values: Sequence[SSAValue], constants: Mapping[SSAValue, TypedArray]
) -> Functions:
    """Which of some values of a function, in its order, follow from others."""
    chains = dict[SSAValue, tuple[SSAValue, int | None]]()
    reads = dict[SSAValue, _Read]()
    followed, lanes = dict[SSAValue, list[SSAValue]](), dict[SSAValue, Lanes]()
    for value in values:
        chains[value] = value, None
        read = None if value in constants else _read(value, constants)
        if read is None or read.source not in chains or read.source in constants:
            continue
        root, axis = chains[read.source]
        if axis is not None and read.axis not in (None, axis):
            continue
        axis = read.axis if axis is None else axis
        own = Lanes.of(static_shape_of(root), axis)
        others = [chains[other][1] for other in followed.get(root, ())]
        if own is None or any(other not in (None, axis) for other in others if axis is not None):
            continue
        reads[value], chains[value] = read, (root, axis)
        followed.setdefault(root, []).append(value)
        if axis is not None or root not in lanes:
            lanes[root] = own
    derived = dict[SSAValue, tuple[SSAValue, Derived]]()
    for root, members in followed.items():
        count = lanes[root].width
        ends = {root: np.array([[-LIMIT], [LIMIT]], "f4").repeat(count, axis=1)}
        for value in members:
            read = reads[value]
            operands = tuple(
                numbers if numbers is None or numbers.size == 1 else np.resize(numbers, count)
                for numbers in read.operands
            )
            known = Derived(0, read.function, operands)
            if read.source in ends and np.isfinite(end := known.of(ends[read.source])).all():
                ends[value], derived[value] = end, (read.source, known)
    roots = {chains[value][0] for value in derived}
    return Functions({root: lanes[root] for root in roots}, derived | _padded(values))


def _read(value: SSAValue, constants: Mapping[SSAValue, TypedArray]) -> _Read | None:
    op = value.owner
    if not isinstance(op, Operation) or not is_function_of_elements(op):
        return None
    variables = [operand for operand in op.operands if operand not in constants]
    if len(variables) != 1 or shape_of(variables[0].type) != shape_of(value.type):
        return None
    function = function_on_arrays(op)
    if function is None or ("div" in functions_of(op) and op.operands[0] is not variables[0]):
        return None
    operands, axes = list["NDArray[np.float32] | None"](), set[int]()
    for operand in op.operands:
        if operand is variables[0]:
            operands.append(None)
            continue
        numbers = without_repeats(constants[operand].elements).view(np.float32)
        if numbers.ndim not in (0, len(shape_of(value.type) or ())):
            return None
        axes |= {axis for axis, length in enumerate(numbers.shape) if length > 1}
        operands.append(numbers.reshape(-1))
    if len(axes) > 1:
        return None
    return _Read(variables[0], function, (*operands,), next(iter(axes), None))


def _padded(
    values: Sequence[SSAValue],
) -> dict[SSAValue, tuple[SSAValue, Derived]]:
    """The values that are others with a border of one number."""
    padded = dict[SSAValue, tuple[SSAValue, Derived]]()
    resources, others = ResourceBlobs(None), {*values}
    operands = ConstantOperands(Constants(resources))
    for value in values:
        op = value.owner
        if not isinstance(op, Operation) or (model := model_of(op)) is None:
            continue
        with suppress(Refusal, InterpretationError, AllNaNError):
            read = operands.read(op, model)
            source, maker = read.operands[0], read.padding and read.padding.owner
            is_padded = [movement.values for movement in read.movements] == [ValueSet.MORE]
            added = math.prod(static_shape_of(value)) - math.prod(static_shape_of(source))
            if not is_padded or not added or source in padded or source not in others:
                continue
            if isinstance(maker, Operation) and elements_attribute_of(maker):
                number, _, _ = whole_range(run_constant(maker, resources).numbers)
                padded[value] = source, Derived(0, None, (), number, added)
    return padded
