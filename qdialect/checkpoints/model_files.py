"""
The weights of models of ONNX and OpenVINO, whose elements are in files beside the model.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MatMulNBits
and https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets.html.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias
from xml.etree.ElementTree import Element, ParseError, TreeBuilder, XMLParser, parse

from qdialect.checkpoints.layouts import Hints
from qdialect.checkpoints.matrices import RefusedError
from qdialect.support.extras import library
from qdialect.weights.places import inside
from qdialect.weights.tensor_files import (
    DTYPES,
    MAX_HEADER,
    PACKED,
    TensorEntry,
    TensorInFile,
    WeightsError,
)

_DTYPES: Final[Mapping[int, str]] = {
    **{1: "F32", 2: "U8", 3: "I8", 4: "U16", 5: "I16", 6: "I32", 7: "I64", 9: "BOOL"},
    **{10: "F16", 11: "F64", 12: "U32", 13: "U64", 16: "BF16"},
}
"""By the numbers of `TensorProto.DataType`."""

_PARTS: Final = (".B", ".scales", ".zero_points", ".g_idx")
"""What the inputs of a node of `MatMulNBits` are of its weight, by their order."""

_SHORT: Final = re.compile(r"(nf|[uif])[1-8](e\d+m\d+)?")
"""The types of OpenVINO with at most eight bits."""


_Parts: TypeAlias = "Mapping[str, TensorInFile]"
"""By what each is of a weight: the end of a name that its layout has."""


class ModelFile(NamedTuple):
    """What a model has, by the names of constants: weights have those of their codes."""

    matrices: Mapping[str, tuple[_Parts, Hints]]
    others: Mapping[str, TensorInFile]
    refused: Mapping[str, str]
    """For a matrix that is not understood: the reason."""


class _Weight(NamedTuple):
    name: str
    parts: Mapping[str, str]
    """The constants of a weight, by what they are of it."""
    read: Callable[[_Parts], tuple[_Parts, Hints]]
    """Raises RefusedError."""


def _model_of(constants: Mapping[str, TensorInFile], weights: Iterable[_Weight]) -> ModelFile:
    others = {tensor.entry.name: tensor for tensor in constants.values()}
    matrices, refused = dict[str, tuple[_Parts, Hints]](), dict[str, str]()
    for name, parts, read in weights:
        own = {end: constants[part] for end, part in parts.items() if part in constants}
        try:
            if missing := [end for end in parts if end not in own]:
                reason = f"'{missing[0]}' has no elements in a file beside the model"
                raise RefusedError("missing", reason)
            tensors, hints = read(own)
        except RefusedError as error:
            refused[name] = str(error)
            continue
        key, renamed = name.removesuffix(".weight"), dict[str, TensorInFile]()
        for end, tensor in tensors.items():
            renamed[end] = replace(tensor, entry=tensor.entry._replace(name=key + end))
            others.pop(own[end].entry.name, None)
        matrices[name] = renamed, hints
    return ModelFile(matrices, others, refused)


def read_onnx(path: str) -> ModelFile:
    """
    The tensors of a model, without their elements.

    Raises OSError, MissingLibraryError, and WeightsError for a file that is not as the format says.
    """
    onnx: Any = library("onnx", "onnx")
    with open(path, "rb") as file:
        try:
            graph = onnx.load(file, load_external_data=False).graph
        except Exception as error:
            raise WeightsError(f"{path}: it is no model of ONNX: {error}") from None
    constants = {
        tensor.name: _of_initializer(path, tensor, onnx)
        for tensor in graph.initializer
        if tensor.external_data and tensor.data_type in _DTYPES
    }
    weights = list[_Weight]()
    for node in graph.node:
        parts = {end: name for end, name in zip(_PARTS, node.input[1:], strict=False) if name}
        is_product = (node.domain, node.op_type) == ("com.microsoft", "MatMulNBits")
        if is_product and {*_PARTS[:2]} <= parts.keys():
            numbers = {"bits": 4, **{attribute.name: attribute.i for attribute in node.attribute}}
            weights.append(_Weight(parts[".B"], parts, partial(_of_node, numbers)))
    return _model_of(constants, weights)


def _of_node(numbers: Mapping[str, int], parts: _Parts) -> tuple[_Parts, Hints]:
    """The weight of a node with these attributes. Raises RefusedError."""
    columns, block, bits = (numbers.get(key, 0) for key in ("K", "block_size", "bits"))
    if ".g_idx" in parts:
        raise RefusedError("act-order", "columns are in the order of 'g_idx'")
    if bits not in range(2, 9):
        raise RefusedError("storage", f"codes have {bits} bits")
    if block < 1 or columns % block:
        raise RefusedError("tail", f"{columns} columns are no whole blocks of {block}")
    return parts, Hints(("matmulnbits", "matmulnbits-symmetric"), bits, block)


def _of_initializer(path: str, tensor: Any, onnx: Any) -> TensorInFile:
    """A tensor whose elements are in a file beside. Raises OSError and WeightsError."""
    info = onnx.external_data_helper.ExternalDataInfo(tensor)
    location = os.path.normpath(info.location)
    if os.path.isabs(location) or location.startswith(os.pardir):
        raise WeightsError(
            f"{path}: tensor '{tensor.name}' is in '{location}', which is not beside the model"
        )
    place = inside(os.path.dirname(path) or os.curdir, location)
    entry = TensorEntry(tensor.name, _DTYPES[tensor.data_type], (*tensor.dims,), info.offset or 0)
    return _checked(path, TensorInFile(place, entry), info.length)


def _checked(path: str, tensor: TensorInFile, length: int | None) -> TensorInFile:
    """A tensor that a model says to have `length` bytes. Raises OSError and WeightsError."""
    entry = tensor.entry
    tensor.check_end(os.path.getsize(tensor.path))
    if length is not None and length != entry.nbytes:
        reason = f"has {length} bytes, and {list(entry.shape)} of {entry.dtype} {entry.nbytes}"
        raise WeightsError(f"{path}: tensor '{entry.name}' {reason}")
    return tensor


class _Tree(TreeBuilder):
    def doctype(self, *_: object) -> None:
        """Entities of a document may be of any size."""
        raise ValueError("it has a document type")


class _Network(NamedTuple):
    """The layers of a model, without those inside of others, and where their inputs come from."""

    layers: Mapping[str, Element]
    """By their numbers."""
    inputs: Mapping[tuple[str, str], str]

    @classmethod
    def read(cls, path: str) -> _Network:
        """Raises OSError, ParseError, KeyError and ValueError."""
        root = parse(path, XMLParser(target=_Tree())).getroot()
        layers = {layer.attrib["id"]: layer for layer in root.iterfind("layers/layer")}
        edges = [edge.attrib for edge in root.iterfind("edges/edge")]
        ends = ((edge["to-layer"], edge["to-port"], edge["from-layer"]) for edge in edges)
        return cls(layers, {(number, port): source for number, port, source in ends})

    def kind(self, number: str) -> str:
        return self.layers[number].get("type", "") if number in self.layers else ""

    def source(self, number: str, port: int) -> str:
        """The layer that an input comes from, behind a conversion if there is one."""
        own = self.inputs.get((number, f"{port}"), "")
        return self.inputs.get((own, "0"), "") if self.kind(own) == "Convert" else own

    def parts(self, number: str) -> Mapping[str, str]:
        """The layers that are multiplied to be one, by what they would be of a weight."""
        codes, scales = (self.source(number, port) for port in (0, 1))
        if self.kind(codes) != "Subtract":
            return {".weight": codes, ".weight/scale": scales}
        codes, zeros = (self.source(codes, port) for port in (0, 1))
        return {".weight": codes, ".weight/scale": scales, ".weight/zero_point": zeros}

    def shape(self, number: str) -> list[int]:
        """That of the results of a layer."""
        return [int(dim.text or 0) for dim in self.layers[number].iterfind("output/port/dim")]


def read_openvino(path: str) -> ModelFile:
    """
    The constants of a model, without their elements, which are in a file `.bin` beside it.

    A weight is (codes - zero points) * scales, of which all are constants that may be converted;
    an axis of blocks may be joined afterwards. Raises OSError, and WeightsError for a file that is
    not as the format says.
    """
    if (size := os.path.getsize(path)) > MAX_HEADER:
        raise WeightsError(f"{path}: it has {size} bytes, and {MAX_HEADER} are the most")
    place, entries = str(Path(path).with_suffix(".bin")), dict[str, tuple[TensorEntry, int]]()
    types, shapes = dict[str, str](), dict[str, list[int]]()
    try:
        network = _Network.read(path)
        for number, layer in network.layers.items():
            if network.kind(number) == "Reshape":
                shapes[network.source(number, 0)] = network.shape(number)
            if network.kind(number) == "Const":
                (data,) = (data.attrib for data in layer.findall("data"))
                types[number] = data["element_type"]
                dtype = types[number].upper().replace("I4", PACKED)
                shape = tuple(int(length) for length in data["shape"].split(",") if length)
                start, length = int(data["offset"]), int(data["size"])
                if dtype not in DTYPES:
                    dtype, shape = "U8", (length,)
                entries[number] = TensorEntry(layer.attrib["name"], dtype, shape, start), length
    except (ParseError, KeyError, ValueError) as error:
        raise WeightsError(f"{path}: it is no model of OpenVINO: {error}") from None
    names = {entry.name for entry, _ in entries.values()}
    if len(names) < len(entries):
        raise WeightsError(f"{path}: several constants have the same name")
    constants = {
        number: _checked(path, TensorInFile(place, entry), length)
        for number, (entry, length) in entries.items()
    }
    weights = list[_Weight]()
    for number in network.layers:
        parts = network.parts(number)
        own = {end: types.get(part, "") for end, part in parts.items()}
        if network.kind(number) == "Multiply" and _SHORT.fullmatch(own[".weight"]):
            name = entries[parts[".weight"]][0].name
            read = partial(_of_product, own, shapes.get(number))
            weights.append(_Weight(name, parts, read))
    return _model_of(constants, weights)


def _of_product(
    types: Mapping[str, str], reshaped: Sequence[int] | None, parts: _Parts
) -> tuple[_Parts, Hints]:
    """A weight of constants of some types, perhaps reshaped afterwards. Raises RefusedError."""
    type, zeros = types[".weight"], types.get(".weight/zero_point")
    if type not in ("u4", "i4", "u8", "i8"):
        raise RefusedError("storage", f"codes are {type}")
    if zeros != (type if type[0] == "u" else None):
        raise RefusedError("zero", f"codes are {type}, and zero points {zeros or 'missing'}")
    shape, bits = parts[".weight"].entry.shape, int(type[1])
    for end, tensor in parts.items():
        if end != ".weight" and (not shape or tensor.entry.shape != (*shape[:-1], 1)):
            reason = f"'{end}' is {list(tensor.entry.shape)}, and codes {list(shape)}"
            raise RefusedError("block", reason)
    (*rows, columns), groups = shape, 1
    if len(shape) > 2 and reshaped == [*shape[:-2], shape[-2] * columns]:
        (*rows, groups), columns = rows, shape[-2] * columns
    if columns * bits % 8:
        raise RefusedError("tail", f"{columns} columns of {bits} bits are no whole bytes")
    # Bytes, of which zero points of 4 bits may have those of two rows.
    tensors = {
        end: replace(tensor, entry=tensor.entry._replace(dtype="U8", shape=(tensor.entry.nbytes,)))
        for end, tensor in parts.items()
    }
    scale = parts[".weight/scale"]
    tensors[".weight/scale"] = replace(scale, entry=scale.entry._replace(shape=(*rows, groups)))
    codes = tensors[".weight"].entry._replace(shape=(*rows, columns * bits // 8))
    tensors[".weight"] = replace(tensors[".weight"], entry=codes)
    return tensors, Hints(("openvino" if zeros else "openvino-symmetric",), bits)
