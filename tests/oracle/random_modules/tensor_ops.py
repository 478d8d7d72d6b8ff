"""Shape ops of tensor."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from qdialect.testing.movements import reshaped
from qdialect.testing.tensors import divisors
from random_modules.building import Cut, concat, either, generic, of, positions, without_units
from random_modules.function import Function, Node
from random_modules.padding import Widths, padding
from random_modules.spelling import array


def tensor_reshape(fn: Function, node: Node) -> Node:
    shape = fn.draw(reshaped(node.shape))
    element = fn.draw(st.sampled_from(["index", "i32", "i64"]))
    to = fn.integers(np.array(shape, dtype=np.int64), element, "arith")
    write = generic(fn, "tensor.reshape", [of(node), to], "")
    write = either(
        fn,
        write,
        lambda name, type: (
            f"{name} = tensor.reshape %{node.name}(%{to[0]}) : ({node.type}, {to[1]}) -> {type}"
        ),
    )
    return fn.apply("tensor.reshape", [node], positions(node).reshape(shape), write)


def groups_of(fn: Function, rank: int) -> list[list[int]]:
    """A random partition of the axes into groups of neighbours."""
    groups: list[list[int]] = []
    for axis in range(rank):
        if groups and fn.chance(2):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    return groups


def tensor_collapse_shape(fn: Function, node: Node) -> Node | None:
    if not node.shape:
        return None
    groups = groups_of(fn, len(node.shape))
    shape = tuple(math.prod(node.shape[axis] for axis in group) for group in groups)
    write = generic(fn, "tensor.collapse_shape", [of(node)], f"reassociation = {groups}")
    write = either(
        fn,
        write,
        lambda name, type: (
            f"{name} = tensor.collapse_shape %{node.name} {groups} : {node.type} into {type}"
        ),
    )
    return fn.apply("tensor.collapse_shape", [node], positions(node).reshape(shape), write)


def tensor_expand_shape(fn: Function, node: Node) -> Node | None:
    shape: list[int] = []
    groups: list[list[int]] = []
    for length in node.shape:
        first = fn.draw(st.sampled_from(divisors(length)))
        group = fn.draw(st.sampled_from([[length], [first, length // first], [1, length]]))
        groups.append(list(range(len(shape), len(shape) + len(group))))
        shape += group
    if not 0 < len(shape) <= 6:
        return None
    write = generic(
        fn,
        "tensor.expand_shape",
        [of(node)],
        f"reassociation = {groups}, static_output_shape = {array('i64', shape)}",
    )
    write = either(
        fn,
        write,
        lambda name, type: (
            f"{name} = tensor.expand_shape %{node.name} {groups} output_shape {shape} : "
            f"{node.type} into {type}"
        ),
    )
    return fn.apply("tensor.expand_shape", [node], positions(node).reshape(shape), write)


def tensor_extract_slice(fn: Function, node: Node) -> Node:
    cut = Cut.drawn(fn, node.shape)
    shape = without_units(fn, cut.sizes) if fn.chance(2) else cut.sizes
    segments = "operandSegmentSizes = array<i32: 1, 0, 0, 0>"
    write = generic(fn, "tensor.extract_slice", [of(node)], f"{segments}, {cut.properties}")
    write = either(
        fn,
        write,
        lambda name, type: (
            f"{name} = tensor.extract_slice %{node.name}{cut.text} : {node.type} to {type}"
        ),
    )
    return fn.apply("tensor.extract_slice", [node], cut.of(positions(node)).reshape(shape), write)


def tensor_insert_slice(fn: Function, node: Node) -> Node | None:
    first = node.layer.spelling
    if node.is_quantized and (first is None or not first.is_per_tensor):
        return None
    cut = Cut.drawn(fn, node.shape)
    shape = without_units(fn, cut.sizes) if fn.chance(2) else cut.sizes
    source = fn.sibling(node, shape, same_type=True)
    if source is None:
        return None
    index = np.asarray(math.prod(shape) + positions(node))
    cut.of(index)[...] = positions(source).reshape(cut.sizes)
    segments = "operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>"
    operands = [of(source), of(node)]
    write = generic(fn, "tensor.insert_slice", operands, f"{segments}, {cut.properties}")
    write = either(
        fn,
        write,
        lambda name, type: (
            f"{name} = tensor.insert_slice %{source.name} into %{node.name}{cut.text} : "
            f"{source.type} into {type}"
        ),
    )
    return fn.apply("tensor.insert_slice", [source, node], index, write)


def tensor_concat(fn: Function, node: Node) -> Node | None:
    return concat(fn, node, "tensor.concat", "dim")


def tensor_pad(fn: Function, node: Node) -> Node | None:
    rank = len(node.shape)
    like = node.layer.spelling
    is_per_tensor = like is not None and like.is_per_tensor
    if rank == 0 or (node.is_quantized and fn.quantizes_as_upstream and not is_per_tensor):
        return None
    widths = Widths.drawn(fn, node.shape)
    like = like if fn.quantizes_as_upstream else None
    element = padding(fn, node, widths, "scalar", like)
    index, inside = widths.padded(node)
    arguments = ", ".join(f"%{element.name}i{axis}: index" for axis in range(rank))
    low, high = array("i64", widths.low), array("i64", widths.high)
    region = (
        f" ({{\n  ^bb0({arguments}):\n"
        f'    "tensor.yield"(%{element.name}) : ({element.type}) -> ()\n  }})'
    )
    write = generic(
        fn,
        "tensor.pad",
        [of(node)],
        f"operandSegmentSizes = array<i32: 1, 0, 0>, static_low = {low}, static_high = {high}",
        region,
    )
    return fn.apply("tensor.pad", [node], index, write, is_inside=inside, fill=element.fill)
