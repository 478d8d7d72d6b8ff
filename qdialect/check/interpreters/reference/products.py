"""
Sums of products on numbers: convolutions and matrix products, as matrix products of numpy.

Windows are views of the operand; one piece of a view is copied at a time, and multiplied.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray
from xdsl.utils.exceptions import InterpretationError

from qdialect.algebra.movement import Shape
from qdialect.check.interpreters.memory import require_possible, temporary_memory
from qdialect.check.interpreters.work import spend_products
from qdialect.ops.products import Contraction, Window

Numbers = NDArray[Any]

_PIECE: Final = 1 << 21
"""The maximum number of elements copied at once, unless one row has more."""

_EXACT_IN_DOUBLE: Final = 1 << 53

_INTEGER_PRODUCT: Final = 8
"""A product of integers takes as long as so many in double."""


def sum_of_products(
    lhs: Numbers, rhs: Numbers, contraction: Contraction, windows: Sequence[Window]
) -> Numbers:
    """
    The result of a contraction: in double for floats, modulo 2**64 for integers.

    Raises InterpretationError if the shapes do not match it.
    """
    left, right, result = (
        list(part) for part in (contraction.lhs, contraction.rhs, contraction.result)
    )
    if (len(left), len(right)) != (lhs.ndim, rhs.ndim):
        raise InterpretationError(f"its operands have ranks {lhs.ndim} and {rhs.ndim}")
    lhs = _spread(lhs, windows)
    positions: list[str] = []
    for number, window in enumerate(windows):
        at, of, made = window.axes
        if window.is_reversed:
            rhs = np.flip(rhs, of)
        lhs = _with_window(lhs, at, rhs.shape[of], window)
        # Use a label that no other axis has.
        left[at] = result[made] = f"*{number}"
        positions.append(right[of])
    left += positions
    if contraction.groups > 1:
        lhs, rhs = _grouped(lhs, rhs, (left, right, result), positions, contraction.groups)
    axes = [_axes_in(label) for label in result]
    flat = contracted(lhs, left, rhs, right, [axis for of in axes for axis in of])
    lengths = iter(flat.shape)
    return flat.reshape([math.prod(next(lengths) for _ in of) for of in axes])


def _axes_in(label: str) -> list[str]:
    """The axes of a label: `(cm)` has two, which are combined."""
    return list(label[1:-1]) if label.startswith("(") else [label]


def _grouped(
    lhs: Numbers,
    rhs: Numbers,
    labels: Sequence[list[str]],
    positions: Sequence[str],
    groups: int,
) -> tuple[Numbers, Numbers]:
    """The operands and their labels, with an axis for the groups of channels."""
    left, right, result = labels
    # Both operands have an axis for the positions in a window.
    (read,) = (at for at in left if at in right and at not in (*result, *positions))
    (made,) = (at for at in right if at in result and at not in left)
    lhs = _split(lhs, left, read, groups)
    rhs = _split(rhs, right, made, groups)
    result[result.index(made)] = f"({_GROUP}{made})"
    return lhs, rhs


_GROUP: Final = "G"


def _split(numbers: Numbers, labels: list[str], label: str, groups: int) -> Numbers:
    axis = labels.index(label)
    if numbers.shape[axis] % groups:
        raise InterpretationError(
            f"{numbers.shape[axis]} channels are not divisible into {groups} groups"
        )
    labels.insert(axis, _GROUP)
    shape = numbers.shape
    return numbers.reshape(*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])


def _spread(numbers: Numbers, windows: Iterable[Window]) -> Numbers:
    """The operand with zeros inserted between its elements, and around it."""
    ends = {of.axes[0]: (of.low, of.high, of.base_dilation) for of in windows}
    return padded(numbers, 0, [ends.get(axis, (0, 0, 1)) for axis in range(numbers.ndim)])


def padded(numbers: Numbers, fill: Any, ends: Sequence[tuple[int, int, int]]) -> Numbers:
    """
    `numbers` with `fill` before, after and between elements, per axis; negative counts crop.

    Raises InterpretationError for a shape that numpy cannot have.
    """
    if all(of == (0, 0, 1) for of in ends):
        return numbers
    shape = tuple(
        max((n - 1) * spread + 1 if n else 0, 0) + low + high
        for n, (low, high, spread) in zip(numbers.shape, ends, strict=True)
    )
    require_possible(shape)
    with temporary_memory(math.prod(shape) * numbers.dtype.itemsize):
        result = np.full(shape, fill, dtype=numbers.dtype)
    target: list[slice] = []
    source: list[slice] = []
    for n, length, (low, _, spread) in zip(numbers.shape, shape, ends, strict=True):
        first = max(-(low // spread), 0)
        # The last element that is not cropped.
        last = min((length - 1 - low) // spread, n - 1)
        source.append(slice(first, max(last + 1, first)))
        start = low + first * spread
        target.append(slice(start, max(start + (last - first) * spread + 1, start), spread))
    result[tuple(target)] = numbers[tuple(source)]
    return result


def _with_window(numbers: Numbers, axis: int, size: int, window: Window) -> Numbers:
    """A view with the windows along `axis`, and the positions in a window along a new last axis."""
    length = window_count(numbers.shape[axis], size, window.stride, window.dilation)
    stride = numbers.strides[axis]
    shape, strides = list(numbers.shape), list(numbers.strides)
    shape[axis], strides[axis] = length, stride * window.stride
    return as_strided(
        numbers, (*shape, size), (*strides, stride * window.dilation), writeable=False
    )


def window_count(length: int, size: int, stride: int, dilation: int) -> int:
    """The number of windows that fit in an axis."""
    reach = dilation * (size - 1) + 1 if size else 0
    return (length - reach) // stride + 1 if length >= reach else 0


def contracted(
    lhs: Numbers, left: Sequence[str], rhs: Numbers, right: Sequence[str], result: Sequence[str]
) -> Numbers:
    """
    The sums of products of two arrays with the axis labels `left` and `right`.

    The result has the axes `result`; other axes are summed over. Raises InterpretationError if axes
    of one label differ in length.
    """
    lengths = _lengths((left, lhs.shape), (right, rhs.shape))
    lhs, left = _without(lhs, left, {*right, *result})
    rhs, right = _without(rhs, right, {*left, *result})
    both = [name for name in result if name in left and name in right]
    rows = [name for name in result if name in left and name not in right]
    columns = [name for name in result if name not in left]
    summed = [name for name in left if name not in result]
    lhs = lhs.transpose([left.index(name) for name in (*both, *rows, *summed)])
    rhs = rhs.transpose([right.index(name) for name in (*both, *summed, *columns)])

    def count(names: Iterable[str]) -> int:
        return math.prod(lengths[name] for name in names)

    shape = tuple(lengths[name] for name in (*both, *rows, *columns))
    require_possible(shape)
    dtype = _dtype_for(lhs, rhs, count(summed))
    spend_products(count(lengths) * (1 if dtype.kind == "f" else _INTEGER_PRODUCT))
    outer = max(range(len(both) + len(rows)), key=shape.__getitem__, default=None)
    pieces: Iterable[slice] = [slice(None)]
    if outer is not None and shape[outer]:
        per_position = max(lhs.size // shape[outer], 1)
        step = max(_PIECE // per_position, 1)
        pieces = (slice(at, at + step) for at in range(0, shape[outer], step))
        temporary = min(step, shape[outer]) * per_position
    else:
        temporary = lhs.size
    with temporary_memory(8 * (temporary + rhs.size + math.prod(shape))):
        made = np.empty(shape, dtype=np.float64 if dtype.kind == "f" else np.int64)
        for piece in pieces:
            at = (slice(None),) * (outer or 0) + (piece,) if outer is not None else ()
            of_rhs = rhs[at] if outer is not None and outer < len(both) else rhs
            part = lhs[at]
            batch = math.prod(part.shape[: len(both)])
            one = part.astype(dtype).reshape(
                batch, math.prod(part.shape[len(both) : len(both) + len(rows)]), count(summed)
            )
            other = of_rhs.astype(dtype).reshape(batch, count(summed), count(columns))
            product = np.matmul(one, other)
            made[at] = product.reshape(
                (*part.shape[: len(both) + len(rows)], *shape[len(both) + len(rows) :])
            )
    names = [*both, *rows, *columns]
    return made.transpose([names.index(name) for name in result])


def _lengths(*parts: tuple[Sequence[str], Shape]) -> Mapping[str, int]:
    lengths: dict[str, int] = {}
    for names, shape in parts:
        for name, length in zip(names, shape, strict=True):
            if lengths.setdefault(name, length) != length:
                raise InterpretationError(
                    f"the shapes of its operands do not match: {lengths[name]} is not {length}"
                )
    return lengths


def _without(
    numbers: Numbers, names: Sequence[str], kept: set[str]
) -> tuple[Numbers, Sequence[str]]:
    """The sums over the axes that only this operand has."""
    alone = tuple(axis for axis, name in enumerate(names) if name not in kept)
    if not alone:
        return numbers, names
    return numbers.sum(axis=alone), [name for name in names if name in kept]


def _dtype_for(lhs: Numbers, rhs: Numbers, terms: int) -> np.dtype[Any]:
    """Double, which numpy multiplies faster, if it is exact for these sums of integers."""
    if "f" in (lhs.dtype.kind, rhs.dtype.kind):
        return np.dtype(np.float64)
    most = [
        max(int(of.max(initial=0)), -int(of.min(initial=0))) if of.size else 0 for of in (lhs, rhs)
    ]
    is_exact = most[0] * most[1] * max(terms, 1) < _EXACT_IN_DOUBLE
    return np.dtype(np.float64 if is_exact else np.int64)
