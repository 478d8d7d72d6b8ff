"""Shape ops of linalg."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from random_modules.building import permutation_of, positions
from random_modules.function import Function, Node
from random_modules.spelling import Ints, array


def empty(fn: Function, type: str) -> str:
    name = fn.fresh("k")
    fn.emit(f"%{name} = tensor.empty() : {type}")
    return name


def linalg(
    fn: Function, op: str, node: Node, index: Ints, properties: str, custom: str | None
) -> Node:
    def write(name: str, type: str) -> str:
        to = empty(fn, type)
        inputs, outputs = node.layer.element, type[: -len(">")]
        element = node.layer.element
        assert inputs in outputs
        ends = f"ins(%{node.name} : {node.type}) outs(%{to} : {type})"
        region = (
            f"({{\n  ^bb0(%{to}a: {element}, %{to}b: {element}):\n"
            f'    "linalg.yield"(%{to}a) : ({element}) -> ()\n  }})'
        )
        if custom is not None:
            if op == "linalg.generic":
                return (
                    f"{name} = linalg.generic {custom} {ends} {{\n"
                    f"  ^bb0(%{to}a: {element}, %{to}b: {element}):\n"
                    f"    linalg.yield %{to}a : {element}\n  }} -> {type}"
                )
            return f"{name} = {op} {ends} {custom}"
        return (
            f'{name} = "{op}"(%{node.name}, %{to}) <{{{properties}}}> {region} : '
            f"({node.type}, {type}) -> {type}"
        )

    return fn.apply(op, [node], index, write)


def has_custom_region(fn: Function, node: Node) -> bool:
    # xDSL creates the region of a named op only for plain types.
    return not node.is_quantized and fn.chance(2)


def linalg_transpose(fn: Function, node: Node) -> Node:
    axes = permutation_of(fn, len(node.shape))
    custom = f"permutation = {list(axes)}" if has_custom_region(fn, node) else None
    index = positions(node).transpose(axes)
    return linalg(
        fn, "linalg.transpose", node, index, f"permutation = {array('i64', axes)}", custom
    )


def linalg_broadcast(fn: Function, node: Node) -> Node | None:
    rank = len(node.shape) + fn.draw(st.integers(0, 2))
    new = sorted(fn.draw(st.permutations(range(rank)))[: rank - len(node.shape)])
    index = positions(node)
    for axis in new:
        index = np.repeat(np.expand_dims(index, axis), fn.draw(st.integers(1, 3)), axis)
    custom = f"dimensions = {new}" if has_custom_region(fn, node) else None
    return linalg(fn, "linalg.broadcast", node, index, f"dimensions = {array('i64', new)}", custom)


def linalg_generic(fn: Function, node: Node) -> Node:
    """A `linalg.generic` with permuted axes and loops, new axes, and unit axes read at zero."""
    kept = [axis for axis, n in enumerate(node.shape) if n != 1 or fn.chance(2)]
    index = positions(node).reshape([node.shape[axis] for axis in kept])
    for axis in range(len(kept), len(kept) + fn.draw(st.integers(0, 2))):
        index = np.repeat(np.expand_dims(index, axis), fn.draw(st.integers(1, 3)), axis)
    loops = permutation_of(fn, index.ndim)
    written = permutation_of(fn, index.ndim)
    index = index.transpose(written)
    names = ", ".join(f"d{loop}" for loop in range(index.ndim))
    reads = [
        f"d{loops[kept.index(axis)]}" if axis in kept else "0" for axis in range(len(node.shape))
    ]
    writes = [f"d{loops[axis]}" for axis in written]
    maps = ", ".join(
        f"affine_map<({names}) -> ({', '.join(results)})>" for results in (reads, writes)
    )
    kinds = ", ".join(["#linalg.iterator_type<parallel>"] * index.ndim)
    properties = (
        f"indexing_maps = [{maps}], iterator_types = [{kinds}], "
        "operandSegmentSizes = array<i32: 1, 1>"
    )
    quoted = ", ".join(['"parallel"'] * index.ndim)
    custom = f"{{indexing_maps = [{maps}], iterator_types = [{quoted}]}}" if fn.chance(2) else None
    return linalg(fn, "linalg.generic", node, index, properties, custom)
