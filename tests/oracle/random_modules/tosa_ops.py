"""Shape ops of tosa."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from qdialect.testing.movements import reshaped
from random_modules.building import Cut, concat, generic, of, permutation_of, positions
from random_modules.function import Function, Node, Write
from random_modules.padding import Widths, padding
from random_modules.spelling import Ints, array


def tosa_text(fn: Function, op: str, operands: Sequence[tuple[str, str]], properties: str) -> Write:
    if fn.chance(2) or op in ("tosa.concat",):
        return generic(fn, op, operands, properties)
    names = ", ".join(f"%{name}" for name, _ in operands)
    types = ", ".join(type for _, type in operands)
    held = f" {{{properties}}}" if properties else ""
    return lambda name, type: f"{name} = {op} {names}{held} : ({types}) -> {type}"


def tosa(
    fn: Function,
    op: str,
    node: Node,
    others: Sequence[tuple[str, str]],
    index: Ints,
    text: str = "",
) -> Node:
    return fn.apply(op, [node], index, tosa_text(fn, op, [of(node), *others], text))


def tosa_transpose(fn: Function, node: Node) -> Node | None:
    if not node.shape:
        return None
    axes = permutation_of(fn, len(node.shape))
    index = positions(node).transpose(axes)
    return tosa(fn, "tosa.transpose", node, [], index, f"perms = {array('i32', axes)}")


def tosa_reshape(fn: Function, node: Node) -> Node:
    shape = fn.draw(reshaped(node.shape))
    return tosa(fn, "tosa.reshape", node, [fn.tosa_shape(shape)], positions(node).reshape(shape))


def tosa_slice(fn: Function, node: Node) -> Node | None:
    if not node.shape:
        return None
    cut = Cut.drawn(fn, node.shape, strides=False)
    others = [fn.tosa_shape(cut.offsets), fn.tosa_shape(cut.sizes)]
    return tosa(fn, "tosa.slice", node, others, cut.of(positions(node)))


def tosa_reverse(fn: Function, node: Node) -> Node | None:
    if not node.shape:
        return None
    axis = fn.draw(st.integers(0, len(node.shape) - 1))
    return tosa(
        fn, "tosa.reverse", node, [], np.flip(positions(node), axis), f"axis = {axis} : i32"
    )


def tosa_tile(fn: Function, node: Node) -> Node | None:
    if not node.shape:
        return None
    counts = [fn.draw(st.sampled_from([1, 1, 2, 3])) for _ in node.shape]
    return tosa(fn, "tosa.tile", node, [fn.tosa_shape(counts)], np.tile(positions(node), counts))


def tosa_gather(fn: Function, node: Node) -> Node | None:
    if len(node.shape) != 3:
        return None
    batches, length, _ = node.shape
    wanted = fn.draw(st.integers(1, 4))
    indices = fn.random().integers(0, length, (batches, wanted))
    if fn.chance(3):
        indices[:] = indices[0]
    held = fn.integers(indices, "i32", "tosa")
    index = np.take_along_axis(positions(node), indices[:, :, np.newaxis], 1)
    return tosa(fn, "tosa.gather", node, [held], index)


def tosa_identity(fn: Function, node: Node) -> Node:
    return tosa(fn, "tosa.identity", node, [], positions(node))


def tosa_concat(fn: Function, node: Node) -> Node | None:
    return concat(fn, node, "tosa.concat", "axis")


def tosa_pad(fn: Function, node: Node) -> Node | None:
    if not node.shape:
        return None
    like = node.layer.spelling
    if like is not None and not like.is_per_tensor:
        return None
    widths = Widths.drawn(fn, node.shape)
    by = fn.tosa_shape([n for pair in zip(widths.low, widths.high, strict=True) for n in pair])
    element = padding(fn, node, widths, "tosa", like)
    index, inside = widths.padded(node)
    operands = [of(node), by, (element.name, element.type)]
    write = tosa_text(fn, "tosa.pad", operands, "")
    return fn.apply("tosa.pad", [node], index, write, is_inside=inside, fill=element.fill)
