"""What is moved below casts computes the same values, with no more casts."""

from __future__ import annotations

import math
import shutil
import subprocess
from collections.abc import Sequence
from io import StringIO
from typing import Any

import numpy as np
import pytest
import random_modules
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from random_modules import OPS, Function, Layer, Node, Op, Storage, tensor
from random_tensors import own_movements, parameters, shapes, unary_movements
from test_lower_quant_shapes import OPS as OWN_OPS
from test_lower_quant_shapes import quantized_tensor
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp

from qdialect.dialects.quant import CastOp, QuantizeCastOp, ShapeOp
from qdialect.fold_report import FoldReport, Outcome
from qdialect.interpreters import TypedArray, random_arguments, run_function
from qdialect.movement import (
    BroadcastInDim,
    Pad,
    Reshape,
    Reverse,
    Slice,
    Take,
    Transpose,
    pulled_back,
)
from qdialect.passes.lower_quant_shapes import LowerQuantShapesPass
from qdialect.passes.sink_quant_shapes import SinkQuantShapesPass
from qdialect.shape_op_interface import Code, model_of, name_of
from qdialect.text.parser import LocatingParser
from qdialect.text.printer import MLIRPrinter
from qdialect.tools.registry import ToolContext

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

MIXES = [("tensor",), ("tensor", "linalg"), ("tosa",), ("stablehlo",), ("quant",)]
MIXES += [("tensor", "linalg", "quant"), ("tosa", "tensor", "quant"), ("stablehlo", "quant")]

JOINS = (
    random_modules.tensor_concat,
    random_modules.tensor_insert_slice,
    random_modules.tosa_concat,
    random_modules.stablehlo_concatenate,
)
"""They join with constants; `Graph.join` with what is cast."""

STORAGES = [
    Storage.of(8, signed=True),
    Storage.of(8, signed=True, narrow=True),
    Storage.of(8, signed=False),
    Storage.of(4, signed=True),
]


def parse(text: str) -> tuple[ModuleOp, ToolContext]:
    context = ToolContext(allow_unregistered=True)
    return LocatingParser(context, text, "text").parse_module(), context


def printed(module: ModuleOp) -> str:
    stream = StringIO()
    MLIRPrinter(stream=stream).print_op(module)
    return stream.getvalue()


def verify(module: ModuleOp) -> None:
    for op in module.walk():
        op.verify_()


def sink(module: ModuleOp, context: ToolContext) -> FoldReport:
    """Sink, and verify what comes out."""
    SinkQuantShapesPass().apply(context, module)
    verify(module)
    return context.fold_reports.pop()


def sunk(text: str) -> tuple[ModuleOp, FoldReport]:
    """The module of a text after the pass."""
    module, context = parse(text)
    verify(module)
    return module, sink(module, context)


def casts(module: ModuleOp) -> int:
    return sum(isinstance(op, CastOp) for op in module.walk())


def names(module: ModuleOp) -> list[str]:
    """The names of the ops of the only function, but for the return."""
    (function,) = module.ops
    assert isinstance(function, FuncOp)
    return [name_of(op) for op in function.body.block.ops][:-1]


def values(module: ModuleOp, context: ToolContext, seed: int) -> tuple[TypedArray, ...]:
    function = next(op for op in module.ops if isinstance(op, FuncOp))
    arguments = random_arguments(function.function_type, seed)
    return run_function(module, "f", arguments, context)


def assert_same(before: Sequence[TypedArray], after: Sequence[TypedArray]) -> None:
    assert [value.type for value in before] == [value.type for value in after]
    for one, other in zip(before, after, strict=True):
        assert np.array_equal(one.elements, other.elements)


# Random graphs


class Graph(Function):
    """A function of arguments, with casts between shape ops of all dialects."""

    def argument(self, shape: tuple[int, ...], layer: Layer) -> Node:
        """One more argument."""
        bits = np.zeros(shape, dtype=np.uint64)
        numbers = np.zeros(shape, dtype=np.int64)
        node = Node(
            self.fresh("x"), "argument", shape, bits, (layer,), (), numbers, numbers, is_source=True
        )
        self.arguments.append(node)
        self.nodes.append(node)
        return node

    @property
    def arguments(self) -> list[Node]:
        """What the function takes."""
        return self.__dict__.setdefault("taken", [])

    @property
    def text(self) -> str:
        taken = ", ".join(f"%{node.name}: {node.type}" for node in self.arguments)
        types = ", ".join(node.type for node in self.results)
        body = "\n  ".join(self.lines)
        returned = ", ".join(f"%{node.name}" for node in self.results)
        return (
            f"func.func @{self.name}({taken}) -> ({types}) {{\n  {body}\n"
            f"  return {returned} : {types}\n}}\n"
        )

    def quantized(self, shape: tuple[int, ...], storage: Storage) -> Layer:
        """A quantized type."""
        finest = "per-axis" if "stablehlo" in self.dialects else "sub-channel"
        spelling = self.random_spelling(storage, shape, finest)
        read = spelling.on(shape)
        assert read is not None
        return Layer(spelling.text, storage, *read, spelling)

    def any_cast(self, node: Node, storage: Storage) -> Node:
        """A cast of a value, to what it can be cast to."""
        layer = node.layer
        plain = Node(
            node.name, node.op, node.shape, node.bits, (layer,), (), node.origins, node.places
        )
        if node.is_quantized:
            assert layer.storage is not None
            to_float = self.chance(3)
            cast = "quant.scast" if to_float else "quant.dcast"
            made = Layer(layer.storage.signless if to_float else "f32")
        else:
            cast = "quant.qcast" if layer.element == "f32" else "quant.scast"
            made = self.quantized(node.shape, storage)
        result = self.cast(cast, plain, made)
        result.layers, result.casts = (made,), ()
        return result

    def shape_op(self, node: Node, ops: Sequence[Op]) -> Node:
        """A shape op that takes the value, if one is found."""
        if node.is_quantized and node.layer.scales is None:
            return node
        kinds = {"f32": "float"} if not node.is_quantized else {}
        self.domain = kinds.get(node.layer.element, "quantized" if node.is_quantized else "plain")
        kept = list(self.lines), list(self.nodes), list(self.constants)
        made = self.draw(st.sampled_from(ops))(self, node)
        if made is None or made.is_lie or math.prod(made.shape) > random_modules.MAX_ELEMENTS:
            self.lines, self.nodes, self.constants = kept
            return node
        return made

    def join(self, one: Node, other: Node) -> Node:
        """Two values of the same element type and rank, one after another."""
        layers = [node.layer for node in (one, other)]
        shape = (one.shape[0] + other.shape[0], *one.shape[1:])
        name, layer = self.fresh("j"), layers[0]
        op, element = "tensor.concat dim(0)", layer.element
        if layer.storage is not None:
            scales, zero_points = (
                np.concatenate([getattr(each, of) for each in layers])
                for of in ("scales", "zero_points")
            )
            blocks = random_modules.coarsest_blocks(scales.astype(np.float32), zero_points)
            spelling = random_modules.spelled(layer.storage, scales, zero_points, blocks)
            layer = Layer(spelling.text, layer.storage, scales, zero_points, spelling)
            op, element = "quant.concat dim(0)", layer.element
        node = Node(
            name,
            op,
            shape,
            np.zeros(shape, dtype=np.uint64),
            (layer,),
            (),
            np.zeros(shape, dtype=np.int64),
            np.zeros(shape, dtype=np.int64),
        )
        self.nodes.append(node)
        self.emit(
            f"%{name} = {op} %{one.name}, %{other.name} : ({one.type}, {other.type}) -> "
            f"{tensor(shape, element)}"
        )
        return node


@st.composite
def graphs(draw: st.DrawFn, number: int = 0, mixes: Sequence[tuple[str, ...]] = MIXES) -> Graph:
    """Casts and shape ops, most of them one after another, some with other users."""
    data = draw(st.data())
    dialects = draw(st.sampled_from(mixes))
    graph = Graph(number, data, dialects, "plain")
    storage = draw(st.sampled_from(STORAGES))
    own = OPS["quant"]
    foreign = [
        op for dialect in dialects for op in OPS[dialect] if dialect != "quant" and op not in JOINS
    ]
    lengths = st.sampled_from([1, 2, 2, 3, 4, 6])
    shape = draw(st.lists(lengths, min_size=1, max_size=4).map(tuple))
    shape = (draw(st.sampled_from([4, 64])), *shape) if math.prod(shape) < 8 else shape
    starts = [Layer("f32"), Layer(storage.signless), graph.quantized(shape, storage)]
    node = graph.argument(shape, draw(st.sampled_from(starts)))
    for _ in range(draw(st.integers(2, 8))):
        kind = draw(st.sampled_from(["cast", "cast", "move", "move", "move", "join", "fork"]))
        if kind == "cast":
            node = graph.any_cast(node, storage)
        elif kind == "fork":
            graph.results.append(node)
        elif kind == "join" and node.shape and node.layer.element in ("f32", storage.signless):
            layer = graph.quantized(node.shape, storage)
            others = [graph.any_cast(graph.argument(node.shape, layer), storage) for _ in "ab"]
            if others[0].layer.element == others[1].layer.element == node.layer.element:
                node = graph.join(*others) if draw(st.booleans()) else graph.join(node, others[0])
        else:
            ops = own if node.is_quantized and draw(st.booleans()) else foreign
            node = graph.shape_op(node, ops or own) if ops or node.is_quantized else node
    graph.results.append(graph.any_cast(node, storage))
    return graph


@settings(suppress_health_check=SLOW)
@given(graphs(), st.integers(0, 2**16))
def test_graphs_compute_the_same(graph: Graph, seed: int):
    """Bit for bit, of every storage integer and the edges of floats; and once is enough."""
    module, context = parse(graph.text.replace("@f0", "@f"))
    verify(module)
    before, count = values(module, context, seed), casts(module)
    sink(module, context)
    assert_same(before, values(module, context, seed))
    assert casts(module) <= count
    once = printed(module)
    sink(module, context)
    assert printed(module) == once
