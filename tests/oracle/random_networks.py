"""
Random networks of tosa ops, with what numpy computes, and the ranges of it in `quant.stats`.

Values have the shape (batch, height, width, channels). Numbers are far apart from channel to
channel, so that there is something to equalize.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def type_of(array: Array) -> str:
    """The type of a tensor of float32."""
    return f"tensor<{''.join(f'{n}x' for n in array.shape)}f32>"


def held(array: Array) -> str:
    """The elements of a constant, exactly."""
    return f'dense<"0x{array.astype("<f4").tobytes().hex().upper()}"> : {type_of(array)}'


def powers(random: np.random.Generator, shape: int | Sequence[int]) -> Array:
    """Powers of two from 1/16 to 16."""
    return np.exp2(random.integers(-4, 5, shape).astype("f8"))


@dataclass
class Network:
    """The text of a function, and the numbers of its values."""

    random: np.random.Generator
    lines: list[str] = field(default_factory=list[str])
    numbers: dict[str, Array] = field(default_factory=dict[str, Array])
    arguments: list[str] = field(default_factory=list[str])
    is_recorded: bool = True
    """Whether each value has a range for each channel."""

    def argument(self, shape: Sequence[int]) -> str:
        """One more argument of the function."""
        name = f"%x{len(self.arguments)}"
        self.arguments.append(name)
        spread = powers(self.random, shape[-1])
        shift = self.random.normal(size=shape[-1]) * spread
        self.numbers[name] = (self.random.normal(size=shape) * spread + shift).astype("f4")
        return self.recorded(name)

    def recorded(self, name: str) -> str:
        """Append the ranges of a value; returns the value behind it."""
        if not self.is_recorded:
            return name
        array = self.numbers[name]
        behind = f"{name}_s"
        rows = array.reshape(-1, array.shape[-1])
        ends = np.stack([rows.min(axis=0), rows.max(axis=0)], -1)
        whole = np.array([array.min(), array.max()])
        self.lines.append(
            f"{behind} = quant.stats {name} {{layerStats = {held(whole)}, axisStats = "
            f"{held(ends)}, axis = {array.ndim - 1} : i64}} : {type_of(array)}"
        )
        self.numbers[behind] = array
        return behind

    def constant(self, array: Array) -> str:
        """Append a constant."""
        name = f"%c{len(self.lines)}"
        self.lines.append(
            f'{name} = "tosa.const"() <{{values = {held(array)}}}> : () -> {type_of(array)}'
        )
        self.numbers[name] = array.astype("f4")
        return name

    def op(self, name: str, operands: Sequence[str], found: Array, attributes: str = "") -> str:
        """Append an op that computes `found`, and its ranges."""
        result = f"%v{len(self.lines)}"
        self.numbers[result] = found.astype("f4")
        types = [
            type_of(self.numbers[each]) if each in self.numbers else "!tosa.shape<4>"
            for each in operands
        ]
        self.lines.append(
            f'{result} = "tosa.{name}"({", ".join(operands)}) <{{{attributes}}}> : '
            f"({', '.join(types)}) -> {type_of(self.numbers[result])}"
        )
        return self.recorded(result)

    def shape(self, numbers: Sequence[int]) -> str:
        """Append a constant shape of four lengths."""
        name = f"%s{len(self.lines)}"
        self.lines.append(
            f'{name} = "tosa.const_shape"() <{{values = dense<{list(numbers)}> : '
            "tensor<4xindex>}> : () -> !tosa.shape<4>"
        )
        return name

    def text(self, results: Sequence[str]) -> str:
        """The function that returns these."""
        arguments = ", ".join(f"{of}: {type_of(self.numbers[of])}" for of in self.arguments)
        types = ", ".join(type_of(self.numbers[of]) for of in results)
        body = "\n  ".join([*self.lines, f"return {', '.join(results)} : {types}"])
        return f"func.func @f({arguments}) -> ({types}) {{\n  {body}\n}}\n"

    # Layers

    def _weights(self, shape: Sequence[int], axis: int) -> Array:
        spread = powers(self.random, shape[axis])
        lengths = [1] * len(shape)
        lengths[axis] = shape[axis]
        return (self.random.normal(size=shape) * spread.reshape(lengths)).astype("f4")

    def conv(self, x: str, channels: int, kernel: int) -> str:
        """A convolution that keeps height and width, with a bias."""
        array = self.numbers[x]
        weights = self._weights((channels, kernel, kernel, array.shape[-1]), 3)
        bias = self._weights((channels,), 0)
        pad = kernel // 2
        padded = np.pad(array.astype("f8"), ((0, 0), (pad, pad), (pad, pad), (0, 0)))
        n, h, w, _ = array.shape
        found = np.zeros((n, h, w, channels)) + bias
        for i in range(kernel):
            for j in range(kernel):
                found += padded[:, i : i + h, j : j + w] @ weights[:, i, j].T.astype("f8")
        zero = self.constant(np.zeros(1, "f4"))
        operands = [x, self.constant(weights), self.constant(bias), zero, zero]
        return self.op(
            "conv2d", operands, found, self._window(pad) + ", dilation = array<i64: 1, 1>"
        )

    def depthwise(self, x: str, multiplier: int) -> str:
        """A depthwise convolution of 3 by 3, with a bias."""
        array = self.numbers[x]
        n, h, w, c = array.shape
        weights = self._weights((3, 3, c, multiplier), 2)
        bias = self._weights((c * multiplier,), 0)
        padded = np.pad(array.astype("f8"), ((0, 0), (1, 1), (1, 1), (0, 0)))
        found = np.zeros((n, h, w, c, multiplier))
        for i in range(3):
            for j in range(3):
                found += padded[:, i : i + h, j : j + w, :, None] * weights[i, j].astype("f8")
        zero = self.constant(np.zeros(1, "f4"))
        operands = [x, self.constant(weights), self.constant(bias), zero, zero]
        found = found.reshape(n, h, w, c * multiplier) + bias
        attributes = self._window(1) + ", dilation = array<i64: 1, 1>"
        return self.op("depthwise_conv2d", operands, found, attributes)

    @staticmethod
    def _window(pad: int) -> str:
        pads = ", ".join([str(pad)] * 4)
        return f"acc_type = f32, pad = array<i64: {pads}>, stride = array<i64: 1, 1>"

    # What is homogeneous

    def clamp(self, x: str, high: float) -> str:
        """A relu, or one with an end."""
        found = np.clip(self.numbers[x], 0, high)
        ends = f"max_val = {high:e} : f32" if high < 1e38 else "max_val = 3.40282347E+38 : f32"
        return self.op("clamp", [x], found, f"min_val = 0.0 : f32, {ends}")

    def maximum(self, x: str) -> str:
        """A relu, as the maximum with zeros."""
        zeros = self.constant(np.zeros((1, 1, 1, 1), "f4"))
        return self.op("maximum", [x, zeros], np.maximum(self.numbers[x], 0))

    def pool(self, x: str, kind: str) -> str:
        """A pool of 2 by 2, without padding."""
        array = self.numbers[x].astype("f8")
        parts = np.stack(
            [
                array[:, i : array.shape[1] - 1 + i, j : array.shape[2] - 1 + j]
                for i in (0, 1)
                for j in (0, 1)
            ]
        )
        attributes = (
            "kernel = array<i64: 2, 2>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>"
        )
        if kind == "max":
            return self.op("max_pool2d", [x], parts.max(axis=0), attributes)
        zero = self.constant(np.zeros(1, "f4"))
        found = parts.mean(axis=0)
        return self.op("avg_pool2d", [x, zero, zero], found, f"acc_type = f32, {attributes}")

    def turn(self, x: str) -> str:
        """Swap height and width."""
        found = self.numbers[x].transpose(0, 2, 1, 3)
        return self.op("transpose", [x], found, "perms = array<i32: 0, 2, 1, 3>")

    def flatten(self, x: str) -> str:
        """Join height and width."""
        n, h, w, c = self.numbers[x].shape
        shape = (n, 1, h * w, c)
        return self.op("reshape", [x, self.shape(shape)], self.numbers[x].reshape(shape))

    def slice(self, x: str, start: int, stop: int) -> str:
        """Some of the channels."""
        found = self.numbers[x][..., start:stop]
        operands = [x, self.shape((0, 0, 0, start)), self.shape(found.shape)]
        return self.op("slice", operands, found)

    def pad(self, x: str, number: float) -> str:
        """One more row and column."""
        widths = f"%p{len(self.lines)}"
        self.lines.append(
            f'{widths} = "tosa.const_shape"() <{{values = dense<[0, 0, 0, 1, 1, 0, 0, 0]> : '
            "tensor<8xindex>}> : () -> !tosa.shape<8>"
        )
        padding = self.constant(np.array([number], "f4"))
        array = self.numbers[x]
        found = np.pad(array, ((0, 0), (0, 1), (1, 0), (0, 0)), constant_values=number)
        result = f"%v{len(self.lines)}"
        self.numbers[result] = found.astype("f4")
        self.lines.append(
            f'{result} = "tosa.pad"({x}, {widths}, {padding}) : ({type_of(array)}, '
            f"!tosa.shape<8>, tensor<1xf32>) -> {type_of(found)}"
        )
        return self.recorded(result)

    def concat(self, values: Sequence[str]) -> str:
        """Their channels side by side."""
        found = np.concatenate([self.numbers[of] for of in values], axis=3)
        return self.op("concat", values, found, "axis = 3 : i32")

    def add(self, x: str, y: str) -> str:
        """Their sum."""
        return self.op("add", [x, y], self.numbers[x] + self.numbers[y])

    def sigmoid(self, x: str) -> str:
        """The logistic function."""
        with np.errstate(over="ignore"):
            found = 1 / (1 + np.exp(-self.numbers[x].astype("f8")))
        return self.op("sigmoid", [x], found)


def random_network(seed: int, *, is_recorded: bool = True) -> tuple[Network, list[str]]:
    """A network of some ops, and what it returns: the last value, and what nothing reads."""
    random = np.random.default_rng(seed)
    net = Network(random, is_recorded=is_recorded)
    shape = (2, 4, 4, int(random.integers(1, 5)))
    values = [net.argument(shape) for _ in range(int(random.integers(1, 3)))]
    kinds = "conv conv conv depthwise relu maximum relu6 max avg turn flatten slice pad sharp_pad "
    kinds += "concat concat add sigmoid constant"
    for _ in range(int(random.integers(2, 10))):
        x = values[-1] if random.random() < 0.7 else str(random.choice(values))
        array = net.numbers[x]
        alike = [of for of in values if net.numbers[of].shape[:3] == array.shape[:3]]
        other = str(random.choice(alike))
        kernel = int(random.choice([1, 3]))
        match str(random.choice(kinds.split())):
            case "conv":
                values.append(net.conv(x, int(random.integers(1, 5)), kernel))
            case "depthwise":
                values.append(net.depthwise(x, int(random.integers(1, 3))))
            case "relu":
                values.append(net.clamp(x, 3.4028235e38))
            case "relu6":
                values.append(net.clamp(x, 6.0))
            case "maximum":
                values.append(net.maximum(x))
            case "max" | "avg" as kind if min(array.shape[1:3]) > 1:
                values.append(net.pool(x, kind))
            case "turn":
                values.append(net.turn(x))
            case "flatten":
                values.append(net.flatten(x))
            case "slice" if array.shape[3] > 1:
                at = int(random.integers(1, int(array.shape[3])))
                values += [net.slice(x, 0, at), net.slice(x, at, array.shape[3])]
            case "pad":
                values.append(net.pad(x, 0.0))
            case "sharp_pad":
                values.append(net.pad(x, 1.5))
            case "concat" if array.shape[3] + net.numbers[other].shape[3] < 12:
                values.append(net.concat([x, other]))
            case "constant" if array.shape[3] < 8:
                held_array = random.normal(size=(*array.shape[:3], 2)).astype("f4")
                values.append(net.concat([x, net.constant(held_array)]))
            case "add" if array.shape == net.numbers[other].shape:
                values.append(net.add(x, other))
            case "sigmoid":
                values.append(net.sigmoid(x))
            case _:
                pass
    values.append(net.conv(values[-1], 3, 1))
    text = "\n".join(net.lines)
    unread = [of for of in values if f"{of}," not in text and f"{of})" not in text]
    return net, list(dict.fromkeys([values[-1], *unread[:2]]))
