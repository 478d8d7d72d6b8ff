"""
Loops that are one recurrent node of ONNX, for which engines have kernels: LSTM, GRU or RNN.

https://onnx.ai/onnx/operators/onnx__LSTM.html. The weights are what activations in the body read of
unit vectors. What a step computes of random numbers decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import chain, permutations
from math import prod
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from qdialect.algebra.movement import Shape
from qdialect.export.onnx_graph import OPSET, Graph
from qdialect.support.extras import library

Numbers: TypeAlias = NDArray[np.float64]

_NEAR: Final = 1e-5
"""How far results may be from those of the loop, as a part of the largest one."""

_MOST: Final = 1 << 13
"""The most unit vectors, for each of which the body is run."""

_MOST_ACTIVATIONS: Final = 5
"""An LSTM has that many."""

_KINDS: Final = "Sigmoid", "Tanh", "Relu"
"""The activations of recurrent nodes."""


class _Gate(NamedTuple):
    """What one activation reads: products with what a step reads, and with the state before."""

    kind: str
    inputs: Numbers
    state: Numbers
    bias: Numbers
    alone: Numbers
    """The bias, if the results of other activations are 0."""

    def sum(self, x: Numbers, state: Numbers) -> Numbers:
        return x @ self.inputs.T + state @ self.state.T + self.bias


class _Recurrence(NamedTuple):
    """A recurrent node that reads a sequence from its start."""

    type: str
    gates: Sequence[_Gate]
    """In the order of its weights."""

    states: Sequence[int]
    """The numbers of the carried values that are its state, and the cells of an LSTM."""

    attributes: Mapping[str, Any] = MappingProxyType({})

    def after(self, x: Numbers, state: Numbers, *cells: Numbers) -> Sequence[Numbers]:
        """The state, and cells, after a step that reads `x`."""
        *sigmoids, last = self.gates
        parts = [1 / (1 + np.exp(-gate.sum(x, state))) for gate in sigmoids]
        if self.type == "RNN":
            own = last.sum(x, state)
            return [np.tanh(own) if last.kind == "Tanh" else np.maximum(own, 0)]
        if self.type == "GRU":
            kept, reset = parts
            if self.attributes:
                of_state = state @ last.state.T + last.bias - last.alone
                own = x @ last.inputs.T + last.alone + reset * of_state
            else:
                own = last.sum(x, reset * state)
            return [(1 - kept) * np.tanh(own) + kept * state]
        read, shown, kept = parts
        cell = kept * cells[0] + read * np.tanh(last.sum(x, state))
        return [shown * np.tanh(cell), cell]

    def weights(self) -> Sequence[Numbers]:
        """The weights of the sequence, those of the state, and the biases of both."""
        inputs = np.concatenate([gate.inputs for gate in self.gates])
        state = np.concatenate([gate.state for gate in self.gates])
        biases = [gate.bias for gate in self.gates]
        of_state = [0 * bias for bias in biases]
        if self.type == "GRU" and self.attributes:
            alone = self.gates[-1].alone
            biases[-1], of_state[-1] = alone, biases[-1] - alone
        return [inputs[None], state[None], np.concatenate([*biases, *of_state])[None]]


def write_recurrence(
    graph: Graph, body: Any, sequence: tuple[str, Shape], runs: int, initial: Sequence[str]
) -> Sequence[str] | None:
    """
    What a loop yields that a recurrent node computes; None for another loop.

    `body` is the `GraphProto` of the loop, which reads constants of the graph and a sequence, whose
    name and shape are given. `initial` has the names of what the first run takes.
    """
    name, shape = sequence
    for axis in (axis for axis in range(min(2, len(shape))) if shape[axis] == runs):
        loop = _Loop(graph, body, name, shape, axis)
        node = loop.recurrence()
        if node is None:
            continue
        if axis:
            name = graph.node("Transpose", [name], perm=[1, 0, *range(2, len(shape))])
        size = len(node.gates[0].bias)
        steps = [runs, prod(loop.shapes[node.states[0]]) // size, -1]
        read = graph.node("Reshape", [name, graph.integers(steps)])
        states = [
            graph.node("Reshape", [initial[at], graph.integers([1, steps[1], size])])
            for at in node.states
        ]
        weights = [graph.constant(one.astype(np.float32), "FLOAT") for one in node.weights()]
        inputs = [read, *weights, "", *states]
        attributes = {"hidden_size": size, **node.attributes}
        whole, *last = graph.several(node.type, inputs, 1 + len(states), **attributes)
        results = dict(zip(node.states, last, strict=True))
        return [
            graph.node("Reshape", [results.get(at, whole), graph.integers(own)])
            for at, own in enumerate(loop.shapes)
        ]
    return None


class _Loop:
    """The body of a loop, whose steps read a sequence along an axis."""

    def __init__(self, graph: Graph, body: Any, sequence: str, shape: Shape, axis: int) -> None:
        self._onnx: Any = library("onnx", "onnx")
        self._reference: Any = import_module(".reference", self._onnx.__name__)
        self._graph = graph
        self._nodes, self._sequence, self._axis = [*body.node], sequence, axis
        ends = body.input, body.output
        self._inputs, self._outputs = ([one.name for one in values] for values in ends)
        types = [one.type.tensor_type for one in body.input[2:]]
        self._is_float = all(one.elem_type == graph.number_of("FLOAT") for one in types)
        self.shapes = [tuple(dim.dim_value for dim in one.shape.dim) for one in types]
        self._others = tuple(n for at, n in enumerate(shape) if at != axis)
        self._runs = shape[axis]
        own = {"", *self._inputs, sequence}.union(*(node.output for node in self._nodes))
        read = {*chain.from_iterable(map(graph.read_by, self._nodes))} - own
        self._is_whole = all(graph.dims(name) is not None for name in read)
        arrays = {name: graph.array(name) for name in read if self._is_whole}
        # In doubles, differences of two results are weights as they are.
        self._constants = {
            name: array.astype(np.float64) if array.dtype == np.float32 else array
            for name, array in arrays.items()
        }
        self._activations = [node for node in self._nodes if node.op_type in _KINDS]

    def recurrence(self) -> _Recurrence | None:
        """The node that computes what the loop does; None if there is none."""
        is_known = self._is_float and self._is_whole and self._runs > 1
        sizes = [*map(prod, self.shapes)]
        least = min(sizes)
        states = [at for at, size in enumerate(sizes) if size == least]
        if not is_known or not least or len(states) > 2 or () in self.shapes:
            return None
        if any(size not in (least, self._runs * least) for size in sizes):
            return None
        orders = permutations(states)
        nodes = chain.from_iterable(map(self._candidates, orders))
        return next(filter(self._is, nodes), None)

    def _candidates(self, states: Sequence[int]) -> Iterator[_Recurrence]:
        """The nodes that the loop may be, with a state, and cells, in this order."""
        gates = self._gates(states[0])
        sigmoids, *others = ([gate for gate in gates if gate.kind == kind] for kind in _KINDS)
        last = [*chain.from_iterable(others)]
        counts = len(states), len(sigmoids), *(gate.kind for gate in last)
        if counts in ((1, 0, "Tanh"), (1, 0, "Relu")):
            yield _Recurrence("RNN", last, states, {"activations": [last[0].kind]})
        for parts in permutations(sigmoids):
            if counts == (2, 3, "Tanh"):
                yield _Recurrence("LSTM", [*parts, *last], states)
            elif counts == (1, 2, "Tanh"):
                yield _Recurrence("GRU", [*parts, *last], states, {"linear_before_reset": 1})
                yield _Recurrence("GRU", [*parts, *last], states)

    def _is(self, node: _Recurrence) -> bool:
        """Whether steps of a node have the same results of random numbers as those of the loop."""
        random, length = np.random.default_rng(0), len(node.gates[0].bias)
        run = self._prepared(self._nodes, self._outputs[1:])
        for factor in (1.0, 0.01):
            sequence = factor * random.standard_normal((self._runs, *self._others))
            values = [factor * random.standard_normal(shape) for shape in self.shapes]
            feeds = {self._sequence: np.moveaxis(sequence, 0, self._axis)}
            of_all = list[Numbers]()
            for place, x in enumerate(sequence):
                # From the same states in each step: differences would grow.
                states = [values[at].reshape(-1, length) for at in node.states]
                states = node.after(x.reshape(len(states[0]), -1), *states)
                values = run(place, values, feeds)
                if not all(map(_is_near, states, (values[at] for at in node.states))):
                    return False
                of_all.append(values[node.states[0]])
            whole = (value for at, value in enumerate(values) if at not in node.states)
            if not all(_is_near(np.array(of_all), value) for value in whole):
                return False
        return True

    def _gates(self, state: int) -> Sequence[_Gate]:
        """What activations read of a step and of a carried value."""
        size = self.shapes[state][-1]
        batch = prod(self.shapes[state]) // size
        length, rest = divmod(prod(self._others), batch)
        names = [node.input[0] for node in self._activations]
        results = [node.output[0] for node in self._activations]
        if not 0 < len(names) <= _MOST_ACTIVATIONS or rest or length + size > _MOST:
            return []
        zeros = [np.zeros(shape) for shape in self.shapes]

        def sequence(x: Numbers) -> Mapping[str, Numbers]:
            """The same numbers in each step, and for each sequence."""
            step = np.tile(x, batch).reshape(self._others)
            whole = np.broadcast_to(step, (self._runs, *self._others))
            return {self._sequence: np.moveaxis(whole, 0, self._axis)}

        nothing, silent = np.zeros(length), np.zeros(size)
        activated = self._prepared(self._nodes, results)(0, zeros, sequence(nothing))
        if any(one.size % (batch * size) for one in activated):
            return []
        others = [node for node in self._nodes if node.op_type not in _KINDS]
        run = self._prepared(others, names)

        def read(x: Numbers, own: Numbers, results_of_others: float) -> Sequence[Numbers]:
            carried = [*zeros]
            carried[state] = np.tile(own, batch).reshape(self.shapes[state])
            filled = (np.full_like(one, results_of_others) for one in activated)
            values = run(0, carried, {**sequence(x), **dict(zip(results, filled, strict=True))})
            shaped = map(np.broadcast_to, values, (one.shape for one in activated))
            return [one.reshape(batch, -1)[0] for one in shaped]

        bias, alone = read(nothing, silent, 1), read(nothing, silent, 0)
        units = [(unit, silent) for unit in np.eye(length)]
        units += [(nothing, unit) for unit in np.eye(size)]
        columns = zip(*(read(*unit, 1) for unit in units), strict=True)
        gates = list[_Gate]()
        for node, own, offset, other in zip(self._activations, columns, bias, alone, strict=True):
            matrix = np.array(own).T - offset[:, None]
            for at in range(0, len(offset), size):
                rows = slice(at, at + size)
                if matrix[rows].any():
                    inputs, state_weights = np.split(matrix[rows], [length], 1)
                    biases = offset[rows], other[rows]
                    gates.append(_Gate(node.op_type, inputs, state_weights, *biases))
        return gates

    def _prepared(self, nodes: Sequence[Any], results: Sequence[str]) -> _Run:
        """What computes results of nodes at a step, by ONNX's reference implementation."""
        needed = self._graph.needed_for(results, nodes)
        read = {*chain.from_iterable(map(self._graph.read_by, needed))}
        described = self._onnx.ValueInfoProto
        graph = self._onnx.GraphProto(
            node=needed,
            input=[described(name=name) for name in read],
            output=[described(name=name) for name in results],
        )
        evaluator = self._reference.ReferenceEvaluator(graph, opsets={"": OPSET})

        def run(
            place: int, carried: Sequence[Numbers], feeds: Mapping[str, Numbers]
        ) -> list[Numbers]:
            ends = np.array(place), np.array(True), *carried
            own = dict(zip(self._inputs, ends, strict=True))
            return evaluator.run(None, {**self._constants, **own, **feeds})

        return run


_Run: TypeAlias = Callable[[int, Sequence[Numbers], Mapping[str, Numbers]], list[Numbers]]
"""Results at a step, with carried values, and other values by their names."""


def _is_near(numbers: Numbers, others: Numbers) -> bool:
    far = np.abs(numbers.reshape(-1) - others.reshape(-1)).max()
    return bool(far <= _NEAR * np.abs(others).max())
