"""Helpers that the ops of several dialects share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from random_modules.function import Function, Node, Write
from random_modules.spelling import Ints, Shape, array


def positions(node: Node) -> Ints:
    """The flat position of each element."""
    return np.arange(math.prod(node.shape)).reshape(node.shape)


def generic(
    fn: Function,
    op: str,
    operands: Sequence[tuple[str, str]],
    properties: str,
    region: str = "",
) -> Write:
    """An op in generic form."""
    names = ", ".join(f"%{name}" for name, _ in operands)
    types = ", ".join(type for _, type in operands)
    held = ""
    if properties:
        as_attributes = op.startswith("stablehlo.") and fn.chance(2)
        held = f" {{{properties}}}" if as_attributes else f" <{{{properties}}}>"
    return lambda name, type: f'{name} = "{op}"({names}){held}{region} : ({types}) -> {type}'


def either(fn: Function, write: Write, otherwise: Write) -> Write:
    """One of two forms, at random."""
    return write if fn.chance(2) else otherwise


def of(node: Node) -> tuple[str, str]:
    """The name and the type of a value."""
    return node.name, node.type


def permutation_of(fn: Function, rank: int) -> tuple[int, ...]:
    return tuple(fn.draw(st.permutations(range(rank))))


@dataclass(frozen=True)
class Cut:
    """Offsets, sizes and strides."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def drawn(cls, fn: Function, shape: Shape, *, strides: bool = True) -> Cut:
        """A random slice of a tensor of `shape`."""
        parts: list[tuple[int, int, int]] = []
        for length in shape:
            offset = fn.draw(st.integers(0, length - 1)) if fn.chance(2) else 0
            stride = fn.draw(st.sampled_from([1, 1, 2, 3])) if strides else 1
            most = -(-(length - offset) // stride)
            size = fn.draw(st.integers(1, most)) if fn.chance(2) else most
            parts.append((offset, size, stride))
        offsets, sizes, steps = zip(*parts, strict=True) if parts else ((), (), ())
        return cls(offsets, sizes, steps)

    def of(self, array: NDArray[Any]) -> NDArray[Any]:
        """The slice of `array`, as a view."""
        return array[
            ...,
            *(
                slice(offset, offset + (size - 1) * stride + 1, stride)
                for offset, size, stride in zip(self.offsets, self.sizes, self.strides, strict=True)
            ),
        ]

    @property
    def properties(self) -> str:
        """The text of the properties of the tensor dialect."""
        return (
            f"static_offsets = {array('i64', self.offsets)}, "
            f"static_sizes = {array('i64', self.sizes)}, "
            f"static_strides = {array('i64', self.strides)}"
        )

    @property
    def text(self) -> str:
        """The custom syntax of the tensor dialect."""
        return f"{list(self.offsets)} {list(self.sizes)} {list(self.strides)}"


def without_units(fn: Function, shape: Shape) -> Shape:
    """`shape` without some of its unit axes, at random."""
    return tuple(n for n in shape if n != 1 or fn.chance(2))


def joined(fn: Function, node: Node, *, same_type: bool) -> tuple[list[Node], int] | None:
    """Values to concatenate, and the axis."""
    if not node.shape:
        return None
    axis = fn.draw(st.integers(0, len(node.shape) - 1))
    shape = list(node.shape)
    if not same_type:
        shape[axis] = fn.draw(st.integers(1, 4))
    other = fn.sibling(node, tuple(shape), same_type=same_type)
    if other is None or (same_type and other.type != node.type and node.is_quantized):
        return None
    return fn.draw(st.sampled_from([[node, other], [other, node], [node, other, node]])), axis


def concatenated(nodes: Sequence[Node], axis: int) -> Ints:
    """The source position of each element of a concatenation."""
    parts: list[Ints] = []
    start = 0
    for node in nodes:
        parts.append(start + positions(node))
        start += math.prod(node.shape)
    return np.concatenate(parts, axis)


def concat(fn: Function, node: Node, op: str, attribute: str) -> Node | None:
    has_one_type = fn.quantizes_as_upstream or op != "stablehlo.concatenate"
    found = joined(fn, node, same_type=node.is_quantized and has_one_type)
    if found is None:
        return None
    nodes, axis = found
    kind = "i32" if op.startswith("tosa.") else "i64"
    write = generic(fn, op, [of(n) for n in nodes], f"{attribute} = {axis} : {kind}")
    names = ", ".join(f"%{n.name}" for n in nodes)
    types = ", ".join(n.type for n in nodes)
    if op == "tensor.concat":
        write = either(
            fn,
            write,
            lambda name, type: f"{name} = tensor.concat dim({axis}) {names} : ({types}) -> {type}",
        )
    return fn.apply(op, nodes, concatenated(nodes, axis), write)
