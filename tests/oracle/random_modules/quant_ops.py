"""Shape ops of quant."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from qdialect.testing.movements import reshaped
from random_modules.building import Cut, either, generic, of, permutation_of, positions
from random_modules.function import Function, Node
from random_modules.padding import Widths
from random_modules.spelling import Bits, Ints, array


def quant(fn: Function, op: str, node: Node, index: Ints, properties: str, custom: str) -> Node:
    def write(name: str, type: str) -> str:
        if fn.chance(2):
            return f"{name} = {op} %{node.name}{custom} : {node.type} to {type}"
        return generic(fn, op, [of(node)], properties)(name, type)

    return fn.apply(op, [node], index, write)


def quant_transpose(fn: Function, node: Node) -> Node:
    axes = permutation_of(fn, len(node.shape))
    index = positions(node).transpose(axes)
    properties = f"permutation = {array('i64', axes)}"
    return quant(fn, "quant.transpose", node, index, properties, f" permutation = {list(axes)}")


def quant_reshape(fn: Function, node: Node) -> Node:
    shape = fn.draw(reshaped(node.shape))
    return quant(fn, "quant.reshape", node, positions(node).reshape(shape), "", "")


def quant_slice(fn: Function, node: Node) -> Node:
    cut = Cut.drawn(fn, node.shape)
    properties = (
        f"offsets = {array('i64', cut.offsets)}, sizes = {array('i64', cut.sizes)}, "
        f"strides = {array('i64', cut.strides)}"
    )
    return quant(fn, "quant.slice", node, cut.of(positions(node)), properties, f" {cut.text}")


def quant_reverse(fn: Function, node: Node) -> Node:
    rank = len(node.shape)
    axes = permutation_of(fn, rank)[: fn.draw(st.integers(0, rank))]
    index = np.flip(positions(node), axes)
    properties = f"dims = {array('i64', axes)}"
    return quant(fn, "quant.reverse", node, index, properties, f" dims = {list(axes)}")


def quant_gather(fn: Function, node: Node) -> Node | None:
    axes = range(len(node.shape))
    if not axes:
        return None
    dim: int = fn.draw(st.sampled_from(axes))
    indices: list[int] = fn.draw(
        st.lists(st.integers(0, node.shape[dim] - 1), min_size=1, max_size=4)
    )
    properties = f"dim = {dim} : i64, indices = {array('i64', indices)}"
    taken = np.take(positions(node), indices, dim)
    return quant(fn, "quant.gather", node, taken, properties, f" {indices} dim({dim})")


def quant_pad(fn: Function, node: Node) -> Node:
    widths = Widths.drawn(fn, node.shape)
    index, inside = widths.padded(node)

    def fill(result: Node) -> tuple[Bits, bool]:
        layer = result.layer
        assert layer.storage is not None
        assert layer.zero_points is not None
        return layer.storage.bits(layer.zero_points), True

    low, high = widths.low, widths.high
    properties = f"low = {array('i64', low)}, high = {array('i64', high)}"
    write = generic(fn, "quant.pad", [of(node)], properties)
    write = either(
        fn,
        write,
        lambda name, type: (
            f"{name} = quant.pad %{node.name} low = {list(low)} high = {list(high)} : "
            f"{node.type} to {type}"
        ),
    )
    return fn.apply("quant.pad", [node], index, write, is_inside=inside, fill=fill)
