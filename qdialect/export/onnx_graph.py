"""
Graphs of ONNX: nodes and constants that are added one by one, and the model they become.

https://onnx.ai/onnx/operators/. Opset 21 has QuantizeLinear and DequantizeLinear for 4 and 16 bits,
and for blocks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import repeat
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Attribute

from qdialect.algebra.movement import Shape
from qdialect.support.extras import library

OPSET: Final = 21
IR_VERSION: Final = 10
"""The version of the format of files that came with the opset."""

_MAX_FILE: Final = 1 << 30
"""The number of bytes of constants from which on they are in a file of their own."""

_TYPES: Final = {
    "f32": "FLOAT",
    "ui8": "UINT8",
    "i8": "INT8",
    "ui16": "UINT16",
    "i16": "INT16",
    "i32": "INT32",
    "i64": "INT64",
    "index": "INT64",
    "i1": "BOOL",
    "f16": "FLOAT16",
    "f64": "DOUBLE",
    "ui32": "UINT32",
    "ui64": "UINT64",
    "bf16": "BFLOAT16",
    "ui4": "UINT4",
    "i4": "INT4",
}


def type_name(type: Attribute) -> str | None:
    """The name in ONNX of a type of elements; None if it has none."""
    text = str(type)
    return _TYPES.get(text[1:] if text.startswith("si") else text)


class Graph:
    """A graph that grows. Values are named; what no output needs is left out of the model."""

    def __init__(self) -> None:
        """Raises MissingLibraryError."""
        self._onnx: Any = library("onnx", "onnx")
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._nodes: dict[str, Any] = {}
        """By the name of the result."""
        self._constants: dict[str, Any] = {}
        self._known: dict[tuple[Any, ...], str] = {}
        """The names of small constants, by their elements."""
        self._taken: dict[str, int] = {}

    def _named(self, hint: str) -> str:
        """A new name."""
        hint = re.sub(r"[^\w./-]", "_", hint) or "v"
        count = self._taken[hint] = self._taken.get(hint, -1) + 1
        return self._named(f"{hint}_{count}") if count else hint

    def _described(self, name: str, type: str, shape: Shape) -> Any:
        make = self._onnx.helper.make_tensor_value_info
        return make(name, self.number_of(type), list(shape))

    def input(self, hint: str, type: str, shape: Shape) -> str:
        """A new input; returns its name."""
        name = self._named(hint)
        self._inputs.append(self._described(name, type, shape))
        return name

    def output(self, value: str, hint: str, type: str, shape: Shape) -> None:
        """Have a value be an output too."""
        name = self._named(hint)
        self._nodes[name] = self._onnx.helper.make_node("Identity", [value], [name])
        self._outputs.append(self._described(name, type, shape))

    def number_of(self, type: str) -> int:
        """The number of a type of elements in files."""
        return getattr(self._onnx.TensorProto, type)

    def node(self, type: str, inputs: Sequence[str], **attributes: Any) -> str:
        """A new node with one result; returns its name. An input may be missing: ''."""
        for other, idiom in _IDIOMS.items():
            read = list[str]()
            if idiom[0] == type and self._reads(inputs, idiom[1:], read):
                return self.node(other, read)
        name = self._named(type.lower())
        make = self._onnx.helper.make_node
        self._nodes[name] = make(type, list(inputs), [name], name=name, **attributes)
        return name

    def _reads(self, names: Sequence[str], idioms: Sequence[Any], read: list[str]) -> bool:
        """Whether values are computed by idioms, from the values that are added to `read`."""
        return len(names) == len(idioms) and all(map(self._is, names, idioms, repeat(read)))

    def _is(self, name: str, idiom: Any, read: list[str]) -> bool:
        if isinstance(idiom, float):
            constant = self._constants.get(name)
            numbers = self._onnx.numpy_helper
            return (
                constant is not None and not constant.dims and numbers.to_array(constant) == idiom
            )
        if idiom is None:
            read.append(name)
            return True
        node, (type, *inner) = self._nodes.get(name), idiom
        return node is not None and node.op_type == type and self._reads(node.input, inner, read)

    def add_input(self, name: str, type: str, added: str) -> None:
        """Have a node that nothing reads yet be of another type, with one more input."""
        node = self._nodes.pop(name)
        node.op_type = type
        node.input.append(added)
        # Nodes come after those that they read.
        self._nodes[name] = node

    def constant(self, elements: NDArray[Any], type: str) -> str:
        """A constant of a type, whose elements have the bits of those given; returns its name."""
        packed = _packed(elements) if type.endswith("INT4") else elements
        data = np.ascontiguousarray(packed).tobytes()
        key = (data, type, elements.shape) if len(data) < _SMALL else None
        if key is not None and (known := self._known.get(key)) is not None:
            return known
        name = self._named("c")
        tensor = self._onnx.TensorProto(
            name=name,
            data_type=self.number_of(type),
            dims=elements.shape,
            raw_data=data,
        )
        self._constants[name] = tensor
        if key is not None:
            self._known[key] = name
        return name

    def integers(self, numbers: Sequence[int]) -> str:
        """A list of integers, such as a shape."""
        return self.constant(np.array(numbers, np.int64), "INT64")

    def model(self, name: str, beside: str) -> tuple[bytes, Sequence[bytes]]:
        """
        The model, and what a file `beside` it holds: the elements, if they have more than 1 GiB.

        Raises the errors of `onnx.checker`.
        """
        onnx = self._onnx
        needed = {value.name for value in self._outputs}
        nodes: list[Any] = []
        for node in reversed(self._nodes.values()):
            if needed.intersection(node.output):
                needed.update(node.input)
                nodes.append(node)
        constants = [tensor for key, tensor in self._constants.items() if key in needed]
        graph = onnx.helper.make_graph(nodes[::-1], name, self._inputs, self._outputs, constants)
        opset = onnx.helper.make_opsetid("", OPSET)
        model = onnx.helper.make_model(
            graph, opset_imports=[opset], ir_version=IR_VERSION, producer_name="qdialect"
        )
        parts: list[bytes] = []
        if sum(len(tensor.raw_data) for tensor in constants) > _MAX_FILE:
            place = 0
            for tensor in model.graph.initializer:
                if (size := len(tensor.raw_data)) >= _SMALL:
                    parts.append(tensor.raw_data)
                    tensor.ClearField("raw_data")
                    tensor.data_location = onnx.TensorProto.EXTERNAL
                    for key, value in (("location", beside), ("offset", place), ("length", size)):
                        tensor.external_data.add(key=key, value=str(value))
                    place += size
        else:
            onnx.checker.check_model(model)
        return model.SerializeToString(), parts


_IDIOMS: Final[Mapping[str, Sequence[Any]]] = MappingProxyType(
    {"Sigmoid": ("Div", 1.0, ("Add", ("Exp", ("Neg", None)), 1.0))}
)
"""By the node that computes the same in one pass: nodes with their inputs; None is any value."""

_SMALL: Final = 1 << 12
"""Constants of fewer bytes are written once for all that are equal."""


def _packed(elements: NDArray[Any]) -> NDArray[np.uint8]:
    """Elements of 4 bits, two per byte: the first one in the low bits."""
    flat = elements.reshape(-1).astype(np.uint8) & 0xF
    pairs = np.pad(flat, (0, flat.size % 2)).reshape(-1, 2)
    return (pairs[:, 0] | pairs[:, 1] << 4).astype(np.uint8)
