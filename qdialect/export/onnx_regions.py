"""
Functions that are several ops of a module, and one node for engines of ONNX: gelu, softmax,
normalizations, and linear interpolation.

What the ops compute of random numbers decides, however the function is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from qdialect.algebra.movement import Shape
from qdialect.dialects.arrays.scalar_functions import erf

Numbers: TypeAlias = NDArray[np.float64]

_NEAR: Final = 3e-6
"""How far results may be from those of a node, as a part of the largest one."""

_MOST: Final = 1 << 24
"""The most elements of an example."""


class Function(NamedTuple):
    """A node with one input of numbers."""

    type: str
    run: Callable[[Numbers], Numbers]
    attributes: Mapping[str, Any] = MappingProxyType({})
    weights: Sequence[Numbers] = ()
    """Its other inputs, besides the lengths of a result of another shape."""

    along: Sequence[int] | None = None
    """The axes along which a result depends on other numbers; None if that is not known."""

    @property
    def is_of_elements(self) -> bool:
        """Whether each result depends on one number."""
        return self.along == ()

    def is_near(self, x: Numbers, result: Numbers) -> bool:
        """Whether it computes this result of these numbers."""
        parts, most = [(slice(None),) * x.ndim], _NEAR * np.abs(result).max()
        if self.along is not None:
            # Most functions are others: a few of the numbers say so.
            parts.insert(0, tuple(slice(None if at in self.along else 1) for at in range(x.ndim)))
        with np.errstate(all="ignore"):
            return all(np.abs(self.run(x[part]) - result[part]).max() <= most for part in parts)


def function_of(
    run: Callable[[Numbers], Numbers], shape: Shape, result: Shape, constants: Sequence[Numbers]
) -> Function | None:
    """
    The node that computes what `run` does of numbers of a shape; None if none is known.

    `result` is the shape of the result. `constants` are those that it reads, each without what it
    repeats.
    """
    if not 0 < math.prod(shape) <= _MOST or len(shape) != len(result):
        return None
    random = np.random.default_rng(0).standard_normal(shape)
    # An epsilon counts where numbers are small, and limits where they are large.
    numbers = 3 * random + 1, random / 1000, random * 1000

    @cache
    def example(number: int) -> tuple[Numbers, Numbers]:
        x = numbers[number].astype(np.float32).astype(np.float64)
        return x, run(x)

    places, is_same = range(len(numbers)), shape == result
    if is_same and all(np.array_equal(*example(at)) for at in places):
        return Function("Identity", np.asarray)
    functions = _functions(run, shape, constants) if is_same else _resizes(shape, result)
    for function in functions:
        if all(function.is_near(*example(at)) for at in places):
            return function
    return None


def extreme_of(
    run: Callable[[Numbers], Numbers], shape: Shape, result: Shape
) -> tuple[str, int] | None:
    """
    The function by which `run` reduces to extremes along an axis, or its node that finds their
    first positions, and the axis. None if none is known. `result` is the shape of the result.
    """
    count = math.prod(result)
    axes = [axis for axis, n in enumerate(shape) if n > 1 and math.prod(shape) == n * count]
    if not axes or math.prod(shape) > _MOST:
        return None
    random = np.random.default_rng(0)
    ties = random.integers(-3, 4, shape)
    numbers = ties, ties - 100, random.integers(-100, 100, shape), 0 * ties
    examples = [(x, run(x).reshape(-1)) for x in (y.astype(np.float64) for y in numbers)]
    for axis in axes:
        for name, function in _EXTREMES.items():
            if all(np.array_equal(function(x, axis).reshape(-1), end) for x, end in examples):
                return name, axis
    return None


_EXTREMES: Final[Mapping[str, Callable[[Numbers, int], Numbers]]] = {
    "ArgMax": np.argmax,
    "ArgMin": np.argmin,
    "numpy:maximum": np.max,
    "numpy:minimum": np.min,
}


def _functions(
    run: Callable[[Numbers], Numbers], shape: Shape, constants: Sequence[Numbers]
) -> Iterator[Function]:
    """What a function may be whose result has the shape of what it reads."""
    yield Function("Gelu", _gelu, along=())
    yield Function("Gelu", _gelu_by_tanh, {"approximate": "tanh"}, along=())
    for axis in reversed(range(len(shape))):
        for name, softmax in ("Softmax", _softmax), ("LogSoftmax", _log_softmax):
            yield Function(name, partial(softmax, axis=axis), {"axis": axis}, along=(axis,))
    start = run(np.zeros(shape))
    epsilons = {float(constant.item()) for constant in constants if constant.size == 1}
    for axis in reversed(range(len(shape))):
        inner, axes = shape[axis:], range(axis, len(shape))
        offset = start[(0,) * axis]
        if not (start == offset).all():
            continue
        factors = [
            constant.reshape(inner) for constant in constants if constant.size == offset.size
        ]
        for epsilon in sorted(number for number in epsilons if 0 < number < 1):
            for factor in (np.ones(inner), *factors):
                attributes, weights = {"axis": axis, "epsilon": epsilon}, (factor, offset)
                normalized = partial(_normalized, **attributes, weights=weights)
                yield Function("LayerNormalization", normalized, attributes, weights, axes)
                scaled = partial(_over_root_mean_square, **attributes, weight=factor)
                yield Function("RMSNormalization", scaled, {"epsilon": epsilon}, (factor,), axes)


def _resizes(shape: Shape, result: Shape) -> Iterator[Function]:
    """Linear interpolations, for which ONNX Runtime has kernels; not those that only select."""
    changed = [axis for axis, n in enumerate(shape) if n != result[axis]]
    is_last_but_channels = len(shape) == 4 and {*changed} <= {1, 2}
    if len(shape) > 3 and changed[0] < 2 and not is_last_but_channels:
        return
    for name, place in _PLACES.items():
        lines = [place(np.arange(float(result[at])), shape[at], result[at]) for at in changed]
        if any((line % 1).any() for line in lines):
            attributes = {"mode": "linear", "coordinate_transformation_mode": name}
            yield Function("Resize", partial(_resized, shape=result, place=place), attributes)


_PLACES: Final[Mapping[str, Callable[[Numbers, int, int], Numbers]]] = {
    "half_pixel": lambda at, before, after: (at + 0.5) * before / after - 0.5,
    "align_corners": lambda at, before, after: at * (before - 1) / max(after - 1, 1),
    "asymmetric": lambda at, before, after: at * before / after,
}
"""Where positions are in what is resized, by the names of ONNX, for both lengths of an axis."""


def _resized(x: Numbers, shape: Shape, place: Callable[[Numbers, int, int], Numbers]) -> Numbers:
    """The line between the two nearest positions, along each axis whose length changes."""
    for axis, (before, after) in enumerate(zip(x.shape, shape, strict=True)):
        if before != after:
            at = place(np.arange(float(after)), before, after).clip(0, before - 1)
            low = np.floor(at).astype(int)
            share = (at - low).reshape(-1, *(1,) * (x.ndim - axis - 1))
            high = (low + 1).clip(max=before - 1)
            x = x.take(low, axis) * (1 - share) + x.take(high, axis) * share
    return x


def _gelu(x: Numbers) -> Numbers:
    return x * (1 + erf(x / math.sqrt(2))) / 2


def _gelu_by_tanh(x: Numbers) -> Numbers:
    """The approximation of https://arxiv.org/abs/1606.08415."""
    return x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2


def _softmax(x: Numbers, axis: int) -> Numbers:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def _log_softmax(x: Numbers, axis: int) -> Numbers:
    shifted = x - x.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


def _normalized(x: Numbers, axis: int, epsilon: float, weights: Sequence[Numbers]) -> Numbers:
    axes = tuple(range(axis, x.ndim))
    factor, offset = weights
    centered = x - x.mean(axes, keepdims=True)
    return _over_root_mean_square(centered, axis, epsilon, factor) + offset


def _over_root_mean_square(x: Numbers, axis: int, epsilon: float, weight: Numbers) -> Numbers:
    mean = (x**2).mean(tuple(range(axis, x.ndim)), keepdims=True)
    return x / np.sqrt(mean + epsilon) * weight
