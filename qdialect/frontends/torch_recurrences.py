"""
Recurrent layers of PyTorch: loops, as those of ONNX are, and not the ops of all steps.

torch-mlir has no form of them, but it has one of ONNX's nodes, which it lowers to loops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from qdialect.support.extras import library

_SPACE: Final = "qdialect"
"""The namespace of ops of PyTorch that stand for nodes."""

_DIALECT: Final = "torch"
"""The dialect of torch-mlir, with which its names start."""

_OPSET: Final = "17 : si64"


class _Node(NamedTuple):
    """The node of ONNX that computes a layer."""

    type: str
    gates: Sequence[int]
    """The order of its gates, by their places in weights of PyTorch."""

    results: int = 2
    attributes: Mapping[str, str] = MappingProxyType({})


_NODES: Final = {
    "lstm": _Node("LSTM", (0, 3, 1, 2), 3),
    "gru": _Node("GRU", (1, 0, 2), attributes={"linear_before_reset": "1 : si64"}),
    "rnn_tanh": _Node("RNN", (0,)),
    "rnn_relu": _Node("RNN", (0,), attributes={"activations": '["Relu"]'}),
}


class RecurrentLayers:
    """
    Ops of PyTorch that stand for nodes, as long as this object lives.

    https://docs.pytorch.org/docs/stable/library.html. Raises MissingLibraryError.
    """

    def __init__(self) -> None:
        torch: Any = library("torch", "torch")
        self._torch = torch
        self._library: Any = torch.library.Library(_SPACE, "FRAGMENT")
        for name, node in _NODES.items():
            states = [f"Tensor state{at}" for at in range(node.results - 1)]
            read = ["Tensor x", "Tensor w", "Tensor r", "Tensor b", "Tensor? lengths", *states]
            results = ", ".join(["Tensor"] * node.results)
            self._library.define(f"{name}({', '.join(read)}) -> ({results})")
            shapes = torch.library.register_fake(f"{_SPACE}::{name}", lib=self._library)
            shapes(_results_like)

    @classmethod
    def of(cls, program: Any) -> RecurrentLayers | None:
        """Those for an `ExportedProgram`; None if it has no recurrent layer."""
        ops = {f"aten.{name}.input" for name in _NODES}
        return cls() if any(str(node.target) in ops for node in program.graph.nodes) else None

    def decompositions(self, others: Mapping[Any, Any]) -> Mapping[Any, Callable[..., Any]]:
        """
        For each op of PyTorch with recurrent layers, a function that writes it as those ops.

        Layers that no node computes, and single steps, are decomposed as by `others`.
        """
        aten = self._torch.ops.aten
        ops = {name: getattr(aten, name).input for name in _NODES}
        return {op: self._decomposition(name, others[op]) for name, op in ops.items()}

    def _decomposition(self, name: str, of_steps: Callable[..., Any]) -> Callable[..., Any]:
        torch, gates = self._torch, _NODES[name].gates
        layer = getattr(getattr(torch.ops, _SPACE), name)

        def ordered(weight: Any) -> Any:
            parts = weight.chunk(len(gates))
            return torch.cat([parts[gate] for gate in gates])[None]

        def decomposed(x: Any, states: Any, weights: Sequence[Any], *more: Any) -> Any:
            has_biases, layers, dropout, trains, is_both, is_batch_first = more
            ways, count = 1 + is_both, 2 + 2 * has_biases
            steps = x.shape[1 if is_batch_first else 0]
            is_static = all(isinstance(length, int) for length in x.shape) and steps > 1
            # Projections are one more weight for each layer.
            if len(weights) != layers * ways * count or (trains and dropout) or not is_static:
                return of_steps(x, states, weights, *more)
            given: Sequence[Any] = states if _NODES[name].results > 2 else [states]
            last = [list[Any]() for _ in given]
            x = x.transpose(0, 1) if is_batch_first else x
            for number in range(layers):
                of_ways = list[Any]()
                for at in range(number * ways, (number + 1) * ways):
                    inputs, state, *biases = map(ordered, weights[at * count : (at + 1) * count])
                    zeros = inputs.new_zeros((1, 2 * inputs.shape[1]))
                    bias = torch.cat(biases, 1) if biases else zeros
                    own = [one[at : at + 1] for one in given]
                    is_backward = at % ways
                    read = x.flip(0) if is_backward else x
                    whole, *ends = layer(read, inputs, state, bias, None, *own)
                    whole = whole.squeeze(1)
                    of_ways.append(whole.flip(0) if is_backward else whole)
                    for of_layers, end in zip(last, ends, strict=True):
                        of_layers.append(end)
                x = torch.cat(of_ways, -1)
            return (x.transpose(0, 1) if is_batch_first else x, *map(torch.cat, last))

        return decomposed

    def importer(self, hooks: object) -> Any:
        """An importer of torch-mlir that writes those ops as loops."""
        of_fx: Any = library("torch_mlir.extras.fx_importer", "torch")
        ir: Any = library("torch_mlir.ir", "torch")
        library("torch_mlir.dialects.torch", "torch").register_dialect(context := ir.Context())

        def import_frozen_program(self: Any, *arguments: Any, **more: Any) -> Any:
            function = of_fx.FxImporter.import_frozen_program(self, *arguments, **more)
            _write_as_loops(self.module.operation)
            return function

        methods = {"import_frozen_program": import_frozen_program}
        return type("_Importer", (of_fx.FxImporter,), methods)(context=context, hooks=hooks)


def _results_like(x: Any, w: Any, r: Any, b: Any, lengths: Any, *states: Any) -> Any:
    whole = x.new_empty((x.shape[0], 1, x.shape[1], r.shape[-1]))
    return (whole, *(state.new_empty(state.shape) for state in states))


def _write_as_loops(module: Any) -> None:
    """Write the ops of a module of torch-mlir that stand for nodes as loops."""
    ir: Any = library("torch_mlir.ir", "torch")
    passes: Any = library("torch_mlir.passmanager", "torch")
    stem, version = f"{_DIALECT}.{_SPACE}.", f"{_DIALECT}.onnx_meta.opset_version"
    functions = [*module.regions[0].blocks[0].operations]
    with module.context:
        for function in functions:
            function.attributes[version] = ir.Attribute.parse(_OPSET)
            for op in function.regions[0].blocks[0].operations:
                attributes = op.operation.attributes
                name = ir.StringAttr(attributes["name"]).value if "name" in attributes else ""
                if name.startswith(stem):
                    node = _NODES[name.removeprefix(stem)]
                    attributes["name"] = ir.StringAttr.get(f"onnx.{node.type}")
                    # Of `!torch.vtensor<[1,2,3],f32>`, the state.
                    size = str(op.results[1].type).partition("]")[0].rpartition(",")[2]
                    for key, text in {"hidden_size": f"{size} : si64", **node.attributes}.items():
                        attributes[f"{_DIALECT}.onnx.{key}"] = ir.Attribute.parse(text)
        pipeline = "builtin.module(func.func(convert-torch-onnx-to-torch))"
        passes.PassManager.parse(pipeline).run(module)
        for function in functions:
            del function.attributes[version]
