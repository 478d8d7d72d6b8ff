"""Shape ops that are written behind a value, with what numpy makes of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from dequantizing_arithmetic import Array, Text
from hypothesis import strategies as st

Move = tuple[str, Array]
Mover = Callable[[Text, str, Array, st.DataObject], Move]


def transposed(text: Text, name: str, array: Array, draw: st.DataObject) -> Move:
    order = draw.draw(st.permutations(range(array.ndim)))
    listed = f"array<i64: {', '.join(map(str, order))}>"
    moved = array.transpose(order)
    op, extra = "stablehlo.transpose", f"{{permutation = {listed}}}"
    return text.emit(moved, op, (name, array), extra=extra), moved


def reversed_(text: Text, name: str, array: Array, draw: st.DataObject) -> Move:
    axis = draw.draw(st.integers(0, array.ndim - 1))
    extra, moved = f"<{{axis = {axis} : i32}}>", np.flip(array, axis)
    return text.emit(moved, "tosa.reverse", (name, array), extra=extra), moved


def sliced(text: Text, name: str, array: Array, draw: st.DataObject) -> Move:
    starts = [draw.draw(st.integers(0, n - 1)) for n in array.shape]
    strides = [draw.draw(st.integers(1, 2)) for _ in array.shape]
    lists = {"start_indices": starts, "limit_indices": array.shape, "strides": strides}
    extra = ", ".join(
        f"{key} = array<i64: {', '.join(map(str, numbers))}>" for key, numbers in lists.items()
    )
    moved = array[tuple(slice(at, None, step) for at, step in zip(starts, strides, strict=True))]
    return text.emit(moved, "stablehlo.slice", (name, array), extra=f"{{{extra}}}"), moved


def reshaped(text: Text, name: str, array: Array, draw: st.DataObject) -> Move:
    axis = draw.draw(st.integers(0, array.ndim - 1))
    before, length, after = array.shape[:axis], array.shape[axis], array.shape[axis + 1 :]
    if draw.draw(st.booleans()) or not after:
        first = draw.draw(st.sampled_from([n for n in range(1, length + 1) if length % n == 0]))
        moved = array.reshape(*before, first, length // first, *after)
    else:
        moved = array.reshape(*before, length * after[0], *after[1:])
    return text.emit(moved, "stablehlo.reshape", (name, array)), moved


def joined(text: Text, name: str, array: Array, draw: st.DataObject) -> Move:
    axis = draw.draw(st.integers(0, array.ndim - 1))
    moved = np.concatenate([array, array], axis)
    extra = f"{{dimension = {axis} : i64}}"
    return text.emit(
        moved, "stablehlo.concatenate", (name, array), (name, array), extra=extra
    ), moved


def padded(text: Text, name: str, array: Array, draw: st.DataObject) -> Move:
    """With zero, or with one of the values that the array has."""
    values = [0.0, -0.0, float(array.reshape(-1)[0])]
    value = np.array(draw.draw(st.sampled_from(values)), array.dtype)
    low, high, interior = ([draw.draw(st.integers(0, 1)) for _ in array.shape] for _ in range(3))
    gaps = zip(low, array.shape, interior, high, strict=True)
    moved = np.full([a + n + (n - 1) * gap + b for a, n, gap, b in gaps], value)
    inside = zip(low, array.shape, interior, strict=True)
    moved[tuple(slice(a, a + n + (n - 1) * gap, gap + 1) for a, n, gap in inside)] = array
    lists = {"edge_padding_low": low, "edge_padding_high": high, "interior_padding": interior}
    extra = ", ".join(
        f"{key} = array<i64: {', '.join(map(str, widths))}>" for key, widths in lists.items()
    )
    by = text.constant(value, "stablehlo.constant")
    return text.emit(moved, "stablehlo.pad", (name, array), by, extra=f"<{{{extra}}}>"), moved


KEEP_SEPARABLE = (transposed, reversed_, sliced)
"""What moves scales of whole axes to scales of whole axes, and never to more of them."""

MOVES = (*KEEP_SEPARABLE, reshaped, joined)
