"""Chains of shape ops, and functions of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from hypothesis import strategies as st

from random_modules.function import Function, Node
from random_modules.linalg_ops import linalg_broadcast, linalg_generic, linalg_transpose
from random_modules.quant_ops import (
    quant_gather,
    quant_pad,
    quant_reshape,
    quant_reverse,
    quant_slice,
    quant_transpose,
)
from random_modules.stablehlo_ops import (
    stablehlo_broadcast_in_dim,
    stablehlo_concatenate,
    stablehlo_gather,
    stablehlo_pad,
    stablehlo_reshape,
    stablehlo_reverse,
    stablehlo_slice,
    stablehlo_transpose,
)
from random_modules.tensor_ops import (
    tensor_collapse_shape,
    tensor_concat,
    tensor_expand_shape,
    tensor_extract_slice,
    tensor_insert_slice,
    tensor_pad,
    tensor_reshape,
)
from random_modules.tosa_ops import (
    tosa_concat,
    tosa_gather,
    tosa_identity,
    tosa_pad,
    tosa_reshape,
    tosa_reverse,
    tosa_slice,
    tosa_tile,
    tosa_transpose,
)

MAX_ELEMENTS = 600


Op = Callable[[Function, Node], Node | None]

OPS: dict[str, list[Op]] = {
    "tensor": [
        tensor_reshape,
        tensor_expand_shape,
        tensor_collapse_shape,
        tensor_extract_slice,
        tensor_insert_slice,
        tensor_concat,
        tensor_pad,
    ],
    "linalg": [linalg_transpose, linalg_broadcast, linalg_generic],
    "tosa": [
        tosa_transpose,
        tosa_reshape,
        tosa_slice,
        tosa_concat,
        tosa_pad,
        tosa_reverse,
        tosa_tile,
        tosa_gather,
        tosa_identity,
    ],
    "stablehlo": [
        stablehlo_transpose,
        stablehlo_reshape,
        stablehlo_slice,
        stablehlo_concatenate,
        stablehlo_broadcast_in_dim,
        stablehlo_reverse,
        stablehlo_pad,
        stablehlo_gather,
    ],
    "quant": [
        quant_transpose,
        quant_reshape,
        quant_slice,
        quant_reverse,
        quant_gather,
        quant_pad,
    ],
}


def chain(fn: Function, node: Node, ops: Sequence[Op]) -> Node:
    """Up to four shape ops, one after another."""
    has_lied = False
    for _ in range(fn.draw(st.integers(1, 4))):
        if math.prod(node.shape) > MAX_ELEMENTS // 4 or (
            node.layer.scales is None and (node.is_quantized)
        ):
            break
        # An op may have emitted a constant before it finds that it does not apply to the value.
        lines, nodes, constants = list(fn.lines), list(fn.nodes), list(fn.constants)
        made = fn.draw(st.sampled_from(ops))(fn, node)
        # Two wrong declared types may cancel out.
        is_second_lie = made is not None and made.is_lie and has_lied
        if made is None or is_second_lie or math.prod(made.shape) > MAX_ELEMENTS:
            fn.lines, fn.nodes, fn.constants = lines, nodes, constants
            continue
        node, has_lied = made, has_lied or made.is_lie
    return node


MIXES = [
    ("tensor",),
    ("linalg",),
    ("tosa",),
    ("stablehlo",),
    ("quant",),
    ("tensor", "linalg"),
    ("tosa", "tensor"),
    ("stablehlo", "tensor", "linalg"),
    ("tensor", "linalg", "tosa", "stablehlo"),
]


@st.composite
def functions(
    draw: st.DrawFn,
    number: int = 0,
    mixes: Sequence[tuple[str, ...]] = MIXES,
    *,
    quantizes_as_upstream: bool = False,
) -> Function:
    """
    A function that returns the results of one or two chains of a constant, and maybe the
    constant.
    """
    data = draw(st.data())
    dialects = draw(st.sampled_from(mixes))
    domains = (
        ["quantized"] if dialects == ("quant",) else ["plain", "float", "storage", "quantized"]
    )
    fn = Function(number, data, dialects, draw(st.sampled_from(domains)), quantizes_as_upstream)
    ops = [op for dialect in dialects for op in OPS[dialect]]
    if fn.domain == "quantized" and dialects != ("quant",):
        ops += OPS["quant"] if not quantizes_as_upstream and fn.chance(4) else []
    lengths = st.sampled_from([1, 2, 2, 3, 4, 6])
    if "tosa" in dialects and draw(st.booleans()):
        # tosa.gather requires this rank.
        shape = draw(st.tuples(lengths, lengths, lengths))
        ops += [tosa_gather] * 2
    else:
        shape = draw(st.lists(lengths, max_size=5).map(tuple))
    while math.prod(shape) > 150:
        shape = shape[1:]
    node = fn.start(shape)
    fn.is_in_branch = fn.chance(6)
    if fn.chance(3):
        fn.results.append(node)
    elif fn.chance(3):
        fn.results.append(chain(fn, node, ops))
    if fn.is_in_branch:
        fn.emit("// The rest is in a branch.")
    fn.results.append(chain(fn, node, ops))
    return fn
