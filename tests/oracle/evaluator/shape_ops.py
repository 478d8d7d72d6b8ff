"""Shape ops by name, implemented by numpy's functions on elements."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from evaluator.values import (
    EvaluationError,
    Shape,
    Value,
    attributes_of,
    element_of,
    integers,
    name_of,
    quantization,
    read_codes,
    shape_of,
)

Run = Callable[[Operation, Sequence[Value]], Value]

SHAPE_OPS: dict[str, Run] = {}


def runs(*names: str) -> Callable[[Run], Run]:
    """A decorator that registers a function as the implementation of ops."""

    def register(run: Run) -> Run:
        SHAPE_OPS.update(dict.fromkeys(names, run))
        return run

    return register


def held(op: Operation, name: str) -> Any:
    """The integers of an attribute."""
    return integers(attributes_of(op)[name])


def result_of(op: Operation) -> tuple[Shape, str]:
    (result,) = op.results
    return shape_of(result.type), element_of(result.type)


def moved(op: Operation, value: Value, move: Callable[[NDArray[Any]], Any]) -> Value:
    """The moved elements, with the declared element type."""
    shape, element = result_of(op)
    result = value.moved(move, element)
    if result.shape != shape:
        raise EvaluationError(f"'{name_of(op)}' has shape {result.shape}, and declares {shape}")
    return result


@runs(
    "tensor.reshape",
    "tensor.collapse_shape",
    "tensor.expand_shape",
    "tensor.cast",
    "tosa.reshape",
    "tosa.identity",
    "stablehlo.reshape",
    "quant.reshape",
)
def reshape(op: Operation, operands: Sequence[Value]) -> Value:
    return moved(op, operands[0], lambda of: of.reshape(result_of(op)[0]))


@runs("linalg.transpose", "tosa.transpose", "stablehlo.transpose", "quant.transpose")
def transpose(op: Operation, operands: Sequence[Value]) -> Value:
    name = "perms" if "perms" in attributes_of(op) else "permutation"
    return moved(op, operands[0], lambda of: of.transpose(held(op, name)))


@runs("tosa.reverse", "stablehlo.reverse", "quant.reverse")
def reverse(op: Operation, operands: Sequence[Value]) -> Value:
    (name,) = {"axis", "dimensions", "dims"} & attributes_of(op).keys()
    axes = tuple(np.atleast_1d(held(op, name)).astype(int).tolist())
    return moved(op, operands[0], lambda of: np.flip(of, axes))


def positions_of(offsets: Any, sizes: Any, strides: Any) -> tuple[NDArray[np.int64], ...]:
    """For each axis, the index array of a slice."""
    places: list[NDArray[np.int64]] = [
        offset + np.arange(size, dtype=np.int64) * stride
        for offset, size, stride in zip(offsets, sizes, strides, strict=True)
    ]
    return np.ix_(*places)


def part(of: NDArray[Any], offsets: Any, sizes: Any, strides: Any) -> NDArray[Any]:
    return of[positions_of(offsets, sizes, strides)] if of.ndim else of


@runs("tensor.extract_slice")
def extract_slice(op: Operation, operands: Sequence[Value]) -> Value:
    parts = [held(op, f"static_{name}") for name in ("offsets", "sizes", "strides")]
    return moved(op, operands[0], lambda of: part(of, *parts).reshape(result_of(op)[0]))


@runs("quant.slice")
def quant_slice(op: Operation, operands: Sequence[Value]) -> Value:
    parts = [held(op, name) for name in ("offsets", "sizes", "strides")]
    return moved(op, operands[0], lambda of: part(of, *parts))


@runs("stablehlo.slice")
def stablehlo_slice(op: Operation, operands: Sequence[Value]) -> Value:
    starts, limits, strides = (
        held(op, name) for name in ("start_indices", "limit_indices", "strides")
    )
    slices = tuple(slice(*each) for each in zip(starts, limits, strides, strict=True))
    return moved(op, operands[0], lambda of: of[slices])


@runs("tosa.slice")
def tosa_slice(op: Operation, operands: Sequence[Value]) -> Value:
    value, starts, sizes = operands
    ones = [1] * starts.bits.size
    return moved(op, value, lambda of: part(of, starts.codes, sizes.codes, ones))


@runs("tensor.insert_slice")
def insert_slice(op: Operation, operands: Sequence[Value]) -> Value:
    source, into = operands[:2]
    parts = [held(op, f"static_{name}") for name in ("offsets", "sizes", "strides")]
    element = result_of(op)[1]

    def inserted(source: NDArray[Any], into: NDArray[Any]) -> NDArray[Any]:
        made = into.copy()
        made[positions_of(*parts) if made.ndim else ...] = source.reshape(parts[1])
        return made

    bits, known = inserted(source.bits, into.bits), inserted(source.known, into.known)
    return Value(element, bits, known)


@runs(
    "tensor.concat",
    "tosa.concat",
    "stablehlo.concatenate",
    "mhlo.concatenate",
    "tfl.concatenation",
    "onnx.Concat",
    "quant.concat",
)
def concat(op: Operation, operands: Sequence[Value]) -> Value:
    (name,) = {"dim", "axis", "dimension"} & attributes_of(op).keys()
    axis = held(op, name)
    bits = np.concatenate([value.bits for value in operands], axis)
    known = np.concatenate([value.known for value in operands], axis)
    return Value(result_of(op)[1], bits, known)


@runs("linalg.broadcast")
def linalg_broadcast(op: Operation, operands: Sequence[Value]) -> Value:
    shape = result_of(op)[0]
    new = tuple(held(op, "dimensions"))
    return moved(op, operands[0], lambda of: np.broadcast_to(np.expand_dims(of, new), shape))


@runs("stablehlo.broadcast_in_dim", "mhlo.broadcast_in_dim", "quant.broadcast_in_dim")
def broadcast_in_dim(op: Operation, operands: Sequence[Value]) -> Value:
    (name,) = {"dims", "broadcast_dimensions"} & attributes_of(op).keys()
    dims, shape = held(op, name), result_of(op)[0]

    def spread(of: NDArray[Any]) -> NDArray[Any]:
        made = np.empty(shape, dtype=of.dtype)
        for at in np.ndindex(shape):
            index = tuple(at[dim] if of.shape[axis] != 1 else 0 for axis, dim in enumerate(dims))
            made[at] = of[index]
        return made

    return moved(op, operands[0], spread)


@runs("tosa.tile")
def tile(op: Operation, operands: Sequence[Value]) -> Value:
    counts = operands[1].codes
    return moved(op, operands[0], lambda of: np.tile(of, counts))


@runs("tosa.gather")
def tosa_gather(op: Operation, operands: Sequence[Value]) -> Value:
    value, indices = operands
    at = indices.codes[:, :, np.newaxis]
    return moved(op, value, lambda of: np.take_along_axis(of, at, 1))


def _numbers_in(text: str, name: str) -> list[int]:
    found = re.search(rf"\b{name} = (\[[^\]]*\]|\d+)", text)
    return [int(n) for n in re.findall(r"-?\d+", found[1])] if found is not None else []


@runs("quant.gather")
def quant_gather(op: Operation, operands: Sequence[Value]) -> Value:
    indices, dim = held(op, "indices"), held(op, "dim")
    return moved(op, operands[0], lambda of: np.stack([of.take(at, dim) for at in indices], dim))


@runs("stablehlo.gather")
def stablehlo_gather(op: Operation, operands: Sequence[Value]) -> Value:
    """A loop over all elements, as in the specification."""
    value, indices = operands
    text = str(attributes_of(op)["dimension_numbers"])
    offset_dims, collapsed, start_map = (
        _numbers_in(text, name)
        for name in ("offset_dims", "collapsed_slice_dims", "start_index_map")
    )
    vector_dim = next(iter(_numbers_in(text, "index_vector_dim")), 0)
    sizes, shape = held(op, "slice_sizes"), result_of(op)[0]
    at = indices.codes
    at = at[..., np.newaxis] if vector_dim == at.ndim else np.moveaxis(at, vector_dim, -1)
    kept = [axis for axis in range(len(sizes)) if axis not in collapsed]
    batch_dims = [axis for axis in range(len(shape)) if axis not in offset_dims]
    start_index = np.zeros((*at.shape[:-1], len(sizes)), dtype=np.int64)
    for place, axis in enumerate(start_map):
        limit = int(value.shape[axis] - sizes[axis])
        start_index[..., axis] = np.clip(at[..., place], 0, limit)

    def taken(of: NDArray[Any]) -> NDArray[Any]:
        made = np.empty(shape, dtype=of.dtype)
        for index in np.ndindex(shape):
            source = start_index[tuple(index[axis] for axis in batch_dims)].copy()
            for axis, dim in zip(kept, offset_dims, strict=True):
                source[axis] += index[dim]
            made[index] = of[tuple(source)]
        return made

    return moved(op, value, taken)


# Padding


def padded(
    op: Operation, value: Value, low: Any, high: Any, interior: Any, padding: Value | None
) -> Value:
    """The elements with `padding` between and around them; zero points if it is None."""
    shape, element = result_of(op)
    made = Value.of(element, np.zeros(shape, dtype=np.uint64))
    fill = _padding_of(made, padding)
    bits, known = fill.bits.copy(), fill.known.copy()
    for index in itertools.product(*map(range, value.shape)):
        at = tuple(
            first + position * (between + 1)
            for first, position, between in zip(low, index, interior, strict=True)
        )
        if all(0 <= place < n for place, n in zip(at, shape, strict=True)):
            bits[at], known[at] = value.bits[index], value.known[index]
    for first, last, n, between, length in zip(
        low, high, value.shape, interior, shape, strict=True
    ):
        if first + max(n + (n - 1) * between, 0) + last != length:
            raise EvaluationError(f"'{name_of(op)}' declares shape {shape}")
    return Value(element, bits, known)


def _padding_of(made: Value, padding: Value | None) -> Value:
    """The padding at each position of a result; unknown where the type cannot store it."""
    read = quantization(made.element)
    if padding is not None and (
        read is None or (padding.element == made.element and read.scales.size == 1)
    ):
        bits = np.broadcast_to(padding.bits.reshape(()), made.shape)
        return Value.of(made.element, bits, padding.known.all())
    assert read is not None
    try:
        scales, zero_points = read.slots(made.shape)
    except EvaluationError:
        return Value.of(made.element, made.bits, np.zeros(made.shape, dtype=bool))
    if padding is None:
        return Value.of(made.element, zero_points)
    real = padding.dequantized.reshape(())
    wanted = real.view(f"u{real.itemsize}")
    codes, known = np.zeros(made.shape, dtype=np.int64), np.zeros(made.shape, dtype=bool)
    all_codes = np.arange(read.low, read.high + 1)
    for scale, zero_point in set(zip(scales.flat, zero_points.flat, strict=True)):
        reads = read_codes(read, all_codes, scale, zero_point)
        found = all_codes[reads.view(f"u{reads.itemsize}") == wanted]
        if len(found):
            here = (scales == scale) & (zero_points == zero_point)
            codes[here], known[here] = found[0], True
    return Value.of(made.element, codes, known & padding.known.all())


@runs("quant.stats")
def quant_stats(op: Operation, operands: Sequence[Value]) -> Value:
    return operands[0]


@runs("quant.pad")
def quant_pad(op: Operation, operands: Sequence[Value]) -> Value:
    low, high = held(op, "low"), held(op, "high")
    return padded(op, operands[0], low, high, [0] * len(low), None)


@runs("tosa.pad")
def tosa_pad(op: Operation, operands: Sequence[Value]) -> Value:
    value, by, padding = operands
    low, high = by.codes[::2].tolist(), by.codes[1::2].tolist()
    return padded(op, value, low, high, [0] * len(low), padding)


@runs("stablehlo.pad")
def stablehlo_pad(op: Operation, operands: Sequence[Value]) -> Value:
    low, high, interior = (
        held(op, name) for name in ("edge_padding_low", "edge_padding_high", "interior_padding")
    )
    return padded(op, operands[0], low, high, interior, operands[1])
