"""Random layers, each followed by arithmetic with constants for each channel, in three dialects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from random_networks import held, type_of

Array = NDArray[Any]

FUNCTIONS = ("add", "sub", "mul", "div", "rsub")

IDENTITY = "affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>"


@dataclass
class Chain:
    """The text of a function of one layer, and its argument."""

    dialect: str
    random: np.random.Generator
    lines: list[str] = field(default_factory=list[str])
    count: int = 0

    def insert(self, text: str) -> str:
        """Append an op; returns its result."""
        self.count += 1
        self.lines.append(f"%v{self.count} = {text}")
        return f"%v{self.count}"

    def constant(self, array: Array) -> str:
        match self.dialect:
            case "tosa":
                elements = f"values = {held(array)}"
                return self.insert(f'"tosa.const"() <{{{elements}}}> : () -> {type_of(array)}')
            case "stablehlo":
                return self.insert(f"stablehlo.constant {held(array)}")
            case _:
                return self.insert(f"arith.constant {held(array)}")

    def row(self, shape: Sequence[int], axis: int, *, is_last: bool) -> tuple[str, Array]:
        """A constant operand with a number for each channel, or one for all before the last."""
        length = 1 if not is_last and self.random.random() < 0.2 else shape[axis]
        numbers = self.random.uniform(0.5, 2, length) * self.random.choice([-1, 1], length)
        row = numbers.astype("f4").reshape([length if at == axis else 1 for at in range(4)])
        if self.dialect == "stablehlo":
            small = row.reshape(-1) if length > 1 else row.reshape(())
            value, dims = self.constant(small), [axis] * small.ndim
            whole = type_of(np.zeros(shape, "f4"))
            return self.insert(
                f"stablehlo.broadcast_in_dim {value}, dims = {dims} : ({type_of(small)}) -> {whole}"
            ), row
        if self.dialect == "tosa" and self.random.random() < 0.3:
            root = (row * row).astype("f4")
            value = self.constant(root)
            row = (1 / np.sqrt(root)).astype("f4")
            return self.insert(f"tosa.rsqrt {value} : ({type_of(row)}) -> {type_of(row)}"), row
        return self.constant(row), row

    def computed(
        self, function: str, value: str, shape: Sequence[int], axis: int, *, is_last: bool
    ) -> str:
        """Arithmetic on a value and a constant for each channel."""
        other, row = self.row(shape, axis, is_last=is_last)
        type = type_of(np.zeros(shape, "f4"))
        ends = (other, value) if function == "rsub" else (value, other)
        name = function.removeprefix("r")
        match self.dialect:
            case "tosa":
                small = type_of(row)
                types = f"({small}, {type})" if function == "rsub" else f"({type}, {small})"
                if name == "div":
                    other = self.insert(f"tosa.reciprocal {other} : ({small}) -> {small}")
                    ends, name = (value, other), "mul"
                if name == "mul":
                    zero = self.insert(
                        '"tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>'
                    )
                    inner = f"{ends[0]}, {ends[1]}, {zero} : ({type}, {small}, tensor<1xi8>)"
                    return self.insert(f"tosa.mul {inner} -> {type}")
                return self.insert(f"tosa.{name} {ends[0]}, {ends[1]} : {types} -> {type}")
            case "stablehlo":
                names = {"sub": "subtract", "mul": "multiply", "div": "divide"}
                op = names.get(name, name)
                return self.insert(f"stablehlo.{op} {ends[0]}, {ends[1]} : {type}")
            case _:
                exact = row.shape[axis] == 1
                where = ["0" if at != axis or exact else f"d{at}" for at in range(4)]
                own = f"affine_map<(d0, d1, d2, d3) -> ({', '.join(where)})>"
                empty = self.insert(f"tensor.empty() : {type}")
                operands = "%b, %a" if function == "rsub" else "%a, %b"
                kinds = ", ".join(['"parallel"'] * 4)
                return self.insert(
                    f"linalg.generic {{indexing_maps = [{IDENTITY}, {own}, {IDENTITY}], "
                    f"iterator_types = [{kinds}]}} "
                    f"ins({value}, {other} : {type}, {type_of(row)}) outs({empty} : {type}) {{\n"
                    "^bb0(%a: f32, %b: f32, %c: f32):\n"
                    f"%d = arith.{name}f {operands} : f32\nlinalg.yield %d : f32\n}} -> {type}"
                )

    def layer(self) -> tuple[str, tuple[int, ...], int]:
        """A convolution; its result, its shape, and its axis of channels."""
        kernel = self.random.normal(size=(5, 3, 2, 2)).astype("f4")
        match self.dialect:
            case "tosa":
                weights = self.constant(kernel.transpose(0, 2, 3, 1).copy())
                bias = self.constant(self.random.normal(size=5).astype("f4"))
                zero = self.constant(np.zeros(1, "f4"))
                return (
                    self.insert(
                        f"tosa.conv2d %x, {weights}, {bias}, {zero}, {zero} "
                        "{acc_type = f32, dilation = array<i64: 1, 1>, "
                        "pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>} : "
                        "(tensor<2x5x6x3xf32>, tensor<5x2x2x3xf32>, tensor<5xf32>, tensor<1xf32>, "
                        "tensor<1xf32>) -> tensor<2x4x5x5xf32>"
                    ),
                    (2, 4, 5, 5),
                    3,
                )
            case "stablehlo":
                weights = self.constant(kernel)
                return (
                    self.insert(
                        f"stablehlo.convolution(%x, {weights}) dim_numbers = "
                        "[b, 0, 1, f]x[o, i, 0, 1]->[b, f, 0, 1], window = {} "
                        "{batch_group_count = 1 : i64, feature_group_count = 1 : i64} : "
                        "(tensor<2x5x6x3xf32>, tensor<5x3x2x2xf32>) -> tensor<2x5x4x5xf32>"
                    ),
                    (2, 5, 4, 5),
                    1,
                )
            case _:
                weights = self.constant(kernel.transpose(2, 3, 1, 0).copy())
                start = self.constant(np.zeros((2, 4, 5, 5), "f4"))
                if self.random.random() < 0.5:
                    row, empty = self.constant(self.random.normal(size=5).astype("f4")), "%e"
                    self.lines.append(f"{empty} = tensor.empty() : tensor<2x4x5x5xf32>")
                    start = self.insert(
                        f"linalg.broadcast ins({row} : tensor<5xf32>) outs({empty} : "
                        "tensor<2x4x5x5xf32>) dimensions = [0, 1, 2]"
                    )
                return (
                    self.insert(
                        "linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : tensor<2xi64>, "
                        f"strides = dense<1> : tensor<2xi64>}} ins(%x, {weights} : "
                        f"tensor<2x5x6x3xf32>, tensor<2x2x3x5xf32>) outs({start} : "
                        "tensor<2x4x5x5xf32>) -> tensor<2x4x5x5xf32>"
                    ),
                    (2, 4, 5, 5),
                    3,
                )

    def moved(
        self, value: str, shape: tuple[int, ...], axis: int
    ) -> tuple[str, tuple[int, ...], int]:
        """A transposed value, with its shape and its axis of channels."""
        order = [int(at) for at in self.random.permutation(4)]
        after = tuple(shape[at] for at in order)
        types = [type_of(np.zeros(lengths, "f4")) for lengths in (shape, after)]
        match self.dialect:
            case "tosa":
                text = (
                    f"tosa.transpose {value} {{perms = array<i32: {str(order)[1:-1]}>}} : "
                    f"({types[0]}) -> {types[1]}"
                )
            case "stablehlo":
                text = f"stablehlo.transpose {value}, dims = {order} : ({types[0]}) -> {types[1]}"
            case _:
                empty = self.insert(f"tensor.empty() : {types[1]}")
                text = (
                    f"linalg.transpose ins({value} : {types[0]}) outs({empty} : {types[1]}) "
                    f"permutation = {order}"
                )
        return self.insert(text), after, order.index(axis)


def random_chain(seed: int, dialect: str) -> tuple[str, Array, int]:
    """The text of a function, its argument, and the number of ops of arithmetic after the layer."""
    random = np.random.default_rng(seed)
    chain = Chain(dialect, random)
    value, shape, axis = chain.layer()
    count = int(random.integers(0, 5))
    for at in range(count):
        if random.random() < 0.3:
            value, shape, axis = chain.moved(value, shape, axis)
        function = str(random.choice(FUNCTIONS))
        value = chain.computed(function, value, shape, axis, is_last=at == count - 1)
    type = type_of(np.zeros(shape, "f4"))
    body = "\n".join(chain.lines)
    text = (
        f"func.func @f(%x: tensor<2x5x6x3xf32>) -> {type} {{\n{body}\nreturn {value} : {type}\n}}"
    )
    return text, random.normal(size=(2, 5, 6, 3)).astype("f4"), count
