"""
The ops of dialects that nothing registers: torch-mlir's, ONNX's, and IREE's dequantization.

Numbers and lists of torch are those of Python. Its quantized tensors are the numbers that they
stand for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from evaluator.shape_ops import held, moved, result_of
from evaluator.values import FLOATS, EvaluationError, Value, attributes_of, name_of

Array = NDArray[Any]
Run = Callable[[Operation, Sequence[Any]], Any]

OF_OTHERS: dict[str, Run] = {}


def runs(*names: str) -> Callable[[Run], Run]:
    """Register what runs the ops of some names."""

    def register(run: Run) -> Run:
        OF_OTHERS.update(dict.fromkeys(names, run))
        return run

    return register


def _numbers(value: Value) -> Array:
    return value.floats if value.element in FLOATS else value.codes


# torch: https://docs.pytorch.org/docs/stable/torch.html


@runs("torch.constant.int", "torch.constant.float", "torch.constant.bool")
def _number(op: Operation, operands: Sequence[Any]) -> Any:
    attribute: Any = attributes_of(op)["value"]
    return attribute.value.data


@runs("torch.constant.none")
def _none(op: Operation, operands: Sequence[Any]) -> Any:
    return None


@runs("torch.prim.ListConstruct")
def _list(op: Operation, operands: Sequence[Any]) -> Any:
    return list(operands)


Move = Callable[[Array, Sequence[Any]], Array]
"""The moved operand, and the other operands."""


def _part(x: Array, dim: int, part: slice) -> Array:
    return np.moveaxis(np.moveaxis(x, dim, 0)[part], 0, dim)


def _narrowed(x: Array, of: Sequence[Any]) -> Array:
    dim, start, length = of
    first = start % x.shape[dim]
    return _part(x, dim, slice(first, first + length))


def _flattened(x: Array, of: Sequence[Any]) -> Array:
    start, end = (axis % x.ndim for axis in of)
    return x.reshape(*x.shape[:start], -1, *x.shape[end + 1 :])


def _expanded(x: Array, of: Sequence[Any]) -> Array:
    kept = (1,) * (len(of[0]) - x.ndim) + x.shape
    return np.broadcast_to(x, [old if n == -1 else n for old, n in zip(kept, of[0], strict=True)])


_MOVES: dict[str, Move] = {
    "permute": lambda x, of: x.transpose(of[0]),
    "transpose.int": lambda x, of: x.swapaxes(of[0], of[1]),
    "t": lambda x, of: x.T,
    "numpy_T": lambda x, of: x.T,
    "view": lambda x, of: x.reshape(of[0]),
    "_unsafe_view": lambda x, of: x.reshape(of[0]),
    "reshape": lambda x, of: x.reshape(of[0]),
    "flatten.using_ints": _flattened,
    "unflatten.int": lambda x, of: x.reshape(*x.shape[: of[0]], *of[1], *x.shape[of[0] + 1 :]),
    "unsqueeze": lambda x, of: np.expand_dims(x, of[0]),
    "squeeze": lambda x, of: x.squeeze(),
    "squeeze.dim": lambda x, of: x.squeeze(of[0]) if x.shape[of[0]] == 1 else x,
    "slice.Tensor": lambda x, of: _part(x, of[0], slice(*of[1:])),
    "narrow": _narrowed,
    "expand": _expanded,
    "broadcast_to": _expanded,
    "flip": lambda x, of: np.flip(x, tuple(of[0])),
    "index_select": lambda x, of: np.take(x, of[1].codes, of[0]),
    "alias": lambda x, of: x,
    "clone": lambda x, of: x,
    "contiguous": lambda x, of: x,
    "detach": lambda x, of: x,
}


@runs(*(f"torch.aten.{name}" for name in _MOVES))
def _moved(op: Operation, operands: Sequence[Any]) -> Value:
    move = _MOVES[name_of(op).removeprefix("torch.aten.")]
    return moved(op, operands[0], lambda of: move(of, operands[1:]))


@runs("torch.aten.constant_pad_nd")
def _pad(op: Operation, operands: Sequence[Any]) -> Value:
    value, widths, number = operands
    assert number == 0
    pairs = [*zip(widths[::2], widths[1::2], strict=True)]
    rest = [(0, 0)] * (len(value.shape) - len(pairs))
    return _padded(op, value, [*rest, *reversed(pairs)])


def _padded(op: Operation, value: Value, widths: Sequence[tuple[int, int]]) -> Value:
    """What is padded with zeros."""
    bits = np.pad(value.bits, widths)
    return Value(result_of(op)[1], bits, np.pad(value.known, widths, constant_values=True))


@runs("torch.aten.cat")
def _cat(op: Operation, operands: Sequence[Any]) -> Value:
    values, dim = operands
    whole = [np.concatenate([getattr(v, n) for v in values], dim) for n in ("bits", "known")]
    return Value(result_of(op)[1], *whole)


_COMPUTED: dict[str, Callable[[Sequence[Any]], Array]] = {
    "to.dtype": lambda of: of[0],
    "sub.Tensor": lambda of: of[0] - of[1] * np.float32(of[2]),
    "mul.Tensor": lambda of: of[0] * of[1],
    "mul.Scalar": lambda of: of[0] * np.float32(of[1]),
}
"""Made of tensors that are converted to f32 first, and of numbers."""


@runs(*(f"torch.aten.{name}" for name in _COMPUTED))
def _computed(op: Operation, operands: Sequence[Any]) -> Value:
    (_, element), name = result_of(op), name_of(op).removeprefix("torch.aten.")
    assert element == "f32"
    made_of = [
        _numbers(each).astype(np.float32) if isinstance(each, Value) else each for each in operands
    ]
    return Value.of_numbers(element, _COMPUTED[name](made_of))


def _dequantized(op: Operation, codes: Any, scales: Any, zero_points: Any) -> Value:
    """As torch computes it: integers are subtracted, and what is made of that is multiplied."""
    _, element = result_of(op)
    if element.startswith("!torch.q"):
        numbers = (codes - zero_points).astype(np.float32) * np.asarray(scales, np.float32)
        return Value(element, Value.of_numbers("f32", numbers).bits, np.array(True))
    dtype = np.asarray(scales).dtype
    return Value.of_numbers(element, (codes - zero_points).astype(dtype) * scales)


def _along(of: Array, dim: int, rank: int) -> Array:
    return of.reshape([-1 if axis == dim % rank else 1 for axis in range(rank)])


@runs(
    "torch.quantized_decomposed.dequantize_per_channel",
    "torch.aten._make_per_channel_quantized_tensor",
)
def _per_channel(op: Operation, operands: Sequence[Any]) -> Value:
    codes, scales, zero_points, dim, *_ = operands
    rank = len(codes.shape)
    zeros = 0 if zero_points is None else _along(_numbers(zero_points), dim, rank)
    return _dequantized(op, codes.codes, _along(scales.floats, dim, rank), zeros)


@runs("torch.quantized_decomposed.dequantize_per_channel_group")
def _in_groups(op: Operation, operands: Sequence[Any]) -> Value:
    codes, scales, zero_points, _, _, _, size, *_ = operands
    zeros = 0 if zero_points is None else np.repeat(_numbers(zero_points), size, 1)
    return _dequantized(op, codes.codes, np.repeat(scales.floats, size, 1), zeros)


@runs(
    "torch.quantized_decomposed.dequantize_per_tensor",
    "torch.quantized_decomposed.dequantize_per_tensor.tensor",
    "torch.aten._make_per_tensor_quantized_tensor",
)
def _per_tensor(op: Operation, operands: Sequence[Any]) -> Value:
    codes, scale, zero_point, *_ = operands
    if isinstance(scale, Value):
        return _dequantized(op, codes.codes, scale.floats, _numbers(zero_point))
    return _dequantized(op, codes.codes, np.float32(scale), zero_point)


def _quantized(op: Operation, value: Value, scales: Any, zeros: Any, limits: Any) -> Value:
    """Numbers divided, rounded to even, shifted and clamped."""
    numbers = np.rint(value.floats / scales).astype(np.float64) + zeros
    return Value.of(result_of(op)[1], np.clip(numbers, *limits).astype(np.int64))


@runs("torch.quantized_decomposed.quantize_per_channel")
def _quantize_per_channel(op: Operation, operands: Sequence[Any]) -> Value:
    value, scales, zero_points, dim, low, high, _ = operands
    rank = len(value.shape)
    zeros = 0 if zero_points is None else _along(_numbers(zero_points), dim, rank)
    return _quantized(op, value, _along(scales.floats, dim, rank), zeros, (low, high))


@runs("torch.quantized_decomposed.quantize_per_tensor")
def _quantize_per_tensor(op: Operation, operands: Sequence[Any]) -> Value:
    value, scale, zero_point, low, high, _ = operands
    return _quantized(op, value, np.float32(scale), zero_point, (low, high))


@runs("torch.aten.dequantize.self", "torch.aten.dequantize.tensor")
def _read(op: Operation, operands: Sequence[Any]) -> Value:
    return Value.of("f32", operands[0].bits)


@runs("torch_c.to_builtin_tensor", "torch_c.from_builtin_tensor")
def _same(op: Operation, operands: Sequence[Any]) -> Value:
    return Value(result_of(op)[1], operands[0].bits, operands[0].known)


# ONNX: https://onnx.ai/onnx/operators


@runs("onnx.NoValue")
def _no_value(op: Operation, operands: Sequence[Any]) -> Any:
    return None


def _list_of(value: Any) -> list[int] | None:
    return None if value is None else [int(each) for each in value.codes.reshape(-1)]


@runs("onnx.Transpose")
def _transpose(op: Operation, operands: Sequence[Any]) -> Value:
    order = held(op, "perm") if "perm" in attributes_of(op) else None
    return moved(op, operands[0], lambda of: of.transpose(order))


@runs("onnx.Reshape", "onnx.Squeeze", "onnx.Unsqueeze", "onnx.Flatten", "onnx.Identity")
def _reshape(op: Operation, operands: Sequence[Any]) -> Value:
    return moved(op, operands[0], lambda of: of.reshape(result_of(op)[0]))


@runs("onnx.Expand")
def _expand(op: Operation, operands: Sequence[Any]) -> Value:
    return moved(op, operands[0], lambda of: np.broadcast_to(of, result_of(op)[0]))


@runs("onnx.Concat")
def _concat(op: Operation, operands: Sequence[Any]) -> Value:
    axis = held(op, "axis")
    whole = [np.concatenate([getattr(v, n) for v in operands], axis) for n in ("bits", "known")]
    return Value(result_of(op)[1], *whole)


@runs("onnx.Slice")
def _slice(op: Operation, operands: Sequence[Any]) -> Value:
    starts, ends, axes, steps = (_list_of(each) for each in operands[1:])
    assert starts is not None
    assert ends is not None
    index = [slice(None)] * len(operands[0].shape)
    for at, axis in enumerate(axes or range(len(starts))):
        index[axis] = slice(starts[at], ends[at], steps[at] if steps else 1)
    return moved(op, operands[0], lambda of: of[tuple(index)])


@runs("onnx.Gather")
def _gather(op: Operation, operands: Sequence[Any]) -> Value:
    value, positions = operands
    return moved(op, value, lambda of: np.take(of, positions.codes, held(op, "axis")))


@runs("onnx.Tile")
def _tile(op: Operation, operands: Sequence[Any]) -> Value:
    return moved(op, operands[0], lambda of: np.tile(of, _list_of(operands[1]) or ()))


@runs("onnx.Pad")
def _pad_with_zero(op: Operation, operands: Sequence[Any]) -> Value:
    value, widths = operands
    numbers = _list_of(widths) or []
    rank = len(value.shape)
    return _padded(op, value, [*zip(numbers[:rank], numbers[rank:], strict=True)])


@runs("onnx.Cast")
def _cast(op: Operation, operands: Sequence[Any]) -> Value:
    element = result_of(op)[1]
    return Value.of_numbers(element, _numbers(operands[0]).astype(FLOATS[element]))


@runs("onnx.Sub", "onnx.Mul")
def _computed_by_onnx(op: Operation, operands: Sequence[Any]) -> Value:
    one, other = (each.floats for each in operands)
    numbers = one - other if name_of(op) == "onnx.Sub" else one * other
    return Value.of_numbers(result_of(op)[1], numbers)


@runs("onnx.DequantizeLinear")
def _dequantize_linear(op: Operation, operands: Sequence[Any]) -> Value:
    codes, scales, *others = operands
    whole = _reader(op, len(codes.shape))
    element = result_of(op)[1]
    dtype = FLOATS[element]
    zeros = whole(others[0].codes) if others and others[0] is not None else 0
    differences = (codes.codes - zeros).astype(dtype)
    return Value.of_numbers(
        element, np.broadcast_to(differences * whole(scales.floats), codes.shape)
    )


@runs("onnx.QuantizeLinear")
def _quantize_linear(op: Operation, operands: Sequence[Any]) -> Value:
    value, scales, *others = operands
    whole = _reader(op, len(value.shape))
    zeros = whole(others[0].codes) if others and others[0] is not None else 0
    limits = (0, 255) if result_of(op)[1].startswith("ui") else (-128, 127)
    return _quantized(op, value, whole(scales.floats), zeros, limits)


def _reader(op: Operation, rank: int) -> Callable[[Array], Array]:
    """Scales or zero points, where each is read."""
    attributes = attributes_of(op)
    axis = held(op, "axis") if "axis" in attributes else 1
    size = held(op, "block_size") if "block_size" in attributes else 0

    def whole(of: Array) -> Array:
        if size:
            return np.repeat(of, size, axis)
        return _along(of, axis, rank) if of.size > 1 or rank == of.ndim == 1 else of.reshape(())

    return whole


# IREE, as it decomposes the op


@runs("iree_linalg_ext.dequantize_affine")
def _dequantize_affine(op: Operation, operands: Sequence[Any]) -> Value:
    maps: Any = attributes_of(op)["indexing_maps"]
    *loops, results = [[each.position for each in map.data.results] for map in maps.data]
    if sorted(results) != list(range(len(results))):
        raise EvaluationError("it writes no permutation")
    shape, element = result_of(op)

    def read(number: int, of: Array) -> Array:
        """An operand along the axes of the result."""
        axes = [results.index(loop) for loop in loops[number]]
        order = sorted(range(len(axes)), key=axes.__getitem__)
        lengths = [shape[axis] if axis in axes else 1 for axis in range(len(shape))]
        return of.transpose(order).reshape(lengths)

    stored, scales, *others = operands[:-1]
    codes = stored.bits.astype(np.int64) if "input_unsigned" in attributes_of(op) else stored.codes
    difference = read(0, codes)
    for zero_points in others:
        difference = difference - read(2, zero_points.codes)
    numbers = difference.astype(FLOATS[scales.element]) * read(1, scales.floats)
    return Value.of_numbers(element, np.broadcast_to(numbers, shape))
