"""Random quantized layers as text, and the codes that integers of any width say they have."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int64]


class Type(NamedTuple):
    """A quantized type with a scale for all elements, or for each position of an axis."""

    width: int
    is_signed: bool
    scales: NDArray[np.float64]
    zeros: Codes
    axis: int | None = None

    @classmethod
    def random(cls, rng: np.random.Generator, width: int, scale: float) -> Type:
        is_signed = bool(rng.integers(2))
        low, high = bounds(width, is_signed)
        zero = int(rng.integers(low, high + 1)) if rng.integers(4) else 0
        return cls(width, is_signed, np.array([f32(scale)]), np.array([zero]))

    @property
    def bounds(self) -> tuple[int, int]:
        return bounds(self.width, self.is_signed)

    @property
    def text(self) -> str:
        slots = [f"{s:.17e}:{z}" for s, z in zip(self.scales, self.zeros, strict=True)]
        axis = "" if self.axis is None else f":{self.axis}"
        each = slots[0] if self.axis is None else f"{{{', '.join(slots)}}}"
        return f"!quant.uniform<{'i' if self.is_signed else 'u'}{self.width}:f32{axis}, {each}>"

    def codes(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Codes:
        low, high = self.bounds
        return rng.integers(low, high + 1, shape)

    def less_zeros(self, codes: Codes) -> Codes:
        if self.axis is None:
            return codes - self.zeros[0]
        line = [-1 if at == self.axis else 1 for at in range(codes.ndim)]
        return codes - self.zeros.reshape(line)


def bounds(width: int, is_signed: bool) -> tuple[int, int]:
    low = -(1 << (width - 1)) if is_signed else 0
    return low, low + (1 << width) - 1


def f32(number: float) -> float:
    return float(np.float32(number))


def multiplier(factor: float) -> tuple[int, int]:
    """The multiplier of 31 bits, and the shift, by comparison of rational numbers."""
    real, shift = Fraction(factor), 0
    while shift < 62 and real * 2 ** (shift + 1) < 2**31:
        shift += 1
    whole = round(real * 2**shift)
    return (whole, shift) if whole < 2**31 else (2**30, shift - 1)


def fixed(total: int, factor: float, type: Type) -> int:
    m, shift = multiplier(factor)
    low, high = type.bounds
    rounded = (total * m + (1 << (shift - 1))) >> shift
    return min(max(rounded + int(type.zeros[0]), low), high)


def fixed_codes(totals: Codes, factors: NDArray[np.float64], type: Type) -> Codes:
    """The codes of totals, one by one, in integers of any width."""
    each = np.broadcast_to(factors, totals.shape)
    pairs = zip(totals.ravel().tolist(), each.ravel().tolist(), strict=True)
    return np.array([fixed(total, factor, type) for total, factor in pairs]).reshape(totals.shape)


def distance_to_tie(totals: Codes, factors: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far the exact results are from halfway between two codes."""
    each = np.broadcast_to(factors, totals.shape)
    pairs = zip(totals.ravel().tolist(), each.ravel().tolist(), strict=True)
    parts = [abs(Fraction(factor) * total % 1 - Fraction(1, 2)) for total, factor in pairs]
    return np.array([float(part) for part in parts]).reshape(totals.shape)


class Case(NamedTuple):
    """A function of codes, and what it returns."""

    text: Callable[[str], str]
    """The function of a name."""

    operands: tuple[Codes, ...]
    types: tuple[Type, ...]
    result: Type
    expected: Codes


def tensor(shape: tuple[int, ...], element: str) -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


def function(
    operands: list[tuple[tuple[int, ...], Type]],
    result: tuple[tuple[int, ...], Type],
    constants: list[tuple[Codes, Type]],
    body: str,
) -> Callable[[str], str]:
    """
    A function of quantized operands, whose `body` computes the floats %y.

    It reads the numbers of operands as %x0, ..., and those of constants as %c0, ....
    """
    shape, type = result
    lines: list[str] = []
    for at, (own, kind) in enumerate(operands):
        quantized, floats = tensor(own, kind.text), tensor(own, "f32")
        lines.append(f"%x{at} = quant.dcast %q{at} : {quantized} to {floats}")
    for at, (codes, kind) in enumerate(constants):
        quantized, floats = tensor(codes.shape, kind.text), tensor(codes.shape, "f32")
        lines.append(f"%k{at} = quant.constant dense<{codes.tolist()}> : {quantized}")
        lines.append(f"%c{at} = quant.dcast %k{at} : {quantized} to {floats}")
    lines.append(body)
    lines.append(f"%r = quant.qcast %y : {tensor(shape, 'f32')} to {tensor(shape, type.text)}")
    lines.append(f"return %r : {tensor(shape, type.text)}")
    arguments = [f"%q{at}: {tensor(own, kind.text)}" for at, (own, kind) in enumerate(operands)]
    inner = "\n  ".join(lines)
    returned = tensor(shape, type.text)
    return lambda name: (
        f"func.func @{name}({', '.join(arguments)}) -> {returned} {{\n  {inner}\n}}\n"
    )


def weights_of(
    rng: np.random.Generator, shape: tuple[int, ...], axis: int, width: int
) -> tuple[Codes, Type]:
    """Weights with a scale for each channel, and zero points in half of the cases."""
    is_signed = bool(rng.integers(2))
    low, high = bounds(width, is_signed)
    count = shape[axis]
    scales = np.array([f32(2.0 ** rng.uniform(-12, -4)) for _ in range(count)])
    zeros = rng.integers(low, high + 1, count) if rng.integers(2) else np.zeros(count, int)
    type = Type(width, is_signed, scales, zeros, axis)
    return type.codes(rng, shape), type


def widths_of(rng: np.random.Generator) -> tuple[int, int, int]:
    """The bits of the operand, the weights and the result."""
    one, other, last = (int(width) for width in rng.choice([4, 8, 8, 8, 16], 3))
    return one, other, last


def result_type(rng: np.random.Generator, width: int, real: NDArray[np.float64]) -> Type:
    """A type of which some results saturate, and most do not."""
    spread = float(np.abs(real).max()) or 1.0
    return Type.random(rng, width, spread / (1 << (width - 1)) * 2.0 ** rng.uniform(-1.5, 1))


def convolution(rng: np.random.Generator) -> Case:
    """Windows with strides, distances and padding, in groups, with a bias."""
    groups = int(rng.choice([1, 1, 2, 3]))
    inner, outer = groups * int(rng.integers(1, 4)), groups * int(rng.integers(1, 4))
    kernel = rng.integers(1, 4, 2)
    stride, dilation, gap = (rng.integers(1, 3, 2) for _ in range(3))
    pads = rng.integers(0, 3, (2, 2))
    size = rng.integers(1, 3, 2) + (kernel - 1) * dilation
    bits = widths_of(rng)
    x_type = Type.random(rng, bits[0], 2.0 ** rng.uniform(-6, 0))
    x_shape = (int(rng.integers(1, 3)), *(int(n) for n in size), inner)
    w_shape = (int(kernel[0]), int(kernel[1]), inner // groups, outer)
    w, w_type = weights_of(rng, w_shape, 3, bits[1])
    x = x_type.codes(rng, x_shape)

    wide = np.zeros((x_shape[0], *((size - 1) * gap + 1 + pads.sum(1)), inner), np.int64)
    ends = [low + (n - 1) * g + 1 for low, n, g in zip(pads[:, 0], size, gap, strict=True)]
    wide[:, pads[0, 0] : ends[0] : gap[0], pads[1, 0] : ends[1] : gap[1]] = x_type.less_zeros(x)
    real_w = w_type.less_zeros(w)
    rows, columns = (
        range(0, n - (k - 1) * d, s)
        for n, k, d, s in zip(wide.shape[1:3], kernel, dilation, stride, strict=True)
    )
    totals = np.zeros((x_shape[0], len(rows), len(columns), outer), np.int64)
    per_in, per_out = inner // groups, outer // groups
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            for c in range(outer):
                first = c // per_out * per_in
                part = wide[
                    :,
                    row : row + (kernel[0] - 1) * dilation[0] + 1 : dilation[0],
                    column : column + (kernel[1] - 1) * dilation[1] + 1 : dilation[1],
                    first : first + per_in,
                ]
                totals[:, i, j, c] = (part * real_w[..., c]).sum((1, 2, 3))
    scales = x_type.scales[0] * w_type.scales
    bias = rng.integers(-2000, 2000, outer)
    totals = totals + bias
    bias_type = Type(32, True, np.array([f32(s) for s in scales]), np.zeros(outer, int), 0)
    y_type = result_type(rng, bits[2], totals * scales)
    shapes = [tensor(shape, "f32") for shape in (x_shape, w_shape, totals.shape)]
    padding = [[int(a), int(b)] for a, b in pads]
    body = f"""%s = stablehlo.convolution(%x0, %c0)
    dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {{stride = {stride.tolist()}, pad = {padding}, lhs_dilate = {gap.tolist()},
      rhs_dilate = {dilation.tolist()}}}
    {{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}}
    : ({shapes[0]}, {shapes[1]}) -> {shapes[2]}
  %b = stablehlo.broadcast_in_dim %c1, dims = [3] : (tensor<{outer}xf32>) -> {shapes[2]}
  %y = stablehlo.add %s, %b : {shapes[2]}"""
    text = function(
        [(x_shape, x_type)], (totals.shape, y_type), [(w, w_type), (bias, bias_type)], body
    )
    expected = fixed_codes(totals, scales / y_type.scales[0], y_type)
    return Case(text, (x,), (x_type,), y_type, expected)


def attention(rng: np.random.Generator) -> Case:
    """A product of two computed matrices, for each of a batch."""
    batch, rows, summed, columns = (int(n) for n in rng.integers(1, 6, 4))
    bits = widths_of(rng)
    types = [Type.random(rng, width, 2.0 ** rng.uniform(-8, 0)) for width in bits[:2]]
    shapes = [(batch, rows, summed), (batch, summed, columns), (batch, rows, columns)]
    x, w = (type.codes(rng, shape) for type, shape in zip(types, shapes, strict=False))
    totals = np.matmul(types[0].less_zeros(x), types[1].less_zeros(w))
    scale = types[0].scales[0] * types[1].scales[0]
    y_type = result_type(rng, bits[2], totals * scale)
    one, other, result = (tensor(shape, "f32") for shape in shapes)
    body = f"""%y = stablehlo.dot_general %x0, %x1, batching_dims = [0] x [0],
    contracting_dims = [2] x [1] : ({one}, {other}) -> {result}"""
    text = function([*zip(shapes, types, strict=False)], (shapes[2], y_type), [], body)
    expected = fixed_codes(totals, np.array(scale / y_type.scales[0]), y_type)
    return Case(text, (x, w), (types[0], types[1]), y_type, expected)


def sum_of_two(rng: np.random.Generator) -> Case:
    """A sum, or a difference, with one rounding."""
    shape = tuple(int(n) for n in rng.integers(1, 5, 3))
    bits = widths_of(rng)
    types = [Type.random(rng, width, 2.0 ** rng.uniform(-8, 0)) for width in bits[:2]]
    operands = [type.codes(rng, shape) for type in types]
    sign = int(rng.choice([1, -1]))
    real = [type.scales[0] * type.less_zeros(x) for type, x in zip(types, operands, strict=True)]
    y_type = result_type(rng, bits[2], real[0] + sign * real[1])
    factors = [type.scales[0] / y_type.scales[0] for type in types]
    _, shift = multiplier(max(factors))
    m = [
        sign_of * round(Fraction(factor) * 2**shift)
        for factor, sign_of in zip(factors, (1, sign), strict=True)
    ]
    low, high = y_type.bounds
    each = zip(
        *(type.less_zeros(x).ravel().tolist() for type, x in zip(types, operands, strict=True)),
        strict=True,
    )
    codes = [
        min(
            max(((a * m[0] + b * m[1] + (1 << (shift - 1))) >> shift) + int(y_type.zeros[0]), low),
            high,
        )
        for a, b in each
    ]
    floats = tensor(shape, "f32")
    body = f"%y = stablehlo.{'add' if sign > 0 else 'subtract'} %x0, %x1 : {floats}"
    text = function([(shape, type) for type in types], (shape, y_type), [], body)
    expected = np.array(codes).reshape(shape)
    return Case(text, (operands[0], operands[1]), (types[0], types[1]), y_type, expected)


def requantized(rng: np.random.Generator) -> Case:
    """Codes of another type, transposed."""
    shape = tuple(int(n) for n in rng.integers(1, 6, 2))
    bits = widths_of(rng)
    x_type = Type.random(rng, bits[0], 2.0 ** rng.uniform(-8, 0))
    x = x_type.codes(rng, shape)
    totals = x_type.less_zeros(x).T
    y_type = result_type(rng, bits[1], totals * x_type.scales[0])
    floats, turned = tensor(shape, "f32"), tensor(shape[::-1], "f32")
    body = f"%y = stablehlo.transpose %x0, dims = [1, 0] : ({floats}) -> {turned}"
    text = function([(shape, x_type)], (shape[::-1], y_type), [], body)
    expected = fixed_codes(totals, np.array(x_type.scales[0] / y_type.scales[0]), y_type)
    return Case(text, (x,), (x_type,), y_type, expected)


def pool(rng: np.random.Generator) -> Case:
    """The sum of the elements in windows, with padding."""
    shape = (1, *(int(n) for n in rng.integers(3, 6, 2)), 2)
    x_type = Type.random(rng, int(rng.choice([4, 8])), 2.0 ** rng.uniform(-8, 0))
    x = x_type.codes(rng, shape)
    size, stride = rng.integers(1, 4, 2), rng.integers(1, 3, 2)
    pads = rng.integers(0, 2, (2, 2))
    wide = np.pad(x_type.less_zeros(x), [(0, 0), *map(tuple, pads), (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(wide, tuple(size), (1, 2))
    totals = windows[:, :: stride[0], :: stride[1]].sum((-1, -2))
    y_type = result_type(rng, 8, totals * x_type.scales[0])
    padding = [[0, 0], *pads.tolist(), [0, 0]]
    body = f"""%zero = stablehlo.constant dense<0.0> : tensor<f32>
  %y = "stablehlo.reduce_window"(%x0, %zero) <{{
    window_dimensions = array<i64: 1, {size[0]}, {size[1]}, 1>,
    window_strides = array<i64: 1, {stride[0]}, {stride[1]}, 1>,
    padding = dense<{padding}> : tensor<4x2xi64>}}> ({{
  ^bb0(%one: tensor<f32>, %other: tensor<f32>):
    %sum = stablehlo.add %one, %other : tensor<f32>
    stablehlo.return %sum : tensor<f32>
  }}) : ({tensor(shape, "f32")}, tensor<f32>) -> {tensor(totals.shape, "f32")}"""
    text = function([(shape, x_type)], (totals.shape, y_type), [], body)
    expected = fixed_codes(totals, np.array(x_type.scales[0] / y_type.scales[0]), y_type)
    return Case(text, (x,), (x_type,), y_type, expected)


KINDS: dict[str, Callable[[np.random.Generator], Case]] = {
    "convolution": convolution,
    "attention": attention,
    "sum": sum_of_two,
    "requantized": requantized,
    "pool": pool,
}


def stored(codes: Codes, type: Type) -> NDArray[Any]:
    """Codes in the signless integers that hold them."""
    half = 1 << (type.width - 1)
    signless = (codes + half) % (2 * half) - half
    return signless.astype(np.int8 if type.width <= 8 else np.int16)
