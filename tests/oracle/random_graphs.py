"""Random functions of arguments with casts and shape ops of all dialects, as text."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import random_modules
from hypothesis import strategies as st
from random_modules import OPS, Function, Layer, Node, Op, Storage, tensor

FOR_MLIR = [("tensor",), ("tensor", "linalg"), ("quant",), ("tensor", "linalg", "quant")]
MIXES = [*FOR_MLIR, ("tosa",), ("stablehlo",), ("tosa", "tensor", "quant"), ("stablehlo", "quant")]

JOINS = (
    random_modules.tensor_concat,
    random_modules.tensor_insert_slice,
    random_modules.tosa_concat,
    random_modules.stablehlo_concatenate,
)
"""Ops that join a value with constants; `Graph.join` joins two casts."""

PADS = (random_modules.tensor_pad, random_modules.tosa_pad, random_modules.stablehlo_pad)
"""Ops that pad: on quantized elements, they cannot be run if no integer represents the padding."""

STORAGES = [
    Storage.of(8, signed=True),
    Storage.of(8, signed=True, narrow=True),
    Storage.of(8, signed=False),
    Storage.of(4, signed=True),
]


class Graph(Function):
    """A function of arguments, with casts between shape ops of all dialects."""

    def argument(self, shape: tuple[int, ...], layer: Layer) -> Node:
        """Add an argument."""
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
        """The arguments of the function."""
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
        """A random valid cast of a value."""
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
        if self.chance(3):
            # An equal cast of the same value, with its own chain of users.
            twin = self.cast(cast, plain, made)
            twin.layers, twin.casts = (made,), ()
            self.results.append(self.any_cast(twin, storage) if self.chance(2) else twin)
        result = self.cast(cast, plain, made)
        result.layers, result.casts = (made,), ()
        return result

    def shape_op(self, node: Node, ops: Sequence[Op]) -> Node:
        """A random shape op of a value; the value itself if the drawn op does not apply."""
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

    def pad(self, node: Node) -> Node:
        """A pad of floats with zero."""
        widths = [[self.draw(st.integers(0, 2)) for _ in node.shape] for _ in "lh"]
        pairs = list(zip(*widths, strict=True))
        bits = np.pad(node.bits, pairs)
        name, zero = self.fresh("p"), self.fresh("z")
        numbers = np.zeros(bits.shape, dtype=np.int64)
        made = Node(name, "tensor.pad", bits.shape, bits, node.layers, (), numbers, numbers)
        indices = ", ".join(f"%{name}i{axis}: index" for axis in range(bits.ndim))
        self.emit(f"%{zero} = arith.constant {self.draw(st.sampled_from(['0.0', '-0.0']))} : f32")
        self.emit(
            f"%{name} = tensor.pad %{node.name} low{widths[0]} high{widths[1]} {{\n"
            f"  ^bb0({indices}):\n    tensor.yield %{zero} : f32\n"
            f"  }} : {node.type} to {made.type}"
        )
        self.nodes.append(made)
        return made

    def join(self, one: Node, other: Node) -> Node:
        """A concatenation of two values with the same element type and rank."""
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
    """Casts and shape ops, mostly in chains, some with several users."""
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
            if node.is_quantized:
                ops = [op for op in ops if op not in PADS]
            if node.layer.element == "f32" and node.shape and graph.chance(4):
                node = graph.pad(node)
            node = graph.shape_op(node, ops or own) if ops or node.is_quantized else node
    graph.results.append(graph.any_cast(node, storage))
    return graph
