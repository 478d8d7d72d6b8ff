"""Shape ops of StableHLO."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from qdialect.testing.movements import reshaped
from random_modules.building import Cut, concat, generic, of, permutation_of, positions
from random_modules.function import Function, Node
from random_modules.padding import Widths, padding
from random_modules.spelling import Ints, Shape, array


def stablehlo(fn: Function, op: str, node: Node, index: Ints, properties: str = "") -> Node:
    return fn.apply(op, [node], index, generic(fn, op, [of(node)], properties))


def stablehlo_transpose(fn: Function, node: Node) -> Node:
    axes = permutation_of(fn, len(node.shape))
    index = positions(node).transpose(axes)
    return stablehlo(fn, "stablehlo.transpose", node, index, f"permutation = {array('i64', axes)}")


def stablehlo_reshape(fn: Function, node: Node) -> Node:
    shape = fn.draw(reshaped(node.shape))
    return stablehlo(fn, "stablehlo.reshape", node, positions(node).reshape(shape))


def stablehlo_slice(fn: Function, node: Node) -> Node:
    cut = Cut.drawn(fn, node.shape)
    limits: list[int] = []
    for length, offset, size, stride in zip(
        node.shape, cut.offsets, cut.sizes, cut.strides, strict=True
    ):
        last = offset + (size - 1) * stride + 1
        limits.append(fn.draw(st.integers(last, min(length, last + stride - 1))))
    properties = (
        f"start_indices = {array('i64', cut.offsets)}, limit_indices = {array('i64', limits)}, "
        f"strides = {array('i64', cut.strides)}"
    )
    return stablehlo(fn, "stablehlo.slice", node, cut.of(positions(node)), properties)


def stablehlo_reverse(fn: Function, node: Node) -> Node:
    rank = len(node.shape)
    axes = permutation_of(fn, rank)[: fn.draw(st.integers(0, rank))]
    index = np.flip(positions(node), axes)
    return stablehlo(fn, "stablehlo.reverse", node, index, f"dimensions = {array('i64', axes)}")


def stablehlo_broadcast_in_dim(fn: Function, node: Node) -> Node:
    rank = len(node.shape) + fn.draw(st.integers(0, 2))
    dims = permutation_of(fn, rank)[: len(node.shape)]
    order = sorted(range(len(dims)), key=dims.__getitem__)
    index = positions(node).transpose(order)
    for axis in range(rank):
        if axis not in dims:
            index = np.expand_dims(index, axis)
        if index.shape[axis] == 1:
            index = np.repeat(index, fn.draw(st.integers(1, 3)), axis)
    return stablehlo(
        fn,
        "stablehlo.broadcast_in_dim",
        node,
        index,
        f"broadcast_dimensions = {array('i64', dims)}",
    )


def stablehlo_gather(fn: Function, node: Node) -> Node | None:
    """A gather of positions of one axis, some of them out of bounds."""
    rank = len(node.shape)
    if rank == 0:
        return None
    axis: int = fn.draw(st.integers(0, rank - 1))
    length = node.shape[axis]
    batch: Shape = tuple(fn.draw(st.lists(st.integers(1, 3), max_size=2)))
    random = fn.random()
    indices = random.integers(-1, length + 1, batch)
    is_implicit = fn.chance(2)
    vector_axis = len(batch) if is_implicit else fn.draw(st.integers(0, len(batch)))
    written = indices if is_implicit else np.expand_dims(indices, vector_axis)
    is_collapsed = fn.chance(2)
    taken = np.take(positions(node), np.clip(indices, 0, length - 1), axis)
    # The axes of the indices come first, then the axes of the gathered slices.
    taken = np.moveaxis(taken, range(axis, axis + len(batch)), range(len(batch)))
    kept = [a for a in range(rank) if a != axis]
    if not is_collapsed:
        taken = np.expand_dims(taken, len(batch) + axis)
        kept = list(range(rank))
    offsets = sorted(fn.draw(st.permutations(range(taken.ndim)))[: len(kept)])
    taken = np.moveaxis(taken, range(len(batch), taken.ndim), offsets)
    held = fn.integers(written, fn.draw(st.sampled_from(["i32", "i64"])), "stablehlo")
    sizes = [1 if a == axis else n for a, n in enumerate(node.shape)]
    fields = [
        f"offset_dims = {offsets}" if offsets else "",
        f"collapsed_slice_dims = [{axis}]" if is_collapsed else "",
        f"start_index_map = [{axis}]",
        f"index_vector_dim = {vector_axis}" if vector_axis or fn.chance(2) else "",
    ]
    numbers = ", ".join(filter(None, fields))
    properties = (
        f"dimension_numbers = #stablehlo.gather<{numbers}>, slice_sizes = {array('i64', sizes)}"
    )
    if fn.chance(2):
        properties += f", indices_are_sorted = {str(fn.chance(2)).lower()}"
    write = generic(fn, "stablehlo.gather", [of(node), held], properties)
    return fn.apply("stablehlo.gather", [node], taken, write)


def stablehlo_concatenate(fn: Function, node: Node) -> Node | None:
    return concat(fn, node, "stablehlo.concatenate", "dimension")


def stablehlo_pad(fn: Function, node: Node) -> Node:
    widths = Widths.drawn(fn, node.shape, least=-2, most_between=2)
    like = node.layer.spelling
    like = like if like is not None and like.is_per_tensor and fn.quantizes_as_upstream else None
    element = padding(fn, node, widths, "stablehlo", like)
    index, inside = widths.padded(node)
    properties = (
        f"edge_padding_low = {array('i64', widths.low)}, "
        f"edge_padding_high = {array('i64', widths.high)}, "
        f"interior_padding = {array('i64', widths.interior)}"
    )
    write = generic(fn, "stablehlo.pad", [of(node), (element.name, element.type)], properties)
    return fn.apply("stablehlo.pad", [node], index, write, is_inside=inside, fill=element.fill)
