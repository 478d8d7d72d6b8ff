"""Chains of layers as torch has them, written in StableHLO: NCHW, and weights OI or OIHW."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from random_networks import held, type_of

Array = NDArray[Any]


@dataclass
class Chain:
    """The text of a function under construction; each layer has its name."""

    shape: tuple[int, ...]
    lines: list[str] = field(default_factory=list[str])
    value: str = "%x"
    start: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.start = self.shape

    def _type(self, shape: Sequence[int]) -> str:
        return f"tensor<{''.join(f'{n}x' for n in shape)}f32>"

    def _add(self, name: str, text: str, shape: tuple[int, ...]) -> Chain:
        self.lines.append(f"%{name} = {text} -> {self._type(shape)}")
        self.value, self.shape = f"%{name}", shape
        return self

    def constant(self, name: str, array: Array) -> str:
        """Append a constant."""
        array = np.asarray(array, "f4")
        self.lines.append(
            f'%{name} = "stablehlo.constant"() <{{value = {held(array)}}}> : () -> {type_of(array)}'
        )
        return f"%{name}"

    def _biased(self, name: str, bias: Array | None, axis: int) -> Chain:
        """Add a bias to the value, which gets the name."""
        if bias is None:
            self.lines[-1] = self.lines[-1].replace(f"%{name}_sums =", f"%{name} =")
            self.value = f"%{name}"
            return self
        type = self._type(self.shape)
        small = self.constant(f"{name}_bias", bias)
        self.lines.append(
            f'{small}_all = "stablehlo.broadcast_in_dim"({small}) '
            f"<{{broadcast_dimensions = array<i64: {axis}>}}> : "
            f"({type_of(np.asarray(bias, 'f4'))}) -> {type}"
        )
        text = f'"stablehlo.add"({self.value}, {small}_all) : ({type}, {type})'
        return self._add(name, text, self.shape)

    def linear(self, name: str, weight: Any, bias: Any = None) -> Chain:
        """Sum over the last axis."""
        weight = np.asarray(weight, "f4")
        of = self.constant(f"{name}_weight", weight)
        last = len(self.shape) - 1
        numbers = (
            f"#stablehlo.dot<lhs_contracting_dimensions = [{last}], "
            "rhs_contracting_dimensions = [1]>"
        )
        text = (
            f'"stablehlo.dot_general"({self.value}, {of}) <{{dot_dimension_numbers = {numbers}}}> '
            f": ({self._type(self.shape)}, {type_of(weight)})"
        )
        shape = (*self.shape[:-1], len(weight))
        return self._add(f"{name}_sums", text, shape)._biased(name, bias, last)

    def conv(self, name: str, weight: Any, bias: Any = None, groups: int = 1) -> Chain:
        """A convolution of one to three dimensions, without padding."""
        weight = np.asarray(weight, "f4")
        of = self.constant(f"{name}_weight", weight)
        axes = ", ".join(str(at) for at in range(weight.ndim - 2))
        numbers = f"[b, f, {axes}]x[o, i, {axes}]->[b, f, {axes}]"
        lengths = zip(self.shape[2:], weight.shape[2:], strict=True)
        shape = (self.shape[0], len(weight), *(n - k + 1 for n, k in lengths))
        text = (
            f'"stablehlo.convolution"({self.value}, {of}) <{{batch_group_count = 1 : i64, '
            f"dimension_numbers = #stablehlo.conv<{numbers}>, "
            f"feature_group_count = {groups} : i64}}> : "
            f"({self._type(self.shape)}, {type_of(weight)})"
        )
        return self._add(f"{name}_sums", text, shape)._biased(name, bias, 1)

    def relu(self, name: str) -> Chain:
        """The maximum with zero."""
        type = self._type(self.shape)
        zeros = self.constant(f"{name}_zeros", np.zeros(self.shape, "f4"))
        return self._add(
            name, f'"stablehlo.maximum"({self.value}, {zeros}) : ({type}, {type})', self.shape
        )

    def relu6(self, name: str) -> Chain:
        """A clamp from zero to six."""
        type, scalar = self._type(self.shape), "tensor<f32>"
        low, high = (self.constant(f"{name}_{n}", np.array(n, "f4")) for n in (0, 6))
        text = f'"stablehlo.clamp"({low}, {self.value}, {high}) : ({scalar}, {type}, {scalar})'
        return self._add(name, text, self.shape)

    def sigmoid(self, name: str) -> Chain:
        """The logistic function."""
        type = self._type(self.shape)
        return self._add(name, f'"stablehlo.logistic"({self.value}) : ({type})', self.shape)

    def max_pool(self, name: str, size: int) -> Chain:
        """The maximum of windows that do not overlap."""
        start = self.constant(f"{name}_start", np.array(-np.inf, "f4"))
        shape = (*self.shape[:2], *(n // size for n in self.shape[2:]))
        window = f"array<i64: 1, 1, {size}, {size}>"
        self.lines.append(
            f'%{name} = "stablehlo.reduce_window"({self.value}, {start}) <{{'
            f"window_dimensions = {window}, window_strides = {window}}}> ({{\n"
            f"^bb0(%{name}_a: tensor<f32>, %{name}_b: tensor<f32>):\n"
            f'  %{name}_c = "stablehlo.maximum"(%{name}_a, %{name}_b) : '
            "(tensor<f32>, tensor<f32>) -> tensor<f32>\n"
            f'  "stablehlo.return"(%{name}_c) : (tensor<f32>) -> ()\n'
            f"}}) : ({self._type(self.shape)}, tensor<f32>) -> {self._type(shape)}"
        )
        self.value, self.shape = f"%{name}", shape
        return self

    def text(self) -> str:
        """The function that returns the last value."""
        type = self._type(self.shape)
        body = "\n  ".join([*self.lines, f"return {self.value} : {type}"])
        return f"func.func @f(%x: {self._type(self.start)}) -> {type} {{\n  {body}\n}}\n"
