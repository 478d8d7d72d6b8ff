"""
Models of ONNX: their files, opsets, shapes and weights.

Large weights are not parsed: a protobuf message has all of its bytes twice while it is read. They
are found in the file, by the numbers of fields of https://github.com/onnx/onnx/blob/main/onnx/onnx.proto.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial
from importlib import import_module
from pathlib import Path, PurePath
from typing import Any, Final, NamedTuple

from qdialect.algebra.movement import DYNAMIC
from qdialect.frontends.onnx_shapes import with_known_shapes
from qdialect.support.extras import library
from qdialect.support.lazy_numpy import np

_MIN_SIZE: Final = 1 << 14
"""The number of bytes from which on a tensor is large."""

_GRAPH: Final = 7
_INITIALIZER: Final = 5
_NAME: Final = 8
_RAW_DATA: Final = 9
"""Numbers of fields of ModelProto, GraphProto, TensorProto and TensorProto."""

_BYTES: Final = 2
_WIDTHS: Final = {1: 8, 5: 4}
"""The wire type of bytes and messages, and the lengths of those of numbers."""

_PLAIN: Final = ("FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE", "INT8", "UINT8")
"""The types of large tensors whose bytes are those of MLIR, and that no op reads as a shape."""

Weights = Mapping[str, Callable[[], bytes]]
"""By the name of a tensor, a function that reads its elements."""


def shapes_of_inputs(path: str) -> dict[str, tuple[int, ...]]:
    """
    The shapes of the inputs of a model, by their names, with DYNAMIC for open lengths.

    Raises OSError, and errors of `onnx`.
    """
    onnx: Any = library("onnx", "onnx")
    graph = _read(onnx, path)[0].graph
    weights = {tensor.name for tensor in graph.initializer}
    return {
        value.name: tuple(
            dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else DYNAMIC
            for dim in value.type.tensor_type.shape.dim
        )
        for value in graph.input
        if value.name not in weights
    }


class OnnxModel(NamedTuple):
    """A model whose large weights are inputs of its graph, after all other ones."""

    proto: Any
    """An `onnx.ModelProto`."""

    weights: Weights
    """The weights, in the order of these inputs."""


def read_onnx(
    path: str,
    opset: int | None,
    shapes: Mapping[str, Sequence[int]],
    values: Mapping[str, float],
    *,
    is_lowered: bool,
) -> OnnxModel:
    """
    Read a model, convert an older opset, and set shapes and values of inputs, by their names.

    Functions that the importer cannot lower are what ONNX defines them by, if it `is_lowered`.
    Raises OSError, ValueError for names, shapes and values of inputs, and errors of `onnx`.
    """
    onnx: Any = library("onnx", "onnx")
    proto, weights = _read(onnx, path)
    if opset is not None and _version(proto) < opset:
        proto = onnx.version_converter.convert_version(proto, opset)
    graph = proto.graph
    for value in (*graph.input, *graph.output, *graph.value_info):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_value < 0:
                # Some exporters write open lengths so.
                dim.Clear()
    _set_shapes(graph, shapes)
    # Files may say them wrongly, and they follow from the shapes of the inputs.
    declared = dict[str, Any]()
    for value in graph.output:
        if value.type.tensor_type.HasField("shape"):
            declared[value.name] = deepcopy(value.type.tensor_type.shape)
            value.type.tensor_type.ClearField("shape")
    _set_values(onnx, graph, values)
    if is_lowered:
        proto = _with_definitions(onnx, proto, _version(proto))
    proto = with_known_shapes(onnx, proto, weights)
    graph = proto.graph
    _take_out_constants(onnx, graph, weights)
    _write_out(onnx, graph, weights)
    for node in graph.node:
        # Places of values in the module are those of nodes.
        node.name = node.name or next((name for name in node.output if name), "")
    graph.name = graph.name or "main"
    kept = [tensor for tensor in graph.initializer if tensor.name not in weights]
    large = {tensor.name: tensor for tensor in graph.initializer if tensor.name in weights}
    inputs = [value for value in graph.input if value.name not in large]
    del graph.initializer[:], graph.input[:]
    graph.initializer.extend(kept)
    graph.input.extend(inputs)
    for name, tensor in large.items():
        value = onnx.helper.make_tensor_value_info(name, tensor.data_type, tensor.dims)
        graph.input.append(value)
    # The importer needs the shapes and types of all values.
    proto = onnx.shape_inference.infer_shapes(proto, data_prop=True)
    for value in proto.graph.output:
        if value.name in declared and not value.type.tensor_type.HasField("shape"):
            value.type.tensor_type.shape.CopyFrom(declared[value.name])
    return OnnxModel(proto, {name: weights[name] for name in large})


def _version(proto: Any) -> int:
    """The opset of a model."""
    return max((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), default=0)


def with_weights(model: OnnxModel) -> Any:
    """The model with its weights as initializers again."""
    onnx: Any = library("onnx", "onnx")
    graph = model.proto.graph
    for value in graph.input:
        if value.name in model.weights:
            type = value.type.tensor_type
            dims = [dim.dim_value for dim in type.shape.dim]
            data = model.weights[value.name]()
            tensor = onnx.helper.make_tensor(value.name, type.elem_type, dims, data, raw=True)
            graph.initializer.append(tensor)
    return model.proto


# Files


def _read(onnx: Any, path: str) -> tuple[Any, dict[str, Callable[[], bytes]]]:
    weights = dict[str, Callable[[], bytes]]()
    with open(path, "rb") as file:
        if not Path(path).stat().st_size:
            raise ValueError(f"'{path}' is empty")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            places = dict[str, tuple[int, int]]()
            text = _message(data, 0, len(data), {_GRAPH: partial(_graph, places)})
    proto = onnx.load_model_from_string(text)
    plain = {onnx.TensorProto.DataType.Value(name) for name in _PLAIN}
    for tensor in proto.graph.initializer:
        name, place = tensor.name, places.get(tensor.name)
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            place = _load_external(onnx, tensor, path, is_plain=tensor.data_type in plain)
            if place is not None:
                weights[name] = _reader(*place)
        elif place is not None and tensor.data_type in plain:
            weights[name] = _reader(path, *place)
        elif place is not None:
            tensor.raw_data = _reader(path, *place)()
    return proto, weights


def _load_external(
    onnx: Any, tensor: Any, path: str, *, is_plain: bool
) -> tuple[str, int, int] | None:
    """Where a large tensor is in a file beside the model; reads any other one."""
    helper = onnx.external_data_helper
    folder, info = Path(path).parent, helper.ExternalDataInfo(tensor)
    location = PurePath(info.location)
    if not is_plain or not info.length or info.length < _MIN_SIZE:
        helper.load_external_data_for_tensor(tensor, str(folder))
        tensor.data_location = onnx.TensorProto.DEFAULT
        return None
    if location.is_absolute() or ".." in location.parts:
        raise ValueError(f"the data of '{tensor.name}' is outside of '{folder}': '{location}'")
    tensor.data_location = onnx.TensorProto.DEFAULT
    del tensor.external_data[:]
    return str(folder / location), info.offset or 0, info.length


def _reader(path: str, offset: int, size: int) -> Callable[[], bytes]:
    def read() -> bytes:
        with open(path, "rb") as file:
            file.seek(offset)
            data = file.read(size)
        if len(data) < size:
            raise ValueError(f"'{path}' ends within a tensor")
        return data

    return read


def _graph(places: dict[str, tuple[int, int]], data: mmap.mmap, start: int, end: int) -> bytes:
    """A GraphProto without the bytes of large initializers, whose places are added."""

    def tensor(data: mmap.mmap, start: int, end: int) -> bytes:
        name, large = "", None
        for number, wire, _, begin, stop in _fields(data, start, end):
            if number == _NAME and wire == _BYTES:
                name = data[begin:stop].decode()
            elif number == _RAW_DATA and stop - begin >= _MIN_SIZE:
                large = begin, stop - begin
        if large is None or not name:
            return data[start:end]
        places[name] = large
        return _message(data, start, end, {_RAW_DATA: None})

    return _message(data, start, end, {_INITIALIZER: tensor})


_Part = Callable[[mmap.mmap, int, int], bytes]


def _message(data: mmap.mmap, start: int, end: int, parts: Mapping[int, _Part | None]) -> bytes:
    """A message with other bytes in some fields; without those for which there is None."""
    pieces = list[bytes]()
    for number, wire, tag, begin, stop in _fields(data, start, end):
        if number not in parts or wire != _BYTES:
            pieces.append(data[tag:stop])
        elif (change := parts[number]) is not None:
            part = change(data, begin, stop)
            pieces += [_varint(number << 3 | _BYTES), _varint(len(part)), part]
    return b"".join(pieces)


def _fields(data: mmap.mmap, start: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
    """The number, the wire type, and the places of tag, value and end of each field."""
    at = start
    while at < end:
        tag = at
        key, at = _read_varint(data, at, end)
        number, wire = key >> 3, key & 7
        begin = at
        if wire == 0:
            _, at = _read_varint(data, at, end)
        elif wire == _BYTES:
            size, begin = _read_varint(data, at, end)
            at = begin + size
        elif wire in _WIDTHS:
            at += _WIDTHS[wire]
        else:
            raise ValueError("it is no model of ONNX: a field has an unknown type")
        if at > end:
            raise ValueError("it is no model of ONNX: a field ends behind its message")
        yield number, wire, tag, begin, at


def _read_varint(data: mmap.mmap, at: int, end: int) -> tuple[int, int]:
    number = shift = 0
    while at < end:
        byte = data[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return number, at
    raise ValueError("it is no model of ONNX: a number ends behind its message")


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


# Graphs


def _set_shapes(graph: Any, shapes: Mapping[str, Sequence[int]]) -> None:
    for name, shape in shapes.items():
        dims = _input_named(graph, name).type.tensor_type.shape.dim
        if len(dims) != len(shape):
            raise ValueError(f"input '{name}' has rank {len(dims)}, but a shape of {len(shape)}")
        for axis, (dim, length) in enumerate(zip(dims, shape, strict=True)):
            if dim.HasField("dim_value") and dim.dim_value != length:
                raise ValueError(
                    f"axis {axis} of input '{name}' has length {dim.dim_value}, not {length}"
                )
            dim.Clear()
            if length != DYNAMIC:
                dim.dim_value = length
    if shapes:
        # They follow from the shapes of the inputs.
        del graph.value_info[:]


def _set_values(onnx: Any, graph: Any, values: Mapping[str, float]) -> None:
    """Make initializers of inputs, whose elements are all the same."""
    for name, number in values.items():
        value = _input_named(graph, name)
        type = value.type.tensor_type
        dims = [dim.dim_value for dim in type.shape.dim]
        if not all(dim.HasField("dim_value") for dim in type.shape.dim):
            raise ValueError(f"input '{name}' has open lengths: give its shape, too")
        dtype = onnx.helper.tensor_dtype_to_np_dtype(type.elem_type)
        if dtype.kind not in "biuf" or np.full((), number).astype(dtype) != number:
            raise ValueError(f"input '{name}' has elements of type {dtype}, which {number} is not")
        graph.input.remove(value)
        array = np.full(dims, number, dtype)
        graph.initializer.append(onnx.numpy_helper.from_array(array, name))


_DEFINED: Final = frozenset(
    {
        *("Attention", "CastLike", "DynamicQuantizeLinear", "Gelu", "GroupNormalization"),
        *("RMSNormalization", "RotaryEmbedding", "Swish"),
    }
)
"""Functions that the importer lacks, or lowers wrongly, such as with a rounded factor."""


def _with_definitions(onnx: Any, proto: Any, version: int) -> Any:
    """The model with what ONNX defines some functions by in its opset."""
    inliner: Any = import_module(".inliner", onnx.__name__)
    while nodes := [
        node
        for node in proto.graph.node
        if not node.domain and node.op_type in _DEFINED and onnx.defs.has(node.op_type, version)
    ]:
        # Definitions read all attributes, and the types of all inputs.
        for node in nodes:
            given = {attribute.name for attribute in node.attribute}
            known = onnx.defs.get_schema(node.op_type, version).attributes.values()
            defaults = (attribute.default_value for attribute in known)
            node.attribute.extend(one for one in defaults if one.name and one.name not in given)
        proto = onnx.shape_inference.infer_shapes(proto, data_prop=True)
        typed = {value.name for value in (*proto.graph.value_info, *proto.graph.input)}
        proto.graph.value_info.extend(
            onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            for tensor in proto.graph.initializer
            if tensor.name not in typed
        )
        names = [("", name) for name in sorted({node.op_type for node in nodes})]
        try:
            proto = inliner.inline_selected_functions(proto, names, inline_schema_functions=True)
        except RuntimeError:
            # The type of an input is not known. The importer names the op that it lacks.
            break
    return proto


def _write_out(onnx: Any, graph: Any, weights: Weights) -> None:
    """Write ops that the importer lacks, or lowers wrongly, as others."""
    small = (tensor for tensor in graph.initializer if tensor.name not in weights)
    nodes, tensors = list[Any](), {tensor.name: tensor for tensor in small}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].HasField("t"):
            tensors[node.output[0]] = node.attribute[0].t
    count = len(tensors)
    for node in graph.node:
        write = _WRITTEN.get((node.domain, node.op_type))
        nodes += [node] if write is None else write(onnx, node, tensors)
    del graph.node[:]
    graph.node.extend(nodes)
    for name, tensor in [*tensors.items()][count:]:
        tensor.name = name
        graph.initializer.append(tensor)


_Constants = dict[str, Any]
"""Small constants by the names of values, to read and to add to."""


def _scaler(onnx: Any, node: Any, tensors: _Constants) -> list[Any]:
    """A scaler of scikit-learn: `(x - offset) * scale`."""
    make, name, (result,) = onnx.helper.make_node, node.input[0], node.output
    nodes = [make("Cast", [name], [f"{result}.float"], to=onnx.TensorProto.FLOAT)]
    name, numbers = f"{result}.float", {a.name: [*a.floats] for a in node.attribute}
    for function, field in (("Sub", "offset"), ("Mul", "scale")):
        if field in numbers:
            array = np.array(numbers[field], np.float32)
            tensors[f"{result}.{field}"] = onnx.numpy_helper.from_array(array)
            nodes.append(make(function, [name, f"{result}.{field}"], [f"{result}.{function}"]))
            name = f"{result}.{function}"
    return [*nodes, make("Identity", [name], [result])]


def _directions(onnx: Any, node: Any, tensors: _Constants) -> list[Any]:
    """A recurrent op for each direction, where one reads the sequence from its end."""
    make, name = onnx.helper.make_node, next(str(name) for name in node.output if name)
    attributes: dict[str, Any] = {
        a.name: onnx.helper.get_attribute_value(a) for a in node.attribute
    }
    backward = {b"reverse": [True], b"bidirectional": [False, True]}.get(
        attributes.pop("direction", b"forward")
    )
    inputs = list[str](node.input)
    unread = {
        "lengths of sequences": any(inputs[4:5]),
        "peepholes": any(inputs[7:]),
        "a clip": attributes.get("clip"),
        "its activations": {*attributes.get("activations", ())} - {b"Sigmoid", b"Tanh", b"Relu"},
    }
    for what in (what for what, is_there in unread.items() if is_there):
        raise ValueError(f"'{node.op_type}' at '{name}' has no form in other dialects for {what}")
    if backward is None or attributes.get("layout"):
        return [node]
    nodes, count = list[Any](), len(backward)

    def cut(value: str, *place: int) -> str:
        nodes.append(_slice(onnx, value, f"{name}.cut{len(nodes)}", place, tensors))
        return nodes[-1].output[0]

    end = int(np.iinfo(np.int64).min)
    parts = [list[str]() for _ in node.output]
    for number, is_backward in enumerate(backward):
        own = dict(attributes)
        for field in own.keys() & {"activations", "activation_alpha", "activation_beta"}:
            size = len(own[field]) // count
            own[field] = own[field][size * number : size * (number + 1)]
        read = cut(inputs[0], -1, end, 0, -1) if is_backward else inputs[0]
        given = [value and cut(value, number, number + 1, 0, 1) for value in inputs[1:]]
        results = [value and f"{value}.{number}" for value in node.output]
        nodes.append(make(node.op_type, [read, *given], results, name=node.name, **own))
        if is_backward and results[0]:
            results[0] = cut(results[0], -1, end, 0, -1)
        for part, result in zip(parts, results, strict=True):
            part.append(result)
    for index, result in enumerate(node.output):
        if result:
            nodes.append(make("Concat", parts[index], [result], axis=int(not index)))
    return nodes


def _padding(onnx: Any, node: Any, tensors: _Constants) -> list[Any]:
    """Zeros around the part that negative lengths leave: LLVM drops a pad that keeps the shape."""
    (result,), (value, pads, *others) = node.output, [*node.input, "", ""]
    if pads not in tensors or any(a.name == "mode" and a.s != b"constant" for a in node.attribute):
        return [node]
    lengths = onnx.numpy_helper.to_array(tensors[pads])
    if (lengths >= 0).all():
        return [node]
    axes, nodes = range(len(lengths) // 2), list[Any]()
    if others[1]:
        if others[1] not in tensors:
            return [node]
        axes = onnx.numpy_helper.to_array(tensors[others[1]]).tolist()
    for axis, low, high in zip(axes, *lengths.reshape(2, -1).tolist(), strict=True):
        if min(low, high) < 0:
            place = max(0, -low), high if high < 0 else np.iinfo(np.int64).max, axis, 1
            nodes.append(_slice(onnx, value, f"{result}.cut{axis}", place, tensors))
            value = nodes[-1].output[0]
    tensors[f"{result}.pads"] = onnx.numpy_helper.from_array(np.maximum(lengths, 0))
    node.input[0], node.input[1] = value, f"{result}.pads"
    return [*nodes, node]


def _through_integers(onnx: Any, node: Any, _: _Constants) -> list[Any]:
    """A cast to bytes without a sign, through wider integers: the importer has signed bytes."""
    if not any(a.name == "to" and a.i == onnx.TensorProto.UINT8 for a in node.attribute):
        return [node]
    wide = f"{node.output[0]}.wide"
    first = onnx.helper.make_node("Cast", node.input, [wide], to=onnx.TensorProto.INT32)
    node.input[0] = wide
    return [first, node]


def _between_casts(onnx: Any, node: Any, tensors: _Constants) -> list[Any]:
    """A layer of codes as one of numbers between casts, which is what ONNX defines it by."""
    (result,), inputs = node.output, node.input
    slots = [*inputs[1:3], *inputs[4:8]]
    if not {*slots} <= tensors.keys():
        return [node]
    arrays = [onnx.numpy_helper.to_array(tensors[name]) for name in slots]
    is_conv, make = node.op_type == "QLinearConv", onnx.helper.make_node
    nodes = list[Any]()

    def cast(type: str, value: str, name: str, axis: int, *slot: Any) -> str:
        is_single = slot[0].size == 1
        parts = [f"{name}.{field}" for field in ("scale", "zero_point")[: len(slot)]]
        for part, array in zip(parts, slot, strict=True):
            tensors[part] = onnx.numpy_helper.from_array(array.reshape(() if is_single else -1))
        attributes = {} if is_single else {"axis": axis}
        nodes.append(make(type, [value, *parts], [name], **attributes))
        return name

    read = [
        cast("DequantizeLinear", inputs[0], f"{result}.input", -2, *arrays[:2]),
        cast("DequantizeLinear", inputs[3], f"{result}.weight", 0 if is_conv else -1, *arrays[2:4]),
    ]
    for bias in filter(None, inputs[8:]):
        scales = arrays[0] * arrays[2]
        read.append(cast("DequantizeLinear", bias, f"{result}.bias", 0, scales))
    layer = make("Conv" if is_conv else "MatMul", read, [f"{result}.sums"], name=node.name)
    layer.attribute.extend(node.attribute)
    nodes.append(layer)
    cast("QuantizeLinear", layer.output[0], result, -1, *arrays[4:])
    return nodes


def _slice(onnx: Any, value: str, result: str, place: Sequence[int], tensors: _Constants) -> Any:
    """A part of a value: where it starts and ends, along which axis, by which step."""
    parts = [f"{result}.{field}" for field in ("start", "end", "axis", "step")]
    for part, number in zip(parts, place, strict=True):
        tensors[part] = onnx.numpy_helper.from_array(np.array([number]))
    return onnx.helper.make_node("Slice", [value, *parts], [result])


_WRITTEN: Final[Mapping[tuple[str, str], Callable[[Any, Any, _Constants], list[Any]]]] = {
    ("ai.onnx.ml", "Scaler"): _scaler,
    ("", "Cast"): _through_integers,
    ("", "Pad"): _padding,
    **{("", name): _between_casts for name in ("QLinearConv", "QLinearMatMul")},
    **{("", name): _directions for name in ("RNN", "GRU", "LSTM")},
}
"""What writes nodes as others."""


def _input_named(graph: Any, name: str) -> Any:
    """The input of a name. Raises ValueError if there is none."""
    for value in graph.input:
        if value.name == name:
            return value
    known = ", ".join(f"'{value.name}'" for value in graph.input)
    raise ValueError(f"there is no input '{name}'; the inputs are {known}")


def _take_out_constants(onnx: Any, graph: Any, weights: dict[str, Callable[[], bytes]]) -> None:
    """Make initializers of the large constants among the nodes."""
    plain = {onnx.TensorProto.DataType.Value(name) for name in _PLAIN}
    for node in [node for node in graph.node if node.op_type == "Constant"]:
        tensor = next((a.t for a in node.attribute if a.name == "value"), None)
        if tensor is None or tensor.data_type not in plain or len(tensor.raw_data) < _MIN_SIZE:
            continue
        data, (name,) = tensor.raw_data, node.output
        tensor.ClearField("raw_data")
        tensor.name = name
        graph.initializer.append(tensor)
        graph.node.remove(node)
        weights[name] = lambda data=data: data
