"""Random functions of tosa ops, with recorded ranges, to be quantized."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from dequantizing_arithmetic import dense
from hypothesis import strategies as st

Range = tuple[float, float]


@dataclass
class Graph:
    """The text of a function of tosa ops under construction, and the range of each value."""

    lines: list[str] = field(default_factory=list[str])
    ranges: dict[str, Range] = field(default_factory=dict[str, Range])
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    types: dict[str, str] = field(default_factory=dict[str, str])
    """The type of a value that is not a tensor of f32."""

    def add(
        self,
        op: str,
        operands: list[str],
        shape: tuple[int, ...],
        range: Range | None,
        extra: str = "",
    ) -> str:
        """Append an op, with `quant.stats` behind it if it has a range."""
        name = f"%v{len(self.lines)}"
        types = ", ".join(
            self.types.get(each, tensor(self.shapes.get(each, ()))) for each in operands
        )
        self.lines.append(
            f'{name} = "{op}"({", ".join(operands)}) {extra} : ({types}) -> {tensor(shape)}'
        )
        self.shapes[name] = shape
        return name if range is None else self.recorded(name, range)

    def add_integer(self) -> str:
        """Append the shift that a product of tosa has."""
        name = f"%v{len(self.lines)}"
        self.types[name] = "tensor<1xi8>"
        self.lines.append(
            f'{name} = "tosa.const"() {{values = dense<0> : tensor<1xi8>}} : () -> tensor<1xi8>'
        )
        return name

    def recorded(self, name: str, range: Range) -> str:
        """Append the range of a value; returns the name of the value behind it."""
        behind = f"%v{len(self.lines)}"
        low, high = (f"{end:.9e}" for end in range)
        self.lines.append(
            f"{behind} = quant.stats {name} {{layerStats = dense<[{low}, {high}]> : tensor<2xf32>}}"
            f" : {tensor(self.shapes[name])}"
        )
        self.shapes[behind], self.ranges[name] = self.shapes[name], range
        return behind

    def text(self, arguments: list[str], result: str) -> str:
        declared = ", ".join(f"{name}: {tensor(self.shapes[name])}" for name in arguments)
        type = tensor(self.shapes[result])
        body = "\n  ".join([*self.lines, f"return {result} : {type}"])
        return f"func.func @f({declared}) -> {type} {{\n  {body}\n}}\n"


def tensor(shape: tuple[int, ...]) -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}f32>"


def ranges() -> st.SearchStrategy[Range]:
    ends = st.integers(-512, 512).map(lambda n: n / 64)
    return st.tuples(ends, ends).map(lambda pair: (min(pair), max(pair)))


UNARY = {
    "tosa.abs": None,
    "tosa.ceil": "whole",
    "tosa.exp": None,
    "tosa.floor": "whole",
    "tosa.sigmoid": "logistic",
    "tosa.tanh": "tanh",
}


@st.composite
def graphs(draw: st.DrawFn) -> tuple[str, dict[str, Range]]:
    """
    A function of random ops, and the range of each value that is not the result of a shape op.
    """
    graph = Graph()
    arguments = [f"%x{n}" for n in range(draw(st.integers(1, 2)))]
    values: list[str] = []
    for name in arguments:
        graph.shapes[name] = (2, 3)
    values = [graph.recorded(name, draw(ranges())) for name in arguments]
    for _ in range(draw(st.integers(1, 7))):
        value = draw(st.sampled_from(values))
        shape = graph.shapes[value]
        match draw(st.sampled_from(["unary", "binary", "constant", "reverse", "turn", "concat"])):
            case "unary":
                op = draw(st.sampled_from(sorted(UNARY)))
                values.append(graph.add(op, [value], shape, draw(ranges())))
            case "binary":
                others = [each for each in values if graph.shapes[each] == shape]
                op = draw(st.sampled_from(["tosa.add", "tosa.sub", "tosa.maximum"]))
                other = draw(st.sampled_from(others))
                values.append(graph.add(op, [value, other], shape, draw(ranges())))
            case "constant":
                held = np.full(shape, 0.5, np.float32)
                first = -draw(st.integers(0, 9))
                # With one 0 beside far numbers, it would be a mask; a row of them is none.
                held.flat[: 1 if first else shape[-1]] = first
                name = graph.add("tosa.const", [], shape, None, f"{{values = {dense(held)}}}")
                values.append(graph.add("tosa.add", [value, name], shape, draw(ranges())))
            case "reverse":
                extra = f"{{axis = {draw(st.integers(0, len(shape) - 1))} : i32}}"
                values.append(graph.add("tosa.reverse", [value], shape, None, extra))
            case "turn":
                extra = "{perms = array<i32: 1, 0>}"
                values.append(graph.add("tosa.transpose", [value], shape[::-1], None, extra))
            case _:
                others = [each for each in values if graph.shapes[each] == shape]
                other = draw(st.sampled_from(others))
                joined = (2 * shape[0], shape[1])
                extra = "{axis = 0 : i32}"
                name = graph.add("tosa.concat", [value, other], joined, draw(ranges()), extra)
                values.append(name)
    return graph.text(arguments, values[-1]), graph.ranges


@st.composite
def models(draw: st.DrawFn) -> str:
    """A function with layers, a softmax and ops that are not known, some without a range."""
    graph, ops = Graph(), ["unary", "add", "constant", "turn", "concat", "layer", "softmax"]
    graph.shapes["%x"] = (1, 4, 4)
    values = [graph.recorded("%x", draw(ranges()))]
    for _ in range(draw(st.integers(1, 7))):
        value = draw(st.sampled_from(values))
        shape = graph.shapes[value]
        # What has no record stays in floats.
        recorded = draw(ranges()) if draw(st.integers(0, 5)) else None
        match draw(st.sampled_from([*ops, "other"])):
            case "unary":
                op = draw(st.sampled_from(sorted(UNARY)))
                values.append(graph.add(op, [value], shape, recorded))
            case "add":
                others = [each for each in values if graph.shapes[each] == shape]
                other = draw(st.sampled_from(others))
                values.append(graph.add("tosa.add", [value, other], shape, recorded))
            case "constant":
                held = np.random.default_rng(draw(st.integers(0, 99))).normal(size=shape)
                extra = f"{{values = {dense(held.astype('f4'))}}}"
                name = graph.add("tosa.const", [], shape, None, extra)
                values.append(graph.add("tosa.sub", [value, name], shape, recorded))
            case "turn":
                extra = "{perms = array<i32: 0, 2, 1>}"
                turned = (shape[0], shape[2], shape[1])
                values.append(graph.add("tosa.transpose", [value], turned, None, extra))
            case "concat":
                others = [each for each in values if graph.shapes[each] == shape]
                other = draw(st.sampled_from(others))
                extra, joined = "{axis = 1 : i32}", (shape[0], 2 * shape[1], shape[2])
                values.append(graph.add("tosa.concat", [value, other], joined, recorded, extra))
            case "layer":
                values.append(_layer(draw, graph, value, recorded))
            case "softmax":
                values.append(_softmax(graph, value, recorded))
            case _:
                values.append(graph.add("other.op", [value], shape, recorded))
    return graph.text(["%x"], values[-1])


def _layer(draw: st.DrawFn, graph: Graph, value: str, recorded: Range | None) -> str:
    """A matrix product, with a bias that is added to it."""
    shape = graph.shapes[value]
    made = (*shape[:2], 3)
    random = np.random.default_rng(draw(st.integers(0, 99)))
    weight, bias = (
        graph.add("tosa.const", [], of, None, f"{{values = {dense(held.astype('f4'))}}}")
        for of, held in (
            ((1, shape[2], 3), random.normal(size=(1, shape[2], 3))),
            ((1, 1, 3), random.normal(size=(1, 1, 3))),
        )
    )
    zeros = graph.add("tosa.const", [], (1,), None, f"{{values = {dense(np.zeros(1, 'f4'))}}}")
    product = graph.add("tosa.matmul", [value, weight, zeros, zeros], made, None)
    return graph.add("tosa.add", [product, bias], made, recorded)


def _softmax(graph: Graph, value: str, recorded: Range | None) -> str:
    shape = graph.shapes[value]
    reduced, axis = (*shape[:2], 1), "{axis = 2 : i32}"
    largest = graph.add("tosa.reduce_max", [value], reduced, None, axis)
    moved = graph.add("tosa.sub", [value, largest], shape, None)
    exponential = graph.add("tosa.exp", [moved], shape, None)
    total = graph.add("tosa.reduce_sum", [exponential], reduced, None, axis)
    inverse = graph.add("tosa.reciprocal", [total], reduced, None)
    shift = graph.add_integer()
    return graph.add("tosa.mul", [exponential, inverse, shift], shape, recorded)
