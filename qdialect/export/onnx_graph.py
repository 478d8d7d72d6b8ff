"""
Graphs of ONNX: nodes and constants that are added one by one, and the model they become.

https://onnx.ai/onnx/operators/. Opset 21 has QuantizeLinear and DequantizeLinear for 4 and 16 bits,
and for blocks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain, repeat
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

    def __init__(self, outer: Graph | None = None) -> None:
        """The graph of a model, or of a body in an outer one. Raises MissingLibraryError."""
        self._onnx: Any = library("onnx", "onnx")
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._nodes: dict[str, Any] = {}
        """By the name of the result."""
        self._before: dict[str, list[str]] = {}
        """By the name of a result, nodes that come directly before the one that computes it."""
        self._constants: dict[str, Any] = {} if outer is None else outer._constants
        self._known: dict[tuple[Any, ...], str] = {} if outer is None else outer._known
        """The names of small constants, by their elements."""
        self._taken: dict[str, int] = {} if outer is None else outer._taken

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

    def node(
        self, type: str, inputs: Sequence[str], is_spread: bool = False, /, **attributes: Any
    ) -> str:
        """
        A new node with one result; returns its name. An input may be missing: ''.

        If the first input `is_spread`, it is smaller than the result.
        """
        for other, known, idiom in () if is_spread else _IDIOMS:
            read = list[tuple[str | None, str]]()
            if idiom[0] == type and self._reads(type, inputs, idiom[1:], read):
                value, *others = (value for key, value in read if key is None)
                if all(self._is_same(value, one) for one in others):
                    more = [value for key, value in read if key == _CONSTANT]
                    pairs = [(key, value) for key, value in read if key and key != _CONSTANT]
                    numbers = {key: self._number(value) for key, value in pairs}
                    return self.node(other, [value, *more], **known, **numbers)
        if type == "PRelu" and self._is_float(slopes := inputs[1]):
            numbers = self.array(slopes)
            if numbers.all() and numbers.max(initial=1) <= 1:
                # Of the same bits, and its kernels take a third of the time. The product of a slope
                # of zero and an infinite number would be NaN.
                return self.node("Max", [inputs[0], self.node("Mul", inputs)])
        name = self._named(type.lower())
        make = self._onnx.helper.make_node
        self._nodes[name] = make(type, list(inputs), [name], name=name, **attributes)
        return name

    def _reads(
        self,
        type: str,
        names: Sequence[str],
        idioms: Sequence[Any],
        read: list[tuple[str | None, str]],
    ) -> bool:
        """Whether the inputs of a node are computed by idioms, from what is added to `read`."""
        for order in (names, names[::-1]) if type in _COMMUTATIVE else (names,):
            inner = list[tuple[str | None, str]]()
            if len(order) == len(idioms) and all(map(self._is, order, idioms, repeat(inner))):
                read += inner
                return True
        return False

    def _is(self, name: str, idiom: Any, read: list[tuple[str | None, str]]) -> bool:
        if isinstance(idiom, float):
            return self._number(name) == np.float32(idiom)
        if idiom == "":
            return not name
        if idiom is None or isinstance(idiom, str):
            read.append((idiom, name))
            if idiom == _CONSTANT:
                return self._is_float(name)
            return idiom is None or self._number(name) is not None
        node, (type, *inner) = self._nodes.get(name), idiom
        if node is None or node.op_type != type:
            return False
        if isinstance(inner[-1], Mapping):
            known = {key: np.float32(value) for key, value in inner.pop().items()}
            if {attribute.name: np.float32(attribute.f) for attribute in node.attribute} != known:
                return False
        return self._reads(type, [*node.input], inner, read)

    def _number(self, name: str) -> float | None:
        """A number of 32 bits that a value is known to be; kernels of idioms have no others."""
        if not self._is_float(name) or self.dims(name):
            return None
        return float(self.array(name))

    def _is_float(self, name: str) -> bool:
        constant = self._constants.get(name)
        return constant is not None and constant.data_type == self.number_of("FLOAT")

    def array(self, name: str) -> NDArray[Any]:
        """The elements of a constant."""
        return self._onnx.numpy_helper.to_array(self._constants[name])

    def dims(self, name: str) -> Shape | None:
        """The shape of a constant; None for another value."""
        constant = self._constants.get(name)
        return None if constant is None else tuple(constant.dims)

    def like(self, name: str, numbers: Any) -> str:
        """A constant of numbers, of the type of another one; returns its name."""
        type = self._onnx.TensorProto.DataType.Name(self._constants[name].data_type)
        return self.constant(np.asarray(numbers, self.array(name).dtype), type)

    def maker(self, name: str) -> Any:
        """The node that computes a value; None for an input, and for a constant."""
        return self._nodes.get(name)

    def numbers(self, slot: Sequence[str]) -> NDArray[np.floating] | None:
        """What all codes of `u8` stand for; None if there are several scales, or other codes."""
        if len(slot) != 2 or any(self.dims(name) != () for name in slot):
            return None
        scale, zero_point = map(self.array, slot)
        if zero_point.dtype != np.uint8 or scale.dtype != np.float32:
            return None
        return (np.arange(256) - float(zero_point)) * float(scale)

    def needed(self) -> Sequence[Any]:
        """The nodes that outputs need, in order."""
        early = {name for names in self._before.values() for name in names}
        ordered = [
            self._nodes[name]
            for last in self._nodes
            if last not in early
            for name in (*self._before.get(last, ()), last)
        ]
        return self.needed_for([value.name for value in self._outputs], ordered)

    def needed_for(self, values: Sequence[str], nodes: Sequence[Any]) -> Sequence[Any]:
        """Those of the nodes, which are in order, that values need."""
        needed, kept = {*values}, list[Any]()
        for node in reversed(nodes):
            if needed.intersection(node.output):
                kept.append(node)
                needed.update(self.read_by(node))
        return kept[::-1]

    def read_by(self, node: Any) -> Sequence[str]:
        """The values that a node reads, also those inside of it."""
        inner = (inner for attribute in node.attribute for inner in attribute.g.node)
        return [*node.input, *chain.from_iterable(map(self.read_by, inner))]

    def body(self) -> Any:
        """The `GraphProto` of the body of a loop."""
        make = self._onnx.helper.make_graph
        return make(self.needed(), self._named("body"), self._inputs, self._outputs)

    def several(
        self, type: str, inputs: Sequence[str], count: int, **attributes: Any
    ) -> Sequence[str]:
        """A new node with several results; returns their names."""
        names = [self._named(type.lower()) for _ in range(count)]
        make = self._onnx.helper.make_node
        # By one of its results: it is one node.
        self._nodes[names[0]] = make(type, inputs, names, name=names[0], **attributes)
        return names

    def _is_same(self, name: str, other: str) -> bool:
        """Whether two values are equal: each reader of codes has a cast of its own."""
        if name == other:
            return True
        one, two = self._nodes.get(name), self._nodes.get(other)
        return (
            one is not None
            and two is not None
            and (one.op_type, one.input, one.attribute) == (two.op_type, two.input, two.attribute)
        )

    def add_input(self, name: str, type: str, added: str) -> None:
        """Have a node that nothing reads yet be of another type, with one more input."""
        node = self._nodes.pop(name)
        node.op_type = type
        node.input.append(added)
        # Nodes come after those that they read.
        self._nodes[name] = node

    def again(self, node: Any, inputs: Sequence[str]) -> str:
        """A new node like another one that reads other values; returns its name."""
        value = self._onnx.helper.get_attribute_value
        return self.node(node.op_type, inputs, **{a.name: value(a) for a in node.attribute})

    def before(self, reader: Any, type: str, inputs: Sequence[str], **attributes: Any) -> str:
        """A new node that comes before another; returns its name."""
        name = self.node(type, inputs, **attributes)
        self._before.setdefault(reader.output[0], []).append(name)
        return name

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
        nodes = self.needed()
        read = {name for node in nodes for name in self.read_by(node)}
        constants = [tensor for key, tensor in self._constants.items() if key in read]
        graph = onnx.helper.make_graph(nodes, name, self._inputs, self._outputs, constants)
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


_CLAMP: Final = ("Clip", ("Add", None, 3.0), 0.0, 6.0)
SIXTH: Final = MappingProxyType({"alpha": 1 / 6, "beta": 0.5})

_CONSTANT: Final = "constant"
_FALLING: Final = ("Mul", None, "alpha")
_COMPARISONS: Final = (("Less", 1), ("LessOrEqual", 1), ("Greater", -1), ("GreaterOrEqual", -1))

_IDIOMS: Final[Sequence[tuple[str, Mapping[str, float], Sequence[Any]]]] = (
    ("Sigmoid", {}, ("Div", 1.0, ("Add", ("Exp", ("Neg", None)), 1.0))),
    ("HardSigmoid", SIXTH, ("Div", _CLAMP, 6.0)),
    ("HardSigmoid", SIXTH, ("Mul", _CLAMP, 1 / 6)),
    ("HardSigmoid", {}, ("Clip", ("Add", ("Mul", None, "alpha"), "beta"), 0.0, 1.0)),
    ("HardSwish", {}, ("Div", ("Mul", None, _CLAMP), 6.0)),
    ("HardSwish", {}, ("Mul", ("Mul", None, _CLAMP), 1 / 6)),
    ("HardSwish", {}, ("Mul", None, ("HardSigmoid", None, SIXTH))),
    ("LeakyRelu", {}, ("Add", ("Relu", None), ("Mul", ("Clip", None, "", 0.0), "alpha"))),
    *(
        (kind, {}, ("Where", (comparison, None, 0.0), *(falling, None)[::step]))
        for kind, falling in (("LeakyRelu", _FALLING), ("PRelu", ("Mul", None, _CONSTANT)))
        for comparison, step in _COMPARISONS
    ),
)
"""
Nodes that compute the same in one pass, their attributes, and nodes with inputs and attributes.

All inputs that are None are one value; those with a name are an attribute, and a constant is one
more input.
"""

_COMMUTATIVE: Final = frozenset({"Add", "Mul"})

_SMALL: Final = 1 << 12
"""Constants of fewer bytes are written once for all that are equal."""


def _packed(elements: NDArray[Any]) -> NDArray[np.uint8]:
    """Elements of 4 bits, two per byte: the first one in the low bits."""
    flat = elements.reshape(-1).astype(np.uint8) & 0xF
    pairs = np.pad(flat, (0, flat.size % 2)).reshape(-1, 2)
    return (pairs[:, 0] | pairs[:, 1] << 4).astype(np.uint8)
