"""
Products of functions of codes, such as `x * sigmoid(x)`, in integers.

ONNX Runtime has kernels of integers for products, sums and sigmoids with casts around each. What a
function of a code can be is known, and so is the best cast behind it: factors get it if the result
stays within one code, whatever the codes are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qdialect.export.onnx_graph import SIXTH, Graph

_NEAR: Final = 0.999
"""How far a product may be from the exact one, in steps of its codes."""


_SAME: Final = 0.25
"""How far a number may be from that of its code, in steps, to be rounded to it."""


class _Factor(NamedTuple):
    """A function of codes."""

    codes: str
    name: str
    """The result, behind a cast."""
    exact: NDArray[np.floating]
    """What it is for each code, without that cast."""
    cast: NDArray[np.floating]
    """The same with that cast."""


def is_moving(node: Any) -> bool:
    """Whether a node moves elements, or takes the largest ones, and makes them no fewer."""
    if node is None:
        return False
    known = {attribute.name: attribute for attribute in node.attribute}
    return (
        node.op_type == "Concat"
        or (node.op_type == "MaxPool" and {*known["strides"].ints} == {1})
        or (node.op_type == "Resize" and known["mode"].s == b"nearest")
    )


def unchanged_codes(graph: Graph, name: str, slot: Sequence[str]) -> str | None:
    """The codes of what a value is a multiple of, if they are its codes in a slot, too."""
    node, result = graph.maker(name), graph.numbers(slot)
    if node is not None and (node.op_type, *node.input[1:]) == ("DequantizeLinear", *slot):
        return node.input[0]
    if node is None or result is None or node.op_type not in ("Div", "Mul"):
        return None
    pairs = [(*node.input,), (*node.input[::-1],)][: 1 + (node.op_type == "Mul")]
    for value, factor in pairs:
        cast = graph.maker(value)
        if cast is None or cast.op_type != "DequantizeLinear" or graph.dims(factor) != ():
            continue
        codes, *before = cast.input
        numbers, by = graph.numbers(before), float(graph.array(factor))
        if numbers is None or not by:
            continue
        numbers = numbers / by if node.op_type == "Div" else numbers * by
        if np.abs(numbers - result).max() < _SAME * (result[1] - result[0]):
            return codes
    return None


def with_cast_factors(graph: Graph, name: str, slot: Sequence[str]) -> str:
    """The product of casts that a cast to a slot rounds as it does a value; else that value."""
    node, result = graph.maker(name), graph.numbers(slot)
    if node is None or result is None or node.op_type not in ("HardSwish", "Mul"):
        return name
    names = [*node.input]
    if node.op_type == "HardSwish":
        names.append(graph.node("HardSigmoid", names, **SIXTH))
    factors = [factor for name in names if (factor := _factor(graph, name)) is not None]
    if len(factors) != 2 or all(factor.exact is factor.cast for factor in factors):
        return name
    one, other = factors
    # Functions of one value have the same code.
    axis = (1, -1) if one.codes == other.codes else (-1, 1)
    products = one.exact.reshape(axis) * other.exact, one.cast.reshape(axis) * other.cast
    exact, near = (product.clip(result[0], result[-1]) for product in products)
    if np.abs(near - exact).max() > _NEAR * (result[1] - result[0]):
        return name
    return graph.node("Mul", [one.name, other.name])


def _factor(graph: Graph, name: str) -> _Factor | None:
    if (node := graph.maker(name)) is None:
        return None
    is_function = node.op_type in ("HardSigmoid", "Sigmoid")
    cast = graph.maker(node.input[0]) if is_function else node
    if cast is None or cast.op_type != "DequantizeLinear":
        return None
    codes, *slot = cast.input
    if (values := graph.numbers(slot)) is None:
        return None
    if not is_function:
        return _Factor(codes, name, values, values)
    zero, one = (graph.like(slot[1], code) for code in (0, 1))
    exact = (1 + np.tanh(values / 2)) / 2
    if node.op_type == "HardSigmoid":
        alpha, beta = (
            attribute.f for attribute in sorted(node.attribute, key=lambda known: known.name)
        )
        if not (alpha > 0 and beta > 0):
            return None
        # The cast behind it limits it.
        scales = (graph.like(slot[0], number) for number in (graph.array(slot[0]) * alpha, beta))
        terms = zip((codes, one), scales, (slot[1], zero), strict=True)
        name = graph.node("Add", [graph.node("DequantizeLinear", [*term]) for term in terms])
        exact = (alpha * values + beta).clip(0, 1)
    step = max(np.float32(exact.max() / 255), np.finfo(np.float32).tiny)
    own = [graph.like(slot[0], step), zero]
    name = graph.node("DequantizeLinear", [graph.node("QuantizeLinear", [name, *own]), *own])
    return _Factor(codes, name, exact, np.rint(exact / step) * step)
